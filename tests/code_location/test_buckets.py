"""Hash buckets as partitions: staleness, materializations, and the conversion from and to a partition per artifact."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from findingaid_dagster.assets import Keys, artifact_id_of, keys_of, partition_key, select_artifacts
from findingaid_dagster.internals.events import logged_data_versions
from findingaid_dagster.pipelines.schedules import _to_backfill
from tests.code_location.test_automation import Ticks, look
from tests.conftest import Cli, error_of, text_about
from tests.support.location import STAGES, Location, open_location

TOPICS = ("ledger", "vector", "reader", "writer")
BUCKETS = 4


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    """A corpus of twelve artifacts in at most four buckets."""
    divide(cli, by="bucket", buckets=BUCKETS)
    for number in range(8):
        cli.write(f"note{number}.md", text_about(f"note {number}"))
    yield from open_location(cli, monkeypatch)


def divide(cli: Cli, **partitions: object) -> None:
    cli.settings["corpora"]["docs"]["partitions"] = partitions


def keys(location: Location) -> list[str]:
    return sorted(location.instance.get_dynamic_partitions("docs"))


def key_of(artifact_id: str) -> str:
    return Keys(BUCKETS).key_of(artifact_id)


def stale(location: Location) -> set[str]:
    """Return the partitions that Dagster's resolver shows as anything but fresh at any stage."""
    return {key for (_, key), (status, _) in location.staleness().items() if status != "FRESH"}


def metadata(location: Location, stage: str, key: str) -> dict[str, object]:
    wanted = dg.AssetRecordsFilter(dg.AssetKey(["docs", stage]), asset_partitions=[key])
    (record,) = location.instance.fetch_materializations(wanted, limit=1).records
    assert record.asset_materialization
    return {name: found.value for name, found in record.asset_materialization.metadata.items()}


# -- keys --------------------------------------------------------------------------------------------------


def test_a_bucket_is_the_first_bits_of_the_hash_of_an_id() -> None:
    names = [f"{number}.md" for number in range(4000)]

    found = Keys(16).group(names)

    assert list(found) == [f"bucket-{number:02}-of-16" for number in range(16)]
    assert sorted(name for of in found.values() for name in of) == sorted(names)
    assert {min(len(of) for of in found.values()) > 150, max(len(of) for of in found.values()) < 350} == {True}
    halves = Keys(8).group(names)
    assert set(halves["bucket-0-of-8"]) == {*found["bucket-00-of-16"], *found["bucket-01-of-16"]}
    assert {keys_of(key) for key in found} == {Keys(16)}


def test_an_artifact_with_the_name_of_a_bucket_is_no_bucket() -> None:
    key = partition_key("bucket-1-of-4")

    assert keys_of(key) == Keys()
    assert artifact_id_of(key) == "bucket-1-of-4"
    assert select_artifacts([key], ["bucket-1-of-4", "other"]) == ["bucket-1-of-4"]


def test_artifacts_are_selected_by_keys_of_either_kind() -> None:
    names = [f"{number}.md" for number in range(40)]
    bucket = Keys(4).key_of("7.md")

    found = select_artifacts([bucket, "1%25.md"], [*names, "1%.md"])

    assert set(found) == {name for name in names if Keys(4).key_of(name) == bucket} | {"1%.md"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"buckets": 0}, "corpora.docs.partitions.buckets"),
        ({"buckets": 100_000}, "corpora.docs.partitions.buckets"),
        ({"by": "size"}, "corpora.docs.partitions.by"),
        ({"limit": -1}, "corpora.docs.partitions.limit"),
        ({"size": 3}, "corpora.docs.partitions.size"),
    ],
)
def test_wrong_settings_are_named(cli: Cli, given: dict[str, object], said: str) -> None:
    divide(cli, **given)

    assert said in error_of(cli.run("status"))


# -- runs and staleness ------------------------------------------------------------------------------------


@pytest.mark.dagster_versions
def test_a_bucket_is_logged_once_and_stale_exactly_if_one_of_its_artifacts_is(location: Location) -> None:
    location.begin()
    assert keys(location) == sorted({key_of(i) for i in location.aid.indexer("docs").ledger.rows("docs")})
    assert location.index().success
    assert set(location.events().values()) == {1}
    assert location.all_fresh()
    location.cli.write("note3.md", text_about("another note"))

    location.observe()

    assert stale(location) == {key_of("note3.md")}
    assert location.index().success
    assert location.all_fresh()
    logged = Counter(key for (_, key), times in location.events().items() if times == 2)
    assert logged == {key_of("note3.md"): len(STAGES)}


