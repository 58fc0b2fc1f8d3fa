"""Environments and operations: replaced resources, environment variables, and the jobs beside `index`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

import findingaid
from findingaid.errors import ConfigError
from findingaid.testing import OpenAIServer, faults
from findingaid_dagster.assets import STORE_TAG
from findingaid_dagster.pipelines.code_location import build_definitions
from findingaid_dagster.resources import (
    EmbedderConfig,
    FindingAidResource,
    StoreConfig,
    SynthesizerConfig,
    in_dagster,
)
from tests.code_location.test_published import events
from tests.conftest import Cli, openai, text_about
from tests.support.location import DAGSTER_YAML, Location, files_of_dagster, open_location

SECRET = "sk-0123456789"


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    cli.settings["retain"] = 2
    yield from open_location(cli, monkeypatch, DAGSTER_YAML)


def test_a_run_uses_the_resource_that_a_test_gives_it(location: Location, tmp_path: Path) -> None:
    there = FindingAidResource(config_path=str(location.cli.config), store=StoreConfig(uri=str(tmp_path / "there")))
    job = location.definitions.resolve_job_def("index")

    assert job.execute_in_process(resources={"findingaid": there}, instance=location.instance).success

    assert len(findingaid.open(location.cli.config, {"store": str(tmp_path / "there")}).search("sentence", 50)) == 8
    assert not location.aid.store.exists()


def test_two_configurations_share_a_location_and_each_job_has_its_own_resource(cli: Cli, tmp_path: Path) -> None:
    cli.write("ledger.md", text_about("ledger"))
    cli.run("status")
    other = tmp_path / "other.yaml"
    other.write_text(cli.config.read_text().replace("docs:", "papers:", 1).replace("store: index", "store: other"))
    merged = dg.Definitions.merge(build_definitions(cli.config), build_definitions(other, name="other"))

    assert merged.resolve_job_def("other_index").execute_in_process().success

    assert findingaid.open(other).store.exists()
    assert not findingaid.open(cli.config).store.exists()
    assert merged.resolve_job_def("other_rollback_index")


def shown(definitions: dg.Definitions) -> str:
    """Everything that a code location tells about its resources."""
    resources = definitions.get_repository_def().get_top_level_resources()
    return str([resource.config_schema.default_value for resource in resources.values() if resource.config_schema])


def test_a_secret_comes_from_the_environment_of_the_run_and_is_not_shown(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.settings["synthesizer"] = {"kind": "openai", "model": "small", "base_url": "http://127.0.0.1:9/v1"}
    cli.run("status")
    monkeypatch.delenv("WRITER_KEY", raising=False)
    key = dg.EnvVar("WRITER_KEY")
    ways = [
        build_definitions(cli.config, synthesizer=SynthesizerConfig(api_key=key)),
        build_definitions(cli.config, {"synthesizer.api_key": key}),
        build_definitions(cli.config, {"synthesizer.api_key": {"env": "WRITER_KEY"}}),
        build_definitions(cli.config, {"synthesizer": {"kind": "openai", "model": "small", "api_key": key}}),
    ]
    resource = FindingAidResource(config_path=str(cli.config), synthesizer=SynthesizerConfig(api_key=key))

    with pytest.raises(ConfigError, match=r"synthesizer\.api_key: the environment variable WRITER_KEY is not set"):
        resource.settings()
    monkeypatch.setenv("WRITER_KEY", SECRET)

    headers = FindingAidResource(
        config_path=str(cli.config), synthesizer=SynthesizerConfig(default_headers={"X-Key": key})
    )

    nested = FindingAidResource(
        config_path=str(cli.config), overrides={"synthesizer": {"api_key": {"env": "WRITER_KEY"}, "prices": None}}
    )

    assert resource.settings() == {"synthesizer.api_key": SECRET}
    assert nested.settings() == {"synthesizer": {"api_key": SECRET, "prices": None}}
    assert headers.settings() == {"synthesizer.default_headers.X-Key": SECRET}
    for definitions in ways:
        assert "WRITER_KEY" in shown(definitions)
        assert SECRET not in shown(definitions)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [None, faults.unauthorized(SECRET)], ids=["accepted", "refused"])
def test_no_file_of_the_instance_or_the_store_has_the_key_of_an_endpoint(
    location: Location, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, fault: faults.Fault | None
) -> None:
    """Not even if the endpoint repeats the key in its errors."""
    monkeypatch.setenv("WRITER_KEY", SECRET)
    location.cli.settings["synthesizer"] = openai(server)
    location.cli.run("status")
    if fault:
        server.when(lambda _: True, fault)
    given = {"synthesizer.api_key": dg.EnvVar("WRITER_KEY")}
    job = build_definitions(location.cli.config, given).resolve_job_def("index")

    done = job.execute_in_process(instance=location.instance, raise_on_error=False)

    assert {request.headers["authorization"] for request in server.completions} == {f"Bearer {SECRET}"}
    assert done.success == (fault is None)
    assert [path for path in files_of_dagster(location.cli.folder) if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    "given",
    [
        {"overrides": {"synthesizer.api_key": SECRET}},
        {"overrides": {"synthesizer": {"kind": "openai", "model": "small", "api_key": SECRET}}},
        {"overrides": {"corpora.docs.source": {"kind": "files", "root": "docs", "storage_options": {"key": SECRET}}}},
        {"synthesizer": SynthesizerConfig(api_key=SECRET)},
        {"store": StoreConfig(storage_options={"aws_secret_access_key": SECRET})},
    ],
)
def test_a_secret_that_dagster_would_show_is_refused(cli: Cli, given: dict[str, object]) -> None:
    cli.run("status")

    with pytest.raises(ConfigError, match="Dagster shows what a resource is configured with") as raised:
        build_definitions(cli.config, **given)  # type: ignore[arg-type]

    assert SECRET not in str(raised.value)


def test_store_and_embedder_of_an_environment_replace_those_of_the_file(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cli.settings["embedder"] = {"kind": "sentence-transformers", "model": "all-MiniLM-L6-v2"}
    cli.run("status")
    with pytest.raises(ConfigError, match="store: the environment variable INDEX is not set"):
        build_definitions(cli.config, store=StoreConfig(uri=dg.EnvVar("INDEX")))
    monkeypatch.setenv("INDEX", str(tmp_path / "there"))

    definitions = build_definitions(
        cli.config, store=StoreConfig(uri=dg.EnvVar("INDEX")), embedder=EmbedderConfig(kind="hash", dim=64)
    )

    graph = definitions.resolve_asset_graph()
    assert graph.get(dg.AssetKey(["docs", "published"])).metadata["dagster/uri"] == str(tmp_path / "there")
    assert "64" in str(graph.get(dg.AssetKey(["docs", "embeddings"])).code_version)


def test_a_schedule_is_off_until_it_is_switched_on_unless_told_otherwise(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["schedule"] = {
        "cron": "0 3 * * *", "timezone": "Europe/Vienna", "default_status": "RUNNING",
    }  # fmt: skip
    cli.run("status")

    schedule = build_definitions(cli.config).resolve_schedule_def("docs_schedule")

    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 3 * * *", "Europe/Vienna")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING


def test_pool_and_tags_of_the_configuration_are_those_of_steps_and_runs(cli: Cli) -> None:
    cli.settings["dagster"] = {
        "pool": "models", "op_tags": {"dagster-k8s/config": {"a": 1}}, "run_tags": {"team": "search"},
    }  # fmt: skip
    cli.run("status")
    definitions = build_definitions(cli.config)
    job = definitions.resolve_job_def("index")
    batch = job.graph.node_named("batch").definition
    assert {batch.pool, "dagster-k8s/config" in batch.tags} == {"models", True}  # type: ignore[union-attr]
    # Those of assets and of "Execute" on a check, which loads the model and reads all records; observing does neither.
    ops = {op.name: op for op in definitions.resolve_implicit_global_asset_job_def().all_node_defs}
    for step in (ops["docs_index"], ops["docs_checks"]):
        assert {step.pool, "dagster-k8s/config" in step.tags} == {"models", True}  # type: ignore[attr-defined]
    for of, own in ((job, ["dagster/retry_strategy"]), (definitions.resolve_job_def("publish_index"), [])):
        # The UI and `dagster job launch` take these, schedules and sensors the others.
        assert (of.tags["team"], of.run_tags["team"]) == ("search", "search")
        assert of.tags.keys() == of.run_tags.keys() == {"team", STORE_TAG, *own}


def run(location: Location, job: str, **config: object) -> dg.ExecuteInProcessResult:
    given = {"ops": {job.removesuffix("_index"): {"config": config}}} if config else None
    return location.definitions.resolve_job_def(job).execute_in_process(
        run_config=given, instance=location.instance, raise_on_error=False
    )


def error_of(result: dg.ExecuteInProcessResult) -> str:
    """The error that the event of a failed run carries, which alerts read."""
    (event,) = [event for event in result.all_events if event.event_type_value == "PIPELINE_FAILURE"]
    return str(event.job_failure_data.error and event.job_failure_data.error.message)


def test_rollback_publish_verify_and_purge_are_jobs_and_what_moves_readers_is_told(location: Location) -> None:
    location.cli.configure()
    nothing = run(location, "rollback_index")
    location.begin()
    location.cli.write("ledger.md", text_about("another ledger"))
    location.index()

    back = run(location, "rollback_index")
    purged = run(location, "purge_index")
    forth = run(location, "publish_index")

    assert [r.success for r in (nothing, back, purged, forth)] == [False, True, False, True]
    assert error_of(nothing).endswith("yet: run `findingaid index`\n")
    assert "not purged: the newest records were rolled back" in error_of(purged)
    assert [(told["by"], told.get("changed")) for _, told in events(location)] == [
        ("published", 1), ("rolled back", 1), ("published", 1), ("published", 0),
    ]  # fmt: skip
    versions = [version for version, _ in events(location)]
    assert versions[0] == versions[2] != versions[1] == versions[3]
    assert run(location, "purge_index").success
    (location.cli.folder / "index" / "surfaces.lance").rename(location.cli.folder / "gone")
    broken = run(location, "verify_index")
    assert not broken.success
    assert "surfaces" in error_of(broken)


def test_a_rollback_by_the_command_line_is_told_by_a_sensor(location: Location) -> None:
    location.begin()
    location.cli.write("ledger.md", text_about("another ledger"))
    location.index()
    location.cli.write("ledger.md", text_about("a third ledger"))
    assert location.cli.run("index").exit_code == 0  # Dagster hears of it after the rollback
    location.cli.write("ledger.md", text_about("a fourth ledger"))
    assert location.cli.run("index").exit_code == 0
    assert location.cli.run("rollback").exit_code == 0
    sensor = location.definitions.resolve_sensor_def("published_elsewhere")
    resources = {"findingaid": FindingAidResource(config_path=str(location.cli.config))}

    with dg.build_sensor_context(location.instance, resources=resources) as context:
        found = sensor.evaluate_tick(context)
    for event in found.asset_events:
        location.instance.report_runless_asset_event(event)
    with dg.build_sensor_context(location.instance, resources=resources, cursor=found.cursor) as context:
        again = sensor.evaluate_tick(context)

    assert [told["by"] for _, told in events(location)] == ["rolled back", "published", "published"]
    assert found.skip_message == "docs/published: rolled back"
    assert (again.asset_events, again.skip_message) == ([], "readers see what Dagster knows")


def test_an_index_that_was_made_anew_is_told_though_its_version_has_the_same_number(location: Location) -> None:
    location.begin()
    served, (built,) = location.aid.publisher.served(), events(location)
    sensor = location.definitions.resolve_sensor_def("published_elsewhere")
    resources = {"findingaid": FindingAidResource(config_path=str(location.cli.config))}
    with dg.build_sensor_context(location.instance, resources=resources) as context:
        first = sensor.evaluate_tick(context)
    location.cli.write("ledger.md", text_about("another ledger"))
    shutil.rmtree(location.aid.store.uri)
    assert location.cli.run("index").exit_code == 0

    with dg.build_sensor_context(location.instance, resources=resources, cursor=first.cursor) as context:
        found = sensor.evaluate_tick(context)
    assert location.index().success

    assert location.aid.publisher.served() == served
    assert [len(tick.asset_events) for tick in (first, found)] == [0, 1]
    assert [version != built[0] for version, _ in events(location)] == [True, False]


def test_a_failed_run_says_that_the_rest_is_published_unless_a_rollback_holds(location: Location) -> None:
    location.begin()
    location.cli.write("bad.md", b"\x00binary")
    location.cli.write("ledger.md", text_about("another ledger"))
    published = location.index()
    location.aid.rollback()
    held = location.index()

    assert "everything else is published" in error_of(published)
    assert "everything else is published" not in error_of(held)
    assert "1 failed: docs: bad.md: " in error_of(held)


def test_the_error_of_a_failed_run_names_artifacts_and_reasons_and_the_option_of_the_job(location: Location) -> None:
    location.begin()
    location.cli.write("bad.md", b"\x00binary")
    failed = location.index()
    for path in location.cli.docs.iterdir():
        path.unlink()
    refused = location.index()
    unforced = location.index(stages=["synopses"])

    assert "everything else is published, but 1 failed: docs: bad.md: " in error_of(failed)
    assert "[artifacts: binary]" in error_of(failed)
    assert "run the job again with `allow_loss: true`" in error_of(refused)
    assert "--allow-loss" not in error_of(refused)
    assert "`allow_loss: true`" in in_dagster("or start without it by `findingaid index --allow-loss`")
    assert "stages: named to be redone: add `force: true`" in error_of(unforced)
