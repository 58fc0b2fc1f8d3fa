"""Dagster's history has no document text, even after failures, unless a setting allows it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from findingaid.embedding.hashing import HashEmbedder
from findingaid.errors import SynthesisError
from findingaid.indexing.plan import CorpusPlan
from findingaid.indexing.run import NOTHING, UNSETTLED
from findingaid.model import Discovery, Failure, Raw, Stage, SurfacePlan, Vectors
from findingaid.protocols import Extraction, Statement
from findingaid.sources.files import Files
from findingaid.strategies.chunked import Chunked
from findingaid_dagster.assets.disclosure import SEE_INDEX, SEE_PLAN, filter_notes, filter_reason
from findingaid_dagster.pipelines.index import _small
from tests.conftest import Cli, text_about
from tests.paths import ROOT
from tests.support.location import DAGSTER_YAML, Location, files_of_dagster, open_location

MARKER = "xylophonequartz"
SENT = "batch b_1 of 1,204 synopses, sent 2026-11-22 20:15 UTC"
KEYS = [stage.value for stage in Stage]


class Lists(Files):
    """Quotes a text in a note on the listing."""

    def discover(self) -> Discovery:
        found = super().discover()
        return replace(found, notes=[*found.notes, f"left out: {MARKER}"])


@dataclass(frozen=True)
class Cuts(Chunked):
    """Quotes the text that it cannot cut."""

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        if "uncut" in artifact_id:
            raise ValueError(f"cannot cut {raw}")
        return super().decompose(artifact_id, raw, metadata)


@dataclass(frozen=True)
class Embeds(HashEmbedder):
    """Quotes the text that it cannot embed."""

    @property
    def id(self) -> str:
        return super().id

    def embed(self, texts: Sequence[str]) -> Vectors:
        for text in texts:
            if "unembedded" in text:
                raise ValueError(f"cannot embed {text}")
        return super().embed(texts)


def write(text: str, metadata: Mapping[str, Any]) -> str:
    """Repeat the text, or quote it in a failure."""
    if "unwritten" in text:
        raise SynthesisError(f"cannot write about {text}", "refused")
    return f"It says: {text}"


class States:
    """States each line, refuses some, and quotes the text that it cannot read."""

    id = "states"

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        if "unstated" in text:
            raise SynthesisError(f"cannot read {text}", "parse")
        lines = [line for line in text.splitlines() if line.endswith(".")]
        forged = Statement(f"The {MARKER} was said by nobody at all.", f"never said: {MARKER}")
        return Extraction([forged, *(Statement(line, line, None, MARKER) for line in lines)], [f"refused {MARKER}"])


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cli.settings |= {
        "embedder": {"kind": f"{__name__}:Embeds"},
        "synthesizer": {"kind": "custom", "function": f"{__name__}:write"},
    }
    cli.settings["corpora"]["docs"]["source"]["kind"] = f"{__name__}:Lists"
    cli.settings["corpora"]["docs"] |= {
        "strategy": {"name": f"{__name__}:Cuts"},
        "claims": {"kind": f"{__name__}:States"},
        "summary_nodes": {"at_least": 1},
        "max_failures": 1.0,
    }
    for name in ("marked", "uncut", "unwritten", "unstated", "unembedded"):
        front = f"---\n{MARKER}: {MARKER}\n---\n" if name == "marked" else ""
        cli.write(f"{name}.md", f"{front}# {name} {MARKER}\n\n{text_about(f'{name} {MARKER}')}")
    cli.write("unreadable.md", b"\x00" + MARKER.encode())
    yield from open_location(cli, monkeypatch, DAGSTER_YAML)


def files_with(folder: Path, word: str) -> list[str]:
    return [str(path.relative_to(folder)) for path in files_of_dagster(folder) if word.encode() in path.read_bytes()]


def job_of_a_terminal(location: Location) -> subprocess.CompletedProcess[str]:
    """Run the job as `make index` does, so that Dagster also keeps the output of the process."""
    command = [str(Path(sys.executable).parent / "dagster"), "job", "execute", "-f", "pipelines/definitions.py"]
    return subprocess.run([*command, "-j", "index"], cwd=ROOT, env=dict(os.environ), capture_output=True, check=False)


def check_everything(location: Location) -> dg.ExecuteInProcessResult:
    """Run every check alone, as the UI does."""
    job = dg.define_asset_job("execute", dg.AssetSelection.all_asset_checks())
    definitions = dg.Definitions.merge(location.definitions, dg.Definitions(jobs=[job]))
    return definitions.resolve_job_def("execute").execute_in_process(instance=location.instance, raise_on_error=False)


@pytest.mark.slow
def test_no_file_of_the_instance_has_a_word_of_a_document(location: Location) -> None:
    """Not after the job, materializations and checks, with failures of every stage that quote the text."""
    home = location.cli.folder / "dagster_home"
    ran = job_of_a_terminal(location)
    for name in ("marked.md", "unwritten.md", "unembedded.md", "uncut.md", "unstated.md", "unreadable.md"):
        location.materialize(KEYS, name, config={"force": True})
    check_everything(location)

    failed = {failure.artifact_id: failure for failure in location.aid.status()[0].failed}
    assert ran.returncode == 1
    assert failed.keys() == {f"{name}.md" for name in ("uncut", "unwritten", "unstated", "unembedded", "unreadable")}
    assert all(MARKER in failed[f"{name}.md"].message for name in ("uncut", "unwritten", "unstated", "unembedded"))
    assert MARKER in str([hit.text for hit in location.aid.search(MARKER)])
    assert files_with(home, "marked.md")
    assert files_with(home, MARKER) == []


def test_with_previews_a_partition_shows_texts_which_the_history_then_keeps(location: Location) -> None:
    location.cli.settings["dagster"] = {"previews": True}

    location.index()

    assert files_with(location.cli.folder / "dagster_home", MARKER)
    for stage in (Stage.SURFACES, Stage.SYNOPSES):
        assert MARKER in str(metadata_of(location, stage)), stage
    last = location.instance.get_latest_materialization_event(dg.AssetKey(["docs", Stage.RECORDS]))
    columns = last.asset_materialization.metadata["dagster/column_schema"].value.columns  # type: ignore[union-attr]
    assert {column.name: column.type for column in columns}["path"] == "string"


def metadata_of(location: Location, stage: Stage) -> Mapping[str, dg.MetadataValue]:
    """Return the metadata of the last materialization of the marked document."""
    (logged,) = location.instance.fetch_materializations(
        dg.AssetRecordsFilter(dg.AssetKey(["docs", stage]), asset_partitions=["marked.md"]), limit=1
    ).records
    return logged.asset_materialization.metadata  # type: ignore[union-attr]


def test_a_failure_is_told_by_its_stage_and_kind(location: Location) -> None:
    result = location.index()

    (failure,) = [e.step_failure_data.user_failure_data for e in result.all_events if e.is_step_failure]
    assert "docs: uncut.md: run `findingaid status --failed` for the reason [surfaces: other]" in failure.description
    (seen,) = location.instance.fetch_observations(dg.AssetKey(["docs", "synopses"]), limit=1).records
    told = {name: value.value for name, value in seen.asset_observation.metadata.items()}  # type: ignore[union-attr]
    assert told == {"outcome": "failed", "kind": "refused", "reason": "run `findingaid status --failed` for the reason"}


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("", ""),
        ("the budget of this run is spent", "the budget of this run is spent"),
        (SENT, SENT),
        (f"batch {MARKER} said {MARKER} of 3 synopses, sent 2026-11-22 20:15 UTC", SEE_INDEX),
        (f"not tried: host: 400: cannot parse {MARKER}", SEE_INDEX),
    ],
)
def test_why_something_waits_is_told_where_findingaid_words_it(why: str, told: str) -> None:
    assert filter_reason(why, previews=False) == told
    assert filter_reason(why, previews=True) == why


def test_notes_of_a_source_are_told_where_findingaid_words_them() -> None:
    assert filter_notes([NOTHING, UNSETTLED, MARKER], previews=False) == [NOTHING, UNSETTLED, SEE_PLAN]
    assert filter_notes([MARKER], previews=True) == [MARKER]


def test_failures_that_wait_for_their_next_try_are_told_without_their_words() -> None:
    waiting = [Failure("a.pdf", "artifacts", "parse", "secret words", retry_in=0)]
    (told,) = _small(CorpusPlan("docs", 1, [], [], waiting=waiting), previews=False).waiting
    assert "secret" not in str(told)
    assert str(told).endswith("[artifacts: parse, next try when it changes]")
