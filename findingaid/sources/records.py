"""Rows as artifacts, from a JSONL, CSV or Parquet file, or from a table in memory. A column holds the artifact id."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import IO, Annotated, Any, Protocol

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from annotated_types import Gt
from pydantic_core import from_json

from findingaid.errors import ConfigError, ReadError, SourceError, brief
from findingaid.identity.hashes import content_hash, payload_bytes, to_json
from findingaid.model import Artifact, Discovery, Failure, Listing, Note, Raw
from findingaid.registry import ConfigPath, checked
from findingaid.sources.local import FLAGS
from findingaid.sources.placeholders import POINTER, POINTER_BYTES, is_pointer
from findingaid.text.decoding import decode, has_mark

Columns = str | tuple[str, ...]

MAX_BYTES = 20_000_000

# The csv module refuses fields over 128 KiB, a size that texts often exceed. Its limit applies to the whole process.
CSV_FIELD_LIMIT = 2**31 - 1

WRITING_SECONDS = 60
"""Age in seconds up to which a file that does not end in a line end counts as still being written."""

SETTLING_SECONDS = 1.0
"""Time without a change after which a file that has lost rows counts as whole."""

MARK_BYTES = 4
"""Bytes of the longest byte order mark."""

ZEROS = 0.02
"""Most zero bytes of a file of rows that is text, as a share; UTF-16 without a mark has many more."""

LINE_ENDS = (b"\n", b"\r")

CSV_ENDED = "unexpected end of data"
MORE_JSON = "Extra data"
"""Messages of the csv module for a text that ends within a quoted field, and of the json module for a second value."""

COLONS = re.compile(rb'"\s*:')

LONG_NUMBER = re.compile(rb"\d{19}")
"""Digits of a number that may not fit 64 bits; orjson reads such a number as a float."""

LEAST, MOST = -(2**63), 2**64
EXACT = 2**53
"""Limits of integers in JSON as it is stored, and of floats that stand for one integer only."""

INEXACT = "its id is a number that a float cannot hold exactly: write the id as text"

DEEPEST = 200
"""Most levels of lists and mappings in a value, fewer than JSON can be written with."""

NOT_STORED = "cannot be stored as JSON: {}"

BLOCKS = "; nothing is deleted from this corpus until the row is repaired, because its id is unknown"


@dataclass(frozen=True)
class Row:
    """One row and its location, such as "people.csv:7".

    `broken` says why the row could not be parsed or stored, and `kind` is the kind of that failure; `values` then holds
    the fields that could be recovered. An `unfinished` row is the last one of a file that does not end in a line end:
    the row may go on or, if it has no values, rows may follow.
    """

    where: str
    values: Mapping[str, Any] = field(default_factory=dict)
    broken: str = ""
    kind: str = "parse"
    unfinished: bool = False
    notes: Sequence[Note] = ()


class Frame(Protocol):
    """The part of a pandas DataFrame's interface that is used here."""

    def to_dict(self, orient: str) -> list[dict[str, Any]]: ...


