"""SQL fragments for the filters of Lance, with values quoted."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"


def equals(column: str, value: str) -> str:
    """`column = 'value'`."""
    return f"{column} = {quoted(value)}"


def one_of(column: str, values: Iterable[str]) -> str:
    """`column IN ('a','b')`; matches nothing without values."""
    return f"{column} IN ({','.join(map(quoted, values)) or 'NULL'})"
