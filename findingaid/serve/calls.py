"""Calls that results name, so that a client can read on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def with_next_call(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part of a text with the call that returns the part after it; "" at the end of the text."""
    more = "" if part["next_offset"] is None else call_from(part, part["next_offset"])
    return {**part, "next": more}


def call_from(shown: Mapping[str, Any], offset: int) -> str:
    """Return the call of `show` that reads on from an offset, in the version that is shown and no other."""
    return call_of(shown, offset=offset, artifact_version=shown.get("artifact_version"))


def call_of(shown: Mapping[str, Any], **more: Any) -> str:
    """Return the call of `show` that opens an artifact, or its bundled file that is shown."""
    given = {"id": shown["artifact_id"], "corpus": shown["corpus"], "file": shown.get("file"), **more}
    return f"show({', '.join(f'{name}={literal(value)}' for name, value in given.items() if value is not None)})"


def literal(value: Any) -> str:
    """Return a value as it is written in a call."""
    return json.dumps(value, ensure_ascii=False)
