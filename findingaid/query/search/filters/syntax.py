"""Syntax that is allowed in filters: what no filter may have, and the little that untrusted callers may use.

A filter is evaluated on the rows of all corpora, in no guaranteed order. So operations that can fail on some row, such
as a division or the cast of a text to a number, are refused to untrusted callers, since the error would reveal that
row. So are operations that make large values from small ones. Their filters are generated again from the syntax tree,
so that nothing passes that Lance would parse differently, such as a comment that ends elsewhere.

This module loads sqlglot, so it is imported only when there is a filter.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from findingaid.errors import QueryError, brief
from findingaid.query.search.filters.fields import Field
from findingaid.text.folding import both_forms

NEAR = 40
"""Characters of the SQL before the place of an error that its message shows."""

MAX_FILTER_CHARS = 100_000
"""Most characters of a filter; enough to list several thousand ids."""

MAX_NESTING = 200
"""Deepest nesting of operators. Lance has no limit of its own and crashes the process at about 500."""

MAX_TOKENS = 20_000
"""Most words and signs of a filter: those of two lists of 5,000 values."""

ROUGHLY = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|\w+|[^\w\s]""")
"""Tokens, counted fast and a little too high: `<=` counts as two. A filter with far too many is not parsed."""

STEPS = 3
"""Parser steps allowed per token. The parser normally needs one or two. With nested ambiguous syntax such as
`DATE (DATE (…` it backtracks, and its work doubles with each bracket."""

TOO_DEEP = f"more than {MAX_NESTING} nested operators; for one of many values write `name IN (…)`"

REFUSED = (
    exp.Query, exp.AggFunc, exp.Window, exp.Placeholder, exp.Parameter,
    # Lance panics on literals of these kinds instead of rejecting them.
    exp.National, exp.RawString, exp.ByteString, exp.UnicodeString, exp.Heredoc, exp.BitString,
)  # fmt: skip
"""Syntax that no filter may have."""

FUNCTIONS = frozenset({"array_contains", "array_has", "contains", "ends_with", "lower", "starts_with", "upper"})
"""Functions that a filter of an untrusted caller may call."""

COMPARED = ("=", "<>", "<", "<=", ">", ">=", "IN", "BETWEEN", "LIKE", "IS NULL")
"""Comparisons that it may have."""

MAX_COMPARISONS = 100
"""Most comparisons of it; each is evaluated on every row scanned. `IN` counts as one, however many values."""

MAX_PATTERN_CHARS = 200
"""Most characters of a LIKE pattern. Lance fails to compile a long one, but only if rows are left to compare with it,
so the error would reveal whether there are any."""


class Filter(Dialect):
    """Dialect of filters: standard SQL, with names in backticks as Lance requires."""

    class Parser(parser.Parser):
        """Parser with bounded work: its steps are limited by the number of tokens."""

        steps = 0

        def _advance(self, times: int = 1) -> None:
            self.steps += 1
            if self.steps > STEPS * len(self._tokens) + 100:
                raise QueryError(TOO_DEEP)
            super()._advance(times)

    class Tokenizer(tokens.Tokenizer):
        """Tokenizer that also takes names in backticks."""

        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]


DIALECT = Filter()


def parse_filter(where: str) -> Any:
    """Parse a filter into its syntax tree. Raises QueryError if it is not a single allowed condition."""
    if len(where) > MAX_FILTER_CHARS:
        raise QueryError(f"{len(where):,} characters, at most {MAX_FILTER_CHARS:,}: ask in several searches")
    many = sum(1 for _ in ROUGHLY.finditer(where))
    try:
        tokens = DIALECT.tokenize(where) if many <= 2 * MAX_TOKENS else []
        many = len(tokens) or many
        if many > MAX_TOKENS:
            raise QueryError(f"{many:,} tokens, at most {MAX_TOKENS:,}: ask in several searches")
        tree: Any = DIALECT.parser().parse_into(exp.Condition, tokens, where)
    except SqlglotError as error:
        raise QueryError(_syntax_message(error)) from None
    if any("/*" in comment for token in tokens for comment in token.comments):
        raise QueryError("nested comments are not allowed")  # Lance ends the outer comment at the end of the inner one
    if len(tree) != 1 or tree[0] is None or tree[0].find(*REFUSED):
        raise QueryError("expected one condition on a record's fields, without subqueries, aggregates and parameters")
    if _depth(tree[0]) > MAX_NESTING:
        raise QueryError(TOO_DEEP)
    return tree[0]


def in_both_forms(where: str) -> str:
    """Return a filter that also finds values in the other Unicode form of its texts; without such texts, as it is."""
    if len(both_forms(where)) == 1:
        return where
    tree = exp.paren(parse_filter(where))
    texts = [found for found in tree.find_all(exp.Literal) if found.is_string and len(both_forms(found.this)) > 1]
    for node in {id(found): found for found in map(_condition_of, texts)}.values():
        if isinstance(node, exp.In):
            node.set("expressions", [form for value in node.expressions for form in _forms(value)])
        else:
            join = exp.and_ if isinstance(node, exp.NEQ) else exp.or_
            node.replace(exp.paren(join(_in_form(node, "NFC"), _in_form(node, "NFD"))))
    return str(tree.sql(DIALECT, comments=False))


def _condition_of(value: Any) -> Any:
    """Return the condition in which a value is compared: the part of a filter between AND, OR, NOT and brackets."""
    while isinstance(value.unnest(), exp.Literal) or not isinstance(value.parent, (exp.Connector, exp.Not, exp.Paren)):
        value = value.parent
    return value


