"""What a search returns: a list of hits, as a data frame or a table where that is wanted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from findingaid.model import Hit
from findingaid.query.reader import Candidate

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

COLUMNS = ("text", "text_start", "span_start", "span_end", "metadata")
"""What a hit has of a record, besides what ranking needed of it."""


class Hits(list[Hit]):
    """Hits, best first.

    `queries` are all that were searched for; `enough` is why there are no more hits, where a selector said so.
    """

    def __init__(self, hits: Iterable[Hit] = (), enough: str = "", queries: Sequence[str] = ()) -> None:
        super().__init__(hits)
        self.enough = enough
        self.queries = tuple(queries)

    def to_arrow(self) -> pa.Table:
        """A table with a row a hit; what has no type of its own, as metadata, is JSON."""
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
            }
        )

    def to_pandas(self) -> pd.DataFrame:
        """The same as a data frame; needs pandas."""
        return self.to_arrow().to_pandas()


def own_text(row: Mapping[str, Any]) -> str:
    """The text of a record without what was put in front of it for ranking."""
    text: str = row["text"][row["text_start"] :]
    return text


def span_of(row: Mapping[str, Any]) -> tuple[int, int] | None:
    """Where a record, or what tells of an edge, stands in its artifact's text."""
    return None if row["span_start"] is None else (row["span_start"], row["span_end"])


def hit(candidate: Candidate, row: Mapping[str, Any], explained: bool) -> Hit:
    """A candidate with the `COLUMNS` of its record."""
    return Hit(
        record_id=candidate.record_id,
        artifact_id=candidate.artifact_id,
        corpus=candidate.corpus,
        surface_kind=candidate.surface_kind,
        surface_index=candidate.surface_index,
        score=candidate.score,
        text=own_text(row),
        span=span_of(row),
        metadata=json.loads(row["metadata"]),
        route=candidate.route,
        depth=candidate.depth,
        seed=candidate.seed,
        ranks=candidate.ranks if explained else (),
        weight=candidate.weight,
    )
