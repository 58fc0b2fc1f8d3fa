"""Checks of one corpus that must pass before a run's records are published, on new rows or on all rows.

Lance never changes a data file. New rows are therefore those in files that the published version does not have; the
rows in the other files were checked before they were published.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from findingaid.access import NOBODY
from findingaid.corpus import Corpus, Quality
from findingaid.errors import CasesError, ConfigError, QueryError, one_line
from findingaid.indexing.vectors import dimensions_of
from findingaid.metrics import SupportsSearch, evaluate_search, load_cases
from findingaid.model import WRITTEN, Outcome, Stage
from findingaid.protocols import Embedder
from findingaid.query.search.reader import Reader
from findingaid.store import Ledger, Publisher, Store, upkeep, verify
from findingaid.store.allocator import return_freed_memory
from findingaid.store.ledger import OUTCOMES
from findingaid.store.schemas import PER_ARTIFACT
from findingaid.store.skipped import SkippedArtifacts
from findingaid.store.sql import equals, one_of
from findingaid.store.tables import select_rows
from findingaid.store.vectors import STREAM

if TYPE_CHECKING:
    from lance import LanceDataset, LanceFragment

LOGGER = logging.getLogger("findingaid")

COLUMNS = ("record_id", "corpus", "artifact_id", "artifact_version", "embedder_id")

LEDGER_COLUMNS = (
    "artifact_id",
    "readers",
    "artifacts",
    "recipe",
    *(f"failed_{what}" for what in ("stage", "kind", "message", "runs")),
    *OUTCOMES.values(),
    "refused",
    *(f"n_{table}" for table in PER_ARTIFACT),
)

REASONS = 5
"""Number of reasons for pending synopses that a check names, most frequent first."""

SAMPLES, A_SAMPLE_OF = 2, 100
"""Records per corpus that are searched by their own text: one if fewer than A_SAMPLE_OF are checked, else two."""

MANY_ROWS = 100_000
"""Number of records from which checks run one after the other, since each holds columns of all of them."""

WORST = 3
"""Number of questions that a failed quality check names."""

AMONG = 10
"""Rank down to which a record must be found by its own text. Others may say the same in other words."""


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that must hold for a corpus. If a `blocking` check fails, nothing is published."""

    name: str
    stage: Stage
    description: str
    blocking: bool = True


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of a check. It passed if there are no problems."""

    check: Check
    corpus: str
    problems: Sequence[str] = ()
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        return f"{self.corpus}: check {self.check.name}: {'; '.join(self.problems) or 'passed'}"


LISTED = Check(
    "source_listed", Stage.ARTIFACTS, "The last whole run could list the source, and accepted it.", blocking=False
)
FAILURES = Check("failures", Stage.ARTIFACTS, "No more than `max_failures` of the artifacts failed.")
ORPHANS = Check("no_orphans", Stage.SURFACES, "Every row belongs to an artifact in the ledger.")
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
    "vectors_sound", Stage.EMBEDDINGS, "Every vector is finite, of length 1 and made by the configured embedder."
)
LEDGER = Check(
    "ledger_agrees", Stage.RECORDS, "Each artifact has the number of records and the version that the ledger states."
)
UNIQUE = Check("ids_unique", Stage.RECORDS, "No two records have the same id.")
INDEXED = Check("indexed", Stage.RECORDS, "Full-text and vector index cover the rows.", blocking=False)
FINDS = Check("finds_itself", Stage.RECORDS, "A search for a record's own text finds it.")

READABLE = Check("readable", Stage.ARTIFACTS, "Somebody may read each artifact.", blocking=False)
QUALITY = Check("quality", Stage.RECORDS, "Known questions find the expected artifacts as well as `quality` requires.")

OUTCOME_CHECKS = (SYNOPSES, CLAIMS, NODES)
"""Checks of the stages whose output a model may write, by its outcomes."""

TORN = (ORPHANS, LEDGER)
"""Checks that may fail for a moment, while another run has written its records but not yet its ledger rows."""

CHECKS = (LISTED, FAILURES, ORPHANS, SYNOPSES, VECTORS, LEDGER, UNIQUE, FINDS, INDEXED)
"""Checks that every corpus has."""

OF_SOME = tuple(check for check in OUTCOME_CHECKS if check not in CHECKS)
"""Checks of stages that only some corpora have."""


def checks_of(corpus: Corpus) -> tuple[Check, ...]:
    """Return the checks of a corpus: CHECKS, those of what else it has, and quality if it has a floor."""
    more = [*(check for check in OF_SOME if check.stage in corpus.stages), *([READABLE] if corpus.access else [])]
    return (*CHECKS, *more, *([QUALITY] if corpus.quality else ()))


class Checker:
    """Checker of the newest records of a store: those that the published version lacks or, with `everything`, all."""

    def __init__(self, store: Store, embedder: Embedder, everything: bool = False) -> None:
        self.store = store
        self.embedder = embedder
        self.dim = dimensions_of(embedder, store)
        self.everything = everything
        before = self._settled()
        self.tables = store.newest_tables()
        self.torn = before is None or before != self._settled()
        """Whether these tables may be those in the middle of a commit of several."""
        self.newest = self.tables["records"]
        self.fragments = self._new_fragments()
        self.rows = self._rows()
        self.siblings = self._siblings()

    @property
    def misfit(self) -> str | None:
        """Reason why the embedder cannot check these records at all: their vectors have another length. Else None."""
        dim = self.newest.schema.field("vector").type.list_size
        if dim == self.dim:
            return None
        return (
            f"another run rebuilt the records for vectors of {dim} dimensions, those of {self.embedder.id} have"
            f" {self.dim}: give each embedder its own store"
        )

    def agrees(self) -> bool:
        """Return whether there are as many records as the ledger counts."""
        counted = self.store.rows("ledger", ["n_records"])["n_records"]
        return bool((pc.sum(counted).as_py() or 0) == self.newest.count_rows())

    def unequal(self) -> set[str]:
        """Return the corpora that do not have as many records as the ledger counts."""
        ledger = self.store.rows("ledger", ["corpus", "n_records"])
        counted = ledger.group_by("corpus").aggregate([("n_records", "sum")])
        return {
            corpus
            for corpus, records in zip(*(column.to_pylist() for column in counted.columns), strict=True)
            if records != self.newest.count_rows(equals("corpus", corpus))
        }

    def of_another_embedder(self, corpora: Collection[str]) -> list[str]:
        """Return the corpora that have records of another embedder."""
        mine = equals("embedder_id", self.embedder.id)
        return [name for name in corpora if self.newest.count_rows(f"{equals('corpus', name)} AND NOT ({mine})")]

    def touched(self) -> set[str]:
        """Return the corpora that have rows to check."""
        return set(pc.unique(self.rows["corpus"]).to_pylist())

    def check(self, corpus: Corpus) -> list[CheckResult]:
        """Run all checks of one corpus except INDEXED and QUALITY; return the results.

        They come in the order of CHECKS, followed by those of claims.
        """
        rows, siblings = (_of(corpus.name, table) for table in (self.rows, self.siblings))
        ledger = self.store.rows("ledger", LEDGER_COLUMNS, equals("corpus", corpus.name))
        found: tuple[tuple[Check, Iterator[str], Mapping[str, int]], ...] = (
            (LISTED, iter(check_listed(self.store, corpus.name).problems), {}),
            (FAILURES, *self._failures(corpus, ledger)),
            (ORPHANS, self._orphans(corpus, ledger, rows), {"rows checked": len(rows)}),
            (SYNOPSES, *self._written(corpus, ledger, Stage.SYNOPSES)),
            (VECTORS, self._vectors(corpus, rows), {"vectors checked": len(rows), "dimension": self.dim}),
            (LEDGER, self._ledger(siblings, ledger), {"records checked": len(siblings)}),
            (UNIQUE, verify.duplicate_ids(siblings), {"records checked": len(siblings)}),
            (FINDS, *self._finds(corpus, rows)),
            *(
                (check, *self._written(corpus, ledger, check.stage))
                for check in OF_SOME
                if check.stage in corpus.stages
            ),
            *([(READABLE, *_unreadable(ledger))] if corpus.access else []),
        )
        many = len(rows) >= MANY_ROWS
        problems = {check: lazy for check, lazy, _ in found}
        if many:  # one at a time, for the memory
            why = {check: list(lazy) for check, lazy in problems.items()}
            return_freed_memory()
        else:
            why = self.store.each(problems, lambda check: list(problems[check]))
        return [CheckResult(check, corpus.name, why[check], facts) for check, _, facts in found]

    def indexed(self, corpus: Corpus) -> CheckResult:
        """Check whether the store's indexes, as they are now, cover the rows."""
        behind = upkeep.unindexed(self.store)
        problems = [
            f"{rows:,} rows are not in the {name} index" for name, (rows, limit) in behind.items() if rows > limit
        ]
        facts = {f"rows not in the {name} index": rows for name, (rows, _) in behind.items()}
        return CheckResult(INDEXED, corpus.name, problems, facts)

    def covers(self, tables: Mapping[str, LanceDataset]) -> bool:
        """Return whether these versions hold exactly the rows that were checked. Indexes may have been added since."""
        return all(_content(self.tables[name]) == _content(table) for name, table in tables.items())

    def _settled(self) -> int | None:
        """Return the version of the ledger if no artifact is being written by it, else None."""
        version = int(self.store.dataset("ledger").version)
        return None if Ledger(self.store).unfinished() else version

    def _new_fragments(self) -> list[LanceFragment]:
        fragments = self.newest.get_fragments()
        if self.everything:
            return fragments
        served = _files(self.store.published()) if Publisher(self.store).served() else set()
        return [fragment for fragment in fragments if not served.issuperset(_paths(fragment))]

    def _rows(self) -> pa.Table:
        if not self.fragments:
            return _compact(self.newest.schema, ())
        batches = self.newest.scanner(columns=list(COLUMNS), fragments=self.fragments, **STREAM).to_batches()
        return _compact(self.newest.schema, batches)

    def _siblings(self) -> pa.Table:
        """Return all records of the artifacts in `rows`. A duplicate record may be in a file checked before."""
        if len(self.rows) == self.newest.count_rows():
            return self.rows
        ids = pc.unique(self.rows["artifact_id"]).to_pylist()
        return _compact(self.newest.schema, select_rows(self.newest, "artifact_id", ids, COLUMNS).to_batches())

    @cached_property
    def _unsound(self) -> dict[str, list[str]]:
        """Invalid vectors: corpus -> ids of their records. Reads all vectors once, a batch at a time."""
        found: dict[str, list[str]] = defaultdict(list)
        if self.fragments:
            columns = ["corpus", "record_id", "vector"]
            for batch in self.newest.scanner(columns=columns, fragments=self.fragments, **STREAM).to_batches():
                for i in verify.unsound(batch["vector"], self.dim):
                    found[batch["corpus"][i].as_py()].append(batch["record_id"][i].as_py())
        return found

    def _failures(self, corpus: Corpus, ledger: pa.Table) -> tuple[Iterator[str], Mapping[str, int]]:
        failed = ledger.filter(pc.invert(pc.is_in(ledger["failed_stage"], pa.array(["", *map(str, WRITTEN)]))))
        counted = Counter(failed["failed_kind"].to_pylist())
        again = sum(runs > 1 for runs in failed["failed_runs"].to_pylist())
        facts = {"artifacts": len(ledger), "failed": len(failed), "failed again": again}
        return _too_many("artifacts", len(failed), len(ledger), corpus.max_failures), facts | {
            f"failed: {kind}": count for kind, count in sorted(counted.items())
        }

    def _written(self, corpus: Corpus, ledger: pa.Table, stage: Stage) -> tuple[Iterator[str], Mapping[str, int]]:
        """Return problems and facts of one of the stages in WRITTEN."""
        named = ledger[OUTCOMES[stage]]
        counts = named.value_counts()
        outcomes = Counter(
            dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))
        )
        del outcomes[""]
        answered = outcomes.total() - outcomes[Outcome.SKIPPED] - outcomes[Outcome.PENDING]
        reasons = ledger["failed_message"].filter(pc.equal(named, Outcome.PENDING.value)).to_pylist()
        waits = Counter(f"pending: {why}" for why in reasons if why)
        problems = _too_many(stage.replace("_", " "), outcomes[Outcome.FAILED], answered, corpus.max_failures)
        refused = {"refused": pc.sum(ledger["refused"]).as_py() or 0} if stage is Stage.CLAIMS else {}
        return problems, dict(sorted(outcomes.items())) | dict(waits.most_common(REASONS)) | refused

    def _orphans(self, corpus: Corpus, ledger: pa.Table, rows: pa.Table) -> Iterator[str]:
        ids = pc.unique(rows["artifact_id"]).cast(pa.string())
        unknown = ids.filter(pc.invert(pc.is_in(ids, ledger["artifact_id"].combine_chunks())))
        yield from verify.named("artifacts have records but are not in the ledger", unknown.to_pylist())
        alone = len(ledger) == self.store.count("ledger")  # then counting all rows is enough, and reads no column
        for table in PER_ARTIFACT:
            counted = pc.sum(ledger[f"n_{table}"]).as_py() or 0
            if alone and self._count(table) == counted:
                continue
            there = self._count(table, equals("corpus", corpus.name))
            if there != counted:
                yield f"table {table} has {there} rows, the ledger states {counted}: run `findingaid index`"

    def _count(self, table: str, where: str | None = None) -> int:
        """Count rows of a table, in the version being checked if the table has one."""
        checked = self.tables.get(table)
        return self.store.count(table, where) if checked is None else int(checked.count_rows(where))

    def _vectors(self, corpus: Corpus, rows: pa.Table) -> Iterator[str]:
        yield from verify.named(verify.UNSOUND, self._unsound[corpus.name])
        if strangers := set(pc.unique(rows["embedder_id"]).to_pylist()) - {self.embedder.id}:
            yield f"made by {', '.join(sorted(strangers))}, the configuration says {self.embedder.id}"

    def _ledger(self, rows: pa.Table, ledger: pa.Table) -> Iterator[str]:
        """Yield the artifacts whose records are not as many as the ledger states, or of another version.

        The version is known of artifacts that are up to date in all stages.
        """
        artifacts = rows["artifact_id"].combine_chunks()  # each id once, and its place for each row
        ids, places = artifacts.dictionary, artifacts.indices
        stated = pc.index_in(ids, ledger["artifact_id"])
        counts = np.bincount(places, minlength=len(ids))
        differing = pc.and_(counts > 0, pc.not_equal(ledger["n_records"].take(stated), counts))
        yield from verify.named(
            "artifacts do not have the number of records that the ledger states", ids.filter(differing).to_pylist()
        )
        unknown = pa.scalar(None, pa.string())
        current = pc.if_else(pc.equal(ledger["recipe"], ""), unknown, ledger["artifacts"]).take(stated)
        others = pc.not_equal(rows["artifact_version"].cast(pa.string()), current.take(places))
        other = "artifacts have records of another version than the ledger states"
        for problem in verify.named(other, set(rows["artifact_id"].filter(others).to_pylist())):
            yield f"{problem}: {verify.REBUILD}"

    def _finds(self, corpus: Corpus, rows: pa.Table) -> tuple[Iterator[str], Mapping[str, int]]:
        """Return problems and facts. An embedder that does not answer says nothing about the records."""
        facts = {"records searched for": len(_sample(rows))}
        return self._unfound(corpus, rows, facts), facts

    def _unfound(self, corpus: Corpus, rows: pa.Table, facts: dict[str, int]) -> Iterator[str]:
        here = equals("corpus", corpus.name)
        sample = dict(_sample(rows))
        if not sample or self.misfit:
            return
        view = self.store.showing(self.tables)
        reader = Reader(self.newest, self.embedder, view, exact_limit=0)  # uses the index, if there is one
        where = f"{one_of('artifact_id', sample.values())} AND {one_of('record_id', sample)} AND {here}"
        for record in self.newest.to_table(columns=["record_id", "artifact_id", "text"], filter=where).to_pylist():
            record_id, artifact_id, text = record.values()
            try:
                vector = reader.embed(text)
            except Exception as error:  # noqa: BLE001  # it may raise anything
                LOGGER.warning(
                    "%s: check %s: not made, as the embedder fails: %s", corpus.name, FINDS.name, one_line(error)
                )
                facts["records not searched for"] = facts.pop("records searched for")
                return
            near = reader.nearest(vector, AMONG, here)
            if text not in {row["text"] for row in reader.rows_of(near, ["text"])}:
                yield f"the text of record {record_id} of {artifact_id} is not among the {AMONG} it finds"


