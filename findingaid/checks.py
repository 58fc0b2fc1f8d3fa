"""What must hold before readers get what a run wrote: checks of one corpus, over what is new or over everything.

Lance never changes a data file, so what is new are the files that the published version does not have. The
rows in the others were checked before they were published.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from findingaid.errors import CasesError, ConfigError, QueryError
from findingaid.evaluation import Searching, evaluated, load_cases
from findingaid.model import WRITTEN, Corpus, Embedder, Outcome, Quality, Stage
from findingaid.query.reader import Reader
from findingaid.store import Publisher, Store, verify
from findingaid.store.ledger import OUTCOMES
from findingaid.store.schemas import PER_ARTIFACT
from findingaid.store.sql import equals, one_of

if TYPE_CHECKING:
    from lance import LanceDataset, LanceFragment

COLUMNS = ("record_id", "corpus", "artifact_id", "artifact_version", "embedder_id")

LEDGER_COLUMNS = (
    *(f"failed_{what}" for what in ("stage", "kind", "message", "runs")),
    *OUTCOMES.values(),
    "refused",
    *(f"n_{table}" for table in PER_ARTIFACT),
)

REASONS = 5
"""Reasons for which synopses are pending that a check names, those of most first."""

SAMPLES, A_SAMPLE_OF = 2, 100
"""Records a corpus whose own text must find them: one of up to a hundred, and never more than two."""

WORST = 3
"""Questions that a failed check of quality names."""

AMONG = 10
"""How far down its own text may find a record: others can say the same in other words."""


Known = Mapping[str, tuple[str | None, int]]
"""artifact id -> (version, number of records) by the ledger; no version where a stage is behind another."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold of a corpus; where a `blocking` one does not, nothing is published."""

    name: str
    stage: Stage
    description: str
    blocking: bool = True


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found; no problems is what it passed."""

    check: Check
    corpus: str
    problems: Sequence[str] = ()
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        return f"{self.corpus}: check {self.check.name}: {'; '.join(self.problems) or 'passed'}"


FAILURES = Check("failures", Stage.ARTIFACTS, "No more than `max_failures` of the artifacts failed.")
ORPHANS = Check("no_orphans", Stage.SURFACES, "Every row belongs to an artifact that the ledger has.")
SYNOPSES = Check(
    "synopses_written", Stage.SYNOPSES, "No more than `max_failures` of the synopses failed.", blocking=False
)
CLAIMS = Check(
    "claims_extracted",
    Stage.CLAIMS,
    "The claims of no more than `max_failures` of the artifacts failed.",
    blocking=False,
)
NODES = Check(
    "summary_nodes_written", Stage.SUMMARY_NODES, "No more than `max_failures` of the nodes failed.", blocking=False
)
VECTORS = Check(
    "vectors_sound", Stage.EMBEDDINGS, "Every vector is finite, of length 1 and made by the embedder configured."
)
LEDGER = Check(
    "ledger_agrees", Stage.RECORDS, "Each artifact has the records that the ledger counts, from the version it has."
)
UNIQUE = Check("ids_unique", Stage.RECORDS, "No two records have the same id.")
INDEXED = Check("indexed", Stage.RECORDS, "Full-text and vector index cover the rows.", blocking=False)
FINDS = Check("finds_itself", Stage.RECORDS, "A search for a record's own text finds it.")

QUALITY = Check("quality", Stage.RECORDS, "Known questions find what they should, no less well than `quality` says.")

TORN = (ORPHANS, LEDGER)
"""What may fail for the moment in which another run has written records, and not yet the ledger's word for them."""

CHECKS = (FAILURES, ORPHANS, SYNOPSES, VECTORS, LEDGER, UNIQUE, FINDS, INDEXED)
"""Those of every corpus."""


