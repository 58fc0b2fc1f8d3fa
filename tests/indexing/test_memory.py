"""A run holds a batch of artifacts and columns of the others, so that its memory hardly follows the corpus."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from lance.dataset import DatasetOptimizer

from findingaid import FindingAid
from findingaid.indexing import checks, plan
from findingaid.store import Ledger, LedgerRow
from findingaid.testing import MemorySource
from tests.conftest import text_about

Make = Callable[..., FindingAid]


def test_only_the_ledger_rows_of_a_batch_are_held(
    make_aid: Make, source: MemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "BATCH_ARTIFACTS", 4)
    source.payloads |= {f"{number:03}.md": text_about(f"topic {number}") for number in range(6)}
    held: list[int] = []
    read = Ledger.rows

    def rows(ledger: Ledger, corpus: str, artifact_ids: Sequence[str] | None = None) -> Mapping[str, LedgerRow]:
        found = read(ledger, corpus, artifact_ids)
        held.append(len(found))
        return found

    monkeypatch.setattr(Ledger, "rows", rows)
    make_aid().index()
    source.payloads["new.md"] = text_about("something new")
    del source.payloads["000.md"]

    planned = make_aid().plan().corpora["docs"]
    done = make_aid().index(force=True).corpora["docs"]

    assert (planned.new, planned.deleted, planned.records) == (done.new, done.deleted, done.records)
    assert (planned.new, planned.deleted) == (1, 1)
    assert max(held) == 4


@pytest.mark.usefixtures("indexed")
def test_tables_are_merged_one_at_a_time(make_aid: Make, source: MemorySource, monkeypatch: pytest.MonkeyPatch) -> None:
    merging, most, merged = 0, 0, 0
    counting = threading.Lock()
    merge = DatasetOptimizer.compact_files

    def compact_files(optimizer: DatasetOptimizer, **options: Any) -> Any:
        nonlocal merging, most, merged
        with counting:
            merging += 1
            most, merged = max(most, merging), merged + 1
        try:
            time.sleep(0.05)  # long enough for another table to begin
            return merge(optimizer, **options)
        finally:
            merging -= 1

    monkeypatch.setattr(DatasetOptimizer, "compact_files", compact_files)
    monkeypatch.setattr("findingaid.store.upkeep.SMALL_FRAGMENTS", 1)
    source.payloads["new.md"] = text_about("new")
    make_aid().index()

    assert merged > 1
    assert most == 1


@pytest.mark.usefixtures("indexed")
def test_checks_of_many_records_find_the_same_one_after_the_other(
    aid: FindingAid, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = aid.check()
    monkeypatch.setattr(checks, "MANY_ROWS", 1)

    assert aid.check() == at_once
