"""Filter fields are typed columns of the records, added, widened and dropped without a rebuild or loss."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from findingaid import Corpus, FindingAid
from findingaid.identity.hashes import to_json
from findingaid.indexing.options import BuildOptions
from findingaid.model import Stage
from findingaid.reports import NO_CALLS
from findingaid.sources.records import Records
from findingaid.store import Store, fields, schemas
from findingaid.strategies.whole_text import WholeText
from findingaid.testing import CountingEmbedder, MemorySource
from tests.conftest import Cli, ReadyMade, text_about
from tests.indexing.test_group_commit import built_of, commit, prepared
from tests.indexing.test_incremental import docs
from tests.support.programs import run_program

Make = Callable[..., FindingAid]
Values = Mapping[str, Any]

TEXTS, INTS, DOUBLES = pa.list_(pa.string()), pa.list_(pa.int64()), pa.list_(pa.float64())

TYPES = {
    "draft": (True, pa.bool_()),
    "year": (2026, pa.int64()),
    "share": (0.5, pa.float64()),
    "owner": ("anna", pa.string()),
    "day": ("2026-11-22", pa.string()),
    "local": ("2026-11-22T05:31:11", pa.string()),
    "no_day": ("2026-02-30T05:31:11Z", pa.string()),
    "at": ("2026-11-22T05:31:11.25+01:00", fields.TIME),
    "made": (datetime(2026, 11, 22, 5, 31, 11, tzinfo=UTC), fields.TIME),
    "huge": (2**63, pa.string()),
    "tools": (["Bash", None], TEXTS),
    "sizes": ([1, 2], INTS),
    "shares": ([1, 0.5], DOUBLES),
    "flags": ([True], TEXTS),
    "mixed": (["a", 1], TEXTS),
    "none_yet": ([], TEXTS),
}


def many(count: int = 20) -> MemorySource:
    return MemorySource({f"{i:02d}": f"text number {i}" for i in range(count)})


def types(aid: FindingAid) -> dict[str, pa.DataType]:
    schema = aid.store.dataset("records").schema
    return {name: schema.field(name).type for name in schema.names if name not in schemas.records(1).names}


def column(aid: FindingAid, name: str) -> dict[str, Any]:
    rows = aid.store.published().to_table(columns=["artifact_id", name]).to_pylist()
    return {row["artifact_id"]: row[name] for row in rows}


def files(aid: FindingAid) -> dict[int, list[str]]:
    return {f.fragment_id: [file.path for file in f.data_files()] for f in aid.store.dataset("records").get_fragments()}


@pytest.fixture
def plain(make_aid: Make) -> Callable[..., FindingAid]:
    """Builds an aid over metadata by artifact id, of the same store each time."""

    def make(metadata: Values, embedder: CountingEmbedder | None = None) -> FindingAid:
        given = {"embedder": embedder} if embedder else {}
        source = MemorySource({i: f"text of {i}" for i in metadata}, dict(metadata))
        return make_aid(source=source, strategy=WholeText(), synthesizer=None, **given)

    return make


def test_every_kind_of_value_has_its_type(plain: Make) -> None:
    aid = plain({"a": {name: value for name, (value, _) in TYPES.items()}})
    assert aid.index().ok

    found = types(aid)

    assert {name: found[name] for name in TYPES} == {name: kind for name, (_, kind) in TYPES.items()}
    assert column(aid, "at")["a"] == datetime(2026, 11, 22, 4, 31, 11, 250_000, tzinfo=UTC)
    assert column(aid, "shares")["a"] == [1.0, 0.5]
    assert column(aid, "huge")["a"] == str(2**63)


ODD = (
    "my field",
    "größe",
    "select",
    "日本",
    "a-b",
    "x/y",
    "dc:title",
    "1st",
    "it's",
    "[x]",
    "🗂",
    " ",
    "Year",
    "x" * 200,
)
NO_COLUMN = (
    "a.b",
    "",
    "ba`ck",
    'quo"te',
    "new\nline",
    "tab\t",
    "\x00",
    "_rowid",
    "_score",
    "x" * 201,
    "vector",
    "text",
)


def test_a_field_of_an_odd_name_can_be_filtered_by(plain: Make) -> None:
    aid = plain({"a": {**dict.fromkeys(ODD, "v"), "year": 1}, "b": {"year": 2}})
    aid.index()

    for name in ODD:
        assert [hit.artifact_id for hit in aid.search("text", where=f"`{name}` = 'v'")] == ["a"], name
        assert [hit.artifact_id for hit in aid.search("text", where=f"\"{name}\" = 'v' AND year < 2")] == ["a"], name


def test_what_no_column_can_hold_stays_in_the_metadata(plain: Make) -> None:
    """Names that no column can have, and values that are nested or null."""
    nested: dict[str, Any] = {"nested": {"a": 1}, "lists": [[1]], "maps": [{"a": 1}], "nothing": None}
    metadata = dict.fromkeys(NO_COLUMN, "v") | nested
    aid = plain({"a": metadata})

    assert aid.index().ok
    assert types(aid).keys() == {"media_type"}
    assert aid.search("text")[0].metadata == {"media_type": "text/markdown", **metadata}
    assert aid.verify() == []


def test_a_field_named_as_a_column_of_every_record_does_not_touch_it(plain: Make) -> None:
    aid = plain({"a": {"corpus": "elsewhere", "span_start": "x", "title": "A title"}})
    aid.index()

    assert [hit.artifact_id for hit in aid.search("text", where="corpus = 'docs' AND title = 'A title'")] == ["a"]


def test_a_new_field_touches_no_other_record_and_no_model(make_aid: Make, embedder: CountingEmbedder) -> None:
    source = many()
    aid = make_aid(source=source, strategy=WholeText(), synthesizer=None)
    aid.index()
    before, embedder.seen[:] = files(aid), []
    source.metadata["03"] = {"owner": "anna"}

    report = aid.index()

    after = files(aid)
    assert (docs(report).changed, docs(report).calls, embedder.seen) == (1, NO_CALLS, [])
    assert {fragment: after[fragment] for fragment in before} == before
    assert len(after) == len(before) + 1
    assert {i: owner for i, owner in column(aid, "owner").items() if owner} == {"03": "anna"}
    assert [hit.artifact_id for hit in aid.search("number", where="owner = 'anna'")] == ["03"]


def test_a_run_without_changes_writes_no_column(plain: Make) -> None:
    aid = plain({"a": {"year": 1, "tools": []}})
    aid.index()
    before = aid.store.dataset("records").version

    assert plain({"a": {"year": 1, "tools": []}}).index().ok
    assert aid.store.dataset("records").version == before


WIDER = [
    (1, 0.5, {"a": 1.0, "b": 0.5}),
    (2020, "n.d.", {"a": "2020", "b": "n.d."}),
    (True, "maybe", {"a": "true", "b": "maybe"}),
    (True, 2, {"a": "true", "b": "2"}),
    (1.50, "much", {"a": "1.5", "b": "much"}),
    ("2026-11-22T05:31:11Z", "soon", {"a": "2026-11-22T05:31:11Z", "b": "soon"}),
    ("Bash", ["Read"], {"a": ["Bash"], "b": ["Read"]}),
    ([1], [0.5], {"a": [1.0], "b": [0.5]}),
    ([1, None], "x", {"a": ["1", None], "b": ["x"]}),
    (1, [2], {"a": [1], "b": [2]}),
    ([], [2], {"a": [], "b": [2]}),
    (2**53 + 1, 0.5, {"a": 2.0**53, "b": 0.5}),
    (1, {"nested": 2}, {"a": 1, "b": None}),
]


@pytest.mark.parametrize("order", ["one run", "b first"])
def test_values_that_differ_in_type_come_to_the_same_in_any_order(plain: Make, order: str) -> None:
    firsts, seconds, wanted = ({f"field{i}": case[at] for i, case in enumerate(WIDER)} for at in range(3))
    metadata = {"a": firsts, "b": seconds}
    if order != "one run":
        assert plain({order[0]: metadata[order[0]]}).index().ok

    aid = plain(metadata)

    assert aid.index().ok
    assert {name: column(aid, name) for name in wanted} == wanted
    assert not [name for name in aid.store.dataset("records").schema.names if name.startswith("_")]
    assert aid.verify() == []


def test_widening_keeps_the_vectors_the_indexes_and_the_published_version(plain: Make) -> None:
    embedder = CountingEmbedder()
    numbers = {f"{i:02d}": {"year": 2000 + i} for i in range(20)}
    aid = plain(numbers, embedder)
    aid.index()
    reader, before, embedder.seen[:] = aid.store.published(), files(aid), []
    numbers["03"] = {"year": "n.d."}

    report = plain(numbers, embedder).index()

    assert (docs(report).changed, docs(report).calls, embedder.seen) == (1, NO_CALLS, [])
    assert all(set(before[fragment]) <= set(after) for fragment, after in files(aid).items() if fragment in before)
    assert reader.count_rows("year = 2004") == 1
    assert {index.name for index in aid.store.published().describe_indices()} == {"lexical_idx"}
    assert [hit.artifact_id for hit in aid.search("text", mode="lexical", where="year = '2004'")] == ["04"]
    assert aid.verify() == []


def test_a_rollback_to_before_a_field_is_searched_as_it_was(tmp_path: Path) -> None:
    source = MemorySource({"a": "text"}, {"a": {"year": 1}})
    corpora = {"docs": Corpus("docs", source, WholeText())}
    aid = FindingAid(Store(str(tmp_path / "index")), CountingEmbedder(), corpora, retain=2)
    aid.index()
    source.metadata["a"] = {"year": "n.d.", "owner": "anna"}
    aid.index()

    aid.rollback()

    assert [hit.artifact_id for hit in aid.search("text", where="year = 1")] == ["a"]
    assert [field.name for field in aid.fields()["docs"]] == ["media_type", "year"]


def test_wild_metadata_makes_no_more_columns_than_a_table_can_have(
    plain: Make, caplog: pytest.LogCaptureFixture
) -> None:
    wild = {f"{i:02d}": {f"field {i} {n}": n for n in range(30)} for i in range(20)}
    aid = plain({"00": wild["00"]})
    aid.index()

    assert plain(wild).index().ok
    assert len(types(aid)) == fields.MAX_FIELDS
    (warning,) = [record.message for record in caplog.records if "which is the limit" in record.message]
    assert warning.startswith("table records has columns for 256 fields, which is the limit: field 16 22, field 16 23,")
    assert aid.search("text", where="`field 1 29` = 29")[0].metadata["field 1 29"] == 29
    assert aid.verify() == []


def test_columns_of_fields_are_seen_by_every_lancedb_client(plain: Make, tmp_path: Path) -> None:
    import lancedb  # takes seconds

    plain({"a": {"year": 2020, "tools": ["Bash"]}, "b": {"year": 2021}}).index()

    table = lancedb.connect(str(tmp_path / "index")).open_table("records")
    table.checkout("published")

    assert table.schema.field("tools").type == TEXTS
    assert [row["artifact_id"] for row in table.search().where("array_has(tools, 'Bash')").to_list()] == ["a"]
    assert table.count_rows("year > 2020") == 1


def test_fields_last_through_compaction_and_purge_which_drops_those_of_nobody(
    plain: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("findingaid.store.upkeep.SMALL_FRAGMENTS", 2)
    numbers: dict[str, Any] = {f"{i:02d}": {"year": i} for i in range(3)} | {"gone": {"secret": "x"}}
    for i in range(3, 6):
        numbers[f"{i:02d}"] = {"year": i, f"field{i}": i}
        plain(numbers).index()
    del numbers["gone"]
    aid = plain(numbers)
    aid.index()
    assert "secret" in types(aid)
    assert len(files(aid)) < 4

    aid.purge()

    assert "secret" not in types(aid)
    assert column(aid, "year") == {i: values["year"] for i, values in numbers.items()}
    assert column(aid, "field5")["05"] == 5
    assert aid.verify() == []
    assert docs(aid.index()).unchanged == len(numbers)
    numbers["back"] = {"secret": 1}
    assert plain(numbers).index().ok
    assert types(aid)["secret"] == pa.int64()


def come_through_together(store: Callable[[], Store]) -> None:
    """Three runs at once add columns of their own and one that all have, with types that differ; nothing is lost."""

    def run(name: str, value: Any) -> bool:
        metadata = {f"{i}": {name: i, "shared": value, f"{name} {i}": i} for i in range(10)}
        source = MemorySource({i: f"text {i}" for i in metadata}, metadata)
        return FindingAid(store(), CountingEmbedder(), {name: Corpus(name, source, WholeText())}).index().ok

    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(run, ("one", "two", "three"), (1, "text", [0.5])))

    records = store().dataset("records")
    rows = records.to_table(columns=["corpus", "shared"]).to_pylist()
    assert done == [True, True, True]
    assert records.schema.field("shared").type == TEXTS
    assert {(row["corpus"], *row["shared"]) for row in rows} == {("one", "1"), ("two", "text"), ("three", "0.5")}
    assert all(records.count_rows(f"`{name} 7` = 7") == 1 for name in ("one", "two", "three"))
    assert not [name for name in records.schema.names if name.startswith("_")]


def test_runs_that_bring_fields_at_once_all_come_through(tmp_path: Path) -> None:
    come_through_together(lambda: Store(str(tmp_path / "index")))


def test_a_row_written_while_a_column_widens_is_not_lost(tmp_path: Path) -> None:
    """Without locks, as on object storage: another run writes between the commits of the one that widens."""
    store = str(tmp_path / "index")
    grown(store, {"a": {"year": 1}}).index()
    widening = Store(store).dataset("records")
    widening.add_columns({"_year": "cast(year as string)"})

    other = grown(store, {"a": {"year": 1}, "b": {"year": 2}})
    other.indexer("docs").build(other.open_run().plan("docs").stale)  # and no clean-up, by which conflicts are not seen

    with pytest.raises(OSError, match="Retryable commit conflict"):
        widening.alter_columns({"path": "year", "name": "__year"}, {"path": "_year", "name": "year"})  # type: ignore[arg-type]
    other.open_run().close()
    assert column(other, "year") == {"a": 1, "b": 2}


def test_rows_in_files_that_are_committed_while_a_column_widens_are_not_lost(tmp_path: Path) -> None:
    """As above, for rows that were written before the other run began to widen."""
    store = str(tmp_path / "index")
    grown(store, {"a": {"year": 1}}).index()
    other = grown(store, {"a": {"year": 1}, "b": {"year": 2}})
    indexer, batches = prepared(other)
    built = built_of(indexer, batches)
    widening = Store(store).dataset("records")
    widening.add_columns({"_year": "cast(year as string)"})

    commit(indexer, built)

    with pytest.raises(OSError, match="Retryable commit conflict"):
        widening.alter_columns({"path": "year", "name": "__year"}, {"path": "_year", "name": "year"})  # type: ignore[arg-type]
    other.open_run().close()
    assert column(other, "year") == {"a": 1, "b": 2}


# Runs in a process of its own; dies at the Nth change of the table's columns or rows, before or after it.
CHILD = """
import lance
from findingaid.store import Store
from tests.store.test_fields import grown
from tests.support.kills import Kill

