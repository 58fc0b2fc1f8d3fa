"""Release of the newest records to readers: maintain the tables, check the new rows, and move the published tag."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from findingaid.corpus import Corpus
from findingaid.errors import StoreError
from findingaid.indexing.checks import TORN, Checker, CheckResult, measure_quality
from findingaid.metrics import SupportsSearch
from findingaid.protocols import Embedder
from findingaid.store import Lease, Leases, Ledger, Publisher, Store, upkeep
from findingaid.store.leases import POLL_SECONDS

if TYPE_CHECKING:
    from lance import LanceDataset

TORN_LOOKS = 5
"""How often tables that pass their checks are opened anew, since other runs may be between two of their commits."""


@dataclass(frozen=True)
class ReleaseResult:
    """Result of releasing the records of a run.

    `unpublished` gives the reason when readers keep the previous version, else None. `checks` are all check results.
    With `held`, a rollback keeps readers at an earlier version.
    """

    unpublished: str | None
    checks: Sequence[CheckResult]
    held: bool = False

    @property
    def visible(self) -> bool:
        """Whether readers see the newest records."""
        return self.unpublished is None and not self.held


@dataclass(frozen=True)
class _Checked:
    """Check results of the newest records; `unfit` gives the reason when those must not be published, else None."""

    checker: Checker
    checks: Sequence[CheckResult]
    unfit: str | None


@dataclass(frozen=True)
class Release:
    """Release of the newest records of a store to its readers.

    `searching` returns the object that searches a store, for quality checks.
    """

    store: Store
    embedder: Embedder
    corpora: Mapping[str, Corpus]
    publisher: Publisher
    searching: Callable[[Store], SupportsSearch]

    def publish_changes(self, corpora: Sequence[str] = (), lease: Lease | None = None) -> ReleaseResult:
        """Maintain the tables, check their new rows, and publish unless a blocking check fails or a rollback holds.

        `corpora` names the corpora that the run changed. They are checked, together with every corpus that has
        unpublished records. `lease` is that of the run; if it is held, it keeps purges out.
        """
        if not corpora and self.publisher.current() and upkeep.is_full_text_current(self.store):
            return ReleaseResult(None, [])
        with nullcontext() if lease and lease.held else Leases(self.store).visit():
            # Read these before maintenance creates a version of its own.
            withdrawn, before = self.publisher.withdrawn(), self.publisher.rolled_back()
            upkeep.compact(self.store)
            with ThreadPoolExecutor(1) as pool:
                indexing = pool.submit(
                    upkeep.update_indexes, self.store
                )  # creates versions, but no data files that need a check
                found = self._check_new(corpora, lease)
                indexing.result()
            result = self.store.retried(lambda: self._publish(found, corpora, withdrawn, before, lease))
        upkeep.drop_old_versions(self.store)
        return result

    def publish_newest(self) -> int:
        """Publish the newest records, even after a rollback. Raises StoreError if they fail their checks."""
        checker = self.require_fit("published")
        with self._moving_readers():
            return self.publisher.publish(checker.tables)

    def rollback(self, version: int | None = None) -> int:
        """Serve an earlier version until a run indexes something new or `publish_newest` is called.

        Raises StoreError if that version, or any earlier one, is not kept.
        """
        with self._moving_readers():
            return self.publisher.rollback(version)

    def check(self, names: Sequence[str]) -> list[CheckResult]:
        """Run every check of these corpora over all of their newest records, not only over new ones."""

        def look() -> list[CheckResult]:
            checker = Checker(self.store, self.embedder, everything=True)
            quality = self._quality(checker.tables, names)
            indexed = (checker.indexed(self.corpora[name]) for name in names)
            return [*self._results(checker, names), *(q for q in quality if q.corpus in names), *indexed]

        return self.store.retried(look)

    def require_fit(self, what: str) -> Checker:
        """Check the newest records. Raises StoreError, "not {what}: …", if they must not be published."""
        found = self._check_new(())
        checker = found.checker
        changed = list(self.corpora) if self.publisher.served() != self.publisher.newest() else []
        if unfit := found.unfit or _failing(self._quality(checker.tables, changed)):
            raise StoreError(f"not {what}: {unfit}")
        return checker

    @contextmanager
    def _moving_readers(self) -> Iterator[None]:
        """Keep other processes from publishing and rolling back, so that neither undoes the other."""
        leases = Leases(self.store)
        with leases.visit(), leases.publishing():
            yield

    def _publish(
        self, found: _Checked, corpora: Sequence[str], withdrawn: bool, before: int | None, lease: Lease | None
    ) -> ReleaseResult:
        """Publish the newest version; check it again first if another run has written to it in the meantime."""
        tables = self.store.newest_tables()
        if not found.checker.covers(tables):
            found = self._check_new(corpora, lease)
            tables = found.checker.tables  # those just checked, not later ones
        names = {result.corpus for result in found.checks}
        quality = [] if withdrawn or found.unfit else self._quality(tables, names)
        unfit = found.unfit or _failing(quality)
        with Leases(self.store).publishing():
            # A rollback made since `before` was read withdraws everything that this run wrote.
            held = withdrawn or self.publisher.rolled_back() not in {None, before}
            if held:
                self.publisher.hold()
            elif unfit is None and not self._half_written(tables):
                self.publisher.publish(tables)
        indexed = [found.checker.indexed(corpus) for name, corpus in self.corpora.items() if name in names]
        return ReleaseResult(unfit, [*found.checks, *quality, *indexed], held)

    def _half_written(self, tables: Mapping[str, LanceDataset]) -> bool:
        """Return whether readers see these records, and some artifacts are written in part, as by a run of one stage.

        Then readers keep what belongs to the records, such as the texts that they were cut from.
        """
        same = self.publisher.served() == tables["records"].version
        return same and bool(Ledger(self.store).unfinished()) and self.publisher.whole()

    def _check_new(self, corpora: Sequence[str], lease: Lease | None = None) -> _Checked:
        """Check the newest records, and check again while another run may have them half written.

        A run writes records first and the ledger after them, so a check in between sees the two disagree.
        """
        waited, looks = True, 0
        while True:
            found = self.store.retried(lambda: self._check_once(corpora))
            looks += 1
            fit = found.unfit is None and (not found.checker.torn or looks > TORN_LOOKS)
            if fit or (found.unfit and not _may_be_torn(found)):
                return found
            if lease:
                lease.leave_corpus()  # else two runs that both check would wait for each other
            held = bool(Leases(self.store).working())
            if not held and (not waited or found.unfit is None):
                return found
            waited = held  # check once more after the last lease is gone: its run may have ended since these checks
            time.sleep(POLL_SECONDS if held else 0)

    def _check_once(self, corpora: Sequence[str]) -> _Checked:
        checker = Checker(self.store, self.embedder)
        if checker.misfit:
            return _Checked(checker, [], checker.misfit)
        checks = self._results(checker, {*corpora, *checker.touched()})
        return _Checked(checker, checks, self._unfit(checker, checks))

    def _results(self, checker: Checker, names: Collection[str]) -> list[CheckResult]:
        return [result for name, corpus in self.corpora.items() if name in names for result in checker.check(corpus)]

    def _quality(self, tables: Mapping[str, LanceDataset], changed: Collection[str]) -> list[CheckResult]:
        """Run the quality cases against these versions of the tables, for corpora whose results may have changed."""
        due = {
            name: corpus.quality
            for name, corpus in self.corpora.items()
            if corpus.quality and (name in changed or (corpus.quality.everywhere and changed))
        }
        if not due:
            return []
        searching = self.searching(self.store.showing(tables))
        return [measure_quality(name, quality, searching) for name, quality in due.items()]

    def _unfit(self, checker: Checker, checks: Sequence[CheckResult]) -> str | None:
        """Return the reason why the checked records must not be published, else None."""
        if not checker.agrees():
            lost = checker.unequal()
            if lost and lost.isdisjoint(self.corpora):
                return (
                    f"corpora that the configuration does not name have lost their records: {', '.join(sorted(lost))}:"
                    " index them with one that does, or remove them: `findingaid purge`"
                )
            return "some corpora are not rebuilt yet: index all of them"
        if others := checker.of_another_embedder(self.corpora):
            return f"another embedder made the records of {', '.join(others)}: index them too"
        return _failing(checks)


def _may_be_torn(found: _Checked) -> bool:
    torn = any(result.check in TORN for result in found.checks if not result.passed)
    return not found.checker.misfit and (torn or not found.checker.agrees())


def _failing(checks: Sequence[CheckResult]) -> str | None:
    """Return the failed blocking checks as one line; None if all passed."""
    return "; ".join(str(result) for result in checks if result.check.blocking and not result.passed) or None
