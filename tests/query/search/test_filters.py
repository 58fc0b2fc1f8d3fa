"""Filters: validated against the fields of the corpora, applied before ranking, refused in one line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from findingaid import Corpus, FindingAid, QueryError, StoreError
from findingaid.store import Store
from findingaid.strategies.whole_text import WholeText
from findingaid.testing import CountingEmbedder, MemorySource
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "filters.md").read_text()
EXAMPLES = [span for row in re.findall(r"^\| `.*", PAGE, re.MULTILINE) for span in re.findall(r"`([^`]+)`", row)[1:]]
IN_TEXT = ["day >= '2026-02-01'", "owner IS NULL OR NOT (owner = 'anna')", "CAST(year AS INT) > 2020"]

METADATA: dict[str, dict[str, Any]] = {
    "first": {
        "draft": True, "year": 2019, "rating": 4.0, "owner": "anna", "time": "2025-11-22T05:31:11Z", "tools": ["Edit"],
        "sizes": [1], "shares": [1.0], "day": "2026-01-31", "Author": "Ada", "my field": "x", "select": 1,
    },
    "second": {
        "draft": False, "year": 2026, "rating": 4.9, "owner": "bob", "time": "2026-11-22T05:31:11Z", "tools": [],
        "sizes": [2, 3], "shares": [0.5], "day": "2026-02-01",
    },
    "third": {
        "year": 2021, "tools": ["Bash", "Read"], "time": "2026-11-22T05:31:12Z",
    },
    "fourth": {},
}  # fmt: skip


@pytest.fixture(scope="module")
def aid(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    """A corpus of four with fields, and one of forty in which every text is nearer to the query."""
    notes = MemorySource({i: f"a note, the {i}" for i in METADATA}, METADATA)
    crowd = MemorySource({f"{i:02d}": "query " * 5 for i in range(40)}, {"07": {"seat": 7}})
    corpora = {"notes": Corpus("notes", notes, WholeText()), "crowd": Corpus("crowd", crowd, WholeText())}
    aid = FindingAid(Store(str(tmp_path_factory.mktemp("where") / "index")), CountingEmbedder(), corpora)
    assert aid.index().ok
    return aid


def found(aid: FindingAid, where: str, **how: Any) -> set[str]:
    return {hit.artifact_id for hit in aid.search("note query", 50, where=where, **{"corpora": ["notes"], **how})}


def refused(aid: FindingAid, where: str, **how: Any) -> str:
    with pytest.raises(QueryError) as raised:
        found(aid, where, **how)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_there_are_examples_to_check() -> None:
    assert len(EXAMPLES) > 12
    assert all(f"`{example}`" in PAGE for example in IN_TEXT)


@pytest.mark.parametrize("where", [*EXAMPLES, *IN_TEXT])
def test_every_example_of_the_documentation_selects_some_and_not_all(aid: FindingAid, where: str) -> None:
    assert 0 < len(found(aid, where)) < len(METADATA)


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("year > 2019 AND (array_has(tools, 'Bash') OR rating > 4.5)", {"second", "third"}),
        ("NOT (year = 2019 OR owner = 'bob')", set()),
        ("NOT array_has(tools, 'Bash')", {"first", "second"}),
        ("array_length(tools) = 0", {"second"}),
        ("owner IS NULL", {"third", "fourth"}),
        ("year IS NOT NULL AND owner IS NULL", {"third"}),
        ("owner IN ('anna', 'bob') AND year <> 2019", {"second"}),
        ("time = timestamp '2026-11-22T06:31:11+01:00'", {"second"}),
        ("time BETWEEN timestamp '2026-01-01' AND timestamp '2026-11-22T05:31:11Z'", {"second"}),
        ("author = 'Ada'", {"first"}),
        ("AUTHOR = 'Ada'", {"first"}),
        ("\"Author\" = 'Ada'", {"first"}),
        ("`my field` = 'x' AND `select` = 1", {"first"}),
        ("owner = 'an' || 'na' -- a word on it", {"first"}),
        ("owner = 'anna' /* ' \" ` */ OR year = 2026", {"first", "second"}),
        ("artifact_id = 'first' OR corpus = 'crowd'", {"first"}),
    ],
)
def test_a_filter_selects(aid: FindingAid, where: str, wanted: set[str]) -> None:
    assert found(aid, where) == wanted


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_typed_filters_apply_before_ranking(aid: FindingAid, mode: str) -> None:
    """None of these is among the forty best of all."""
    assert found(aid, "year > 2019", mode=mode, corpora=None) == {"second", "third"}
    assert len(aid.search("note query", 1, where="year > 2019", mode=mode)) == 1  # type: ignore[arg-type]
    assert found(aid, "year > 2019 OR seat = 7", mode=mode, corpora=None) == {"second", "third", "07"}


def test_a_field_that_no_corpus_searched_has_lists_those_they_have(aid: FindingAid) -> None:
    one = refused(aid, "seat = 7")
    other = refused(aid, "tols = 'x'", corpora=["crowd"])
    both = refused(aid, "sead = 7", corpora=["notes", "crowd"])

    assert one.startswith("where 'seat = 7': notes has no field 'seat'")
    assert "tools (list<string>)" in one
    assert "year (int64)" in one
    assert "seat (" not in one
    assert other.endswith("embedder_id, media_type (string), seat (int64)")
    assert "'tools'" not in other
    assert "notes, crowd have no field 'sead'. Did you mean 'seat'?" in both
    assert found(aid, "seat = 7 OR year = 2019", corpora=["notes", "crowd"]) == {"07", "first"}


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("year > 'abc'", '"abc" is not of type int64.'),
        ("owner = 1", "1 is not of type string."),
        ("draft = 'yes'", '"yes" is not of type bool.'),
        ("time > '2026-01-01'", "write a time as timestamp '2026-01-31T12:00:00Z'."),
        ("time > timestamp 'soon'", "Error parsing timestamp from 'soon'"),
        ("tools = 'Bash'", "search a list with array_has(tools, 'Bash')."),
        ("array_has(tools, 1)", "Cannot cast string 'Edit' to value of Int64 type."),
        ("frobnicate(owner) = 1", "Invalid function 'frobnicate'."),
        ("year", "The filter year does not return a boolean."),
        ("year =", "not valid SQL at the end of 'year ='"),
        ("select = 1", "put a name that is an SQL keyword in backticks"),
        ("owner = \"anna\"", "notes has no field 'anna'; put text in single quotes."),
        ("year IN (SELECT 2019)", "expected one condition"),
        ("EXISTS (SELECT 1)", "expected one condition"),
        ("year = 2019 UNION SELECT 1", "not valid SQL"),
        ("true; DROP TABLE records", "not valid SQL"),
        ("true) OR (true", "not valid SQL"),
        ("count(*) > 1", "expected one condition"),
        ("year = ?", "expected one condition"),
        ("owner = N'anna'", "expected one condition"),
        (" ", "expected one condition"),
        ("metadata.owner = 'anna'", "notes has no field 'metadata.owner'."),
        ("vector = 1", "notes has no field 'vector'."),
        ("_rowid = 1", "notes has no field '_rowid'."),
    ],
)  # fmt: skip
def test_what_is_no_filter_is_refused_with_the_reason_and_the_fields(aid: FindingAid, where: str, reason: str) -> None:
    message = refused(aid, where)

    assert reason in message
    assert message.startswith(f"where {where!r}: ")
    assert "Fields: record_id, corpus" in message


def test_the_library_says_which_fields_there_are(aid: FindingAid) -> None:
    fields = {field.name: (field.type, field.records) for field in aid.fields()["notes"]}

    assert fields["time"] == ("timestamp", 3)
    assert fields["shares"] == ("list<double>", 2)
    assert [field.name for field in aid.fields(["crowd"])["crowd"]] == ["media_type", "seat"]
    assert aid.fields(["crowd"]).keys() == {"crowd"}


def test_the_fields_of_nothing_published_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="run `findingaid index`"):
        FindingAid(Store(str(tmp_path / "none")), CountingEmbedder(), {}).fields()


def test_a_parser_is_imported_for_a_filter_only(aid: FindingAid) -> None:
    code = (
        "import sys; from findingaid.query.search import Request, Searcher; from findingaid.store import Store;"
        "from findingaid.testing import CountingEmbedder; searcher = Searcher(Store(sys.argv[1]), CountingEmbedder());"
        "searcher.search(Request(('note',))); print('sqlglot' in sys.modules);"
        "searcher.search(Request(('note',), where='year > 1')); print('sqlglot' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code, aid.store.uri], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "True"]