def indexed(location: Location) -> set[str]:
    return set(location.aid.indexer("docs").ledger.rows("docs"))


def test_a_new_and_a_deleted_artifact_make_their_bucket_stale_and_an_empty_bucket_is_removed(
    location: Location,
) -> None:
    location.begin()
    chosen, emptied = key_of("note5.md"), key_of("note4.md")
    assert chosen != emptied
    added = next(name for name in (f"added{n}.md" for n in range(100)) if key_of(name) == chosen)
    for name in indexed(location):
        if key_of(name) == emptied or name == "note5.md":
            (location.cli.docs / name).unlink()
    location.cli.write(added, text_about("more"))

    location.observe()
    assert stale(location) == {chosen}

    for key in (chosen, emptied):
        assert location.materialize(STAGES, key).success
    assert location.all_fresh()
    assert (added in indexed(location), "note5.md" in indexed(location)) == (True, False)
    assert emptied not in keys(location)
    location.cli.write("note4.md", text_about("back"))
    location.observe()
    assert emptied in stale(location)


def test_a_materialized_bucket_builds_only_what_is_stale_in_it(location: Location) -> None:
    location.begin()
    changed = key_of("note1.md")
    others = [i for i in indexed(location) if key_of(i) != changed]
    location.cli.write("note1.md", text_about("note 1 again"))
    location.cli.write(others[0], text_about("not selected"))
    before = location.aid.indexer("docs").ledger.rows("docs")

    assert location.materialize(STAGES, changed).success

    after = location.aid.indexer("docs").ledger.rows("docs")
    assert {i for i in after if after[i].updated != before[i].updated} == {"note1.md"}


def test_the_tag_of_a_bucket_limits_the_index_job_to_it_and_a_range_is_one_run(location: Location) -> None:
    location.begin()
    for name in sorted(indexed(location)):
        location.cli.write(name, text_about(f"another {name}"))
    chosen = key_of("note2.md")

    assert location.index(tags={"dagster/partition": chosen}).success
    location.observe()
    assert stale(location) == set(keys(location)) - {chosen}

    assert location.materialize(STAGES, keys(location)[0], keys(location)[-1]).success
    assert location.all_fresh()


# -- failures ----------------------------------------------------------------------------------------------


@pytest.mark.dagster_versions
def test_a_failed_artifact_is_named_in_its_bucket_which_stays_stale(location: Location) -> None:
    location.cli.write("note6.md", b"\x00binary")
    location.cli.settings["corpora"]["docs"]["source"]["unreadable"] = "fail"

    assert not location.index().success

    failing = key_of("note6.md")
    assert stale(location) == {failing}
    for stage in STAGES:
        told = metadata(location, stage, failing)
        (row,) = told["failed artifacts"].records  # type: ignore[attr-defined]
        assert (told["failed"], row.data["artifact"]) == (1, "note6.md")
    others = [key for key in keys(location) if key != failing]
    assert {metadata(location, "records", key)["failed"] for key in others} == {0}
    location.cli.write("note6.md", text_about("mended"))
    assert location.index().success
    assert location.all_fresh()
    assert metadata(location, "records", failing)["failed"] == 0


def test_a_bucket_of_failed_artifacts_alone_shows_as_failed_until_one_is_built(location: Location) -> None:
    divide(location.cli, by="bucket", buckets=64)
    location.cli.settings["corpora"]["docs"]["source"]["unreadable"] = "fail"
    location.begin()
    alone = Keys(64).key_of("note6.md")
    assert metadata(location, "records", alone)["artifacts"] == 1
    location.cli.write("note6.md", b"\x00binary")

    for run in (location.index, location.materialize_published):
        assert not run().success
        assert location.failed() == {(stage, alone) for stage in STAGES}

    location.cli.write("note6.md", text_about("mended"))
    assert location.index().success
    assert location.failed() == set()
    assert location.all_fresh()


