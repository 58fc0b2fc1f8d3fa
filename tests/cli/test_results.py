"""Search results for people: grouped by file, with the words of the query, and opened at their place."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from findingaid.cli.results import LINES, Highlighter, editor_command, mark_passage
from findingaid.errors import visible, visible_line
from findingaid.model import CLAIM, SUMMARY, Hit, Raw, Surface, SurfacePlan
from findingaid.query.lookup.places import Location
from findingaid.query.search.hits import drop_repeats, group_by_artifact
from tests.conftest import Cli, ReadyMade, error_of, text_about
from tests.query.search.test_noise import TEXTS

NOTES = {
    "rotation.md": text_about("log rotation", "log rotation by night", "log rotation by size", "log rotation by hand"),
    "backup.md": text_about("backup of the log"),
    "code.md": "# Code of the log\n\n```python\ndef rotate(log):\n    for line in log:\n        write(line)\n```\n",
}


@pytest.fixture
def notes(cli: Cli, ready_made: ReadyMade) -> Cli:
    for name, text in NOTES.items():
        cli.write(name, text)
    cli.settings["corpora"]["docs"]["strategy"] = {"name": "Chunked", "chunk_size": 200, "overlap": 0}
    ready_made("notes", lambda: cli.run("index"))
    cli.configure()
    return cli


# -- lists -------------------------------------------------------------------------------------------------


def test_a_list_has_each_file_once_with_its_best_passage_and_the_number_of_the_others(notes: Cli) -> None:
    shown = notes.run("search", "log rotation", "--mode", "lexical").stdout

    assert [shown.count(f"{name}:") for name in NOTES] == [1, 1, 1]
    assert "+3 more in this file" in shown
    assert shown.startswith("1  ")
    assert f"{notes.docs}/rotation.md:1  " in shown or "docs/rotation.md:1  " in shown


def test_a_file_with_many_hits_leaves_room_for_others(notes: Cli) -> None:
    shown = notes.run("search", "log rotation", "--mode", "lexical", "-k", "2").stdout

    assert [shown.count(f"\n{number}  ") for number in (2, 3)] == [1, 0]
    assert shown.count("rotation.md:") == 1


def test_all_lists_every_record(notes: Cli) -> None:
    shown = notes.run("search", "log rotation", "--mode", "lexical", "--all").stdout

    assert shown.count("rotation.md:") == len(notes.json("search", "log rotation", "--mode", "lexical")) - 2
    assert "more in this file" not in shown


def test_json_is_not_grouped(notes: Cli) -> None:
    hits = notes.json("search", "log rotation", "--mode", "lexical", "-k", "3")

    assert [hit["artifact_id"] for hit in hits] == ["rotation.md"] * 3


def test_csv_has_a_row_a_record_with_the_whole_text(notes: Cli) -> None:
    result = notes.run("search", "log rotation", "--mode", "lexical", "-k", "3", "--csv")

    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    hits = notes.json("search", "log rotation", "--mode", "lexical", "-k", "3")
    assert [(row["record_id"], row["text"]) for row in rows] == [(hit["record_id"], hit["text"]) for hit in hits]
    assert notes.run("neighbours", "--csv").stdout == ""


def test_code_keeps_its_lines(notes: Cli) -> None:
    shown = notes.run("search", "rotate(log) write(line)", "--mode", "lexical", "-k", "1").stdout

    assert "   def rotate(log):\n       for line in log:\n           write(line)\n" in shown


def test_scores_are_explained_once_with_explain_alone(notes: Cli) -> None:
    explained = notes.run("search", "log", "--explain").stdout

    assert explained.count("score: from 0 to 1") == 1
    assert "lexical #1" in explained
    assert "score:" not in notes.run("search", "log").stdout


def test_weak_matches_are_called_weak(cli: Cli) -> None:
    for number, text in enumerate(TEXTS):
        cli.write(f"{number}.md", text)
    cli.settings["embedder"] = {"kind": "sentence-transformers"}
    assert cli.run("index").exit_code == 0

    nonsense = cli.run("search", "flurble grommet snazz", "-k", "2").stdout
    assert nonsense.startswith("nothing matches well; these are the nearest:\n1  ")
    assert nonsense.count("  weak  ") == 2
    assert "  weak  " not in cli.run("search", "rotating log files", "-k", "1").stdout


def test_quiet_leaves_out_notes(notes: Cli) -> None:
    arguments = ("search", "log rotation", "--select", "gap")

    assert " kept: " in notes.run(*arguments).stderr
    assert notes.run(*arguments, "-q").stderr == ""
    assert notes.run("context", "log", "--budget", "500", "-q").stderr == ""


def test_claims_are_listed_up_to_a_limit_that_says_how_many_there_are(cli: Cli) -> None:
    for number in range(4):
        cli.write(f"{number}.md", f"The machine number {number} is oiled every week by the keeper of the house.\n")
    cli.settings["corpora"]["docs"]["claims"] = True
    assert cli.run("index").exit_code == 0
    every = len(cli.json("claims", "list"))
    assert ".md:1  " in cli.run("search", "oiled machine", "--surfaces", "claim", "-k", "1").stdout

    shown = cli.run("claims", "list", "--limit", "1").stdout
    assert shown.splitlines()[-1] == f"1 of {every} claims; --limit 0 lists all"
    assert "--limit 0" not in cli.run("claims", "list", "--limit", "0").stdout
    assert len(cli.json("claims", "list", "--limit", "1")) == 1
    rows = csv.DictReader(io.StringIO(cli.run("claims", "list", "--csv").stdout))
    assert [row["claim_id"] for row in rows] == [claim["claim_id"] for claim in cli.json("claims", "list")]


@pytest.mark.parametrize("flags", [[], ["--all"], ["--per-artifact"], ["-k", "1"], ["--mode", "lexical"]])
def test_a_summary_node_is_listed_with_its_claims_whatever_else_its_file_says(cli: Cli, flags: list[str]) -> None:
    cli.write(
        "team.md",
        " ".join(f"{name} owns part {n} of the log." for n, name in enumerate(("Ada", "Bo", "Cy", "Di", "Ed"))),
    )
    cli.settings["corpora"]["docs"] |= {"claims": True, "summary_nodes": True}
    assert cli.run("index").exit_code == 0

    shown = cli.run("search", "who owns a part of the log", "--use-summaries", "--summary-top-k", "2", *flags).stdout

    lines = shown.splitlines()
    node = next(number for number, line in enumerate(lines) if "  summary " in line)
    assert len([line for line in lines[node:] if "  claim " in line]) == 2


# -- grouping ----------------------------------------------------------------------------------------------


def hit(artifact: str, text: str, span: tuple[int, int] | None = None) -> Hit:
    return Hit(f"{artifact}{text}", artifact, "docs", "chunk" if span else "synopsis", 0, 1.0, text, span, {})


SYNOPSIS = hit("a", "The ledger knows every version. Readers see published versions only.")
CHUNK = hit("a", "# Ledger\n\nThe ledger knows every version.\nReaders see published versions only. And more.", (0, 80))


def test_a_synopsis_that_says_what_a_passage_says_is_left_out() -> None:
    assert drop_repeats([SYNOPSIS, CHUNK]) == [CHUNK]
    assert [(group.best, group.others) for group in group_by_artifact([SYNOPSIS, CHUNK])] == [(CHUNK, [])]


def test_a_synopsis_stays_that_says_more_or_is_of_another_artifact() -> None:
    other = hit("b", CHUNK.text, (0, 80))
    more = hit("a", "An index in the manner of a library, with its shelves and its keepers.")

    assert drop_repeats([SYNOPSIS, other]) == [SYNOPSIS, other]
    assert drop_repeats([more, CHUNK]) == [more, CHUNK]


def test_groups_come_in_the_order_of_their_best_hits() -> None:
    first, second, third = hit("a", "one", (0, 3)), hit("b", "two", (0, 3)), hit("a", "three", (4, 9))

    groups = group_by_artifact([first, second, third])
    assert [(group.best, list(group.others)) for group in groups] == [(first, [third]), (second, [])]


def summary_of(artifact: str, *claims: Hit) -> Hit:
    members = [claim.metadata["claim_id"] for claim in claims]
    return replace(
        hit(artifact, " ".join(claim.text for claim in claims)), surface_kind=SUMMARY, metadata={"members": members}
    )


def claim_of(artifact: str, text: str, score: float) -> Hit:
    return replace(hit(artifact, text, (0, len(text))), surface_kind=CLAIM, score=score, metadata={"claim_id": text})


FIRST, SECOND, OTHER = (
    claim_of("a", "The ledger knows it.", 0.2),
    claim_of("a", "Readers see it.", 0.3),
    hit("b", "x", (0, 1)),
)
NODE = summary_of("a", FIRST, SECOND)


@pytest.mark.parametrize(
    ("hits", "groups"),
    [
        ([CHUNK, OTHER, NODE, FIRST, SECOND], [(CHUNK, []), (NODE, [SECOND, FIRST]), (OTHER, [])]),
        ([NODE, FIRST, SECOND, CHUNK, OTHER], [(NODE, [SECOND, FIRST]), (CHUNK, []), (OTHER, [])]),
        ([FIRST, SECOND, OTHER, NODE], [(NODE, [SECOND, FIRST]), (OTHER, [])]),
        ([OTHER, CHUNK, NODE], [(OTHER, []), (CHUNK, []), (NODE, [])]),
    ],
)
def test_a_summary_node_is_beside_the_best_hit_of_its_artifact_with_its_claims_beneath(
    hits: list[Hit], groups: list[tuple[Hit, list[Hit]]]
) -> None:
    assert [(group.best, list(group.others)) for group in group_by_artifact(hits)] == groups
    assert NODE in [group.best for group in group_by_artifact(hits, 2)]
    assert NODE in drop_repeats(hits)


# -- passages ----------------------------------------------------------------------------------------------


def test_the_words_of_the_query_are_found_in_any_form_and_stop_words_are_not() -> None:
    text = "Rotating the logs; a blog is no log."

    spans = Highlighter(["the rotation of a log"]).spans(text)
    assert [text[start:end] for start, end in spans] == ["Rotating", "logs", "log"]


def test_an_excerpt_is_where_most_of_the_words_are() -> None:
    lines = [f"line {number}" for number in range(20)]
    lines[12] = "the needle is here"

    excerpt = Highlighter(["needle"]).excerpt("\n".join(lines))
    assert "the needle is here" in excerpt
    assert excerpt.startswith("…\n")
    assert len(excerpt.splitlines()) == LINES + 2


def test_a_long_line_is_cut_around_the_word() -> None:
    excerpt = Highlighter(["needle"]).excerpt("hay " * 1_000 + "needle " + "hay " * 1_000)

    assert "needle" in excerpt
    assert len(excerpt) < 500


def test_a_passage_is_marked_also_without_colours_and_obeys_no_control_character() -> None:
    assert mark_passage("one two three", (4, 7)).plain == "one >>two<< three"
    assert mark_passage("one \x1b[2J", None).plain == "one \\x1b[2J"


def test_lines_of_a_file_from_windows_are_shown_as_lines_and_ids_on_one() -> None:
    assert visible("one\r\ntwo\rthree") == "one\ntwo\\rthree"
    assert visible_line("one\r\ntwo") == "one\\r\\ntwo"


# -- show --------------------------------------------------------------------------------------------------


def test_show_prints_the_text_and_the_records_on_demand(notes: Cli) -> None:
    assert NOTES["backup.md"] in notes.run("show", "backup.md").stdout
    pieces = notes.run("show", "backup.md", "--pieces").stdout
    assert "kind" in pieces
    assert "0:" in pieces


def test_show_marks_the_passage_of_a_place_or_a_record(notes: Cli) -> None:
    (found,) = notes.json("search", "night", "--mode", "lexical", "-k", "1")
    start, end = found["span"]
    marked = f">>{NOTES['rotation.md'][start:end]}<<"

    assert marked in notes.run("show", f"docs/rotation.md [{start}:{end}]").stdout
    assert marked in notes.run("show", found["record_id"]).stdout
    assert ">># log rotation<<\n" in notes.run("show", "rotation.md:1").stdout
    assert ">>" not in notes.run("show", "rotation.md:999").stdout


def test_the_passage_of_a_session_is_marked_where_it_is(cli: Cli) -> None:
    turns = [{"user_prompt": f"Which lamp has number {n}?", "assistant_summary": f"Lamp {n} hangs."} for n in range(3)]
    (cli.folder / "talks.jsonl").write_text(json.dumps({"id": "talk", "turns": turns}) + "\n")
    cli.settings["corpora"]["docs"] = {
        "source": {"kind": "records", "path": "talks.jsonl"},
        "strategy": {"name": "ClaudeSession"},
    }
    assert cli.run("index").exit_code == 0
    query = "search", "lamp 2 hangs", "--surfaces", "assistant_summary", "--where", "turn = 2"
    (found,) = cli.json(*query)
    printed = cli.run(*query).stdout.splitlines()[0].split("  ")

    assert ">>Lamp 2 hangs.<<" in cli.run("show", found["record_id"]).stdout
    assert ">>Lamp 2 hangs.<<" in cli.run(*query, "--open", "1").stdout
    assert "give the id of the record" in error_of(cli.run("show", f"{printed[1]} {printed[3].split()[-1]}"))


class Names:
    """Strategy of payloads that have no text, only a name."""

    id = "names-1"

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        assert isinstance(raw, Mapping)
        return SurfacePlan({}, [Surface("name", str(raw["name"]))])


def test_an_artifact_without_a_text_shows_that_of_its_surfaces(cli: Cli) -> None:
    (cli.folder / "rows.jsonl").write_text('{"key": "a", "name": "Ann of the year"}\n')
    cli.settings["corpora"]["docs"] = {
        "source": {"kind": "records", "path": "rows.jsonl", "id": "key"},
        "strategy": {"name": f"{__name__}:Names"},
    }
    done = cli.run("index")
    assert done.exit_code == 0, done.stderr

    shown = cli.run("show", "a").stdout
    assert shown.splitlines()[1:] == ["Ann of the year"]


# -- editors and terminals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("editor", "command"),
    [
        ("vim", ["vim", "+7", "/a b.md"]),
        ("/usr/bin/nano -w", ["/usr/bin/nano", "-w", "+7", "/a b.md"]),
        ("emacsclient -n", ["emacsclient", "-n", "+7", "/a b.md"]),
        ("code --wait", ["code", "--wait", "-g", "/a b.md:7"]),
        ("hx", ["hx", "/a b.md:7"]),
        ("my-editor", ["my-editor", "/a b.md"]),
    ],
)
def test_an_editor_opens_the_file_at_the_line_in_its_own_way(editor: str, command: list[str]) -> None:
    assert editor_command(editor, Location("docs", "a b.md", "/a b.md", 7)) == command


def test_open_starts_the_editor_at_the_hit(notes: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "vim"
    editor.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/opened\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))

    assert notes.run("search", "night", "--mode", "lexical", "--open", "1").exit_code == 0
    line = NOTES["rotation.md"].split("\n").index("# log rotation by night") + 1
    assert (tmp_path / "opened").read_text().splitlines() == [f"+{line}", str(notes.docs / "rotation.md")]


def test_open_shows_the_passage_where_there_is_no_editor(notes: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)

    assert ">># log rotation by night" in notes.run("search", "night", "--mode", "lexical", "--open", "1").stdout


def test_an_editor_that_cannot_be_started_and_a_hit_that_is_not_there_are_one_line(
    notes: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "no-such-editor")
    result = notes.run("search", "night", "--open", "1")
    assert error_of(result) == "$VISUAL or $EDITOR: 'no-such-editor' cannot be started: No such file or directory"
    result = notes.run("search", "night", "--mode", "lexical", "--open", "9")
    assert error_of(result) == "--open 9: there is 1 hit: give a lower number"


def on_terminal(notes: Cli, *arguments: str, **environment: str) -> str:
    """Run a command on a terminal of 80 columns and 24 lines, and return all that it shows."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "findingaid", *arguments, "--config", str(notes.config)]
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "PAGER", "LESS"}}
    started = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
        env=kept | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"} | environment,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(ours)
    assert started.wait(60) == 0, shown.decode()
    return shown.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colours_its_own_width_and_the_pager_for_long_output(notes: Cli, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text('#!/bin/sh\necho "paged from ${LESS##*+}"\ncat\n')
    pager.chmod(0o755)

    short = on_terminal(notes, "search", "log", "rotation", "-k", "1", PAGER=str(pager))
    plain = on_terminal(notes, "search", "log", "rotation", "-k", "1", PAGER=str(pager), NO_COLOR="1")
    notes.write("long.md", "\n\n".join(f"Paragraph {number} on whales." for number in range(60)))
    notes.run("index")
    long = on_terminal(notes, "show", "long.md:81", PAGER=str(pager))

    assert "\x1b[1;33mlog\x1b[0m" in short
    assert "\x1b[33m" not in plain
    assert "\x1b[1;33m" not in plain
    assert "paged" not in short
    assert "paged from 81g" in long
    assert "Paragraph 59" in long
