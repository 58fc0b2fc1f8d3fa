"""Rows of real databases as artifacts: SQLite, DuckDB and PostgreSQL."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy

from findingaid.errors import ConfigError, ReadError, SourceError
from findingaid.sources import databases
from findingaid.sources.databases import Database
from findingaid.sources.limits import SILENT
from tests.conftest import Cli
from tools.postgres import programs, server

ROWS = """
CREATE TABLE tickets (id INTEGER, body VARCHAR, team VARCHAR, price DECIMAL(8, 2), changed TIMESTAMP);
INSERT INTO tickets VALUES (1, 'The boiler is cold.', 'heating', 12.50, '2026-01-01 10:00:00');
INSERT INTO tickets VALUES (2, 'The roof leaks: call.', NULL, 7, '2026-01-02 10:00:00');
INSERT INTO tickets VALUES (30, 'A 100% "quoted" text', 'words', NULL, NULL)
"""


class Base:
    """A database of one kind with the table above, and a way to change it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.run(*ROWS.split(";"))

    def run(self, *statements: str) -> None:
        engine = sqlalchemy.create_engine(self.url)
        with engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement.replace("%", "%%") if "psycopg" in self.url else statement)
        engine.dispose()

    def source(self, **given: Any) -> Database:
        return Database(**{"url": self.url, "table": "tickets", "text": "body"} | given)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Callable[[str], str]]:
    with server("fsync=off") as running:
        yield running.database


POSTGRESQL = pytest.param(
    "postgresql",
    marks=[
        pytest.mark.slow,
        pytest.mark.skipif(not os.environ.get("CI") and programs() is None, reason="needs postgresql"),
    ],
)


@pytest.fixture(params=["sqlite", "duckdb", POSTGRESQL])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Base:
    if request.param == "postgresql":
        return Base(request.getfixturevalue("postgres")(tmp_path.name))
    return Base(f"{request.param}:///{tmp_path / 'tickets.db'}")


def stamps(source: Database) -> dict[str, str]:
    return {listing.artifact_id: listing.stamp for listing in source.discover().listings}


def test_each_row_is_an_artifact_with_its_text_and_its_other_columns(base: Base) -> None:
    source = base.source()

    assert [*stamps(source)] == ["1", "2", "30"]
    one, two, three = (source.read(i) for i in ("1", "2", "30"))
    assert (one.raw, two.raw, three.raw) == ("The boiler is cold.", "The roof leaks: call.", 'A 100% "quoted" text')
    assert {k: one.metadata[k] for k in ("team", "price")} == {"team": "heating", "price": 12.5}
    assert str(one.metadata["changed"]).startswith("2026-01-01 10:00:00")
    assert [two.metadata[k] for k in ("team", "price")] == [None, 7]
    assert base.source(fields="team").read("1").metadata == {"team": "heating"}
    assert base.source(text=()).read("1").raw["body"] == "The boiler is cold."  # type: ignore[index]
    with pytest.raises(ReadError, match="no row has this id"):
        source.read("4")
    assert source.listing("x") is None


@pytest.mark.parametrize("updated", ["", "changed"])
def test_exactly_what_changed_has_another_stamp(base: Base, updated: str) -> None:
    source = base.source(updated=updated)
    before = stamps(source)
    again = stamps(source)
    base.run(
        "UPDATE tickets SET body = 'The boiler is warm.', changed = '2026-02-01 00:00:00' WHERE id = 1",
        "DELETE FROM tickets WHERE id = 2",
        "INSERT INTO tickets VALUES (4, 'A new one.', 'heating', 1, '2026-02-02 00:00:00')",
    )
    after = stamps(source)

    assert before == again
    assert [*after] == ["1", "30", "4"]
    assert after["1"] != before["1"]
    assert after["30"] == before["30"] == ("" if updated else after["30"])  # a row without a time is read each time
    assert source.listing("1").stamp == after["1"]  # type: ignore[union-attr]
    assert source.read("1").raw == "The boiler is warm."


def test_a_row_that_changes_twice_on_a_day_is_read_again_where_only_the_day_is_told(base: Base) -> None:
    base.run("ALTER TABLE tickets ADD COLUMN day DATE", f"UPDATE tickets SET day = '{date.today()}' WHERE id = 1")
    base.run("UPDATE tickets SET day = '2026-01-02' WHERE id = 2")

    settled = {listing.artifact_id: listing.settled for listing in base.source(updated="day").discover().listings}

    assert (settled["1"], settled["2"]) == (False, True)


