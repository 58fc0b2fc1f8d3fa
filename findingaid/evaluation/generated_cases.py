"""Cases generated from a corpus: a model, named as their author, writes a question for each sampled passage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from findingaid.aid import FindingAid
from findingaid.errors import CasesError, ConfigError
from findingaid.identity.hashes import content_hash
from findingaid.indexing.budget import estimate_of
from findingaid.indexing.calls import CallContext
from findingaid.indexing.options import Progress
from findingaid.indexing.synopses import write_synopses
from findingaid.llm.prompts import TEMPLATES
from findingaid.model import CLAIM, NO_USAGE, Outcome, SynthesizerInput, Usage
from findingaid.protocols import Synthesizer
from findingaid.query.search.hits import own_text, span_of
from findingaid.store.sql import equals
from findingaid.strategies.whole_text import WholeText
from findingaid.strategies.with_synopsis import split_synopsis, with_synopsis
from findingaid.synthesis.openai_chat import OpenAISynthesizer

LEAST = 200
"""Minimum characters of a passage that a question is written for."""

KIND = "generated"

COLUMNS = ("record_id", "artifact_id", "text", "shown", "span_start", "span_end", "producer_id")


@dataclass(frozen=True, slots=True)
class SampledPassage:
    """Published record with its source's own text."""

    record_id: str
    artifact_id: str
    text: str
    span: tuple[int, int] | None


@dataclass(frozen=True)
class Generated:
    """Cases in the format of a file, the id of the model that wrote them, and a line for each problem."""

    generated_by: str
    cases: Sequence[Mapping[str, Any]]
    problems: Sequence[str]

    def write(self, path: str | Path) -> None:
        """Write a file of cases. Raises CasesError if the file exists: it may have been corrected by hand."""
        head = "# Written by a model from passages of the corpus: read them before you trust what they measure.\n"
        shown = {"generated_by": self.generated_by, "cases": [dict(case) for case in self.cases]}
        try:
            with Path(path).open("x", encoding="utf-8") as file:
                file.write(head + yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=110))
        except FileExistsError:
            raise CasesError(f"{path} already exists: name another file") from None
        except OSError as error:
            raise CasesError(f"{path} cannot be written: {error.strerror or error}") from None


@dataclass(frozen=True, slots=True)
class PriceEstimate:
    """Estimated price of generating cases, without those that are cached; `cost` is None if the model has no price."""

    cases: int
    usage: Usage
    cost: float | None


def estimate_price(aid: FindingAid, corpus: str, count: int, seed: int = 0) -> PriceEstimate:
    """Return what `generate` would cost at most, without calling a model. Raises the errors of `generate`."""
    writer, drawn = _draw(aid, corpus, count, seed)
    usage = sum((estimate_of(writer, passage.text) for passage in drawn.values()), NO_USAGE)
    return PriceEstimate(len(drawn), usage, aid.open_run().spending.price(writer, usage))


def generate(aid: FindingAid, corpus: str, count: int, seed: int = 0, progress: Progress | None = None) -> Generated:
    """Generate up to `count` cases, each of another passage; the same seed samples the same ones of the same records.

    The corpus's own synthesizer, which must be a model, writes the questions. Its answers are cached like synopses, and
    count against the budget. Raises CasesError if no passage is long enough, ConfigError, StoreError.
    """
    writer, drawn = _draw(aid, corpus, count, seed)
    run = aid.open_run()
    run.prepare()
    shown = {i: SynthesizerInput(passage.artifact_id, passage.text) for i, passage in drawn.items()}
    context = CallContext(run.spending, corpus, progress=progress)
    asked = write_synopses(with_synopsis(WholeText(), writer), shown, context)
    cases: dict[str, Mapping[str, Any]] = {}
    problems = [asked.waiting] if asked.waiting else []
    for record_id, passage in drawn.items():
        answer = asked.synopses.get(record_id)
        if answer and answer.outcome is Outcome.OK:
            cases.setdefault(answer.text, _case(corpus, answer.text, passage))
        elif answer and answer.outcome is Outcome.FAILED:
            problems.append(f"{corpus}/{passage.artifact_id}: {answer.message} [{answer.kind}]")
    return Generated(writer.id, list(cases.values()), problems)


def _draw(
    aid: FindingAid, corpus: str, count: int, seed: int
) -> tuple[OpenAISynthesizer, Mapping[str, SampledPassage]]:
    """Return the model that writes the questions, and the sampled passages by record id."""
    synopses = split_synopsis(aid.indexer(corpus).corpus.strategy)[1]
    writer = questioner(synopses.synthesizer if synopses else None, corpus)
    drawn = {passage.record_id: passage for passage in _drawn(_passages(aid, corpus), count, seed)}
    if not drawn:
        raise CasesError(f"{corpus} has no passage of {LEAST} characters or more to ask about")
    return writer, drawn


def questioner(synthesizer: Synthesizer | None, corpus: str) -> OpenAISynthesizer:
    """Return the model of a synthesizer, with a prompt to write questions. Raises ConfigError if it is not a model."""
    if not isinstance(synthesizer, OpenAISynthesizer):
        raise ConfigError(
            f"corpora.{corpus}.synopsis: a model must write the questions:"
            " give the corpus a synopsis by {kind: openai, model: ...}"
        )
    return replace(synthesizer, prompt=TEMPLATES / "question.md", batch_from=None)


def _case(corpus: str, question: str, passage: SampledPassage) -> Mapping[str, Any]:
    case: dict[str, Any] = {
        "query": question,
        "expected": [f"{corpus}/{passage.artifact_id}"],
        "kind": KIND,
        "passage": passage.text,
        "record": passage.record_id,
    }
    return case | ({"span": list(passage.span)} if passage.span else {})


def _passages(aid: FindingAid, corpus: str) -> list[SampledPassage]:
    """Return the passages of a corpus that are long enough and were not written by a model; claims are left out."""
    where = f"{equals('corpus', corpus)} AND {equals('producer_id', '')} AND NOT ({equals('granularity', CLAIM)})"
    found = []
    for row in aid.store.published().to_table(columns=list(COLUMNS), filter=where).to_pylist():
        text = own_text(row)
        if len(text.strip()) >= LEAST:
            found.append(SampledPassage(row["record_id"], row["artifact_id"], text, span_of(row)))
    return found


def _drawn(passages: Sequence[SampledPassage], count: int, seed: int) -> list[SampledPassage]:
    """Sample passages by hash; a second passage of an artifact comes only after one of each."""

    def lot(passage: SampledPassage) -> str:
        return content_hash(seed, passage.record_id)

    places: dict[str, Iterator[int]] = defaultdict(lambda: iter(range(len(passages))))
    ranked = [(next(places[passage.artifact_id]), lot(passage), passage) for passage in sorted(passages, key=lot)]
    return [passage for _, _, passage in sorted(ranked, key=lambda entry: entry[:2])[:count]]
