"""Hits with what stands around them: their neighbours, their section, or all of their artifact.

What is cut from one text is shown as that text has it, so that text[start:end] is the hit; chunks that overlap are
stitched by their spans, and what lies between two of them, which no chunk has, comes from the artifact.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from findingaid.errors import DecomposeError, QueryError
from findingaid.model import CLAIM, SUMMARY, Corpus, Hit, Part, Raw
from findingaid.query.hits import Hits, own_text, span_of
from findingaid.query.reader import Key
from findingaid.stages import stored
from findingaid.store import Store
from findingaid.store.sql import both, one_of
from findingaid.store.store import LOOKUP
from findingaid.synopses import quoted_text

if TYPE_CHECKING:
    from lance import LanceDataset

    from findingaid.query.reader import Reader
    from findingaid.query.request import Request

Extent = int | Literal["section", "artifact"]
"""So many neighbours on either side, the section that a hit is in, or its whole artifact."""

Span = tuple[int, int]

COLUMNS = (
    "record_id", "corpus", "artifact_id", "surface_kind", "surface_index", "text", "text_start", "span_start",
    "span_end", "metadata", "artifact_version",
)  # fmt: skip


def extent_of(value: Any) -> Extent:
    """What was asked for. Raises QueryError."""
    if value in ("section", "artifact"):
        extent: Extent = value
        return extent
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        return number
    raise QueryError(f"expand: expected how many neighbours, section or artifact, got {value!r}")


@dataclass(frozen=True, slots=True)
class Piece:
    """A record among those of its artifact."""

    record_id: str
    kind: str
    index: int
    text: str
    span: Span | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class Whole:
    """An artifact: its records in plan order, and what they were cut from.

    `raw` is None where the artifact is no longer what the records were made from; `text` is what a synthesizer would
    be shown of it.
    """

    pieces: Sequence[Piece]
    raw: Raw | None = None
    text: str | None = None


@dataclass(frozen=True)
class Expansion:
    """The step of a search that gives its hits more text."""

    extent: Extent
    store: Store
    corpora: Mapping[str, Corpus]

    def after(self, reader: Reader, request: Request, hits: Sequence[Hit]) -> Sequence[Hit]:
        return expand(hits, self.extent, self._artifacts(reader, request, hits))

    def _artifacts(self, reader: Reader, request: Request, hits: Sequence[Hit]) -> dict[Key, Whole]:
        """The artifacts of hits, with what may be shown of them, by one question to the records and one to them."""
        ids = sorted({hit.artifact_id for hit in hits})
        within = one_of("corpus", sorted({hit.corpus for hit in hits}))
        found: list[Any] = reader.at_once(
            lambda: _records(reader.records, ids, both(within, request.shown)),
            lambda: stored(self.store, ids, within),
        )
        rows, artifacts = found
        pieces: dict[Key, list[Piece]] = defaultdict(list)
        versions: dict[Key, str] = {}
        for row in rows:
            key = (row["corpus"], row["artifact_id"])
            pieces[key].append(_piece(row))
            versions[key] = row["artifact_version"]
        # What is no longer of the version that the records were made from is not what they were cut from.
        raws = {key: artifact.raw for key, (artifact, version) in artifacts.items() if versions.get(key) == version}
        return {
            key: Whole(sorted(of, key=lambda piece: piece.index), raws.get(key), self._text(key, raws.get(key)))
            for key, of in pieces.items()
        }

    def _text(self, key: Key, raw: Raw | None) -> str | None:
        if raw is None or isinstance(raw, str) or self.extent != "artifact":
            return raw if isinstance(raw, str) else None
        try:
            return quoted_text(self.corpora[key[0]].strategy, raw)
        except DecomposeError:  # of a strategy that was configured since
            return None


def expand(hits: Sequence[Hit], extent: Extent, artifacts: Mapping[Key, Whole]) -> Hits:
    """Hits with the text of what stands around them; those that overlap become one, in the best one's place.

    So do those that are next to each other, unless they are sections. A hit stays within its artifact and its kind.
    What does not come from one text, such as the prompts of two turns, is parted by a blank line and has no span, but
    its parts have.
    """
    runs = [_run(hit, rank, extent, artifacts) for rank, hit in enumerate(hits)]
    near = 1 if isinstance(extent, int) else 0
    together: dict[tuple[str, ...], list[_Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.first):
        group = together[run.of]
        if group and run.first <= group[-1].last + near:
            group[-1] = group[-1].with_(run)
        else:
            group.append(run)
    merged = sorted((run for group in together.values() for run in group), key=lambda run: run.rank)
    return Hits(_expanded(hits[run.rank], run, extent, artifacts) for run in merged)


@dataclass(frozen=True, slots=True)
class _Run:
    """Pieces first to last of those in `row`, which a hit of this rank is to become; `of` says which row that is."""

    of: tuple[str, ...]
    row: Sequence[Piece]
    first: int
    last: int
    rank: int

    def with_(self, other: _Run) -> _Run:
        last, rank = max(self.last, other.last), min(self.rank, other.rank)
        return replace(self, last=last, rank=rank)


def _run(hit: Hit, rank: int, extent: Extent, artifacts: Mapping[Key, Whole]) -> _Run:
    pieces = artifacts[hit.corpus, hit.artifact_id].pieces
    if extent == "artifact":
        pieces = [piece for piece in pieces if piece.kind not in {CLAIM, SUMMARY}] or pieces  # they say it again
        return _Run((hit.corpus, hit.artifact_id), pieces, 0, len(pieces) - 1, rank)
    row = [piece for piece in pieces if piece.kind == hit.surface_kind]
    place = next(i for i, piece in enumerate(row) if piece.record_id == hit.record_id)
    first, last = (place - extent, place + extent) if isinstance(extent, int) else _section(row, place)
    of = (hit.corpus, hit.artifact_id, hit.surface_kind)
    return _Run(of, row, max(0, first), min(len(row) - 1, last), rank)


def _section(row: Sequence[Piece], place: int) -> tuple[int, int]:
    """The pieces around one that stand below the same headings, or on its pages; itself where it has neither."""
    of = [_headed(piece) for piece in row]
    if any(headings for _, headings in of) or len({turn for turn, _ in of}) > 1:
        same = [each == of[place] for each in of]
    else:
        pages = [_pages(piece) for piece in row]
        here = pages[place]
        same = [bool(here and p and p[0] <= here[1] and here[0] <= p[1]) for p in pages]
    first = last = place
    while first and same[first - 1]:
        first -= 1
    while last + 1 < len(row) and same[last + 1]:
        last += 1
    return first, last


def _headed(piece: Piece) -> tuple[Any, tuple[str, ...]]:
    """The turn of a session, and the headings above; one of the two, mostly."""
    headings = piece.metadata.get("headings")
    return piece.metadata.get("turn"), tuple(map(str, headings)) if isinstance(headings, list) else ()


def _pages(piece: Piece) -> Span | None:
    page, pages = piece.metadata.get("page"), piece.metadata.get("pages")
    if isinstance(pages, list) and len(pages) == 2:
        return pages[0], pages[1]
    return None if page is None else (page, page)


def _expanded(hit: Hit, run: _Run, extent: Extent, artifacts: Mapping[Key, Whole]) -> Hit:
    artifact = artifacts[hit.corpus, hit.artifact_id]
    pieces = run.row[run.first : run.last + 1]
    parts = tuple(Part(piece.record_id, piece.kind, piece.index, piece.span) for piece in pieces)
    if extent == "artifact":
        if artifact.text is not None:
            own = artifact.raw == artifact.text or (hit.span and artifact.text[slice(*hit.span)] == hit.text)
            return replace(hit, text=artifact.text, span=(0, len(artifact.text)) if own else None, parts=parts)
        pieces = [piece for piece in pieces if piece.kind == hit.surface_kind] or pieces
    text, span = passage(pieces, artifact.raw)
    return replace(hit, text=text, span=span, parts=parts)


def passage(pieces: Sequence[Piece], raw: Raw | None) -> tuple[str, Span | None]:
    """The text from the first of some pieces to the last, and where in the artifact's text it stands."""
    texts = list(_texts(raw))
    blocks: list[_Block] = []
    for piece in pieces:
        joined = blocks[-1].with_(piece) if blocks else None
        if joined:
            blocks[-1] = joined
        else:
            blocks.append(_Block.of(piece, texts))
    if len(blocks) == 1:
        return blocks[0].text, blocks[0].span
    return "\n\n".join(block.text for block in blocks), None


