"""Filters of those who may ask, and are not trusted: a part of SQL that costs little and tells nothing of other rows.

A filter is evaluated on the rows of all corpora. So nothing is allowed that can fail on some row, such as a division or
a column read as a number, since the error would tell of it; and nothing that makes large values of small ones.
"""

from __future__ import annotations

from typing import Any

from findingaid.errors import QueryError, brief
from findingaid.query.where import LONGEST, TOO_DEEP, parsed

FUNCTIONS = frozenset({"array_contains", "array_has", "contains", "ends_with", "lower", "starts_with", "upper"})
"""What may be called."""

COMPARED = ("=", "<>", "<", "<=", ">", ">=", "IN", "BETWEEN", "LIKE", "IS NULL")


def require_harmless(where: str) -> None:
    """Raises QueryError for a filter that is more than comparisons of fields with values, joined by AND, OR and NOT."""
    from sqlglot import exp

    if len(where) > LONGEST:
        return  # refused as such, and not worth parsing
    try:
        problem = _problem(parsed(where), exp)
    except RecursionError:
        raise QueryError(f"where: {TOO_DEEP}") from None
    if problem:
        allowed = (
            f"fields compared with values by {', '.join(COMPARED)}, AND, OR, NOT, and {', '.join(sorted(FUNCTIONS))}"
        )
        raise QueryError(f"where: {problem} is not allowed here. Allowed: {allowed}")


def _problem(tree: Any, exp: Any) -> str:
    """What of a condition is not allowed, "" where all of it is."""
    open_ = [tree]
    while open_:
        node = open_.pop()
        if isinstance(node, (exp.And, exp.Or, exp.Not, exp.Paren)):
            open_ += node.iter_expressions()
        elif problem := _of_test(node, exp):
            return problem
    return ""


def _of_test(node: Any, exp: Any) -> str:
    """What is wrong with one comparison."""
    if _is_column(node, exp) or _is_value(node, exp) or _is_call(node, exp):
        return ""
    comparisons = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.ILike, exp.Is, exp.In, exp.Between)
    if not isinstance(node, comparisons):
        return brief(node.sql())
    left, *right = node.iter_expressions()
    if _is_value(left, exp) and len(right) == 1:
        left, right = right[0], [left]
    if wrong := next((value for value in right if not _is_value(value, exp)), None):
        return brief(wrong.sql())
    if _is_column(left, exp):
        return ""
    texts = all(value.is_string for value in right)
    return "" if _is_call(left, exp) and texts else brief(node.sql())


def _is_column(node: Any, exp: Any) -> bool:
    return isinstance(node, exp.Column)


def _is_value(node: Any, exp: Any) -> bool:
    """A literal, or a text read as a time."""
    if isinstance(node, (exp.Neg, exp.Paren)):
        node = node.this
    if isinstance(node, exp.Cast):
        return node.this.is_string and node.to.this in exp.DataType.TEMPORAL_TYPES
    return isinstance(node, (exp.Literal, exp.Boolean, exp.Null))


def _is_call(node: Any, exp: Any) -> bool:
    """A call of an allowed function on one field and texts; of two fields one would be read as what the other is."""
    if not isinstance(node, exp.Func):
        return False
    name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
    given = node.expressions if isinstance(node, exp.Anonymous) else list(node.iter_expressions())
    fields = [each for each in given if not each.is_string]
    return name.lower() in FUNCTIONS and len(fields) == 1 and _is_column(fields[0], exp)