@checked
@dataclass(frozen=True)
class RecordFile:
    """The rows of one file, by its suffix: .jsonl or .ndjson, .csv or .tsv, .parquet.

    `id`, `text` and `metadata` name columns. Several `text` columns are joined by blank lines; without any, the
    payload is the whole row, for a strategy with a `text_key`. The file is read once by every run that lists it,
    and its rows are held in memory: a row's stamp is the hash of its values.
    """

    path: ConfigPath
    id: str = "id"
    text: Columns = ()
    metadata: Columns = ()
    delimiter: str | None = None
    max_bytes: Annotated[int, Gt(0)] = MAX_BYTES

    def __post_init__(self) -> None:
        if self.path.suffix.lower() not in READERS:
            raise ConfigError(f"path: {self.path.name}: unknown suffix. Known: {', '.join(READERS)}")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ConfigError(f"delimiter: expected one character, got {self.delimiter!r}")

    def watched(self) -> list[Path]:
        """Return the folders of the file and of a link's target, since programs replace a file by renaming another."""
        return list(dict.fromkeys([self.path.parent, self.path.resolve().parent]))

    def discover(self) -> Discovery:
        self._tables.clear()
        return self._table().discovery

    def listing(self, artifact_id: str) -> Listing | None:
        """Return a row as `discover` lists it now; None if it is gone. Raises SourceError."""
        return self._table().listing(artifact_id)

    def read(self, artifact_id: str) -> Artifact:
        try:
            return self._table().read(artifact_id)
        except SourceError as error:
            raise ReadError(str(error), "unreadable") from error

    def settle(self) -> bool:
        """Return whether the file stays as it was read until it has not changed for `SETTLING_SECONDS`."""
        try:
            age = time.time() - os.stat(self.path).st_mtime
            time.sleep(min(max(SETTLING_SECONDS - age, 0), SETTLING_SECONDS))
            return _stamp(os.stat(self.path)) in self._tables
        except OSError:
            return False

    def _table(self) -> _Table:
        """Return the rows. The file is read again if it has changed."""
        try:
            opened = os.open(self.path, FLAGS)
            try:
                found = os.fstat(opened)
                if not stat.S_ISREG(found.st_mode):
                    raise SourceError(f"source.path: {self.path}: not a regular file")
                stamp = _stamp(found)
                if stamp not in self._tables:
                    self._tables.clear()
                    with open(opened, "rb", closefd=False) as file:
                        self._tables[stamp] = self._read_table(file, found)
                return self._tables[stamp]
            finally:
                os.close(opened)
        except OSError as error:
            raise SourceError(f"source.path: {self.path}: {error.strerror or error}") from error

    def _read_table(self, file: IO[bytes], found: os.stat_result) -> _Table:
        if is_pointer(file.read(POINTER_BYTES + 1)):
            raise SourceError(f"source.path: {self.path}: {POINTER}")
        file.seek(0)
        young = abs(time.time() - found.st_mtime) <= WRITING_SECONDS  # a time further ahead counts as past
        table = _Table(self, READERS[self.path.suffix.lower()](self, file), young)
        after = os.fstat(file.fileno())
        if (after.st_size, after.st_mtime_ns) != (found.st_size, found.st_mtime_ns):
            table.wait(f"{self.path.name} changed while it was read")
        return table

    @cached_property
    def _tables(self) -> dict[tuple[int, ...], _Table]:
        return {}


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


@dataclass(frozen=True)
class Records:
    """The rows of a pandas DataFrame or of a list of mappings, for use from Python; columns as for RecordFile."""

    rows: Sequence[Mapping[str, Any]] | Frame
    id: str = "id"
    text: Columns = ()
    metadata: Columns = ()
    max_bytes: int = MAX_BYTES

    def discover(self) -> Discovery:
        self.__dict__.pop("_table", None)  # the rows may have changed since the last run
        return self._table.discovery

    def read(self, artifact_id: str) -> Artifact:
        return self._table.read(artifact_id)

    @cached_property
    def _table(self) -> _Table:
        if isinstance(self.rows, Sequence):
            rows = self.rows
        else:
            columns = [*map(str, getattr(self.rows, "columns", ()))]
            if repeated := [name for name, count in Counter(columns).items() if count > 1]:
                raise SourceError(f"two columns are called {repeated[0]!r}: rename one of them")
            rows = self.rows.to_dict("records")
        return _Table(self, (Row(f"row {number}", values) for number, values in enumerate(rows)))


