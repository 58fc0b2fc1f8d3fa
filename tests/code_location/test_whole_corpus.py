"""The published records of a corpus, materialized alone: the whole corpus is indexed between a team's assets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

import dagster as dg
import pytest

from findingaid.indexing.release import ReleaseResult
from findingaid.indexing.run import Run
from findingaid_dagster.assets import FAILED_TAG
from tests.code_location.test_automation import corpora_of, look
from tests.conftest import Cli, text_about
from tests.paths import ROOT
from tests.support.location import SETTLED, STAGES, Location, open_location

RAW = dg.AssetKey(["raw", "pages"])
PUBLISHED = dg.AssetKey(["docs", "published"])
DIGEST = dg.AssetKey("digest")


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    cli.settings["retain"] = 2
    cli.settings["corpora"]["docs"]["deps"] = ["raw/pages"]
    yield from open_location(cli, monkeypatch)


def names_in(location: Location) -> list[str]:
    """Names of the artifacts that readers find."""
    return sorted({hit.artifact_id for hit in location.aid.search("sentence", 50)})


class Team:
    """A team's job: raw pages, the corpus, and a digest of what readers find. `pages` are written by each run."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.pages: dict[str, str | bytes | None] = {}

    def definitions(self) -> dg.Definitions:
        @dg.asset(key=RAW)
        def raw() -> None:
            for name, text in self.pages.items():
                if text is None:
                    (self.location.cli.docs / name).unlink()
                else:
                    self.location.cli.write(name, text)

        @dg.asset(key=DIGEST, deps=[PUBLISHED])
        def digest() -> dg.MaterializeResult:  # type: ignore[type-arg]
            return dg.MaterializeResult(metadata={"names": names_in(self.location)})

        job = dg.define_asset_job("nightly", dg.AssetSelection.assets(RAW, PUBLISHED, DIGEST))
        own = dg.Definitions(assets=[raw, digest], jobs=[job])
        return dg.Definitions.merge(self.location.definitions, own)

    def begin(self) -> None:
        """Run the job over the pages that are there, or copy what an earlier run left."""
        self.location.begin(self.run)

    def run(self, **pages: str | bytes | None) -> dg.ExecuteInProcessResult:
        self.pages = {f"{name}.md": text for name, text in pages.items()}
        job = self.definitions().resolve_job_def("nightly")
        return job.execute_in_process(instance=self.location.instance, raise_on_error=False)


def digest_of(result: dg.ExecuteInProcessResult) -> object:
    (event,) = result.asset_materializations_for_node("digest")
    return event.metadata["names"].value


def told(result: dg.ExecuteInProcessResult) -> dict[str, object]:
    """Metadata of the published records that a run told."""
    (event,) = [e for e in result.asset_materializations_for_node("docs_index") if e.asset_key == PUBLISHED]
    return {name: value.value for name, value in event.metadata.items()}


@pytest.mark.dagster_versions
def test_a_new_file_goes_from_the_assets_before_the_corpus_to_those_after_it_in_one_run(location: Location) -> None:
    team = Team(location)

    result = team.run(new=text_about("new"))

    assert result.success
    names = ["ledger.md", "new.md", "reader.md", "vector.md", "writer.md"]
    assert digest_of(result) == names
    assert location.instance.get_dynamic_partitions("docs") == names
    assert location.events() == {(stage, name): 1 for stage in STAGES for name in names}
    assert location.all_fresh()
    for asset in (PUBLISHED, DIGEST):
        assert location.staleness_of(asset, definitions=team.definitions()) == ("FRESH", ())


def test_a_later_run_builds_what_changed_and_removes_what_was_deleted(location: Location) -> None:
    team = Team(location)
    team.begin()

    result = team.run(ledger=text_about("another ledger"), writer=None)

    assert digest_of(result) == ["ledger.md", "reader.md", "vector.md"]
    changes = {name: told(result)[name] for name in ("new", "changed", "deleted", "texts embedded")}
    assert changes == {"new": 0, "changed": 1, "deleted": 1, "texts embedded": 2}
    assert location.instance.get_dynamic_partitions("docs") == ["ledger.md", "reader.md", "vector.md"]
    assert location.all_fresh()


