"""Filters from outside: what passes fails on no row, and says to Lance what it says to us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import lance
import pyarrow as pa
import pytest

from findingaid import QueryError
from findingaid.query.fields import Field
from findingaid.query.harmless import LONGEST_PATTERN, harmless
from findingaid.query.where import parsed

TYPES = {
    "words": pa.string(),
    "whole": pa.int64(),
    "real": pa.float64(),
    "yes": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
    "listed": pa.list_(pa.string()),
    "numbers": pa.list_(pa.float64()),
}
ROWS: list[tuple[Any, ...]] = [
    ("open", "a", 1, 1.0, True, datetime(2020, 1, 1, tzinfo=UTC), ["a"], [1.5]),
    ("hidden", "zz % _ \\ '", 2**62, float("nan"), False, datetime(9000, 1, 1, tzinfo=UTC), ["b", None], [1e308]),
    ("hidden", "2020-01-01", None, 1e308, None, None, None, []),
]
VALUES = [
    "'x'", "''", "'2020-01-01'", "'1'", "5", "-5", "1.5", "1e400", "99999999999999999999", "true", "NULL", "'\\'",
    "timestamp '2020-01-01T00:00:00Z'", "timestamp '262000-01-01'", "timestamp 'x'", "DATE '9999-01-01'",
    "CAST('2020-01-01' AS TIMESTAMP(9))", f"'{'_a%' * 60}'", f"'{'_a%' * 20_000}'", "'it''s'",
]  # fmt: skip


def filters() -> Iterator[str]:
    for field in TYPES:
        yield from (field, f"NOT {field}", f"{field} IS NULL", f"{field} IS TRUE")
        for value in VALUES:
            yield from (f"{field} {sign} {value}" for sign in ("=", "<>", "<", "LIKE", "NOT LIKE", "ILIKE"))
            yield from (f"{value} > {field}", f"{value} LIKE {field}", f"{field} NOT IN ({value}, 'q')")
            yield f"{field} BETWEEN {value} AND {value}"
            if value.startswith("'"):
                yield from (f"{name}({field}, {value})" for name in ("array_has", "contains", "starts_with"))
                yield from (f"lower({field}) = {value}", f"lower({field}) LIKE {value}")


def fields() -> list[Field]:
    names = {"timestamp[us, tz=UTC]": "timestamp"}
    return [Field(name, names.get(str(kind), str(kind)), 1) for name, kind in TYPES.items()]


def quoted(where: str) -> str:
    """Names as Lance has them."""
    return where.replace('"', "`")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """How many rows a filter finds; the type of the error where it fails."""
    schema = pa.schema([("corpus", pa.string()), *TYPES.items()])
    rows = [dict(zip(schema.names, row, strict=True)) for row in ROWS]
    dataset = lance.write_dataset(pa.Table.from_pylist(rows, schema), tmp_path_factory.mktemp("rows") / "rows.lance")

    def count(where: str) -> Any:
        try:
            return dataset.count_rows(where)
        except (ValueError, OSError, RuntimeError) as error:
            return type(error)

    return count


def test_whether_a_filter_fails_tells_nothing_of_the_rows(found: Callable[[str], Any]) -> None:
    """Else one could ask whether any row of another corpus says something, and be told by an error."""
    passed = 0
    for where in filters():
        try:
            written = quoted(harmless(where, fields))
        except QueryError:
            continue
        passed += 1
        of_some, of_none = (found(f"corpus = '{corpus}' AND ({written})") for corpus in ("hidden", "nobody"))

        assert isinstance(of_some, type) == isinstance(of_none, type), where
        assert found(written) == found(where), where
    assert passed > 500


@pytest.mark.parametrize(
    "where",
    [
        "words > timestamp '2020-01-01T00:00:00Z'",
        "words IN (DATE '2020-01-01')",
        "nothing BETWEEN DATE '2020-01-01' AND DATE '2021-01-01'",
        "time > CAST('2020-01-01' AS TIMESTAMP(9))",
        "TRY_CAST('x' AS DATE) < time",
        f"words LIKE '{'_' * (LONGEST_PATTERN + 1)}'",
        "'x' LIKE words",
    ],
)
def test_what_may_fail_on_a_row_is_refused(where: str) -> None:
    with pytest.raises(QueryError, match="is not allowed here"):
        harmless(where, fields)


def test_what_is_read_is_what_was_understood() -> None:
    assert harmless("TIME > timestamp '2020-01-01T00:00:00Z'", fields) == (
        "TIME > CAST('2020-01-01T00:00:00Z' AS TIMESTAMP)"
    )
    assert (
        harmless("true /* ) OR (true */ -- x\r AND words = 'it''s /* \\'", fields) == "TRUE AND words = 'it''s /* \\'"
    )
    assert harmless("`odd name` = 1 {# words #}", fields) == '"odd name" = 1'


@pytest.mark.parametrize("where", ["true /* /* */) OR (true -- */", "true /*/**/ OR 1 / 0 > 0 --*/"])
def test_a_comment_that_ends_elsewhere_for_lance_is_refused(where: str) -> None:
    with pytest.raises(QueryError, match="a comment within a comment"):
        parsed(where)
