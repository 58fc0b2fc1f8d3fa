"""Answers: sentences with the evidence they cite, and gaps, the words of the query that no evidence covers.

Evidence is claims, and quotes: sentences of passages, which fill in what no claim covers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

from findingaid.claims.model import ClaimStatus, Evidence, Tier, Truth
from findingaid.model import Fresh
from findingaid.query.answers.answer_types import asked_type, stated
from findingaid.query.answers.quotes import Quote
from findingaid.query.answers.relevance import MEDIUM, ClaimsStanding, Confidence, confidence_of, percent
from findingaid.text.analyzer import Language, Lexical
from findingaid.text.words import stems

CITATION = re.compile(r"\[([0-9a-f]{32})\]")
"""Form in which an answer cites a claim or a quote."""

OLDER = "the newest source, of {}, comes first; an older one is of {}"


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a claim: the passage of an artifact that states it, and the record that was found.

    `place` names it in a document, such as a page. `date` is the day of the text, see `day_of`.
    """

    artifact_id: str
    record_id: str
    span: tuple[int, int] | None
    quote: str
    evidence: Evidence
    fresh: Fresh | None = None
    fresh_note: str = ""
    artifact_version: str = ""
    place: str = ""
    date: str = ""


@dataclass(frozen=True)
class CitableClaim:
    """Claim that was found and may be cited, with the places that state it.

    `above` is by how many deviations its dense score is above those of unrelated questions; None for an embedder
    without meaning.
    """

    claim_id: str
    corpus: str
    text: str
    tier: Tier
    standing: ClaimStatus
    places: tuple[Place, ...]
    type: str = "fact"
    entities: tuple[str, ...] = ()
    lexical: Lexical = field(default_factory=Lexical, repr=False)
    above: float | None = None

    @cached_property
    def words(self) -> frozenset[str]:
        """Stems of its text, its entities and its quotes: the words that it covers."""
        return stems([self.text, *self.entities, *(place.quote for place in self.places)], self.lexical)

    @cached_property
    def date(self) -> str:
        """Day of the newest text that states it; "" if none gives a day as its own."""
        return max(place.date for place in self.places)

    @property
    def contested(self) -> bool:
        """Whether another claim that is in use contradicts this one."""
        return self.standing.truth is Truth.CONTESTED or bool(self.standing.contested_by)

    @property
    def reliability(self) -> ClaimsStanding:
        """How far the claim can be relied on, by the decisions on it."""
        if self.contested:
            return "contested"
        truth = self.standing.truth
        return "unreviewed" if truth is Truth.WORKING and self.tier is not Tier.APPROVED else truth.value

    @property
    def outdated(self) -> str:
        """Remark that no source of the claim still has the version that states it; "" if one may have it."""
        return outdated(self.places)

    def to_dict(self) -> dict[str, Any]:
        return {
            "claim_id": self.claim_id,
            "corpus": self.corpus,
            "text": self.text,
            "type": self.type,
            "tier": self.tier.value,
            "review": self.standing.review.value,
            "truth": self.standing.truth.value,
            "places": [asdict(place) for place in self.places],
        }


Citable = CitableClaim | Quote
"""Evidence that an answer may cite."""


