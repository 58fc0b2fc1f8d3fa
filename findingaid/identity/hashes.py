"""Ids derived from content, never from a clock, a random number or the order of enumeration."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

DIGEST_BYTES = 16
"""128 bits: the chance that any two of a billion contents share an id is 1e-20."""


JSON_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def text_hash(text: str) -> str:
    """Return the id of a text, 32 hexadecimal digits. Lone surrogates are hashed as they are."""
    return _digest(text.encode("utf-8", "surrogatepass"))


def bytes_hash(content: bytes | memoryview) -> str:
    """Return the id of bytes, 32 hexadecimal digits."""
    return _digest(content)


def content_hash(*parts: Any) -> str:
    """Return one id for JSON-like parts; the order of keys in mappings does not matter."""
    return _digest(_canonical(parts))


def to_json(value: Any) -> str:
    """Return JSON with sorted keys; sets become sorted lists, and other types unknown to JSON (dates, paths) text."""
    return _canonical(value).decode()


def payload_bytes(raw: Any) -> int:
    """Return the size in bytes of a payload as stored: of its text, or of its fields as JSON."""
    return len((raw if isinstance(raw, str) else to_json(raw)).encode())


def call_key(producer: str, input_hash: str) -> str:
    """Return the id of the result of one producer for one input; the key of both caches."""
    return text_hash(f"{producer}\n{input_hash}")


def artifact_version(raw: Any, metadata: Mapping[str, Any]) -> str:
    """Return the version of an artifact: a hash of its payload and of the metadata that may become filter fields."""
    return content_hash(raw, metadata)


def embeddings_version(text_hashes: Iterable[str], embedder_id: str) -> str:
    """Return the version of the embeddings of an artifact: a hash of all its texts and of the embedder id."""
    return content_hash(sorted(set(text_hashes)), embedder_id)


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, default=_known, option=JSON_OPTIONS)


def _known(value: Any) -> Any:
    """Return a value of a type unknown to JSON as one that it knows, the same in every process."""
    return sorted(value, key=to_json) if isinstance(value, set | frozenset) else str(value)


def _digest(content: bytes | memoryview) -> str:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def record_id(corpus: str, artifact_id: str, kind: str, surface_index: int | str) -> str:
    """Return the id of a record, made from its place and not from its text, so that an edit replaces it.

    For a claim or a summary node, `surface_index` is the id of its content.
    """
    return content_hash("record", corpus, artifact_id, kind, surface_index)
