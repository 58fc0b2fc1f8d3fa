"""Records source: rows of files and tables, including invalid rows."""

from __future__ import annotations

import os
import time
from datetime import UTC
from datetime import time as time_of_day
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from findingaid import Corpus, FindingAid, Source, SourceError
from findingaid.errors import ConfigError, ReadError
from findingaid.sources import SOURCES
from findingaid.sources.records import BLOCKS, WRITING_SECONDS, RecordFile, Records
from findingaid.store import Store
from findingaid.strategies import WholeText
from findingaid.testing import HashEmbedder
from findingaid.text.decoding import decode
from tests.conftest import Cli
from tests.sources.test_files import LFS

PEOPLE = [
    {"id": 1, "title": "Ada", "text": "wrote about engines", "born": 1815},
    {"id": 2, "title": "Grace", "text": "wrote compilers", "born": 1906},
]


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def listed(source: Source) -> list[str]:
    return [listing.artifact_id for listing in source.discover().listings]


def failed(source: Source) -> dict[str, tuple[str, str]]:
    return {failure.artifact_id: (failure.kind, failure.message) for failure in source.discover().failures}


@pytest.fixture(params=["jsonl", "csv", "tsv", "parquet", "mappings", "frame"])
def people(request: pytest.FixtureRequest, tmp_path: Path) -> RecordFile | Records:
    columns: dict[str, Any] = {"text": ("title", "text"), "metadata": "born"}
    frame = pd.DataFrame(PEOPLE)
    path = tmp_path / f"people.{request.param}"
    match request.param:
        case "jsonl":
            frame.to_json(path, orient="records", lines=True)
        case "csv" | "tsv":
            frame.to_csv(path, index=False, sep="," if request.param == "csv" else "\t")
        case "parquet":
            pq.write_table(pa.Table.from_pylist(PEOPLE), path)
        case "mappings":
            return Records(PEOPLE, **columns)
        case "frame":
            return Records(frame, **columns)
    return RecordFile(path, **columns)


def test_a_row_is_an_artifact_whatever_the_format(people: Source) -> None:
    artifact = people.read("1")

    assert listed(people) == ["1", "2"]
    assert artifact.raw == "Ada\n\nwrote about engines"
    assert str(artifact.metadata["born"]) == "1815"


def test_without_text_columns_the_payload_is_the_row() -> None:
    assert Records(PEOPLE).read("2").raw == PEOPLE[1]


def test_a_row_that_changed_has_another_stamp_and_its_neighbours_have_not(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "id,text\na,one\nb,two\n")
    source = RecordFile(path, text="text")
    before = {listing.artifact_id: listing.stamp for listing in source.discover().listings}
    put(tmp_path, "a.csv", "id,text\nnew,zero\na,one\nb,changed\n")

    after = {listing.artifact_id: listing.stamp for listing in source.discover().listings}

    assert after["a"] == before["a"]
    assert after["b"] != before["b"]
    assert source.read("b").raw == "changed"


def test_a_missing_id_and_a_duplicate_fail_alone_by_file_and_line(tmp_path: Path) -> None:
    rows = '{"id": "a", "text": "1"}\n{"text": "2"}\n\n{"id": "a", "text": "3"}\n{"id": null, "text": "4"}\n'

    source = RecordFile(put(tmp_path, "a.jsonl", rows), text="text")

    assert listed(source) == ["a"]
    assert source.read("a").raw == "1"
    assert failed(source) == {
        "a.jsonl:2": ("missing", "no 'id': give the row an id"),
        "a.jsonl:4": ("duplicate", "duplicate id 'a' (first at a.jsonl:1); keeping the first"),
        "a.jsonl:5": ("missing", "no 'id': give the row an id"),
    }
    assert source.discover().unknown == ()


def rested(path: Path) -> Path:
    """Age a file, as if it had not been written to for a while."""
    os.utime(path, (0, time.time() - 2 * WRITING_SECONDS))
    return path


