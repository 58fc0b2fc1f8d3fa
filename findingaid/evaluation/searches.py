"""Evaluations of a finding aid: of cases over its published data, or of a data set that is indexed for this purpose."""

from __future__ import annotations

import inspect
import logging
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

import findingaid
from findingaid.aid import FindingAid
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.config.loading import parse_override
from findingaid.config.settings import Settings
from findingaid.corpus import Claiming, Corpus
from findingaid.errors import CasesError, ConfigError, StoreError
from findingaid.evaluation.answers import Grading, grade_answers
from findingaid.identity.fingerprints import fingerprint
from findingaid.identity.hashes import content_hash
from findingaid.indexing.run import ProgressOf
from findingaid.metrics import BeirSet, Case, Cases, Evaluation, evaluate_search, load_cases, load_set, measure_name
from findingaid.metrics.rankings import Progress
from findingaid.protocols import Verifier
from findingaid.query.search import Recency
from findingaid.query.search.components import Blend
from findingaid.registry import one_line
from findingaid.sources.records import Records
from findingaid.store import Store
from findingaid.store.schemas import CACHES
from findingaid.store.sql import one_of
from findingaid.strategies.whole_text import WholeText

LOGGER = logging.getLogger("findingaid")

MADE_BY_A_RUN = ("corpora", "embedder", "lexical", "synthesizer")
"""Settings that change the indexed data."""

WORDS = re.compile(r"(?<!\s)\s+(?=[\w.]+=)")
"""Separator between KEY=VALUE words; a value may have spaces in it."""

SAID_BY_CASES = frozenset({"self", "query", "k", "corpora", "where", "per_artifact", "offset", "timeout", "explain"})
"""Search parameters that an evaluation sets itself, or that do not change a ranking."""


@dataclass(frozen=True)
class Setup:
    """Named setup to evaluate: a finding aid and search options."""

    name: str
    aid: FindingAid
    asked: Mapping[str, Any]


def options() -> list[str]:
    """Return the names of the search options that can change a ranking."""
    return [name for name in inspect.signature(FindingAid.search).parameters if name not in SAID_BY_CASES]


def split_words(words: Sequence[str]) -> tuple[str, list[str]]:
    """Split words into the one that names cases or a data set, and the KEY=VALUE words. Raises ConfigError."""
    named = [word for word in words if "=" not in word or Path(word).exists()]
    if len(named) != 1:
        wanted = "--set: expected one folder in BEIR's layout or one file of cases"
        raise ConfigError(f"{wanted}, got {' and '.join(named) or 'none'}")
    return named[0], [word for word in words if word not in named]


