"""Inputs that a team gives the assets of a corpus: which versions of them events name, and what is stale by them."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dagster as dg
import pytest

from findingaid.indexing.release import ReleaseResult
from findingaid.indexing.run import Run
from tests.code_location.test_automation import look, store
from tests.conftest import Cli, text_about
from tests.paths import ROOT
from tests.support.location import STAGES, Location, dagster, open_location

RAW = dg.AssetKey(["raw", "pages"])
PUBLISHED = dg.AssetKey(["docs", "published"])
ARTIFACTS = dg.AssetKey(["docs", "artifacts"])
LOCATION = ROOT / "tests" / "support" / "upstream_location.py"
NAMES = ["ledger.md", "reader.md", "vector.md", "writer.md"]


class Team:
    """A team with raw pages, which are an input of one part of the corpus, or else of none."""

    def __init__(self, location: Location, patch: pytest.MonkeyPatch) -> None:
        self.location, self.patch, self.written = location, patch, 0

    def feed(self, part: str) -> None:
        """Make the pages an input of this part; of none if it is empty."""
        self.patch.setenv("FINDINGAID_PART", part)
        self.location.cli.configure()

    def definitions(self) -> dg.Definitions:
        module = importlib.import_module("tests.support.upstream_location")
        found: dg.Definitions = module.with_raw()
        return found

    def write_pages(self, partition: str | None = None) -> None:
        newer = dg.AssetMaterialization(
            RAW, partition=partition, tags={"dagster/data_version": str(self.location.instance.get_runs_count())}
        )
        self.location.instance.report_runless_asset_event(newer)

    def index_by_job(self, *arguments: str) -> None:
        """Run the job as from the command line, which knows the code location."""
        folder = self.location.cli.folder / f"part {os.environ['FINDINGAID_PART']}"
        folder.mkdir(exist_ok=True)
        sys.modules.pop(LOCATION.stem, None)  # and another folder, since Dagster keeps what it loads by the folder
        options = ("-d", str(folder), "-f", str(LOCATION), "-j", "index")
        result = dagster("job", "execute", *options, *arguments)
        assert result.exit_code == 0, result.output
        self.location.instance.event_log_storage.dispose()

    def index_by_assets(self) -> None:
        job = self.definitions().resolve_implicit_global_asset_job_def()
        assert job.execute_in_process(instance=self.location.instance, asset_selection=[PUBLISHED]).success

    def status(self, part: dg.AssetKey) -> set[str]:
        """How Dagster shows the partitions of an asset."""
        keys: Sequence[str | None] = [None] if part == PUBLISHED else NAMES
        definitions = self.definitions()
        return {self.location.staleness_of(part, key, definitions)[0] for key in keys}


@pytest.fixture
def team(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    cli.settings["retain"] = 3
    monkeypatch.setenv("FINDINGAID_PART", "")
    for location in open_location(cli, monkeypatch):
        yield Team(location, monkeypatch)


By = Callable[[Team], None]
WAYS = pytest.mark.parametrize("index", [Team.index_by_job, Team.index_by_assets], ids=["job", "assets"])


@WAYS
def test_partitions_are_stale_by_an_input_of_a_stage_until_a_run_over_the_corpus(team: Team, index: By) -> None:
    """Also if the run finds nothing to build."""
    team.location.begin()
    seen = []
    for change in (lambda: team.feed("artifacts"), team.write_pages, lambda: team.feed("")):
        change()
        seen.append(team.status(ARTIFACTS))
        index(team)
        seen.append(team.status(ARTIFACTS))

    assert seen == [{"STALE"}, {"FRESH"}, {"STALE"}, {"FRESH"}, {"STALE"}, {"FRESH"}]


@WAYS
def test_an_input_of_a_stage_that_changes_after_the_listing_leaves_its_partitions_stale(
    team: Team, index: By, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.feed("artifacts")
    begin, close = Run.begin, Run.close

    def closed_late(run: Run, corpora: Sequence[str]) -> ReleaseResult:
        team.write_pages()
        return close(run, corpora)

    monkeypatch.setattr(Run, "close", closed_late)
    index(team)
    late = team.status(ARTIFACTS)
    monkeypatch.setattr(Run, "close", close)
    monkeypatch.setattr(Run, "begin", lambda *found, **options: (team.write_pages(), begin(*found, **options))[1])
    team.location.cli.write("ledger.md", text_about("another ledger"))
    index(team)

    assert (late, team.status(ARTIFACTS)) == ({"STALE"}, {"STALE"})


@WAYS
def test_an_input_with_the_partitions_of_the_corpus_makes_only_those_stale_that_it_has_anew(
    team: Team, index: By, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINDINGAID_PARTITIONED", "1")
    team.location.begin()
    team.feed("artifacts")
    for name in NAMES[1:]:
        team.write_pages(name)
    index(team)
    fresh = team.status(ARTIFACTS)

    team.write_pages(NAMES[0])
    found = {name: team.location.staleness_of(ARTIFACTS, name, team.definitions())[0] for name in NAMES}
    before = team.location.events()
    index(team)

    assert fresh == team.status(ARTIFACTS) == {"FRESH"}
    assert found == {name: "STALE" if name == NAMES[0] else "FRESH" for name in NAMES}
    told = team.location.events() - before
    assert {name: told["artifacts", name] for name in NAMES} == {name: int(name == NAMES[0]) for name in NAMES}


def test_a_run_of_some_artifacts_leaves_the_others_stale(team: Team) -> None:
    team.location.begin()
    team.feed("artifacts")
    team.index_by_job()
    team.write_pages()
    team.location.cli.write("ledger.md", text_about("another ledger"))

    config = team.location.cli.folder / "some.yaml"
    config.write_text("ops: {discover: {config: {artifacts: [ledger.md]}}}")
    team.index_by_job("-c", str(config))

    found = {name: team.location.staleness_of(ARTIFACTS, name, team.definitions())[0] for name in NAMES}
    assert found == {name: "FRESH" if name == "ledger.md" else "STALE" for name in NAMES}


def test_published_records_are_fresh_without_an_input_that_was_taken_away(team: Team) -> None:
    team.location.begin()
    team.feed("published")
    team.index_by_job()
    before = team.status(PUBLISHED)

    team.feed("")
    team.index_by_job()

    assert (before, team.status(PUBLISHED)) == ({"FRESH"}, {"FRESH"})


def index_some(team: Team) -> None:
    assert team.location.index(artifacts=["ledger.md"]).success


def materialize_some(team: Team) -> None:
    assert team.location.materialize(STAGES, "ledger.md").success


def index_elsewhere(team: Team) -> None:
    assert team.location.cli.run("index").exit_code == 0
    store(team.location, look(team.location, sensor="published_elsewhere"))


@pytest.mark.parametrize("publish", [index_some, materialize_some, index_elsewhere])
def test_what_lists_no_whole_source_leaves_published_records_stale(team: Team, publish: By) -> None:
    team.location.cli.settings["corpora"]["docs"]["deps"] = ["raw/pages"]
    team.write_pages()
    team.location.begin()
    before = team.status(PUBLISHED)
    team.write_pages()
    team.location.cli.write("ledger.md", text_about("another ledger"))

    publish(team)

    records = team.location.instance.fetch_materializations(PUBLISHED, limit=9).records
    assert (before, len(records), team.status(PUBLISHED)) == ({"FRESH"}, 2, {"STALE"})
    assert team.location.index().success
    assert team.status(PUBLISHED) == {"FRESH"}


@pytest.mark.parametrize("part", ["published", "artifacts"])
def test_a_run_that_ends_after_one_that_listed_the_source_later_leaves_all_fresh(
    team: Team, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    team.feed(part)
    team.write_pages()
    begin, others = Run.begin, [team.index_by_assets]

    def begin_late(*of: Any, **options: Any) -> Any:
        if others:
            other = others.pop()
            team.write_pages()
            other()
        return begin(*of, **options)

    monkeypatch.setattr(Run, "begin", begin_late)
    team.index_by_assets()

    assert team.status(dg.AssetKey(["docs", part])) == {"FRESH"}


def test_a_rollback_brings_back_the_inputs_of_the_records_that_it_brings_back(team: Team) -> None:
    team.location.cli.settings["corpora"]["docs"]["deps"] = ["raw/pages"]
    team.write_pages()
    team.location.begin()
    team.write_pages()
    team.location.cli.write("ledger.md", text_about("another ledger"))
    seen = []
    for job in ("index", "rollback_index", "publish_index"):
        run = team.location.definitions.resolve_job_def(job)
        assert run.execute_in_process(instance=team.location.instance).success
        seen.append(team.status(PUBLISHED))

    assert seen == [{"FRESH"}, {"STALE"}, {"FRESH"}]