@pytest.mark.parametrize(
    "change",
    [{"text": ("body", "team")}, {"fields": "team"}, {"table": None, "query": "SELECT * FROM tickets WHERE id < 30"}],
    ids=lambda change: ", ".join(change),
)
def test_what_is_read_of_a_row_changes_its_stamp(base: Base, change: dict[str, Any]) -> None:
    before, after = (stamps(base.source(updated="changed", **given)) for given in ({}, change))

    assert before["1"] != after["1"]


def test_the_database_that_a_variable_names_is_in_the_stamp_and_its_secrets_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [f"sqlite:///{tmp_path / name}" for name in ("a.db", "b.db")]
    bases = [Base(place) for place in places]
    monkeypatch.setenv("ADDRESS", places[0])
    source = bases[0].source(url=None, url_env="ADDRESS", updated="changed")
    before = stamps(source)["1"]

    monkeypatch.setenv("ADDRESS", places[1])
    assert stamps(source)["1"] != before
    engine = databases._engine(places[1])
    monkeypatch.setattr(databases, "_engine", lambda _: engine)
    found = set()
    for secret in ("abcd", "efgh"):
        monkeypatch.setenv("ADDRESS", f"{places[1]}?token={secret}")
        found.add(stamps(source)["1"])
    assert len(found) == 1


