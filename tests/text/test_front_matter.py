"""Front matter of Markdown files."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from findingaid.identity.hashes import to_json
from findingaid.text.file_metadata import file_metadata
from findingaid.text.front_matter import FrontMatter
from tests.conftest import Cli

NOTE = """---
title: "  Ledgers: a note "
date: 2026-03-02
edited: 2026-03-02 10:00:00
tags: [store, "crash safety"]
aliases:
  - The ledger
author: Ada
draft: false
weight: 3
rating: .nan
cover: {image: a.png}
mixed: [1, {a: b}]
empty:
blank: " "
path: elsewhere.md
7: seven
---
# A heading

Text.
"""

FIELDS = {
    "title": "Ledgers: a note",
    "date": "2026-03-02",
    "edited": "2026-03-02T10:00:00",
    "tags": ["store", "crash safety"],
    "aliases": ["The ledger"],
    "author": "Ada",
    "draft": False,
    "weight": 3,
    "path": "elsewhere.md",
}


@pytest.mark.parametrize("note", [NOTE, NOTE.replace("\n", "\r\n"), "\ufeff" + NOTE])
def test_plain_fields_and_lists_are_taken(note: str) -> None:
    assert file_metadata(note, "a.md")[0] == FIELDS


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: Said\n---\n# Head", "Said"),
        ("---\n# a comment\nx: 1\n---\n# Head ##", "Head"),
        ("---\ntitle: 2024\n---\n# Head", "2024"),
        ("---\ntitle: No\n---\n# Head", "No"),
        ("```\n# no heading\n```\n\nHead\n====", "Head"),
        ("# The *plain* `head` &amp; [more](b.md) {#id}", "The plain head & more"),
        ("> # quoted\n\n## Head", "Head"),
        ("---\ntitle:\n---\nText.", "a.md"),
        ("---\ntitle: |\n  Two\n  lines\n---\n", "Two lines"),
        ("# Head", "Head"),
        ("Text.", "a.md"),
    ],
)
def test_a_title_is_what_is_said_else_the_first_heading_else_the_name(text: str, title: str) -> None:
    assert file_metadata(text, "a.md")[0]["title"] == title


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nA ruler above, and a ruler below.\n\n---\n",
        "---\nNever: closed\n",
        "--- not: one\n---\n",
        "Text.\n---\na: b\n---\n",
        "---\n---\n",
        "---\n# only a comment\n---\n",
    ],
)
def test_what_is_no_front_matter_or_says_nothing_is_no_problem(text: str) -> None:
    assert set(file_metadata(text, "a.md")[0]) == {"title"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("---\na: b\nc: d: e\n---\n", "line 3: is no YAML: mapping values are not allowed here"),
        ("---\na: \x07\n---\n", "line 1: is no YAML: unacceptable character #x0007"),
        ("---\na: !!python/object:os.system {}\n---\n", "line 2: is no YAML: could not determine a constructor"),
        (f"---\na: {'[' * 2000}\n---\n", "line 1: is no YAML: maximum recursion depth exceeded"),
        (f"---\na: {'x' * 20_000}\n---\n", "line 1: is longer than 20,000 characters"),
        (f"---\na: &a [{'1, ' * 600}]\nb: *a\n---\n", "line 1: has more than 1,000 values"),
    ],
)
def test_a_problem_is_said_by_line_and_takes_no_other_field_along(text: str, problem: str) -> None:
    fields, _ = file_metadata(text + "# Head", "a.md")

    assert fields["title"] == "Head"
    assert fields["front_matter"].startswith(problem)
    assert "\n" not in fields["front_matter"]
    assert set(fields) == {"title", "front_matter"}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("01234", "01234"),
        ("1.10", "1.10"),
        ("1.5", 1.5),
        ("NO", "NO"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("0x1F", "0x1F"),
        ("+49", "+49"),
        ("2024-13-45", "2024-13-45"),
        ("true", True),
        ("-7", -7),
        ("[007, 8]", ["007", 8]),
    ],
)
def test_a_scalar_keeps_its_text(written: str, value: Any) -> None:
    assert file_metadata(f"---\nx: {written}\n---\n", "a.md")[0]["x"] == value


def test_names_of_fields_are_in_lower_case_and_repeated_ones_are_noted() -> None:
    fields, notes = file_metadata("---\nOwner: Ada\nsame: 1\nsame: 1\nowner: Bob\n---\n", "a.md")

    assert fields == {"title": "a.md", "owner": "Bob", "same": 1}
    assert [(note.kind, note.words) for note in notes] == [
        ("repeated_key", "front matter repeats owner: the last counts")
    ]


def test_values_that_no_table_holds_are_taken_as_text() -> None:
    fields, _ = file_metadata('---\na: "half \\ud800"\nb: 123456789012345678901\nc: .inf\n---\n', "a.md")

    assert fields == {"title": "a.md", "a": "half ?", "b": "123456789012345678901"}


@given(st.text(st.sampled_from("ab:-[]{}&*!'\"#|>%@ \n\t01?,.~=<"), max_size=60))
@example("&a [*a]")
@example("x: &a [*a]")
@example("? {a: b}\n: c")
def test_whatever_stands_there_it_is_read_or_the_problem_said(matter: str) -> None:
    text = f"---\n{matter}\n---\n"

    fields: dict[str, Any] = file_metadata(text, "a.md")[0]

    assert to_json(fields)
    assert FrontMatter.of(text).problem or "front_matter" not in fields


def test_front_matter_becomes_filter_fields_and_broken_front_matter_is_indexed_with_its_problem(cli: Cli) -> None:
    cli.write("good.md", NOTE)
    cli.write("bad.md", "---\na: b: c\n---\nLedgers all the same.")

    report = cli.run("index")
    good = cli.json("search", "text", "--where", "metadata LIKE '%crash safety%'")
    bad = cli.json("search", "ledgers", "--where", "metadata LIKE '%\"front_matter\":%'")

    assert report.exit_code == 0
    assert [(hit["artifact_id"], hit["metadata"]["path"]) for hit in good] == [("good.md", "good.md")] * len(good) != []
    assert good[0]["metadata"]["tags"] == ["store", "crash safety"]
    assert {hit["artifact_id"] for hit in bad} == {"bad.md"}


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("---\ntags: [store, '#crash']\n---\n", ["store", "crash"]),
        (
            "---\ntags: energy, house\n---\nAt #home/energy, #2024-05 and #house.",
            ["energy", "house", "home/energy", "2024-05"],
        ),
        ("# Heading #one\n\n#my_tag (#no) a#no #12 `#no`\n\n```\n#no\n```\n\n<b title=' #no'>\n", ["one", "my_tag"]),
        ('See [#link](https://example.org/#no "a #no") and https://example.org/#no', ["link"]),
        ("#" + "x" * 201, None),
        ("# Heading", None),
    ],
)
def test_tags_are_those_of_front_matter_and_text(text: str, tags: list[str] | None) -> None:
    assert file_metadata(text, "a.md")[0].get("tags") == tags


def test_aliases_are_a_list_also_where_they_are_written_as_one_text() -> None:
    assert file_metadata("---\naliases: The Plan, Plan B\n---\n", "a.md")[0]["aliases"] == ["The Plan", "Plan B"]
    assert file_metadata("---\naliases: [One, 2]\n---\n", "a.md")[0]["aliases"] == ["One", "2"]


def test_tags_are_no_more_than_the_values_of_front_matter() -> None:
    assert len(file_metadata(" ".join(f"#t{i}" for i in range(3_000)), "a.md")[0]["tags"]) == 1_000