def test_the_metadata_of_a_bucket_is_bounded_and_has_no_text_without_previews(location: Location) -> None:
    divide(location.cli, by="bucket", buckets=1)
    for number in range(40):
        location.cli.write(f"{'long ' * 40}{number}.md", text_about(f"secret{number}"))
    location.cli.write("last.md", text_about("secret"))
    location.index()

    (key,) = keys(location)
    found = {stage: metadata(location, stage, key) for stage in STAGES}

    assert (key, found["records"]["artifacts"]) == ("bucket-0-of-1", 53)
    assert found["artifacts"]["bytes"] == sum(p.stat().st_size for p in (location.cli.folder / "docs").iterdir())
    assert str(found["artifacts"]["changed last"]).count(".md") <= 10
    told_of_artifacts = [{k: v for k, v in told.items() if not k.startswith("dagster/")} for told in found.values()]
    assert max(len(str(told)) for told in told_of_artifacts) < 3000
    assert "secret" not in str(found)


# -- automation --------------------------------------------------------------------------------------------


def test_a_failure_seen_by_the_sensor_is_requested_once_for_its_bucket(location: Location) -> None:
    location.begin()
    ticks = Ticks(location)
    assert ticks.quiet()
    chosen = key_of("note3.md")
    location.cli.write("note3.md", b"\x00binary")

    (event,) = look(location).asset_events
    location.instance.report_runless_asset_event(event)

    assert event.partition == chosen
    assert ticks.tick() == {chosen}
    assert not location.materialize(STAGES, chosen).success
    assert ticks.quiet()
    assert look(location).asset_events == []

    assert stale(location) == {chosen}
    assert "note3.md" in indexed(location)


def test_a_backfill_is_of_the_buckets_with_what_is_stale_new_deleted_and_no_known_failure(
    location: Location,
) -> None:
    divide(location.cli, by="bucket", buckets=64)
    location.cli.write("bad.md", b"\x00binary")
    location.settle()
    location.index()
    assert to_backfill(location) == []

    location.cli.write("note1.md", text_about("another note"))
    location.cli.write("added.md", text_about("one more"))
    (location.cli.folder / "docs" / "note7.md").unlink()

    assert to_backfill(location) == buckets_of("note1.md", "added.md", "note7.md")


def to_backfill(location: Location) -> list[str]:
    return sorted(_to_backfill(location.instance, location.aid, "docs"))


def buckets_of(*names: str) -> list[str]:
    return sorted({Keys(64).key_of(name) for name in names})


# -- conversion --------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, str]:
    """Map each file of the tables to a hash, but for the leases and the runs."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for table in ("ledger", "records", "surfaces", "vectors")
        for path in (folder / f"{table}.lance").rglob("*")
        if path.is_file()
    }


@pytest.mark.dagster_versions
def test_a_corpus_is_divided_anew_at_its_limit_and_back_without_a_write(
    location: Location, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also for another number of buckets, and after the history of single artifacts was pruned."""
    divide(location.cli, limit=12)
    location.begin()
    assert keys(location) == sorted(map(partition_key, indexed(location)))
    before = contents(location.cli.folder / "index")
    assert before

    for buckets in (BUCKETS, 2):
        divide(location.cli, limit=11, buckets=buckets)
        assert location.index().success
        assert contents(location.cli.folder / "index") == before
        assert keys(location) == sorted(set(map(Keys(buckets).key_of, indexed(location))))
        assert location.all_fresh()
    assert "12 artifacts: 4 hash buckets from now on, a partition per artifact before" in capfd.readouterr().err

    assert "partitions" in location.cli.run("dagster", "prune").stdout
    assert {key for _, key in location.events()} == set(keys(location))
    assert location.all_fresh()

    divide(location.cli, limit=12)
    assert location.index().success
    assert contents(location.cli.folder / "index") == before
    assert keys(location) == sorted(map(partition_key, indexed(location)))
    assert location.all_fresh()
    assert "12 artifacts: a partition per artifact from now on, 2 hash buckets before" in capfd.readouterr().err


def test_a_cold_run_above_the_limit_never_logs_single_artifacts(location: Location) -> None:
    divide(location.cli, limit=3, buckets=BUCKETS)

    assert location.index().success

    asset = dg.AssetKey(["docs", "artifacts"])
    assert {keys_of(key) for key in logged_data_versions(location.instance, asset)} == {Keys(BUCKETS)}