def test_the_index_job_records_that_it_saw_the_newest_raw_assets_even_if_nothing_changed(location: Location) -> None:
    team = Team(location)
    team.begin()
    raw = team.definitions().resolve_implicit_global_asset_job_def()
    raw.execute_in_process(instance=location.instance, asset_selection=[RAW])
    stale = location.staleness_of(PUBLISHED, definitions=team.definitions())

    assert location.index().success

    assert stale[0] == "STALE"
    assert location.staleness_of(PUBLISHED, definitions=team.definitions()) == ("FRESH", ())


def test_the_index_job_records_that_it_saw_a_new_partition_of_raw_assets_of_one_version(location: Location) -> None:
    days = dg.StaticPartitionsDefinition(["monday", "tuesday"])

    @dg.asset(key=RAW, partitions_def=days, code_version="1")
    def raw() -> None: ...

    definitions = dg.Definitions.merge(location.definitions, dg.Definitions(assets=[raw]))
    job, seen = definitions.resolve_implicit_global_asset_job_def(), []
    for day in days.get_partition_keys():
        job.execute_in_process(instance=location.instance, asset_selection=[RAW], partition_key=day)
        seen.append(location.staleness_of(PUBLISHED, definitions=definitions)[0])
        assert location.index().success
        seen.append(location.staleness_of(PUBLISHED, definitions=definitions)[0])

    assert seen == ["MISSING", "FRESH", "STALE", "FRESH"]


@pytest.mark.parametrize("by_job", [True, False], ids=["job", "assets"])
def test_raw_assets_that_change_after_the_listing_leave_the_published_records_stale(
    location: Location, monkeypatch: pytest.MonkeyPatch, by_job: bool
) -> None:
    team, close = Team(location), Run.close

    def closed_late(run: Run, corpora: Sequence[str]) -> ReleaseResult:
        newer = dg.AssetMaterialization(RAW, tags={"dagster/data_version": "newer"})
        location.instance.report_runless_asset_event(newer)
        return close(run, corpora)

    monkeypatch.setattr(Run, "close", closed_late)

    assert (location.index() if by_job else team.run()).success

    assert location.staleness_of(PUBLISHED, definitions=team.definitions())[0] == "STALE"


def test_an_unreadable_file_fails_the_run_and_stops_the_assets_after_it_but_the_rest_is_published(
    location: Location,
) -> None:
    location.cli.settings["corpora"]["docs"]["source"]["unreadable"] = "fail"

    result = Team(location).run(bad=b"\x00binary")

    assert not result.success
    assert not result.asset_materializations_for_node("digest")
    assert "bad.md" in location.instance.get_runs(limit=1)[0].tags[FAILED_TAG]
    assert told(result)["artifacts"] == 4


def test_a_source_that_vanished_fails_the_run_and_loses_nothing(location: Location) -> None:
    team = Team(location)
    team.begin()
    location.cli.docs.rename(location.cli.docs.with_name("moved"))

    result = team.run()

    assert not result.success
    assert not result.asset_materializations_for_node("digest")
    assert names_in(location) == ["ledger.md", "reader.md", "vector.md", "writer.md"]
    assert [failure.kind for failure in location.aid.status()[0].failed] == ["SourceError"]


@pytest.mark.parametrize("by", ["artifact", "bucket"])
def test_a_run_of_assets_whose_source_is_away_is_failed_by_name_and_leaves_other_corpora_alone(
    location: Location, by: str
) -> None:
    """A sensor starts one run for this source, and none for the others, as it would for a run that was cut short."""
    (location.cli.folder / "notes").mkdir()
    (location.cli.folder / "notes" / "note.md").write_text(text_about("notes"))
    location.cli.settings["corpora"]["notes"] = {"source": {"kind": "files", "root": "notes"}}
    location.cli.settings["corpora"]["docs"]["partitions"] = {"by": by, "buckets": 2}
    os.utime(location.cli.folder / "notes" / "note.md", (SETTLED, SETTLED))
    location.begin()
    location.cli.docs.rename(location.cli.docs.with_name("moved"))

    run = location.materialize(STAGES, "bucket-0-of-2") if by == "bucket" else location.materialize_published()

    assert not run.success
    assert "docs" in location.instance.get_runs(limit=1)[0].tags[FAILED_TAG]
    assert corpora_of(look(location, sensor="changed_sources")) == ["docs"]


