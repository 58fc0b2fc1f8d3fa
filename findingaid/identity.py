"""Ids that come from content: never a clock, a random number or an order of enumeration."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import inspect
import sys
import warnings
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import orjson

DIGEST_BYTES = 16
"""128 bits: a chance of 1e-20 that any two of a billion contents share an id."""


JSON_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def text_hash(text: str) -> str:
    """The id of a text, 32 hexadecimal digits. Lone surrogates count as what they are."""
    return _digest(text.encode("utf-8", "surrogatepass"))


def bytes_hash(content: bytes) -> str:
    """The id of bytes, 32 hexadecimal digits."""
    return _digest(content)


def content_hash(*parts: Any) -> str:
    """One id for JSON-like parts; mappings are the same in any order of their keys."""
    return _digest(_canonical(parts))


def to_json(value: Any) -> str:
    """JSON with sorted keys; what JSON does not know (dates, paths) as text."""
    return _canonical(value).decode()


def payload_bytes(raw: Any) -> int:
    """The size of a payload as it is stored: of its text, or of its fields as JSON."""
    return len((raw if isinstance(raw, str) else to_json(raw)).encode())


def call_key(producer: str, input_hash: str) -> str:
    """The id of what one producer makes of one input; the key of both caches."""
    return text_hash(f"{producer}\n{input_hash}")


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, default=str, option=JSON_OPTIONS)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def record_id(corpus: str, artifact_id: str, kind: str, surface_index: int | str) -> str:
    """The id of a record: where it stands, not what it says, so that an edit replaces it.

    Of a claim or a summary node the place is the id of its content.
    """
    return content_hash("record", corpus, artifact_id, kind, surface_index)


def producer_id(producer: object) -> str:
    """A short readable id of a strategy or another producer: "Chunked-1f2e…".

    Covers the class, every parameter (nested producers and collections included), its `version`, and for
    code that findingaid does not ship the parsed source of its module and of its base classes' modules.
    Warns (UserWarning) for what has no identity of its own, such as a lambda.
    """
    return f"{type(producer).__name__}-{content_hash(describe(producer))[:12]}"


def describe(value: Any) -> Any:
    """`value` as JSON that is equal in every process exactly when the value behaves the same."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | Path):
        return [type(value).__name__, str(value)]
    if isinstance(value, Enum):
        return [type(value).__qualname__, value.name]
    if isinstance(value, Mapping):
        return {"mapping": sorted(([describe(k), describe(v)] for k, v in value.items()), key=repr)}
    if isinstance(value, set | frozenset):
        return {"set": sorted((describe(v) for v in value), key=repr)}
    if isinstance(value, list | tuple):
        return [describe(v) for v in value]
    if inspect.isroutine(value) or inspect.isclass(value):
        return _describe_code(value)
    identity = getattr(value, "id", None)
    if isinstance(identity, str):
        return [_qualified(type(value)), identity]
    return [_describe_code(type(value)), getattr(value, "version", None), describe(_parameters(value))]


def _parameters(value: object) -> dict[str, Any]:
    """The parameters of an object: fields of a dataclass, else the attributes it keeps."""
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return {k: v for k, v in getattr(value, "__dict__", {}).items() if not k.startswith("_cached")}


def _qualified(code: Any) -> str:
    return f"{getattr(code, '__module__', '?')}.{getattr(code, '__qualname__', type(code).__qualname__)}"


def _describe_code(code: Any) -> Any:
    name = _qualified(code)
    if "<lambda>" in name or "<locals>" in name:
        warnings.warn(
            f"{name} has no identity of its own: a change of what it closes over is not noticed."
            " Move it to the top level of a module, or give its object a `version`.",
            UserWarning,
            stacklevel=2,
        )
    modules = dict.fromkeys(getattr(c, "__module__", None) or "builtins" for c in getattr(code, "__mro__", (code,)))
    own = [module for module in modules if not _shipped(module)]
    return [name, *map(_module_hash, own)] if own else name


def _shipped(module: str) -> bool:
    return module.split(".")[0] in {"findingaid", "builtins", *sys.stdlib_module_names} and module != "__main__"


@cache
def _module_hash(module: str) -> str | None:
    """A hash of a module's parsed source, so that a helper counts and a comment does not; None without source."""
    try:
        return text_hash(ast.dump(ast.parse(inspect.getsource(importlib.import_module(module)))))
    except (ImportError, OSError, TypeError, SyntaxError):
        return None
