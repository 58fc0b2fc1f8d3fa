"""Results within a budget of tokens, with the call that returns what was cut; and results without empty fields."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from findingaid.serve.calls import call_from, call_of, with_next_call

BYTES_PER_TOKEN = 3.5
"""Bytes of JSON that count as one token. Tokenizers differ between models; this is low for English text."""

LENGTHS = (4_000, 2_000, 1_000, 500, 250, 120)
"""Lengths in characters that long texts are cut to, tried in this order until the result fits."""

UNCUT_KEYS = frozenset({"answer", "rendered", "artifact_id", "id", "url"})
"""Keys whose texts are never cut: the caller chose their size, or a truncated one would lead nowhere."""

MIN_ENTRIES = 1
"""Minimum number of entries that a list keeps."""

OUTLINE_SHARE = 3
"""An outline may take 1/3 of a result that has to be cut."""


def truncate(result: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
    """Return a result of at most `max_tokens`, with a note under `shortened` if something was cut.

    A part of a text ends earlier, so that the next part begins there. In other results, long texts are cut first. Then
    the longest list repeatedly loses its second half, because lists start with the best entries. The result may stay
    larger when texts and lists cannot be cut further.
    """
    most = int(max_tokens * BYTES_PER_TOKEN)
    if _size(result) <= most:
        return dict(result)
    if "next_offset" in result:
        return _end_earlier(result, most)
    for length in LENGTHS:
        cut: dict[str, Any] = {**_cut(result, length), "shortened": _note(result, length)}
        if _size(cut) <= most:
            return cut
    while (longest := _longest(cut)) and _size(cut) > most:
        del longest[max(MIN_ENTRIES, len(longest) // 2) :]
        cut["shortened"] = f"{_note(result, LENGTHS[-1])}; lists are cut after their first entries: ask for less"
    return cut


def count_fitting(result: Mapping[str, Any], name: str, max_tokens: int) -> int:
    """Return the number of first entries of a list that fit into a result of `max_tokens`, at least 1."""
    left = int(max_tokens * BYTES_PER_TOKEN) - _size({**result, name: []})
    for fitting, entry in enumerate(result[name]):
        left -= _size(entry) + len(",")
        if left < 0:
            return max(MIN_ENTRIES, fitting)
    return len(result[name])


def count_tokens(value: Any) -> int:
    """Estimate the tokens of a value as JSON."""
    return math.ceil(_size(value) / BYTES_PER_TOKEN)


def without_empty(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result without fields that are null, "", [] or {}; lists of the result itself stay."""
    return {key: _without_empty(value) for key, value in result.items() if isinstance(value, list) or not _empty(value)}


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_empty(each) for key, each in value.items() if not _empty(each)}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value


def _empty(value: Any) -> bool:
    return value is None or value in ("", [], {})


def _end_earlier(part: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Return a part of a text that ends earlier, with the call that reads on from there.

    It begins with the passage that was asked for.
    """
    outline = list(part["outline"])
    if part["passage"] and part["passage"][0] > part["offset"]:
        start = part["passage"][0]
        part = {**part, "offset": start, "text": part["text"][start - part["offset"] :]}
    while outline and _size(outline) > most // OUTLINE_SHARE:
        del outline[len(outline) // 2 :]
    text: str = part["text"]
    while True:
        cut = with_next_call({**part, "outline": outline, "text": text} | _next(part, text))
        if _size(cut) <= most or len(text) <= LENGTHS[-1]:
            return cut
        text = text[: max(LENGTHS[-1], min(len(text) - 1, len(text) * most // _size(cut)))]


def _next(part: Mapping[str, Any], text: str) -> dict[str, Any]:
    end = part["offset"] + len(text)
    return {"next_offset": end if end < part["chars"] else None}


def _note(whole: Mapping[str, Any], length: int) -> str:
    """Return a note on texts that are cut, with a call that opens the first of them."""
    note = f"texts are cut to {length} characters"
    lists = [each for each in whole.values() if isinstance(each, list)]
    entries = [each for entries in lists for each in entries if isinstance(each, Mapping)]
    for entry in entries:
        if "record_id" in entry and _has_long(entry, length):
            corpus = entry.get("corpus") or whole.get("corpus")
            return f"{note}: {call_of({'artifact_id': entry['record_id'], 'corpus': corpus})} opens the first of them"
    if "artifact_id" in whole and _has_long(whole, length):
        return f"{note}: {call_from(whole, length - 1)} reads on"
    return note


def _has_long(shown: Mapping[str, Any], length: int) -> bool:
    return any(isinstance(value, str) and len(value) > length for value in shown.values())


def _size(value: Any) -> int:
    """Return the bytes of a value as JSON."""
    return len(orjson.dumps(value))


def _cut(value: Any, length: int, name: str = "") -> Any:
    """Return a copy with every text cut to `length` characters, except under keys in `UNCUT_KEYS`."""
    if isinstance(value, str):
        return value if len(value) <= length or name in UNCUT_KEYS else f"{value[: length - 1]}…"
    if isinstance(value, Mapping):
        return {key: _cut(each, length, key) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_cut(each, length) for each in value]
    return value


def _longest(value: Any) -> list[Any] | None:
    """Return the largest list within a value that can lose an entry, or None.

    Spans cannot lose an entry. Lists inside a list that can are not considered.
    """
    if isinstance(value, list) and len(value) > MIN_ENTRIES and not _is_span(value):
        return value
    within = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return max(filter(None, map(_longest, within)), key=_size, default=None)


def _is_span(value: Sequence[Any]) -> bool:
    return len(value) == 2 and all(isinstance(each, int) for each in value)
