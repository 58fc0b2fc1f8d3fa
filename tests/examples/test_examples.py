"""The examples work, and other teams' code locations can include our definitions."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

import findingaid
from findingaid_dagster import FindingAidComponent, build_definitions
from tests.conftest import PLAIN, Cli, text_about
from tests.paths import ROOT

EXAMPLES = ROOT / "examples"
STAGES = [stage.value for stage in PLAIN]
NOT_RUN = ("pip install", "dg dev")


def follow(example: str, folder: Path) -> str:
    """Run the commands of an example's README in a copy of it, but for those that install or serve."""
    shutil.copytree(EXAMPLES / example, folder, ignore=shutil.ignore_patterns(".dagster", ".findingaid"))
    (block,) = re.findall(r"```bash\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    commands = [line for line in block.splitlines() if not line.startswith(NOT_RUN)]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(commands)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_team_has_the_index_among_its_own_definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = follow("code_location", tmp_path / "team")

    assert "borrowing.md" in shown
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "team" / ".dagster"))
    with dg.DagsterInstance.get() as instance:
        (record,) = instance.fetch_materializations(dg.AssetKey("frequent_questions"), limit=10).records
        assert record.asset_materialization
        answers = str(record.asset_materialization.metadata["answers"].value)
        assert len(instance.get_dynamic_partitions("handbook")) == 3
    assert [line.split("**")[1] for line in answers.splitlines() if "**" in line] == [
        "borrowing.md",
        "opening.md",
        "repairs.md",
    ]


@pytest.mark.slow
def test_a_project_has_the_index_as_a_component(tmp_path: Path) -> None:
    shown = follow("component", tmp_path / "project")

    assert "soup.md" in shown
    aid = findingaid.open(tmp_path / "project" / "kitchen" / "defs" / "recipes" / "findingaid.yaml")
    assert aid.verify() == []
    assert aid.store.uri == str(tmp_path / "project" / ".findingaid" / "index")
    scaffolded = findingaid.open(tmp_path / "project" / "kitchen" / "defs" / "library" / "findingaid.yaml")
    assert [hit.artifact_id for hit in scaffolded.search("documents")] == ["README.md"]
    assert scaffolded.store.uri == str(tmp_path / "project" / ".findingaid" / "library")


def test_the_component_is_registered_where_dg_looks() -> None:
    registered = importlib.metadata.entry_points(group="dagster_dg_cli.registry_modules")

    assert "findingaid_dagster" in {entry.value for entry in registered}


@pytest.fixture
def second(tmp_path: Path) -> Cli:
    """Another configuration, with another corpus."""
    folder = tmp_path / "second"
    folder.mkdir()
    second = Cli(folder)
    second.settings["corpora"] = {"notes": {**second.settings["corpora"]["docs"], "schedule": "0 4 * * *"}}
    second.write("note.md", text_about("note"))
    second.configure()
    return second


@pytest.fixture
def first(cli: Cli) -> Cli:
    cli.settings["corpora"]["docs"]["schedule"] = "0 3 * * *"
    cli.write("ledger.md", text_about("ledger"))
    cli.configure()
    return cli


def both(first: Cli, second: Cli) -> dg.Definitions:
    component = FindingAidComponent.from_attributes_dict(
        attributes={"config": str(second.config), "name": "second", "overrides": {"store": "elsewhere"}}
    )
    return dg.Definitions.merge(
        build_definitions(first.config), component.build_defs(dg.ComponentTree.for_test().load_context)
    )


def test_two_configurations_live_in_one_code_location(first: Cli, second: Cli) -> None:
    definitions = both(first, second)

    repository = definitions.get_repository_def()
    assert {job.name for job in repository.get_all_jobs()} >= {"index", "second_index"}
    assert {schedule.name: schedule.job_name for schedule in repository.schedule_defs} == {
        "docs_schedule": "index",
        "notes_schedule": "second_index",
    }
    assert {sensor.name for sensor in repository.sensor_defs} == {
        "changed_sources",
        "observe_sources",
        "published_elsewhere",
        "second_changed_sources",
        "second_observe_sources",
        "second_published_elsewhere",
        "default_automation_condition_sensor",
    }
    assert set(definitions.resources or {}) == {"findingaid", "findingaid_steps", "second", "second_steps"}
    dg.Definitions.validate_loadable(definitions)


def test_the_second_of_two_configurations_is_indexed_by_its_own_job_and_assets(
    first: Cli, second: Cli, tmp_path: Path
) -> None:
    definitions = both(first, second)
    elsewhere = findingaid.open(second.config, {"store": "elsewhere"})

    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        assert definitions.resolve_job_def("second_index").execute_in_process(instance=instance).success
        assert [hit.artifact_id for hit in elsewhere.search("note")] == ["note.md"]
        second.write("note.md", text_about("another"))
        instance.add_dynamic_partitions("notes", ["note.md"])
        everything = definitions.resolve_implicit_global_asset_job_def()
        assets = [dg.AssetKey(["notes", stage]) for stage in STAGES]
        assert everything.execute_in_process(instance=instance, asset_selection=assets, partition_key="note.md").success

    assert "another" in elsewhere.search("another")[0].text
    assert not list(tmp_path.glob("index/*.lance"))


def test_two_configurations_without_a_name_are_refused_by_what_clashes(first: Cli, second: Cli) -> None:
    with pytest.raises(dg.DagsterInvariantViolationError, match="different resources with same key 'findingaid'"):
        dg.Definitions.merge(build_definitions(first.config), build_definitions(second.config))


def test_a_configuration_may_have_the_name_of_its_corpus(first: Cli) -> None:
    dg.Definitions.validate_loadable(build_definitions(first.config, name="docs"))


def test_the_same_corpus_in_two_configurations_is_refused_by_its_assets(first: Cli) -> None:
    merged = dg.Definitions.merge(build_definitions(first.config), build_definitions(first.config, name="again"))

    with pytest.raises(dg.DagsterInvalidDefinitionError, match="docs"):
        dg.Definitions.validate_loadable(merged)


def test_a_component_says_in_one_line_what_is_wrong_with_its_configuration(tmp_path: Path) -> None:
    component = FindingAidComponent.from_attributes_dict(attributes={"config": str(tmp_path / "nowhere.yaml")})

    with pytest.raises(findingaid.ConfigError, match=r"no configuration at .*nowhere.yaml"):
        component.build_defs(dg.ComponentTree.for_test().load_context)
