"""Filters: SQL over the columns of the records, made certain before it runs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from findingaid.errors import QueryError, brief
from findingaid.query.fields import corpus_fields, has_field
from findingaid.store import Store, schemas

if TYPE_CHECKING:
    from lance import LanceDataset

ALWAYS = tuple(name for name in schemas.records(1).names if name != "vector")
"""The columns that every record has and SQL can compare."""

LANCE_TYPES = {"Utf8": "string", "Float64": "double", "Int64": "int64", "Boolean": "bool"}
"""Types as Lance's errors call them -> as the fields are listed."""

REMEDIES = {
    "List": ": ask what is in a list by array_has(tools, 'Bash')",
    "Timestamp": ": write a time as timestamp '2026-01-31T12:00:00Z'",
}
"""The type that a value was compared with -> what to write."""

NEAR, SAID = 40, 300
"""Characters that an error shows of the SQL before it, and of Lance's own words or a long filter."""

LONGEST = 100_000
"""Characters of a filter, so that some thousands of ids can be named in it."""

DEEPEST = 200
"""Operators within each other. Lance has no bound of its own: at some 500 it takes the process down."""

TOO_DEEP = f"more than {DEEPEST} operators within each other; one of many values is `name IN (…)`"


def checked(where: str, store: Store, records: LanceDataset, corpora: Sequence[str]) -> str:
    """A filter as Lance is to read it: every field that it names is there, and stands in backticks.

    Raises QueryError for a field that none of these corpora has, and for what is not one expression that is true or
    false of a record.
    """
    if len(where) > LONGEST:
        raise QueryError(f"where has {len(where):,} characters, at most {LONGEST:,}: ask in several searches")
    try:
        condition = (
            f"({_quoted(where, lambda name: _resolved(name, records, corpora, where))}\n)"  # ends a comment, too
        )
        with store.reached():
            records.count_rows(condition)
    except QueryError as error:
        reason = str(error)
    except RecursionError:
        reason = TOO_DEEP
    except (ValueError, RuntimeError, OSError) as error:
        reason = _said(error)
    else:
        return condition
    found = corpus_fields(records, corpora)
    types = {field.name: field.type for fields in found.values() for field in fields}
    known = ", ".join([*ALWAYS, *(f"{name} ({kind})" for name, kind in sorted(types.items()))])
    raise QueryError(f"where {brief(where, SAID)}: {reason}{'' if reason.endswith('?') else '.'} Fields: {known}")


def parsed(where: str) -> Any:
    """The one condition that a filter is. Raises QueryError."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        tokens = dialect().tokenize(where)
        tree: Any = dialect().parser().parse_into(exp.Condition, tokens, where)
    except SqlglotError as error:
        raise QueryError(_syntax(error)) from None
    if any("/*" in comment for token in tokens for comment in token.comments):
        raise QueryError("a comment within a comment")  # which ends for Lance with the inner one
    refused = (exp.Query, exp.AggFunc, exp.Window, exp.Placeholder, exp.Parameter)
    # Lance does not refuse literals of these kinds but panics.
    literals = (exp.National, exp.RawString, exp.ByteString, exp.UnicodeString, exp.Heredoc, exp.BitString)
    if len(tree) != 1 or tree[0] is None or tree[0].find(*refused, *literals):
        raise QueryError("expected one condition on a record's fields, without subqueries, aggregates and parameters")
    if _depth(tree[0]) > DEEPEST:
        raise QueryError(TOO_DEEP)
    return tree[0]


def _quoted(where: str, resolve: Callable[[str], str]) -> str:
    """SQL with the names of its columns as `resolve` gives them, in backticks; the rest as it was."""
    from sqlglot import exp

    names = []
    for column in parsed(where).find_all(exp.Column):
        places = [identifier.meta for identifier in column.find_all(exp.Identifier)]
        if places and all("start" in place for place in places):
            dotted = ".".join(part.name for part in column.parts)
            names.append((min(p["start"] for p in places), max(p["end"] for p in places), resolve(dotted)))
    for start, end, name in sorted(names, reverse=True):
        where = f"{where[:start]}`{name}`{where[end + 1 :]}"
    return where


def _depth(tree: Any) -> int:
    """How many expressions stand within each other; those joined by AND and OR stand beside each other."""
    from sqlglot import exp

    deepest, open_ = 0, [(tree, 0)]
    while open_:
        node, above = open_.pop()
        depth = above + (not isinstance(node, exp.Connector))
        deepest = max(deepest, depth)
        open_ += [(child, depth) for child in node.iter_expressions()]
    return deepest


@cache
def dialect() -> Any:
    """Standard SQL in which a name may also stand in backticks, as it must for Lance."""
    from sqlglot import tokens
    from sqlglot.dialects.dialect import Dialect

    class Filter(Dialect):
        class Tokenizer(tokens.Tokenizer):
            IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]

    return Filter()


def _syntax(error: Any) -> str:
    """Where SQL cannot be parsed any further."""
    first: dict[str, str] = next(iter(getattr(error, "errors", ())), {})
    near = (first.get("start_context", "") + first.get("highlight", "")).strip()[-NEAR:]
    return f"no SQL{f' at the end of {near!r}' if near else ''}; a name that is a word of SQL stands in backticks"


def _resolved(name: str, records: LanceDataset, corpora: Sequence[str], where: str) -> str:
    """The field that is meant: of this name, or of one in other case. Raises QueryError where no corpus has it."""
    alike: list[str] = [column for column in records.schema.names if column.lower() == name.lower()]
    for candidate in sorted(alike, key=lambda column: (column != name, column)):
        if candidate in ALWAYS or has_field(records, corpora, candidate):
            return candidate
    if f'"{name}"' in where:
        raise QueryError(f"{_who(corpora)} no field {name!r}; text stands in single quotes")
    known = {field.name for fields in corpus_fields(records, corpora).values() for field in fields}
    raise QueryError(f"{_who(corpora)} no field {name!r}{_meant(name, [*ALWAYS, *known])}")


def _who(corpora: Sequence[str]) -> str:
    return f"{corpora[0]} has" if len(corpora) == 1 else f"{', '.join(corpora) or 'the records'} have"


def _meant(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), 1)
    return f". Did you mean {close[0]!r}?" if close else ""


def _said(error: Exception) -> str:
    """What Lance says in one line, without where in its source it says so and without its own list of columns."""
    said = re.split(r", /| Valid fields| Did you mean", " ".join(str(error).split()))[0]
    said = re.split(r"lance error: |Invalid user input: |during planning: |Execution error: ", said)[-1].rstrip(".")
    if not (compared := re.fullmatch(r"Received literal \w+\((.+)\) and could not convert to .* '(\w+).*", said)):
        return said[:SAID]
    value, kind = compared.groups()
    return f"{value} is no {LANCE_TYPES.get(kind, kind)}{REMEDIES.get(kind, '')}"
