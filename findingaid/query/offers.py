"""The claims that may be cited in answer to a question, with every place that says each, and what contests it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from findingaid.claims.model import Claim, Evidence, Tier
from findingaid.errors import QueryError
from findingaid.model import CLAIM, Mode
from findingaid.query.answer import Found, Offer, Place
from findingaid.query.hits import own_text, span_of
from findingaid.query.request import Request
from findingaid.query.search import Searcher
from findingaid.query.terms import salient, stems
from findingaid.query.where import checked
from findingaid.store.sql import both, one_of

if TYPE_CHECKING:
    from findingaid.claims.eligible import Eligible
    from findingaid.query.reader import Reader

LOOKED_AT = 50
"""Claims that are looked at for a question, however few are said; more where more are to be said."""

DEEPEST = 200
"""Claims that an answer has at most."""

DEEPER = 4
"""How many times more are looked at than are said."""

OF_A_TERM = 20
"""Claims that are looked at for a word of which none of the others speaks, by that word alone."""

TERMS = 32
"""Words of a question that are looked for so."""

COLUMNS = (
    "record_id", "corpus", "artifact_id", "surface_kind", "text", "text_start", "span_start", "span_end", "metadata",
    "artifact_version", "producer_id", "claim_id", "evidence",
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A question, and to which claims it is put. Without `tiers` those that the configuration answers from.

    `improved` adds to the search what every search does, such as reranking.
    """

    query: str
    depth: int
    corpora: Sequence[str]
    where: str | None = None
    tiers: Sequence[str] | None = None
    improved: Callable[[Request], Request] = lambda request: request

    def check(self) -> None:
        """Raises QueryError for what cannot be answered."""
        Request((self.query,)).check()
        if not 1 <= self.depth <= DEEPEST:
            raise QueryError(f"depth must be from 1 to {DEEPEST}, got {self.depth}")


def found(searcher: Searcher, asked: Asked) -> Found:
    """What is found for a question. Raises QueryError, StoreError."""
    asked.check()
    return searcher.store.retried(lambda: _found(searcher, asked))


def _found(searcher: Searcher, asked: Asked) -> Found:
    reader = searcher.reader()
    tiers = searcher.eligibility.now().tiers(asked.tiers)
    lexical = searcher.store.lexical
    if not any(CLAIM in reader.kinds.get(corpus, ()) for corpus in asked.corpora):
        return Found(asked.query, [], tiers=tiers, lexical=lexical)
    ids = dict.fromkeys(_ranked(searcher, asked))
    where = asked.where and checked(asked.where, searcher.store, reader.records, tuple(asked.corpora))
    eligible = searcher.eligibility.now()  # after the search, so that nothing retracted meanwhile is cited
    within = both(one_of("corpus", asked.corpora), where)
    offers = _offers(searcher, reader, eligible, ids, tiers, within)
    others: list[Offer] = []
    looked_for = {offer.claim_id for offer in offers}
    while against := {i for offer in (*offers, *others) for i in offer.standing.contested_by} - looked_for:
        looked_for |= against
        others += _offers(searcher, reader, eligible, sorted(against), tuple(Tier), within)
    return Found(asked.query, offers, others, tiers, lexical)


def _ranked(searcher: Searcher, asked: Asked) -> Iterator[str]:
    """Ids of claims, best first; last those that alone have some word of the question."""

    def request(query: str, k: int, mode: Mode = "hybrid") -> Request:
        where, tiers = asked.where, asked.tiers
        return Request((query,), k, mode=mode, corpora=asked.corpora, surfaces=(CLAIM,), where=where, tiers=tiers)

    lexical = searcher.store.lexical
    covered: set[str] = set()
    best = asked.improved(request(asked.query, max(LOOKED_AT, DEEPER * asked.depth)))
    for hit in searcher.search(best):
        covered |= stems([hit.text, hit.metadata["quote"]], lexical)
        yield hit.metadata["claim_id"]
    terms = salient(asked.query, lexical)
    missing = [word for stem, word in terms.items() if stem not in covered]
    for word in missing[:TERMS]:
        yield from (hit.metadata["claim_id"] for hit in searcher.search(request(word, OF_A_TERM, "lexical")))


def _offers(
    searcher: Searcher, reader: Reader, eligible: Eligible, ids: Iterable[str], tiers: Iterable[Tier], within: str
) -> list[Offer]:
    """Claims by their ids, as far as they may be shown, with all places that say them, in the order of the ids."""
    wanted, allowed = list(ids), frozenset(tiers)
    if not wanted:
        return []
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in records_of(reader.records, both(one_of("claim_id", wanted), eligible.claims(allowed), within)):
        found[row["claim_id"]].append(row)
    offers = []
    for claim_id in wanted:
        # In one artifact it may be verbatim, and in another not: it is cited by the best of its tiers alone.
        claims = [(claim_of(row), row) for row in found[claim_id] if eligible.allows_record(row, allowed)]
        if claims:
            tier = best_tier(eligible, [claim for claim, _ in claims])
            offers.append(
                Offer(
                    claim_id,
                    claims[0][0].corpus,
                    claims[0][0].text,
                    tier,
                    eligible.standing(claim_id),
                    tuple(_place(claim, row) for claim, row in claims if tier_of(eligible, claim) is tier),
                    claims[0][0].type,
                    tuple(claims[0][0].entities),
                    searcher.store.lexical,
                )
            )
    return offers


def tier_of(eligible: Eligible, claim: Claim) -> Tier:
    """Why a claim may be cited."""
    return eligible.tier(claim.claim_id, claim.evidence, claim.verbatim)


def best_tier(eligible: Eligible, claims: Iterable[Claim]) -> Tier:
    """The best reason why what several artifacts say may be cited."""
    return min((tier_of(eligible, claim) for claim in claims), key=list(Tier).index)


def records_of(records: Any, condition: str) -> list[dict[str, Any]]:
    """The records of claims that fulfil a condition, by artifact and place in it."""
    rows: list[dict[str, Any]] = records.to_table(columns=list(COLUMNS), filter=condition).to_pylist()
    return sorted(rows, key=lambda row: (row["corpus"], row["artifact_id"], row["span_start"] or 0, row["record_id"]))


def claim_of(row: Mapping[str, Any]) -> Claim:
    """The claim that a record of it has."""
    said = orjson.loads(row["metadata"])
    return Claim(
        claim_id=row["claim_id"],
        corpus=row["corpus"],
        artifact_id=row["artifact_id"],
        text=own_text(row),
        type=said["type"],
        confidence=said["confidence"],
        entities=tuple(said["entities"]),
        quote=said["quote"],
        span=span_of(row),
        evidence=Evidence(row["evidence"]),
        verbatim=said["verbatim"],
        producer_id=row["producer_id"],
        artifact_version=row["artifact_version"],
    )


def _place(claim: Claim, row: Mapping[str, Any]) -> Place:
    return Place(claim.artifact_id, row["record_id"], claim.span, claim.quote, claim.evidence)
