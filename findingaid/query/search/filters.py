"""Filters: validation of SQL conditions over the columns of the records."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from findingaid.errors import QueryError, brief
from findingaid.query.search.filter_fields import corpus_fields, has_field
from findingaid.store import Store, schemas
from findingaid.text.folding import both_forms

if TYPE_CHECKING:
    from lance import LanceDataset

FILTER_COLUMNS = tuple(name for name in schemas.records(1).names if name != "vector")
"""Columns that every record has and that SQL can compare: all but the vector."""

LANCE_TYPES = {"Utf8": "string", "Float64": "double", "Int64": "int64", "Boolean": "bool"}
"""Name of a type in Lance's errors -> its name in lists of fields."""

REMEDIES = {
    "List": ": search a list with array_has(tools, 'Bash')",
    "Timestamp": ": write a time as timestamp '2026-01-31T12:00:00Z'",
}
"""Type that a value was compared with -> remedy shown in the error."""

NEAR, SAID = 40, 300
"""Characters that an error message shows of the SQL before the error, and of Lance's own message or a long filter."""

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


def validate_filter(where: str, store: Store, records: LanceDataset, corpora: Sequence[str]) -> str:
    """Validate a filter and return it for Lance: every field exists and is quoted in backticks.

    Raises QueryError for a field that none of these corpora has, and for SQL that is not one expression that is true
    or false of a record.
    """
    if len(where) > MAX_FILTER_CHARS:
        raise QueryError(f"where has {len(where):,} characters, at most {MAX_FILTER_CHARS:,}: ask in several searches")
    fields = _Fields(records, corpora, where)
    try:
        condition = (
            f"({_quote_columns(_in_both_forms(where), fields.resolve)}\n)"  # the line end also ends a trailing comment
        )
        with store.storage_errors():
            records.count_rows(condition)
    except QueryError as error:
        reason = str(error)
    except RecursionError:
        reason = TOO_DEEP
    except (ValueError, RuntimeError, OSError) as error:
        reason = _shorten_error(error)
    else:
        return condition
    found = corpus_fields(records, corpora)
    types = {field.name: field.type for fields in found.values() for field in fields}
    known = ", ".join([*FILTER_COLUMNS, *(f"{name} ({kind})" for name, kind in sorted(types.items()))])
    raise QueryError(f"where {brief(where, SAID)}: {reason}{'' if reason.endswith('?') else '.'} Fields: {known}")


