"""Reading of an artifact's text part by part, with an outline of the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from findingaid.corpus import Corpus
from findingaid.errors import QueryError
from findingaid.model import Fresh
from findingaid.query.lookup.artifact import ArtifactView, read_artifact
from findingaid.query.lookup.disclosure import Disclosure, disclose_artifact
from findingaid.query.search.hits import RecordView
from findingaid.query.search.reader import Reader
from findingaid.text.cleaning import MARKDOWN
from findingaid.text.headings import headings_in
from findingaid.text.markdown import Span

CHARS = 12_000
"""Characters of a part, unless the caller asks for another number."""

ENTRIES = 60
"""Maximum number of entries in an outline. Deeper headings are left out first."""

TITLE_CHARS = 80
"""Characters of a record's first line that an outline shows."""


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """Heading, or first line of a record, with the offset at which it begins."""

    title: str
    level: int
    offset: int


@dataclass(frozen=True, slots=True)
class Reading:
    """Part of an artifact's text, which begins at `offset`; `next_offset` is None at the end of the text.

    All offsets count characters of the text, which has `chars` of them. `passage` is the span of the requested record.
    The outline is empty if the caller asked for a place. `file` names the bundled file that the text is from.
    """

    corpus: str
    artifact_id: str
    title: str
    artifact_version: str
    chars: int
    outline: Sequence[OutlineEntry]
    passage: Span | None
    offset: int
    text: str
    next_offset: int | None
    file: str | None = None
    fresh: Fresh | None = None
    fresh_note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_text(
    reader: Reader,
    corpora: Mapping[str, Corpus],
    wanted: str,
    within: Sequence[str] | None = None,
    *,
    file: str | None = None,
    offset: int | None = None,
    span: Span | None = None,
    chars: int = CHARS,
) -> Reading:
    """Return at most `chars` characters of an artifact's text, or of one of its bundled files.

    The text begins at `offset`, or is that of `span`. Without either it begins at the record that `wanted` names, or at
    the start if the whole text fits or `wanted` names an artifact. The text of an artifact without a body is that of
    its records, one after another. Raises QueryError.
    """
    if chars < 1:
        raise QueryError(f"chars must be at least 1, got {chars}")
    if offset is not None and span is not None:
        raise QueryError("offset and span: give only one of them")
    view = read_artifact(reader, wanted, within)
    shown = _disclose(reader, corpora, view, file)
    text, places = _place_records(view, shown)
    passage = places.get(wanted)
    if span is not None and file is None:
        span = _in_text(view, places, span, len(text))
    start, stop = _bounds(f"{view.corpus}/{view.artifact_id}", len(text), offset, span)
    if offset is None and span is None and passage and len(text) > chars:
        start = passage[0]
    end = min(stop, start + chars)
    outline = list(_outline(view, shown, text, places)) if offset is None and span is None else []
    return Reading(
        view.corpus,
        view.artifact_id,
        view.title,
        shown.artifact_version if shown else view.artifact_version,
        len(text),
        _limit(outline),
        passage,
        start,
        text[start:end],
        end if end < len(text) else None,
        file,
    )


def _disclose(reader: Reader, corpora: Mapping[str, Corpus], view: ArtifactView, file: str | None) -> Disclosure | None:
    """Return the body or a file of an artifact; None if the artifact has no body."""
    try:
        return disclose_artifact(reader, corpora, view.artifact_id, "body", [view.corpus], file)
    except QueryError:
        if file is not None:
            raise
        return None


def _place_records(view: ArtifactView, shown: Disclosure | None) -> tuple[str, dict[str, Span]]:
    """Return the text to read, and the place of each record that is in it."""
    if shown is None:
        return _compose(view.records)
    if shown.file is not None:
        return shown.text or "", {}
    text = shown.body or ""
    places: dict[str, Span] = {}
    field, before, end = 0, -1, 0
    for record in view.records:
        if record.producer_id or not record.text:
            continue
        in_field, offset = "field" in record.metadata, record.span[0] if record.span else 0
        start = offset + field if in_field else offset  # a field begins where that of the last record did
        if not (record.span and text.startswith(record.text, start)) or (in_field and start <= before):
            start = text.find(record.text, end)
        if start >= 0:
            field, before, end = start - offset if in_field else field, start, start + len(record.text)
            places[record.record_id] = (start, end)
    return text, places


def _compose(records: Sequence[RecordView]) -> tuple[str, dict[str, Span]]:
    """Join the texts of records that were not generated, with a blank line between."""
    places: dict[str, Span] = {}
    parts: list[str] = []
    at = 0
    for record in [record for record in records if not record.producer_id] or records:
        places[record.record_id] = (at, at + len(record.text))
        parts.append(record.text)
        at += len(record.text) + 2
    return "\n\n".join(parts), places


def _in_text(view: ArtifactView, places: Mapping[str, Span], span: Span, length: int) -> Span:
    """Return the place in the text of a span, which may be that of a record within a field of the artifact.

    Raises QueryError if it may be several places.
    """
    there = [(record.span, places.get(record.record_id, record.span)) for record in view.records if record.span]
    named = {place for own, place in there if own == span}
    if len(named) == 1:
        return named.pop()
    if named or (span != (0, length) and any(own[0] == span[0] and own != place for own, place in there)):
        name = f"{view.corpus}/{view.artifact_id}"
        raise QueryError(f"{name}: span {span[0]}:{span[1]} is of one of its fields: give the id of the record instead")
    return span


def _bounds(name: str, length: int, offset: int | None, span: Span | None) -> Span:
    """Return the start and end that the caller asked for. Raises QueryError if no text is there."""
    start, end = span or (offset or 0, length)
    if start < 0 or end < start or (start >= length and start > 0):
        asked = f"span {start}:{end}" if span else f"offset {start}"
        raise QueryError(f"{name}: {asked} is not in the text, which has {length:,} characters from 0")
    return start, min(end, length)


def _outline(
    view: ArtifactView, shown: Disclosure | None, text: str, places: Mapping[str, Span]
) -> Iterator[OutlineEntry]:
    """Yield the headings of a text; if it has none, the first lines of the fields that a text consists of."""
    if shown and (found := list(headings_in(text, _media_type(view, shown)))):
        for level, title, (start, _) in found:
            yield OutlineEntry(" ".join(title.split()), level, start)
        return
    for record in view.records:
        if (place := places.get(record.record_id)) and (shown is None or "field" in record.metadata):
            first = record.text.strip().partition("\n")[0]
            yield OutlineEntry(f"{record.surface_kind}: {first[:TITLE_CHARS]}", 1, place[0])


def _media_type(view: ArtifactView, shown: Disclosure) -> str:
    known = {**shown.metadata, **(view.records[0].metadata if view.records else {})}
    kind = known.get("text_type") or known.get("media_type")
    if shown.file or not kind:
        return MARKDOWN if (shown.file or view.artifact_id).endswith(".md") else ""
    return str(kind)


def _limit(outline: Sequence[OutlineEntry]) -> list[OutlineEntry]:
    """Keep at most `ENTRIES` entries: drop the deepest levels first, then the last entries."""
    kept = list(outline)
    while len(kept) > ENTRIES and len(levels := {entry.level for entry in kept}) > 1:
        kept = [entry for entry in kept if entry.level < max(levels)]
    return kept[:ENTRIES]
