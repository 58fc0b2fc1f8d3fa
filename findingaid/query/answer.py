"""An answer: sentences, each with the claims it stands on, and what of the question nothing speaks of.

Pure: which claims were found, how they stand and what a model wrote is given. `compose` says claims one by one,
`checked` goes through what a model wrote, sentence by sentence; both end in `assembled`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from findingaid.claims.model import Evidence, Standing, Tier, Truth
from findingaid.query.clauses import clause_of
from findingaid.query.terms import WORD, salient, stem, stems
from findingaid.store.lexical import Lexical

Confidence = Literal["high", "medium", "low"]

CITATION = re.compile(r"\[([0-9a-f]{32})\]")
"""How an answer cites a claim."""

AGAINST = "Against this stands: "
CONTESTED = " (contested)"

ARTICLES = frozenset({"a", "an", "the"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a claim stands: the passage of an artifact that says so, and the record that was found."""

    artifact_id: str
    record_id: str
    span: tuple[int, int] | None
    quote: str
    evidence: Evidence


@dataclass(frozen=True)
class Offer:
    """A claim that was found and may be cited, with every place that says so; the best place first."""

    claim_id: str
    corpus: str
    text: str
    tier: Tier
    standing: Standing
    places: tuple[Place, ...]
    type: str = "fact"
    entities: tuple[str, ...] = ()
    lexical: Lexical = field(default_factory=Lexical, repr=False)

    @cached_property
    def words(self) -> frozenset[str]:
        """The stems that it covers."""
        return stems([self.text, *self.entities, *(place.quote for place in self.places)], self.lexical)

    @property
    def contested(self) -> bool:
        """Whether another one that is in use says otherwise."""
        return self.standing.truth is Truth.CONTESTED or bool(self.standing.contested_by)

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
class Side:
    """The other side of a claim that is contested: its text is empty where nobody may be shown it.

    `cited` where it is a claim of the answer, too; of another tier than those asked for it is shown here alone.
    """

    claim_id: str
    other_id: str
    text: str = ""
    tier: Tier | None = None
    cited: bool = False


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of an answer without its citations, and the ids of the claims it stands on."""

    text: str
    claim_ids: tuple[str, ...]

    def cited(self, mark: Callable[[str], str] = lambda claim_id: f"[{claim_id}]") -> str:
        """The sentence with its citations, before its full stop."""
        marks = " ".join(map(mark, self.claim_ids))
        if self.text.endswith(("!", "?", "…", "...")):
            return f"{self.text} {marks}"
        return f"{self.text.removesuffix('.')} {marks}."


@dataclass(frozen=True, slots=True)
class Refused:
    """A sentence of a model that is not in the answer, why, and the ids it cites that were never offered."""

    text: str
    reason: str
    invented: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """Sentences that are each cited, and `gaps`: words of the query that no claim that may be cited speaks of.

    `claims` are those cited, in the order of the answer. `cut` are ids of claims for which the budget had no room,
    `repeated` those that say what a cited one says. Without sentences there is no confidence. `producer` is the model
    that wrote, "" where none did; `refused` is what it wrote that is not here, `invented` the ids that it made up.
    """

    query: str
    sentences: Sequence[Sentence]
    claims: Sequence[Offer]
    gaps: Sequence[str]
    cut: Sequence[str] = ()
    repeated: Sequence[str] = ()
    sides: Sequence[Side] = ()
    producer: str = ""
    refused: Sequence[Refused] = ()
    invented: Sequence[str] = ()

    @property
    def answer(self) -> str:
        """All sentences with their citations, `[claim id]`."""
        return " ".join(sentence.cited() for sentence in self.sentences)

    @property
    def confidence(self) -> Confidence | None:
        """Low where anything cited is contested, high where all of it is stable."""
        if not self.sentences:
            return None
        if any(claim.contested for claim in self.claims):
            return "low"
        return "high" if all(claim.standing.truth is Truth.STABLE for claim in self.claims) else "medium"

    def to_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "answer": self.answer,
            "claims": [claim.to_dict() for claim in self.claims],
            "gaps": list(self.gaps),
            "meta": {
                "confidence": self.confidence,
                "sentences": [asdict(sentence) for sentence in self.sentences],
                "cut": list(self.cut),
                "repeated": list(self.repeated),
                "contradictions": [asdict(side) for side in self.sides],
                "producer": self.producer,
                "refused": [asdict(refused) for refused in self.refused],
                "invented": list(self.invented),
            },
        }


@dataclass(frozen=True)
class Found:
    """What a search found for an answer: `offers`, best first, all of `tiers`.

    `others` are what else may be shown as the other side of a contradiction, of any tier.
    """

    query: str
    offers: Sequence[Offer]
    others: Sequence[Offer] = ()
    tiers: Collection[Tier] = tuple(Tier)
    lexical: Lexical = field(default_factory=Lexical)

    @cached_property
    def terms(self) -> dict[str, str]:
        """Stem -> word of the query, of what an answer must speak of."""
        return salient(self.query, self.lexical)

    @cached_property
    def known(self) -> Mapping[str, Offer]:
        """Everything that may be shown, by id."""
        return {offer.claim_id: offer for offer in (*self.others, *self.offers)}

    @cached_property
    def gaps(self) -> list[str]:
        """The terms that no claim that was found covers, however many of them the answer has room for."""
        return [word for key, word in self.terms.items() if not any(key in offer.words for offer in self.offers)]

    @cached_property
    def relevant(self) -> list[Offer]:
        """What covers any of the terms."""
        return [offer for offer in self.offers if not offer.words.isdisjoint(self.terms)]

    def adds(self, offer: Offer, said: Sequence[Offer]) -> bool:
        """Whether a claim has at least half as many of the terms as the best has, or one that nothing said before has.

        What shares one word of many with a question is mostly about something else.
        """
        has = offer.words & self.terms.keys()
        return 2 * len(has) >= self._most or not has <= frozenset().union(*(other.words for other in said))

    @cached_property
    def _most(self) -> int:
        """How many of the terms one claim covers, at most."""
        return max((len(offer.words & self.terms.keys()) for offer in self.relevant), default=0)

    def against(self, offer: Offer) -> list[Offer]:
        """What contests a claim, what contests that, and so on, as far as it may be cited itself."""
        found: dict[str, Offer] = {}
        ahead = [offer]
        while ahead:
            one = ahead.pop()
            if one.claim_id not in found:
                found[one.claim_id] = one
                others = (self.known.get(other) for other in reversed(one.standing.contested_by))
                ahead += [other for other in others if other and other.tier in self.tiers]
        return list(found.values())[1:]

    def said(self, offer: Offer) -> list[Sentence]:
        """A claim as it stands in an answer, together with what contests it."""
        against = self.against(offer)
        mark = CONTESTED if offer.contested and not against else ""
        first = Sentence(self._clause(offer) + mark, (offer.claim_id,))
        return [first, *(Sentence(AGAINST + self._clause(other), (other.claim_id,)) for other in against)]

    def sides(self, cited: Sequence[Offer]) -> list[Side]:
        """Both sides of every contradiction that cited claims are in."""
        ids = {offer.claim_id for offer in cited}
        return [self._side(offer, other, ids) for offer in cited for other in offer.standing.contested_by]

    def _side(self, offer: Offer, other_id: str, cited: Collection[str]) -> Side:
        other = self.known.get(other_id)
        if other is None:
            return Side(offer.claim_id, other_id)
        return Side(offer.claim_id, other_id, other.text, other.tier, other_id in cited)

    def _clause(self, offer: Offer) -> str:
        return harmless(clause_of(offer.text, self.terms).removesuffix("."))


def compose(found: Found, depth: int, max_chars: int) -> Answer:
    """The best `depth` claims, a clause each, in at most `max_chars`; what has no room gives its place to the next.

    What contests a claim comes with it, or neither does, and takes no place of its own.
    """
    budget = Budget(max_chars)
    chosen: list[Offer] = []
    repeated: list[str] = []
    cut: list[str] = []
    for offer in found.relevant:
        if len(chosen) == depth:
            break
        if offer.claim_id in budget.cited or not found.adds(offer, chosen):
            continue
        if any(repeats(offer, other) for other in chosen):
            repeated.append(offer.claim_id)
        elif budget.take(found.said(offer)):
            chosen.append(offer)
        else:
            cut.extend((offer.claim_id, *(other.claim_id for other in found.against(offer))))
    return assembled(found, budget, cut, repeated)


def assembled(found: Found, budget: Budget, cut: Iterable[str], repeated: Sequence[str] = (), **more: Any) -> Answer:
    """The answer of the sentences that were taken."""
    claims = [found.known[claim_id] for claim_id in budget.cited]
    left = [claim_id for claim_id in dict.fromkeys(cut) if claim_id not in budget.cited]
    return Answer(found.query, budget.taken, claims, found.gaps, left, repeated, found.sides(claims), **more)


class Budget:
    """Sentences that together, with their citations, have at most so many characters."""

    def __init__(self, characters: int) -> None:
        self._left = characters
        self.taken: list[Sentence] = []
        self.cited: dict[str, None] = {}

    def take(self, sentences: Sequence[Sentence]) -> bool:
        """All of the sentences, or none where they have no room."""
        length = len(" ".join(sentence.cited() for sentence in sentences)) + (1 if self.taken else 0)
        if length > self._left:
            return False
        self._left -= length
        self.taken.extend(sentences)
        self.cited.update(dict.fromkeys(claim_id for sentence in sentences for claim_id in sentence.claim_ids))
        return True


def harmless(text: str) -> str:
    """A text in which nothing looks like a citation: those that a document holds of its own stand in round brackets."""
    return CITATION.sub(r"(\1)", text)


def repeats(offer: Offer, other: Offer) -> bool:
    """Whether a claim only repeats another: the same words in the same order, but for their endings and articles.

    No closer likeness is looked for: a single word may turn a statement round.
    """
    if offer.corpus != other.corpus or offer.contested or other.contested:
        return False
    return _gist(offer) == _gist(other)


def _gist(offer: Offer) -> list[str]:
    return [stem(word, offer.lexical) for word in WORD.findall(offer.text) if word.casefold() not in ARTICLES]
