"""Typed columns for the filter fields of records, so that SQL can compare them.

The values of a field always come from the column `metadata`. The same value therefore has the same type and form
whenever it was written, and a column can be rebuilt at any time.

Types only ever widen, since one column holds records of different corpora and runs. Whole numbers widen to doubles, and
a value to a list of its type. All other mixtures widen to text, with each value written as in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from findingaid.identity.hashes import to_json
from findingaid.store import schemas

if TYPE_CHECKING:
    import lance

MAX_FIELDS = 256
"""Most columns for fields; each further column would make every file of the table slower to open."""

MAX_NAME = 200

NO_NAME = re.compile(r'[.`"\x00-\x1f\x7f]')
"""Characters that Lance rejects in a column's name, or that cannot be quoted in SQL."""

OURS = "_"
"""Prefix of Lance's own columns, and of temporary columns while one is widened; no field begins with it."""

BOOL, INT, DOUBLE, TEXT = pa.bool_(), pa.int64(), pa.float64(), pa.string()
TIME = pa.timestamp("us", "UTC")
NOTHING = pa.null()
"""Type of values without a known type: null, and the elements of an empty list."""

PLAIN: Mapping[pa.DataType, type] = {BOOL: bool, INT: int, DOUBLE: float, TEXT: str}
"""Column type -> Python type of the values that Arrow accepts unchanged."""

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Fields:
    """Values of each field, one per record, as read from JSON; and the narrowest type that holds all of them."""

    values: Mapping[str, Sequence[Any]]
    types: Mapping[str, pa.DataType]

    @classmethod
    def of(cls, metadata: Iterable[str]) -> Fields:
        """Return the fields of records with this metadata, except fields that are null or nested in every record."""
        rows = [orjson.loads(text) for text in metadata]
        names = sorted(filter(is_field, set().union(*rows)))
        values = {name: [row.get(name) for row in rows] for name in names}
        types = {name: type_of_all(values[name]) for name in names}
        return cls(values, {name: kind for name, kind in types.items() if kind != NOTHING})

    def arrays(self, schema: pa.Schema) -> dict[str, pa.Array]:
        """Return a column for each field that a table with this schema has."""
        return {name: array(self.values[name], schema.field(name).type) for name in self.types if name in schema.names}


def is_field(name: str) -> bool:
    """Check whether a field of this name gets a column."""
    return (
        0 < len(name) <= MAX_NAME
        and not name.startswith(OURS)
        and not NO_NAME.search(name)
        and name not in schemas.RECORD_COLUMNS
    )


def type_of(value: Any) -> pa.DataType:
    """Return the type of a value as read from JSON; NOTHING for null, mappings and lists of lists or mappings."""
    match value:
        case bool():
            return BOOL
        case int():
            return INT if -(2**63) <= value < 2**63 else TEXT
        case float():
            return DOUBLE
        case str():
            return TEXT if time_of(value) is None else TIME
        case list():
            return type_of_all([value])
        case _:
            return NOTHING


def type_of_all(values: Sequence[Any]) -> pa.DataType:
    """Return the narrowest type that holds all of these values."""
    kinds = _kinds(values)
    if kinds == {str}:  # stops at the first that is not a time
        return TIME if all(time_of(value) for value in values if value is not None) else TEXT
    if kinds == {list}:
        inner = list(chain.from_iterable(filter(None, values)))
        if not _kinds(inner) & {list, dict}:
            return _list(type_of_all(inner))
        if len(values) == 1:
            return NOTHING
    return reduce(wider, map(type_of, values), NOTHING)


def _kinds(values: Iterable[Any]) -> set[type]:
    return set(map(type, values)) - {type(None)}


def wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the narrowest type that holds the values of both."""
    if one == other or other == NOTHING:
        return one
    if one == NOTHING:
        return other
    if pa.types.is_list(one) or pa.types.is_list(other):
        return _list(wider(_element(one), _element(other)))
    return DOUBLE if {one, other} == {INT, DOUBLE} else TEXT


def _element(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_list(kind) else kind


def _list(of: pa.DataType) -> pa.DataType:
    """Return the type of a list of numbers, or of text for all other types."""
    return pa.list_(of if of in {INT, DOUBLE, NOTHING} else TEXT)


def column_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a new column; a list of text if only empty lists are known."""
    return pa.list_(TEXT) if kind == pa.list_(NOTHING) else kind