def test_an_emptied_folder_fails_the_run_until_the_launchpad_allows_the_loss(location: Location) -> None:
    Team(location).begin()
    for name in ("ledger", "reader", "writer"):
        (location.cli.docs / f"{name}.md").unlink()
    location.cli.settings["corpora"]["docs"]["max_loss"] = 0.5
    job = location.definitions.resolve_implicit_global_asset_job_def()

    runs = [
        job.execute_in_process(
            {"ops": {"docs_index": {"config": {"allow_loss": allow}}}},
            instance=location.instance,
            asset_selection=[PUBLISHED],
            raise_on_error=False,
        )
        for allow in (False, True)
    ]

    assert [run.success for run in runs] == [False, True]
    failed = next(event for event in runs[0].all_events if event.is_step_failure)
    assert "allow_loss" in str(failed.step_failure_data.error)
    assert location.instance.get_dynamic_partitions("docs") == ["vector.md"]


def test_the_job_that_the_page_shows_indexes_the_corpus(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "dagster.md").read_text()
    (snippet,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "nightly" in block]
    location.cli.settings["corpora"]["docs"]["deps"] = ["wiki/pages"]
    location.cli.run("status")
    monkeypatch.chdir(location.cli.folder)
    names: dict[str, dg.Definitions] = {}

    exec(snippet, names)  # the page's own code
    result = names["defs"].resolve_job_def("nightly").execute_in_process(instance=location.instance)

    order = [event.step_key for event in result.all_events if event.is_step_success]
    assert order == ["wiki__pages", "docs_index", "digest"]
    assert names_in(location) == ["ledger.md", "reader.md", "vector.md", "writer.md"]


def test_automation_indexes_the_corpus_when_the_assets_before_it_are_new(location: Location) -> None:
    team = Team(location)
    team.begin()
    follow = dg.AutomationCondition.eager().ignore(dg.AssetSelection.assets(dg.AssetKey(["docs", "records"])))

    def translation(spec: dg.AssetSpec) -> dg.AssetSpec:
        return spec.replace_attributes(automation_condition=follow) if spec.key == PUBLISHED else spec

    defs = team.definitions().map_asset_specs(func=translation)
    asked = []
    cursor = None
    for before in ("start", "raw", "nothing", "records"):
        job = defs.resolve_implicit_global_asset_job_def()
        if before == "raw":
            job.execute_in_process(instance=location.instance, asset_selection=[RAW])
        if before == "records":
            location.cli.write("ledger.md", text_about("another ledger"))
            location.index()
        found = dg.evaluate_automation_conditions(
            defs, location.instance, dg.AssetSelection.assets(PUBLISHED), cursor=cursor
        )
        cursor = found.cursor
        asked.append(found.get_num_requested(PUBLISHED))

    assert asked == [0, 1, 0, 0]


def test_every_way_to_run_tells_what_was_guessed_and_emptied(
    location: Location, capfd: pytest.CaptureFixture[str]
) -> None:
    location.begin()
    location.cli.write("reader.md", "Größe".encode("cp1252") + text_about("reading").encode())
    location.cli.write("writer.md", "")
    job = location.definitions.resolve_implicit_global_asset_job_def()
    guessed, emptied = (
        "docs: guessed encoding: reader.md",
        "docs: empty from now on, so their records are removed: writer.md",
    )
    capfd.readouterr()

    location.materialize(STAGES, "reader.md", "writer.md")
    of_partitions = capfd.readouterr().err
    location.index(force=True)
    of_job = capfd.readouterr().err
    job.execute_in_process(
        {"ops": {"docs_index": {"config": {"force": True}}}},
        instance=location.instance,
        asset_selection=[PUBLISHED],
        raise_on_error=False,
    )
    of_asset = capfd.readouterr().err

    assert [guessed in told for told in (of_partitions, of_job, of_asset)] == [True] * 3
    assert emptied in of_partitions
