"""Filters of those who may ask, and are not trusted: a part of SQL that costs little and tells nothing of other rows.

A filter is evaluated on the rows of all corpora, in an order that nobody promises. So nothing is allowed that can fail
on some row, such as a division or a text read as a number, since the error would tell of it; and nothing that makes
large values of small ones. What is allowed is written again from what was understood of it, so that nothing passes
that Lance would read as something else, such as a comment that ends elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from findingaid.errors import QueryError, brief
from findingaid.query.fields import Field
from findingaid.query.where import LONGEST, TOO_DEEP, dialect, parsed

FUNCTIONS = frozenset({"array_contains", "array_has", "contains", "ends_with", "lower", "starts_with", "upper"})
"""What may be called."""

COMPARED = ("=", "<>", "<", "<=", ">", ">=", "IN", "BETWEEN", "LIKE", "IS NULL")

LONGEST_PATTERN = 200
"""Characters of what LIKE compares with. Of a long one Lance fails to make an expression, and only where rows are left
to be compared with it."""


def harmless(where: str, fields: Callable[[], Iterable[Field]]) -> str:
    """The same filter, from which nothing is to be feared. `fields` gives those that it may name, with their types.

    Raises QueryError for one that is more than comparisons of fields with values, joined by AND, OR and NOT.
    """
    from sqlglot import exp

    if len(where) > LONGEST:
        return where  # refused as such, and not worth parsing
    try:
        tree = parsed(where)
        problem = _problem(tree, exp) or _of_times(tree, exp, fields)
        written: str = tree.sql(dialect(), comments=False)
    except RecursionError:
        raise QueryError(f"where: {TOO_DEEP}") from None
    if problem:
        allowed = (
            f"fields compared with values by {', '.join(COMPARED)}, AND, OR, NOT, and {', '.join(sorted(FUNCTIONS))}"
        )
        raise QueryError(f"where: {problem} is not allowed here. Allowed: {allowed}")
    return written


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
    mirrored = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
    if not isinstance(node, (*mirrored, exp.Like, exp.ILike, exp.Is, exp.In, exp.Between)):
        return brief(node.sql())
    left, *right = node.iter_expressions()
    if _is_value(left, exp) and isinstance(node, mirrored):
        left, right = right[0], [left]
    if wrong := next((value for value in right if not _is_value(value, exp)), None):
        return brief(wrong.sql())
    if isinstance(node, (exp.Like, exp.ILike)) and len(right[0].name) > LONGEST_PATTERN:
        return f"a LIKE of more than {LONGEST_PATTERN} characters"
    if _is_column(left, exp):
        return ""
    texts = all(value.is_string for value in right)
    return "" if _is_call(left, exp) and texts else brief(node.sql())


def _of_times(tree: Any, exp: Any, fields: Callable[[], Iterable[Field]]) -> str:
    """What is compared with a time and is none: texts would be read as times, row by row."""
    compared = [
        column.name.lower()
        for time in tree.find_all(exp.Cast)
        for column in (time.find_ancestor(exp.Predicate) or time).find_all(exp.Column)
    ]
    types = {(field.name.lower(), field.type) for field in fields()} if compared else set()
    wrong = next((name for name in compared if {kind for of, kind in types if of == name} != {"timestamp"}), None)
    return f"a time compared with {brief(wrong)}, which is no field of times," if wrong else ""


def _is_column(node: Any, exp: Any) -> bool:
    return isinstance(node, exp.Column)


def _is_value(node: Any, exp: Any) -> bool:
    """A literal, or a text read as a time."""
    if isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg):
        return bool(node.this.is_number)
    if type(node) is exp.Cast:
        times = (exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP)
        return node.this.is_string and node.to.this in times and not node.to.expressions
    return isinstance(node, (exp.Literal, exp.Boolean, exp.Null))


def _is_call(node: Any, exp: Any) -> bool:
    """A call of an allowed function on one field and texts; of two fields one would be read as what the other is."""
    if not isinstance(node, exp.Func):
        return False
    name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
    given = node.expressions if isinstance(node, exp.Anonymous) else list(node.iter_expressions())
    fields = [each for each in given if not each.is_string]
    return name.lower() in FUNCTIONS and len(fields) == 1 and _is_column(fields[0], exp)