class _Table:
    """Rows as artifacts by their ids, with a failure for each row that cannot be one.

    While the file is `young`, an unfinished row is not read, and nothing counts as deleted.
    """

    def __init__(self, source: RecordFile | Records, rows: Iterator[Row], young: bool = False) -> None:
        self.source = source
        self.text, self.metadata = columns_of(source.text), columns_of(source.metadata)
        self.artifacts: dict[str, Artifact] = {}
        self.listings: dict[str, Listing] = {}
        self.places: dict[str, str] = {}
        self.failures: list[Failure] = []
        self.broken: list[Row] = []
        self.waits = ""
        self.hides = False
        seen: dict[str, None] = {}
        for row in rows:
            if row.unfinished and young:
                self.wait(f"{row.where}: the file was written less than a minute ago and may not be whole")
            elif row.broken:
                self.broken.append(row)
            elif row.values or not row.unfinished:
                self._add(row)
            seen |= dict.fromkeys(row.values)
        for row in self.broken:
            self._add_broken(row)
        missing = [column for column in (source.id, *self.text, *self.metadata) if column not in seen]
        if seen and missing:
            raise SourceError(f"no column {missing[0]!r}. Known: {', '.join(map(str, seen))}")

    def wait(self, why: str) -> None:
        """Leave the row that may still be written, and what may follow it, to a later run."""
        self.waits = f"{why}: more may follow, so its last row may wait, and nothing is deleted, until a later run"
        self.hides = True

    @property
    def discovery(self) -> Discovery:
        # While a broken row may be any artifact's, no artifact is taken for deleted.
        unknown = ("",) if self.hides else ()
        notes = [self.waits] if self.waits else []
        return Discovery([self.listings[i] for i in sorted(self.listings)], self.failures, unknown, notes)

    def listing(self, artifact_id: str) -> Listing | None:
        """Return a row, or None if there is none. Raises SourceError if it may be one that is broken."""
        if self.hides and artifact_id not in self.listings:
            raise SourceError("a row is broken or still being written, and may be any artifact's")
        return self.listings.get(artifact_id)

    def read(self, artifact_id: str) -> Artifact:
        if artifact_id not in self.artifacts:
            raise ReadError("no longer in the table", "missing")
        place, size = self.places[artifact_id], self.listings[artifact_id].size
        require_size(size, self.source.max_bytes, f"{place}: ")
        return self.artifacts[artifact_id]

    def _add(self, row: Row) -> None:
        try:
            values = {column: plain_value(value) for column, value in row.values.items()}
        except TypeError as error:
            return self.broken.append(replace(row, broken=NOT_STORED.format(error)))
        own = values.get(self.source.id)
        if isinstance(own, float) and abs(own) >= EXACT:
            self.broken.append(replace(row, values={}, broken=INEXACT))
            return None
        artifact_id = as_id(own)
        if not artifact_id:
            return self._fail(row, "missing", f"no {self.source.id!r}: give the row an id")
        if artifact_id in self.places:
            first = self.places[artifact_id]
            return self._fail(row, "duplicate", f"duplicate id {artifact_id!r} (first at {first}); keeping the first")
        metadata = {column: values.get(column) for column in self.metadata}
        artifact = Artifact(
            artifact_id, payload_of(values, self.text), metadata, (*row.notes, *binary_notes(row.values))
        )
        try:
            stamp = content_hash(artifact_id, artifact.raw, artifact.metadata)
        except TypeError as error:  # orjson raises this, for one, for half of a surrogate pair
            self.broken.append(replace(row, broken=NOT_STORED.format(error), kind="encoding"))
            return None
        self.artifacts[artifact_id] = artifact
        self.listings[artifact_id] = Listing(artifact_id, stamp, payload_bytes(artifact.raw))
        self.places[artifact_id] = row.where
        return None

    def _add_broken(self, row: Row) -> None:
        """Record a broken row under its id if that can be recovered, so that no other artifact is affected."""
        own = row.values.get(self.source.id)
        artifact_id = "" if isinstance(own, list | dict) else as_id(plain_value(own))
        if not artifact_id or not _is_unicode(artifact_id):
            self.hides = True
            self._fail(row, row.kind, row.broken + BLOCKS)
        elif artifact_id in self.places:
            self._fail(row, row.kind, row.broken)
        else:
            self.failures.append(Failure(artifact_id, "artifacts", row.kind, f"{row.where}: {row.broken}"))

    def _fail(self, row: Row, kind: str, message: str) -> None:
        self.failures.append(Failure(row.where, "artifacts", kind, message))


