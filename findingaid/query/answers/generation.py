"""Answers written by a model, with a check of each sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict

from findingaid.errors import ConfigError, ModelError, QueryError
from findingaid.llm.chat import Chat, ChatParameters
from findingaid.llm.prompts import as_data, fill_template, load_template, to_one_line
from findingaid.protocols import Answerer, Written
from findingaid.query.answers.compose import (
    CITATION,
    CONTESTED,
    Answer,
    CharacterLimit,
    CitableClaim,
    EvidenceSet,
    RefusedSentence,
    Sentence,
    assemble_answer,
    escape_citations,
    repeats,
)
from findingaid.query.search.user_code import convert_exceptions
from findingaid.registry import Registry, checked
from findingaid.text.analyzer import Lexical
from findingaid.text.clauses import lost_qualifier
from findingaid.text.sentences import whole_sentences
from findingaid.text.words import WORD, negates, salient, stems

SUPPORTED = 0.5
"""Minimum share of a sentence's words that the claims it cites must have; a summary rephrases some words."""


class WrittenSentence(BaseModel):
    """Sentence as a model writes it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: str
    claims: list[str]


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

    def write(self, query: str, claims: Mapping[str, str], max_chars: int) -> list[Written]:
        return write_answer(self._chat, query, claims, max_chars)


def write_answer(chat: Chat[WrittenAnswer], query: str, claims: Mapping[str, str], max_chars: int) -> list[Written]:
    """Have a model write an answer from claims. Raises ModelError."""
    texts = ["Question:\n" + as_data(query)]
    texts += [f"Claim {claim_id}:\n{as_data(text)}" for claim_id, text in claims.items()]
    answer = chat.ask(fill_template(load_template("answer"), max_chars=max_chars), "\n\n".join(texts))
    return [Written(sentence.text, sentence.claims) for sentence in answer.sentences]


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
    evidence: EvidenceSet, answerer: Answerer, depth: int, max_chars: int, *, numbered: bool = False
) -> Answer:
    """Return an answer that a model writes from the best `depth` claims and the claims that contest them.

    Without claims, the model is not called. Raises ModelError if it fails; no other answer replaces it.
    """
    best: list[CitableClaim] = []
    for claim in evidence.relevant:
        if len(best) < depth and evidence.adds(claim, best) and not any(repeats(claim, other) for other in best):
            best.append(claim)
    citable = {o.claim_id: o for claim in best for o in (claim, *evidence.contesters(claim))}
    if not citable:
        return assemble_answer(evidence, CharacterLimit(max_chars, numbered), ())
    sentences = _call_answerer(answerer, evidence.query, citable, max_chars)
    return verify_sentences(evidence, citable, sentences, max_chars, answerer.model, numbered=numbered)


def _call_answerer(
    answerer: Answerer, query: str, citable: Mapping[str, CitableClaim], max_chars: int
) -> Sequence[Written]:
    name = f"answerer {type(answerer).__name__}"
    with convert_exceptions(name):
        returned: Any = answerer.write(query, {i: claim.text for i, claim in citable.items()}, max_chars)
        several = isinstance(returned, Iterable) and not isinstance(returned, str)
        sentences: list[Any] = list(returned) if several else [returned]
    if wrong := [one for one in sentences if not _is_written(one)]:
        raise ModelError(f"{name}: returned {repr(wrong[0])[:80]}, expected Written(text, claim_ids)", "parse")
    return sentences


def _is_written(sentence: Any) -> bool:
    return (
        isinstance(sentence, Written)
        and isinstance(sentence.text, str)
        and isinstance(sentence.claim_ids, list | tuple)
        and all(isinstance(claim_id, str) for claim_id in sentence.claim_ids)
    )


def verify_sentences(
    evidence: EvidenceSet,
    citable: Mapping[str, CitableClaim],
    sentences: Sequence[Written],
    max_chars: int,
    producer: str,
    *,
    numbered: bool = False,
) -> Answer:
    """Return an answer of the sentences that cite offered claims and are supported by them, as many as fit.

    Claims that contest a cited claim are added if the model left them out.
    """
    limit = CharacterLimit(max_chars, numbered)
    refused: list[RefusedSentence] = []
    cut: list[str] = []
    invented: dict[str, None] = {}
    for text, claimed in _split_sentences(sentences):
        made_up = tuple(claim_id for claim_id in claimed if claim_id not in citable)
        cited = [citable[claim_id] for claim_id in claimed if claim_id in citable]
        invented.update(dict.fromkeys(made_up))
        if reason := unsupported_reason(text, [claim.text for claim in cited], evidence.lexical):
            refused.append(RefusedSentence(text, reason, made_up))
        elif not limit.add(_with_contesters(evidence, text, cited)):
            cut.extend(claim.claim_id for claim in cited)
    return assemble_answer(evidence, limit, cut, producer=producer, refused=refused, invented=tuple(invented))


def unsupported_reason(sentence: str, claims: Sequence[str], lexical: Lexical | None = None) -> str:
    """Return why claims do not support a sentence; "" if they may.

    They must have at least half of its words, as stems, and all of its numbers. If the sentence negates, one of them
    must negate too; if not, one of them must not. It must keep their exceptions, conditions and doubts, see
    `lost_qualifier`. This finds invented text, not every change of meaning.
    """
    if not claims:
        return "cites none of the claims that it was given"
    numbers = [word for word in WORD.findall(sentence) if any(map(str.isdigit, word))]
    known = stems(claims, lexical)
    if strange := [number for number in numbers if number.casefold() not in known]:
        return f"its claims do not contain {strange[0]}"
    if supported_share(sentence, claims, lexical) < SUPPORTED:
        return "its claims do not support it"
    if negates(sentence) and not any(map(negates, claims)):
        return "negates its claims"
    if not negates(sentence) and all(map(negates, claims)):
        return "leaves out a negation of its claims"
    if lost := next(filter(None, (lost_qualifier(claim, sentence, lexical) for claim in claims)), ""):
        return f"leaves out “{lost}” of its claims"
    return ""


def supported_share(sentence: str, claims: Sequence[str], lexical: Lexical | None = None) -> float:
    """Return the share of a sentence's salient words that texts have, as stems; 0 if it has no such words."""
    wanted = salient(sentence, lexical).keys()
    return len(wanted & stems(claims, lexical)) / len(wanted) if wanted else 0.0