def test_half_a_jsonl_line_at_the_end_waits_for_the_next_run(tmp_path: Path) -> None:
    """Half a line is not a failure: the rest may still be written."""
    source = RecordFile(put(tmp_path, "a.jsonl", '{"id": "a"}\n{"id": "b", "te'))

    assert listed(source) == ["a"]
    assert failed(source) == {}
    assert source.discover().unknown == ("",)


def test_half_a_last_line_that_nobody_goes_on_with_is_a_failure(tmp_path: Path) -> None:
    source = RecordFile(rested(put(tmp_path, "a.jsonl", '{"id": "a"}\n{"id": "b", "te')))

    assert failed(source) == {"b": ("parse", "a.jsonl:2: not JSON: unexpected end of data")}
    assert source.discover().unknown == ()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"id": "b", "te', "b"),
        ('{"id": "b"', "b"),
        ('{"text": {"id": "x", "y": "z"}, "id": 12, "tag": "t", "te', "12"),
        ('{"id": "b", "text": "Gr', "b"),
        ('{"id": "b', None),
        ('{"id": 12', None),
        ('{"text": {"id": "x"', None),
        ('{"te', None),
        ('{"id": "b", "te{"id": "c", "text": "two rows, the first cut short"}', None),
        ('{"id": "b"}{"id": "c", "te', None),
        ("[1]", None),
        ("\x07", None),
    ],
)
def test_a_broken_line_fails_alone_and_keeps_others_from_being_deleted_only_if_it_may_be_theirs(
    tmp_path: Path, line: str, told: str | None
) -> None:
    source = RecordFile(put(tmp_path, "a.jsonl", f'{{"id": "a"}}\n{line}\n{{"id": "d"}}\n'))

    assert listed(source) == ["a", "d"]
    ((where, (kind, message)),) = failed(source).items()
    assert (where, kind) == (told or "a.jsonl:2", "parse")
    assert source.discover().unknown == (() if told else ("",))
    assert ("nothing is deleted" in message) == (not told)


def test_a_line_cut_short_whose_id_stands_elsewhere_too_does_that_row_no_harm(tmp_path: Path) -> None:
    source = RecordFile(put(tmp_path, "a.jsonl", '{"id": "a", "te\n{"id": "a"}\n'))

    assert listed(source) == ["a"]
    assert list(failed(source)) == ["a.jsonl:1"]
    assert source.discover().unknown == ()


def test_a_csv_row_of_another_length_fails_alone_by_its_first_line(tmp_path: Path) -> None:
    rows = 'id,text\na,"two\nlines"\nb,too,many\nc,fine\nd,"never closed\n'

    source = RecordFile(rested(put(tmp_path, "a.csv", rows)), text="text")

    assert listed(source) == ["a", "c"]
    assert source.read("a").raw == "two\nlines"
    assert failed(source)["a.csv:4"] == ("parse", "3 fields, but the header has 2" + BLOCKS)
    assert failed(source)["a.csv:6"][0] == "parse"


def test_a_zero_byte_in_a_row_of_csv_stops_no_other_row(tmp_path: Path) -> None:
    rows = "".join(f"{n},Row {n} has plain words\n" for n in range(20))
    source = RecordFile(put(tmp_path, "a.csv", f"\ufeffid,text\n{rows}x,a zero \0 byte\n"), text="text")

    assert len(listed(source)) == 21
    assert source.read("x").raw == "a zero \0 byte"
    with pytest.raises(SourceError, match="not text"):
        RecordFile(put(tmp_path, "b.csv", "id,text\na,words\n".encode("utf-16-le")), text="text").discover()


def test_long_fields_are_read_whole(tmp_path: Path) -> None:
    source = RecordFile(put(tmp_path, "a.csv", f"id,text\na,{'x' * 200_000}\n"), text="text")

    assert len(str(source.read("a").raw)) == 200_000