def check_listed(store: Store, corpus: str) -> CheckResult:
    """Return whether the last whole run could list the source of a corpus, and did not refuse what it had lost."""
    return CheckResult(LISTED, corpus, [failure.message for failure in SkippedArtifacts(store).unlisted(corpus)])


def measure_quality(corpus: str, of: Quality, searching: SupportsSearch) -> CheckResult:
    """Run the quality check: put the cases to the records that `searching` reads."""
    try:
        cases = load_cases(of.cases).of_corpus(corpus)
        if not cases.cases:
            return CheckResult(QUALITY, corpus, facts={"cases": 0})
        corpora = None if of.everywhere else [corpus]
        found = evaluate_search(searching, cases, [of.metric], corpora=corpora)
    except (CasesError, ConfigError, QueryError) as error:
        return CheckResult(QUALITY, corpus, [str(error)])
    score = found.score(of.metric)
    if score is None:
        return CheckResult(QUALITY, corpus, [f"{of.cases}: no case has the fields for {of.metric} needs"])
    facts = {"cases": len(cases.cases), "floor": of.floor, of.metric: score.value, "low": score.low, "high": score.high}
    of_kinds = {
        f"{of.metric} of {kind}": of_kind.value for kind in found.kinds if (of_kind := found.score(of.metric, kind))
    }
    if score.value >= of.floor:
        return CheckResult(QUALITY, corpus, facts=facts | of_kinds)
    worst = ", ".join(repr(case.query) for case in found.worst(of.metric, WORST))
    problem = f"{of.metric} is {score} over {len(cases.cases)} cases, below the floor of {of.floor:g}; worst: {worst}"
    return CheckResult(QUALITY, corpus, [problem], facts | of_kinds)