def _jsonl(source: RecordFile, file: IO[bytes]) -> Iterator[Row]:
    """Yield the rows of a JSON Lines file.

    Lines are parsed one by one, so that a truncated line, or one in another encoding, does not affect the rest.
    """
    where, line = source.path.name, b""
    if has_mark(file.read(MARK_BYTES)):
        file.seek(0)
        file = io.BytesIO(_decode(source, file.read())[0].encode())
    file.seek(0)
    for number, line in enumerate(file, 1):
        where = f"{source.path.name}:{number}"
        if text := line.removeprefix(b"\xef\xbb\xbf").strip():
            row = _parse_line(where, text)
            yield replace(row, unfinished=bool(row.broken) and not line.endswith(LINE_ENDS))
    if not line.endswith(LINE_ENDS):
        yield Row(where, unfinished=True)


def _parse_line(where: str, text: bytes) -> Row:
    repeated: Sequence[str] = ()
    try:
        values = orjson.loads(text)
        if LONG_NUMBER.search(text) or _may_repeat(values, text):
            values, repeated = _parse_leniently(text)
    except orjson.JSONDecodeError as error:
        try:
            values, repeated = _parse_leniently(text)
        except (ValueError, RecursionError) as also:
            two_rows = str(also).startswith(MORE_JSON)
            return Row(where, {} if two_rows else _whole_fields(text), f"not JSON: {error.msg}")
    if isinstance(values, dict):
        notes = [Note("repeated_key", f"a row repeats {brief(key)}: the last counts") for key in repeated]
        return Row(where, values, notes=notes)
    return Row(where, broken=f"expected a JSON object, got {type(values).__name__}")


def _may_repeat(values: Any, text: bytes) -> bool:
    """Return whether a line of JSON has more colons behind quotes than its object has keys at the top."""
    return isinstance(values, dict) and len(COLONS.findall(text)) > len(values)


def _parse_leniently(text: bytes) -> tuple[Any, Sequence[str]]:
    """Parse JSON, and return the keys that an object repeats with another value.

    Parse it with what Python and others write beyond the standard, and with integers of any length as text.

    That is NaN and Infinity, control characters, half of a surrogate pair, and bytes that are not UTF-8, which become
    such halves. Raises ValueError and RecursionError.
    """
    repeated: dict[str, None] = {}

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in pairs:
            if key in made and made[key] != value:
                repeated[key] = None
            made[key] = value
        return made

    decoded = text.decode("utf-8", "surrogateescape")
    values = json.loads(decoded, strict=False, parse_int=_integer, object_pairs_hook=mapping)
    return values, list(repeated)


def _integer(digits: str) -> int | str:
    """Return an integer, or its digits if it does not fit 64 bits."""
    return digits if len(digits) > 20 else _fitting(int(digits))


def _fitting(value: int) -> int | str:
    return value if LEAST <= value < MOST else str(value)


def _whole_fields(line: bytes) -> Mapping[str, Any]:
    """Return the fields that precede the end of a truncated line.

    Return {} if the line is broken in another way, since it may then be two rows.
    """
    try:
        fields = from_json(line, allow_partial=True)
    except ValueError:
        return {}
    if not isinstance(fields, dict):
        return {}
    if fields and isinstance(fields[last := list(fields)[-1]], int | float):
        del fields[last]  # 12 may be the beginning of 123
    return fields


def _csv(source: RecordFile, file: IO[bytes]) -> Iterator[Row]:
    """Yield the rows of a CSV file. Without a line end at the end of the file, the last row may be cut anywhere.

    After a header alone, all rows may follow.
    """
    text, notes = _decode(source, file.read())
    last = Row(source.path.name)
    for row in _parse_csv(source, text):
        if last.values or last.broken:
            yield last
        last = replace(row, notes=notes)
    none = not (last.values or last.broken)
    yield replace(last, unfinished=none or last.unfinished or not text.endswith(("\n", "\r")))