@pytest.mark.parametrize("artifact_id", ["new\nline", "quote'\"", "emoji 🗂", "../up", "ä", "0", "False"])
def test_odd_ids_stand_as_they_are(tmp_path: Path, artifact_id: str) -> None:
    path = tmp_path / "a.csv"
    pd.DataFrame([{"id": artifact_id, "text": "x"}]).to_csv(path, index=False)

    assert listed(RecordFile(path)) == [artifact_id]
    assert listed(Records([{"id": artifact_id}])) == [artifact_id]


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert listed(RecordFile(put(tmp_path, "a.jsonl", ""))) == []
    assert listed(RecordFile(put(tmp_path, "a.csv", ""))) == []
    with pytest.raises(SourceError, match="not Parquet"):
        RecordFile(put(tmp_path, "a.parquet", "")).discover()


def test_a_latin1_csv_is_read_and_a_latin1_line_of_jsonl_fails_alone(tmp_path: Path) -> None:
    table = RecordFile(put(tmp_path, "a.csv", "id;text\na;Größe\n".encode("latin-1")), text="text", delimiter=";")
    lines = RecordFile(put(tmp_path, "a.jsonl", '{"id": "Größe"}\n'.encode("latin-1") + b'{"id": "b"}\n'))

    assert table.read("a").raw == "Größe"
    assert listed(lines) == ["b"]
    assert failed(lines)["a.jsonl:1"][0] == "encoding"
    assert lines.discover().unknown == ("",)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_a_column_that_no_row_has_is_named_with_those_there_are(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, name, '{"key": 1}\n' if name == "a.jsonl" else "key,text\n1,x\n")
    if name == "a.parquet":
        pq.write_table(pa.table({"key": [1]}), path)

    with pytest.raises(SourceError, match=r"no column 'id'. Known: key"):
        RecordFile(path).discover()
    with pytest.raises(ReadError, match="no column 'id'"):
        RecordFile(path).read("1")


def test_a_file_that_is_not_there_or_of_another_kind_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        RecordFile(tmp_path / "gone.csv").discover()
    with pytest.raises(ConfigError, match=r"unknown suffix. Known: .jsonl"):
        SOURCES.create({"kind": "records", "path": "a.xlsx"}, "source")
    with pytest.raises(ConfigError, match="expected one character"):
        SOURCES.create({"kind": "records", "path": "a.csv", "delimiter": "||"}, "source")


def test_a_row_over_the_limit_fails_alone_and_names_the_setting() -> None:
    source = Records([{"id": "a", "text": "x" * 100}, {"id": "b", "text": "x"}], text="text", max_bytes=99)

    assert source.read("b").raw == "x"
    with pytest.raises(ReadError, match=r"row 0: 100 bytes, more than source\.max_bytes = 99"):
        source.read("a")


def test_what_pandas_puts_for_nothing_is_nothing() -> None:
    frame = pd.DataFrame(
        {"id": [1, None, 3], "text": ["a", "b", None], "at": pd.to_datetime(["2024-01-02", None, None])}
    )
    frame["note"] = pd.array(["x", None, None], dtype="string")

    source = Records(frame, text="text", metadata=("at", "note"))

    assert listed(source) == ["1", "3"]
    assert list(failed(source)) == ["row 1"]
    assert source.read("3").raw == ""
    assert source.read("3").metadata == {"at": None, "note": None}


def test_text_that_is_no_unicode_fails_alone() -> None:
    source = Records([{"id": "a", "text": "\ud800"}, {"id": "b", "text": "x"}], text="text")

    assert listed(source) == ["b"]
    assert failed(source)["a"][0] == "encoding"


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("cut", ["b,tw", "b,", "b", 'b,"two\n', "", "id,te", "id,text\n"])
def test_what_may_follow_in_a_table_that_is_being_written_is_not_taken_for_deleted(
    tmp_path: Path, name: str, cut: str
) -> None:
    begun = cut.startswith("id,") or not cut
    rows = cut if begun else f"id,text\na,one\n{cut}"
    path = put(tmp_path, name, rows.replace(",", "\t" if name == "a.tsv" else ","))
    source = RecordFile(path, text="text")

    young = source.discover()
    rested(path)
    old = source.discover()

    assert [x.artifact_id for x in young.listings] == ([] if begun else ["a"])
    assert (young.failures, young.unknown, len(young.notes)) == ([], ("",), 1)
    assert "less than a minute ago" in young.notes[0]
    assert old.notes == []
    assert old.failures == [] or not begun
    assert [x.artifact_id for x in old.listings] == (["a", "b"] if cut in {"b,tw", "b,"} else listed(source))


