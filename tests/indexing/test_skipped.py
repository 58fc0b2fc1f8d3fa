"""Files that are not text are skipped: counted and named by suffix, never failures, and read again only if changed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import findingaid
from findingaid.errors import SkippedError, StoreError
from findingaid.model import Artifact, Discovery, Listing
from findingaid.sources.files import Files
from tests.conftest import Cli, error_of

GIF = b"GIF89a\x00\x01"
LATER = time.time() - 60


def write(cli: Cli, name: str, content: str | bytes) -> Path:
    """Write a file that is old enough for its stamp to be trusted."""
    path = cli.write(name, content)
    os.utime(path, (LATER, LATER))
    return path


@pytest.fixture
def files(cli: Cli) -> Cli:
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs"}
    return cli


def test_sixty_pictures_and_one_text_publish_the_text(files: Cli) -> None:
    for number in range(60):
        files.write(f"{number}.gif", GIF)
    files.write("b.bin", b"\x1f\x8b\x08\x00")
    files.write("a.md", "The release manager approves a deploy.")

    done = files.run("index")

    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert "docs: skipped 60 .gif, 1 .bin: not text\n" in done.stdout
    assert "a.md" in files.run("search", "deploy").stdout
    (status,) = files.json("status")
    assert (status["artifacts"], status["failed"], len(status["skipped"])) == (1, [], 61)
    assert "docs: skipped 60 .gif, 1 .bin: not text\n" in files.run("status").stdout


def test_an_unchanged_skipped_file_is_not_read_again_and_a_deleted_one_is_forgotten(
    files: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(files, "a.gif", GIF)
    monkeypatch.setattr("findingaid.sources.files.RACY_NANOSECONDS", 0)
    files.run("index")
    read: list[str] = []
    payload = Files.payload
    monkeypatch.setattr(Files, "payload", lambda self, path: read.append(path) or payload(self, path))

    again = files.run("index")

    assert read == []
    assert "docs: skipped 1 .gif: not text\n" in again.stdout
    assert "docs: skipped 1 .gif: not text\n" in files.run("plan").stdout
    write(files, "a.gif", GIF + b"\x00")
    files.run("index")
    assert read == ["a.gif"]

    (files.docs / "a.gif").unlink()
    gone = files.json("index")["corpora"]["docs"]
    assert (gone["skipped"], gone["deleted"], gone["error"]) == ([], 0, None)
    assert files.json("status")[0]["skipped"] == []


def test_a_text_that_becomes_binary_leaves_no_records_and_the_run_says_so(files: Cli) -> None:
    files.write("a.md", "The release manager approves a deploy.")
    files.write("b.md", "Nobody deploys on a Friday.")
    files.run("index")
    files.write("a.md", b"\x00\x01 no text any more")

    (planned,) = files.json("plan")["corpora"].values()
    done = files.run("index")

    assert (planned["deleted"], planned["records"], planned["newly_skipped"]) == (1, 1, ["a.md"])
    assert done.exit_code == 0
    assert "docs: skipped from now on, so their records are removed: a.md\n" in done.stdout
    assert {hit["artifact_id"] for hit in files.json("search", "deploy")} == {"b.md"}
    (status,) = files.json("status")
    assert (status["artifacts"], status["records"]) == (1, 1)


def test_what_was_cut_to_nothing_is_named_as_empty_and_leaves_no_records(files: Cli) -> None:
    line = {"type": "user", "message": {"role": "user", "content": "Who approves a deploy?"}}
    files.settings["corpora"]["talks"] = {"source": {"kind": "sessions", "root": "docs/talks"}}
    for name in ("a.md", "b.md", "talks/c.jsonl", "talks/d.jsonl"):
        files.write(name, json.dumps(line) + "\n")
    files.write("always.md", "")
    first = files.run("index")
    for name in ("a.md", "talks/c.jsonl"):
        files.write(name, "")

    planned = files.json("plan")["corpora"]
    done = files.run("index")

    assert "empty" not in first.stdout
    assert {name: corpus["emptied"] for name, corpus in planned.items()} == {
        "docs": ["a.md", "talks/c.jsonl"],
        "talks": ["c"],
    }
    assert "talks: empty from now on, so their records are removed: c\n" in done.stdout
    assert {hit["artifact_id"] for hit in files.json("search", "deploy")} == {"b.md", "talks/d.jsonl", "d"}
    assert "empty" not in files.run("index").stdout


def test_most_artifacts_becoming_binary_at_once_is_refused(files: Cli) -> None:
    for name in ("a.md", "b.md", "c.md"):
        files.write(name, f"a text called {name}")
    files.run("index")
    for name in ("a.md", "b.md", "c.md"):
        files.write(name, b"\x00" * 100)

    refused = files.run("index")

    assert refused.exit_code == 1
    assert "docs: 3 of 3 artifacts in the index would now be skipped: refused to remove their records" in refused.stderr
    assert len(files.json("search", "text")) == 3
    assert files.run("index", "--allow-loss").exit_code == 0
    assert files.json("status")[0]["records"] == 0


def test_bytes_that_are_in_no_text_are_skipped_even_without_a_zero_byte(tmp_path: Path) -> None:
    source = Files(tmp_path)
    (tmp_path / "a.bin").write_bytes(bytes([0x81, 0x8D, 0x01, 0xFF, 0x02, 0x90]) * 20)

    with pytest.raises(SkippedError, match="not text"):
        source.read("a.bin")


def test_a_file_too_large_to_read_is_skipped_if_it_does_not_begin_as_text(tmp_path: Path) -> None:
    source = Files(tmp_path, max_bytes=100)
    (tmp_path / "a.mp4").write_bytes(b"\x00" * 200)

    with pytest.raises(SkippedError, match="not text"):
        source.read("a.mp4")


def test_unreadable_fail_makes_failures_of_them_and_names_the_patterns_to_exclude(files: Cli) -> None:
    for name in ("a.gif", "b.gif", "c.gif", "d.md"):
        files.write(name, GIF)
    files.write("a.md", "a text")
    files.write("b.md", "another text")
    files.write("c.md", "another text again")
    files.write("e.md", "another text again, and more")
    assert files.run("index").exit_code == 0
    files.settings["corpora"]["docs"]["source"]["unreadable"] = "fail"

    done = files.run("index")

    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "Error: docs: 4 artifacts (a.gif, b.gif, c.gif, d.md): binary, not text: exclude it [artifacts: binary]",
        "See: findingaid help binary",
    ]
    assert 'docs: to leave out what cannot be read, add to its source:  exclude: ["*.gif", "/d.md"]\n' in done.stdout
    assert files.json("status")[0]["skipped"] == []


def test_a_skipped_file_is_said_to_be_skipped_and_a_search_says_why_nothing_is_indexed(files: Cli) -> None:
    files.write("a.gif", GIF)
    files.run("index")

    said = files.run("search", "anything").stdout

    assert said == "nothing found, since nothing is indexed. docs: skipped 1 .gif: not text\n"
    for command in ("why", "show"):
        assert error_of(files.run(command, "a.gif")) == "docs/a.gif is skipped: not text"
        assert error_of(files.run(command, "docs/a.gif")) == "docs/a.gif is skipped: not text"
        assert error_of(files.run(command, str(files.docs / "a.gif"))) == "docs/a.gif is skipped: not text"


def test_a_search_says_why_nothing_is_published(files: Cli) -> None:
    for name in ("a.pdf", "b.pdf"):
        files.write(name, b"%PDF-1.4 cut short")
    done = files.run("index")

    assert done.exit_code == 1
    assert "skipped" not in done.stdout
    assert (
        ": run `findingaid index`. By the last run, docs: 2 of 2 artifacts failed: 2 artifacts (a.pdf, b.pdf): a PDF"
        " that was cut short, without an end (%%EOF): get it again or exclude it [artifacts: parse, next try "
    ) in error_of(files.run("search", "anything"))


def test_the_reason_names_no_corpus_that_the_caller_may_not_see(files: Cli) -> None:
    files.settings["corpora"]["other"] = {"source": {"kind": "files", "root": "other"}}
    (files.folder / "other").mkdir()
    for path in (files.docs / "a.pdf", files.folder / "other" / "b.pdf"):
        path.write_bytes(b"%PDF-1.4 cut short")
    files.run("index")

    with pytest.raises(StoreError, match=r"By the last run, other: 1 of 1 artifacts failed: b\.pdf: ") as raised:
        findingaid.open(files.config).within(["other"]).search("anything")

    assert "docs:" not in str(raised.value)


class OneWanted:
    """Source of one text and one artifact that it skips itself."""

    id = "one-wanted"

    def discover(self) -> Discovery:
        return Discovery([Listing("a", "1"), Listing("b", "1")])

    def read(self, artifact_id: str) -> Artifact:
        if artifact_id == "b":
            raise SkippedError("a draft")
        return Artifact(artifact_id, "a text")


def test_any_source_may_skip_an_artifact(make_aid: Any) -> None:
    report = make_aid(source=OneWanted()).index().corpora["docs"]

    assert (report.artifacts, report.failed, report.remarks) == (1, [], ["skipped 1 without suffix: a draft"])
