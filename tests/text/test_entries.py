"""Entries: rows of tables and named values, each with the span of its line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from findingaid.text.entries import DELIMITED, SETTINGS, Entry, entries, only_asks

TABLE = "# Bill\n\n| item | amount |\n| --- | ---: |\n| Pipe \\| cable | 3 EUR |\n| Tape |  |\n\n| alone | here |\n"
ROWS = {
    "| Pipe \\| cable | 3 EUR |": "item: Pipe | cable; amount: 3 EUR",
    "| Tape |  |": "item: Tape",
    "| alone | here |": "alone; here",
}
YAML = '# Backup\nschedule: "0 3 * * *"\nserver:\n  port: 80\nurl: https://a.example:8080\n'
VALUES = {
    'schedule: "0 3 * * *"': "schedule: 0 3 * * *",
    "  port: 80": "server: port: 80",
    "url: https://a.example:8080": "url: https://a.example:8080",
}


@pytest.mark.parametrize(
    ("text", "media_type", "found"),
    [
        ('name,cost\nAnn,"1,200"\nBo,\n', "text/csv", {'Ann,"1,200"': "name: Ann; cost: 1,200", "Bo,": "name: Bo"}),
        ("name;cost\nAnn;1,20\n", "text/csv", {"Ann;1,20": "name: Ann; cost: 1,20"}),
        ("name\tcost\r\nAnn\t3\r\n", "text/tab-separated-values", {"Ann\t3": "name: Ann; cost: 3"}),
        (TABLE, "text/markdown", ROWS),
        (
            "| **item** | amount |\n| --- | --- |\n| __Pipe__ | ~~3~~ **4** |\n",
            "text/markdown",
            {"| __Pipe__ | ~~3~~ **4** |": "item: Pipe; amount: ~~3~~ **4**"},
        ),
        (YAML, "application/yaml", VALUES),
        ('{\n  "night": "22:30",\n  "all": {\n', "application/json", {'  "night": "22:30",': "night: 22:30"}),
        (
            '{\n  "day": "6:00",\n  "night": "22:30"\n}',
            "application/json",
            {'  "day": "6:00",': "day: 6:00", '  "night": "22:30"': "night: 22:30"},
        ),
        (
            '{"users": [\n  {"name": "Bo", "tags": ["a", 1], "mail": null},\n  {"name": "Al"}]}\n',
            "application/json",
            {'{"name": "Bo", "tags": ["a", 1], "mail": null}': "name: Bo; tags: a, 1", '{"name": "Al"}': "name: Al"},
        ),
        ('[{"a":1},{"a":2}]', "application/json", {'{"a":1}': "a: 1", '{"a":2}': "a: 2"}),
        ('{"a":1}\n{"a":2}\n', "application/jsonl", {'{"a":1}': "a: 1", '{"a":2}': "a: 2"}),
        (
            '{\n  "beta": {\n    "disk": {"size": 4, "kind": "x"},\n    "a": [{"b" 1}]\n  }\n}',
            "application/json",
            {'"disk": {"size": 4, "kind": "x"}': "beta: disk: size: 4; kind: x"},
        ),
        (
            "- [ ] Paint the door (Bo)\n* [x] Call Ann  \r\n- [link](x)\n\n| a | b |\n| - | - |\n| 1 | 2 |\n- [ ]\n",
            "text/markdown",
            {
                "[ ] Paint the door (Bo)": "[ ] Paint the door (Bo)",
                "[x] Call Ann": "[x] Call Ann",
                "| 1 | 2 |": "a: 1; b: 2",
            },
        ),
        ("PORT=8080 \r\nsee https://a.example\r\n", "text/plain", {"PORT=8080": "PORT: 8080"}),
        ("no table\n", "text/markdown", {}),
        ("", "text/csv", {}),
    ],
)
def test_entries_have_the_words_of_their_columns_and_open_at_their_lines(
    text: str, media_type: str, found: dict[str, str]
) -> None:
    assert {text[slice(*span)]: words for words, span, _ in entries(text, media_type)} == found


@pytest.mark.parametrize(
    ("text", "media_type", "found"),
    [
        ("[a.one]\nx = 1\n\n[[two]]  # b\nx = 2\n", "application/toml", ["a.one: x: 1", "two: x: 2"]),
        ("a:\n  # c\n  x: 1\nb:\n  c:\n    x: 2\nx: 3\n", "application/yaml", ["a: x: 1", "b: c: x: 2", "x: 3"]),
        (
            "all:\n- name: a\n  x: 1\n- name: b\n  x: 2\n",
            "application/yaml",
            ["all: name: a", "all: name: a; x: 1", "all: name: b", "all: name: b; x: 2"],
        ),
        (
            json.dumps({"a": {"x": 1}, "all": [{"n": "b", "x": 2}, {"n": "c"}], "x": 3}, indent=2),
            "application/json",
            ["a: x: 1", "all: n: b", "all: n: b; x: 2", "all: n: c", "x: 3"],
        ),
        ("gate {\n  x = 1\n}\nx = 2\n", "text/plain", ["gate: x: 1", "x: 2"]),
        ('{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n', "application/jsonl", ["a: 1; b: x", "a: 2; b: y"]),
        ("One wing\nWarden: Ada\n\nOther wing\nWarden: Bo\n", "text/plain", ["Warden: Ada", "Warden: Bo"]),
    ],
)
def test_a_value_has_the_names_of_what_it_is_in_also_in_a_later_part(
    text: str, media_type: str, found: list[str]
) -> None:
    assert [words for words, *_ in entries(text, media_type)] == found
    for at in (i + 1 for i, sign in enumerate(text) if sign == "\n"):
        later = [words for words, *_ in entries(text[at:], media_type, text[:at])]
        assert later == found[len(found) - len(later) :]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('a,b,c\r\n"X","sold\r\nnow Y, 9",12\r\nZ,,3\r\n', ["a: X; b: sold now Y, 9; c: 12", "a: Z; c: 3"]),
        ("a;b, d;c\n1;2,5;3\n", ["a: 1; b, d: 2,5; c: 3"]),
        ("a;b, c\n1;2,5\n", ["1;2,5"]),  # by commas too, each row has two cells
        ("a,b,c\n1,2\n1,2,3,4\n1,2,3\n", ["1; 2", "1; 2; 3; 4", "a: 1; b: 2; c: 3"]),
        ('a,b\n1,"2" x\n"3\n', []),
        ("product\nBoiler Y\n", ["product: Boiler Y"]),
        ("Bill;;;\nIBAN;DE12;;\n\nday;to;for;sum\n1;A;b;2\n", ["Bill", "IBAN; DE12", "day: 1; to: A; for: b; sum: 2"]),
        ("Bill of May\nday;to;sum\n1;A;2\n2;B;3\n", ["Bill of May", "day: 1; to: A; sum: 2", "day: 2; to: B; sum: 3"]),
        (",sum\n1,2\n2,3\n", ["1; sum: 2", "2; sum: 3"]),  # with numbers of rows
        ("name,note\nAnn,a,b\nBo,c,d\n", ["Ann; a; b", "Bo; c; d"]),
        ("name,note\nAnn,a,b,c,d\nBo,c,d,e,f\nCy,g\n", ["Ann; a; b; c; d", "Bo; c; d; e; f", "name: Cy; note: g"]),
        ("product\nBoiler Y, new\nPump\n", ["Boiler Y, new", "Pump"]),
    ],
)
def test_a_cell_never_has_the_name_of_another_column(text: str, found: list[str]) -> None:
    assert [words for words, *_ in entries(text, "text/csv")] == found


def test_a_part_that_begins_within_a_cell_states_nothing() -> None:
    assert list(entries('now Y, 9",12\n', "text/csv", 'a,b,c\nX,"sold ')) == []


@pytest.mark.parametrize("row", ['Pipe 5",3', '"Pipe, ""wide""",3', 'Pipe,"3"', 'Pipe 5","3"'])
def test_a_part_behind_any_quotes_that_are_closed_has_its_columns(row: str) -> None:
    assert list(entries("Bo,4\n", "text/csv", f"name,cost\n{row}\n")) == [Entry("name: Bo; cost: 4", (0, 4))]


