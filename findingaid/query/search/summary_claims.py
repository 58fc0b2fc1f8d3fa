"""Search step that adds the claims behind each summary node among the hits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from findingaid.claims.eligible import Eligibility
from findingaid.errors import QueryError
from findingaid.model import SUMMARY, Hit
from findingaid.query.search.fusion import merge_rankings, rank_records
from findingaid.query.search.hits import HIT_COLUMNS, Hits, build_hit
from findingaid.store.sql import both, of_artifacts, one_of

if TYPE_CHECKING:
    from findingaid.query.search.reader import Reader
    from findingaid.query.search.request import Request

SUMMARIZES = "SUMMARIZES"
"""Kind of the edge from a summary node to a claim; also the `route` of a claim that was added for its node."""


@dataclass(frozen=True)
class NodeClaimsStep:
    """Search step that inserts after each summary node its best `top_k` claims for the query.

    The claims do not count as hits of the page. Only claims that may be shown are added, and none that is already a
    hit. Raises QueryError if `top_k` is negative.
    """

    top_k: int
    eligibility: Eligibility

    def __post_init__(self) -> None:
        if self.top_k < 0:
            raise QueryError(f"summary_top_k must be at least 0, got {self.top_k}")

    def process(self, reader: Reader, request: Request, hits: Sequence[Hit]) -> Sequence[Hit]:
        nodes = [found for found in hits if found.surface_kind == SUMMARY]
        if not nodes or not self.top_k:
            return hits
        known = {found.record_id for found in hits}
        claims = [found for found in self._claims(reader, request, nodes) if found.record_id not in known]
        led = []
        for found in hits:
            led.append(found)
            if found.surface_kind == SUMMARY:
                led += [replace(claim, seed=found.record_id) for claim in _claims_of(found, claims)[: self.top_k]]
        return Hits(led, getattr(hits, "enough", ""))

    def _claims(self, reader: Reader, request: Request, nodes: Sequence[Hit]) -> list[Hit]:
        """Return the member claims of these nodes that may be shown and match the filters, best first."""
        ids = sorted({claim_id for node in nodes for claim_id in node.metadata["members"]})
        condition = both(
            replace(request, shown=self.eligibility.now().claims(request.tiers)).condition_of(()),
            of_artifacts({(node.corpus, node.artifact_id) for node in nodes}),
            one_of("claim_id", ids),
        )
        found = merge_rankings(reader, request, rank_records(reader, request, len(ids), condition, selective=True))
        rows = reader.rows_of(found, HIT_COLUMNS)
        return [
            replace(build_hit(c, row, request.explain), route=SUMMARIZES, depth=1)
            for c, row in zip(found, rows, strict=True)
        ]


def _claims_of(node: Hit, claims: Iterable[Hit]) -> list[Hit]:
    """Return the claims that a node summarizes."""
    members = set(node.metadata["members"])
    key = (node.corpus, node.artifact_id)
    return [c for c in claims if (c.corpus, c.artifact_id) == key and c.metadata["claim_id"] in members]
