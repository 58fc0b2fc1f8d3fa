"""Rows as artifacts, from a JSONL, CSV or Parquet file, or from a table in memory. A column holds the artifact id."""

from __future__ import annotations

import csv
import io
import math
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Protocol

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from annotated_types import Gt
from pydantic_core import from_json

from findingaid.errors import ConfigError, ReadError, SourceError
from findingaid.identity.hashes import content_hash, payload_bytes, to_json
from findingaid.model import Artifact, Discovery, Failure, Listing, Raw
from findingaid.registry import ConfigPath, checked
from findingaid.sources.files import decode

Columns = str | tuple[str, ...]

MAX_BYTES = 20_000_000

# The csv module refuses fields over 128 KiB, a size that texts often exceed. Its limit applies to the whole process.
CSV_FIELD_LIMIT = 2**31 - 1

WRITING_SECONDS = 60
"""Age in seconds up to which a file that ends in half a line counts as still being written."""

CUT_SHORT = "unexpected end of data"
"""Prefix of orjson's error message for a text that ends before its JSON does."""

BLOCKS = "; nothing is deleted from this corpus until the row is repaired, because its id is unknown"


@dataclass(frozen=True)
class Row:
    """One row and its location, such as "people.csv:7".

    `broken` says why the row could not be parsed; `values` then holds the fields that could be recovered.
    """

    where: str
    values: Mapping[str, Any] = field(default_factory=dict)
    broken: str = ""


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
        """Return the folder of the file, since a program may replace the file by renaming another."""
        return [self.path.parent]

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

    def _table(self) -> _Table:
        """Return the rows. The file is read again if it has changed."""
        try:
            found = self.path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise SourceError(f"source.path: {self.path}: not a regular file")
            stamp = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
            if stamp not in self._tables:
                self._tables.clear()
                rows = READERS[self.path.suffix.lower()](self)
                self._tables[stamp] = _Table(self, rows, _is_being_written(self.path, found))
            return self._tables[stamp]
        except OSError as error:
            raise SourceError(f"source.path: {self.path}: {error.strerror or error}") from error

    @cached_property
    def _tables(self) -> dict[tuple[int, ...], _Table]:
        return {}


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
        rows = self.rows if isinstance(self.rows, Sequence) else self.rows.to_dict("records")
        return _Table(self, (Row(f"row {number}", values) for number, values in enumerate(rows)))


class _Table:
    """Rows as artifacts by their ids, with a failure for each row that cannot be one."""

    def __init__(self, source: RecordFile | Records, rows: Iterator[Row], growing: bool = False) -> None:
        self.source = source
        self.text, self.metadata = _columns(source.text), _columns(source.metadata)
        self.artifacts: dict[str, Artifact] = {}
        self.listings: dict[str, Listing] = {}
        self.places: dict[str, str] = {}
        self.failures: list[Failure] = []
        self.hides = False
        seen: dict[str, None] = {}
        broken: list[Row] = []
        for row in rows:
            if row.broken:
                broken.append(row)
            else:
                self._add(row)
            seen |= dict.fromkeys(row.values)
        if growing and broken and broken[-1] is row:
            self.hides = True  # the row to come, and all that may follow it
            broken.pop()
        for row in broken:
            self._add_broken(row)
        missing = [column for column in (source.id, *self.text, *self.metadata) if column not in seen]
        if seen and missing:
            raise SourceError(f"no column {missing[0]!r}. Known: {', '.join(map(str, seen))}")

    @property
    def discovery(self) -> Discovery:
        # While a broken row may be any artifact's, no artifact is taken for deleted.
        unknown = ("",) if self.hides else ()
        return Discovery([self.listings[i] for i in sorted(self.listings)], self.failures, unknown)

    def listing(self, artifact_id: str) -> Listing | None:
        """Return a row, or None if there is none. Raises SourceError if it may be one that is broken."""
        if self.hides and artifact_id not in self.listings:
            raise SourceError("a row is broken, which may be any artifact's")
        return self.listings.get(artifact_id)

    def read(self, artifact_id: str) -> Artifact:
        if artifact_id not in self.artifacts:
            raise ReadError("no longer in the table", "missing")
        size, limit = self.listings[artifact_id].size, self.source.max_bytes
        if size > limit:
            message = f"{self.places[artifact_id]}: {size:,} bytes, more than source.max_bytes = {limit:,}"
            raise ReadError(message, "too_large")
        return self.artifacts[artifact_id]

    def _add(self, row: Row) -> None:
        values = {column: _plain(value) for column, value in row.values.items()}
        artifact_id = _as_id(values.get(self.source.id))
        if not artifact_id:
            return self._fail(row, "missing", f"no {self.source.id!r}: give the row an id")
        if artifact_id in self.places:
            first = self.places[artifact_id]
            return self._fail(row, "duplicate", f"duplicate id {artifact_id!r} (first at {first}); keeping the first")
        artifact = Artifact(artifact_id, self._raw(values), {column: values.get(column) for column in self.metadata})
        try:
            stamp = content_hash(artifact_id, artifact.raw, artifact.metadata)
        except TypeError as error:  # orjson raises this for a lone surrogate
            return self._fail(row, "encoding", f"contains text that is not valid Unicode ({error})")
        self.artifacts[artifact_id] = artifact
        self.listings[artifact_id] = Listing(artifact_id, stamp, payload_bytes(artifact.raw))
        self.places[artifact_id] = row.where
        return None

    def _add_broken(self, row: Row) -> None:
        """Record a broken row under its id if that can be recovered, so that no other artifact is affected."""
        artifact_id = _as_id(_plain(row.values.get(self.source.id)))
        if not artifact_id:
            self.hides = True
            self._fail(row, "parse", row.broken + BLOCKS)
        elif artifact_id in self.places:
            self._fail(row, "parse", row.broken)
        else:
            self.failures.append(Failure(artifact_id, "artifacts", "parse", f"{row.where}: {row.broken}"))

    def _raw(self, values: dict[str, Any]) -> Raw:
        if not self.text:
            return values
        texts = (values.get(column) for column in self.text)
        return "\n\n".join(text if isinstance(text, str) else to_json(text) for text in texts if text is not None)

    def _fail(self, row: Row, kind: str, message: str) -> None:
        self.failures.append(Failure(row.where, "artifacts", kind, message))