def array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert values to a column of a type that holds them; values without a type become null."""
    listed = pa.types.is_list(kind) and _kinds(values) == {list}
    elements = chain.from_iterable(filter(None, values)) if listed else values
    if _kinds(elements) <= {PLAIN.get(_element(kind))} and (listed or kind in PLAIN):
        return pa.array(values, kind)
    return pa.array([_converted(value, kind) for value in values], kind)


def _converted(value: Any, kind: pa.DataType) -> Any:
    if type_of(value) == NOTHING:
        return None
    if pa.types.is_list(kind):
        return [_converted(v, kind.value_type) for v in (value if isinstance(value, list) else [value])]
    if kind == TIME:
        return time_of(value)
    if kind == DOUBLE:
        return float(value)  # Arrow rejects whole numbers that a double cannot represent exactly
    return to_json(value) if kind == TEXT and not isinstance(value, str) else value


def time_of(text: str) -> datetime | None:
    """Parse a text as a time in UTC; None unless it is a complete RFC 3339 time with a zone."""
    if not TIMESTAMP.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):  # a 30th of February, or a year out of range
        return None


def columns(schema: pa.Schema) -> list[str]:
    """Return the columns of the records table that hold fields."""
    return [name for name in schema.names if name not in schemas.RECORD_COLUMNS and not name.startswith(OURS)]


def type_name(kind: pa.DataType) -> str:
    """Return a readable name of a type: int64, timestamp, list<string>."""
    if pa.types.is_list(kind):
        return f"list<{kind.value_type}>"
    return "timestamp" if kind == TIME else str(kind)


def fit(dataset: lance.LanceDataset, fields: Fields) -> list[str]:
    """Add or widen columns of the records table for these fields; return the fields for which there is no room.

    A new column only changes the table's schema. A column whose type must widen is rebuilt beside the old one. One
    commit then swaps their names, so that a run killed at any moment leaves either the old column or the new one.
    """
    drop_unfinished(dataset)
    new = [name for name in fields.types if name not in dataset.schema.names]
    room = max(0, MAX_FIELDS - len(columns(dataset.schema)))
    if new[:room]:
        dataset.add_columns(pa.schema([pa.field(name, column_type(fields.types[name])) for name in new[:room]]))
    there = {name: dataset.schema.field(name).type for name in fields.types if name in dataset.schema.names}
    widened = {name: _wider_column(dataset, name, fields.types[name]) for name in there}
    _widen(dataset, {name: kind for name, kind in widened.items() if kind != there[name]})
    return new[room:]


def drop_unfinished(dataset: lance.LanceDataset) -> None:
    """Drop columns that a killed run left, which must precede every commit of rows.

    On object storage they may belong to a concurrent run, which then has to start again. Otherwise that run would swap
    in a column that lacks the rows written meanwhile.
    """
    _drop(dataset, [name for name in dataset.schema.names if name.startswith(OURS)])


def fits(dataset: lance.LanceDataset, fields: Fields) -> bool:
    """Check whether `fit` has nothing to change for these fields."""
    names = set(dataset.schema.names)
    if any(name.startswith(OURS) for name in names):
        return False
    if fields.types.keys() - names and len(columns(dataset.schema)) < MAX_FIELDS:
        return False
    there = {name: dataset.schema.field(name).type for name in fields.types.keys() & names}
    return all(_wider_column(dataset, name, fields.types[name]) == kind for name, kind in there.items())


def _wider_column(dataset: lance.LanceDataset, name: str, kind: pa.DataType) -> pa.DataType:
    """Return the type that a column needs to hold values of `kind` as well."""
    there, empty = dataset.schema.field(name).type, pa.list_(NOTHING)
    if (
        there == column_type(empty)
        and wider(empty, kind) != there
        and not dataset.count_rows(f"array_length(`{name}`) > 0")
    ):
        there = empty
    return column_type(wider(there, kind))


def _widen(dataset: lance.LanceDataset, types: Mapping[str, pa.DataType]) -> None:
    import lance

    if not types:
        return
    wide = pa.schema([pa.field(OURS + name, kind) for name, kind in types.items()])

    @lance.batch_udf(output_schema=wide)
    def rebuilt(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = [orjson.loads(text) for text in batch["metadata"].to_pylist()]
        made = [array([row.get(name) for row in rows], kind) for name, kind in types.items()]
        return pa.RecordBatch.from_arrays(made, schema=wide)

    dataset.add_columns(rebuilt, read_columns=["metadata"])
    # One commit for all names; the old columns get the prefix twice.
    old = [{"path": name, "name": OURS * 2 + name} for name in types]
    dataset.alter_columns(*old, *({"path": OURS + name, "name": name} for name in types))  # type: ignore[arg-type]  # lance takes one per argument
    _drop(dataset, [OURS * 2 + name for name in types])


def drop_unused(dataset: lance.LanceDataset) -> None:
    """Drop the columns of fields that no record has."""
    _drop(dataset, [name for name in columns(dataset.schema) if not dataset.count_rows(f"`{name}` IS NOT NULL")])


def _drop(dataset: lance.LanceDataset, names: Sequence[str]) -> None:
    if names:
        dataset.drop_columns(list(names))