def _decode(source: RecordFile, payload: bytes) -> tuple[str, Sequence[Note]]:
    """Decode a file of rows. A few zero bytes in UTF-8, of damaged rows, stay as they are, as in JSON."""
    if 0 < payload.count(b"\0") <= ZEROS * len(payload) and not has_mark(payload):
        with suppress(UnicodeDecodeError):
            return payload.decode("utf-8-sig"), ()
    try:
        text, _, notes = decode(payload)
    except ReadError as error:
        raise SourceError(f"source.path: {source.path}: {error}") from error
    return text, notes


def _parse_csv(source: RecordFile, text: str) -> Iterator[Row]:
    csv.field_size_limit(CSV_FIELD_LIMIT)
    delimiter = source.delimiter or ("\t" if source.path.suffix.lower() == ".tsv" else ",")
    if delimiter == "\t":
        text = _quoted_alone(text)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    while True:
        where = f"{source.path.name}:{lines.line_num + 1}"
        try:
            cells = next(lines)
        except StopIteration:
            return
        except csv.Error as error:
            yield Row(where, broken=f"not CSV: {error}", unfinished=str(error) == CSV_ENDED)
            continue
        if not header:
            header = [name or f"column {place}" for place, name in enumerate(cells, 1)]
            _refuse_repeated(source, header)
        elif len(cells) == len(header):
            yield Row(where, dict(zip(header, cells, strict=True)))
        elif cells:
            yield Row(where, broken=f"{len(cells)} fields, but the header has {len(header)}")


def _quoted_alone(text: str) -> str:
    """Return a text with tabs in which a quote that swallows rows is doubled, so that it is read as a character.

    Most programs write quotes into such a text as they are. A quote at the beginning of a field begins a quoted field
    only if it is closed in its line, or if no row follows in the next line.
    """
    lines = list(io.StringIO(text, newline=""))
    tabs = lines[0].count("\t") if lines else 0
    if not tabs or '"' not in text:
        return text
    for at, line in enumerate(lines):
        body = line.rstrip("\r\n")
        fields = body.split("\t")
        follows = at + 1 < len(lines) and lines[at + 1].count("\t") == tabs
        if len(fields) == tabs + 1 and follows and any(map(_opens, fields)):
            lines[at] = "\t".join(map(_as_written, fields)) + line[len(body) :]
    return "".join(lines)


def _opens(field: str) -> bool:
    """Return whether a field has a quote that is not closed, or is closed before its end."""
    if not field.startswith('"'):
        return False
    inside = field[1:-1].replace('""', "")
    return len(field) == 1 or not field.endswith('"') or '"' in inside


def _as_written(field: str) -> str:
    quoted = field.replace('"', '""')
    return f'"{quoted}"' if _opens(field) else field


def _refuse_repeated(source: RecordFile, header: Sequence[str]) -> None:
    """Raise SourceError if two columns that are read have the same name, since one of them would be lost."""
    read = {source.id, *columns_of(source.text), *columns_of(source.metadata)} if source.text else {*header}
    if repeated := [name for name, count in Counter(header).items() if count > 1 and name in read]:
        raise SourceError(f"source.path: {source.path}: two columns are called {repeated[0]!r}: rename one of them")


def _parquet(source: RecordFile, file: IO[bytes]) -> Iterator[Row]:
    columns = [source.id, *columns_of(source.text), *columns_of(source.metadata)] if source.text else None
    try:
        with pq.ParquetFile(file) as table:
            known = table.schema_arrow.names
            _refuse_repeated(source, known)
            if missing := [column for column in columns or [source.id] if column not in known]:
                raise SourceError(f"no column {missing[0]!r}. Known: {', '.join(known)}")
            number = 0
            for batch in table.iter_batches(columns=columns):
                for row in _rows_of(batch):
                    yield replace(row, where=f"{source.path.name}:row {number}")
                    number += 1
    except pa.ArrowInvalid as error:
        raise SourceError(f"source.path: {source.path}: not Parquet: {str(error).splitlines()[0]}") from error


