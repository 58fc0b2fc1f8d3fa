"""A process stopped until its leases expire cannot overwrite the work of the run that took them over."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from findingaid.claims.decisions import DecisionLog, Verdict, broken
from findingaid.claims.model import Action
from findingaid.reports import NO_CALLS
from findingaid.store import Leases, Store
from tests.indexing.test_crash import aid_of, clean_build, payloads
from tests.indexing.test_incremental import docs, records
from tests.store.test_leases import local
from tests.support.programs import Program

TTL_SECONDS = 2

# Runs in a process of its own, which stops itself at the Nth commit to a table: before it takes the table's lock, or
# without locks, once it has written its file and before it commits (the first is of the empty table).
CHILD = """
import os, signal, sys, time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
import lance
from findingaid.indexing import plan, run
from findingaid.errors import StoreError
from findingaid.store import Leases, Store, tables
from tests.indexing.test_crash import aid_of, payloads

plan.BATCH_ARTIFACTS = 1000
run.Leases = partial(Leases, ttl=timedelta(seconds={ttl}))
# One table after the other: else another thread may stop inside its commit, or with a lock, for which everybody waits.
tables.ThreadPoolExecutor = lambda _: ThreadPoolExecutor(1)
steps = {{}}

def stopping(method, table_of):
    def call(*arguments, **named):
        table = table_of(*arguments)
        steps[table] = steps.get(table, 0) + 1
        if (table, steps[table]) == ({table!r}, {nth}):
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(1)  # the signal may reach another thread first
        return method(*arguments, **named)
    return call

if {inside}:
    name = lambda base, *_: str(getattr(base, "uri", base)).rpartition("/")[2].split(".")[0]
    commit = stopping(lance.LanceDataset.commit, name)
    lance.LanceDataset.commit = staticmethod(commit)
else:
    for name in ("replace", "replace_by_fragments"):
        setattr(Store, name, stopping(getattr(Store, name), lambda _, table, *rest: table))
try:
    aid_of({store!r}, payloads(0)).index()
except StoreError as error:
    sys.exit(str(error))
"""


def stopped(store: str, table: str, nth: int, inside: bool) -> Program:
    """Start a run and return once it has stopped."""
    code = CHILD.format(store=store, table=table, nth=nth, inside=inside, ttl=TTL_SECONDS)
    run = Program(code)
    run.until_stopped()
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "table", "nth", "inside"),
    [
        ("", "records", 1, False),
        ("", "ledger", 2, False),
        ("file://", "records", 1, False),
        ("file://", "artifacts", 2, True),
        ("file://", "records", 2, True),
        ("file://", "ledger", 2, False),
        ("file://", "ledger", 2, True),
        ("file://", "ledger", 3, True),
    ],
)
def test_a_run_that_lost_its_lease_between_two_commits_writes_nothing_more(
    tmp_path: Path, scheme: str, table: str, nth: int, inside: bool
) -> None:
    """With the file locks of one machine, and without them, as on object storage."""
    store = f"{scheme}{tmp_path}/index"
    late = stopped(store, table, nth, inside)
    try:
        while Leases(Store(store)).held():
            time.sleep(0.1)
        report = aid_of(store, payloads(1)).index()
    finally:
        late.send_signal(signal.SIGCONT)
    ended = late.ended()

    assert report.ok
    assert ended.returncode == 1, ended.stderr
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert "nothing more is written, run again" in ended.stderr
    aid = aid_of(store, payloads(1))
    assert aid.verify() == []
    assert records(aid) == clean_build(tmp_path / "clean", 1)
    again = docs(aid.index())
    assert (again.new, again.changed, again.calls) == (0, 0, NO_CALLS)
    assert Path(local(store)).exists()


DECIDE = """
import os, signal, sys, time
from datetime import timedelta
import lance
from findingaid.claims import decisions
from findingaid.claims.model import Action
from findingaid.store import Leases, Store
from functools import partial

decisions.Leases = partial(Leases, ttl=timedelta(seconds={ttl}))
commit = lance.LanceDataset.commit

def stopping(base, *arguments, **named):
    if "decisions" in str(base):
        lance.LanceDataset.commit = staticmethod(commit)
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(1)
    return commit(base, *arguments, **named)

lance.LanceDataset.commit = staticmethod(stopping)
verdict = decisions.Verdict(Action.ARCHIVE, "docs", "late", "a.md")
decisions.DecisionLog(Store({store!r})).decide(lambda _: [verdict], "late")
"""


@pytest.mark.slow
def test_a_decision_stopped_before_its_commit_is_not_lost_where_a_purge_deletes_what_it_stood_on(
    tmp_path: Path,
) -> None:
    """Without the locks of one machine, as on object storage, where the purge does not wait for it."""
    store = f"file://{tmp_path}/index"
    aid = aid_of(store, {"a.md": "# A\n\nA text."})
    aid.index()
    log = DecisionLog(aid.store)
    log.decide(lambda _: [Verdict(Action.ARCHIVE, "docs", "before", "a.md")], "ann")
    late = Program(DECIDE.format(store=store, ttl=TTL_SECONDS))
    try:
        late.until_stopped()
        while Leases(Store(store)).held():
            time.sleep(0.1)
        for i in range(3):
            log.decide(lambda _, i=i: [Verdict(Action.ARCHIVE, "docs", f"meanwhile {i}", "a.md")], "bob")
        aid.purge()
    finally:
        late.send_signal(signal.SIGCONT)
    ended = late.ended()

    there = DecisionLog(aid.store).all()
    assert list(broken(there)) == []
    assert [decision.claim_id for decision in there][:4] == ["before", *(f"meanwhile {i}" for i in range(3))]
    assert ("late" in {decision.claim_id for decision in there}) == (ended.returncode == 0), ended.stderr
    assert aid.verify() == []
