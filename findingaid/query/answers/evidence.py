"""Evidence for an answer: claims that may be cited, with their places and contesting claims, and quotes of passages."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from findingaid.claims.model import Claim, Evidence, Tier
from findingaid.errors import QueryError
from findingaid.model import CLAIM, Artifact, Hit, Mode
from findingaid.query.answers.answer import CitableClaim, ForeignPassage, FoundPassage, Place
from findingaid.query.answers.compose import EvidenceSet
from findingaid.query.answers.other_names import names_another, names_any, unnamed_numbers
from findingaid.query.answers.quotes import LONGEST, Quote, day_of, find_quotes
from findingaid.query.answers.relevance import REFUSED, Measured, estimate_relevance
from findingaid.query.answers.sections import Statement, about_other_sections, headings_of
from findingaid.query.search.filters.validation import validate_filter
from findingaid.query.search.hits import own_text, span_of
from findingaid.query.search.probes import NO_SCORES, probe_scores
from findingaid.query.search.request import Request
from findingaid.query.search.searcher import Searcher
from findingaid.store.sql import both, one_of
from findingaid.store.vectors import unit
from findingaid.text.analyzer import Lexical
from findingaid.text.structure import place_of_span
from findingaid.text.words import in_language_of, salient, salient_words, stems

if TYPE_CHECKING:
    from findingaid.claims.eligible import Eligible
    from findingaid.query.search.reader import Key, Reader

MIN_SEARCHED = 50
"""Minimum number of claims to search for; more for an answer with many claims."""

MAX_DEPTH = 200
"""Maximum number of pieces of evidence in an answer."""

SEARCHED_PER_CLAIM = 4
"""Number of claims to search for, for each claim in the answer."""

SEARCHED_PER_TERM = 20
"""Number of claims to search for by a single word that no other claim covers."""

MAX_TERMS = 32
"""Maximum number of words of a question that are searched for one by one."""

PASSAGES_SEARCHED, PASSAGES_READ = 20, 5
"""Number of records to search for, and of those that are quoted from. With 3 or 8 the measured answers are the same."""

PARAGRAPH_BEGIN = re.compile(r"\n[ \t\r]*(?:\n|[-*+] )")
"""Beginning of a paragraph or of an item of a list."""

PASSAGES = 3
"""Number of passages, each of another artifact, that are named beside a weak answer."""

CLAIM_COLUMNS = (
    "record_id", "corpus", "artifact_id", "surface_kind", "text", "shown", "span_start", "span_end", "metadata",
    "artifact_version", "producer_id", "claim_id", "evidence",
)  # fmt: skip


@dataclass(frozen=True)
class Question:
    """Question and the corpora it is put to. Without `tiers`, the configured tiers apply.

    `improved` adds to the request the features of every search, such as reranking.
    """

    query: str
    depth: int
    corpora: Sequence[str]
    where: str | None = None
    tiers: Sequence[str] | None = None
    improved: Callable[[Request], Request] = lambda request: request

    def check(self) -> None:
        """Raise QueryError if the query or the depth is not valid."""
        Request((self.query,)).check()
        if not 1 <= self.depth <= MAX_DEPTH:
            raise QueryError(f"depth must be from 1 to {MAX_DEPTH}, got {self.depth}")


CLEAR_LEAD = 2
"""Function words that a passage must have more of its language than of any other, for an answer to name it."""


def find_evidence(searcher: Searcher, question: Question) -> EvidenceSet:
    """Find the claims and the sentences that can answer a question. Raises QueryError, StoreError, ModelError."""
    question.check()
    return searcher.read(lambda reader: _find_evidence(searcher, reader, question))


def _find_evidence(searcher: Searcher, reader: Reader, question: Question) -> EvidenceSet:
    tiers = searcher.eligibility.now().tiers(question.tiers)
    lexical = in_language_of(question.query, searcher.store.lexical)
    if not salient_words(question.query, lexical):
        return EvidenceSet(question.query, [], tiers=tiers, lexical=lexical)
    claimed = [corpus for corpus in question.corpora if CLAIM in reader.kinds.get(corpus, ())]
    claims, others = _find_claims(searcher, reader, replace(question, corpora=claimed), tiers) if claimed else ([], [])
    passages = _find_passages(searcher, reader, question)
    eligible = searcher.eligibility.now()  # after the search, so that a claim retracted meanwhile is not quoted
    quotes = find_quotes(searcher, reader, question.query, question.corpora, passages, eligible, tiers)
    claims = _without_other_sections(reader, question.query, claims, quotes, lexical)
    covered = _covered_by_passages(searcher, reader, question, passages) if quotes else frozenset()
    weak = not claims and not (quotes and quotes[0].relevance >= REFUSED)
    foreign = _foreign(passages[0], lexical) if weak and passages else None
    return EvidenceSet(question.query, claims, others, tiers, lexical, quotes, covered, foreign)


def _foreign(best: Hit, lexical: Lexical) -> ForeignPassage | None:
    """Return the best passage if it is clearly not in the language of the question."""
    language = in_language_of(best.text, lexical, CLEAR_LEAD).language
    return ForeignPassage(best.artifact_id, language) if language != lexical.language else None


def _find_claims(
    searcher: Searcher, reader: Reader, question: Question, tiers: frozenset[Tier]
) -> tuple[list[CitableClaim], list[CitableClaim]]:
    """Return the claims that may be cited, best first, and those that contest them."""
    ids = dict.fromkeys(_rank_claim_ids(searcher, reader, question))
    where = question.where and validate_filter(question.where, searcher.store, reader.records, tuple(question.corpora))
    eligible = searcher.eligibility.now()  # after the search, so that a claim retracted meanwhile is not cited
    within = both(one_of("corpus", question.corpora), where)
    citable = _measured(reader, question, _read_citable(searcher, reader, eligible, ids, tiers, within))
    others: list[CitableClaim] = []
    looked_for = {claim.claim_id for claim in citable}
    while against := {i for claim in (*citable, *others) for i in claim.standing.contested_by} - looked_for:
        looked_for |= against
        others += _read_citable(searcher, reader, eligible, sorted(against), tuple(Tier), within)
    lexical = in_language_of(question.query, searcher.store.lexical)
    return _without_other_names(reader, question.query, citable, lexical), others


def _without_other_names(
    reader: Reader, query: str, claims: Sequence[CitableClaim], lexical: Lexical
) -> list[CitableClaim]:
    """Leave out places of claims about another number or time than asked, and claims without another place."""
    if not names_any(query):
        return list(claims)
    terms = salient(query, lexical).keys()
    artifacts = reader.artifacts({place.artifact_id for c in claims if c.words & terms for place in c.places})
    headings = headings_of(artifacts)

    def is_about_another(claim: CitableClaim, place: Place) -> bool:
        key = claim.corpus, place.artifact_id
        artifact, _ = artifacts.get(key, (None, ""))
        start, end = place.span or (0, 0)
        raw = artifact.raw if artifact and isinstance(artifact.raw, str) else ""
        title = str(artifact.metadata.get("title", "")) if artifact else ""
        above = headings[key].above(start, end) if key in headings and place.span else ()
        lead = PARAGRAPH_BEGIN.split(raw[max(0, start - LONGEST) : start])[-1]
        around = "\n".join([*claim.entities, place.artifact_id, title, *above])
        return names_another(query, claim.text, around, lead)

    kept = [replace(c, places=tuple(place for place in c.places if not is_about_another(c, place))) for c in claims]
    return [claim for claim in kept if claim.places]


def _without_other_sections(
    reader: Reader, query: str, claims: Sequence[CitableClaim], quotes: Sequence[Quote], lexical: Lexical
) -> list[CitableClaim]:
    """Leave out places of claims in another section than the question asks about, and claims without another place."""
    terms = salient(query, lexical).keys()
    places = [(i, place) for i, claim in enumerate(claims) if claim.words & terms for place in claim.places]
    stated = Counter([*(place.artifact_id for _, place in places), *(quote.artifact_id for quote in quotes)])
    several = {place.artifact_id for _, place in places if stated[place.artifact_id] > 1}
    if not several:  # a statement is left out for another one of its artifact
        return list(claims)
    headings = headings_of(reader.artifacts(several))
    statements = []
    for i, place in places:
        claim, key = claims[i], (claims[i].corpus, place.artifact_id)
        above = headings[key].above(*place.span) if key in headings and place.span else ()
        statements.append(Statement(key, " ".join([claim.text, *claim.entities, place.quote]), above))
    quoted = [Statement((quote.corpus, quote.artifact_id), quote.text, quote.headings) for quote in quotes]
    elsewhere = about_other_sections(terms, statements, quoted, lexical)
    left_out = {each for each, other in zip(places, elsewhere, strict=True) if other}
    kept = [
        replace(claim, places=tuple(place for place in claim.places if (i, place) not in left_out))
        for i, claim in enumerate(claims)
    ]
    return [claim for claim in kept if claim.places]


def _find_passages(searcher: Searcher, reader: Reader, question: Question) -> list[Hit]:
    """Return the best passages. Generated records, such as synopses, are not evidence."""
    best = Request((question.query,), PASSAGES_SEARCHED, corpora=question.corpora, where=question.where)
    return _parts_of_texts(searcher.search(question.improved(best), reader))[:PASSAGES_READ]


def _parts_of_texts(hits: Iterable[Hit]) -> list[Hit]:
    return [hit for hit in hits if hit.span and "field" not in hit.metadata]


def _covered_by_passages(
    searcher: Searcher, reader: Reader, question: Question, passages: Sequence[Hit]
) -> frozenset[str]:
    """Return the stems of passages: of these, and of those found by a single word that these do not have."""
    lexical = in_language_of(question.query, searcher.store.lexical)
    covered = _named_in(question.query, passages, lexical)
    missing = [word for key, word in salient(question.query, lexical).items() if key not in covered]
    for word in missing[:MAX_TERMS]:
        of_word = Request((word,), SEARCHED_PER_TERM, mode="lexical", corpora=question.corpora, where=question.where)
        covered |= _named_in(question.query, _parts_of_texts(searcher.search(of_word, reader)), lexical)
    return covered


def _named_in(query: str, hits: Iterable[Hit], lexical: Lexical) -> frozenset[str]:
    """Return the stems of passages, without numbers of the question that count or date there something else."""
    return frozenset().union(*(stems([hit.text], lexical) - unnamed_numbers(query, hit.text) for hit in hits))


def _rank_claim_ids(searcher: Searcher, reader: Reader, question: Question) -> Iterator[str]:
    """Yield the ids of claims, best first; last those found by a single word that no other claim covers."""

    def request(query: str, k: int, mode: Mode = "hybrid") -> Request:
        where, tiers = question.where, question.tiers
        return Request((query,), k, mode=mode, corpora=question.corpora, surfaces=(CLAIM,), where=where, tiers=tiers)

    lexical = in_language_of(question.query, searcher.store.lexical)
    covered: set[str] = set()
    best = question.improved(request(question.query, max(MIN_SEARCHED, SEARCHED_PER_CLAIM * question.depth)))
    for hit in searcher.search(best, reader):
        covered |= stems([hit.text, hit.metadata["quote"]], lexical)
        yield hit.metadata["claim_id"]
    terms = salient(question.query, lexical)
    missing = [word for stem, word in terms.items() if stem not in covered]
    for word in missing[:MAX_TERMS]:
        of_word = request(word, SEARCHED_PER_TERM, "lexical")
        yield from (hit.metadata["claim_id"] for hit in searcher.search(of_word, reader))


def _read_citable(
    searcher: Searcher, reader: Reader, eligible: Eligible, ids: Iterable[str], tiers: Iterable[Tier], within: str
) -> list[CitableClaim]:
    """Return those of the claims that may be shown, in the order of the ids, with the places of their best tier."""
    wanted, allowed = list(ids), frozenset(tiers)
    if not wanted:
        return []
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in read_claim_records(reader.records, both(one_of("claim_id", wanted), eligible.claims(allowed), within)):
        found[row["claim_id"]].append(row)
    artifacts = _artifacts_with_places(reader, chain.from_iterable(found.values()))
    citable = []
    for claim_id in wanted:
        # A claim may be verbatim in one artifact and not in another: it is cited only by its best tier.
        claims = [(claim_from_row(row), row) for row in found[claim_id] if eligible.allows_record(row, allowed)]
        if claims:
            tier = best_tier(eligible, [claim for claim, _ in claims])
            citable.append(
                CitableClaim(
                    claim_id,
                    claims[0][0].corpus,
                    claims[0][0].text,
                    tier,
                    eligible.standing(claim_id),
                    tuple(
                        _build_place(claim, row, artifacts) for claim, row in claims if tier_of(eligible, claim) is tier
                    ),
                    claims[0][0].type,
                    tuple(claims[0][0].entities),
                    searcher.store.lexical,
                )
            )
    return citable


def _measured(reader: Reader, question: Question, claims: Sequence[CitableClaim]) -> list[CitableClaim]:
    """Return the claims with their dense scores, as deviations above those of unrelated questions."""
    scores = probe_scores(reader, question.corpora) if claims else NO_SCORES
    if not scores.meaning:
        return list(claims)
    records = one_of("record_id", sorted({place.record_id for claim in claims for place in claim.places}))
    found = reader.records.to_table(columns=["claim_id", "vector"], filter=records)
    vector = reader.embed(question.query)
    cosines = unit(found["vector"].combine_chunks()) @ (vector / (np.linalg.norm(vector) or 1))
    known = dict(zip(found["claim_id"].to_pylist(), cosines.tolist(), strict=True))
    return [replace(claim, above=scores.above(known[claim.claim_id])) for claim in claims]


def find_passages_beside(
    searcher: Searcher, query: str, corpora: Sequence[str], where: str | None
) -> list[FoundPassage]:
    """Return the best passages of a search for a question, without those that have nothing to do with it."""
    if not salient_words(query, in_language_of(query, searcher.store.lexical)):
        return []
    best = Request((query,), PASSAGES, corpora=corpora, where=where, per_artifact=True, explain=True)
    return searcher.read(lambda reader: _find_passages_beside(searcher, reader, best))


def _find_passages_beside(searcher: Searcher, reader: Reader, best: Request) -> list[FoundPassage]:
    query = best.queries[0]
    lexical = in_language_of(query, searcher.store.lexical)
    terms = salient(query, lexical)
    hits = searcher.search(best, reader)
    scores = probe_scores(reader, best.corpora)
    found = []
    for hit in hits:
        cosine = next((rank.score for rank in hit.ranks if rank.ranker == "dense"), None)
        above = None if cosine is None else scores.above(cosine)
        covered = len(stems([hit.text], lexical) & terms.keys()) / len(terms)
        if covered and estimate_relevance(Measured(covered, above)) >= REFUSED:
            place = hit.corpus, hit.artifact_id, hit.record_id, hit.surface_kind, hit.span
            found.append(FoundPassage(*place, hit.text, artifact_version=hit.artifact_version, place=hit.place))
    return found


def tier_of(eligible: Eligible, claim: Claim) -> Tier:
    """Return why a claim may be cited."""
    return eligible.tier(claim.claim_id, claim.evidence, claim.verbatim)


def best_tier(eligible: Eligible, claims: Iterable[Claim]) -> Tier:
    """Return the best tier of a claim that several artifacts state."""
    return min((tier_of(eligible, claim) for claim in claims), key=list(Tier).index)


def read_claim_records(records: Any, condition: str) -> list[dict[str, Any]]:
    """Return the records of claims that match a condition, by artifact and position."""
    rows: list[dict[str, Any]] = records.to_table(columns=list(CLAIM_COLUMNS), filter=condition).to_pylist()
    return sorted(rows, key=lambda row: (row["corpus"], row["artifact_id"], row["span_start"] or 0, row["record_id"]))


def claim_from_row(row: Mapping[str, Any]) -> Claim:
    """Return the claim that a record holds."""
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


def _artifacts_with_places(reader: Reader, rows: Iterable[Mapping[str, Any]]) -> Mapping[Key, Artifact]:
    """Return the artifacts of claims that have pages or sheets."""
    ids = {row["artifact_id"] for row in rows if any(name in row["metadata"] for name in ('"n_pages"', '"n_sheets"'))}
    return {key: artifact for key, (artifact, _) in reader.artifacts(ids).items()} if ids else {}


def _build_place(claim: Claim, row: Mapping[str, Any], artifacts: Mapping[Key, Artifact]) -> Place:
    found = claim.artifact_id, row["record_id"], claim.span, claim.quote, claim.evidence
    artifact, place = artifacts.get((claim.corpus, claim.artifact_id)), ""
    if artifact and claim.span and isinstance(artifact.raw, str):
        place = place_of_span(artifact.raw, artifact.metadata, claim.span)
    return Place(
        *found,
        artifact_version=claim.artifact_version,
        place=place,
        date=day_of(orjson.loads(row["metadata"]), claim.artifact_id),
    )
