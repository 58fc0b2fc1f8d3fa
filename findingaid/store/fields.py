"""The filter fields of records as columns of their own, with types, so that SQL can compare them.

The values of a field always come from the column `metadata`, so that the same value has the same type and the same
form in its column whether it was written now or long ago, and so that a column can be made again at any time.

Types only ever widen, since records of different corpora and runs stand in one column: whole numbers to doubles, a
value to a list of it, and what else does not go together to text, in which each value is written as in JSON.
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

from findingaid.identity import to_json
from findingaid.store import schemas

if TYPE_CHECKING:
    import lance

MAX_FIELDS = 256
"""Columns that fields may have together; those of later fields would make every file of the table slower to open."""

MAX_NAME = 200

NO_NAME = re.compile(r'[.`"\x00-\x1f\x7f]')
"""What Lance does not take in a column's name, or SQL has no way to quote there."""

OURS = "_"
"""No field begins with it: Lance's own columns do, and those that are there while one is widened."""

BOOL, INT, DOUBLE, TEXT = pa.bool_(), pa.int64(), pa.float64(), pa.string()
TIME = pa.timestamp("us", "UTC")
NOTHING = pa.null()
"""The type of what says nothing of its type: of null, and of the elements of an empty list."""

PLAIN: Mapping[pa.DataType, type] = {BOOL: bool, INT: int, DOUBLE: float, TEXT: str}
"""Column types -> the values that Arrow takes as they are."""

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Fields:
    """Values by field, one a record, as read from JSON; and the narrowest type that holds all of each."""

    values: Mapping[str, Sequence[Any]]
    types: Mapping[str, pa.DataType]

    @classmethod
    def of(cls, metadata: Iterable[str]) -> Fields:
        """The fields of records with this metadata; without those that are null or nested wherever they occur."""
        rows = [orjson.loads(text) for text in metadata]
        names = sorted({name for row in rows for name in row if is_field(name)})
        values = {name: [row.get(name) for row in rows] for name in names}
        types = {name: type_of_all(values[name]) for name in names}
        return cls(values, {name: kind for name, kind in types.items() if kind != NOTHING})

    def arrays(self, schema: pa.Schema) -> dict[str, pa.Array]:
        """The columns of those fields that a table with this schema has."""
        return {name: array(self.values[name], schema.field(name).type) for name in self.types if name in schema.names}


def is_field(name: str) -> bool:
    """Whether a field of this name gets a column."""
    return (
        0 < len(name) <= MAX_NAME
        and not name.startswith(OURS)
        and not NO_NAME.search(name)
        and name not in schemas.RECORD_COLUMNS
    )


def type_of(value: Any) -> pa.DataType:
    """The type of one value as read from JSON; NOTHING for what has none: null, mappings, lists of lists."""
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
    """The narrowest type that holds all of these values."""
    kinds = _kinds(values)
    if kinds == {str}:  # the first that is no time decides
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
    """The narrowest type that holds the values of both."""
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
    """Lists hold numbers, or text."""
    return pa.list_(of if of in {INT, DOUBLE, NOTHING} else TEXT)


def stored(kind: pa.DataType) -> pa.DataType:
    """The type of a new column: where all that is known are empty lists, a list of text."""
    return pa.list_(TEXT) if kind == pa.list_(NOTHING) else kind


def array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values as a column of a type that holds them; what has no type of its own is null."""
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
        return float(value)  # Arrow refuses whole numbers that a double only comes near to
    return to_json(value) if kind == TEXT and not isinstance(value, str) else value


def time_of(text: str) -> datetime | None:
    """The time that a text is: a complete one as RFC 3339 has it, with its zone."""
    if not TIMESTAMP.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):  # a 30th of February, or years that are none
        return None


def columns(schema: pa.Schema) -> list[str]:
    """The names of the fields among the columns of the records table."""
    return [name for name in schema.names if name not in schemas.RECORD_COLUMNS and not name.startswith(OURS)]


def type_name(kind: pa.DataType) -> str:
    """A type as people read it: int64, timestamp, list<string>."""
    if pa.types.is_list(kind):
        return f"list<{kind.value_type}>"
    return "timestamp" if kind == TIME else str(kind)


def fit(dataset: lance.LanceDataset, fields: Fields) -> list[str]:
    """Give the records table columns that can hold these fields; returns the names of fields for which it has no room.

    New columns are no more than a word in the table's schema. One whose type must widen is made again beside itself
    and then put in its place by a commit of names alone: a run killed at any moment leaves the one or the other.
    """
    # What a killed run left. On object storage it may be of a run at this moment: that one then has to start again,
    # where it would otherwise put a column in place that lacks the rows written meanwhile.
    _drop(dataset, [name for name in dataset.schema.names if name.startswith(OURS)])
    new = [name for name in fields.types if name not in dataset.schema.names]
    room = max(0, MAX_FIELDS - len(columns(dataset.schema)))
    if new[:room]:
        dataset.add_columns(pa.schema([pa.field(name, stored(fields.types[name])) for name in new[:room]]))
    there = {name: dataset.schema.field(name).type for name in fields.types if name in dataset.schema.names}
    widened = {name: _wider_column(dataset, name, fields.types[name]) for name in there}
    _widen(dataset, {name: kind for name, kind in widened.items() if kind != there[name]})
    return new[room:]


def _wider_column(dataset: lance.LanceDataset, name: str, kind: pa.DataType) -> pa.DataType:
    """The type that a column must have to hold values of another, too."""
    there, empty = dataset.schema.field(name).type, pa.list_(NOTHING)
    if there == stored(empty) and wider(empty, kind) != there and not dataset.count_rows(f"array_length(`{name}`) > 0"):
        there = empty
    return stored(wider(there, kind))


def _widen(dataset: lance.LanceDataset, types: Mapping[str, pa.DataType]) -> None:
    import lance

    if not types:
        return
    wide = pa.schema([pa.field(OURS + name, kind) for name, kind in types.items()])

    @lance.batch_udf(output_schema=wide)
    def made_again(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = [orjson.loads(text) for text in batch["metadata"].to_pylist()]
        made = [array([row.get(name) for row in rows], kind) for name, kind in types.items()]
        return pa.RecordBatch.from_arrays(made, schema=wide)

    dataset.add_columns(made_again, read_columns=["metadata"])
    # One commit for all names; the old columns then bear two of our marks.
    old = [{"path": name, "name": OURS * 2 + name} for name in types]
    dataset.alter_columns(*old, *({"path": OURS + name, "name": name} for name in types))  # type: ignore[arg-type]  # lance means one each
    _drop(dataset, [OURS * 2 + name for name in types])


def drop_unused(dataset: lance.LanceDataset) -> None:
    """Drop the columns of fields that no record has."""
    _drop(dataset, [name for name in columns(dataset.schema) if not dataset.count_rows(f"`{name}` IS NOT NULL")])


def _drop(dataset: lance.LanceDataset, names: Sequence[str]) -> None:
    if names:
        dataset.drop_columns(list(names))
