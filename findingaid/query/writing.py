"""Answers that a model writes: asked for at an endpoint, and gone through sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from findingaid.config import ANSWERERS
from findingaid.errors import ConfigError, QueryError
from findingaid.model import Answerer, Written
from findingaid.query.answer import (
    CITATION,
    CONTESTED,
    Answer,
    Budget,
    Found,
    Offer,
    Refused,
    Sentence,
    assembled,
    harmless,
    repeats,
)
from findingaid.query.called import calling
from findingaid.query.clauses import negates, sentences_of
from findingaid.query.service import ChatService, as_data, prompt
from findingaid.query.terms import WORD, salient, stems
from findingaid.registry import STRICT
from findingaid.store.lexical import Lexical
from findingaid.synthesis.prompting import fill, on_a_line

SUPPORTED = 0.5
"""The least share of a sentence's words that the claims it cites must have; a summary puts some in words of its own."""


class _Sentence(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    text: str
    claims: list[str]


class _Answered(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, title="Answer")
    sentences: list[_Sentence]


@dataclass(frozen=True, kw_only=True)
class OpenAIAnswerer(ChatService):
    """Asks a chat model at an OpenAI-compatible endpoint."""

    __pydantic_config__: ClassVar = STRICT

    def write(self, query: str, claims: Mapping[str, str], max_chars: int) -> list[Written]:
        texts = ["Question:\n" + as_data(query)]
        texts += [f"Claim {claim_id}:\n{as_data(text)}" for claim_id, text in claims.items()]
        answer = self.ask(fill(prompt("answer"), max_chars=max_chars), "\n\n".join(texts), _Answered)
        return [Written(sentence.text, sentence.claims) for sentence in answer.sentences]


Writing = Answerer | Mapping[str, Any] | str | bool | None
"""Who writes an answer: True for whom the configuration names, a kind or a spec of one, an object; else nobody."""


def answerer_of(given: Writing, configured: Answerer | None) -> Answerer | None:
    """Who is to write. Raises ConfigError where nobody is configured, or a spec is none."""
    if given is None or given is False:
        return None
    if given is True:
        if configured is None:
            raise ConfigError("llm: no model is configured for answers: set answer: {kind: openai, model: ...}")
        return configured
    if isinstance(given, str | Mapping):
        return ANSWERERS.create({"kind": given} if isinstance(given, str) else given, "llm")
    if isinstance(given, Answerer):
        return given
    raise QueryError(f"llm: expected true, a kind or an answerer, got a {type(given).__name__}")


def written(found: Found, answerer: Answerer, depth: int, max_chars: int) -> Answer:
    """What a model answers from the best `depth` claims and what contests them; it is not asked where there are none.

    Raises ModelError where it fails; nothing is answered in its place.
    """
    best: list[Offer] = []
    for offer in found.relevant:
        if len(best) < depth and found.adds(offer, best) and not any(repeats(offer, other) for other in best):
            best.append(offer)
    offers = {o.claim_id: o for offer in best for o in (offer, *found.against(offer))}
    if not offers:
        return assembled(found, Budget(max_chars), ())
    with calling(f"answerer {type(answerer).__name__}"):
        sentences = answerer.write(found.query, {i: offer.text for i, offer in offers.items()}, max_chars)
    return checked(found, offers, sentences, max_chars, answerer.model)


def checked(
    found: Found, offers: Mapping[str, Offer], sentences: Sequence[Written], max_chars: int, producer: str
) -> Answer:
    """The sentences that cite claims which were offered, and say what those say, as many as there is room for.

    What contests a claim that is cited is added where the model left it out.
    """
    budget = Budget(max_chars)
    refused: list[Refused] = []
    cut: list[str] = []
    invented: dict[str, None] = {}
    for text, claimed in _apart(sentences):
        made_up = tuple(claim_id for claim_id in claimed if claim_id not in offers)
        cited = [offers[claim_id] for claim_id in claimed if claim_id in offers]
        invented.update(dict.fromkeys(made_up))
        if reason := unsupported(text, [offer.text for offer in cited], found.lexical):
            refused.append(Refused(text, reason, made_up))
        elif not budget.take(_with_other_sides(found, text, cited)):
            cut.extend(offer.claim_id for offer in cited)
    return assembled(found, budget, cut, producer=producer, refused=refused, invented=tuple(invented))


def unsupported(sentence: str, claims: Sequence[str], lexical: Lexical | None = None) -> str:
    """Why claims cannot carry a sentence, "" where they may.

    They must have at least half of its words as stems, all of its numbers, and negate where it does. That finds what
    is made up, not every turn of meaning.
    """
    if not claims:
        return "cites no claim that was offered"
    numbers = [word for word in WORD.findall(sentence) if any(map(str.isdigit, word))]
    known = stems(claims, lexical)
    if strange := [number for number in numbers if number.casefold() not in known]:
        return f"its claims do not say {strange[0]}"
    if share(sentence, claims, lexical) < SUPPORTED:
        return "its claims do not say this"
    if negates(sentence) and not any(map(negates, claims)):
        return "negates what its claims say"
    if not negates(sentence) and all(map(negates, claims)):
        return "leaves out a negation of its claims"
    return ""


def share(sentence: str, claims: Sequence[str], lexical: Lexical | None = None) -> float:
    """The share of a sentence's salient words that texts have, as stems."""
    wanted = salient(sentence, lexical).keys()
    return len(wanted & stems(claims, lexical)) / len(wanted) if wanted else 0.0


def _apart(sentences: Sequence[Written]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each sentence by itself, with the ids it is said to stand on; ids within a text count as said."""
    for sentence in sentences:
        text = on_a_line(sentence.text)
        claimed = tuple(dict.fromkeys((*sentence.claim_ids, *CITATION.findall(text))))
        for claim_id in claimed:
            text = text.replace(f"[{claim_id}]", "")
        for part in sentences_of(" ".join(text.split())):
            plain = harmless(part.strip()).replace(" .", ".")
            if plain.strip(".,;: "):
                yield plain, claimed


def _with_other_sides(found: Found, text: str, cited: Sequence[Offer]) -> list[Sentence]:
    """A sentence, and what contests the claims it cites, where it does not cite that itself."""
    ids = tuple(offer.claim_id for offer in cited)
    others = [side for offer in cited for side in found.said(offer)[1:] if side.claim_ids[0] not in ids]
    alone = any(offer.contested and not found.against(offer) for offer in cited)
    marked = text.removesuffix(".") + CONTESTED if alone else text
    return [Sentence(marked, ids), *dict.fromkeys(others)]