def outdated(places: Sequence[Place | Quote]) -> str:
    """Return the remark that no place still has the version that was indexed; "" if one may have it."""
    if not all(place.fresh in {"changed", "gone"} for place in places):
        return ""
    first = places[0]
    return f"(source {first.fresh}{f' {first.fresh_note}' if first.fresh_note else ''})"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Other side of a contested claim; its text is empty if it must not be shown.

    `cited`: the answer cites the other claim too. If the tier of the other claim was not requested, it appears here
    only.
    """

    claim_id: str
    other_id: str
    text: str = ""
    tier: Tier | None = None
    cited: bool = False


@dataclass(frozen=True, slots=True)
class Sentence:
    """Sentence of an answer without its citations, and the ids of the claims and quotes it cites."""

    text: str
    claim_ids: tuple[str, ...] = ()
    quote_ids: tuple[str, ...] = ()

    @property
    def cited_ids(self) -> tuple[str, ...]:
        """Ids of all evidence that it cites."""
        return (*self.claim_ids, *self.quote_ids)

    @property
    def kind(self) -> Literal["claim", "passage"]:
        """Kind of its evidence: "claim" if it cites any claim."""
        return "claim" if self.claim_ids else "passage"

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "kind": self.kind, "claim_ids": self.claim_ids, "quote_ids": self.quote_ids}

    def cited(self, mark: Callable[[str], str] = lambda cited_id: f"[{cited_id}]") -> str:
        """Return the sentence with its citations, placed before a final full stop."""
        marks = " ".join(map(mark, self.cited_ids))
        if self.text.endswith(("!", "?", "…", "...")):
            return f"{self.text} {marks}"
        return f"{self.text.removesuffix('.')} {marks}."


@dataclass(frozen=True, slots=True)
class RefusedSentence:
    """Sentence of a model that is not in the answer, the reason, and the ids it cites that were never offered."""

    text: str
    reason: str
    invented: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """Record that a search found for a question which the evidence does not answer, or hardly.

    `surface_kind` tells passages of the text from composed texts, such as a synopsis, which have no span. `place` is
    that in a document, such as a page.
    """

    corpus: str
    artifact_id: str
    record_id: str
    surface_kind: str
    span: tuple[int, int] | None
    text: str
    fresh: Fresh | None = None
    fresh_note: str = ""
    artifact_version: str = ""
    place: str = ""


class ForeignPassage(NamedTuple):
    """Artifact of the best passage that a search found, and its language, which is not that of the question."""

    artifact_id: str
    language: Language


@dataclass(frozen=True)
class Answer:
    """Sentences with citations, and `gaps`: words of the query that no evidence that may be cited covers.

    `claims` and `quotes` are the cited evidence, each in the order of the answer. `relevance` is the estimated
    probability that the best of it answers the question; without sentences, that of the best evidence found. `terms`
    are the words that were looked for. `cut` are the ids of evidence that did not fit into the budget, `repeated` those
    of evidence that repeats a chosen one. Without sentences there is no confidence. `producer` is the model that wrote
    the answer, "" if no model did. `refused` are the model's sentences that were left out, and `invented` the ids that
    it made up. `passages` are those that a search found, if the answer is weak or has no sentences. `searchable`: the
    query has words other than stop words. `numbered`: `answer` cites evidence by its number, in the order of citation,
    instead of by its id. `unread` are the artifacts that are skipped or failed, if there are no sentences: "29 .gz,
    1 .pdf"; else "". `foreign`: the best passage is in another language. `fresh_seconds` is the time that the check of
    freshness took; None without one.
    """

    query: str
    sentences: Sequence[Sentence]
    claims: Sequence[CitableClaim]
    gaps: Sequence[str]
    quotes: Sequence[Quote] = ()
    terms: Sequence[str] = ()
    cut: Sequence[str] = ()
    repeated: Sequence[str] = ()
    contradictions: Sequence[Contradiction] = ()
    producer: str = ""
    refused: Sequence[RefusedSentence] = ()
    invented: Sequence[str] = ()
    relevance: float = 0.0
    passages: Sequence[FoundPassage] = ()
    searchable: bool = True
    numbered: bool = False
    unread: str = ""
    fresh_seconds: float | None = None
    foreign: ForeignPassage | None = None
    dates: Sequence[str] = ()

    @property
    def answer(self) -> str:
        """All sentences with their citations: `[id]`, or `[1]` if they are numbered."""
        return " ".join(self.cited_sentences)

    @property
    def cited_ids(self) -> list[str]:
        """Ids of the cited claims and quotes, in the order of citation: a citation's number is its place here."""
        return list(dict.fromkeys(cited_id for sentence in self.sentences for cited_id in sentence.cited_ids))

    @property
    def cited_sentences(self) -> list[str]:
        """Each sentence with its citations, and behind it whether a source of it has changed."""
        remarks = {claim.claim_id: claim.outdated for claim in self.claims}
        remarks |= {quote.quote_id: outdated([quote]) for quote in self.quotes}
        mark = citation_mark(self.cited_ids, self.numbered)
        return [
            " ".join([sentence.cited(mark), *dict.fromkeys(filter(None, map(remarks.get, sentence.cited_ids)))])
            for sentence in self.sentences
        ]

    @property
    def unreviewed(self) -> int:
        """Number of sentences that cite a claim which no person approved."""
        approved = {claim.claim_id for claim in self.claims if claim.tier is Tier.APPROVED}
        return sum(not approved.issuperset(sentence.claim_ids) for sentence in self.sentences)

    @property
    def standing(self) -> ClaimsStanding | None:
        """How far the weakest of the cited claims can be relied on; None without claims."""
        return min((claim.reliability for claim in self.claims), key=get_args(ClaimsStanding).index, default=None)

    @property
    def confidence(self) -> Confidence | None:
        """Confidence by the relevance and standing of the evidence, see `confidence_of`; None without sentences."""
        if not self.sentences:
            return None
        return confidence_of(self.relevance, self.standing, quotes=bool(self.quotes), gaps=bool(self.gaps))

    @property
    def weak(self) -> bool:
        """Whether the answer has no sentences, or its evidence probably does not answer the question."""
        return not self.sentences or self.relevance < MEDIUM

    @property
    def note(self) -> str:
        """One line on what is missing or doubtful; "" for an answer that is neither."""
        if not self.sentences:
            return self._missing
        if self.relevance < MEDIUM:
            kind = asked_type(self.query)
            lacks = f"it asks for {kind.words}, and none is stated; " if kind and not self._states_it else ""
            return f"weak: this may not answer the question ({lacks}relevance {percent(self.relevance)})"
        if self.standing == "contested":
            return "contested: another claim contradicts it"
        return OLDER.format(*self.dates) if self.dates else ""

    @property
    def _states_it(self) -> bool:
        return bool(stated(self.query, self.sentences[0].text))

    @property
    def _missing(self) -> str:
        if not self.searchable:
            return "the question has no words to search for, only stop words such as “the” and “what”: name its subject"
        if self.cut:
            return "no sentence fits into the maximum length"
        if self.refused:
            return "no sentence of the model is supported by its evidence"
        if self.producer:
            return "the model found no answer in its evidence"
        missing = f"nothing that was found states it (looked for: {', '.join(self.terms)})"
        if not self.foreign:
            return missing
        artifact_id, language = self.foreign
        return f"{missing}; the best that was found, {artifact_id}, is in {language}: ask in {language}, too"

    def to_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "answer": self.answer,
            "claims": [claim.to_dict() for claim in self.claims],
            "quotes": [quote.to_dict() for quote in self.quotes],
            "gaps": list(self.gaps),
            "passages": [asdict(passage) for passage in self.passages],
            "meta": {
                "confidence": self.confidence,
                "relevance": round(self.relevance, 3),
                "standing": self.standing,
                "note": self.note,
                "unreviewed": self.unreviewed,
                "sentences": [sentence.to_dict() for sentence in self.sentences],
                "cut": list(self.cut),
                "repeated": list(self.repeated),
                "contradictions": [asdict(each) for each in self.contradictions],
                "producer": self.producer,
                "refused": [asdict(refused) for refused in self.refused],
                "invented": list(self.invented),
                "unread": self.unread,
                "fresh_seconds": self.fresh_seconds,
            },
        }


def citation_mark(cited_ids: Iterable[str], numbered: bool) -> Callable[[str], str]:
    """Return the function that makes the citation of evidence: its id, or its number among these, in brackets."""
    numbers = {cited_id: str(number) for number, cited_id in enumerate(cited_ids, 1)} if numbered else {}
    return lambda cited_id: f"[{numbers.get(cited_id, cited_id)}]"


def escape_citations(text: str) -> str:
    """Return a text in which nothing looks like a citation: a document's own are put in round brackets."""
    return CITATION.sub(r"(\1)", text)