def _rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield the rows of a batch. One with a value that Python cannot hold, such as a day after 9999, is broken."""
    with suppress(ValueError, OverflowError, KeyError):
        yield from [Row("", values) for values in batch.to_pylist()]
        return
    for at in range(batch.num_rows):
        values, broken = {}, ""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                values[name] = column[at].as_py()
            except (ValueError, OverflowError, KeyError) as error:
                broken = broken or f"column {name} ({column.type}) has a value that cannot be read: {error}"
        yield Row("", values, broken=broken)


READERS: dict[str, Callable[[RecordFile, IO[bytes]], Iterator[Row]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
}


def require_size(size: int, max_bytes: int, where: str = "") -> None:
    """Raise ReadError for an artifact of more than `max_bytes`; `where` begins the message."""
    if size > max_bytes:
        raise ReadError(f"{where}{size:,} bytes, more than source.max_bytes = {max_bytes:,}", "too_large")


def payload_of(values: Mapping[str, Any], text: Sequence[str]) -> Raw:
    """Return the text of a row, the columns `text` joined by blank lines; without any, the whole row."""
    if not text:
        return dict(values)
    texts = (values.get(column) for column in text)
    return "\n\n".join(text if isinstance(text, str) else to_json(text) for text in texts if text is not None)


def columns_of(columns: Columns) -> tuple[str, ...]:
    """Return the names of the columns; one may be given alone."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def plain_value(value: Any, depth: int = 0) -> Any:
    """Return a cell's value as JSON can hold it, also within lists and mappings.

    Missing values of pandas and numpy become None, like numbers that are not finite; arrays and sets become lists.
    Numbers that JSON would change become text. So do bytes, as which some programs write text to Parquet; those that
    are not UTF-8 become None. Raises TypeError for a value that is nested more deeply than JSON is written.
    """
    if depth > DEEPEST:
        raise TypeError(f"nested more than {DEEPEST} levels deep")
    match value:
        case bytes() | bytearray() | memoryview():
            return _utf8(bytes(value))
        case set() | frozenset():
            return sorted(map(plain_value, value, repeat(depth + 1)), key=to_json)
        case list() | tuple():
            return [*map(plain_value, value, repeat(depth + 1))]
        case Mapping():
            return {key: plain_value(each, depth + 1) for key, each in value.items()}
        case Decimal():
            return _decimal(value) if value.is_finite() else None
        case dt.time() if value.tzinfo:
            return value.isoformat()
    if type(value).__name__ in {"NAType", "NaTType"} or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if hasattr(value, "tolist"):
        return plain_value(value.tolist(), depth)
    return _fitting(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _decimal(value: Decimal) -> float | int | str:
    """Return a number as an integer of 64 bits or a float if these are written as it is, else its digits."""
    whole = value == value.to_integral_value()
    if whole and LEAST <= value < MOST:
        return int(value)
    if not whole and Decimal(repr(float(value))) == value:
        return float(value)
    digits = f"{value:f}"
    return digits if whole else digits.rstrip("0")


def _utf8(value: bytes) -> str | None:
    with suppress(UnicodeDecodeError):
        return value.decode()
    return None


def binary_notes(values: Mapping[str, Any]) -> Iterator[Note]:
    """Yield a note that names the columns with bytes that are not text."""
    if columns := [column for column, value in values.items() if _has_binary(value)]:
        yield Note("binary_values", f"bytes that are not text, left out (column {', '.join(columns)})")


def _has_binary(value: Any) -> bool:
    match value:
        case bytes() | bytearray() | memoryview():
            return _utf8(bytes(value)) is None
        case list() | tuple() | set() | frozenset():
            return any(map(_has_binary, value))
        case Mapping():
            return any(map(_has_binary, value.values()))
    return False


def _is_unicode(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_id(value: Any) -> str:
    """Return an id as text; "" for a missing one.

    pandas turns a column of integers into floats if one value is missing.
    """
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