def _split_sentences(sentences: Sequence[Written]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each sentence by itself, with the ids it cites; ids within the text count too."""
    for sentence in sentences:
        text = to_one_line(sentence.text)
        claimed = tuple(dict.fromkeys((*sentence.claim_ids, *CITATION.findall(text))))
        for claim_id in claimed:
            text = text.replace(f"[{claim_id}]", "")
        for part in whole_sentences(" ".join(text.split())):
            plain = escape_citations(part.strip()).replace(" .", ".")
            if plain.strip(".,;: "):
                yield plain, claimed


def _with_contesters(evidence: EvidenceSet, text: str, cited: Sequence[CitableClaim]) -> list[Sentence]:
    """Return a sentence, and those of the claims that contest the ones it cites, unless it cites these itself."""
    ids = tuple(claim.claim_id for claim in cited)
    others = [
        sentence
        for claim in cited
        for sentence in evidence.sentences_for(claim)[1:]
        if sentence.claim_ids[0] not in ids
    ]
    alone = any(claim.contested and not evidence.contesters(claim) for claim in cited)
    marked = text.removesuffix(".") + CONTESTED if alone else text
    return [Sentence(marked, ids), *dict.fromkeys(others)]


ANSWERERS: Registry[Answerer] = Registry(
    "answerer",
    "kind",
    Answerer,
    "findingaid.answerers",
    {
        "local": "findingaid.query.answers.local_answerer:LocalAnswerer",
        "openai": "findingaid.query.answers.generation:OpenAIAnswerer",
    },
)
