"""Filters from untrusted callers: a subset of SQL that is cheap and reveals nothing about other rows.

A filter is evaluated on the rows of all corpora, in no guaranteed order. So operations that can fail on some row, such
as a division or the cast of a text to a number, are rejected, since the error would reveal that row. Operations that
make large values from small ones are rejected too. An accepted filter is generated again from its syntax tree, so that
nothing passes that Lance would parse differently, such as a comment that ends elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from findingaid.errors import QueryError, brief
from findingaid.query.search.filter_fields import Field
from findingaid.query.search.filters import MAX_FILTER_CHARS, TOO_DEEP, filter_dialect, parse_filter

FUNCTIONS = frozenset({"array_contains", "array_has", "contains", "ends_with", "lower", "starts_with", "upper"})
"""Functions that a filter may call."""

COMPARED = ("=", "<>", "<", "<=", ">", ">=", "IN", "BETWEEN", "LIKE", "IS NULL")

MAX_COMPARISONS = 100
"""Most comparisons of one filter; each is evaluated on every row scanned. `IN` counts as one, however many values."""

MAX_PATTERN_CHARS = 200
"""Most characters of a LIKE pattern. Lance fails to compile a long one, but only if rows are left to compare with it,
so the error would reveal whether there are any."""


def restrict_filter(where: str, fields: Callable[[], Iterable[Field]]) -> str:
    """Return an equivalent filter that is safe to run. `fields` returns the fields that it may name, with their types.

    A filter longer than `MAX_FILTER_CHARS` is returned unchanged; `validate_filter` rejects it. Raises QueryError if a
    filter has anything but comparisons of fields with values, joined by AND, OR and NOT.
    """
    from sqlglot import exp

    if len(where) > MAX_FILTER_CHARS:
        return where  # rejected for its length later, so not parsed here
    try:
        tree = parse_filter(where)
        problem = _find_disallowed(tree, exp) or _find_wrong_time(tree, exp, fields)
        written: str = tree.sql(filter_dialect(), comments=False)
    except RecursionError:
        raise QueryError(f"where: {TOO_DEEP}") from None
    if problem:
        allowed = (
            f"fields compared with values by {', '.join(COMPARED)}, AND, OR, NOT, and {', '.join(sorted(FUNCTIONS))}"
        )
        raise QueryError(f"where: {problem} is not allowed here. Allowed: {allowed}")
    return written


def _find_disallowed(tree: Any, exp: Any) -> str:
    """Return the part of a condition that is not allowed, or "" if all of it is."""
    open_, comparisons = [tree], 0
    while open_:
        node = open_.pop()
        if isinstance(node, (exp.And, exp.Or, exp.Not, exp.Paren)):
            open_ += node.iter_expressions()
            continue
        comparisons += 1
        if comparisons > MAX_COMPARISONS:
            return f"more than {MAX_COMPARISONS} comparisons (for one of many values write `name IN (…)`)"
        if problem := _find_disallowed_operand(node, exp):
            return problem
    return ""


def _find_disallowed_operand(node: Any, exp: Any) -> str:
    """Return the part of one comparison that is not allowed, or ""."""
    if _is_column(node, exp) or _is_value(node, exp) or _is_call(node, exp):
        return ""
    mirrored = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
    if not isinstance(node, (*mirrored, exp.Like, exp.ILike, exp.Is, exp.In, exp.Between)):
        return brief(node.sql())
    left, *right = node.iter_expressions()
    if _is_value(left, exp) and isinstance(node, mirrored):
        left, right = right[0], [left]
    if wrong := next((value for value in right if not _is_value(value, exp)), None):
        return brief(wrong.sql())
    if isinstance(node, (exp.Like, exp.ILike)) and len(right[0].name) > MAX_PATTERN_CHARS:
        return f"a LIKE of more than {MAX_PATTERN_CHARS} characters"
    if _is_column(left, exp):
        return ""
    texts = all(value.is_string for value in right)
    return "" if _is_call(left, exp) and texts else brief(node.sql())


def _find_wrong_time(tree: Any, exp: Any, fields: Callable[[], Iterable[Field]]) -> str:
    """Return a message if a field that holds no times is compared with a time, else "".

    Lance would convert texts to times row by row, and could fail on some row.
    """
    within = {id(found): found for time in tree.find_all(exp.Cast) for found in [time.find_ancestor(exp.Predicate)]}
    compared = [column.name.lower() for found in within.values() if found for column in found.find_all(exp.Column)]
    types = {(field.name.lower(), field.type) for field in fields()} if compared else set()
    wrong = next((name for name in compared if {kind for of, kind in types if of == name} != {"timestamp"}), None)
    return f"a comparison of a time with {brief(wrong)}, which does not hold times," if wrong else ""


def _is_column(node: Any, exp: Any) -> bool:
    return isinstance(node, exp.Column)


def _is_value(node: Any, exp: Any) -> bool:
    """Return whether a node is a literal, or a text literal cast to a date or timestamp."""
    if isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg):
        return bool(node.this.is_number)
    if type(node) is exp.Cast:
        times = (exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP)
        return node.this.is_string and node.to.this in times and not node.to.expressions
    return isinstance(node, (exp.Literal, exp.Boolean, exp.Null))


def _is_call(node: Any, exp: Any) -> bool:
    """Return whether a node calls an allowed function on one field and text literals.

    A call with two fields is not allowed: one of them would be converted to the type of the other.
    """
    if not isinstance(node, exp.Func):
        return False
    name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
    given = node.expressions if isinstance(node, exp.Anonymous) else list(node.iter_expressions())
    fields = [each for each in given if not each.is_string]
    return name.lower() in FUNCTIONS and len(fields) == 1 and _is_column(fields[0], exp)