def test_a_file_from_a_clock_that_was_ahead_is_read_whole(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "id,text\na,one\nb,two")
    os.utime(path, (0, time.time() + 2 * WRITING_SECONDS))

    found = RecordFile(path, text="text").discover()

    assert ([x.artifact_id for x in found.listings], found.unknown, found.notes) == (["a", "b"], (), [])


def test_a_whole_last_line_of_json_is_read_at_once_but_more_may_follow(tmp_path: Path) -> None:
    found = RecordFile(put(tmp_path, "a.jsonl", '{"id": "a"}\n{"id": "b"}')).discover()

    assert [x.artifact_id for x in found.listings] == ["a", "b"]
    assert found.unknown == ("",)


def test_a_file_that_is_written_while_it_is_read_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, "a.csv", "id,text\na,one\n")
    monkeypatch.setattr(
        "findingaid.sources.records.decode", lambda content: (path.write_bytes(b""), decode(content))[1]
    )

    found = RecordFile(path, text="text").discover()

    assert ([x.artifact_id for x in found.listings], found.unknown) == (["a"], ("",))
    assert "changed while it was read" in found.notes[0]


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_a_file_that_is_rewritten_line_by_line_loses_no_row_that_is_not_written_yet(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {
        "a.jsonl": [f'{{"id": "{i}", "text": "Row {i} of many."}}\n' for i in "abcd"],
        "a.csv": ["id,text\n", *(f"{i},Row {i} of many.\n" for i in "abcd")],
    }[name]
    path = put(tmp_path, name, "".join(rows))
    corpus = Corpus("docs", RecordFile(path, text="text"), WholeText())
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": corpus})
    aid.index()

    put(tmp_path, name, "".join(rows[:-1]))
    with monkeypatch.context() as patched:
        writer = SimpleNamespace(time=time.time, sleep=lambda _: path.write_text("".join(rows)))
        patched.setattr("findingaid.sources.records.time", writer)
        report = aid.index().corpora["docs"]
    assert (report.deleted, report.waits) == (0, ["the source is being written: nothing is deleted until a later run"])
    assert len(aid.artifacts()) == 4

    put(tmp_path, name, "".join(rows[:-1]))
    assert aid.index().corpora["docs"].deleted == 1
    assert len(aid.artifacts()) == 3


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("NaN", None),
        ("Infinity", None),
        ("-Infinity", None),
        ('"a\tb"', "a\tb"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("18446744073709551615", 2**64 - 1),
        ('"\\ud83d\\ude00"', "😀"),
    ],
)
def test_what_programs_write_beyond_json_leaves_a_row_its_id(tmp_path: Path, value: str, read: object) -> None:
    source = RecordFile(put(tmp_path, "a.jsonl", f'{{"x": {value}, "id": "a"}}\n'), metadata="x")

    assert (listed(source), source.discover().unknown) == (["a"], ())
    assert source.read("a").metadata["x"] == read


@pytest.mark.parametrize("field", ['"x": "\\ud83d"', '"\\ud83d": 1', '"x": {"y": ["\\ude00 half"]}', '"x": "caf\xe9"'])
def test_a_row_with_half_an_emoji_fails_under_its_id_and_keeps_what_was_indexed(tmp_path: Path, field: str) -> None:
    line = f'{{"id": "b", {field}}}\n'.encode("latin-1")
    found = RecordFile(put(tmp_path, "a.jsonl", b'{"id": "a"}\n' + line)).discover()

    assert ([x.artifact_id for x in found.listings], found.unknown) == (["a"], ())
    assert [(x.artifact_id, x.kind) for x in found.failures] == [("b", "encoding")]
    assert "a.jsonl:2" in found.failures[0].message