def setups(config: str | None, words: Sequence[str], others: Sequence[str] = (), indexes: bool = True) -> list[Setup]:
    """Return the setup that `words` describe, and one for each of `others`. Raises ConfigError.

    A word is KEY=VALUE, with a search option or a setting as its key. One of `others` is either some words that differ,
    or the file of another configuration. Without `indexes`, nothing is indexed for the evaluation, so the words of
    `others` must not change the indexed data.
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
        if not indexes and (wrong := next((k for k in sorted(keys) if k.split(".")[0] in MADE_BY_A_RUN), None)):
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
    return Setup(name, findingaid.open(config, settings), asked | _typed(asked))


class _Typed(BaseModel):
    """Search options that are more than a word or a number, with the types that the library takes."""

    surfaces: list[str] | None = None
    weights: dict[str, float] | None = None
    blend: Blend = 0.5
    recency: Recency | None = None
    rerank_depth: int | None = None


def _typed(asked: Mapping[str, Any]) -> dict[str, Any]:
    try:
        typed = _Typed.model_validate(asked)
    except ValidationError as error:
        raise ConfigError(one_line(error, "", [field.name for field in fields(Recency)])) from None
    return {name: getattr(typed, name) for name in typed.model_fields_set}


def load_questions(path: str | Path, split: str | None = None) -> Cases | BeirSet:
    """Load the cases of a file, or the data set in a folder. Raises CasesError."""
    if Path(path).is_file():
        return load_cases(path)
    return load_set(path, split)


def evaluate(
    aid: FindingAid,
    cases: Cases | BeirSet | str | Path,
    *,
    measures: Sequence[str] | None = None,
    corpora: Sequence[str] | None = None,
    name: str = "",
    seed: int = 0,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    indexing: ProgressOf | None = None,
    **asked: Any,
) -> Evaluation:
    """Evaluate how well searches with the options `asked` find the artifacts that cases expect.

    Cases of a file are put to the data that `aid` publishes. A data set in BEIR's layout is indexed first, into a store
    of its own: each document whole, or cut like the one corpus named. `folder` keeps that store, the rankings and the
    query vectors; by default it is the configured folder. Raises CasesError, ConfigError, QueryError, StoreError.
    """
    if isinstance(cases, str | Path):
        cases = load_questions(cases)
    if measures is not None:
        measures = [measure_name(text) for text in measures]
    if unknown := sorted(asked.keys() - set(options())):
        raise ConfigError(f"unknown search option {unknown[0]!r}. Known: {', '.join(options())}")
    kept = Path(folder) if folder else aid.evaluations
    aid, cases, corpora = _asked_of(aid, cases, corpora, kept, indexing)
    cases = cases.expecting()
    aid = replace(aid, evaluations=kept).remembering()
    return evaluate_search(
        aid, cases, measures, corpora=corpora, asked=asked, name=name, seed=seed, folder=kept, progress=progress
    )


def evaluate_answers(
    aid: FindingAid,
    cases: Cases | BeirSet | str | Path,
    *,
    count: int | None = None,
    corpora: Sequence[str] | None = None,
    name: str = "",
    seed: int = 0,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    indexing: ProgressOf | None = None,
    claims: bool = True,
    judge: Verifier | None = None,
    **asked: Any,
) -> Grading:
    """Grade answers to cases, over the data that `aid` publishes or a data set, with the options `asked`.

    A data set is indexed as for `evaluate`, with the claims settings of the one corpus named, else the extractive
    default, or without `claims`. `judge` says whether the cited evidence supports each sentence. `count` limits the
    cases to a sample drawn by `seed`. Raises CasesError, ConfigError, QueryError, StoreError, ModelError.
    """
    if isinstance(cases, str | Path):
        cases = load_questions(cases)
    kept = Path(folder) if folder else aid.evaluations
    aid, cases, corpora = _asked_of(aid, cases, corpora, kept, indexing, claims=claims)
    chosen = cases.cases if count is None else sample_cases(cases.cases, count, seed)
    return grade_answers(
        aid.remembering(), chosen, name=name, seed=seed, judge=judge, progress=progress, corpora=corpora, **asked
    )


def sample_cases(cases: Sequence[Case], count: int, seed: int) -> list[Case]:
    """Return a sample of `count` cases, in their order; the same seed gives the same sample."""
    wanted = {case.id for case in sorted(cases, key=lambda case: content_hash(seed, case.id))[:count]}
    return [case for case in cases if case.id in wanted]


def evaluate_as(
    setup: Setup,
    cases: Cases | BeirSet,
    progress: ProgressOf | None,
    *,
    corpora: Sequence[str],
    measures: Sequence[str],
    folder: str | None,
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
        folder=folder,
        progress=partial(progress(setup.name), "queries") if progress else None,
        indexing=progress,
        **setup.asked,
    )


def _require_known(aid: FindingAid, cases: Cases) -> None:
    """Raise CasesError for a case that expects an artifact that is not published."""
    wanted = {i: case.place for case in reversed(cases.cases) for i in case.expected}
    ids = sorted({i.partition("/")[2] for i in wanted})
    found = aid.store.published().to_table(["corpus", "artifact_id"], filter=one_of("artifact_id", ids)).to_pylist()
    missing = wanted.keys() - {f"{row['corpus']}/{row['artifact_id']}" for row in found}
    if missing:
        first = min(missing, key=lambda i: (wanted[i], i))
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise CasesError(f"{wanted[first]}: expected {first!r} is not in the published index{more}")


def _asked_of(
    aid: FindingAid,
    cases: Cases | BeirSet,
    corpora: Sequence[str] | None,
    folder: Path | None,
    progress: ProgressOf | None,
    claims: bool = False,
) -> tuple[FindingAid, Cases, Sequence[str] | None]:
    """Return the finding aid, cases and corpora to evaluate: those given, or the index of a data set.

    Raises the errors of `_indexed`, and CasesError for a case that expects an artifact that is not published.
    """
    if isinstance(cases, BeirSet):
        return _indexed(aid, cases, corpora, folder, progress, claims), cases.cases, None
    _require_known(aid, cases)
    return aid, cases, corpora


def _indexed(
    of: FindingAid,
    given: BeirSet,
    corpora: Sequence[str] | None,
    folder: Path | None,
    progress: ProgressOf | None,
    claims: bool = False,
) -> FindingAid:
    """Return a finding aid over an up-to-date index of a data set. Raises StoreError if it cannot be published."""
    if folder is None:
        raise ConfigError("a set needs its own store: name a folder for it")
    if corpora and len(corpora) > 1:
        raise ConfigError(f"a set is cut like one corpus, got {len(corpora)}: {', '.join(corpora)}")
    strategy = of.indexer(corpora[0]).of.strategy if corpora else WholeText()
    claiming = (corpora and of.indexer(corpora[0]).of.claims) or Claiming(ExtractiveClaims())
    corpus = Corpus(
        given.corpus,
        Records(given.documents, "_id", given.text, given.metadata),
        strategy,
        claims=claiming if claims else None,
    )
    aid = replace(of, store=Store(""), corpora={given.corpus: corpus}, evaluations=None)
    recipe = aid.indexer(given.corpus).recipe.id
    stores = folder / "sets" / f"{given.corpus}-{content_hash(str(given.folder.resolve()))[:8]}"
    path = stores / content_hash(recipe, fingerprint(of.store.lexical))[:12]
    _take_over(stores, path)
    aid = replace(aid, store=Store(str(path), lexical=of.store.lexical), executor=None)
    report = aid.index(progress=progress)
    found = report.corpora[given.corpus]
    if report.unpublished or found.error:
        raise StoreError(f"{given.folder}: {report.unpublished or found.error}")
    if found.failed:
        LOGGER.warning("%s: %d documents are left out, the first: %s", given.folder, len(found.failed), found.failed[0])
    return aid


def _take_over(stores: Path, path: Path) -> None:
    """Start a new index of a data set with the cached embeddings and model calls of its latest index."""
    made = sorted((other for other in stores.glob("*/ledger.lance")), key=lambda other: other.stat().st_mtime)
    if path.exists() or not made:
        return
    for table in CACHES:
        # A table that another run writes to meanwhile may be copied incompletely; it is then computed again.
        with suppress(OSError, shutil.Error):
            shutil.copytree(made[-1].parent / f"{table}.lance", path / f"{table}.lance")
