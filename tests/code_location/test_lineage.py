"""Corpora in a team's catalogue: keys, upstream assets, owners, columns and translations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml

from findingaid.errors import ConfigError
from findingaid.model import Stage
from findingaid_dagster import FindingAidComponent
from findingaid_dagster.assets import AssetData
from findingaid_dagster.pipelines.code_location import build_definitions
from tests.conftest import Cli, text_about
from tests.support.location import STAGES, Location, open_location

RAW = dg.AssetKey(["raw", "handbook"])


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    yield from open_location(cli, monkeypatch)


def key(part: str, *prefix: str) -> dg.AssetKey:
    return dg.AssetKey([*prefix, "docs", part])


@dg.asset(key=RAW)
def handbook() -> None:
    """Files that the corpus indexes."""


def test_the_source_depends_on_the_assets_that_the_configuration_names(location: Location) -> None:
    location.cli.settings["corpora"]["docs"] |= {
        "deps": ["raw/handbook"], "owners": ["team:search"], "group": "knowledge", "tags": {"tier": "gold"},
    }  # fmt: skip

    merged = dg.Definitions.merge(location.definitions, dg.Definitions(assets=[handbook]))
    spec = merged.resolve_asset_graph().get(key("source"))

    assert spec.parent_keys == {RAW}
    assert (spec.owners, spec.group_name, spec.tags["tier"]) == (["team:search"], "knowledge", "gold")
    assert location.index().success
    assert location.all_fresh()


@pytest.mark.dagster_versions
def test_a_dep_that_a_team_adds_to_an_asset_leaves_its_partitions_fresh(location: Location) -> None:
    def add(spec: dg.AssetSpec) -> dg.AssetSpec:
        return spec.merge_attributes(deps=[RAW]) if spec.key == key("artifacts") else spec

    merged = dg.Definitions.merge(location.definitions, dg.Definitions(assets=[handbook])).map_asset_specs(func=add)
    location.instance.add_dynamic_partitions("docs", ["ledger.md"])
    job = merged.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=location.instance, asset_selection=[RAW]).success

    assert job.execute_in_process(
        instance=location.instance,
        asset_selection=[key(stage) for stage in STAGES],
        tags={"dagster/partition": "ledger.md"},
    ).success

    assert location.staleness_of(key("artifacts"), "ledger.md", merged) == ("FRESH", ())


def test_a_key_prefix_comes_before_every_asset_of_a_corpus(location: Location) -> None:
    location.cli.settings["dagster"] = {"key_prefix": ["search"]}

    assert location.index().success

    keys = location.definitions.resolve_asset_graph().get_all_asset_keys()
    assert keys == {key(part, "search") for part in (*STAGES, "source", "published")}
    logged = location.instance.fetch_materializations(key("records", "search"), limit=10).records
    assert len(logged) == 4
    for part in STAGES:
        assert location.staleness_of(key(part, "search"), "ledger.md") == ("FRESH", ())
    assert location.staleness_of(key("published", "search")) == ("FRESH", ())


def test_tables_say_where_they_are_and_which_columns_theirs_come_from(location: Location) -> None:
    graph = location.definitions.resolve_asset_graph()
    records, published = graph.get(key("records")).metadata, graph.get(key("published")).metadata

    assert (records["dagster/uri"], records["dagster/table_name"]) == (location.aid.store.uri, "records")
    columns = records["dagster/column_lineage"].deps_by_column
    assert columns["text"] == [
        dg.TableColumnDep(key("surfaces"), "text"),
        dg.TableColumnDep(key("synopses"), "text"),
    ]
    assert published["dagster/column_lineage"].deps_by_column["text"] == [dg.TableColumnDep(key("records"), "text")]


def test_columns_come_from_every_input_of_a_table(cli: Cli) -> None:
    cli.settings["corpora"]["docs"] |= {"synopsis": True, "claims": True, "summary_nodes": {"at_least": 1}}
    cli.run("status")
    graph = build_definitions(cli.config).resolve_asset_graph()

    for part in (*Stage, "published"):
        asset = graph.get(key(part))
        lineage = asset.metadata["dagster/column_lineage"].deps_by_column
        assert {dep.asset_key for deps in lineage.values() for dep in deps} == asset.parent_keys
        assert lineage.keys() <= {column.name for column in asset.metadata["dagster/column_schema"].columns}


def test_a_translation_changes_what_a_team_decides_and_nothing_else(cli: Cli) -> None:
    cli.run("status")

    def translate(spec: dg.AssetSpec, data: AssetData) -> dg.AssetSpec:
        spec = spec.replace_attributes(group_name=f"{data.corpus}_search", description=f"Ours: {data.part}.")
        return spec.replace_attributes(automation_condition=None) if data.part == "records" else spec

    graph = build_definitions(cli.config, translation=translate).resolve_asset_graph()

    assert {graph.get(key(part)).group_name for part in (*STAGES, "source", "published")} == {"docs_search"}
    assert graph.get(key("source")).description == "Ours: source."
    assert graph.get(key("records")).automation_condition is None
    assert graph.get(key("artifacts")).automation_condition is not None
    with pytest.raises(ConfigError, match=r"docs/source: the key cannot be changed: set dagster\.key_prefix"):
        build_definitions(cli.config, translation=lambda spec, _: spec.replace_attributes(key="other"))


@pytest.mark.dagster_versions
def test_the_component_translates_by_attributes(cli: Cli, tmp_path: Path) -> None:
    from dagster.components.testing import create_defs_folder_sandbox

    cli.write("ledger.md", text_about("ledger"))
    cli.run("status")
    attributes = {
        "config": str(cli.config),
        "translation": {"group_name": "{{ corpus }}_search", "tags": {"part": "{{ part }}"}},
    }
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=FindingAidComponent,
            defs_path="index",
            defs_yaml_contents={
                "type": "findingaid_dagster.FindingAidComponent",
                "attributes": yaml.safe_load(yaml.safe_dump(attributes)),
            },
        )
        with sandbox.load_component_and_build_defs(defs_path=path) as (_, definitions):
            spec = definitions.resolve_asset_graph().get(key("records"))

    assert (spec.group_name, spec.tags["part"]) == ("docs_search", "records")