@pytest.mark.parametrize("levels", [201, 300, 900])
@pytest.mark.parametrize("nested", [("[", "]"), ('{"a":', "}")])
def test_a_row_that_is_nested_too_deeply_fails_alone(tmp_path: Path, levels: int, nested: tuple[str, str]) -> None:
    deep = f"{nested[0] * levels}1{nested[1] * levels}"
    rows = f'{{"id": "a", "x": 1}}\n{{"id": "b", "x": {deep}}}\n'
    found = RecordFile(put(tmp_path, "a.jsonl", rows), metadata="x").discover()

    assert ([x.artifact_id for x in found.listings], found.unknown) == (["a"], ())
    assert [x.artifact_id for x in found.failures] == ["b"]
    assert "nested more than 200 levels deep" in found.failures[0].message


def test_an_id_that_is_nested_too_deeply_is_unknown(tmp_path: Path) -> None:
    rows = f'{{"id": "a"}}\n{{"id": {"[" * 900}{"]" * 900}}}\n'
    found = RecordFile(put(tmp_path, "a.jsonl", rows)).discover()

    assert ([x.artifact_id for x in found.listings], found.unknown) == (["a"], ("",))


@pytest.mark.parametrize("value", ["1e400", "18446744073709551617.0", "1e20"])
def test_an_id_that_a_float_cannot_hold_is_unknown(tmp_path: Path, value: str) -> None:
    found = RecordFile(put(tmp_path, "a.jsonl", f'{{"id": {value}}}\n')).discover()

    assert (found.listings, len(found.failures)) == ([], 1)
    assert found.unknown == (() if value == "1e400" else ("",))


def test_ids_beyond_64_bits_stay_apart(tmp_path: Path) -> None:
    ids = [str(2**64 + n) for n in (0, 1, 2)] + ["-9223372036854775809", "9" * 5000]
    rows = "".join(f'{{"id": {i}}}\n' for i in ids)

    assert listed(RecordFile(put(tmp_path, "a.jsonl", rows))) == sorted(ids)
    assert listed(Records([{"id": 2**70}, {"id": 2**70 + 1}])) == [str(2**70), str(2**70 + 1)]


def test_a_column_that_is_read_and_stands_twice_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "id,text,text,,\na,1,2,,\n")

    for columns in ((), "text"):
        with pytest.raises(SourceError, match="two columns are called 'text'"):
            RecordFile(path, text=columns).discover()
    put(tmp_path, "a.csv", "id,text,note,note\na,1,2,3\n")
    assert listed(RecordFile(path, text="text")) == ["a"]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_pointer_of_git_lfs_in_place_of_records_is_named_with_its_remedy(tmp_path: Path, suffix: str) -> None:
    path = put(tmp_path, f"a.{suffix}", LFS)

    with pytest.raises(SourceError, match="git lfs pull"):
        RecordFile(path).discover()


def test_rows_changed_in_memory_are_seen_by_the_next_run() -> None:
    rows = [{"id": "a", "text": "one"}]
    source = Records(rows, text="text")
    source.discover()
    rows.append({"id": "b", "text": "two"})

    assert listed(source) == ["a", "b"]
    assert source.read("b").raw == "two"


def test_records_are_indexed_and_only_the_changed_row_again(cli: Cli) -> None:
    put(cli.docs, "a.csv", "id,text,tag\na,Ledgers are kept,x\nb,Vectors are counted,y\n")
    source = {"kind": "records", "path": "docs/a.csv", "text": "text", "metadata": ["tag"]}
    cli.settings["corpora"] = {"docs": {"source": source}}
    assert cli.run("index").exit_code == 0
    put(cli.docs, "a.csv", "id,text,tag\na,Ledgers are kept,x\nb,Vectors are drawn,y\n")

    report = cli.json("index")["corpora"]["docs"]

    assert (report["unchanged"], report["changed"], report["calls"]["embed"]) == (1, 1, 1)
    assert cli.json("search", "vectors drawn")[0]["metadata"]["tag"] == "y"