def _jsonl(source: RecordFile) -> Iterator[Row]:
    """Yield the rows of a JSON Lines file.

    Lines are parsed one by one, so that a truncated line, or one in another encoding, does not affect the rest.
    """
    with open(source.path, "rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{source.path.name}:{number}"
            text = line.removeprefix(b"\xef\xbb\xbf").strip()
            try:
                values = orjson.loads(text) if text else None
            except orjson.JSONDecodeError as error:
                yield Row(where, _whole_fields(text, error), f"not JSON: {error.msg}")
                continue
            if isinstance(values, dict):
                yield Row(where, values)
            elif text:
                yield Row(where, broken=f"expected a JSON object, got {type(values).__name__}")


def _whole_fields(line: bytes, error: orjson.JSONDecodeError) -> Mapping[str, Any]:
    """Return the fields that precede the end of a truncated line.

    Return {} if the line is broken in another way, since it may then be two rows.
    """
    fields = from_json(line, allow_partial=True) if error.msg.startswith(CUT_SHORT) else None
    if not isinstance(fields, dict):
        return {}
    if fields and isinstance(fields[last := list(fields)[-1]], int | float):
        del fields[last]  # 12 may be the beginning of 123
    return fields


def _is_being_written(path: Path, found: os.stat_result) -> bool:
    """Return whether a file ends in the middle of a line and was written a moment ago."""
    if time.time() - found.st_mtime > WRITING_SECONDS or not found.st_size:
        return False
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() not in {b"\n", b"\r"}


def _csv(source: RecordFile) -> Iterator[Row]:
    csv.field_size_limit(CSV_FIELD_LIMIT)
    delimiter = source.delimiter or ("\t" if source.path.suffix.lower() == ".tsv" else ",")
    try:
        text, _ = decode(source.path.read_bytes())
    except ReadError as error:
        raise SourceError(f"source.path: {source.path}: {error}") from error
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    while True:
        where = f"{source.path.name}:{lines.line_num + 1}"
        try:
            cells = next(lines)
        except StopIteration:
            return
        except csv.Error as error:
            yield Row(where, broken=f"not CSV: {error}")
            continue
        if not header:
            header = cells
        elif len(cells) == len(header):
            yield Row(where, dict(zip(header, cells, strict=True)))
        elif cells:
            yield Row(where, broken=f"{len(cells)} fields, but the header has {len(header)}")


def _parquet(source: RecordFile) -> Iterator[Row]:
    columns = [source.id, *_columns(source.text), *_columns(source.metadata)] if source.text else None
    try:
        with pq.ParquetFile(source.path) as file:
            known = file.schema_arrow.names
            if missing := [column for column in columns or [source.id] if column not in known]:
                raise SourceError(f"no column {missing[0]!r}. Known: {', '.join(known)}")
            number = 0
            for batch in file.iter_batches(columns=columns):
                for values in batch.to_pylist():
                    yield Row(f"{source.path.name}:row {number}", values)
                    number += 1
    except pa.ArrowInvalid as error:
        raise SourceError(f"source.path: {source.path}: not Parquet: {str(error).splitlines()[0]}") from error


READERS: dict[str, Callable[[RecordFile], Iterator[Row]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
}


def _columns(columns: Columns) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _plain(value: Any) -> Any:
    """Return a cell's value as plain Python: None for the missing values of pandas and numpy, lists for arrays."""
    if type(value).__name__ in {"NAType", "NaTType"} or (isinstance(value, float) and math.isnan(value)):
        return None
    return value.tolist() if hasattr(value, "tolist") else value


def _as_id(value: Any) -> str:
    """Return an id as text; "" for a missing one.

    pandas turns a column of integers into floats if one value is missing.
    """
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