def checks_of(corpus: Corpus) -> tuple[Check, ...]:
    """The checks of a corpus: those of claims where it has some, and of quality where there is a floor."""
    of_claims = [check for check in (CLAIMS, NODES) if check.stage in corpus.stages]
    return (*CHECKS, *of_claims, *([QUALITY] if corpus.quality else ()))


class Checker:
    """Checks the newest records of a store, those that the published version lacks or, with `everything`, all."""

    def __init__(self, store: Store, embedder: Embedder, everything: bool = False) -> None:
        self.store = store
        self.embedder = embedder
        self.everything = everything
        self.newest = store.dataset("records")
        self.edges = store.dataset("edges")
        self.fragments = self._new_fragments()
        self.rows = self._rows()
        self.siblings = self._siblings()

    def touched(self) -> set[str]:
        """The corpora that have rows to look at."""
        return set(pc.unique(self.rows["corpus"]).to_pylist())

    def check(self, corpus: Corpus) -> list[CheckResult]:
        """The results of all checks of one corpus but that of its indexes, in the order of `CHECKS`."""
        rows, siblings = (table.filter(pc.equal(table["corpus"], corpus.name)) for table in (self.rows, self.siblings))
        known = self._known(corpus, set(rows["artifact_id"].to_pylist()))
        ledger = self.store.rows("ledger", LEDGER_COLUMNS, equals("corpus", corpus.name))
        found: tuple[tuple[Check, Iterator[str], Mapping[str, int]], ...] = (
            (FAILURES, *self._failures(corpus, ledger)),
            (ORPHANS, self._orphans(corpus, ledger, rows, known), {"rows checked": len(rows)}),
            (SYNOPSES, *self._written(corpus, ledger, Stage.SYNOPSES)),
            (VECTORS, self._vectors(corpus, rows), {"vectors checked": len(rows), "dimension": self.embedder.dim}),
            (LEDGER, self._ledger(siblings, known), {"records checked": len(siblings)}),
            (UNIQUE, verify.duplicate_ids(siblings), {"records checked": len(siblings)}),
            (FINDS, self._finds(corpus, rows), {"records searched for": len(_sample(rows))}),
            *(
                (check, *self._written(corpus, ledger, check.stage))
                for check in (CLAIMS, NODES)
                if check.stage in corpus.stages
            ),
        )
        with ThreadPoolExecutor(len(found)) as pool:  # most of each is waiting for Lance
            problems: list[list[str]] = list(pool.map(list, [lazy for _, lazy, _ in found]))
        return [
            CheckResult(check, corpus.name, why, facts) for (check, _, facts), why in zip(found, problems, strict=True)
        ]

    def indexed(self, corpus: Corpus) -> CheckResult:
        """The result of the check that asks the store's indexes as they are now."""
        behind = self.store.unindexed()
        problems = [
            f"{rows:,} rows are not in the {name} index" for name, (rows, limit) in behind.items() if rows > limit
        ]
        facts = {f"rows not in the {name} index": rows for name, (rows, _) in behind.items()}
        return CheckResult(INDEXED, corpus.name, problems, facts)

    def covers(self, records: LanceDataset, edges: LanceDataset) -> bool:
        """Whether versions have no data file that was not looked at, or checked before it was published."""
        return _files(self.newest) >= _files(records) and _files(self.edges) >= _files(edges)

    def _new_fragments(self) -> list[LanceFragment]:
        fragments = self.newest.get_fragments()
        if self.everything:
            return fragments
        served = _files(self.store.published()) if Publisher(self.store).served() else set()
        return [fragment for fragment in fragments if not served.issuperset(_paths(fragment))]

    def _rows(self) -> pa.Table:
        if not self.fragments:
            return self.newest.schema.empty_table().select(list(COLUMNS))
        return self.newest.scanner(columns=list(COLUMNS), fragments=self.fragments).to_table()

    def _siblings(self) -> pa.Table:
        """All records of the artifacts that `rows` are of: one that was written twice has some elsewhere."""
        if len(self.rows) == self.newest.count_rows():
            return self.rows
        return self.store.lookup("records", "artifact_id", pc.unique(self.rows["artifact_id"]).to_pylist(), COLUMNS)

    @cached_property
    def _unsound(self) -> dict[str, list[str]]:
        """corpus -> ids of records whose vector cannot be right. One pass over all vectors, a batch at a time."""
        found: dict[str, list[str]] = defaultdict(list)
        if self.fragments:
            columns = ["corpus", "record_id", "vector"]
            for batch in self.newest.scanner(columns=columns, fragments=self.fragments).to_batches():
                for i in verify.unsound(batch["vector"], self.embedder.dim):
                    found[batch["corpus"][i].as_py()].append(batch["record_id"][i].as_py())
        return found

    def _failures(self, corpus: Corpus, ledger: pa.Table) -> tuple[Iterator[str], Mapping[str, int]]:
        stages, kinds, runs = (ledger[f"failed_{name}"].to_pylist() for name in ("stage", "kind", "runs"))
        failed = [i for i, stage in enumerate(stages) if stage not in {"", *WRITTEN}]
        counted = Counter(kinds[i] for i in failed)
        facts = {"artifacts": len(ledger), "failed": len(failed), "failed again": sum(runs[i] > 1 for i in failed)}
        return _too_many("artifacts", len(failed), len(ledger), corpus.max_failures), facts | {
            f"failed: {kind}": count for kind, count in sorted(counted.items())
        }

    def _written(self, corpus: Corpus, ledger: pa.Table, stage: Stage) -> tuple[Iterator[str], Mapping[str, int]]:
        """Of what one of the stages WRITTEN was to write."""
        named = ledger[OUTCOMES[stage]].to_pylist()
        outcomes = Counter(filter(None, named))
        answered = outcomes.total() - outcomes[Outcome.SKIPPED] - outcomes[Outcome.PENDING]
        reasons = zip(named, ledger["failed_message"].to_pylist(), strict=True)
        waits = Counter(f"pending: {why}" for outcome, why in reasons if outcome == Outcome.PENDING and why)
        problems = _too_many(stage.replace("_", " "), outcomes[Outcome.FAILED], answered, corpus.max_failures)
        refused = {"refused": pc.sum(ledger["refused"]).as_py() or 0} if stage is Stage.CLAIMS else {}
        return problems, dict(sorted(outcomes.items())) | dict(waits.most_common(REASONS)) | refused

    def _orphans(self, corpus: Corpus, ledger: pa.Table, rows: pa.Table, known: Known) -> Iterator[str]:
        ids = set(rows["artifact_id"].to_pylist())
        yield from verify.named("artifacts have records but are not in the ledger", ids - known.keys())
        for table in PER_ARTIFACT:
            counted = pc.sum(ledger[f"n_{table}"]).as_py() or 0
            there = self.store.count(table, equals("corpus", corpus.name))
            if there != counted:
                yield f"table {table} has {there} rows where the ledger counts {counted}: run `findingaid index`"

    def _vectors(self, corpus: Corpus, rows: pa.Table) -> Iterator[str]:
        yield from verify.named(verify.UNSOUND, self._unsound[corpus.name])
        if strangers := set(pc.unique(rows["embedder_id"]).to_pylist()) - {self.embedder.id}:
            yield f"made by {', '.join(sorted(strangers))}, the configuration says {self.embedder.id}"

    def _ledger(self, rows: pa.Table, known: Known) -> Iterator[str]:
        ids = rows["artifact_id"].to_pylist()
        yield from verify.named(
            "artifacts do not have the records that the ledger counts",
            [i for i, count in Counter(ids).items() if i in known and known[i][1] != count],
        )
        versions = zip(ids, rows["artifact_version"].to_pylist(), strict=True)
        yield from verify.named(
            "artifacts have records of another version than the ledger has",
            {i for i, version in versions if i in known and known[i][0] not in {version, None}},
        )

    def _finds(self, corpus: Corpus, rows: pa.Table) -> Iterator[str]:
        here = equals("corpus", corpus.name)
        sample = dict(_sample(rows))
        if not sample:
            return
        reader = Reader(self.newest, self.embedder, lambda: self.edges, few=0)  # by the index, if there is one
        where = f"{one_of('artifact_id', sample.values())} AND {one_of('record_id', sample)} AND {here}"
        for record in self.newest.to_table(columns=["record_id", "artifact_id", "text"], filter=where).to_pylist():
            record_id, artifact_id, text = record.values()
            try:
                vector = self.embedder.embed_query(text)
            except Exception as error:  # noqa: BLE001  # it may raise anything, and readers would meet it too
                yield f"the embedder fails: {type(error).__name__}: {error}"
                return
            near = reader.nearest(vector, AMONG, here)
            if text not in {row["text"] for row in reader.rows_of(near, ["text"])}:
                yield f"the text of record {record_id} of {artifact_id} is not among the {AMONG} it finds"

    def _known(self, corpus: Corpus, ids: set[str]) -> Known:
        columns = ("corpus", "artifact_id", "artifacts", "n_records", "recipe")
        found = self.store.lookup("ledger", "artifact_id", ids, columns).to_pylist()
        return {
            row["artifact_id"]: (row["artifacts"] if row["recipe"] else None, row["n_records"])
            for row in found
            if row["corpus"] == corpus.name
        }