def test_a_row_whose_line_is_cut_short_stays_indexed_until_it_is_whole_again_while_others_are_deleted(cli: Cli) -> None:
    rows = [f'{{"id": "{i}", "text": "{i} kept"}}' for i in "cdef"]
    whole = '{"id": "a", "text": "Ledgers are kept"}\n{"id": "b", "text": "Vectors are counted"}\n'
    put(cli.docs, "a.jsonl", "\n".join([*rows, whole]))
    cli.settings["corpora"] = {"docs": {"source": {"kind": "records", "path": "docs/a.jsonl", "text": "text"}}}
    cli.run("index")
    put(cli.docs, "a.jsonl", "\n".join([*rows[1:], whole[:-20], ""]))

    broken = cli.run("index")
    kept = {hit["artifact_id"] for hit in cli.json("search", "vectors counted")}
    put(cli.docs, "a.jsonl", "\n".join([*rows[1:], whole]))

    assert broken.exit_code == 1
    assert "docs: b: a.jsonl:5: not JSON" in broken.stderr
    assert kept == {"a", "b", "d", "e", "f"}
    assert cli.run("index").exit_code == 0
    assert [(c["artifacts"], c["failed"]) for c in cli.json("status")] == [(5, [])]


def test_half_a_jsonl_line_does_not_fail_a_run_and_is_indexed_by_the_next(cli: Cli) -> None:
    whole = '{"id": "a", "text": "Ledgers are kept"}\n{"id": "b", "text": "Vectors are counted"}\n'
    put(cli.docs, "a.jsonl", whole[:-20])
    cli.settings["corpora"] = {"docs": {"source": {"kind": "records", "path": "docs/a.jsonl", "text": "text"}}}

    half = cli.run("index")
    put(cli.docs, "a.jsonl", whole)
    report = cli.json("index")["corpora"]["docs"]

    assert half.exit_code == 0
    assert (report["new"], report["unchanged"]) == (1, 1)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-8"])
@pytest.mark.parametrize(
    ("name", "text"), [("a.tsv", "id\ttext\r\n1\tGröße\r\n"), ("a.jsonl", '{"id": "1", "text": "Größe"}\n')]
)
def test_rows_with_a_byte_order_mark_are_decoded_by_it(tmp_path: Path, encoding: str, name: str, text: str) -> None:
    artifact = RecordFile(put(tmp_path, name, ("\ufeff" + text).encode(encoding)), text="text").read("1")

    assert (artifact.raw, [*artifact.notes]) == ("Größe", [])


def test_rows_of_a_guessed_encoding_have_a_note(tmp_path: Path) -> None:
    artifact = RecordFile(put(tmp_path, "a.csv", "id,text\n1,Größe und mehr\n".encode("cp1252")), text="text").read("1")

    assert [str(note) for note in artifact.notes] == ["encoding: cp1252 (guessed)"]


@pytest.mark.parametrize(
    ("line", "text", "repeated"),
    [
        ('{"id": 1, "text": "a", "text": "b"}', "b", ["a row repeats 'text': the last counts"]),
        ('{"id": 1, "text": "a", "text": "a"}', "a", []),
        ('{"id": 1, "text": "say \\"x\\": \\"y\\": z"}', 'say "x": "y": z', []),
        ('{"id": 1, "of": {"a": 1, "a": 2}, "text": "b"}', "b", ["a row repeats 'a': the last counts"]),
    ],
)
def test_a_key_that_a_row_repeats_is_noted(tmp_path: Path, line: str, text: str, repeated: list[str]) -> None:
    artifact = RecordFile(put(tmp_path, "a.jsonl", line + "\n"), text="text").read("1")

    assert (artifact.raw, [str(note) for note in artifact.notes]) == (text, repeated)


