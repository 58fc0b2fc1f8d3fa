"""Results cut to what a model's context has room for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

LENGTHS = (4_000, 2_000, 1_000, 500, 250, 120)
"""Characters that long texts are cut to, the first of these with which everything fits."""

WHOLE = frozenset({"answer", "rendered"})
"""What has a bound of its own that the caller chose, and says nothing when it is cut."""

FEWEST = 1
"""Entries that a list keeps."""


def sized(result: Mapping[str, Any], most: int) -> dict[str, Any]:
    """A result in at most so many characters of JSON, as far as texts and lists can be cut; `shortened` says how.

    First the longest texts are cut, then the longest list loses its end, since what is best comes first.
    """
    whole = _once(result)
    if _size(whole) <= most:
        return whole
    for length in LENGTHS:
        cut: dict[str, Any] = _cut(whole, length)
        said = f"texts are cut to {length} characters: show has them whole"
        if _size(cut) + len(said) <= most:
            return cut | {"shortened": said}
    said = f"texts are cut to {LENGTHS[-1]} characters, and lists after their best: ask for less at once"
    while (longest := _longest(cut)) and _size(cut) + len(said) > most:
        del longest[max(FEWEST, len(longest) // 2) :]
    return cut | {"shortened": said}


def _once(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result without the texts that it says again: a context pack has those of its pieces in `rendered`, and of what
    did not fit none is wanted."""
    if "rendered" not in result:
        return dict(result)
    pieces = [{**piece, "text": ""} for piece in result["pieces"]]
    dropped = [{**each, "piece": {**each["piece"], "text": ""}} for each in result["dropped"]]
    return {**result, "pieces": pieces, "dropped": dropped}


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _cut(value: Any, length: int, name: str = "") -> Any:
    """A copy with its texts cut."""
    if isinstance(value, str):
        return value if len(value) <= length or name in WHOLE else f"{value[: length - 1]}…"
    if isinstance(value, Mapping):
        return {key: _cut(each, length, key) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_cut(each, length) for each in value]
    return value


def _longest(value: Any) -> list[Any] | None:
    """The list within a value that takes most room and can lose an entry; of those within each other the outer."""
    if isinstance(value, list) and len(value) > FEWEST and not _is_span(value):
        return value
    within = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return max(filter(None, map(_longest, within)), key=_size, default=None)


def _is_span(value: Sequence[Any]) -> bool:
    return len(value) == 2 and all(isinstance(each, int) for each in value)
