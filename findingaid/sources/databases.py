"""Rows of a database as artifacts, by SQLAlchemy: every run lists all keys, and reads the rows that changed."""

from __future__ import annotations

import math
import os
import re
import socket
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, lru_cache, partial
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import sqlglot
from annotated_types import Gt
from pydantic import AfterValidator, ValidationInfo
from sqlglot import exp

from findingaid.errors import ConfigError, ReadError, SourceError, brief
from findingaid.identity.hashes import content_hash, payload_bytes
from findingaid.llm.api_errors import mask_secrets
from findingaid.model import Artifact, Discovery, Failure, Listing, Note
from findingaid.registry import checked
from findingaid.sources.change_times import may_repeat, seconds_of
from findingaid.sources.limits import SILENT, SILENT_SECONDS, answer_in_time
from findingaid.sources.records import (
    MAX_BYTES,
    Columns,
    as_id,
    binary_notes,
    columns_of,
    payload_of,
    plain_value,
    require_size,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, FromClause, RowMapping, TextClause
    from sqlalchemy.engine import URL

AHEAD = 100
"""Most rows that are read with one that is asked for."""

AHEAD_SECONDS = 10.0
"""Time for which rows that were read ahead are used. A later read, after a run, wants the row as it is then."""

AT_ONCE = 1_000
"""Rows that are fetched at once."""

IN_FILES = frozenset({"sqlite", "duckdb"})
"""Databases without a server."""

LARGEST = 2**63
"""Bound of numbers that the driver of SQLite takes."""

SAME_AS_TEXT = (int, str)
"""Types of ids that are made of their text again. Of others, the value that the database gave is kept."""

IN_A_FILE = re.compile(r"((?:sqlite|duckdb):///)([^/:].*)")
"""Address of a database in a file that is named by a relative path."""

STOP_BY_ITSELF = (
    "SELECT set_config('statement_timeout', least(nullif(setting::bigint, 0), :ms)::text, true)"
    " FROM pg_settings WHERE name = 'statement_timeout'"
)

MONTH = timedelta(days=30)

NOT_READ: tuple[float, None] = (-math.inf, None)

SECRET = re.compile(r"pass|pwd|secret|token|key", re.IGNORECASE)
"""Names of parameters of an address that hold a secret."""

SELECT = re.compile(r"\s*(select|with)\b", re.IGNORECASE)

INSTALL = "the source sql needs SQLAlchemy and a driver of the database: pip install 'findingaid[sql]'"


def _beside_the_config(url: str | None, info: ValidationInfo) -> str | None:
    """Return an address in which a relative path of a file is below the folder of the configuration file."""
    base: Path | None = (info.context or {}).get("base")
    found = IN_A_FILE.match(url or "")
    return url if base is None or found is None else f"{found[1]}{base / found[2]}"


@checked
@dataclass(frozen=True)
class Database:
    """The rows of a table, or of a query that selects, in any database for which SQLAlchemy has a driver.

    `url` is SQLAlchemy's, without a password; in a configuration, a file is relative to its folder. `url_env` names the
    environment variable with an address that has one. `id` names a column without nulls or repeated values. Several
    `text` columns are joined by blank lines; without any, the payload is the whole row, for a strategy with a
    `text_key`. `fields` become metadata: by default all other columns. A row is read again when its `updated` column
    changes; without one, every run reads all rows to compare them. A statement is stopped after `timeout` seconds. The
    database is opened for reading only.
    """

    url: Annotated[str | None, AfterValidator(_beside_the_config)] = None
    url_env: str | None = None
    table: str | None = None
    query: str | None = None
    id: str = "id"
    text: Columns = ()
    updated: str | None = None
    fields: Columns | None = None
    timeout: Annotated[float, Gt(0)] = 60
    max_bytes: Annotated[int, Gt(0)] = MAX_BYTES

    def __post_init__(self) -> None:
        for one, other in (("url", "url_env"), ("table", "query")):
            if bool(getattr(self, one)) == bool(getattr(self, other)):
                raise ConfigError(f"{one}: give either {one} or {other}")
        if self.url and _secrets_of(self.url):
            raise ConfigError("url: it has a password: put it into an environment variable, and name that as url_env")
        if self.query:
            _require_select(self.query)

    def discover(self) -> Discovery:
        """List all rows. Raises SourceError for two rows with one id, and if no row has any.

        A row without an id fails, and nothing is deleted, since it may be any of those that are missing.
        """
        self.__dict__.pop("_shape", None)  # the table may have changed since the last run
        self._ahead.clear()
        self._late.clear()
        listings: dict[str, Listing] = {}
        failures: list[Failure] = []
        nameless = 0
        shape = self._shape
        self._values.clear()
        with self._opened() as rows:
            for row in rows.all([self.id, self.updated] if self.updated else shape.columns):
                artifact_id = self._named(row[self.id])
                nameless += not artifact_id
                if not artifact_id:
                    continue
                if artifact_id in listings:
                    raise SourceError(
                        f"source.id: {self.id}: two rows have {brief(artifact_id)}: name a column that is unique"
                    )
                try:
                    listings[artifact_id] = self._listing(artifact_id, row)
                except TypeError as error:  # a value that JSON cannot hold, such as half of a surrogate pair
                    failures.append(Failure(artifact_id, "artifacts", "encoding", f"cannot be stored as JSON: {error}"))
        if nameless and not listings:
            raise SourceError(f"source.id: {self.id}: no row has one: name another column")
        if nameless:
            problem = f"no {self.id}; nothing is deleted from this corpus until every row has one"
            failures.append(Failure(f"rows without {self.id} ({nameless:,})", "artifacts", "missing", problem))
        self._order[:] = sorted(listings)
        return Discovery([listings[i] for i in self._order], failures, ("",) if nameless else ())

    def listing(self, artifact_id: str) -> Listing | None:
        """Return a row as `discover` lists it now; None if it is gone. Raises SourceError."""
        self._ahead.pop(artifact_id, None)  # a read that follows is of the row as it is now
        row = self._find([artifact_id]).get(artifact_id)
        return None if row is None else self._listing(artifact_id, row)

    def read(self, artifact_id: str) -> Artifact:
        if len(self._late) >= SILENT and time.monotonic() < self._late[-1] + SILENT_SECONDS:
            raise ReadError(f"not asked for, since the database was late {SILENT} times in a row", "transport")
        try:
            at, row = self._ahead.pop(artifact_id, NOT_READ)
            if time.monotonic() > at + AHEAD_SECONDS:
                row = self._read_ahead(artifact_id)
        except SourceError as error:
            raise ReadError(str(error), "unreadable") from error
        if row is None:
            raise ReadError(f"no row has this {self.id}: if there is one, cast {self.id} to text in a query", "missing")
        artifact = self._artifact(artifact_id, row)
        require_size(payload_bytes(artifact.raw), self.max_bytes)
        return artifact

    def _read_ahead(self, artifact_id: str) -> Mapping[str, Any] | None:
        """Return a row, or None if it is gone. Keep those listed after it for the next reads.

        Without an index on the ids, each statement goes through all rows. If one row of many cannot be computed, the
        row is read alone, so that no other fails with that one.
        """
        start = bisect_left(self._order, artifact_id)
        try:
            found = self._find({artifact_id, *self._order[start : start + AHEAD]})
        except SourceError:
            found = self._find([artifact_id])
        row = found.pop(artifact_id, None)
        self._ahead.clear()
        now = time.monotonic()
        self._ahead.update({each: (now, values) for each, values in found.items()})
        return row

    def _find(self, artifact_ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """Return the rows that are there, by id."""
        shape = self._shape
        wanted = [*artifact_ids]
        with self._opened() as rows:
            if shape.kind not in SAME_AS_TEXT and not self._values.keys() >= {*wanted}:
                for row in rows.all([self.id]):
                    self._named(row[self.id])
            known = [self._values[each] for each in wanted if each in self._values]
            made = [value for each in wanted for value in rows.values_of(each, shape.kind)]
            found = rows.some(shape.columns, self.id, made + known)
        return {self._named(row[self.id]): row for row in found}

    def _named(self, value: Any) -> str:
        """Return the id of a row with this value in the column of ids, and keep the value if its text is another."""
        artifact_id = as_id(plain_value(value))
        if artifact_id and type(value) not in SAME_AS_TEXT:
            self._values[artifact_id] = value
        return artifact_id

    @cached_property
    def _order(self) -> list[str]:
        """The ids of the last listing, sorted."""
        return []

    @cached_property
    def _values(self) -> dict[str, Any]:
        """The values of the column of ids that are not `SAME_AS_TEXT`, by id."""
        return {}

    @cached_property
    def _ahead(self) -> dict[str, tuple[float, Mapping[str, Any] | None]]:
        """Rows that are likely read next, each with the time when it was read."""
        return {}

    @cached_property
    def _late(self) -> list[float]:
        """The times at which the database did not answer in time, since it last did."""
        return []

    def _listing(self, artifact_id: str, row: Mapping[str, Any]) -> Listing:
        """Return a row's listing: its stamp changes with `updated` and with what is read, or with any value."""
        if self.updated:
            value = row[self.updated]
            place = mask_secrets(self._address, _secrets_of(self._address))
            read = (self._shape.columns, place, self.table, self.query, self.text, self.fields)
            stamp = "" if value is None else content_hash(*read, str(value)) + "?" * may_repeat(value)
            return Listing(artifact_id, stamp, changed=seconds_of(value))
        artifact = self._artifact(artifact_id, row)
        return Listing(artifact_id, content_hash(artifact.raw, artifact.metadata), payload_bytes(artifact.raw))

    def _artifact(self, artifact_id: str, row: Mapping[str, Any]) -> Artifact:
        values = {name: plain_value(_unpadded(value)) for name, value in row.items()}
        text = columns_of(self.text)
        named = [n for n in values if n not in {self.id, *text}]
        fields = named if self.fields is None else columns_of(self.fields)
        notes = (*binary_notes(row), *_month_notes(row))
        return Artifact(artifact_id, payload_of(values, text), {name: values[name] for name in fields}, notes)

    @cached_property
    def _shape(self) -> _Shape:
        """The columns of the table or query. Raises SourceError for a configured one that is not there."""
        with self._opened() as rows:
            found = rows.columns()
            wanted = {
                "id": (self.id,),
                "text": columns_of(self.text),
                "updated": columns_of(self.updated or ()),
                "fields": columns_of(self.fields or ()),
            }
            for key, names in wanted.items():
                if missing := [name for name in names if name not in found]:
                    raise SourceError(f"source.{key}: no column {missing[0]!r}. Known: {', '.join(found)}")
            if repeated := [name for name in found if found.count(name) > 1]:
                raise SourceError(f"source.query: two columns are called {repeated[0]!r}: rename one of them")
            return _Shape(found, rows.kind_of(self.id))

    @property
    def _address(self) -> str:
        """The address of the database. Raises SourceError."""
        address = self.url or os.environ.get(self.url_env or "", "")
        if not address:
            raise SourceError(f"source.url_env: the environment variable {self.url_env} is not set")
        return address

    @contextmanager
    def _opened(self) -> Iterator[_Rows]:
        """Open the rows for reading. Raises SourceError."""
        from sqlalchemy.exc import SQLAlchemyError

        address = self._address
        rows: _Rows | None = None
        try:
            engine = _engine(address)
            connection = self._connected(engine).execution_options(**_read_only(engine))
            rows = _Rows(connection, self._origin(), self.timeout)
            with rows:
                yield rows
            self._late.clear()
        except (SQLAlchemyError, ImportError, OSError) as error:
            if isinstance(error, TimeoutError) or (rows and rows.late):
                self._late.append(time.monotonic())
            if rows and rows.late:
                raise SourceError(f"source.timeout: the database took more than {self.timeout:g} seconds") from None
            raise SourceError(f"source: {_told(error, address)}") from None
        except (ValueError, OverflowError) as error:  # of a driver, for a value such as a year before Christ
            raise SourceError(
                f"source: a value that Python cannot hold ({_told(error, address)}): cast its column to text in a query"
            ) from None

    def _connected(self, engine: Engine) -> Connection:
        """Connect to the database. Raises TimeoutError, since most drivers wait for a silent server without end."""
        in_file = engine.dialect.name in IN_FILES
        return engine.connect() if in_file else answer_in_time(engine.connect, seconds=self.timeout)

    def _origin(self) -> FromClause:
        from sqlalchemy import table, text

        if self.query:  # a colon in it is no parameter
            query = self.query.strip().rstrip(";").replace(":", "\\:")
            return text(f"{query}\n").columns().subquery("q")  # it may end in a comment
        schema, _, name = (self.table or "").rpartition(".")
        return table(name, schema=schema or None)


@dataclass(frozen=True)
class _Shape:
    """Columns of the rows, in order, and the type of their ids."""

    columns: Sequence[str]
    kind: type


@dataclass
class _Rows:
    """The rows on an open connection. Whatever takes longer than `timeout` seconds is stopped, and `late` set."""

    connection: Connection
    origin: FromClause
    timeout: float
    late: bool = False

    def __enter__(self) -> None:
        """Have PostgreSQL stop statements by itself, soon after `_stop` ended the connection."""
        from sqlalchemy import text

        if self.connection.dialect.name == "postgresql":
            with self._limited():
                self.connection.execute(text(STOP_BY_ITSELF), {"ms": int(self.timeout * 1000) + 1000})

    def __exit__(self, *_: object) -> None:
        with self._limited():  # it waits for the server to end the transaction
            self.connection.close()

    def columns(self) -> Sequence[str]:
        """Return the names of all columns."""
        from sqlalchemy import false, text

        with self._limited():
            return list(self.connection.execute(self._select(text("*")).where(false())).keys())

    def kind_of(self, name: str) -> type:
        """Return the type of the values of a column."""
        from sqlalchemy import column

        with self._limited():
            named = self._select(name).where(column(name).is_not(None))
            value = self.connection.execute(named.limit(1)).scalar()
        return str if value is None else type(value)

    def values_of(self, artifact_id: str, kind: type) -> Iterator[Any]:
        """Yield what a row with this id may have in the column of ids.

        That is one value of a type that is `SAME_AS_TEXT`, and in SQLite, where each row may have a type of its own,
        one of every type.
        """
        if self.connection.dialect.name != "sqlite":
            if kind in SAME_AS_TEXT:
                with suppress(ValueError):  # no number
                    yield kind(artifact_id)
            return
        yield artifact_id
        yield artifact_id.encode()
        for number in (int, float):
            with suppress(ValueError, ArithmeticError):  # a text
                value = number(artifact_id)
                if math.isfinite(value) and abs(value) < LARGEST:
                    yield value

    def all(self, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield these columns of every row, some rows in memory at a time."""
        streamed = self.connection.execution_options(yield_per=AT_ONCE)
        with self._limited():
            batches = streamed.execute(self._select(*columns)).mappings().partitions()
        while True:
            with self._limited():
                batch = next(batches, None)
            if batch is None:
                return
            yield from map(_by_name, batch)

    def some(self, columns: Sequence[str], name: str, values: Sequence[Any]) -> list[Mapping[str, Any]]:
        """Return these columns of the rows that have one of the values in the column `name`."""
        from sqlalchemy import column

        with self._limited():
            rows = self.connection.execute(self._select(*columns).where(column(name).in_(values))).mappings().all()
        return list(map(_by_name, rows))

    def _select(self, *columns: str | TextClause) -> Any:
        from sqlalchemy import column, select

        named: list[Any] = [column(each) if isinstance(each, str) else each for each in columns]
        return select(*named).select_from(self.origin)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        timer = Timer(self.timeout, self._stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _stop(self) -> None:
        """Stop the statement under way: SQLite and DuckDB interrupt it, others lose their connection.

        A server that is asked to cancel it may be the one that does not answer.
        """
        self.late = True
        driver: Any = self.connection.connection.driver_connection
        if fileno := getattr(getattr(driver, "_sock", driver), "fileno", None):  # PyMySQL has its socket there
            with suppress(OSError), socket.socket(fileno=os.dup(fileno())) as connected:
                connected.shutdown(socket.SHUT_RDWR)
            return
        stop = getattr(driver, "interrupt", None) or getattr(driver, "cancel", None) or driver.close
        stop()


def _month_notes(row: Mapping[str, Any]) -> Iterator[Note]:
    """Yield a note that names the columns with intervals that may have had months, of which drivers make days."""
    if columns := [name for name, value in row.items() if isinstance(value, timedelta) and abs(value) >= MONTH]:
        yield Note(
            "guessed", f"intervals, of 30 days a month: cast them to text in a query (column {', '.join(columns)})"
        )


def _unpadded(value: Any) -> Any:
    """Return a value without the spaces that a database adds to a text in a column of type CHAR(n).

    A filter on `'open'` would not find it.
    """
    return value.rstrip(" ") if isinstance(value, str) else value


def _by_name(row: RowMapping) -> dict[str, Any]:
    return {str(name): value for name, value in row.items()}


def _secrets_of(address: str) -> list[str]:
    """Return the password of an address, and the values of its parameters whose names tell of a secret."""
    url = _parse_url(address)
    found = [url.password] if url.password is not None else []
    for name, value in url.query.items():
        if SECRET.search(name):
            found += [value] if isinstance(value, str) else value
        elif name == "odbc_connect":  # it holds parameters of its own
            found += re.findall(r"(?i)(?:pwd|password)=([^;]+)", str(value))
    return [*map(str, found)]


def _parse_url(address: str) -> URL:
    try:
        from sqlalchemy import make_url
        from sqlalchemy.exc import ArgumentError
    except ModuleNotFoundError:
        raise ConfigError(INSTALL) from None
    try:
        return make_url(address)
    except ArgumentError:
        raise ConfigError(
            "url: not an address as SQLAlchemy has them, such as postgresql://user@host/database"
        ) from None


@lru_cache(maxsize=16)
def _engine(address: str) -> Engine:
    """Return the engine of an address. A database in a file is opened for reading, and never made."""
    from sqlalchemy import NullPool, create_engine, event

    url = _parse_url(address)
    kind = url.get_backend_name()
    if kind not in IN_FILES:
        return create_engine(url, pool_pre_ping=True)
    # A connection that is kept would see a file that was replaced, and keep others from writing to it.
    if kind == "duckdb":
        return create_engine(url, connect_args={"read_only": True}, poolclass=NullPool)
    file = f"file:{quote(os.path.abspath(url.database or ''))}"
    engine = create_engine(url.set(database=file, query={**url.query, "mode": "ro", "uri": "true"}), poolclass=NullPool)
    event.listen(engine, "connect", _keep_damaged_text)
    return engine


def _keep_damaged_text(connection: Any, _: object) -> None:
    """Have SQLite return a text that is not UTF-8, so that its row fails alone."""
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")


def _read_only(engine: Engine) -> dict[str, Any]:
    return {"postgresql_readonly": True} if engine.dialect.name == "postgresql" else {}


def _require_select(query: str) -> None:
    """Raise ConfigError unless the query is one SELECT, which changes nothing.

    One in words of a single database, which sqlglot does not know, has to begin as a SELECT.
    """
    changes = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Command, exp.Create, exp.Drop, exp.Into)
    try:
        statements = sqlglot.parse(query)
        selects = len(statements) == 1 and isinstance(statements[0], exp.Query) and not statements[0].find(*changes)
    except sqlglot.errors.SqlglotError:
        selects = SELECT.match(query) is not None and ";" not in query.strip().rstrip(";")
    if not selects:
        raise ConfigError("query: expected one SELECT statement")


def _told(error: BaseException, address: str) -> str:
    """Return the first line of an error of a database, without the password in its address."""
    said = str(getattr(error, "orig", None) or error).strip().splitlines()
    return mask_secrets(said[0] if said else type(error).__name__, _secrets_of(address))
