"""Composition of answers from the evidence that was found.

Pure: the evidence, its status and a model's text are inputs. `compose` adds claims and quotes one by one.
`generation.verify_sentences` checks a model's text sentence by sentence. Both end in `assemble_answer`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from findingaid.claims.model import Tier
from findingaid.query.answers.answer import (
    Answer,
    Citable,
    CitableClaim,
    Contradiction,
    ForeignPassage,
    Sentence,
    citation_mark,
    escape_citations,
)
from findingaid.query.answers.answer_types import stated
from findingaid.query.answers.other_names import names_time, unnamed_numbers
from findingaid.query.answers.quotes import Quote, overlaps_any
from findingaid.query.answers.relevance import ALIKE, BESIDE, REFUSED, Measured, estimate_relevance
from findingaid.text.analyzer import Lexical
from findingaid.text.clauses import first_clause
from findingaid.text.words import WORD, salient, salient_words, stem

AGAINST = "Contested by: "
CONTESTED = " (contested)"

ARTICLES = frozenset({"a", "an", "the"})

C = TypeVar("C", CitableClaim, Quote)


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
        evidence: list[Citable] = [*self.claims, *self.quotes]
        known = self.covered.union(*(each.words - unnamed_numbers(self.query, each.text) for each in evidence))
        return [word for key, word in self.terms.items() if key not in known]

    @cached_property
    def relevant(self) -> list[CitableClaim]:
        """Claims that may answer the query: best first, and of those that answer as well as the best the newest."""
        return [*self.dated_claims, *(claim for claim in self._answering if claim not in self.dated_claims)]

    @cached_property
    def dated_claims(self) -> list[CitableClaim]:
        """Claims with a date that answer as well as the best one, and that people judged alike; the newest first."""
        best_first = self._answering
        return self._dated([claim for claim in best_first if claim.tier is best_first[0].tier])

    @cached_property
    def _answering(self) -> list[CitableClaim]:
        """Claims that may answer the query, best first."""
        return [claim for claim in self.claims if self.relevance(claim) >= REFUSED]

    @cached_property
    def relevant_quotes(self) -> list[Quote]:
        """Quotes that may answer the query, or add to the answer: best first, and of those in `dated` the newest."""
        if not self.quotes or self.quotes[0].relevance < REFUSED:
            return []
        others = [quote for quote in self.quotes if quote not in self.dated and not self._is_of_another_row(quote)]
        return [*self.dated, *(quote for quote in others if quote.relevance >= BESIDE * self.quotes[0].relevance)]

    def _is_of_another_row(self, quote: Quote) -> bool:
        """Return whether a quote is a row of the text of the best one with only a part of the question's words in that.

        It says of another thing what is asked for: the price of a pump is no answer about another pump.
        """
        best = self.quotes[0]
        rows = quote.is_entry and best.is_entry
        same_text = (quote.corpus, quote.artifact_id) == (best.corpus, best.artifact_id)
        return rows and same_text and quote.words & self.terms.keys() < best.words & self.terms.keys()

    @cached_property
    def dated(self) -> list[Quote]:
        """Quotes with a date that answer as well as the best one, the newest first."""
        return self._dated(self.quotes)

    def _dated(self, evidence: Sequence[C]) -> list[C]:
        """Return the evidence with a date that answers as well as the first, the newest first; none if that has none.

        It has the same words of the query, and so it may say of an earlier or a later time what the first one says.
        None is put first for a query that names a time, which may be an earlier one.
        """
        if not (evidence and evidence[0].date) or names_time(self.query):
            return []
        best = evidence[0]
        alike = [one for one in evidence if one.date and self.relevance(one) >= ALIKE * self.relevance(best)]
        has = best.words & self.terms.keys()
        return sorted((one for one in alike if has <= one.words), key=lambda one: one.date, reverse=True)

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
    dated: Sequence[Citable] = evidence.dated_claims if claims else evidence.dated
    dates = list(dict.fromkeys(one.date for one in dated if one in [*claims, *quotes]))
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
