"""Readers have a published version; it can be taken back, and comes forward again with what is written next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from findingaid import FindingAid, StoreError
from findingaid.testing import MemorySource
from tests.conftest import Cli, text_about


@pytest.fixture
def aid(make_aid: Callable[..., FindingAid], source: MemorySource) -> FindingAid:
    """An index with two published versions, the second with an artifact more."""
    aid = replace(make_aid(), retain=2)
    aid.index()
    source.payloads["added.md"] = text_about("added")
    aid.index()
    return aid


def served(aid: FindingAid) -> set[str]:
    return {hit.artifact_id for hit in aid.search("sentence", 50)}


def test_a_rollback_serves_the_version_before_whole(aid: FindingAid) -> None:
    before = aid.rollback()

    assert served(aid) == {"ledger.md", "reader.md", "vector.md"}
    assert [(v.version, v.served) for v in aid.versions()][1] == (before, True)
    assert aid.verify() == []


def test_a_run_that_changes_nothing_leaves_a_rollback_alone(aid: FindingAid) -> None:
    aid.rollback()

    assert aid.index().ok

    assert "added.md" not in served(aid)


def test_what_is_indexed_next_is_published_again(aid: FindingAid, source: MemorySource) -> None:
    aid.rollback()
    source.payloads["more.md"] = text_about("more")

    aid.index()

    assert {"added.md", "more.md"} < served(aid)


def test_publish_ends_a_rollback(aid: FindingAid) -> None:
    newest = aid.versions()[0].version
    aid.rollback()

    assert aid.publish() == newest
    assert "added.md" in served(aid)


def test_only_so_many_versions_are_kept(aid: FindingAid, source: MemorySource) -> None:
    for i in range(4):
        source.payloads[f"{i}.md"] = text_about(str(i))
        aid.index()

    assert len(aid.versions()) == 2
    assert len(aid.store.dataset("records").versions()) == 2


def test_a_version_that_is_not_kept_is_named_with_those_that_are(aid: FindingAid) -> None:
    first = aid.versions()[1].version

    with pytest.raises(StoreError, match=f"version 99 of the records is not kept. Kept: {first}"):
        aid.rollback(99)


def test_with_one_version_kept_there_is_nothing_to_go_back_to(make_aid: Callable[..., FindingAid]) -> None:
    make_aid().index()

    with pytest.raises(StoreError, match="Set `retain` to 2 or more"):
        make_aid().rollback()


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
    aid.prepare()
    ready = threading.Barrier(8)

    def publish(_: int) -> int:
        ready.wait()
        return aid.publisher.publish()

    with ThreadPoolExecutor(8) as pool:
        published = set(pool.map(publish, range(8)))

    assert published == {aid.publisher.served()}
