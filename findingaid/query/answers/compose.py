"""Composed answers: sentences with the claims they cite, and gaps, the words of the query that no claim covers.

Pure: the claims that were found, their status and a model's text are inputs. `compose` adds claims one by one.
`generation.verify_sentences` checks a model's text sentence by sentence. Both end in `assemble_answer`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from findingaid.claims.model import Evidence, Standing, Tier, Truth
from findingaid.model import Fresh
from findingaid.query.answers.relevance import MEDIUM, REFUSED, Confidence, confidence_of, estimate_relevance, percent
from findingaid.text.analyzer import Lexical
from findingaid.text.clauses import first_clause
from findingaid.text.words import WORD, salient, salient_words, stem, stems

CITATION = re.compile(r"\[([0-9a-f]{32})\]")
"""Form in which an answer cites a claim."""

AGAINST = "Contested by: "
CONTESTED = " (contested)"

ARTICLES = frozenset({"a", "an", "the"})


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a claim: the passage of an artifact that states it, and the record that was found."""

    artifact_id: str
    record_id: str
    span: tuple[int, int] | None
    quote: str
    evidence: Evidence
    fresh: Fresh | None = None
    fresh_note: str = ""


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
    standing: Standing
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
    def outdated(self) -> str:
        """Remark that no source of the claim still has the version that states it; "" if one may have it."""
        if not all(place.fresh in {"changed", "gone"} for place in self.places):
            return ""
        first = self.places[0]
        return f"(source {first.fresh}{f' {first.fresh_note}' if first.fresh_note else ''})"

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
    """Sentence of an answer without its citations, and the ids of the claims it cites."""

    text: str
    claim_ids: tuple[str, ...]

    def cited(self, mark: Callable[[str], str] = lambda claim_id: f"[{claim_id}]") -> str:
        """Return the sentence with its citations, placed before a final full stop."""
        marks = " ".join(map(mark, self.claim_ids))
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
    """Passage that a search found for a question which claims do not answer, or hardly."""

    corpus: str
    artifact_id: str
    record_id: str
    span: tuple[int, int] | None
    text: str
    fresh: Fresh | None = None
    fresh_note: str = ""