kill = Kill({die_at}, {after})
kill.watch(lance.LanceDataset, "add_columns", "alter_columns", "drop_columns")
kill.watch(Store, "_replace")
grown({store!r}, {metadata}).index()
"""

FIRST = {f"{i:02d}": {"year": 2000 + i, "tools": "Bash"} for i in range(6)}
SECOND = FIRST | {"02": {"year": "n.d.", "tools": ["Read"], "owner": "anna"}, "new": {"year": 1.5}}


def grown(store: str, metadata: Values) -> FindingAid:
    source = MemorySource({i: f"text of {i}" for i in metadata}, dict(metadata))
    return FindingAid(Store(store), CountingEmbedder(), {"docs": Corpus("docs", source, WholeText())})


@pytest.mark.slow
@pytest.mark.parametrize("die_at", range(1, 12))
def test_killed_between_any_two_commits_of_columns_the_next_run_heals(
    tmp_path: Path, ready_made: ReadyMade, die_at: int
) -> None:
    after = die_at % 2 == 0  # one commit ends where the next begins
    store = str(tmp_path / "index")
    ready_made("six years", grown(store, FIRST).index)
    published = grown(store, FIRST).store.published()

    killed = run_program(CHILD.format(die_at=die_at, after=after, store=store, metadata=repr(SECOND)))

    assert killed.returncode in {0, -signal.SIGKILL}, killed.stderr
    assert published.count_rows("year = 2002 AND tools = 'Bash'") == 1
    # Half of the runs find the source unchanged: work begun by the killed run must not show.
    metadata = SECOND if after else FIRST | {"other": {"year": "x"}}
    aid = grown(store, metadata)
    assert aid.index().ok
    assert aid.verify() == []
    assert column(aid, "year") == {i: _as_text(values["year"]) for i, values in metadata.items()}
    assert not [name for name in aid.store.dataset("records").schema.names if name.startswith("_")]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def test_what_a_killed_run_left_behind_is_taken_away_by_the_next(plain: Make) -> None:
    aid = plain({"a": {"year": 1}})
    aid.index()
    aid.store.dataset("records").add_columns({"_year": "cast(year as string)"})
    assert aid.verify() == ["the newest records are not published: run `findingaid index`"]
    assert [field.name for field in aid.fields()["docs"]] == ["media_type", "year"]

    assert plain({"a": {"year": 1}, "b": {"year": "n.d."}}).index().ok

    assert column(aid, "year") == {"a": "1", "b": "n.d."}
    assert aid.verify() == []


# -- round trips of values -----------------------------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8"), max_size=20)
TIMES = st.datetimes(
    datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.sampled_from([UTC, timezone(timedelta(hours=5.5))])
)
INTEGERS = st.integers(1 - 2**63, 2**63 - 1)  # SQL cannot say the number before these
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
KINDS = [
    st.booleans(), INTEGERS, FLOATS, WORDS, TIMES, TIMES.map(datetime.isoformat),
    st.lists(WORDS, max_size=4), st.lists(INTEGERS, max_size=4), st.lists(FLOATS, max_size=4),
]  # fmt: skip
OF_ONE_KIND = st.one_of([st.lists(kind, min_size=1, max_size=6) for kind in KINDS])
OF_ANY_KIND = st.lists(st.one_of(KINDS), min_size=1, max_size=6)


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=OF_ONE_KIND | OF_ANY_KIND, later=st.integers(0, 6))
def test_a_value_that_went_in_is_found_by_a_filter_that_names_it(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], later: int
) -> None:
    metadata = {f"{i}": {"field": value} for i, value in enumerate(values)}
    store = str(tmp_path_factory.mktemp("fields") / "index")
    grown(store, dict(list(metadata.items())[:later])).index()  # the others come with a second run
    aid = grown(store, metadata)
    assert aid.index().ok

    kind = types(aid)["field"]

    for i, value in enumerate(values):
        for where in equal(value, kind):
            assert f"{i}" in {hit.artifact_id for hit in aid.search("text", where=where)}, where


def equal(value: Any, kind: pa.DataType) -> list[str]:
    """Filters that a record with this value must pass, in a column of this type."""
    if pa.types.is_list(kind):
        listed = value if isinstance(value, list) else [value]
        return [f"array_has(field, {literal(v, kind.value_type)})" for v in listed] or ["array_length(field) = 0"]
    return [f"field = {literal(value, kind)}"]


def literal(value: Any, kind: pa.DataType) -> str:
    if kind == fields.TIME:
        return f"timestamp '{value if isinstance(value, str) else value.isoformat()}'"
    if kind == pa.string():
        text = json.loads(to_json(value)) if isinstance(value, str | datetime) else to_json(value)
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(float(value) if kind == pa.float64() else value)


@given(one=st.one_of(KINDS), other=st.one_of(KINDS), third=st.one_of(KINDS))
def test_widening_is_the_same_in_any_order(one: Any, other: Any, third: Any) -> None:
    a, b, c = (fields.type_of(json.loads(to_json(value))) for value in (one, other, third))

    assert fields.wider(a, b) == fields.wider(b, a)
    assert fields.wider(fields.wider(a, b), c) == fields.wider(a, fields.wider(b, c))
    assert fields.wider(fields.wider(a, b), a) == fields.wider(a, b)


@given(values=st.lists(st.one_of(KINDS)))
def test_the_type_of_all_values_is_that_of_each_widened(values: list[Any]) -> None:
    stored = json.loads(to_json(values))
    wanted = fields.NOTHING
    for value in stored:
        wanted = fields.wider(wanted, fields.type_of(value))

    assert fields.type_of_all(stored) == wanted
    assert len(fields.array(stored, wanted)) == len(values)


def test_a_value_has_the_same_type_read_from_the_source_and_from_the_store(cli: Cli) -> None:
    """A materialization of the last stages alone reads artifacts from their table, where times are text."""
    source = Records([{"id": "a", "text": "text", "at": datetime(2026, 1, 2, tzinfo=UTC)}], text="text", metadata="at")
    aid = FindingAid(
        Store(str(cli.folder / "index")), CountingEmbedder(), {"docs": Corpus("docs", source, WholeText())}
    )
    aid.index()
    indexer = aid.indexer("docs")
    listings = source.discover().listings

    stages = [Stage.SURFACES, Stage.SYNOPSES, Stage.EMBEDDINGS, Stage.RECORDS]
    indexer.build(listings, BuildOptions(stages, force=True))
    aid.open_run().close(["docs"])

    assert types(aid) == {"at": fields.TIME}
    assert column(aid, "at") == {"a": datetime(2026, 1, 2, tzinfo=UTC)}


# -- fields of a corpus --------------------------------------------------------------------------------


def test_status_lists_the_fields_of_each_corpus(cli: Cli) -> None:
    cli.write("a.md", text_about("ledger"))
    (cli.folder / "rows.jsonl").write_text(
        '{"id": 1, "text": "a", "year": 2020, "tags": ["x"]}\n{"id": 2, "text": "b"}'
    )
    cli.settings["corpora"]["rows"] = {
        "source": {"kind": "records", "path": "rows.jsonl", "text": ["text"], "metadata": ["year", "tags"]}
    }
    cli.run("index")

    found = cli.json("status", "--fields", "--corpus", "rows")
    table = cli.run("status", "--fields").stdout

    assert {field["name"]: (field["type"], field["records"]) for field in found["rows"]}["tags"] == ("list<string>", 1)
    assert "year" not in {field["name"] for field in cli.json("status", "--fields")["docs"]}
    assert "path" in table
    assert "for every passage: record_id, corpus" in table


def test_status_of_fields_before_the_first_run_says_what_to_do(cli: Cli) -> None:
    result = cli.run("status", "--fields")

    assert result.exit_code == 1
    assert "run `findingaid index`" in result.stderr
