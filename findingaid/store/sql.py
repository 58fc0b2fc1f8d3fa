"""SQL fragments for filters of Lance, with quoted values."""

from __future__ import annotations

from collections.abc import Iterable

from findingaid.errors import QueryError


def quoted(text: str) -> str:
    """Return a string literal. Raises QueryError for lone surrogates, which no table holds and Lance cannot read."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise QueryError(f"{text!r} has half of a character: it names nothing") from None
    return "'" + text.replace("'", "''") + "'"


def equals(column: str, value: str) -> str:
    """Return `column = 'value'`."""
    return f"{column} = {quoted(value)}"


def both(*conditions: str | None) -> str:
    """Join the conditions that are set with AND; at least one must be."""
    return " AND ".join(f"({condition})" for condition in conditions if condition)


def any_of(*conditions: str) -> str:
    """Join the conditions with OR; at least one is required."""
    return f"({' OR '.join(f'({condition})' for condition in conditions)})"


def of_artifacts(keys: Iterable[tuple[str, str]], corpus: str = "corpus", artifact_id: str = "artifact_id") -> str:
    """Return a condition that matches these (corpus, artifact id) pairs; without pairs it matches nothing."""
    ids: dict[str, list[str]] = {}
    for name, artifact in sorted(keys):
        ids.setdefault(name, []).append(artifact)
    parts = [f"({equals(corpus, name)} AND {one_of(artifact_id, listed)})" for name, listed in ids.items()]
    return " OR ".join(parts) or "false"


def one_of(column: str, values: Iterable[str]) -> str:
    """Return `column IN ('a','b')`; without values it matches nothing."""
    return f"{column} IN ({','.join(map(quoted, values)) or 'NULL'})"
