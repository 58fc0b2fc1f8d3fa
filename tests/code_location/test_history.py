"""History of artifacts that are gone: `findingaid dagster prune` and the job remove it, and nothing else."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import dagster as dg
import pytest

from findingaid_dagster.internals import history
from tests.conftest import Cli, error_of
from tests.support.location import STAGES, Location, open_location

GONE = ("vector.md", "writer.md")


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    yield from open_location(cli, monkeypatch)


def delete_two(location: Location) -> None:
    """Index four artifacts, then delete two of them at the source and index again."""
    location.begin()
    for key in GONE:
        (location.cli.docs / key).unlink()
    assert location.index(allow_loss=True).success


def rows_about(location: Location, keys: tuple[str, ...]) -> Counter[str]:
    """Count the rows about these partitions in every database of the instance, by table."""
    found: Counter[str] = Counter()
    for path in Path(location.instance.root_directory).rglob("*.db"):
        connection = sqlite3.connect(path)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "event_logs" in tables:
            marks = ", ".join("?" * len(keys))
            count = f"SELECT count(*) FROM event_logs WHERE partition IN ({marks})"
            found["events"] += connection.execute(count, keys).fetchone()[0]
            lost = "SELECT count(*) FROM asset_event_tags WHERE event_id NOT IN (SELECT id FROM event_logs)"
            found["tags"] += connection.execute(lost).fetchone()[0]
        connection.close()
    return found


def disk_use(location: Location) -> int:
    """Return the bytes of all databases of the instance, with their journals."""
    return sum(
        path.stat().st_size for path in Path(location.instance.root_directory).rglob("*.db*") if "-shm" not in path.name
    )


def test_prune_removes_every_event_of_deleted_artifacts_and_no_other(location: Location) -> None:
    delete_two(location)
    gone, kept = rows_about(location, GONE), rows_about(location, ("ledger.md", "reader.md"))

    before = disk_use(location)
    done = location.cli.json("dagster", "prune")
    freed = before - disk_use(location)
    again = location.cli.json("dagster", "prune")

    logged = len(STAGES) + 2  # each stage, the source, and the plan of the records
    assert gone["events"] == 2 * 2 * logged  # in the run and in the index
    assert {name: done[name] for name in ("partitions", "events")} == {"partitions": 2, "events": gone["events"]}
    assert done["bytes"] == freed > 0
    assert again == {"partitions": 0, "events": 0, "bytes": 0}
    assert rows_about(location, GONE) == Counter()
    assert rows_about(location, ("ledger.md", "reader.md")) == kept
    assert location.events() == {(stage, key): 1 for stage in STAGES for key in ("ledger.md", "reader.md")}
    for stage in STAGES:  # of which that of writer.md was logged last
        latest = location.instance.get_latest_materialization_event(dg.AssetKey(["docs", stage]))
        assert latest is not None
        assert latest.get_dagster_event().partition == "reader.md"
    assert location.all_fresh()
    assert location.index().success
    assert location.events() == {(stage, key): 1 for stage in STAGES for key in ("ledger.md", "reader.md")}


def test_a_prune_that_was_killed_before_its_last_commit_is_completed_by_the_next(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_two(location)

    with monkeypatch.context() as patch:
        patch.setattr(history, "_renew_latest", Mock(side_effect=KeyboardInterrupt))
        location.cli.run("dagster", "prune")
    left = rows_about(location, GONE)
    location.cli.run("dagster", "prune")

    assert left["events"]
    assert rows_about(location, GONE) == Counter()


def test_prune_leaves_new_and_failed_artifacts_alone(location: Location) -> None:
    location.begin()
    location.cli.write("bad.md", b"\x00binary")
    assert not location.index().success

    assert location.cli.json("dagster", "prune")["partitions"] == 0


def test_the_job_prunes_and_shows_the_counts(location: Location) -> None:
    delete_two(location)
    job = location.definitions.resolve_job_def("prune_history")

    assert job.execute_in_process(instance=location.instance).success

    assert rows_about(location, GONE) == Counter()


def test_prune_without_an_instance_fails_in_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    cli.write("a.md", "text")

    assert (
        error_of(cli.run("dagster", "prune")) == "DAGSTER_HOME is not set: set it to the folder of the Dagster instance"
    )
