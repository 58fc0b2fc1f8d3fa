"""Notes on artifacts: in the run, in `status`, `why` and `show`, until the source has read them without a note."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Cli

GUESSED = "encoding: cp1252 (guessed)"


def test_a_note_is_told_everywhere_until_the_artifact_is_read_without_one(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["source"].pop("include")
    cli.write("a.txt", "Größe".encode("cp1252"))
    cli.write("b.txt", "Maß und Übermut".encode("cp1252"))
    cli.write("c.txt", b"plain")

    run = cli.run("index")
    status = cli.run("status").stdout
    told = cli.json("show", "a.txt")["notes"]
    why = cli.run("why", "a.txt").stdout
    counted = cli.json("status")[0]["noted"]
    cli.write("a.txt", "Größe".encode())
    mended = cli.run("index")

    assert f"{GUESSED}: 2 artifacts (a.txt, b.txt)" in run.output
    assert f"{GUESSED}: 2 artifacts (a.txt, b.txt)" in status
    assert [(note["kind"], note["words"]) for note in told] == [("guessed_encoding", GUESSED)]
    assert f"note  {GUESSED}" in why
    assert [note["artifact_id"] for note in counted] == ["a.txt", "b.txt"]
    assert "a.txt" not in mended.output
    assert cli.json("show", "a.txt")["notes"] == []
    assert f"{GUESSED}: b.txt" in cli.run("status").stdout


def test_a_field_whose_values_become_text_is_named(cli: Cli) -> None:
    cli.write("a.md", "---\nversion: 7\nzip: 1234\n---\nOne.")
    first = cli.run("index")
    cli.write("b.md", "---\nversion: 1.10\nzip: 99\n---\nTwo.")

    run = cli.run("index")
    found = cli.json("search", "one two", "--where", "version IN ('7', '1.10')")

    assert "field version" not in first.output
    assert "field version is text from now on, not int64" in run.output
    assert "field zip" not in run.output
    assert {hit["artifact_id"] for hit in found} == {"a.md", "b.md"}


@pytest.mark.parametrize("source", [{"kind": "sessions"}, {"kind": "skills"}, {"kind": "packages"}])
def test_a_source_that_lists_nothing_says_so(cli: Cli, source: Any) -> None:
    cli.write("a.txt", "no transcript, no skill, no project")
    of = {"roots": ["docs"]} if source["kind"] == "skills" else {"root": "docs"}
    cli.settings["corpora"]["docs"] = {"source": {**source, **of}}

    assert "docs: nothing is listed: the source has no artifact" in cli.run("index").output
