"""Ids derived from content, never from a clock, a random number or the order of enumeration."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

DIGEST_BYTES = 16
"""128 bits: the chance that any two of a billion contents share an id is 1e-20."""


SAMPLES, SAMPLE_BYTES = 1_024, 1 << 16
"""Larger files of weights than these samples together, 64 MB, are not read whole, or every start would take seconds."""

JSON_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def text_hash(text: str) -> str:
    """Return the id of a text, 32 hexadecimal digits. Lone surrogates are hashed as they are."""
    return _digest(text.encode("utf-8", "surrogatepass"))


def bytes_hash(content: bytes | memoryview) -> str:
    """Return the id of bytes, 32 hexadecimal digits."""
    return _digest(content)


def weights_hash(model: Path) -> str:
    """Return the id of a model: of its one file, or of all files in its folder.

    A large file counts by its size and by samples at equal distances, both ends included. Other weights differ in them,
    since training changes whole layers.
    """
    files = [model] if model.is_file() else sorted(path for path in model.rglob("*") if path.is_file())
    return content_hash(*((path.relative_to(model.parent).as_posix(), _file_hash(path)) for path in files))


def _file_hash(path: Path) -> str:
    size = path.stat().st_size
    digest = hashlib.blake2b(str(size).encode(), digest_size=DIGEST_BYTES)
    distance = max(SAMPLE_BYTES, (size - SAMPLE_BYTES) // (SAMPLES - 1))
    with path.open("rb") as file:
        for start in range(0, size, distance):
            file.seek(start)
            digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()


def content_hash(*parts: Any) -> str:
    """Return one id for JSON-like parts; the order of keys in mappings does not matter."""
    return _digest(_canonical(parts))


def to_json(value: Any) -> str:
    """Return JSON with sorted keys; types unknown to JSON (dates, paths) become text."""
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
    return orjson.dumps(value, default=str, option=JSON_OPTIONS)


def _digest(content: bytes | memoryview) -> str:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def record_id(corpus: str, artifact_id: str, kind: str, surface_index: int | str) -> str:
    """Return the id of a record, made from its place and not from its text, so that an edit replaces it.

    For a claim or a summary node, `surface_index` is the id of its content.
    """
    return content_hash("record", corpus, artifact_id, kind, surface_index)
