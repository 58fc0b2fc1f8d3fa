"""Answers written by a model, with a check of each sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from findingaid.errors import ConfigError, ModelError, QueryError
from findingaid.llm.chat import Chat, ChatParameters
from findingaid.llm.completions import ModelText
from findingaid.llm.prompts import as_data, fill_template, load_template, to_one_line
from findingaid.protocols import Answerer, Verifier, Written
from findingaid.query.answers.answer import (
    CITATION,
    Answer,
    Citable,
    CitableClaim,
    RefusedSentence,
    Sentence,
    escape_citations,
)
from findingaid.query.answers.citation_marks import cited_numbers, split_marks
from findingaid.query.answers.compose import CONTESTED, CharacterLimit, EvidenceSet, assemble_answer, repeats
from findingaid.query.answers.quotes import Quote
from findingaid.query.answers.verification import find_objection
from findingaid.query.search.user_code import convert_exceptions
from findingaid.registry import Registry, checked
from findingaid.text.sentences import whole_sentences


class WrittenSentence(BaseModel):
    """Sentence as a model writes it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: ModelText
    evidence: Annotated[list[int], BeforeValidator(cited_numbers)]


class WrittenAnswer(BaseModel):
    """Answer as a model writes it."""

    model_config = ConfigDict(extra="forbid", strict=True, title="Answer")
    sentences: list[WrittenSentence]


@checked
@dataclass(frozen=True, kw_only=True)
class OpenAIAnswerer(ChatParameters):
    """Answers by a chat model at an OpenAI-compatible endpoint."""

    @cached_property
    def _chat(self) -> Chat[WrittenAnswer]:
        return self.chat(WrittenAnswer)

    def write(self, query: str, evidence: Mapping[str, str], max_chars: int) -> list[Written]:
        return write_answer(self._chat, query, evidence, max_chars)


def write_answer(chat: Chat[WrittenAnswer], query: str, evidence: Mapping[str, str], max_chars: int) -> list[Written]:
    """Have a model write an answer from evidence. Raises ModelError."""
    texts = ["Question:\n" + as_data(query)]
    texts += [f"Evidence {number}:\n{as_data(text)}" for number, text in enumerate(evidence.values(), 1)]
    answer = chat.ask(fill_template(load_template("answer"), max_chars=max_chars), "\n\n".join(texts))
    ids = dict(enumerate(evidence, 1))  # numbers, since models copy them without mistakes
    by_number = dict(enumerate(evidence.values(), 1))
    sentences = []
    for said in answer.sentences:
        text, marked = split_marks(said.text, said.evidence, by_number)
        cited = dict.fromkeys([*said.evidence, *marked])
        sentences.append(Written(text, [ids.get(number, str(number)) for number in cited]))
    return sentences


AnswererOption = Answerer | Mapping[str, Any] | str | bool | None
"""Choice of an answerer: True for the configured one, a kind, a spec, or an object; False or None for no answerer."""


def choose_answerer(given: AnswererOption, configured: Answerer | None) -> Answerer | None:
    """Return the answerer to use, if any. Raises ConfigError if none is configured, or if a spec is not valid."""
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


def generate_answer(
    evidence: EvidenceSet,
    answerer: Answerer,
    verifier: Verifier,
    depth: int,
    max_chars: int,
    *,
    numbered: bool = False,
) -> Answer:
    """Return an answer that a model writes from the best `depth` pieces of evidence and the claims that contest them.

    Without evidence, the model is not called. Raises ModelError if it fails; no other answer replaces it.
    """
    citable = _choose_evidence(evidence, depth)
    if not citable:
        return assemble_answer(evidence, CharacterLimit(max_chars, numbered), ())
    sentences = _call_answerer(answerer, evidence.query, citable, max_chars)
    return verify_sentences(evidence, citable, sentences, max_chars, answerer.model, verifier, numbered=numbered)


def _choose_evidence(evidence: EvidenceSet, depth: int) -> dict[str, Citable]:
    """Return the evidence to offer by id: the best claims with those that contest them, then quotes."""
    claims: list[CitableClaim] = []
    for claim in evidence.relevant:
        if len(claims) < depth and evidence.adds(claim, claims) and not any(repeats(claim, o) for o in claims):
            claims.append(claim)
    quotes: list[Quote] = []
    for quote in evidence.relevant_quotes:
        chosen: list[Citable] = [*claims, *quotes]
        if len(chosen) < depth and evidence.fills(quote, claims, quotes) and not any(repeats(quote, o) for o in chosen):
            quotes.append(quote)
    offered: dict[str, Citable] = {o.claim_id: o for claim in claims for o in (claim, *evidence.contesters(claim))}
    return offered | {quote.quote_id: quote for quote in quotes}


