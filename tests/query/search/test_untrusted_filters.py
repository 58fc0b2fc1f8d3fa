"""Untrusted filters: an accepted one fails on no row, and Lance reads it as the validator does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from types import FrameType
from typing import Any

import lance
import pyarrow as pa
import pytest

from findingaid import FindingAid, QueryError
from findingaid.query.search.filters.fields import Field
from findingaid.query.search.filters.syntax import MAX_COMPARISONS, MAX_PATTERN_CHARS, parse_filter, restrict_filter
from findingaid.query.search.searcher import FILTERS_KEPT
from tests.support.serving import indexed

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
    """Return the number of rows that a filter finds, or the type of its error."""
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
            written = quoted(restrict_filter(where, fields))
        except QueryError:
            continue
        passed += 1
        of_some, of_none = (partial(found, f"corpus = '{corpus}' AND ({written})") for corpus in ("hidden", "nobody"))

        assert not isinstance(of_some(), type) or isinstance(of_none(), type), where
        assert written == where or found(written) == found(where), where
    assert passed > 500


@pytest.mark.parametrize(
    "where",
    [
        "words > timestamp '2020-01-01T00:00:00Z'",
        "words IN (DATE '2020-01-01')",
        "nothing BETWEEN DATE '2020-01-01' AND DATE '2021-01-01'",
        "time > CAST('2020-01-01' AS TIMESTAMP(9))",
        "TRY_CAST('x' AS DATE) < time",
        f"words LIKE '{'_' * (MAX_PATTERN_CHARS + 1)}'",
        "'x' LIKE words",
    ],
)
def test_what_may_fail_on_a_row_is_refused(where: str) -> None:
    with pytest.raises(QueryError, match="is not allowed here"):
        restrict_filter(where, fields)


def test_what_is_read_is_what_was_understood() -> None:
    assert restrict_filter("TIME > timestamp '2020-01-01T00:00:00Z'", fields) == (
        "TIME > CAST('2020-01-01T00:00:00Z' AS TIMESTAMP)"
    )
    assert (
        restrict_filter("true /* ) OR (true */ -- x\r AND words = 'it''s /* \\'", fields)
        == "TRUE AND words = 'it''s /* \\'"
    )
    assert restrict_filter("`odd name` = 1 {# words #}", fields) == '"odd name" = 1'


@pytest.mark.parametrize("where", ["true /* /* */) OR (true -- */", "true /*/**/ OR 1 / 0 > 0 --*/"])
def test_a_comment_that_ends_elsewhere_for_lance_is_refused(where: str) -> None:
    with pytest.raises(QueryError, match="nested comments are not allowed"):
        parse_filter(where)


@pytest.mark.parametrize(
    "where",
    [
        " OR ".join(["whole = 1"] * (MAX_COMPARISONS + 1)),
        "NOT (" + " AND ".join(f"whole <> {i}" for i in range(MAX_COMPARISONS + 1)) + ")",
        " OR ".join(["yes"] * (MAX_COMPARISONS + 1)),
    ],
)
def test_a_filter_of_more_comparisons_than_are_made_is_refused(where: str) -> None:
    with pytest.raises(QueryError, match=r"more than 100 comparisons \(for one of many values write `name IN \(…\)`\)"):
        restrict_filter(where, fields)


def test_a_filter_may_have_as_many_comparisons_as_are_made_and_thousands_of_values() -> None:
    many = " OR ".join(["whole = 1"] * (MAX_COMPARISONS - 1))
    values = ", ".join(f"'artifact {i:05}'" for i in range(4_000))

    assert restrict_filter(f"{many} OR words IN ({values})", fields) == f"{many} OR words IN ({values})"


def test_a_filter_of_too_many_words_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(QueryError, match="20,001 tokens, at most 20,000: ask in several searches"):
        parse_filter("+".join(["1"] * 10_001))


@pytest.mark.parametrize(
    "nested", ["DATE ({})", "TIMESTAMP ({})", "DECIMAL({})", "INT({})", "STRUCT({})", "ARRAY[{}]", "STRUCT<{}>(x)"]
)
def test_the_work_of_the_parser_is_bounded_however_a_filter_is_nested(nested: str) -> None:
    """Of some of these each bracket doubles the time: forty of them would take years."""
    where = "x"
    for _ in range(40):
        where = nested.format(where)

    with pytest.raises(QueryError, match="nested operators"):
        parse_filter(where)


def calls_of(name: str, work: Callable[[], object]) -> int:
    """Return how often functions of a name are called while something is done; "" for all functions."""
    calls = 0

    def seen(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and name in {"", frame.f_code.co_name}

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_a_list_of_times_costs_in_proportion_to_its_length() -> None:
    """Each time had the whole list looked through: one of 4,000 times took minutes."""

    def cost(times: int) -> int:
        listed = ", ".join(["timestamp '2020-01-01T00:00:00Z'"] * times)
        return calls_of("", lambda: restrict_filter(f"time IN ({listed})", fields))

    cost(1)

    assert cost(800) < 6 * cost(200)


@pytest.fixture(scope="module")
def aid(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    return indexed(tmp_path_factory.mktemp("filtered"), "open")


def test_a_field_is_looked_for_once_however_often_a_filter_names_it(aid: FindingAid) -> None:
    """Each mention was a scan of the table: a filter of 11,000 mentions took half a minute."""

    def scans(where: str) -> int:
        return calls_of("to_table", lambda: aid.search("tokens", mode="lexical", where=where))

    once = scans("media_type = 'a'")

    assert scans(" OR ".join(f"media_type = 'a{i}'" for i in range(100))) <= once + 1


def test_filters_that_are_remembered_do_not_add_up(aid: FindingAid) -> None:
    for number in range(2 * FILTERS_KEPT):
        aid.search("tokens", mode="lexical", where=f"surface_index < {number}")

    assert 0 < len(aid.searcher.reader().filters) <= FILTERS_KEPT
