"""When a failed artifact is tried again: not by each run, if the next try would take long to fail as before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from findingaid import Corpus, FindingAid
from findingaid.errors import DecomposeError, ReadError
from findingaid.indexing.retries import runs_until_retry
from findingaid.model import Artifact, Failure, Listing, SurfacePlan
from findingaid.sources.files import Files
from findingaid.strategies.chunked import Chunked
from tests.conftest import Cli

EARLIER = time.time() - 60


class Flawed(Files):
    """Files that count their readings, of which those named bad* fail with the kind of their content."""

    reads: list[str] = []  # noqa: RUF012  # shared on purpose: the class is frozen

    def read(self, artifact_id: str) -> Artifact:
        self.reads.append(artifact_id)
        found = super().read(artifact_id)
        if artifact_id.startswith("bad"):
            raise ReadError("it is bad", str(found.raw).strip())
        return found


def put(root: Path, name: str, text: str, at: float = EARLIER) -> None:
    root.mkdir(exist_ok=True)
    (root / name).write_text(text)
    os.utime(root / name, (at, at))


@pytest.fixture
def aid(tmp_path: Path, make_aid: Callable[..., FindingAid], monkeypatch: pytest.MonkeyPatch) -> FindingAid:
    monkeypatch.setattr("findingaid.sources.files.RACY_NANOSECONDS", 0)
    monkeypatch.setattr(Flawed, "reads", [])
    put(tmp_path / "docs", "good.md", "The release manager approves a deploy.")
    return make_aid(source=Flawed(tmp_path / "docs"), strategy=Chunked(), synthesizer=None)


def tries(aid: FindingAid, runs: int) -> list[bool]:
    """Return for each of so many runs whether it tried the bad file."""
    tried = []
    for _ in range(runs):
        Flawed.reads.clear()
        report = aid.index()
        assert [failure.artifact_id for failure in report.corpora["docs"].failed] == ["bad.md"]
        tried.append("bad.md" in Flawed.reads)
    return tried


def test_what_would_fail_again_is_tried_only_after_a_change(aid: FindingAid, tmp_path: Path) -> None:
    put(tmp_path / "docs", "bad.md", "parse")
    assert tries(aid, 2) == [True, False]
    (failure,) = aid.status()[0].failed
    assert (failure.runs, failure.retry_in) == (1, 0)
    assert str(failure) == "bad.md: it is bad [artifacts: parse, next try when it changes]"

    Flawed.reads.clear()
    planned = aid.plan().corpora["docs"]
    assert (planned.artifacts, planned.unchanged, len(planned.failed), Flawed.reads) == (2, 1, 1, [])
    aid.index(artifacts=["bad.md"])
    assert Flawed.reads == ["bad.md"]

    put(tmp_path / "docs", "bad.md", "parse\n")
    assert tries(aid, 2) == [True, False]
    aid.index(force=True)
    assert "bad.md" in Flawed.reads


def test_settings_of_the_source_or_the_strategy_bring_a_new_try(aid: FindingAid, tmp_path: Path) -> None:
    put(tmp_path / "docs", "bad.md", "parse")
    aid.index()
    for source, strategy in (
        (Flawed(tmp_path / "docs", max_bytes=1_000), Chunked()),
        (Flawed(tmp_path / "docs", max_bytes=1_000), Chunked(chunk_size=90)),
    ):
        aid = FindingAid(aid.store, aid.embedder, {"docs": Corpus("docs", source, strategy)})
        assert tries(aid, 1) == [True]


def test_what_may_depend_on_the_machine_is_tried_at_growing_intervals(aid: FindingAid, tmp_path: Path) -> None:
    put(tmp_path / "docs", "bad.md", "timeout")
    assert tries(aid, 4) == [True, True, False, True]
    (failure,) = aid.status()[0].failed
    assert str(failure) == "bad.md: it is bad [artifacts: timeout, in 3 runs in a row, next try in 4 runs]"


def test_each_kind_of_failure_has_its_interval() -> None:
    def waits(kind: str, stage: str = "artifacts", stamp: str = "1") -> list[int]:
        return [runs_until_retry(Failure("a", stage, kind, ""), runs, Listing("a", stamp)) for runs in range(1, 6)]

    for kind in ("parse", "no_text", "encrypted", "too_large"):
        assert waits(kind) == [0] * 5
    for kind in ("timeout", "crash", "memory"):
        assert waits(kind) == [1, 2, 4, 8, 8]
    assert waits("other", "surfaces") == [1, 2, 4, 8, 8]
    assert waits("unreadable") == waits("parse", "synopses") == [1] * 5
    assert waits("parse", stamp="1?") == [8] * 5  # it may belong to a later payload
    assert waits("parse", stamp="") == [1] * 5


class Picky:
    """Strategy that cannot cut one text, which took long to read."""

    strategy_id = "picky"

    def decompose(self, artifact_id: str, raw: Any, metadata: Any) -> SurfacePlan:
        if artifact_id.startswith("bad"):
            raise DecomposeError("it cannot be cut", raw.strip())
        return Chunked().decompose(artifact_id, raw, metadata)


def test_what_a_strategy_cannot_cut_is_not_read_again_for_it(aid: FindingAid, tmp_path: Path) -> None:
    put(tmp_path / "docs", "bad.md", "parse")
    files = Files(tmp_path / "docs")
    aid = FindingAid(aid.store, aid.embedder, {"docs": Corpus("docs", files, Picky())})
    assert [len(aid.index().corpora["docs"].failed) for _ in range(2)] == [1, 1]
    assert aid.status()[0].failed[0].retry_in == 0


def test_the_command_line_says_when_an_artifact_is_tried_again(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("findingaid.sources.files.RACY_NANOSECONDS", 0)
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs"}
    cli.write("a.md", "The release manager approves a deploy.")
    put(cli.docs, "bad.pdf", "no PDF")

    assert "exclude it [artifacts: parse]" in cli.run("index").stderr
    for shown in (cli.run("index").stderr, cli.run("status", "--failed").stdout, cli.run("why", "bad.pdf").stderr):
        assert "not a PDF despite its name: exclude it [artifacts: parse, next try when it changes]" in shown


def test_an_artifact_whose_newest_version_failed_says_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("findingaid.sources.files.RACY_NANOSECONDS", 0)
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs", "max_bytes": 100}
    put(cli.docs, "a.md", "The release manager approves a deploy.")
    cli.run("index")
    put(cli.docs, "a.md", "The release manager approves a deploy. " * 9)
    cli.run("index")

    shown = cli.run("why", "a.md").stdout
    assert "  no newest version  failed: a.md: 351 bytes, more than source.max_bytes = 100" in shown
    assert "[artifacts: too_large, next try when it changes]" in shown


@pytest.mark.parametrize("name", ["a.md", "a.html"])
def test_a_file_that_a_lower_limit_excludes_fails_by_name_until_it_is_raised(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("findingaid.sources.files.RACY_NANOSECONDS", 0)
    source = cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs", "max_bytes": 400}
    put(cli.docs, name, "The release manager approves a deploy. " * 9)
    cli.run("index")
    source["max_bytes"] = 100

    failed = f"{name}: 351 bytes, more than source.max_bytes = 100: exclude it or raise the limit"
    assert failed in cli.run("index").stderr
    assert failed in cli.run("index").stderr
    source["max_bytes"] = 400
    assert "max_bytes" not in cli.run("index").stderr