def _compact(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return the columns to check of all rows, with each repeated value once: a third of the memory."""
    kinds = {name: pa.dictionary(pa.int32(), schema.field(name).type) for name in COLUMNS if name != "record_id"}
    wanted = pa.schema([pa.field(name, kinds.get(name, schema.field(name).type)) for name in COLUMNS])
    found = [batch.select(COLUMNS).cast(wanted) for batch in batches]
    return pa.Table.from_batches(found, wanted).unify_dictionaries()


def _of(corpus: str, rows: pa.Table) -> pa.Table:
    """Return the rows of one corpus."""
    return rows if pc.unique(rows["corpus"]).to_pylist() == [corpus] else rows.filter(pc.equal(rows["corpus"], corpus))


def _too_many(what: str, failed: int, of: int, share: float) -> Iterator[str]:
    if failed > share * of:
        yield f"{failed} of {of} {what} failed, more than max_failures {share:g}: see `findingaid status`"


def _unreadable(ledger: pa.Table) -> tuple[Iterator[str], Mapping[str, int]]:
    """Return problems and facts: who is named stays out of both."""
    hidden = pc.and_(pc.equal(ledger["readers"], NOBODY), pc.greater(ledger["n_artifacts"], 0))
    said = {each for readers in pc.unique(ledger["readers"]).to_pylist() for each in readers.split()}
    problems = verify.named("artifacts can be read by nobody", ledger["artifact_id"].filter(hidden).to_pylist())
    return problems, {"principals": len(said)}


def _sample(rows: pa.Table) -> list[tuple[str, str]]:
    """Return (record id, artifact id) of a few records, always the same ones for the same rows."""
    size = min(SAMPLES, 1 + len(rows) // A_SAMPLE_OF)
    order = pc.sort_indices(rows["record_id"])
    chosen = rows.take(order.take(pa.array(range(0, len(rows), max(1, len(rows) // size))[:size], pa.int64())))
    return list(zip(chosen["record_id"].to_pylist(), chosen["artifact_id"].to_pylist(), strict=True))


def _files(dataset: LanceDataset) -> set[str]:
    return {path for fragment in dataset.get_fragments() for path in _paths(fragment)}


def _content(dataset: LanceDataset) -> tuple[Any, frozenset[Any]]:
    """Return the content of a version, for comparison: its columns, files and deletions."""
    fragments = (fragment.metadata for fragment in dataset.get_fragments())
    rows = frozenset((f.id, tuple(file.path for file in f.files), str(f.deletion_file)) for f in fragments)
    return dataset.schema, rows


def _paths(fragment: Any) -> set[str]:
    return {file.path for file in fragment.metadata.files}
