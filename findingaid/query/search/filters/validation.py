"""Validation of filters: SQL conditions over the columns of the records."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING

from findingaid.errors import QueryError, brief
from findingaid.query.search.filters.fields import FILTER_COLUMNS, corpus_fields, has_field
from findingaid.store import Store

if TYPE_CHECKING:
    from lance import LanceDataset

LANCE_TYPES = {"Utf8": "string", "Float64": "double", "Int64": "int64", "Boolean": "bool"}
"""Name of a type in Lance's errors -> its name in lists of fields."""

REMEDIES = {
    "List": ": search a list with array_has(tools, 'Bash')",
    "Timestamp": ": write a time as timestamp '2026-01-31T12:00:00Z'",
}
"""Type that a value was compared with -> remedy shown in the error."""

SAID = 300
"""Characters that an error message shows of Lance's own message or a long filter."""


def validate_filter(where: str, store: Store, records: LanceDataset, corpora: Sequence[str]) -> str:
    """Validate a filter and return it for Lance: every field exists and is quoted in backticks.

    That of a caller is restricted, since Lance may evaluate it on rows that the caller may not read.
    Raises QueryError for a field that none of these corpora has, and for SQL that is not one expression that is true
    or false of a record.
    """
    from findingaid.query.search.filters import syntax

    fields = _Fields(records, corpora, where)
    try:
        if store.caller is not None:
            where = syntax.restrict_filter(where, lambda: chain.from_iterable(corpus_fields(records, corpora).values()))
        quoted = syntax.quote_columns(syntax.in_both_forms(where), fields.resolve)
        condition = f"({quoted}\n)"  # the line end also ends a trailing comment
        with store.storage_errors():
            records.count_rows(condition)
    except QueryError as error:
        reason = str(error).removeprefix("where: ")
    except RecursionError:
        reason = syntax.TOO_DEEP
    except (ValueError, RuntimeError, OSError) as error:
        reason = _shorten_error(error)
    else:
        return condition
    found = corpus_fields(records, corpora)
    types = {field.name: field.type for fields in found.values() for field in fields}
    known = ", ".join([*FILTER_COLUMNS, *(f"{name} ({kind})" for name, kind in sorted(types.items()))])
    raise QueryError(f"where {brief(where, SAID)}: {reason}{'' if reason.endswith('?') else '.'} Fields: {known}")


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
