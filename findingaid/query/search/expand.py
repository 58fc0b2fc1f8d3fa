"""Expansion of hits with their context: neighbouring records, the section, or the whole artifact.

Records cut from one text are shown as they appear there, so that text[start:end] is the expanded hit. Overlapping
chunks are stitched by their spans. Text between two chunks that is in neither comes from the artifact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from findingaid.corpus import Corpus
from findingaid.errors import DecomposeError, QueryError
from findingaid.model import CLAIM, SUMMARY, Artifact, Hit, Part, Raw
from findingaid.query.search.hits import Hits, RecordView, build_record
from findingaid.query.search.reader import Key
from findingaid.store.sql import both, one_of
from findingaid.store.tables import LOOKUP
from findingaid.strategies.with_synopsis import quoted_text

if TYPE_CHECKING:
    from lance import LanceDataset

    from findingaid.query.search.reader import Reader
    from findingaid.query.search.request import Request

Extent = int | Literal["section", "artifact"]
"""Number of neighbours on either side, the section that contains the hit, or its whole artifact."""

TextSpan = tuple[int, int]

EXPANSION_COLUMNS = (
    "record_id", "corpus", "artifact_id", "surface_kind", "surface_index", "text", "shown", "span_start",
    "span_end", "metadata", "artifact_version", "producer_id",
)  # fmt: skip


def parse_extent(value: Any) -> Extent:
    """Parse the `expand` option: a number, "section" or "artifact". Raises QueryError for anything else."""
    if value in ("section", "artifact"):
        extent: Extent = value
        return extent
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        return number
    raise QueryError(f"expand: expected a number of neighbours, section or artifact, got {value!r}")


@dataclass(frozen=True)
class IndexedArtifact:
    """Artifact: its records in plan order, and the payload that they were cut from.

    `raw` is None if the stored artifact is gone, or of another version than the records. `text` is the text that a
    synthesizer would see. For a structured payload it is set only if the extent is "artifact".
    """

    pieces: Sequence[RecordView]
    raw: Raw | None = None
    text: str | None = None


@dataclass(frozen=True)
class ExpansionStep:
    """Search step that extends the text of hits."""

    extent: Extent
    corpora: Mapping[str, Corpus]

    def process(self, reader: Reader, request: Request, hits: Sequence[Hit]) -> Sequence[Hit]:
        return expand(hits, self.extent, self._load_artifacts(reader, request, hits))

    def _load_artifacts(self, reader: Reader, request: Request, hits: Sequence[Hit]) -> dict[Key, IndexedArtifact]:
        """Load the artifacts of hits with the records that may be shown: one query on each of the two tables."""
        ids = sorted({hit.artifact_id for hit in hits})
        within = one_of("corpus", sorted({hit.corpus for hit in hits}))
        found: list[Any] = reader.run_concurrently(
            lambda: _records(reader.records, ids, both(within, request.shown)),
            lambda: reader.artifacts(ids, within),
        )
        rows, artifacts = found
        pieces: dict[Key, list[RecordView]] = defaultdict(list)
        versions: dict[Key, str] = {}
        for row in rows:
            key = (row["corpus"], row["artifact_id"])
            pieces[key].append(build_record(row))
            versions[key] = row["artifact_version"]
        # The records were not cut from an artifact of another version than theirs.
        current = {key: artifact for key, (artifact, version) in artifacts.items() if versions.get(key) == version}
        return {
            key: IndexedArtifact(
                sorted(of, key=lambda piece: piece.surface_index),
                current[key].raw if key in current else None,
                self._text(key, current.get(key)),
            )
            for key, of in pieces.items()
        }

    def _text(self, key: Key, artifact: Artifact | None) -> str | None:
        if artifact is not None and isinstance(artifact.raw, str):
            return artifact.raw
        if artifact is None or self.extent != "artifact":
            return None
        try:
            return quoted_text(self.corpora[key[0]].strategy, artifact)
        except DecomposeError:  # raised by a strategy that was configured after the run
            return None


def expand(hits: Sequence[Hit], extent: Extent, artifacts: Mapping[Key, IndexedArtifact]) -> Hits:
    """Extend hits with the text around them. Overlapping hits are merged, at the rank of the best of them.

    With a number of neighbours, adjacent hits are merged too. An expanded hit stays within its artifact and, unless
    the extent is "artifact", within its surface kind. Pieces of different texts, such as the prompts of two turns, are
    separated by a blank line; such a hit has no span, but its parts have.
    """
    runs = [_find_run(hit, rank, extent, artifacts) for rank, hit in enumerate(hits)]
    near = 1 if isinstance(extent, int) else 0
    together: dict[tuple[str, ...], list[_Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.first):
        group = together[run.of]
        if group and run.first <= group[-1].last + near:
            group[-1] = group[-1].with_(run)
        else:
            group.append(run)
    merged = sorted((run for group in together.values() for run in group), key=lambda run: run.rank)
    return Hits(_expand_hit(hits[run.rank], run, extent, artifacts) for run in merged)


@dataclass(frozen=True, slots=True)
class _Run:
    """Range of pieces, `first` to `last` in `row`, that replaces the hit of this rank. `of` identifies the row."""

    of: tuple[str, ...]
    row: Sequence[RecordView]
    first: int
    last: int
    rank: int

    def with_(self, other: _Run) -> _Run:
        last, rank = max(self.last, other.last), min(self.rank, other.rank)
        return replace(self, last=last, rank=rank)


def _find_run(hit: Hit, rank: int, extent: Extent, artifacts: Mapping[Key, IndexedArtifact]) -> _Run:
    pieces = artifacts[hit.corpus, hit.artifact_id].pieces
    if extent == "artifact":
        # Claims and summaries repeat the text.
        pieces = [piece for piece in pieces if piece.surface_kind not in {CLAIM, SUMMARY}] or pieces
        return _Run((hit.corpus, hit.artifact_id), pieces, 0, len(pieces) - 1, rank)
    row = [piece for piece in pieces if piece.surface_kind == hit.surface_kind]
    place = next(i for i, piece in enumerate(row) if piece.record_id == hit.record_id)
    first, last = (place - extent, place + extent) if isinstance(extent, int) else _section(row, place)
    of = (hit.corpus, hit.artifact_id, hit.surface_kind)
    return _Run(of, row, max(0, first), min(len(row) - 1, last), rank)


def _section(row: Sequence[RecordView], place: int) -> tuple[int, int]:
    """Return the range of pieces around one with the same turn and headings, else on the same pages.

    Without headings, turns and pages the range is the piece itself.
    """
    of = [_heading_key(piece) for piece in row]
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


def _heading_key(piece: RecordView) -> tuple[Any, tuple[str, ...]]:
    """Return the turn of a session and the path of headings; a piece usually has only one of the two."""
    headings = piece.metadata.get("headings")
    return piece.metadata.get("turn"), tuple(map(str, headings)) if isinstance(headings, list) else ()


def _pages(piece: RecordView) -> TextSpan | None:
    page, pages = piece.metadata.get("page"), piece.metadata.get("pages")
    if isinstance(pages, list) and len(pages) == 2:
        return pages[0], pages[1]
    return None if page is None else (page, page)


def _expand_hit(hit: Hit, run: _Run, extent: Extent, artifacts: Mapping[Key, IndexedArtifact]) -> Hit:
    artifact = artifacts[hit.corpus, hit.artifact_id]
    pieces = run.row[run.first : run.last + 1]
    parts = tuple(Part(piece.record_id, piece.surface_kind, piece.surface_index, piece.span) for piece in pieces)
    if extent == "artifact":
        if artifact.text is not None:
            own = artifact.raw == artifact.text or (hit.span and artifact.text[slice(*hit.span)] == hit.text)
            return replace(hit, text=artifact.text, span=(0, len(artifact.text)) if own else None, parts=parts)
        pieces = [piece for piece in pieces if piece.surface_kind == hit.surface_kind] or pieces
    text, span = join_records(pieces, artifact.raw)
    return replace(hit, text=text, span=span, parts=parts)


def join_records(pieces: Sequence[RecordView], raw: Raw | None) -> tuple[str, TextSpan | None]:
    """Return the text from the first to the last of some pieces, and its span in the artifact's text.

    The span is None if the pieces are not of one text.
    """
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
    """Pieces of one text, joined. `within` lists the texts of the artifact that contain all of them at their spans."""

    text: str
    span: TextSpan | None
    within: Sequence[str]
    last_start: int

    @classmethod
    def of(cls, piece: RecordView, texts: Sequence[str]) -> _Block:
        if piece.span is None:
            return cls(piece.text, None, (), 0)
        within = [text for text in texts if text[slice(*piece.span)] == piece.text]
        return cls(piece.text, piece.span, within, piece.span[0])

    def with_(self, piece: RecordView) -> _Block | None:
        """Return the block joined with a piece, or None if they are not known to be of one text."""
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
    """Return whether one text is a prefix of the other."""
    return one.startswith(other) or other.startswith(one)


def _texts(raw: Any) -> Iterator[str]:
    """Yield every text of a payload, in order."""
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
    return [row for each in asked for row in records.to_table(columns=list(EXPANSION_COLUMNS), filter=each).to_pylist()]
