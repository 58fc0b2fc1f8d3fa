"""Composed answers: sentences with the evidence they cite, and gaps, the words of the query that no evidence covers.

Evidence is claims, and quotes: sentences of passages, which fill in what no claim covers. Pure: the evidence that was
found, its status and a model's text are inputs. `compose` adds claims and quotes one by one.
`generation.verify_sentences` checks a model's text sentence by sentence. Both end in `assemble_answer`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

from findingaid.claims.model import ClaimStatus, Evidence, Tier, Truth
from findingaid.model import Fresh
from findingaid.query.answers.answer_types import asked_type, stated
from findingaid.query.answers.quotes import Quote, overlaps_any
from findingaid.query.answers.relevance import (
    ALIKE,
    BESIDE,
    MEDIUM,
    REFUSED,
    ClaimsStanding,
    Confidence,
    Measured,
    confidence_of,
    estimate_relevance,
    percent,
)
from findingaid.text.analyzer import Language, Lexical
from findingaid.text.clauses import first_clause
from findingaid.text.words import WORD, salient, salient_words, stem, stems

CITATION = re.compile(r"\[([0-9a-f]{32})\]")
"""Form in which an answer cites a claim or a quote."""

AGAINST = "Contested by: "
CONTESTED = " (contested)"

OLDER = "the newest source, of {}, comes first; an older one is of {}"

ARTICLES = frozenset({"a", "an", "the"})


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a claim: the passage of an artifact that states it, and the record that was found.

    `place` names it in a document, such as a page.
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


@dataclass(frozen=True)
class EvidenceSet:
    """Evidence that a search found for an answer: `claims` of `tiers`, and `quotes`, each best first.

    `contesting` are claims of any tier that may be shown as the other side of a contradiction. `covered` are the stems
    of all passages that were found. `foreign`: the best of them is in another language.
    """

    query: str
    claims: Sequence[CitableClaim]
    contesting: Sequence[CitableClaim] = ()
    tiers: Collection[Tier] = tuple(Tier)
    lexical: Lexical = field(default_factory=Lexical)
    quotes: Sequence[Quote] = ()
    covered: frozenset[str] = frozenset()
    foreign: ForeignPassage | None = None

    @cached_property
    def terms(self) -> dict[str, str]:
        """Stem -> word of the query, for the words that an answer must cover; none if it has only stop words."""
        return salient(self.query, self.lexical) if self.searchable else {}

    @cached_property
    def searchable(self) -> bool:
        """Whether the query has words other than stop words."""
        return bool(salient_words(self.query, self.lexical))

    @cached_property
    def by_id(self) -> Mapping[str, CitableClaim]:
        """Every claim that may be shown, by id."""
        return {claim.claim_id: claim for claim in (*self.contesting, *self.claims)}

    @cached_property
    def gaps(self) -> list[str]:
        """Terms that no evidence covers, even evidence for which the answer has no room."""
        known = self.covered.union(*(claim.words for claim in self.claims), *(quote.words for quote in self.quotes))
        return [word for key, word in self.terms.items() if key not in known]

    @cached_property
    def relevant(self) -> list[CitableClaim]:
        """Claims that may answer the query, best first."""
        return [claim for claim in self.claims if self.relevance(claim) >= REFUSED]

    @cached_property
    def relevant_quotes(self) -> list[Quote]:
        """Quotes that may answer the query, or add to the answer: best first, and of those in `dated` the newest."""
        if not self.quotes or self.quotes[0].relevance < REFUSED:
            return []
        others = [quote for quote in self.quotes if quote not in self.dated]
        return [*self.dated, *(quote for quote in others if quote.relevance >= BESIDE * self.quotes[0].relevance)]

    @cached_property
    def dated(self) -> list[Quote]:
        """Quotes with a date that answer as well as the best one, the newest first; none if that one has no date.

        They have the same words of the query as it, and so they may say of an earlier or a later time what it says.
        """
        if not (self.quotes and self.quotes[0].date):
            return []
        best = self.quotes[0]
        alike = [quote for quote in self.quotes if quote.date and quote.relevance >= ALIKE * best.relevance]
        has = best.words & self.terms.keys()
        return sorted((quote for quote in alike if has <= quote.words), key=lambda quote: quote.date, reverse=True)

    def relevance(self, claim: Citable) -> float:
        """Return the estimated probability that evidence answers the query; 0 for a claim without any of the terms."""
        if isinstance(claim, Quote):
            return claim.relevance
        covered = len(claim.words & self.terms.keys())
        if not covered:
            return 0.0
        return estimate_relevance(Measured(covered / len(self.terms), claim.above, stated(self.query, claim.text)))

    def adds(self, claim: CitableClaim, chosen: Sequence[CitableClaim]) -> bool:
        """Return whether a claim covers at least half as many terms as the best one, or a term not covered before.

        A claim that shares one word of many with a question is mostly about something else.
        """
        has = claim.words & self.terms.keys()
        return 2 * len(has) >= self._most or not has <= frozenset().union(*(other.words for other in chosen))

    def fills(self, quote: Quote, claims: Sequence[CitableClaim], quotes: Sequence[Quote]) -> bool:
        """Return whether a quote has other characters of the texts, and a term that no chosen claim covers."""
        places = [(claim.corpus, place.artifact_id, place.span) for claim in claims for place in claim.places]
        if overlaps_any(quote, [*places, *((other.corpus, other.artifact_id, other.span) for other in quotes)]):
            return False
        return not claims or not quote.words & self.terms.keys() <= frozenset().union(*(c.words for c in claims))

    @cached_property
    def _most(self) -> int:
        """Maximum number of terms that one claim covers."""
        return max((len(claim.words & self.terms.keys()) for claim in self.relevant), default=0)

    def contesters(self, claim: CitableClaim) -> list[CitableClaim]:
        """Return the claims that contest a claim, those that contest them, and so on, as far as they may be cited."""
        found: dict[str, CitableClaim] = {}
        ahead = [claim]
        while ahead:
            one = ahead.pop()
            if one.claim_id not in found:
                found[one.claim_id] = one
                others = (self.by_id.get(other) for other in reversed(one.standing.contested_by))
                ahead += [other for other in others if other and other.tier in self.tiers]
        return list(found.values())[1:]

    def sentences_for(self, claim: CitableClaim) -> list[Sentence]:
        """Return the sentence of a claim, followed by those of the claims that contest it."""
        contesters = self.contesters(claim)
        mark = CONTESTED if claim.contested and not contesters else ""
        first = Sentence(self._clause(claim) + mark, (claim.claim_id,))
        return [first, *(Sentence(AGAINST + self._clause(other), (other.claim_id,)) for other in contesters)]

    def contradictions(self, cited: Sequence[CitableClaim]) -> list[Contradiction]:
        """Return both sides of every contradiction that a cited claim is in."""
        ids = {claim.claim_id for claim in cited}
        return [self._contradiction(claim, other, ids) for claim in cited for other in claim.standing.contested_by]

    def _contradiction(self, claim: CitableClaim, other_id: str, cited: Collection[str]) -> Contradiction:
        other = self.by_id.get(other_id)
        if other is None:
            return Contradiction(claim.claim_id, other_id)
        return Contradiction(claim.claim_id, other_id, other.text, other.tier, other_id in cited)

    def _clause(self, claim: CitableClaim) -> str:
        return escape_citations(first_clause(claim.text, self.terms).removesuffix("."))


def citation_mark(cited_ids: Iterable[str], numbered: bool) -> Callable[[str], str]:
    """Return the function that makes the citation of evidence: its id, or its number among these, in brackets."""
    numbers = {cited_id: str(number) for number, cited_id in enumerate(cited_ids, 1)} if numbered else {}
    return lambda cited_id: f"[{numbers.get(cited_id, cited_id)}]"


def compose(evidence: EvidenceSet, depth: int, max_chars: int, *, numbered: bool = False) -> Answer:
    """Compose an answer from the best `depth` pieces of evidence, in at most `max_chars` with its citations.

    Claims come first, a clause each; quotes fill the places that are left. Evidence that does not fit gives its place
    to the next. A claim and the claims that contest it are taken together or not at all. Contesting claims do not
    count towards `depth`.
    """
    limit = CharacterLimit(max_chars, numbered)
    left_out = LeftOut([], [])
    claims = _add_claims(evidence, depth, limit, left_out)
    _add_quotes(evidence, depth - len(claims), claims, limit, left_out)
    return assemble_answer(evidence, limit, left_out.cut, left_out.repeated)


class LeftOut(NamedTuple):
    """Ids of the evidence that did not fit, and of that which repeats other."""

    cut: list[str]
    repeated: list[str]


def _add_claims(evidence: EvidenceSet, depth: int, limit: CharacterLimit, left_out: LeftOut) -> list[CitableClaim]:
    chosen: list[CitableClaim] = []
    for claim in evidence.relevant:
        if len(chosen) == depth:
            break
        if claim.claim_id in limit.cited or not evidence.adds(claim, chosen):
            continue
        if any(repeats(claim, other) for other in chosen):
            left_out.repeated.append(claim.claim_id)
            continue
        own, *others = evidence.sentences_for(claim)
        same = _elsewhere(claim, evidence.relevant)
        if limit.add([replace(own, claim_ids=own.claim_ids + same), *others]):
            chosen.append(claim)
        else:
            left_out.cut.extend((claim.claim_id, *(other.claim_id for other in evidence.contesters(claim))))
    return chosen


def _add_quotes(
    evidence: EvidenceSet, depth: int, claims: Sequence[CitableClaim], limit: CharacterLimit, left_out: LeftOut
) -> None:
    chosen: list[Quote] = []
    for quote in evidence.relevant_quotes:
        if len(chosen) == depth:
            break
        if quote.quote_id in limit.cited or not evidence.fills(quote, claims, chosen):
            continue
        before: list[Citable] = [*claims, *chosen]
        if any(repeats(quote, other) for other in before):
            left_out.repeated.append(quote.quote_id)
            continue
        same = _elsewhere(quote, evidence.relevant_quotes)
        if limit.add([Sentence(escape_citations(quote.text), quote_ids=(quote.quote_id, *same))]):
            chosen.append(quote)
        else:
            left_out.cut.append(quote.quote_id)


def _elsewhere(one: Citable, evidence: Iterable[Citable]) -> tuple[str, ...]:
    """Return the ids of the evidence of other corpora that says the same, one for each corpus, unless any is contested.

    A sentence that several corpora have is one sentence with several places.
    """
    if _contested(one):
        return ()
    said = _normalized_words(one)
    found: dict[str, str] = {}
    for other in evidence:
        if other.corpus != one.corpus and not _contested(other) and _normalized_words(other) == said:
            found.setdefault(other.corpus, other.quote_id if isinstance(other, Quote) else other.claim_id)
    return tuple(found.values())


def _contested(one: Citable) -> bool:
    return isinstance(one, CitableClaim) and one.contested


def assemble_answer(
    evidence: EvidenceSet, limit: CharacterLimit, cut: Iterable[str], repeated: Sequence[str] = (), **more: Any
) -> Answer:
    """Return the answer made of the sentences within the character limit."""
    claims = [evidence.by_id[cited_id] for cited_id in limit.cited if cited_id in evidence.by_id]
    found = {quote.quote_id: quote for quote in evidence.quotes}
    quotes = [found[cited_id] for cited_id in limit.cited if cited_id in found]
    left = [cited_id for cited_id in dict.fromkeys(cut) if cited_id not in limit.cited]
    considered: list[Citable] = [*claims, *quotes] or [*evidence.claims, *evidence.quotes]
    relevance = max(map(evidence.relevance, considered), default=0.0)
    contradictions = evidence.contradictions(claims)
    dates = list(dict.fromkeys(quote.date for quote in evidence.dated if quote in quotes))
    return Answer(
        evidence.query,
        limit.sentences,
        claims,
        evidence.gaps,
        quotes,
        list(evidence.terms.values()),
        left,
        repeated,
        contradictions,
        relevance=relevance,
        searchable=evidence.searchable,
        numbered=limit.numbered,
        foreign=evidence.foreign,
        dates=dates if len(dates) > 1 else (),
        **more,
    )


class CharacterLimit:
    """Sentences that together, with their citations, have at most `characters` characters.

    Citations are ids of claims and quotes or, with `numbered`, numbers.
    """

    def __init__(self, characters: int, numbered: bool = False) -> None:
        self._left = characters
        self.numbered = numbered
        self.sentences: list[Sentence] = []
        self.cited: dict[str, None] = {}

    def add(self, sentences: Sequence[Sentence]) -> bool:
        """Add all of the sentences and return True, or add none and return False if they do not fit."""
        if not self.fits(sentences):
            return False
        self._left -= self._length(sentences)
        self.sentences.extend(sentences)
        self.cited = self._cited_with(sentences)
        return True

    def fits(self, sentences: Sequence[Sentence]) -> bool:
        """Return whether there is room for all of the sentences."""
        return self._length(sentences) <= self._left

    def _length(self, sentences: Sequence[Sentence]) -> int:
        mark = citation_mark(self._cited_with(sentences), self.numbered)
        return len(" ".join(sentence.cited(mark) for sentence in sentences)) + (1 if self.sentences else 0)

    def _cited_with(self, sentences: Sequence[Sentence]) -> dict[str, None]:
        return self.cited | dict.fromkeys(cited_id for sentence in sentences for cited_id in sentence.cited_ids)


def escape_citations(text: str) -> str:
    """Return a text in which nothing looks like a citation: a document's own are put in round brackets."""
    return CITATION.sub(r"(\1)", text)


def repeats(claim: Citable, other: Citable) -> bool:
    """Return whether evidence only repeats other: the same words in the same order, apart from endings and articles.

    No looser comparison is made, because a single word may reverse a statement. Contested claims, and claims of
    different corpora, never count as repeats.
    """
    if claim.corpus != other.corpus or _contested(claim) or _contested(other):
        return False
    return _normalized_words(claim) == _normalized_words(other)


def _normalized_words(claim: Citable) -> list[str]:
    return [stem(word, claim.lexical) for word in WORD.findall(claim.text) if word.casefold() not in ARTICLES]