def _call_answerer(answerer: Answerer, query: str, citable: Mapping[str, Citable], max_chars: int) -> Sequence[Written]:
    name = f"answerer {type(answerer).__name__}"
    with convert_exceptions(name):
        returned: Any = answerer.write(query, {i: each.text for i, each in citable.items()}, max_chars)
        several = isinstance(returned, Iterable) and not isinstance(returned, str)
        sentences: list[Any] = list(returned) if several else [returned]
    if wrong := [one for one in sentences if not _is_written(one)]:
        raise ModelError(f"{name}: returned {repr(wrong[0])[:80]}, expected Written(text, cited_ids)", "parse")
    if sentences and not any(character.isalnum() for one in sentences for character in one.text):
        raise ModelError(f"{name}: returned sentences without words, which is no answer", "parse")
    return sentences


def _is_written(sentence: Any) -> bool:
    return (
        isinstance(sentence, Written)
        and isinstance(sentence.text, str)
        and isinstance(sentence.cited_ids, list | tuple)
        and all(isinstance(cited_id, str) for cited_id in sentence.cited_ids)
    )


def verify_sentences(
    evidence: EvidenceSet,
    citable: Mapping[str, Citable],
    sentences: Sequence[Written],
    max_chars: int,
    producer: str,
    verifier: Verifier,
    *,
    numbered: bool = False,
) -> Answer:
    """Return an answer of the sentences that cite offered evidence and are supported by it, as many as fit.

    A sentence that repeats another, or does not fit, is not verified, which may be a paid call.

    Claims that contest a cited claim are added if the model left them out.
    """
    limit = CharacterLimit(max_chars, numbered)
    refused: list[RefusedSentence] = []
    cut: list[str] = []
    invented: dict[str, None] = {}
    for text, given in dict.fromkeys(_split_sentences(sentences)):
        made_up = tuple(cited_id for cited_id in given if cited_id not in citable)
        cited = {cited_id: citable[cited_id] for cited_id in given if cited_id in citable}
        invented.update(dict.fromkeys(made_up))
        added = _with_contesters(evidence, text, cited)
        if not limit.fits(added):
            cut.extend(cited)
        elif reason := find_objection(verifier, text, [each.text for each in cited.values()]):
            refused.append(RefusedSentence(text, reason, made_up))
        else:
            limit.add(added)
    return assemble_answer(evidence, limit, cut, producer=producer, refused=refused, invented=tuple(invented))


def _split_sentences(sentences: Sequence[Written]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each sentence by itself, with the ids it cites; ids within the text count too."""
    for sentence in sentences:
        text = to_one_line(sentence.text)
        given = tuple(dict.fromkeys((*sentence.cited_ids, *CITATION.findall(text))))
        for cited_id in given:
            text = text.replace(f"[{cited_id}]", "")
        for part in whole_sentences(" ".join(text.split())):
            plain = escape_citations(part.strip()).replace(" .", ".")
            if plain.strip(".,;: "):
                yield plain, given


def _with_contesters(evidence: EvidenceSet, text: str, cited: Mapping[str, Citable]) -> list[Sentence]:
    """Return a sentence, and those of the claims that contest the ones it cites, unless it cites these itself."""
    claims = [each for each in cited.values() if isinstance(each, CitableClaim)]
    quote_ids = tuple(each.quote_id for each in cited.values() if isinstance(each, Quote))
    others = [
        sentence
        for claim in claims
        for sentence in evidence.sentences_for(claim)[1:]
        if sentence.claim_ids[0] not in cited
    ]
    alone = any(claim.contested and not evidence.contesters(claim) for claim in claims)
    marked = text.removesuffix(".") + CONTESTED if alone else text
    return [Sentence(marked, tuple(claim.claim_id for claim in claims), quote_ids), *dict.fromkeys(others)]


ANSWERERS: Registry[Answerer] = Registry(
    "answerer",
    "kind",
    Answerer,
    "findingaid.answerers",
    {"openai": "findingaid.query.answers.generation:OpenAIAnswerer"},
)