@dataclass(frozen=True)
class Answer:
    """Sentences with citations, and `gaps`: words of the query that no claim that may be cited covers.

    `claims` are the cited claims, in the order of the answer. `relevance` is the estimated probability that the best of
    them answers the question; without sentences, that of the best claim found. `cut` are the ids of claims that did not
    fit into the budget, `repeated` those of claims that repeat a chosen one. Without sentences there is no confidence.
    `producer` is the model that wrote the answer, "" if no model did. `refused` are the model's sentences that were
    left out, and `invented` the ids that it made up. `passages` are those that a search found, if the answer is weak or
    has no sentences. `searchable`: the query has words other than stop words. `numbered`: `answer` cites claims by
    their places in `claims`, instead of by their ids. `fresh_seconds` is the time that the check of freshness took;
    None without one.
    """

    query: str
    sentences: Sequence[Sentence]
    claims: Sequence[CitableClaim]
    gaps: Sequence[str]
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
    fresh_seconds: float | None = None

    @property
    def answer(self) -> str:
        """All sentences with their citations: `[claim id]`, or `[1]` if they are numbered."""
        return " ".join(self.cited_sentences)

    @property
    def cited_sentences(self) -> list[str]:
        """Each sentence with its citations, and behind it whether a source of it has changed."""
        mark = citation_mark([claim.claim_id for claim in self.claims], self.numbered)
        outdated = {claim.claim_id: claim.outdated for claim in self.claims}
        return [
            " ".join([sentence.cited(mark), *dict.fromkeys(filter(None, map(outdated.get, sentence.claim_ids)))])
            for sentence in self.sentences
        ]

    @property
    def unreviewed(self) -> int:
        """Number of sentences that cite a claim which no person approved."""
        approved = {claim.claim_id for claim in self.claims if claim.tier is Tier.APPROVED}
        return sum(not approved.issuperset(sentence.claim_ids) for sentence in self.sentences)

    @property
    def confidence(self) -> Confidence | None:
        """Confidence by the relevance and the status of the cited claims, see `confidence_of`; None without sentences.

        The confidence of contested claims is low.
        """
        if not self.sentences:
            return None
        stable = all(claim.standing.truth is Truth.STABLE for claim in self.claims)
        contested = any(claim.contested for claim in self.claims)
        return confidence_of(self.relevance, contested=contested, stable=stable, gaps=bool(self.gaps))

    @property
    def weak(self) -> bool:
        """Whether the answer has no sentences, or its claims probably do not answer the question."""
        return not self.sentences or self.relevance < MEDIUM

    @property
    def note(self) -> str:
        """One line on what is missing or doubtful; "" for an answer that is neither."""
        if not self.sentences:
            return self._missing
        if self.relevance < MEDIUM:
            return f"weak: these claims may not answer the question (relevance {percent(self.relevance)})"
        return "contested: another claim contradicts it" if any(claim.contested for claim in self.claims) else ""

    @property
    def _missing(self) -> str:
        if not self.searchable:
            return "the question has no words to search for, only stop words such as “the” and “what”: name its subject"
        if self.cut:
            return "no sentence fits into the maximum length"
        if self.refused:
            return "no sentence of the model is supported by its claims"
        if not self.relevance:
            return "no claim that may be cited covers the question"
        return f"no claim that may be cited answers the question well enough (best relevance {percent(self.relevance)})"

    def to_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "answer": self.answer,
            "claims": [claim.to_dict() for claim in self.claims],
            "gaps": list(self.gaps),
            "passages": [asdict(passage) for passage in self.passages],
            "meta": {
                "confidence": self.confidence,
                "relevance": round(self.relevance, 3),
                "note": self.note,
                "unreviewed": self.unreviewed,
                "sentences": [asdict(sentence) for sentence in self.sentences],
                "cut": list(self.cut),
                "repeated": list(self.repeated),
                "contradictions": [asdict(each) for each in self.contradictions],
                "producer": self.producer,
                "refused": [asdict(refused) for refused in self.refused],
                "invented": list(self.invented),
                "fresh_seconds": self.fresh_seconds,
            },
        }


@dataclass(frozen=True)
class EvidenceSet:
    """Claims that a search found for an answer: `claims`, best first, all of `tiers`.

    `contesting` are claims of any tier that may be shown as the other side of a contradiction.
    """

    query: str
    claims: Sequence[CitableClaim]
    contesting: Sequence[CitableClaim] = ()
    tiers: Collection[Tier] = tuple(Tier)
    lexical: Lexical = field(default_factory=Lexical)

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
        """Terms that no found claim covers, even one for which the answer has no room."""
        return [word for key, word in self.terms.items() if not any(key in claim.words for claim in self.claims)]

    @cached_property
    def relevant(self) -> list[CitableClaim]:
        """Claims that may answer the query, best first."""
        return [claim for claim in self.claims if self.relevance(claim) >= REFUSED]

    def relevance(self, claim: CitableClaim) -> float:
        """Return the estimated probability that a claim answers the query; 0 if it covers none of the terms."""
        covered = len(claim.words & self.terms.keys())
        return estimate_relevance(covered / len(self.terms), claim.above) if covered else 0.0

    def adds(self, claim: CitableClaim, chosen: Sequence[CitableClaim]) -> bool:
        """Return whether a claim covers at least half as many terms as the best one, or a term not covered before.

        A claim that shares one word of many with a question is mostly about something else.
        """
        has = claim.words & self.terms.keys()
        return 2 * len(has) >= self._most or not has <= frozenset().union(*(other.words for other in chosen))

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


