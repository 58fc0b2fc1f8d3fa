"""Readers see a published version; a rollback restores an older one until the next publish."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from findingaid import FindingAid, StoreError
from findingaid.edges import LinkEdges
from findingaid.embedding.hashing import HashEmbedder
from findingaid.indexing.options import BuildOptions
from findingaid.indexing.release import Release
from findingaid.model import Vectors
from findingaid.store import Publisher, Store, repair, upkeep
from findingaid.testing import CountingEmbedder, MemorySource
from tests.conftest import Cli, ReadyMade, text_about
from tests.support.programs import run_program


@pytest.fixture
def aid(make_aid: Callable[..., FindingAid], source: MemorySource, ready_made: ReadyMade) -> FindingAid:
    """An index with two published versions, the second with an artifact more."""
    aid = replace(make_aid(), retain=2)
    added = {"added.md": text_about("added")}

    def build() -> None:
        aid.index()
        source.payloads |= added
        aid.index()

    ready_made("two versions", build)
    source.payloads |= added
    return aid


def served(aid: FindingAid) -> set[str]:
    return {hit.artifact_id for hit in aid.search("sentence", 50)}


def test_a_rollback_serves_the_version_before_whole(aid: FindingAid) -> None:
    before = aid.rollback()

    assert served(aid) == {"ledger.md", "reader.md", "vector.md"}
    assert [(v.version, v.served) for v in aid.versions()][1] == (before, True)
    assert aid.verify() == []


def test_the_status_says_that_readers_do_not_have_the_newest_records(aid: FindingAid, source: MemorySource) -> None:
    assert aid.status()[0].unpublished == ""
    before = aid.rollback()
    assert aid.status()[0].unpublished.startswith(f"rolled back to version {before}:")

    source.payloads["more.md"] = text_about("more")
    aid.index()
    assert aid.status()[0].unpublished == ""

    strict = replace(aid, corpora={"docs": replace(aid.corpora["docs"], max_failures=0)})
    now = Publisher(aid.store).served()
    source.payloads |= {"bad.md": b"\0", "late.md": text_about("late")}
    for _ in range(2):
        assert strict.index().unpublished
        assert aid.status()[0].unpublished.startswith(f"readers have version {now}, what was indexed since")
    assert "late.md" not in served(aid)

    assert aid.index().unpublished is None
    assert aid.status()[0].unpublished == ""


def test_a_run_that_changes_nothing_leaves_a_rollback_alone(aid: FindingAid) -> None:
    aid.rollback()

    report = aid.index()

    assert report.ok
    assert report.held
    assert "added.md" not in served(aid)
    aid.publish()
    assert not aid.index().held


def test_what_is_indexed_next_is_published_again(aid: FindingAid, source: MemorySource) -> None:
    aid.rollback()
    source.payloads["more.md"] = text_about("more")

    aid.index()

    assert {"added.md", "more.md"} < served(aid)


def test_a_search_of_a_version_of_another_embedder_names_what_ends_the_rollback(aid: FindingAid) -> None:
    """`findingaid index` finds nothing to do."""
    other = replace(aid, embedder=HashEmbedder(8))
    other.index()
    other.rollback()

    with pytest.raises(StoreError, match="run `findingaid publish` to end the rollback, set `embedder` back"):
        other.search("sentence")
    other.publish()
    assert "added.md" in served(other)


def test_publish_ends_a_rollback(aid: FindingAid) -> None:
    newest = aid.versions()[0].version
    aid.rollback()

    assert aid.publish() == newest
    assert "added.md" in served(aid)


def test_only_so_many_versions_are_kept(aid: FindingAid, source: MemorySource) -> None:
    for i in range(2):
        source.payloads[f"{i}.md"] = text_about(str(i))
        aid.index()

    assert len(aid.versions()) == 2
    assert len(aid.store.dataset("records").versions()) == 2


def test_a_version_that_is_not_kept_is_named_with_those_that_are(aid: FindingAid) -> None:
    first = aid.versions()[1].version

    with pytest.raises(StoreError, match=f"version 99 of the records is not kept. Kept: {first}"):
        aid.rollback(99)


def test_with_one_version_kept_there_is_nothing_to_go_back_to(indexed: FindingAid) -> None:
    with pytest.raises(StoreError, match="Set `retain` to 2 or more"):
        indexed.rollback()


def test_the_commands_do_the_same(cli: Cli) -> None:
    cli.settings["retain"] = 3
    cli.write("a.md", text_about("first"))
    cli.run("index")
    cli.write("b.md", text_about("second"))
    cli.run("index")

    newest, before = cli.json("versions")

    assert (newest["served"], before["served"], newest["records"], before["records"]) == (True, False, 2, 1)
    assert cli.json("rollback", str(before["version"])) == {"served": before["version"]}
    assert len(cli.json("search", "sentence")) == 1
    assert cli.json("publish") == {"served": newest["version"]}
    assert cli.run("rollback", "99").exit_code == 1


def test_runs_that_publish_at_the_same_time_all_succeed(make_aid: Callable[..., FindingAid]) -> None:
    aid = make_aid()
    aid.open_run().prepare()
    ready = threading.Barrier(8)

    def publish(_: int) -> int:
        ready.wait()
        return aid.publisher.publish()

    with ThreadPoolExecutor(8) as pool:
        published = set(pool.map(publish, range(8)))

    assert published == {aid.publisher.served()}


def test_tags_are_read_while_another_run_removes_some(aid: FindingAid) -> None:
    done = threading.Event()

    def remove() -> None:
        table = aid.store.dataset("records")
        while not done.is_set():
            table.tags.create("published-0", table.version)
            table.tags.delete("published-0")

    with ThreadPoolExecutor(1) as pool:
        removing = pool.submit(remove)
        try:
            for _ in range(300):
                assert aid.publisher.served() == aid.searcher.reader().records.version
        finally:
            done.set()
        removing.result()


def test_tables_are_opened_counted_and_listed_while_another_run_drops_their_versions(aid: FindingAid) -> None:
    """Lance looks up a version before it reads its files; on the way the maintenance of another run drops it."""
    done = threading.Event()
    served = [version for version in aid.versions() if version.served]

    def commit_and_drop() -> None:
        for _ in range(60):
            aid.store.dataset("records").update({"text": "text"})  # a version that nobody published
            upkeep.drop_old_versions(aid.store)
        done.set()

    with ThreadPoolExecutor(1) as pool:
        dropping = pool.submit(commit_and_drop)
        while not done.is_set() and not dropping.done():
            assert [version for version in aid.versions() if version.served] == served
            assert aid.store.count("records", "text <> ''") == served[0].records
            assert aid.store.exists()
        dropping.result()


# -- other runs between the checks and the publishing ------------------------------------------------------


def meanwhile(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Have something done once, after the checks of the next run and before it publishes."""
    publish = Release._publish

    def late(release: Release, *arguments: Any) -> Any:
        monkeypatch.setattr(Release, "_publish", publish)
        do()
        return publish(release, *arguments)

    monkeypatch.setattr(Release, "_publish", late)