def _forms(value: Any) -> list[Any]:
    """Return the literals for a text in both Unicode forms; any other value as it is."""
    is_text = isinstance(value, exp.Literal) and value.is_string
    return [exp.Literal.string(form) for form in both_forms(value.this)] if is_text else [value]


def _in_form(node: Any, form: Literal["NFC", "NFD"]) -> Any:
    """Return a copy of a comparison with its texts in one Unicode form."""
    copy = node.copy()
    for literal in [found for found in copy.find_all(exp.Literal) if found.is_string]:
        literal.set("this", unicodedata.normalize(form, literal.this))
    return copy


def quote_columns(where: str, resolve: Callable[[str], str]) -> str:
    """Replace the column names of SQL by the result of `resolve`, in backticks; leave the rest unchanged."""
    names = []
    for column in parse_filter(where).find_all(exp.Column):
        places = [identifier.meta for identifier in column.find_all(exp.Identifier)]
        if places and all("start" in place for place in places):
            dotted = ".".join(part.name for part in column.parts)
            names.append((min(p["start"] for p in places), max(p["end"] for p in places), resolve(dotted)))
    for start, end, name in sorted(names, reverse=True):
        where = f"{where[:start]}`{name}`{where[end + 1 :]}"
    return where


def _depth(tree: Any) -> int:
    """Return the nesting depth of a syntax tree; AND and OR do not add to it."""
    deepest, open_ = 0, [(tree, 0)]
    while open_:
        node, above = open_.pop()
        depth = above + (not isinstance(node, exp.Connector))
        deepest = max(deepest, depth)
        open_ += [(child, depth) for child in node.iter_expressions()]
    return deepest


def _syntax_message(error: Any) -> str:
    """Return a message with the place where the SQL cannot be parsed any further."""
    first: dict[str, str] = next(iter(getattr(error, "errors", ())), {})
    near = (first.get("start_context", "") + first.get("highlight", "")).strip()[-NEAR:]
    return f"not valid SQL{f' at the end of {near!r}' if near else ''}; put a name that is an SQL keyword in backticks"


def restrict_filter(where: str, fields: Callable[[], Iterable[Field]]) -> str:
    """Return an equivalent filter that is safe to run. `fields` returns the fields that it may name, with their types.

    Raises QueryError if a filter has anything but comparisons of fields with values, joined by AND, OR and NOT.
    """
    try:
        tree = parse_filter(where)
        problem = _find_disallowed(tree) or _find_wrong_time(tree, fields)
        written: str = tree.sql(DIALECT, comments=False)
    except RecursionError:
        raise QueryError(f"where: {TOO_DEEP}") from None
    if problem:
        allowed = (
            f"fields compared with values by {', '.join(COMPARED)}, AND, OR, NOT, and {', '.join(sorted(FUNCTIONS))}"
        )
        raise QueryError(f"where: {problem} is not allowed here. Allowed: {allowed}")
    return written


def _find_disallowed(tree: Any) -> str:
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
        if problem := _find_disallowed_operand(node):
            return problem
    return ""


def _find_disallowed_operand(node: Any) -> str:
    """Return the part of one comparison that is not allowed, or ""."""
    if isinstance(node, exp.Column) or _is_value(node) or _is_call(node):
        return ""
    mirrored = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
    if not isinstance(node, (*mirrored, exp.Like, exp.ILike, exp.Is, exp.In, exp.Between)):
        return brief(node.sql())
    right: list[Any]
    left, *right = node.iter_expressions()
    if _is_value(left) and isinstance(node, mirrored):
        left, right = right[0], [left]
    if wrong := next((value for value in right if not _is_value(value)), None):
        return brief(wrong.sql())
    if isinstance(node, (exp.Like, exp.ILike)) and len(right[0].name) > MAX_PATTERN_CHARS:
        return f"a LIKE of more than {MAX_PATTERN_CHARS} characters"
    if isinstance(left, exp.Column):
        return ""
    texts = all(value.is_string for value in right)
    return "" if _is_call(left) and texts else brief(node.sql())


def _find_wrong_time(tree: Any, fields: Callable[[], Iterable[Field]]) -> str:
    """Return a message if a field that holds no times is compared with a time, else "".

    Lance would convert texts to times row by row, and could fail on some row.
    """
    within = {id(found): found for time in tree.find_all(exp.Cast) for found in [time.find_ancestor(exp.Predicate)]}
    compared = [column.name.lower() for found in within.values() if found for column in found.find_all(exp.Column)]
    types = {(field.name.lower(), field.type) for field in fields()} if compared else set()
    wrong = next((name for name in compared if {kind for of, kind in types if of == name} != {"timestamp"}), None)
    return f"a comparison of a time with {brief(wrong)}, which does not hold times," if wrong else ""


def _is_value(node: Any) -> bool:
    """Return whether a node is a literal, or a text literal cast to a date or timestamp."""
    if isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg):
        return bool(node.this.is_number)
    if type(node) is exp.Cast:
        times = (exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP)
        return node.this.is_string and node.to.this in times and not node.to.expressions
    return isinstance(node, (exp.Literal, exp.Boolean, exp.Null))


def _is_call(node: Any) -> bool:
    """Return whether a node calls an allowed function on one field and text literals.

    A call with two fields is not allowed: one of them would be converted to the type of the other.
    """
    if not isinstance(node, exp.Func):
        return False
    name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
    given = node.expressions if isinstance(node, exp.Anonymous) else list(node.iter_expressions())
    fields = [each for each in given if not each.is_string]
    return name.lower() in FUNCTIONS and len(fields) == 1 and isinstance(fields[0], exp.Column)