def citation_mark(claim_ids: Iterable[str], numbered: bool) -> Callable[[str], str]:
    """Return the function that makes the citation of a claim: its id, or its number among these claims, in brackets."""
    numbers = {claim_id: str(number) for number, claim_id in enumerate(claim_ids, 1)} if numbered else {}
    return lambda claim_id: f"[{numbers.get(claim_id, claim_id)}]"


def compose(evidence: EvidenceSet, depth: int, max_chars: int, *, numbered: bool = False) -> Answer:
    """Compose an answer from the best `depth` claims, a clause each, in at most `max_chars` with its citations.

    A claim that does not fit gives its place to the next. A claim and the claims that contest it are taken together or
    not at all. Contesting claims do not count towards `depth`.
    """
    limit = CharacterLimit(max_chars, numbered)
    chosen: list[CitableClaim] = []
    repeated: list[str] = []
    cut: list[str] = []
    for claim in evidence.relevant:
        if len(chosen) == depth:
            break
        if claim.claim_id in limit.cited or not evidence.adds(claim, chosen):
            continue
        if any(repeats(claim, other) for other in chosen):
            repeated.append(claim.claim_id)
        elif limit.add(evidence.sentences_for(claim)):
            chosen.append(claim)
        else:
            cut.extend((claim.claim_id, *(other.claim_id for other in evidence.contesters(claim))))
    return assemble_answer(evidence, limit, cut, repeated)


def assemble_answer(
    evidence: EvidenceSet, limit: CharacterLimit, cut: Iterable[str], repeated: Sequence[str] = (), **more: Any
) -> Answer:
    """Return the answer made of the sentences within the character limit."""
    claims = [evidence.by_id[claim_id] for claim_id in limit.cited]
    left = [claim_id for claim_id in dict.fromkeys(cut) if claim_id not in limit.cited]
    relevance = max(map(evidence.relevance, claims or evidence.claims), default=0.0)
    contradictions = evidence.contradictions(claims)
    return Answer(
        evidence.query,
        limit.sentences,
        claims,
        evidence.gaps,
        left,
        repeated,
        contradictions,
        relevance=relevance,
        searchable=evidence.searchable,
        numbered=limit.numbered,
        **more,
    )


class CharacterLimit:
    """Sentences that together, with their citations, have at most `characters` characters.

    Citations are ids of claims or, with `numbered`, numbers.
    """

    def __init__(self, characters: int, numbered: bool = False) -> None:
        self._left = characters
        self.numbered = numbered
        self.sentences: list[Sentence] = []
        self.cited: dict[str, None] = {}

    def add(self, sentences: Sequence[Sentence]) -> bool:
        """Add all of the sentences and return True, or add none and return False if they do not fit."""
        cited = self.cited | dict.fromkeys(claim_id for sentence in sentences for claim_id in sentence.claim_ids)
        mark = citation_mark(cited, self.numbered)
        length = len(" ".join(sentence.cited(mark) for sentence in sentences)) + (1 if self.sentences else 0)
        if length > self._left:
            return False
        self._left -= length
        self.sentences.extend(sentences)
        self.cited = cited
        return True


def escape_citations(text: str) -> str:
    """Return a text in which nothing looks like a citation: a document's own are put in round brackets."""
    return CITATION.sub(r"(\1)", text)


def repeats(claim: CitableClaim, other: CitableClaim) -> bool:
    """Return whether a claim only repeats another: the same words in the same order, apart from endings and articles.

    No looser comparison is made, because a single word may reverse a statement. Contested claims, and claims of
    different corpora, never count as repeats.
    """
    if claim.corpus != other.corpus or claim.contested or other.contested:
        return False
    return _normalized_words(claim) == _normalized_words(other)


def _normalized_words(claim: CitableClaim) -> list[str]:
    return [stem(word, claim.lexical) for word in WORD.findall(claim.text) if word.casefold() not in ARTICLES]
