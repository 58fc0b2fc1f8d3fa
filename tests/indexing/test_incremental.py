"""A run costs only what changed, and nothing is paid for twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from findingaid import FindingAid, Report
from findingaid.embedding.hashing import HashEmbedder
from findingaid.reports import NO_CALLS, Calls, CorpusReport
from findingaid.testing import CountingEmbedder, MemorySource, ScriptedSynthesizer
from tests.conftest import text_about

Make = Callable[..., FindingAid]


def docs(report: Report) -> CorpusReport:
    return report.corpora["docs"]


def records(aid: FindingAid) -> dict[str, tuple[object, ...]]:
    """Everything a reader can see, by record id."""
    table = aid.store.published().to_table()
    return {row["record_id"]: tuple(map(str, row.values())) for row in table.to_pylist()}


def versions(aid: FindingAid) -> dict[str, int]:
    tables = ("artifacts", "surfaces", "synopses", "embeddings", "records", "ledger", "calls")
    return {table: aid.store.dataset(table).version for table in tables}


def test_a_first_run_indexes_everything(aid: FindingAid) -> None:
    foreseen, report = aid.plan(), aid.index()

    assert docs(foreseen).calls == docs(report).calls
    assert docs(report).tokens > 0
    assert (docs(report).artifacts, docs(report).new, docs(report).records) == (3, 3, 9)
    assert docs(report).calls == Calls(embed=9, synthesize=3)
    assert aid.verify() == []


@pytest.mark.usefixtures("indexed")
def test_a_rerun_in_another_process_calls_no_model_and_commits_nothing(make_aid: Make) -> None:
    before = versions(make_aid())

    report = make_aid().index()

    assert docs(report).unchanged == 3
    assert docs(report).calls == NO_CALLS
    assert versions(make_aid()) == before


@pytest.mark.usefixtures("indexed")
def test_a_changed_filter_field_rewrites_the_records_without_a_call(aid: FindingAid, source: MemorySource) -> None:
    source.metadata["ledger.md"] = {"owner": "anna"}

    report = aid.index()

    assert docs(report).changed == 1
    assert docs(report).calls == NO_CALLS
    assert {hit.metadata.get("owner") for hit in aid.search("ledger", 50) if hit.artifact_id == "ledger.md"} == {"anna"}


@pytest.mark.usefixtures("indexed")
def test_a_changed_synthesizer_writes_every_synopsis_again_and_nothing_else(make_aid: Make) -> None:
    report = make_aid(synthesizer=ScriptedSynthesizer(id="scripted-2", script={"ledger": "On ledgers."})).index()

    assert docs(report).calls == Calls(embed=1, synthesize=3)


@pytest.mark.usefixtures("indexed")
def test_readers_keep_the_old_index_while_an_embedder_of_another_width_fails(
    make_aid: Make, embedder: CountingEmbedder
) -> None:
    broken = CountingEmbedder(HashEmbedder(dim=16), "broken")
    broken.embed = lambda texts: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]  # the user gives up

    with pytest.raises(KeyboardInterrupt):
        make_aid(embedder=broken).index()

    assert len(make_aid().search("ledger", 50)) == 9
    assert docs(make_aid().index()).calls == NO_CALLS
    assert make_aid().verify() == []


@pytest.mark.usefixtures("indexed")
def test_an_artifact_that_fails_under_a_new_embedder_is_not_served_with_old_vectors(
    make_aid: Make, source: MemorySource
) -> None:
    source.broken.add("ledger.md")
    other = CountingEmbedder(name="other")

    report = make_aid(embedder=other).index()

    assert [failure.artifact_id for failure in docs(report).failed] == ["ledger.md"]
    assert {hit.artifact_id for hit in make_aid(embedder=other).search("ledger", 50)} == {"reader.md", "vector.md"}
    assert make_aid(embedder=other).verify() == []


@pytest.mark.usefixtures("indexed")
def test_a_refused_source_keeps_its_records_when_the_embedder_changed(
    make_aid: Make, source: MemorySource, embedder: CountingEmbedder
) -> None:
    source.payloads.clear()

    report = make_aid(embedder=CountingEmbedder(name="other")).index()

    assert "refused" in (docs(report).error or "")
    assert "another embedder made the records of docs" in (report.unpublished or "")
    assert len(make_aid(embedder=embedder).search("ledger", 50)) == 9


@pytest.mark.usefixtures("indexed")
def test_force_writes_everything_again_without_a_call(aid: FindingAid) -> None:
    before = versions(aid)

    report = aid.index(force=True)

    assert docs(report).changed == 3
    assert docs(report).calls == NO_CALLS
    assert versions(aid)["records"] > before["records"]


@pytest.mark.usefixtures("indexed")
def test_a_batch_is_one_commit_a_table_and_two_of_the_ledger(aid: FindingAid, source: MemorySource) -> None:
    source.payloads |= {name: text_about(f"other {name}") for name in source.payloads}
    before = versions(aid)

    aid.indexer("docs").build(aid.open_run().plan("docs").stale)

    commits = {table: version - before[table] for table, version in versions(aid).items()}
    assert commits == {
        "artifacts": 1,
        "surfaces": 1,
        "synopses": 1,
        "embeddings": 2,  # of surfaces, while the model writes synopses, and then of these
        "records": 1,
        "calls": 1,
        "ledger": 2,
    }


@pytest.mark.usefixtures("indexed")
def test_a_deleted_artifact_leaves_every_table(aid: FindingAid, source: MemorySource) -> None:
    del source.payloads["ledger.md"]

    report = aid.index()

    assert docs(report).deleted == 1
    for table in ("artifacts", "surfaces", "synopses", "records", "ledger"):
        assert "ledger.md" not in aid.store.rows(table, ["artifact_id"])["artifact_id"].to_pylist()
    assert aid.verify() == []


class TestPlan:
    @pytest.mark.usefixtures("indexed")
    def test_a_plan_says_what_a_run_then_does(self, aid: FindingAid, source: MemorySource) -> None:
        source.payloads["ledger.md"] = text_about("ledger", "something new")
        source.payloads["added.md"] = text_about("added")
        del source.payloads["reader.md"]

        planned, done = docs(aid.plan()), docs(aid.index())

        for name in ("artifacts", "new", "changed", "unchanged", "deleted", "records"):
            assert getattr(planned, name) == getattr(done, name), name
        assert planned.calls.synthesize == done.calls.synthesize
        # A synopsis to come counts as one text to embed; that of the edited artifact turned out as before.
        assert planned.calls.embed == done.calls.embed + 1

    def test_a_plan_calls_no_model_and_writes_nothing(
        self, aid: FindingAid, embedder: CountingEmbedder, synthesizer: ScriptedSynthesizer, tmp_path: Path
    ) -> None:
        report = aid.plan()

        assert docs(report).calls == Calls(embed=9, synthesize=3)
        assert embedder.seen == synthesizer.seen == []
        assert not (tmp_path / "index").exists()


class TestEmptyIsNotFailed:
    def test_a_failed_synopsis_is_reported_and_tried_again_alone_and_moves_no_record(
        self, make_aid: Make, synthesizer: ScriptedSynthesizer
    ) -> None:
        failing = ScriptedSynthesizer(script={"ledger": TimeoutError("took too long")})

        report = make_aid(synthesizer=failing).index()

        (failure,) = docs(report).failed
        assert (failure.artifact_id, failure.stage, failure.kind) == ("ledger.md", "synopses", "timeout")
        assert not report.ok
        published = [hit for hit in make_aid().search("ledger", 50) if hit.artifact_id == "ledger.md"]
        assert [hit.surface_kind for hit in published] == ["chunk", "chunk"]
        before = records(make_aid())

        report = make_aid().index()

        assert report.ok
        assert len(synthesizer.seen) == docs(report).calls.synthesize == 1
        after = records(make_aid())
        assert len(after) == len(before) + 1
        assert before.items() <= after.items()
        assert make_aid().verify() == []

    def test_an_empty_synopsis_drops_that_surface_alone_and_is_not_asked_for_again(self, make_aid: Make) -> None:
        quiet = ScriptedSynthesizer(script={"ledger": "  ", "vector": ""})

        first, second = make_aid(synthesizer=quiet).index(), make_aid(synthesizer=quiet).index()

        assert first.ok
        assert docs(first).records == 7
        assert docs(second).calls == NO_CALLS
        assert make_aid().status()[0].synopses == {"empty": 2, "ok": 1}


class TestOneBadArtifact:
    def test_each_fails_alone_by_its_stage_and_is_tried_again(self, make_aid: Make, source: MemorySource) -> None:
        source.broken.add("ledger.md")
        source.payloads |= {"odd.md": {"no text here": "at all"}, "half.md": "half a pair \ud800 of surrogates"}

        report = docs(make_aid(embedder=CountingEmbedder(poison="vector again")).index())

        assert {(f.artifact_id, f.stage, f.kind) for f in report.failed} == {
            ("ledger.md", "artifacts", "unreadable"),
            ("odd.md", "surfaces", "parse"),
            ("half.md", "artifacts", "encoding"),
            ("vector.md", "embeddings", "other"),
        }
        assert "text_key" in next(f.message for f in report.failed if f.artifact_id == "odd.md")
        assert report.records == 3

        source.broken.clear()
        del source.payloads["odd.md"], source.payloads["half.md"]
        healed = make_aid()
        assert healed.index().ok
        assert {hit.artifact_id for hit in healed.search("ledger", 50)} == {"ledger.md", "vector.md", "reader.md"}
        assert healed.status()[0].failed == []
        assert healed.verify() == []

    @pytest.mark.usefixtures("indexed")
    def test_what_was_published_of_it_before_stays(self, aid: FindingAid, source: MemorySource) -> None:
        source.broken.add("ledger.md")
        source.payloads["ledger.md"] = "changed, but cannot be read"

        report = aid.index()

        assert not report.ok
        assert "ledger.md" in {hit.artifact_id for hit in aid.search("ledger", 50)}


class TestLoss:
    @pytest.mark.usefixtures("indexed")
    def test_a_source_that_yields_nothing_is_refused_unless_loss_is_allowed(
        self, aid: FindingAid, source: MemorySource
    ) -> None:
        source.payloads.clear()

        report = aid.index()

        assert not report.ok
        assert "--allow-loss" in (docs(report).error or "")
        assert len(aid.search("ledger", 50)) == 9
        assert docs(aid.index(allow_loss=True)).deleted == 3
        assert aid.search("ledger") == []

    @pytest.mark.usefixtures("indexed")
    def test_a_source_that_loses_most_is_refused(self, aid: FindingAid, source: MemorySource) -> None:
        for name in ("ledger.md", "vector.md"):
            del source.payloads[name]

        assert "refused" in (docs(aid.index()).error or "")

    @pytest.mark.usefixtures("indexed")
    def test_moving_everything_is_no_loss(self, aid: FindingAid, source: MemorySource) -> None:
        source.payloads = {f"moved/{name}": text for name, text in source.payloads.items()}

        report = aid.index()

        assert report.ok
        assert docs(report).calls == NO_CALLS