def test_rows_are_read_together_and_anew_after_each_listing(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an index on the ids, a statement for each row would go through all rows each time."""
    base.run(*(f"INSERT INTO tickets VALUES ({n}, 'text {n}', NULL, NULL, NULL)" for n in range(100, 450)))
    source, opened = base.source(), []
    listed = [listing.artifact_id for listing in source.discover().listings]
    engine = databases._engine
    monkeypatch.setattr(databases, "_engine", lambda address: opened.append(address) or engine(address))

    texts = {i: source.read(i).raw for i in listed}

    assert len(listed) == 353
    assert all(texts[str(n)] == f"text {n}" for n in range(100, 450))
    assert len(opened) == 4
    base.run("UPDATE tickets SET body = 'another' WHERE id = 100")
    source.discover()
    assert source.read("100").raw == "another"


def test_what_was_read_ahead_is_not_taken_for_the_row_as_it_is_now(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    source = base.source(updated="changed")
    source.discover()
    source.read("1")  # with those that follow
    base.run("UPDATE tickets SET body = 'Repaired.', changed = '2026-02-01 10:00:00' WHERE id IN (2, 30)")

    assert source.listing("2") is not None
    assert source.read("2").raw == "Repaired."
    monkeypatch.setattr(databases, "AHEAD_SECONDS", 0.0)
    assert source.read("30").raw == "Repaired."


def test_a_row_that_a_view_cannot_compute_fails_alone(base: Base) -> None:
    base.run("UPDATE tickets SET team = '0'", "UPDATE tickets SET team = 'none' WHERE id = 2")
    computed = "CASE WHEN team = '0' THEN body ELSE CAST(json_extract(team, '$.x') AS VARCHAR) END"
    if "postgresql" in base.url:
        computed = "CASE WHEN team = '0' THEN body ELSE CAST(CAST(team AS INTEGER) AS VARCHAR) END"
    base.run(f"CREATE VIEW broken AS SELECT id, {computed} AS body, changed FROM tickets")
    source = base.source(table="broken", updated="changed")
    listed = [listing.artifact_id for listing in source.discover().listings]

    assert listed == ["1", "2", "30"]
    assert source.read("1").raw == "The boiler is cold."
    with pytest.raises(ReadError):
        source.read("2")
    assert source.read("30").raw == 'A 100% "quoted" text'


@pytest.mark.parametrize(
    "rows", ["(1, 'a'), ('x', 'b'), (2.5, 'c'), (x'7962', 'd')", "('x', 'b'), (1, 'a'), (2.5, 'c')"]
)
def test_ids_of_several_types_in_one_column_are_found_again(tmp_path: Path, rows: str) -> None:
    """A column of SQLite may hold values of any type."""
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.executescript(f"CREATE TABLE notes (id, body); INSERT INTO notes VALUES {rows}")
    source = Database(url=f"sqlite:///{tmp_path / 'a.db'}", table="notes", text="body")
    found = [listing.artifact_id for listing in source.discover().listings]

    assert {source.read(each).raw for each in found} >= {"a", "b", "c"}
    assert all(source.listing(each) for each in found)


def test_a_row_whose_text_is_not_utf_8_fails_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.executescript(
            "CREATE TABLE notes (id, body); INSERT INTO notes VALUES (1, CAST(x'ff41' AS TEXT)), (2, 'whole')"
        )
    found = Database(url=f"sqlite:///{tmp_path / 'a.db'}", table="notes", text="body").discover()

    assert [listing.artifact_id for listing in found.listings] == ["2"]
    assert [(failure.artifact_id, failure.kind) for failure in found.failures] == [("1", "encoding")]


def test_a_query_may_end_in_a_comment(base: Base) -> None:
    source = base.source(table=None, query="SELECT id, body FROM tickets -- all of them")

    assert len(source.discover().listings) == 3


def test_another_column_makes_every_row_stale(base: Base) -> None:
    source = base.source(updated="changed")
    before = stamps(source)

    base.run("ALTER TABLE tickets ADD COLUMN owner VARCHAR")

    assert stamps(source)["1"] != before["1"]
    assert source.read("1").metadata["owner"] is None


def test_the_padding_of_a_column_of_fixed_width_is_no_part_of_its_values(base: Base) -> None:
    base.run(
        "CREATE TABLE padded (id INTEGER, body CHAR(9), state CHAR(6))",
        "INSERT INTO padded VALUES (1, 'A leak.  ', 'open  ')",
    )

    read = base.source(table="padded").read("1")

    assert (read.raw, read.metadata["state"]) == ("A leak.", "open")


def test_a_query_takes_the_place_of_a_table(base: Base) -> None:
    text = """body || ' (' || COALESCE(team, ':none') || ')' AS "The Text\""""
    query = f"SELECT id AS number, {text} FROM tickets WHERE id < 9;"
    source = base.source(table="", query=query, id="number", text="The Text")

    assert [*stamps(source)] == ["1", "2"]
    assert source.read("2").raw == "The roof leaks: call. (:none)"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"id": "nr"}, "source.id: no column 'nr'. Known: id, body, team, price, changed"),
        ({"text": ("body", "title")}, "source.text: no column 'title'"),
        ({"updated": "when"}, "source.updated: no column 'when'"),
        ({"fields": "size"}, "source.fields: no column 'size'"),
        ({"query": "SELECT NULL AS id, body FROM tickets", "table": ""}, "source.id: id: no row has one"),
        ({"table": "bills"}, "bills"),
    ],
)
def test_what_is_wrong_is_named(base: Base, given: dict[str, Any], message: str) -> None:
    with pytest.raises(SourceError) as raised:
        base.source(**given).discover()

    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_rows_without_an_id_fail_by_number_and_delete_nothing(base: Base) -> None:
    base.run(
        "CREATE TABLE notes (id INTEGER, body VARCHAR)",
        "INSERT INTO notes VALUES (NULL, 'The first.'), (NULL, 'Another.'), (7, 'The boiler is cold.')",
    )
    source = base.source(table="notes")

    found = source.discover()
    assert [listing.artifact_id for listing in found.listings] == ["7"]
    assert [failure.artifact_id for failure in found.failures] == ["rows without id (2)"]
    assert found.unknown == ("",)
    assert source.read("7").raw == "The boiler is cold."


def test_two_rows_with_one_id_are_refused(base: Base) -> None:
    base.run("INSERT INTO tickets VALUES (1, 'Again.', NULL, NULL, NULL)")

    with pytest.raises(SourceError, match=r"source.id: id: two rows have '?1'?: name a column that is unique"):
        base.source().discover()


def test_ids_are_text_or_any_other_type_of_the_database(base: Base) -> None:
    base.run("CREATE TABLE days (day DATE, body VARCHAR)", "INSERT INTO days VALUES ('2026-11-26', 'A Thursday.')")
    by_text = base.source(id="team", table="", query="SELECT * FROM tickets WHERE team IS NOT NULL")

    assert [*stamps(by_text)] == ["heating", "words"]
    assert by_text.read("words").raw == 'A 100% "quoted" text'
    days = base.source(table="days", id="day", text="body")
    assert [*stamps(days)] == ["2026-11-26"]
    assert days.read("2026-11-26").raw == "A Thursday."