def measured(corpus: str, of: Quality, searching: Searching, folder: Path | None) -> CheckResult:
    """The result of the check of quality, by cases that are put to the records that `searching` shows."""
    try:
        cases = load_cases(of.cases).of_corpus(corpus)
        if not cases.cases:
            return CheckResult(QUALITY, corpus, facts={"cases": 0})
        corpora = None if of.everywhere else [corpus]
        found = evaluated(searching, cases, [of.metric], corpora=corpora, folder=folder)
    except (CasesError, ConfigError, QueryError) as error:
        return CheckResult(QUALITY, corpus, [str(error)])
    score = found.score(of.metric)
    if score is None:
        return CheckResult(QUALITY, corpus, [f"{of.cases}: no case has what {of.metric} needs"])
    facts = {"cases": len(cases.cases), "floor": of.floor, of.metric: score.value, "low": score.low, "high": score.high}
    of_kinds = {
        f"{of.metric} of {kind}": of_kind.value for kind in found.kinds if (of_kind := found.score(of.metric, kind))
    }
    if score.value >= of.floor:
        return CheckResult(QUALITY, corpus, facts=facts | of_kinds)
    worst = ", ".join(repr(case.query) for case in found.worst(of.metric, WORST))
    problem = f"{of.metric} is {score} over {len(cases.cases)} cases, below the floor of {of.floor:g}; worst: {worst}"
    return CheckResult(QUALITY, corpus, [problem], facts | of_kinds)


def _too_many(what: str, failed: int, of: int, share: float) -> Iterator[str]:
    if failed > share * of:
        yield f"{failed} of {of} {what} failed, more than max_failures {share:g}: see `findingaid status`"


def _sample(rows: pa.Table) -> list[tuple[str, str]]:
    """(record id, artifact id) of a few records, the same ones for the same rows."""
    pairs = sorted(zip(rows["record_id"].to_pylist(), rows["artifact_id"].to_pylist(), strict=True))
    size = min(SAMPLES, 1 + len(pairs) // A_SAMPLE_OF)
    return pairs[:: max(1, len(pairs) // size)][:size]


def _files(dataset: LanceDataset) -> set[str]:
    return {path for fragment in dataset.get_fragments() for path in _paths(fragment)}


def _paths(fragment: Any) -> set[str]:
    return {file.path for file in fragment.metadata.files}
