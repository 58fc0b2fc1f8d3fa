"""Claims and summary nodes as assets: only for corpora that request them, and as fresh as the ledger says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from findingaid.claims.model import claim_id
from findingaid.model import Stage
from findingaid_dagster.internals.events import logged_data_versions
from tests.conftest import PLAIN, Cli, text_about
from tests.support.location import Location, open_location

EVERY = [stage.value for stage in Stage]
KEYS = ["ledger.md", "reader.md", "vector.md", "writer.md"]


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    cli.settings["corpora"]["docs"] |= {"claims": True, "summary_nodes": {"at_least": 1}}
    yield from open_location(cli, monkeypatch)


def staleness(
    location: Location, stages: Sequence[str] = EVERY, keys: Sequence[str] = KEYS
) -> dict[tuple[str, str], str]:
    """(stage, partition) -> status by Dagster's own resolver, of those that are not fresh."""
    graph = location.definitions.resolve_asset_graph()
    resolver = CachingStaleStatusResolver(location.instance, graph, LoadingContextForTest(location.instance))
    found = {
        (stage, key): resolver.get_status(dg.AssetKey(["docs", stage]), key).value for stage in stages for key in keys
    }
    return {place: status for place, status in found.items() if status != "FRESH"}


def test_a_corpus_has_the_assets_that_it_asks_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for location in open_location(cli, monkeypatch):
        for claims, nodes, expected in (
            (False, False, set(PLAIN)),
            (True, False, {*PLAIN, Stage.CLAIMS}),
            (True, True, set(Stage)),
        ):
            cli.settings["corpora"]["docs"] |= {"claims": claims, "summary_nodes": nodes}
            graph = location.definitions.resolve_asset_graph()

            stages = {key.path[1] for key in graph.materializable_asset_keys}

            assert stages == {*expected, "published"}
            records = {key.path[1] for key in graph.get(dg.AssetKey(["docs", "records"])).parent_keys}
            assert records == expected - {Stage.ARTIFACTS, Stage.RECORDS}


def test_every_partition_is_logged_once_with_its_own_version(location: Location) -> None:
    location.begin()
    assert location.index().success

    rows = location.aid.indexer("docs").ledger.rows("docs")
    for stage in Stage:
        asset = dg.AssetKey(["docs", stage.value])
        assert logged_data_versions(location.instance, asset) == {key: rows[key].version(stage) for key in KEYS}
        assert len(location.instance.fetch_materializations(asset, limit=100).records) == 4
    assert staleness(location) == {}


@pytest.mark.parametrize("previews", [False, True])
def test_a_partition_shows_its_claims_and_the_summary_over_them(location: Location, previews: bool) -> None:
    """Their words only where that is set."""
    if previews:
        location.cli.settings["dagster"] = {"previews": True}
    location.begin()

    shown = {}
    for stage in ("claims", "summary_nodes"):
        asset = dg.AssetKey(["docs", stage])
        (record, *_) = location.instance.fetch_materializations(
            dg.AssetRecordsFilter(asset, asset_partitions=["ledger.md"]), limit=1
        ).records
        event = record.asset_materialization
        assert event is not None
        shown[stage] = event.metadata

    (row,) = shown["claims"]["preview"].value.records
    assert (shown["claims"]["outcome"].value, shown["claims"]["refused"].value) == ("ok", 0)
    if previews:
        assert str(row.data["text"]).startswith("The ledger is described")
        assert "The ledger is described" in str(shown["summary_nodes"]["summary"].value)
    else:
        stated = location.aid.claims.list(artifact="ledger.md")
        assert row.data == {"claim_id": stated[0].claim_id, "evidence": "verified", "confidence": 1.0}
        assert {name: value.value for name, value in shown["summary_nodes"].items()} == {"outcome": "ok", "points": 1}


def test_an_edit_makes_its_own_partition_stale_and_another_extractor_all_claims(location: Location) -> None:
    location.begin()
    location.cli.write("ledger.md", text_about("ledger", "something new"))
    location.index()
    logged = location.instance.fetch_materializations(dg.AssetKey(["docs", "claims"]), limit=100).records
    location.cli.settings["corpora"]["docs"]["claims"] = {"shortest": 30}

    stale = staleness(location, ["surfaces", "claims", "summary_nodes", "records"])

    assert Counter(record.partition_key for record in logged) == {
        "ledger.md": 2, "reader.md": 1, "vector.md": 1, "writer.md": 1,
    }  # fmt: skip
    assert stale == {("claims", key): "STALE" for key in KEYS}


def test_the_first_stages_can_be_done_alone_are_no_fault_and_the_others_wait_for_them(location: Location) -> None:
    location.begin()
    location.cli.write("ledger.md", text_about("changed", "and more"))

    assert location.materialize(["artifacts", "surfaces", "synopses"], "ledger.md").success
    assert [str(result) for result in location.aid.check() if not result.passed] == []
    assert "artifacts not finished by the last run: docs/ledger.md" in location.aid.verify()[0]

    early = location.materialize(["embeddings", "records"], "ledger.md")
    (failure,) = [e.step_failure_data.user_failure_data for e in early.all_events if e.is_step_failure]
    assert "its claims are not current: materialize docs/claims first" in failure.description

    assert location.materialize(["claims", "summary_nodes", "embeddings", "records"], "ledger.md").success
    assert location.aid.verify() == []
    assert location.aid.status()[0].pending == 0
    assert staleness(location) == {}


def test_what_people_decide_makes_only_what_stands_on_it_new(location: Location) -> None:
    location.begin()
    text = text_about("ledger").split("\n\n")[1].strip()
    events = len(location.instance.fetch_materializations(dg.AssetKey(["docs", "claims"]), limit=100).records)
    location.aid.claims.archive(claim_id("docs", text), actor="ada", reason="out of date")

    assert location.index().success

    nodes = location.instance.fetch_materializations(dg.AssetKey(["docs", "summary_nodes"]), limit=100).records
    claims = location.instance.fetch_materializations(dg.AssetKey(["docs", "claims"]), limit=100).records
    assert (len(claims), len(nodes), nodes[0].partition_key) == (events, 5, "ledger.md")
    assert staleness(location) == {}
