"""Cases from a corpus itself: a model writes a question to passages that are drawn, and is named as who wrote it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from findingaid.aid import FindingAid
from findingaid.errors import CasesError, ConfigError
from findingaid.identity import content_hash
from findingaid.model import CLAIM, Outcome, Shown, Synthesizer
from findingaid.query.hits import own_text, span_of
from findingaid.store.sql import equals
from findingaid.strategies.whole_text import WholeText
from findingaid.synopses import taken_apart, with_synopsis
from findingaid.synthesis.openai_chat import OpenAISynthesizer
from findingaid.synthesis.prompting import PROMPTS
from findingaid.synthesizing import Progress, ask

LEAST = 200
"""Characters of a passage that a question is asked of, at least."""

KIND = "generated"

COLUMNS = ("record_id", "artifact_id", "text", "text_start", "span_start", "span_end", "producer_id")


@dataclass(frozen=True, slots=True)
class Passage:
    """A published record that is its source's own text."""

    record_id: str
    artifact_id: str
    text: str
    span: tuple[int, int] | None


@dataclass(frozen=True)
class Generated:
    """Cases as a file has them, by the id of who wrote them; and why there are fewer than wanted, a line each."""

    generated_by: str
    cases: Sequence[Mapping[str, Any]]
    problems: Sequence[str]

    def write(self, path: str | Path) -> None:
        """Write a file of cases. Raises CasesError where there is one: it may have been corrected by hand."""
        head = "# Written by a model from passages of the corpus: read them before you trust what they measure.\n"
        shown = {"generated_by": self.generated_by, "cases": [dict(case) for case in self.cases]}
        try:
            with Path(path).open("x", encoding="utf-8") as file:
                file.write(head + yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=110))
        except FileExistsError:
            raise CasesError(f"{path} is there already: name another file") from None
        except OSError as error:
            raise CasesError(f"{path} cannot be written: {error.strerror or error}") from None


def generate(aid: FindingAid, corpus: str, count: int, seed: int = 0, progress: Progress | None = None) -> Generated:
    """Up to `count` cases, each of another passage; the same seed draws the same ones from the same records.

    The corpus's own synthesizer is asked, which must be a model. Answers are kept as those for synopses are, and
    count against the budget. Raises ConfigError, StoreError.
    """
    of = aid.indexer(corpus).of
    synopses = taken_apart(of.strategy)[1]
    writer = questioner(synopses.synthesizer if synopses else None, corpus)
    aid.prepare()
    drawn = {passage.record_id: passage for passage in _drawn(_passages(aid, corpus), count, seed)}
    if not drawn:
        raise CasesError(f"{corpus} has no passage of {LEAST} characters or more to ask for")
    shown = {i: Shown(passage.artifact_id, passage.text) for i, passage in drawn.items()}
    asked = ask(with_synopsis(WholeText(), writer), shown, aid.spending(), corpus, progress=progress)
    cases: dict[str, Mapping[str, Any]] = {}
    problems = [asked.waiting] if asked.waiting else []
    for record_id, passage in drawn.items():
        answer = asked.synopses.get(record_id)
        if answer and answer.outcome is Outcome.OK:
            cases.setdefault(answer.text, _case(corpus, answer.text, passage))
        elif answer and answer.outcome is Outcome.FAILED:
            problems.append(f"{corpus}/{passage.artifact_id}: {answer.message} [{answer.kind}]")
    return Generated(writer.id, list(cases.values()), problems)


def questioner(synthesizer: Synthesizer | None, corpus: str) -> OpenAISynthesizer:
    """The model of a synthesizer, told to write questions. Raises ConfigError for one that is no model."""
    if not isinstance(synthesizer, OpenAISynthesizer):
        raise ConfigError(
            f"corpora.{corpus}.synopsis: only a model writes questions:"
            " give the corpus a synopsis by {kind: openai, model: ...}"
        )
    return replace(synthesizer, prompt=PROMPTS / "question.md", batch_from=None)


def _case(corpus: str, question: str, passage: Passage) -> Mapping[str, Any]:
    case: dict[str, Any] = {
        "query": question,
        "expected": [f"{corpus}/{passage.artifact_id}"],
        "kind": KIND,
        "passage": passage.text,
        "record": passage.record_id,
    }
    return case | ({"span": list(passage.span)} if passage.span else {})


def _passages(aid: FindingAid, corpus: str) -> list[Passage]:
    """What of a corpus is long enough, and was not itself written by a model."""
    where = f"{equals('corpus', corpus)} AND {equals('producer_id', '')} AND NOT ({equals('granularity', CLAIM)})"
    found = []
    for row in aid.store.published().to_table(columns=list(COLUMNS), filter=where).to_pylist():
        text = own_text(row)
        if len(text.strip()) >= LEAST:
            found.append(Passage(row["record_id"], row["artifact_id"], text, span_of(row)))
    return found


def _drawn(passages: Sequence[Passage], count: int, seed: int) -> list[Passage]:
    """A draw by content, that takes a second passage of an artifact only after one of each."""

    def lot(passage: Passage) -> str:
        return content_hash(seed, passage.record_id)

    places: dict[str, Iterator[int]] = defaultdict(lambda: iter(range(len(passages))))
    ranked = [(next(places[passage.artifact_id]), lot(passage), passage) for passage in sorted(passages, key=lot)]
    return [passage for _, _, passage in sorted(ranked, key=lambda entry: entry[:2])[:count]]