@dataclass(frozen=True, slots=True)
class _Block:
    """Pieces of one text put together; `within` are the texts of the artifact in which all of them stand."""

    text: str
    span: Span | None
    within: Sequence[str]
    last_start: int

    @classmethod
    def of(cls, piece: Piece, texts: Sequence[str]) -> _Block:
        if piece.span is None:
            return cls(piece.text, None, (), 0)
        within = [text for text in texts if text[slice(*piece.span)] == piece.text]
        return cls(piece.text, piece.span, within, piece.span[0])

    def with_(self, piece: Piece) -> _Block | None:
        """Both as one; None where they are not known to be of one text."""
        if self.span is None or piece.span is None or piece.span[0] <= self.last_start:
            return None
        start, end = self.span[0], max(self.span[1], piece.span[1])
        within = [text for text in self.within if text[slice(*piece.span)] == piece.text]
        if within:
            return _Block(within[0][start:end], (start, end), within, piece.span[0])
        met = piece.span[0] - start
        if self.within or met > len(self.text) or not _agree(self.text[met:], piece.text):
            return None
        stitched = self.text[:met] + piece.text + self.text[met + len(piece.text) :]
        return _Block(stitched, (start, end), (), piece.span[0])


def _agree(one: str, other: str) -> bool:
    """Whether two texts are the same as far as both go."""
    return one.startswith(other) or other.startswith(one)


def _texts(raw: Any) -> Iterator[str]:
    """Every text of a payload, in its order."""
    if isinstance(raw, str):
        yield raw
    elif isinstance(raw, Mapping):
        for value in raw.values():
            yield from _texts(value)
    elif isinstance(raw, list | tuple):
        for value in raw:
            yield from _texts(value)


def _records(records: LanceDataset, ids: Sequence[str], within: str) -> list[dict[str, Any]]:
    slices = (ids[start : start + LOOKUP] for start in range(0, len(ids), LOOKUP))
    asked = (f"{one_of('artifact_id', some)} AND {within}" for some in slices)
    return [row for each in asked for row in records.to_table(columns=list(COLUMNS), filter=each).to_pylist()]


def _piece(row: Mapping[str, Any]) -> Piece:
    return Piece(
        record_id=row["record_id"],
        kind=row["surface_kind"],
        index=row["surface_index"],
        text=own_text(row),
        span=span_of(row),
        metadata=json.loads(row["metadata"]),
    )