def parse_filter(where: str) -> Any:
    """Parse a filter into its syntax tree. Raises QueryError if it is not a single allowed condition."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    many = sum(1 for _ in ROUGHLY.finditer(where))
    try:
        tokens = filter_dialect().tokenize(where) if many <= 2 * MAX_TOKENS else ()
        many = len(tokens) or many
        if many > MAX_TOKENS:
            raise QueryError(f"{many:,} tokens, at most {MAX_TOKENS:,}: ask in several searches")
        tree: Any = filter_dialect().parser().parse_into(exp.Condition, tokens, where)
    except SqlglotError as error:
        raise QueryError(_syntax_message(error)) from None
    if any("/*" in comment for token in tokens for comment in token.comments):
        raise QueryError("nested comments are not allowed")  # Lance ends the outer comment at the end of the inner one
    refused = (exp.Query, exp.AggFunc, exp.Window, exp.Placeholder, exp.Parameter)
    # Lance panics on literals of these kinds instead of rejecting them.
    literals = (exp.National, exp.RawString, exp.ByteString, exp.UnicodeString, exp.Heredoc, exp.BitString)
    if len(tree) != 1 or tree[0] is None or tree[0].find(*refused, *literals):
        raise QueryError("expected one condition on a record's fields, without subqueries, aggregates and parameters")
    if _depth(tree[0]) > MAX_NESTING:
        raise QueryError(TOO_DEEP)
    return tree[0]


def _in_both_forms(where: str) -> str:
    """Return a filter that also finds values in the other Unicode form of its texts; without such texts, as it is."""
    from sqlglot import exp

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
    return str(tree.sql(filter_dialect(), comments=False))


def _condition_of(value: Any) -> Any:
    """Return the condition in which a value is compared: the part of a filter between AND, OR, NOT and brackets."""
    from sqlglot import exp

    while isinstance(value.unnest(), exp.Literal) or not isinstance(value.parent, (exp.Connector, exp.Not, exp.Paren)):
        value = value.parent
    return value


def _forms(value: Any) -> list[Any]:
    """Return the literals for a text in both Unicode forms; any other value as it is."""
    from sqlglot import exp

    is_text = isinstance(value, exp.Literal) and value.is_string
    return [exp.Literal.string(form) for form in both_forms(value.this)] if is_text else [value]


def _in_form(node: Any, form: Literal["NFC", "NFD"]) -> Any:
    """Return a copy of a comparison with its texts in one Unicode form."""
    from sqlglot import exp

    copy = node.copy()
    for literal in [found for found in copy.find_all(exp.Literal) if found.is_string]:
        literal.set("this", unicodedata.normalize(form, literal.this))
    return copy


def _quote_columns(where: str, resolve: Callable[[str], str]) -> str:
    """Replace the column names of SQL by the result of `resolve`, in backticks; leave the rest unchanged."""
    from sqlglot import exp

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
    from sqlglot import exp

    deepest, open_ = 0, [(tree, 0)]
    while open_:
        node, above = open_.pop()
        depth = above + (not isinstance(node, exp.Connector))
        deepest = max(deepest, depth)
        open_ += [(child, depth) for child in node.iter_expressions()]
    return deepest


@cache
def filter_dialect() -> Any:
    """Return the sqlglot dialect of filters: standard SQL that also accepts names in backticks, as Lance requires."""
    from sqlglot import parser, tokens
    from sqlglot.dialects.dialect import Dialect

    class Filter(Dialect):
        class Parser(parser.Parser):
            """Parser with bounded work: its steps are limited by the number of tokens."""

            steps = 0

            def _advance(self, times: int = 1) -> None:
                self.steps += 1
                if self.steps > STEPS * len(self._tokens) + 100:
                    raise QueryError(TOO_DEEP)
                super()._advance(times)

        class Tokenizer(tokens.Tokenizer):
            IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]

    return Filter()


def _syntax_message(error: Any) -> str:
    """Return a message with the place where the SQL cannot be parsed any further."""
    first: dict[str, str] = next(iter(getattr(error, "errors", ())), {})
    near = (first.get("start_context", "") + first.get("highlight", "")).strip()[-NEAR:]
    return f"not valid SQL{f' at the end of {near!r}' if near else ''}; put a name that is an SQL keyword in backticks"


class _Fields:
    """Fields named in a filter. Each is looked up in the records once, however often it is named."""

    def __init__(self, records: LanceDataset, corpora: Sequence[str], where: str) -> None:
        self._records, self._corpora, self._where = records, corpora, where
        self._names: Sequence[str] = records.schema.names
        self._there = cache(partial(has_field, records, corpora))
        self.resolve = cache(self._resolve)

    def _resolve(self, name: str) -> str:
        """Return the field with this name, or with this name in other case. Raises QueryError if no corpus has it."""
        alike = [column for column in self._names if column.lower() == name.lower()]
        for candidate in sorted(alike, key=lambda column: (column != name, column)):
            if candidate in FILTER_COLUMNS or self._there(candidate):
                return candidate
        who = _describe_corpora(self._corpora)
        if f'"{name}"' in self._where:
            raise QueryError(f"{who} no field {name!r}; put text in single quotes")
        known = {field.name for fields in corpus_fields(self._records, self._corpora).values() for field in fields}
        raise QueryError(f"{who} no field {name!r}{_suggest(name, [*FILTER_COLUMNS, *known])}")


def _describe_corpora(corpora: Sequence[str]) -> str:
    return f"{corpora[0]} has" if len(corpora) == 1 else f"{', '.join(corpora) or 'the records'} have"


def _suggest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), 1)
    return f". Did you mean {close[0]!r}?" if close else ""


def _shorten_error(error: Exception) -> str:
    """Shorten a Lance error to one line, without its source location and without its list of columns."""
    said = re.split(r", /| Valid fields| Did you mean", " ".join(str(error).split()))[0]
    said = re.split(r"lance error: |Invalid user input: |during planning: |Execution error: ", said)[-1].rstrip(".")
    if not (compared := re.fullmatch(r"Received literal \w+\((.+)\) and could not convert to .* '(\w+).*", said)):
        return said[:SAID]
    value, kind = compared.groups()
    return f"{value} is not of type {LANCE_TYPES.get(kind, kind)}{REMEDIES.get(kind, '')}"