def test_bytes_in_a_table_are_text_if_they_can_be_and_are_noted_if_not(tmp_path: Path) -> None:
    """Some programs write text to Parquet as bytes without saying that it is text."""
    rows = pa.table({"id": ["1", "2"], "text": [b"M\xc3\xa4rz", b"\xff\xfe"], "owner": [b"Ada", b"\x80"]})
    pq.write_table(rows, tmp_path / "a.parquet")
    source = RecordFile(tmp_path / "a.parquet", text="text", metadata="owner")

    one, two = source.read("1"), source.read("2")

    assert (one.raw, one.metadata, one.notes) == ("März", {"owner": "Ada"}, ())
    assert (two.raw, two.metadata) == ("", {"owner": None})
    assert [str(note) for note in two.notes] == ["bytes that are not text, left out (column text, owner)"]


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (Decimal("1e28"), str(10**28)),
        (Decimal(10**37 + 1), str(10**37 + 1)),
        (Decimal("0.1234567890123456789"), "0.1234567890123456789"),
        (Decimal("2.50"), 2.5),
        (Decimal(7), 7),
        ([b"ab", {"a": 2**64, "b": float("nan")}], ["ab", {"a": str(2**64), "b": None}]),
        (time_of_day(10, tzinfo=UTC), "10:00:00+00:00"),
    ],
)
def test_no_value_of_a_row_is_changed_or_stops_the_others(value: object, read: object) -> None:
    source = Records([{"id": "a", "value": value}, {"id": "b", "value": None}])

    assert [listing.artifact_id for listing in source.discover().listings] == ["a", "b"]
    assert source.read("a").raw == {"id": "a", "value": read}


def test_bytes_that_are_not_text_are_named_within_lists_too() -> None:
    source = Records([{"id": "a", "value": [b"ab", b"\xff"]}])
    source.discover()

    assert source.read("a").raw == {"id": "a", "value": ["ab", None]}
    assert [note.kind for note in source.read("a").notes] == ["binary_values"]


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (pa.timestamp("us"), 2**62),
        (pa.date32(), 2**31 - 1),
        (pa.duration("s"), 2**62),
        (pa.timestamp("s", "Mars/Base"), 0),
    ],
)
def test_a_value_of_parquet_that_python_cannot_hold_fails_its_row_alone(
    tmp_path: Path, kind: pa.DataType, bad: int
) -> None:
    integers = pa.int32() if kind == pa.date32() else pa.int64()
    values = pa.array([None, bad], integers).cast(kind)
    pq.write_table(pa.table({"id": ["good", "bad"], "when": values}), tmp_path / "a.parquet")
    found = RecordFile(tmp_path / "a.parquet").discover()

    assert ([x.artifact_id for x in found.listings], found.unknown) == (["good"], ())
    assert [(x.artifact_id, x.kind) for x in found.failures] == [("bad", "parse")]
    assert "a.parquet:row 1: column when" in found.failures[0].message


def test_columns_without_a_name_are_told_apart_by_their_place(tmp_path: Path) -> None:
    source = RecordFile(put(tmp_path, "a.csv", "id,,,name\n1,a,b,c\n"))

    assert listed(source) == ["1"]
    assert source.read("1").raw == {"id": "1", "column 2": "a", "column 3": "b", "name": "c"}


def test_repeated_columns_of_parquet_and_of_a_frame_are_refused(tmp_path: Path) -> None:
    rows = pa.Table.from_arrays([pa.array(["1"]), pa.array(["a"]), pa.array(["b"])], names=["id", "text", "text"])
    pq.write_table(rows, tmp_path / "a.parquet")
    frame = pd.DataFrame([["1", "a", "b"]], columns=["id", "text", "text"])

    for source in (RecordFile(tmp_path / "a.parquet", text="text"), Records(frame, text="text")):
        with pytest.raises(SourceError, match="two columns are called 'text'"):
            source.discover()


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        (['1\t"open\tx', "2\tnext\ty", '3\t"shut"\tz'], ['"open', "next", "shut"]),
        (['1\t"a" and b\tx', '2\t"5"" disk"\ty'], ['"a" and b', '5" disk']),
        (['1\t"two', 'lines"\tx', "2\tnext\ty"], ["two\nlines", "next"]),
        (['1\t"\tx', "2\tplain\ty"], ['"', "plain"]),
    ],
)
def test_a_quote_in_tabs_swallows_no_rows(tmp_path: Path, lines: list[str], texts: list[str]) -> None:
    source = RecordFile(put(tmp_path, "a.tsv", "\n".join(["id\ttext\tmore", *lines, ""])), text="text")

    assert [source.read(artifact_id).raw for artifact_id in listed(source)] == texts
    assert failed(source) == {}
