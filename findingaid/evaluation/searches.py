"""Evaluations of a finding aid: cases are put to its published data."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache, partial
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

import findingaid
from findingaid.aid import FindingAid
from findingaid.config.loading import parse_override
from findingaid.config.settings import Settings
from findingaid.corpus import find_corpus
from findingaid.errors import CasesError, ConfigError, QueryError
from findingaid.evaluation.answers import Grading, grade_answers
from findingaid.identity.hashes import content_hash
from findingaid.indexing.run import ProgressOf
from findingaid.metrics import Case, Cases, Evaluation, evaluate_search, load_cases, measure_name
from findingaid.metrics.rankings import Progress
from findingaid.protocols import Verifier
from findingaid.query.search import Recency
from findingaid.query.search.filters.validation import validate_filter
from findingaid.query.search.options import DESCRIPTIONS, SearchOptions
from findingaid.registry import one_line
from findingaid.store.sql import both, one_of

MADE_BY_A_RUN = ("corpora", "embedder", "lexical", "synthesizer")
"""Settings that change the indexed data."""

WORDS = re.compile(r"(?<!\s)\s+(?=[\w.]+=)")
"""Separator between KEY=VALUE words; a value may have spaces in it."""

OPTIONS = TypeAdapter(with_config(ConfigDict(arbitrary_types_allowed=True))(SearchOptions))
"""Validation of search options that are given as words."""

SAID_BY_CASES = frozenset({"corpora", "where", "per_artifact", "offset", "timeout", "explain"})
"""Search options that an evaluation sets itself, or that do not change a ranking."""


@dataclass(frozen=True)
class Setup:
    """Named setup to evaluate: a finding aid and search options."""

    name: str
    aid: FindingAid
    asked: Mapping[str, Any]


def options() -> list[str]:
    """Return the names of the search options that can change a ranking."""
    return [name for name in DESCRIPTIONS if name not in SAID_BY_CASES]


def split_words(words: Sequence[str]) -> tuple[str, list[str]]:
    """Split words into the file of cases and the KEY=VALUE words. Raises ConfigError."""
    named = [word for word in words if "=" not in word or Path(word).exists()]
    if len(named) != 1:
        raise ConfigError(f"--set: expected one file of cases, got {' and '.join(named) or 'none'}")
    return named[0], [word for word in words if word not in named]


def setups(config: str | None, words: Sequence[str], others: Sequence[str] = ()) -> list[Setup]:
    """Return the setup that `words` describe, and one for each of `others`. Raises ConfigError.

    A word is KEY=VALUE, with a search option or a setting as its key. One of `others` is either some words that differ,
    or the file of another configuration. Nothing is indexed for an evaluation, so these words must not change the
    indexed data.
    """
    made = [_setup(config, words, " ".join(words) or "as configured")]
    for other in others:
        if Path(other).suffix in {".yaml", ".yml"}:
            made.append(_setup(other, words, other))
            continue
        changed = WORDS.split(other.strip()) if other.strip() else []
        keys = {parse_override(word)[0] for word in changed}
        if not keys:
            raise ConfigError("--versus: expected key=value or the file of another configuration")
        if wrong := next((k for k in sorted(keys) if k.split(".")[0] in MADE_BY_A_RUN), None):
            raise ConfigError(
                f"--versus {wrong}: the published index is evaluated unchanged;"
                " name another configuration with its own store"
            )
        made.append(_setup(config, [*words, *changed], other))
    return made


def _setup(config: str | None, words: Sequence[str], name: str) -> Setup:
    given = dict(map(parse_override, words))
    known = options()
    if unknown := [key for key in given if key.split(".")[0] not in {*known, *Settings.model_fields}]:
        raise ConfigError(
            f"{unknown[0]}: neither a search option nor a setting."
            f" Known: {', '.join(known)}; {', '.join(Settings.model_fields)}"
        )
    asked = {key: value for key, value in given.items() if key in known}
    settings = {key: value for key, value in given.items() if key not in known}
    return Setup(name, findingaid.open(config, settings), _typed(asked))


def _typed(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return OPTIONS.validate_python(asked)
    except ValidationError as error:
        raise ConfigError(one_line(error, "", [field.name for field in fields(Recency)])) from None


def evaluate(
    aid: FindingAid,
    cases: Cases | str | Path,
    *,
    measures: Sequence[str] | None = None,
    corpora: Sequence[str] | None = None,
    name: str = "",
    seed: int = 0,
    progress: Progress | None = None,
    **asked: Any,
) -> Evaluation:
    """Evaluate how well searches with the options `asked` find the artifacts that cases expect.

    The cases are put to the data that `aid` publishes. Raises CasesError, ConfigError, QueryError, StoreError.
    """
    cases = _findable(aid, cases, corpora).expecting()
    if measures is not None:
        measures = [measure_name(text) for text in measures]
    if unknown := sorted(asked.keys() - set(options())):
        raise ConfigError(f"unknown search option {unknown[0]!r}. Known: {', '.join(options())}")
    return evaluate_search(
        aid.remembering(), cases, measures, corpora=corpora, asked=asked, name=name, seed=seed, progress=progress
    )


def evaluate_answers(
    aid: FindingAid,
    cases: Cases | str | Path,
    *,
    count: int | None = None,
    corpora: Sequence[str] | None = None,
    name: str = "",
    seed: int = 0,
    progress: Progress | None = None,
    judge: Verifier | None = None,
    **asked: Any,
) -> Grading:
    """Grade answers to cases over the data that `aid` publishes, with the options `asked`.

    `judge` says whether the cited evidence supports each sentence. `count` limits the cases to a sample drawn by
    `seed`. Raises CasesError, ConfigError, QueryError, StoreError, ModelError.
    """
    known = _findable(aid, cases, corpora).cases
    chosen = known if count is None else sample_cases(known, count, seed)
    return grade_answers(
        aid.remembering(), chosen, name=name, seed=seed, judge=judge, progress=progress, corpora=corpora, **asked
    )


def sample_cases(cases: Sequence[Case], count: int, seed: int) -> list[Case]:
    """Return a sample of `count` cases, in their order; the same seed gives the same sample."""
    wanted = {case.id for case in sorted(cases, key=lambda case: content_hash(seed, case.id))[:count]}
    return [case for case in cases if case.id in wanted]


def evaluate_as(
    setup: Setup,
    cases: Cases,
    progress: ProgressOf | None,
    *,
    corpora: Sequence[str],
    measures: Sequence[str],
    seed: int,
) -> Evaluation:
    """Run `evaluate` with a setup."""
    return evaluate(
        setup.aid,
        cases,
        measures=measures or None,
        corpora=corpora or None,
        name=setup.name,
        seed=seed,
        progress=partial(progress(setup.name), "queries") if progress else None,
        **setup.asked,
    )


def _findable(aid: FindingAid, cases: Cases | str | Path, corpora: Sequence[str] | None) -> Cases:
    """Load cases. Raises CasesError for a case that expects an artifact that its search cannot find.

    Such an artifact would count as missed under any settings.
    """
    if not isinstance(cases, Cases):
        cases = load_cases(cases)
    for name in corpora or ():
        find_corpus(aid.corpora, name)
    records = aid.store.published()
    wanted = one_of("artifact_id", sorted({i.partition("/")[2] for case in cases.cases for i in case.expected}))

    @cache
    def matching(where: str | None) -> set[str]:
        condition = None if where is None else validate_filter(where, aid.store, records, corpora or ())
        rows = records.to_table(["corpus", "artifact_id"], filter=both(wanted, condition)).to_pylist()
        return {f"{row['corpus']}/{row['artifact_id']}" for row in rows}

    def require(found: Callable[[Case], Container[str]], reason: str) -> None:
        missing = {i: case.place for case in reversed(cases.cases) for i in case.expected if i not in found(case)}
        if missing:
            first = min(missing, key=lambda i: (missing[i], i))
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise CasesError(f"{missing[first]}: expected {first!r} {reason}{more}")

    require(lambda _: matching(None), "is not in the published index")
    if corpora:
        searched = {i for i in matching(None) if i.partition("/")[0] in corpora}
        require(lambda _: searched, f"is not in the corpora to search: {', '.join(corpora)}")
    with suppress(QueryError):  # for an invalid filter, which the search of its case names
        require(lambda case: matching(case.where), "has nothing that matches `where`")
    return cases