def test_a_later_part_of_a_table_has_the_columns_of_the_whole() -> None:
    assert list(entries("Bo,4\n", "text/csv", "name,cost\nAnn,3\n")) == [Entry("name: Bo; cost: 4", (0, 4))]
    above = "# Costs\n\n| name | cost |\n| --- | --- |\n| Ann | 3 |\n"
    assert list(entries("| Bo | 4 |\n", "text/markdown", above)) == [Entry("name: Bo; cost: 4", (0, 10))]
    assert list(entries("| --- | --- |\n| Bo | 4 |\n", "text/markdown", "| name | cost |\n")) == [
        Entry("name: Bo; cost: 4", (14, 24))
    ]
    assert list(entries("\n| Bo | 4 |\n", "text/markdown", above)) == [Entry("Bo; 4", (1, 11))]


@given(st.text('ab1,;|\\"\n\r\t:=- {[]}x*', max_size=80), st.sampled_from([*DELIMITED, *SETTINGS, "text/markdown"]))
def test_spans_of_any_text_are_within_it_and_do_not_overlap(text: str, media_type: str) -> None:
    at = 0
    for _, (start, end), _ in entries(text, media_type):
        assert at <= start < end <= len(text)
        at = end


@pytest.mark.parametrize(
    ("words", "asks"),
    [
        ("question: How deep is it?", True),
        ("id: 3; question: How deep is it?; answer: ", True),
        ("answer: null; question: How deep is it?; answered by:", True),
        ("faq: question: How deep is it?; answer: TBD", True),
        ("[ ] Who feeds the cat？", True),  # noqa: RUF001  # in any script
        ("id: 3; question: How deep is it?; answer: 42", False),
        ("question: When does it open?; answer: 12:30", False),
        ("answer: 42; question: How many are there?", False),
        ("faq: answer: 9-17; question: How long is it open?", False),
        ("date: 2026-03-01; question: When does it open?", True),
        ("answer: Nobody; question: Who feeds the cat?", False),
        ("place: Ulm; answer: ", False),
    ],
)
def test_a_question_with_an_empty_answer_only_asks(words: str, asks: bool) -> None:
    assert only_asks(words) == asks
