"""Search results: a list of hits that converts to an Arrow table or a data frame."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from findingaid.frames import require_pandas
from findingaid.model import SUMMARY, Hit
from findingaid.query.search.reader import Candidate
from findingaid.text.structure import place_in_words
from findingaid.text.words import WORD, ngrams

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

HIT_COLUMNS = ("text", "shown", "span_start", "span_end", "metadata", "artifact_version")
"""Columns of a record that a hit needs in addition to `CANDIDATE_COLUMNS`."""

SEQUENCE = 3
"""Words of a sequence by which texts are compared."""

REPEATED = 0.8
"""Share of its sequences from which a text repeats others. Sentences that are joined anew lose a few sequences."""


class Hits(list[Hit]):
    """List of hits, best first.

    `queries` are all queries that were searched for. `enough` is the selector's reason for returning no more hits.
    `fresh_seconds` is the time that the check of their freshness took; None without one.
    """

    def __init__(
        self,
        hits: Iterable[Hit] = (),
        enough: str = "",
        queries: Sequence[str] = (),
        fresh_seconds: float | None = None,
    ) -> None:
        super().__init__(hits)
        self.enough = enough
        self.queries = tuple(queries)
        self.fresh_seconds = fresh_seconds

    @property
    def weak(self) -> bool:
        """Whether nothing matches well: there are hits, and each of them is weak."""
        return bool(self) and all(hit.weak for hit in self)

    def to_arrow(self) -> pa.Table:
        """Convert to an Arrow table with one row per hit; metadata is a JSON string."""
        import pyarrow as pa

        spans = [hit.span or (None, None) for hit in self]
        return pa.table(
            {
                "record_id": pa.array([hit.record_id for hit in self], pa.string()),
                "corpus": pa.array([hit.corpus for hit in self], pa.string()),
                "artifact_id": pa.array([hit.artifact_id for hit in self], pa.string()),
                "surface_kind": pa.array([hit.surface_kind for hit in self], pa.string()),
                "surface_index": pa.array([hit.surface_index for hit in self], pa.int32()),
                "score": pa.array([hit.score for hit in self], pa.float64()),
                "text": pa.array([hit.text for hit in self], pa.string()),
                "span_start": pa.array([start for start, _ in spans], pa.int32()),
                "span_end": pa.array([end for _, end in spans], pa.int32()),
                "metadata": pa.array([json.dumps(hit.metadata, ensure_ascii=False) for hit in self], pa.string()),
                "route": pa.array([hit.route for hit in self], pa.string()),
                "fresh": pa.array([hit.fresh for hit in self], pa.string()),
            }
        )

    def to_pandas(self) -> pd.DataFrame:
        """Convert to a data frame with one row per hit. Raises ConfigError without pandas."""
        require_pandas()
        return self.to_arrow().to_pandas()


@dataclass(frozen=True, slots=True)
class RecordView:
    """Published record; `producer_id` names the producer of a generated text."""

    record_id: str
    surface_kind: str
    surface_index: int
    text: str
    span: tuple[int, int] | None
    metadata: Mapping[str, Any]
    producer_id: str


@dataclass(frozen=True, slots=True)
class HitGroup:
    """Best hit of an artifact and its other hits, best first; or a summary node and the claims that it summarizes."""

    best: Hit
    others: Sequence[Hit]


def group_by_artifact(hits: Iterable[Hit], artifacts: int | None = None, claims: int = 3) -> list[HitGroup]:
    """Group hits by their artifact, in the order of the best hit of each, for so many artifacts or for all.

    Hits that repeat another are left out. A summary node forms a group with the best `claims` that it summarizes.
    """
    grouped: dict[tuple[str, str], list[Hit]] = {}
    for hit in drop_repeats(hits):
        grouped.setdefault((hit.corpus, hit.artifact_id), []).append(hit)
    return [each for group in list(grouped.values())[:artifacts] for each in _split_off_node(group, claims)]


def _split_off_node(group: Sequence[Hit], claims: int) -> list[HitGroup]:
    """Return the hits of an artifact as a group, and its summary node, if it is among them, as another."""
    node = next((hit for hit in group if hit.surface_kind == SUMMARY), None)
    if node is None:
        return [HitGroup(group[0], group[1:])]
    members = [hit for hit in group if hit.metadata.get("claim_id") in node.metadata["members"]]
    beneath = sorted(members, key=lambda hit: -hit.score)[:claims]
    rest = [hit for hit in group if hit is not node and hit not in beneath]
    groups = [HitGroup(node, beneath), *([HitGroup(rest[0], rest[1:])] if rest else [])]
    return groups if group[0] is node else groups[::-1]


def drop_repeats(hits: Iterable[Hit]) -> list[Hit]:
    """Drop composed texts, such as synopses and descriptions, that only say what other hits of their artifact say.

    A text is said by others if they have at least `REPEATED` of its word sequences. A summary node always stays, since
    its claims follow it.
    """
    hits = list(hits)
    said: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for hit in hits:
        if hit.span:
            said.setdefault((hit.corpus, hit.artifact_id), set()).update(_sequences(hit.text))
    return [
        hit
        for hit in hits
        if hit.span or hit.surface_kind == SUMMARY or not _is_said(hit, said.get((hit.corpus, hit.artifact_id), set()))
    ]


def _is_said(hit: Hit, said: Set[tuple[str, ...]]) -> bool:
    own = _sequences(hit.text)
    return bool(own) and len(own & said) >= REPEATED * len(own)


def _sequences(text: str) -> set[tuple[str, ...]]:
    return set(ngrams(WORD.findall(text.casefold()), SEQUENCE))


def own_text(row: Mapping[str, Any]) -> str:
    """Return the text of a record as it is in the artifact, and not as it is embedded and searched."""
    text: str = row["text"] if row["shown"] is None else row["shown"]
    return text


def span_of(row: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the span of a record, or of the evidence for an edge, in its artifact's text; None if it has no span."""
    return None if row["span_start"] is None else (row["span_start"], row["span_end"])


def build_record(row: Mapping[str, Any]) -> RecordView:
    """Return a record, from the columns that have its fields."""
    return RecordView(
        row["record_id"],
        row["surface_kind"],
        row["surface_index"],
        own_text(row),
        span_of(row),
        json.loads(row["metadata"]),
        row["producer_id"],
    )


def build_hit(candidate: Candidate, row: Mapping[str, Any], explained: bool, weak: bool = False) -> Hit:
    """Build a hit from a candidate and the `HIT_COLUMNS` of its record; `explained` keeps its ranks."""
    metadata = json.loads(row["metadata"])
    return Hit(
        record_id=candidate.record_id,
        artifact_id=candidate.artifact_id,
        corpus=candidate.corpus,
        surface_kind=candidate.surface_kind,
        surface_index=candidate.surface_index,
        score=candidate.score,
        text=own_text(row),
        span=span_of(row),
        metadata=metadata,
        route=candidate.route,
        depth=candidate.depth,
        seed=candidate.seed,
        ranks=candidate.ranks if explained else (),
        weight=candidate.weight,
        weak=weak,
        artifact_version=row["artifact_version"],
        place=place_in_words(metadata),
    )