@pytest.mark.parametrize("base", ["duckdb", POSTGRESQL], indirect=True)
def test_an_interval_whose_months_became_days_is_noted_by_its_column(base: Base) -> None:
    def notes(notice: str) -> list[str]:
        query = f"SELECT id, body, INTERVAL '{notice}' AS notice FROM tickets WHERE id = 1"
        return [str(note) for note in base.source(table=None, query=query).read("1").notes]

    assert notes("6 months") == ["intervals, of 30 days a month: cast them to text in a query (column notice)"]
    assert notes("6 days") == []


@pytest.mark.parametrize("base", ["duckdb", POSTGRESQL], indirect=True)
@pytest.mark.parametrize(
    ("kind", "value", "artifact_id"),
    [
        ("TIMESTAMP", "'2024-01-01 00:00:00.123'", "2024-01-01 00:00:00.123000"),
        ("DECIMAL(38,19)", "1.1000000000000000001", "1.1000000000000000001"),
        ("DECIMAL(38,1)", "12345678901234567890.5", "12345678901234567890.5"),
        ("BOOLEAN", "true", "True"),
        ("UUID", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ],
)
def test_rows_are_found_again_by_ids_that_are_written_otherwise_in_the_database(
    base: Base, kind: str, value: str, artifact_id: str
) -> None:
    base.run(f"CREATE TABLE keyed (id {kind}, body VARCHAR)", f"INSERT INTO keyed VALUES ({value}, 'Found.')")

    listed = base.source(table="keyed")
    assert [*stamps(listed)] == [artifact_id]
    assert listed.read(artifact_id).raw == "Found."
    assert base.source(table="keyed").read(artifact_id).raw == "Found."  # another process has not listed the rows


@pytest.mark.parametrize("base", [POSTGRESQL], indirect=True)
def test_a_value_that_python_cannot_hold_is_named_with_what_to_do(base: Base) -> None:
    base.run(
        "CREATE TABLE old (id INTEGER, body VARCHAR, built DATE)", "INSERT INTO old VALUES (1, 'a', '0753-04-21 BC')"
    )
    said = r"a value that Python cannot hold \(year .*\): cast its column to text in a query"

    with pytest.raises(SourceError, match=said):
        base.source(table="old").discover()
    with pytest.raises(ReadError, match=said):
        base.source(table="old").read("1")
    cast = base.source(table=None, query="SELECT id, body, CAST(built AS VARCHAR) AS built FROM old")
    assert [*stamps(cast)] == ["1"]
    assert cast.read("1").metadata["built"] == "0753-04-21 BC"


def test_a_statement_that_takes_too_long_is_stopped(base: Base) -> None:
    endless = (
        "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 1000000000)"
        " SELECT MAX(id) AS id, 'x' AS body FROM n"
    )

    with pytest.raises(SourceError, match=r"source.timeout: the database took more than 0.3 seconds"):
        base.source(table="", query=endless, timeout=0.3).discover()


def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql+psycopg2://u@127.0.0.1:{silent.getsockname()[1]}/db"
        with pytest.raises(SourceError, match="no answer within"):
            Database(url=url, table="t", timeout=0.3).discover()


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("CI") and programs() is None, reason="needs postgresql")
@pytest.mark.parametrize("last", ["columns", "kind_of"])
def test_a_server_that_falls_silent_is_not_waited_for(
    postgres: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    base = Base(postgres(f"{tmp_path.name}-{last}"))
    servers: list[int] = []
    before = getattr(databases._Rows, last)

    def answer_once_more(rows: databases._Rows, *given: Any) -> Any:
        answer = before(rows, *given)
        servers.append(rows.connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())
        os.kill(servers[-1], signal.SIGSTOP)
        return answer

    monkeypatch.setattr(databases._Rows, last, answer_once_more)
    try:
        with pytest.raises(SourceError, match=r"source.timeout: the database took more than 1 seconds"):
            base.source(timeout=1).discover()
    finally:
        for each in servers:
            os.kill(each, signal.SIGCONT)


def test_a_database_that_falls_silent_between_two_rows_is_not_asked_for_each_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Base(f"sqlite:///{tmp_path / 'tickets.db'}").source()
    source.discover()
    asked: list[object] = []

    def silent(engine: object, *_: object) -> Any:
        asked.append(engine)
        raise TimeoutError("no answer within 60 s")

    with monkeypatch.context() as patched:
        patched.setattr(Database, "_connected", silent)
        for _ in range(20):
            with pytest.raises(ReadError) as raised:
                source.read("1")
    assert len(asked) <= SILENT + 1
    assert str(raised.value) == "not asked for, since the database was late 5 times in a row"

    monkeypatch.setattr(databases, "SILENT_SECONDS", 0)
    assert source.read("1").raw == "The boiler is cold."
    assert not source._late


@pytest.mark.parametrize("driver_name", ["psycopg2", "pymysql"])
def test_a_statement_ends_with_the_connection_of_its_driver(driver_name: str) -> None:
    here, there = socket.socketpair()
    driver = SimpleNamespace(fileno=here.fileno) if driver_name == "psycopg2" else SimpleNamespace(_sock=here)
    connection: Any = SimpleNamespace(connection=SimpleNamespace(driver_connection=driver))

    databases._Rows(connection, sqlalchemy.table("t"), 1)._stop()

    there.settimeout(5)
    assert there.recv(1) == b""


def test_nothing_can_be_written(tmp_path: Path) -> None:
    for query in ("DELETE FROM tickets", "SELECT 1; DROP TABLE tickets", "SELECT * INTO t FROM tickets", "SELEKT"):
        with pytest.raises(ConfigError, match=r"^query: "):
            Database(url="sqlite:///x.db", query=query)
    with pytest.raises(SourceError, match="unable to open database file"):
        Database(url=f"sqlite:///{tmp_path / 'missing.db'}", table="t").discover()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"table": "t"}, "url: give either url or url_env"),
        ({"url": "sqlite://", "url_env": "X", "table": "t"}, "url: give either url or url_env"),
        ({"url": "sqlite://"}, "table: give either table or query"),
        (
            {"url": "postgresql://ann:secret@host/db", "table": "t"},
            "url: it has a password: put it into an environment",
        ),
        ({"url": "postgresql://h/db?password=secret", "table": "t"}, "url: it has a password"),
        ({"url": "no address", "table": "t"}, "url: not an address as SQLAlchemy has them"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Database(**given)

    assert message in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_password_is_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE", "postgresql+psycopg2://ann:hunter22@127.0.0.1:1/db")
    source = Database(url_env="DATABASE", table="t")

    with pytest.raises(SourceError) as raised:
        source.discover()
    monkeypatch.delenv("DATABASE")
    with pytest.raises(SourceError, match=r"source.url_env: the environment variable DATABASE is not set"):
        source.discover()

    assert str(raised.value).startswith("source: ")
    assert "hunter22" not in f"{raised.value!r}{source!r}"


def test_a_corpus_follows_a_table_and_pays_for_what_changed(cli: Cli) -> None:
    file = cli.folder / "tickets.db"
    with sqlite3.connect(file) as connection:
        connection.executescript(ROWS + ";")
    cli.settings["corpora"] = {
        "tickets": {"source": {"kind": "sql", "url": "sqlite:///tickets.db", "table": "tickets", "text": "body"}}
    }
    first = cli.json("index")["corpora"]["tickets"]
    with sqlite3.connect(file) as connection:
        connection.executescript(
            "UPDATE tickets SET body = 'The boiler was repaired.' WHERE id = 1; DELETE FROM tickets WHERE id = 2"
        )
    second = cli.json("index")["corpora"]["tickets"]
    third = cli.json("index")["corpora"]["tickets"]

    counts = [[report[name] for name in ("new", "changed", "deleted")] for report in (first, second, third)]
    assert counts == [[3, 0, 0], [0, 1, 1], [0, 0, 0]]
    assert [report["calls"]["embed"] for report in (first, second, third)] == [3, 1, 0]
    (hit,) = cli.json("search", "boiler", "-k", "1", "--where", "team = 'heating'")
    assert (hit["artifact_id"], hit["text"]) == ("1", "The boiler was repaired.")
    file.unlink()
    gone = cli.run("index")
    assert gone.exit_code == 1
    assert "tickets: source: unable to open database file" in " ".join(gone.output.split())
    assert len(cli.json("search", "boiler")) == 2
