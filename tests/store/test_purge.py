"""Purged content is gone from disk, and everything else is unchanged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.fragment import write_fragments

from findingaid import FindingAid, StoreError
from findingaid.edges import CombinedExtractor
from findingaid.embedding.hashing import HashEmbedder
from findingaid.reports import NO_CALLS
from findingaid.testing import CountingEmbedder, MemorySource
from tests.conftest import Cli, text_about
from tests.indexing.test_incremental import docs, records

SECRET = "xylophonequartz"


def files_with(folder: Path, word: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


def test_a_removed_text_is_in_no_file(
    make_aid: Callable[..., FindingAid], source: MemorySource, tmp_path: Path
) -> None:
    aid = replace(make_aid(), retain=3)
    source.payloads["secret.md"] = text_about(SECRET)
    aid.index()
    assert files_with(tmp_path, SECRET)
    del source.payloads["secret.md"]
    aid.index()
    before = records(aid)

    done = aid.purge()

    assert (done.rows, done.vectors, done.calls) == (0, 2, 1)
    assert done.bytes > 0
    assert aid.purge().bytes >= 0, "although it writes versions of its own"
    assert files_with(tmp_path, SECRET) == []
    assert records(aid) == before
    assert len(aid.versions()) == 1
    assert aid.verify() == []


def test_a_corpus_that_left_the_configuration_before_another_embedder_keeps_no_run_from_publishing_after_a_purge(
    make_aid: Callable[..., FindingAid],
) -> None:
    """Its records have left the table with the vectors of another length, and no run makes them anew."""
    both = make_aid(embedder=HashEmbedder(16))
    both.corpora["left"] = replace(both.corpora["docs"], name="left")
    both.index()
    aid = make_aid(embedder=HashEmbedder(8))

    report = aid.index()
    done = aid.purge()

    assert str(report.unpublished) == (
        "corpora that the configuration does not name have lost their records: left: index them with one that does, or"
        " remove them: `findingaid purge`"
    )
    assert done.corpora == ["left"]
    assert aid.search("ledger")
    assert (aid.index().unpublished, aid.verify()) == (None, [])


def test_what_is_in_use_is_not_paid_again_after_a_purge(
    indexed: FindingAid, make_aid: Callable[..., FindingAid]
) -> None:
    make_aid(embedder=CountingEmbedder(HashEmbedder(16), "other")).index()
    make_aid().index()

    done = make_aid().purge()

    assert done.vectors == 9
    assert docs(make_aid().index(force=True)).calls == NO_CALLS
    assert len(make_aid().search("ledger", 50)) == 9


def test_a_corpus_that_is_no_longer_configured_goes(cli: Cli) -> None:
    cli.write("a.md", text_about("ledger"))
    cli.settings["corpora"]["old"] = cli.settings["corpora"]["docs"]
    cli.run("index")
    del cli.settings["corpora"]["old"]

    done = cli.json("purge")

    assert (done["rows"], done["corpora"]) == (4, ["old"])
    assert cli.json("verify")["ok"]
    assert cli.json("search", "ledger")


def test_what_was_removed_after_the_records_were_made_anew_is_in_no_file(
    make_aid: Callable[..., FindingAid], source: MemorySource, tmp_path: Path
) -> None:
    """The new records table begins again at version 1; edges of a later version of the old one must not be kept."""
    source.payloads["secret.md"] = f"# Secret\n\nSee [it]({SECRET}.md)."
    aid = make_aid(edges=CombinedExtractor())
    for i in range(3):
        source.payloads["edited.md"] = text_about(f"edition {i}")
        aid.index()
    shutil.rmtree(tmp_path / "index" / "records.lance")
    assert aid.index().repaired == ["table records was lost and was rebuilt"]
    assert files_with(tmp_path, SECRET)
    del source.payloads["secret.md"]
    aid.index()

    aid.purge()

    assert files_with(tmp_path, SECRET) == []
    assert len(aid.store.dataset("edges").tags.list()) == 1
    assert aid.verify() == []


def test_a_file_that_may_be_a_decision_about_to_be_written_stays_and_other_leftovers_go(indexed: FindingAid) -> None:
    aid = indexed
    leftovers = {}
    for table in ("decisions", "surfaces"):
        dataset = aid.store.dataset(table)
        [fragment] = write_fragments(_row(dataset), dataset)
        leftovers[table] = Path(aid.store.uri, f"{table}.lance", "data", fragment.files[0].path)

    aid.purge()

    assert {table: path.exists() for table, path in leftovers.items()} == {"decisions": True, "surfaces": False}


def _row(dataset: LanceDataset) -> pa.Table:
    """A row of a table, of the plainest values."""
    plain = {pa.string(): "x", pa.int64(): 1, pa.int32(): 1, pa.bool_(): True}
    row = {
        field.name: plain.get(field.type, datetime(2026, 1, 1, tzinfo=UTC) if pa.types.is_timestamp(field.type) else 1)
        for field in dataset.schema
    }
    return pa.Table.from_pylist([row], schema=dataset.schema)


def test_a_purge_after_a_rollback_is_refused_since_it_would_undo_it(
    make_aid: Callable[..., FindingAid], source: MemorySource
) -> None:
    aid = replace(make_aid(), retain=2)
    aid.index()
    source.payloads["added.md"] = text_about("added")
    aid.index()
    served = aid.rollback()

    with pytest.raises(StoreError, match="not purged: the newest records were rolled back"):
        aid.purge()

    assert aid.publisher.served() == served
    aid.publish()
    aid.purge()
    assert len(aid.versions()) == 1
