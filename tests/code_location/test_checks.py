"""Checks and metadata that Dagster shows of a corpus, and the options of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from findingaid.indexing.checks import CHECKS, QUALITY
from findingaid.model import Stage
from findingaid.store import Ledger, schemas
from findingaid.testing import OpenAIServer, faults
from tests.conftest import PLAIN, Cli, openai, text_about
from tests.support.location import STAGES, Location, open_location


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    yield from open_location(cli, monkeypatch)


def evaluations(location: Location, name: str) -> list[dg.AssetCheckEvaluation]:
    """Return the logged evaluations of a check, newest first."""
    (check,) = (check for check in (*CHECKS, QUALITY) if check.name == name)
    key = dg.AssetCheckKey(dg.AssetKey(["docs", check.stage]), name)
    history = location.instance.event_log_storage.get_asset_check_execution_history(key, limit=10)
    return [e.event.dagster_event.event_specific_data for e in history if e.event and e.event.dagster_event]


def latest_metadata(location: Location, stage: str, partition: str) -> dict[str, Any]:
    """The metadata of the last materialization of one partition."""
    records = location.instance.fetch_materializations(
        dg.AssetRecordsFilter(dg.AssetKey(["docs", stage]), asset_partitions=[partition]), limit=1
    ).records
    return {name: entry.value for name, entry in records[0].asset_materialization.metadata.items()}


def test_a_long_batch_says_how_far_it_is_and_how_long_it_will_take(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("findingaid.indexing.progress.EVERY", 0)
    with OpenAIServer() as server:
        location.cli.settings["synthesizer"] = openai(server, concurrency=1)
        run = location.index()

    assert run.success
    lines = [entry.user_message for entry in location.instance.all_logs(run.run_id)]
    (half,) = [line for line in lines if "synopses 2 of 4" in line]
    assert re.fullmatch(
        r"docs: artifacts 0 of 4, embeddings \d of \d, synopses 2 of 4; [\d,.]+ synopses/s, about \d+ \w+ left.*",
        half,
    )


def newest_files(location: Location) -> dict[str, int]:
    """table -> the newest of its data files."""
    store = location.aid.store
    return {
        table: max(fragment.fragment_id for fragment in store.dataset(table).get_fragments())
        for table in ("records", "calls", "embeddings")
    }


def test_every_run_logs_every_check_once_over_its_changes_and_a_check_alone_looks_at_everything(
    location: Location, capfd: pytest.CaptureFixture[str]
) -> None:
    location.index()

    assert "docs: part 1 of 1: 4 artifacts: ledger.md, reader.md, vector.md, writer.md" in capfd.readouterr().err
    assert {check.name: [e.passed for e in evaluations(location, check.name)] for check in CHECKS} == {
        check.name: [True] for check in CHECKS
    }
    for check, picture in (("failures", "age"), ("no_orphans", "length"), ("synopses_written", "outcomes")):
        assert "](data:image/png;base64," in evaluations(location, check)[0].metadata[picture].value
    location.index()
    assert len(evaluations(location, "finds_itself")) == 1

    location.cli.write("ledger.md", text_about("changed"))
    assert location.materialize(STAGES, "ledger.md").success
    assert [e.passed for e in evaluations(location, "vectors_sound")] == [True, True]
    assert evaluations(location, "vectors_sound")[0].metadata["vectors checked"].value == 1 + 1  # the synopsis has one

    assert execute(location, dg.AssetCheckKey(dg.AssetKey(["docs", Stage.EMBEDDINGS]), "vectors_sound")).success
    checked = evaluations(location, "vectors_sound")[0].metadata["vectors checked"].value
    assert checked == Ledger(location.aid.store).rows_of("docs", "records")


def execute(location: Location, check: dg.AssetCheckKey) -> dg.ExecuteInProcessResult:
    """Execute one check alone, as the UI does."""
    job = dg.define_asset_job("execute", dg.AssetSelection.checks(check))
    definitions = dg.Definitions.merge(location.definitions, dg.Definitions(jobs=[job]))
    return definitions.resolve_job_def("execute").execute_in_process(instance=location.instance)


def test_a_failed_check_leaves_readers_what_they_had_and_says_why(location: Location) -> None:
    location.begin()
    before = location.aid.versions()
    for topic in ("ledger", "vector", "reader"):
        location.cli.write(f"{topic}.md", b"\x00binary")

    result = location.index()

    assert not result.success
    assert location.aid.versions() == before
    newest = evaluations(location, "failures")[0]
    assert (newest.passed, newest.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert newest.metadata["failed: binary"].value == 3
    assert {row.data["artifact"] for row in newest.metadata["failed artifacts"].records} == {
        "ledger.md", "reader.md", "vector.md",
    }  # fmt: skip


def test_a_materialization_that_cannot_be_published_fails(location: Location) -> None:
    location.begin()
    location.cli.settings["corpora"]["docs"]["max_failures"] = 0.0
    before = location.aid.versions()
    location.cli.write("ledger.md", b"\x00binary")

    result = location.materialize(STAGES, "ledger.md")

    assert not result.success
    assert location.aid.versions() == before
    [failure] = [e.step_failure_data.user_failure_data for e in result.all_events if e.is_step_failure]
    assert str(failure.description).startswith("2 failed: ")  # the artifact and the publish


def test_force_does_a_partition_again_and_pays_only_when_asked(location: Location) -> None:
    location.begin()
    paid = {"calls", "embeddings"}

    for told, rebuilt in (({"force": True}, set()), ({"force": True, "pay_again": True}, paid)):
        before, events = newest_files(location), location.events()
        assert location.materialize(STAGES, "ledger.md", config=told).success
        after = newest_files(location)
        assert {table for table in before if after[table] != before[table]} == {"records"} | rebuilt
        assert location.events() - events == {(stage.value, "ledger.md"): 1 for stage in PLAIN}
    assert location.all_fresh()


def test_a_partition_shows_what_is_in_it_without_its_words(location: Location) -> None:
    """And the columns of its records with the fields of the corpus."""
    location.begin()

    shown = {stage.value: latest_metadata(location, stage.value, "ledger.md") for stage in PLAIN}

    surfaces = shown["surfaces"]["preview"]
    assert shown["artifacts"] == {"bytes": len(text_about("ledger"))}
    assert shown["surfaces"]["dagster/partition_row_count"] == 1
    assert shown["synopses"]["outcome"] == "ok"
    assert surfaces == f"chunk of {len(text_about('ledger').strip())} characters"
    assert shown["synopses"].keys() == {"outcome", "written by", "characters"}
    assert shown["embeddings"] == {"texts": 2}
    assert shown["records"]["dagster/partition_row_count"] == 2
    assert "preview" not in shown["records"]  # the surfaces and synopses show them already

    event = location.instance.get_latest_materialization_event(dg.AssetKey(["docs", Stage.RECORDS]))
    assert event is not None
    assert event.asset_materialization is not None
    columns = event.asset_materialization.metadata["dagster/column_schema"].value.columns
    fields = {column.name: column.type for column in columns}
    assert list(fields)[: len(schemas.RECORD_COLUMNS)] == schemas.records(1).names
    assert all(column.description for column in columns)
    assert "The ledger is described here" not in str(shown)


def test_a_floor_of_quality_is_a_check_with_a_picture_also_executed_alone(location: Location) -> None:
    cases = location.cli.folder / "cases.yaml"
    cases.write_text("- {query: the ledger, expected: docs/ledger.md}\n- {query: nothing, expected: docs/gone.md}\n")
    location.cli.settings["corpora"]["docs"]["quality"] = {"cases": "cases.yaml", "metric": "recall@10", "floor": 0.5}

    assert location.index().success

    (found,) = evaluations(location, "quality")
    assert (found.passed, found.metadata["Recall@10"].value, found.metadata["cases"].value) == (True, 0.5, 2)
    assert "](data:image/png;base64," in found.metadata["quality"].value
    cases.write_text("- {query: the ledger, expected: docs/ledger.md}\n")
    location.cli.settings["corpora"]["docs"]["quality"] = {"cases": "cases.yaml", "metric": "mrr", "floor": 0}
    assert execute(location, dg.AssetCheckKey(dg.AssetKey(["docs", Stage.RECORDS]), "quality")).success
    newest = evaluations(location, "quality")[0]
    assert (newest.passed, newest.metadata["MRR"].value, newest.metadata["cases"].value) == (True, 1.0, 1)


def test_a_run_below_the_floor_fails_and_publishes_nothing(location: Location) -> None:
    location.begin()
    before = location.aid.versions()
    (location.cli.folder / "cases.yaml").write_text("- {query: the ledger, expected: docs/gone.md}\n")
    location.cli.settings["corpora"]["docs"]["quality"] = {"cases": "cases.yaml", "floor": 0.5}
    location.cli.write("ledger.md", text_about("changed"))

    assert not location.index().success

    assert location.aid.versions() == before
    newest = evaluations(location, "quality")[0]
    assert (newest.passed, newest.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "nDCG@10 is 0.000" in str(newest.description)


def test_assets_say_whose_they_are_and_what_is_in_their_columns(location: Location) -> None:
    location.cli.settings["corpora"]["docs"] |= {
        "owners": ["team:search", "ada@example.org"], "group": "knowledge", "tags": {"tier": "gold"},
    }  # fmt: skip

    spec = location.definitions.resolve_asset_graph().get(dg.AssetKey(["docs", Stage.RECORDS]))

    assert (spec.owners, spec.group_name, spec.tags["tier"]) == (
        ["team:search", "ada@example.org"],
        "knowledge",
        "gold",
    )
    columns = spec.metadata["dagster/column_schema"].columns
    assert [column.name for column in columns] == schemas.records(1).names
    assert all(column.description for column in columns)


@pytest.mark.parametrize(("key", "value"), [("owners", ["nobody"]), ("group", "a b"), ("tags", {"a b": "c"})])
def test_what_dagster_does_not_take_is_named_by_its_key(cli: Cli, key: str, value: object) -> None:
    cli.settings["corpora"]["docs"][key] = value

    result = cli.run("status")

    assert result.exit_code == 1
    assert f"corpora.docs.{key}" in result.stderr


def test_materializing_from_a_source_that_is_gone_says_so(location: Location) -> None:
    location.begin()
    location.cli.docs.rename(location.cli.folder / "elsewhere")

    result = location.materialize(STAGES, "ledger.md")

    failures = [e.step_failure_data.user_failure_data for e in result.all_events if e.is_step_failure]
    assert failures[0].description.startswith("docs: source.root:")


def run_table(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """Return the report of the last step of the job on the corpus, after success or failure."""
    told: list[dict[str, Any]] = []
    for event in result.all_events:
        if event.is_successful_output and event.step_key == "finish":
            told.append(dict(event.step_output_data.metadata))
        if event.is_step_failure:
            told.append(dict(event.step_failure_data.user_failure_data.metadata))
    (row,) = told[-1]["corpora"].records
    return dict(row.data)


def last_observations(location: Location) -> dict[str | None, dict[str, Any]]:
    """Map each partition to the latest observation of its synopsis."""
    records = location.instance.fetch_observations(dg.AssetKey(["docs", Stage.SYNOPSES]), limit=100).records
    return {
        r.partition_key: {name: value.value for name, value in r.asset_observation.metadata.items()}
        for r in reversed(records)
        if r.asset_observation
    }


def test_what_synopses_took_and_why_one_is_pending_is_told_by_the_run_the_check_and_the_partition(
    location: Location, server: OpenAIServer, capfd: pytest.CaptureFixture[str]
) -> None:
    location.cli.settings |= {
        "synthesizer": openai(server), "prices": {"small": {"input": 1e6, "output": 1e6}}, "budget": {"calls": 3},
    }  # fmt: skip

    result = location.index()

    assert result.success
    row = run_table(result)
    (usage,) = location.aid.status()[0].usage
    assert {name: row[name] for name in ("synopses written", "synopses pending", "synthesizer calls")} == {
        "synopses written": 3, "synopses pending": 1, "synthesizer calls": 3,
    }  # fmt: skip
    assert (row["tokens in"], row["tokens out"], row["cost"]) == (
        usage.usage.input_tokens,
        usage.usage.output_tokens,
        usage.cost,
    )
    why = "the budget of this run is spent"
    assert f"WARNING - index - {location.instance.get_runs()[0].run_id} - finish - docs: 1 synopses" in (
        told := capfd.readouterr().err
    )
    assert why in told
    check = evaluations(location, "synopses_written")[0]
    facts = {name: value.value for name, value in check.metadata.items() if name != "outcomes"}
    assert check.passed
    assert facts == {"ok": 3, "pending": 1, f"pending: {why}": 1}
    assert "](data:image/png;base64," in check.metadata["outcomes"].value
    (seen,) = last_observations(location).values()
    assert seen == {"outcome": "pending", "reason": why}

    capfd.readouterr()
    location.cli.settings["budget"] = {"calls": 0}
    assert location.materialize(STAGES, *last_observations(location)).success
    assert f"docs: 1 synopses are left to the next run: {why}" in capfd.readouterr().err


def test_why_a_synopsis_failed_is_at_its_partition_until_it_comes(location: Location, server: OpenAIServer) -> None:
    location.cli.settings["synthesizer"] = openai(server)
    server.when(lambda request: b"ledger" in request.body, faults.refusal())

    failed = location.index()

    assert not failed.success
    assert (run_table(failed)["failed"], run_table(failed)["synthesizer calls"]) == (1, 4)
    assert last_observations(location) == {
        "ledger.md": {
            "outcome": "failed",
            "kind": "refused",
            "reason": "run `findingaid status --failed` for the reason",
        }
    }
    assert {key for (stage, key), (status, _) in location.staleness().items() if status != "FRESH"} == {"ledger.md"}
    server.recover()
    assert location.index().success
    assert latest_metadata(location, "synopses", "ledger.md")["outcome"] == "ok"
    assert len(last_observations(location)) == 1
    assert location.all_fresh()
