"""One run, as the CLI, the index job and materializations call it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from findingaid import Artifact, FindingAid, SourceError, Surface
from findingaid.model import Discovery, Raw, SurfacePlan
from findingaid.reports import BatchReport, Calls
from findingaid.strategies import WholeText
from findingaid.testing import MemorySource, ScriptedSynthesizer


def test_a_plan_needs_no_prepared_tables(make_aid: Callable[..., FindingAid], tmp_path: Path) -> None:
    before_the_first_run = make_aid().open_run().plan("docs")
    make_aid().index()
    shutil.rmtree(tmp_path / "index" / "records.lance")

    after_a_loss = make_aid().open_run().plan("docs")

    assert len(before_the_first_run.stale) == len(after_a_loss.stale) == 3
    assert set(after_a_loss.lost) == {listing.artifact_id for listing in after_a_loss.stale}


def test_a_run_step_by_step_publishes_like_index(make_aid: Callable[..., FindingAid]) -> None:
    run = make_aid().open_run("run 1")
    run.prepare()
    plan = run.plan("docs")
    run.indexer("docs").begin(plan)
    reports = [make_aid().open_run("run 1").indexer("docs").build(batch) for batch in plan.batches()]

    report = run.finish_corpus(plan, reports)
    closed = run.close(["docs"])

    assert (report.new, report.unchanged, closed.unpublished) == (3, 0, None)
    assert all(result.passed for result in closed.checks)
    assert make_aid().index().corpora["docs"].unchanged == 3


def test_a_run_has_one_indexer_per_corpus(aid: FindingAid) -> None:
    run = aid.open_run()

    assert run.indexer("docs") is run.indexer("docs")


@pytest.mark.usefixtures("indexed")
def test_a_selection_is_built_also_when_it_is_current(aid: FindingAid) -> None:
    plan = aid.open_run().plan_selected("docs", ["ledger.md", "gone.md"])

    assert [listing.artifact_id for listing in plan.stale] == ["ledger.md"]
    assert (plan.artifacts, plan.deleted) == (1, ["gone.md"])


def test_any_error_of_a_source_fails_its_corpus_alone(make_aid: Callable[..., FindingAid]) -> None:
    class Broken(MemorySource):
        def discover(self) -> Discovery:
            raise RuntimeError("no disk")

    run = make_aid(source=Broken({})).open_run()

    with pytest.raises(SourceError, match="source: cannot be listed: RuntimeError: no disk"):
        run.plan_selected("docs", ["ledger.md"])
    with pytest.raises(SourceError, match="source: cannot be listed: RuntimeError: no disk"):
        run.plan("docs")


def test_reports_of_batches_add_up() -> None:
    first = BatchReport(new=1, calls=Calls(embed=2), cost=0.5, refused=["a.md: one"])
    second = BatchReport(new=2, calls=Calls(embed=3, extract=1), cost=0.25, waiting="the budget is spent")
    unpriced = BatchReport(cost=None, waiting="a batch")

    both = first + second

    assert (both.new, both.calls, both.cost) == (3, Calls(embed=5, extract=1), 0.75)
    assert (both.refused, both.waiting) == (["a.md: one"], "the budget is spent")
    assert sum([first, second, unpriced], BatchReport()).cost is None
    assert (both + unpriced).waiting == "the budget is spent"


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (MuteError(), "MuteError: MuteError"),
        (
            ExceptionGroup("two", [ValueError("one"), OSError("other")]),
            "two (2 sub-exceptions): ValueError: one; OSErr",
        ),
    ],
)
@pytest.mark.parametrize("part", ["source", "strategy", "synthesizer"])
def test_whatever_a_component_raises_fails_its_artifact_alone_with_the_reason(
    make_aid: Callable[..., FindingAid], part: str, error: BaseException, message: str
) -> None:
    class Source(MemorySource):
        def read(self, artifact_id: str) -> Artifact:
            if artifact_id == "bad.md" and part == "source":
                raise error
            return super().read(artifact_id)

    class Strategy:
        strategy_id = "raises"

        def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
            if artifact_id == "bad.md" and part == "strategy":
                raise error
            return WholeText().decompose(artifact_id, raw, metadata)

    source = Source({"bad.md": "Bad words.", "good.md": "Good words."})
    script = {"Bad": error} if part == "synthesizer" else {}
    aid = make_aid(source=source, strategy=Strategy(), synthesizer=ScriptedSynthesizer(script=script))

    report = aid.index().corpora["docs"]

    (failure,) = report.failed
    assert failure.artifact_id == "bad.md"
    assert message in failure.message
    assert "good.md" in {artifact_id for (_, artifact_id), _ in aid.artifacts()}


def test_an_artifact_in_place_of_another_is_refused(make_aid: Callable[..., FindingAid]) -> None:
    class Mistaken(MemorySource):
        def read(self, artifact_id: str) -> Artifact:
            return super().read("b.md")

    aid = make_aid(source=Mistaken({"a.md": "Apples.", "b.md": "Bears."}), max_failures=1)

    (failure,) = aid.index().corpora["docs"].failed

    assert (failure.artifact_id, failure.message) == ("a.md", "the source returned another artifact, 'b.md'")


def test_of_artifacts_with_one_id_the_first_counts_and_a_note_says_so(make_aid: Callable[..., FindingAid]) -> None:
    class Twice(MemorySource):
        def discover(self) -> Discovery:
            listings = super().discover().listings
            return Discovery([*listings, *listings[:1]])

    report = make_aid(source=Twice({"a.md": "Apples.", "b.md": "Bears."})).index()

    docs = report.corpora["docs"]
    assert (docs.artifacts, docs.failed, report.unpublished) == (2, [], None)
    assert docs.remarks == ["listed again under an id that another artifact has, and left out: 1, such as 'a.md'"]


@pytest.mark.parametrize("span", [(0, 500), (-9, 7), (1, 8), (7, 0)])
def test_a_surface_whose_span_opens_other_words_is_refused(
    make_aid: Callable[..., FindingAid], span: tuple[int, int]
) -> None:
    class Beside:
        strategy_id = "beside"

        def decompose(self, artifact_id: str, raw: Any, metadata: Mapping[str, Any]) -> SurfacePlan:
            spans = {"a.md": span, "b.md": (0, len(raw))}
            return SurfacePlan({}, [Surface("chunk", raw, span=spans[artifact_id])])

    aid = make_aid(source=MemorySource({"a.md": "Apples.", "b.md": "Bears."}), strategy=Beside())

    (failure,) = aid.index().corpora["docs"].failed

    assert failure.artifact_id == "a.md"
    assert failure.message == f"the span {span[0]}:{span[1]} of a surface is not where its text is"