def test_records_that_another_run_empties_after_the_checks_are_not_published(
    aid: FindingAid, source: MemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, version = served(aid), aid.publisher.served()
    source.payloads["more.md"] = text_about("more")
    meanwhile(monkeypatch, lambda: repair.prepare(Store(aid.store.uri), 8))

    report = aid.index()

    assert "for vectors of 8 dimensions" in str(report.unpublished)
    assert (served(aid), aid.publisher.served()) == (before, version)
    assert aid.index().ok
    assert served(aid) == {*before, "more.md"}


def test_records_that_are_deleted_after_the_checks_are_not_published(
    aid: FindingAid, source: MemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.payloads["more.md"] = text_about("more")
    meanwhile(monkeypatch, lambda: aid.store.dataset("records").delete("artifact_id = 'ledger.md'"))

    report = aid.index()

    assert "do not have the number of records" in str(report.unpublished) or "not rebuilt yet" in str(
        report.unpublished
    )
    assert "ledger.md" in served(aid)
    assert aid.index().ok
    assert {"ledger.md", "more.md"} < served(aid)


def test_the_version_that_was_checked_is_published_whatever_is_written_after_it(
    aid: FindingAid, source: MemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records are emptied after they were compared with the checked version, just before the tag moves."""
    source.payloads["more.md"] = text_about("more")
    publish = Publisher.publish

    def late(publisher: Publisher, *versions: Any) -> int:
        monkeypatch.setattr(Publisher, "publish", publish)
        repair.prepare(Store(aid.store.uri), 8)
        return publish(publisher, *versions)

    monkeypatch.setattr(Publisher, "publish", late)

    assert aid.index().ok

    assert {"added.md", "more.md", "ledger.md"} < served(aid)


def test_a_run_that_publishes_late_leaves_a_later_version_and_its_edges_alone(
    make_aid: Callable[..., FindingAid], source: MemorySource
) -> None:
    aid = replace(make_aid(edges=LinkEdges()), retain=2)
    aid.index()
    source.payloads["added.md"] = f"{text_about('added')}\n\n[Ledger](ledger.md)"
    aid.index()
    early, latest = aid.versions()[1].version, aid.versions()[0].version
    tables = {**aid.store.newest_tables(), "records": aid.store.dataset("records", early)}
    edges = aid.store.beside(aid.store.published(), "edges").version
    assert edges > 1

    assert aid.publisher.publish(tables) == latest

    assert aid.publisher.served() == latest
    assert aid.store.beside(aid.store.published(), "edges").version == edges


# -- two embedders at once ---------------------------------------------------------------------------------


class Slow(CountingEmbedder):
    """Waits in the middle of its work until it is let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.begun.set()
        assert self.go_on.wait(60)
        return super().embed(texts)


@pytest.mark.parametrize("dim", [8, HashEmbedder().dim])
def test_the_second_of_two_embedders_at_once_gets_one_clear_error(
    make_aid: Callable[..., FindingAid], dim: int
) -> None:
    make_aid().index()
    slow = Slow()
    first = make_aid(embedder=slow, source=MemorySource({"new.md": text_about("new")}), max_loss=1.0)
    second = make_aid(embedder=CountingEmbedder(HashEmbedder(dim), "other"))

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(first.index)
        assert slow.begun.wait(60)
        try:
            with pytest.raises(StoreError, match=r"writes to .*index with counting.*and this run has other"):
                second.index()
        finally:
            slow.go_on.set()
        report = running.result()

    assert report.ok
    assert served(first) == {"new.md"}
    assert second.index().ok, "which nothing keeps out any more"


def test_rows_for_a_table_that_was_made_anew_for_others_are_refused_in_one_line(aid: FindingAid) -> None:
    repair.prepare(Store(aid.store.uri), 8)

    with pytest.raises(StoreError, match=r"table records of .* was rebuilt by another run, with another embedder"):
        aid.indexer("docs").build(aid.open_run().plan("docs", force=True).stale, BuildOptions(force=True))


@pytest.mark.parametrize(
    ("step", "after"), [pytest.param("hold", False, marks=pytest.mark.slow), ("_serve", False), ("_serve", True)]
)
def test_a_rollback_killed_at_any_step_is_made_or_not_made_and_no_idle_run_changes_that(
    tmp_path: Path, ready_made: ReadyMade, step: str, after: bool
) -> None:
    cli = Cli(tmp_path)
    cli.settings["retain"] = 3

    def build() -> None:
        cli.write("a.md", text_about("good"))
        cli.run("index")
        cli.write("a.md", text_about("bad"))
        cli.run("index")

    ready_made("good and bad", build)
    cli.write("a.md", text_about("bad"))
    cli.run("index")
    published = [version["version"] for version in cli.json("versions")]
    code = KILLED_ROLLBACK.format(config=str(cli.config), step=step, after=after)

    killed = run_program(code)
    read = cli.json("search", "sentence")[0]["text"]
    cli.run("index")

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert cli.json("search", "sentence")[0]["text"] == read
    assert ("good" in read) == ((step, after) == ("_serve", True))
    assert [version["version"] for version in cli.json("versions")] == published
    assert cli.json("verify")["ok"]
    cli.write("a.md", text_about("better"))
    cli.run("index")
    assert "better" in cli.json("search", "sentence")[0]["text"]


KILLED_ROLLBACK = """
import os, signal
import findingaid
from findingaid.store import Publisher

method = Publisher.{step}

def dying(*arguments):
    if {after}:
        method(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

Publisher.{step} = dying
findingaid.open({config!r}).rollback()
"""


@pytest.mark.parametrize("when", ["before the checks", "after the checks"])
def test_a_rollback_beside_the_end_of_a_run_stands(aid: FindingAid, source: MemorySource, when: str) -> None:
    """The run has written its last word when readers are sent back, and must not send them forward again."""
    source.payloads["more.md"] = text_about("more")
    other = replace(aid)
    back = []

    def roll_back() -> None:
        other.publish()  # the rows of the run were checked and failed
        back.append(other.rollback())

    with pytest.MonkeyPatch.context() as patch:
        if when == "before the checks":
            patch.setattr(upkeep, "compact", lambda _: roll_back())
        else:
            publish = Release._publish
            patch.setattr(Release, "_publish", lambda *arguments: (roll_back(), publish(*arguments))[1])
        aid.index()

    assert aid.publisher.served() == back[0]
    assert "more.md" not in served(aid)
    aid.index()
    assert "more.md" not in served(aid)
    source.payloads["next.md"] = text_about("next")
    aid.index()
    assert {"more.md", "next.md"} < served(aid)
