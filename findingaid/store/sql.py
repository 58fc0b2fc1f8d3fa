"""SQL fragments for the filters of Lance, with values quoted."""

from __future__ import annotations

from collections.abc import Iterable

from findingaid.errors import QueryError


def quoted(text: str) -> str:
    """A string literal. Raises QueryError for halves of characters, which no table holds and Lance cannot read."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise QueryError(f"{text!r} has half of a character: it names nothing") from None
    return "'" + text.replace("'", "''") + "'"


def equals(column: str, value: str) -> str:
    """`column = 'value'`."""
    return f"{column} = {quoted(value)}"


def both(*conditions: str | None) -> str:
    """All of the conditions that there are, which must be one at least."""
    return " AND ".join(f"({condition})" for condition in conditions if condition)


def any_of(*conditions: str) -> str:
    """At least one of the conditions, of which there must be one."""
    return f"({' OR '.join(f'({condition})' for condition in conditions)})"


def of_artifacts(keys: Iterable[tuple[str, str]], corpus: str = "corpus", artifact_id: str = "artifact_id") -> str:
    """Whether (corpus, artifact id) is one of these; matches nothing without any."""
    ids: dict[str, list[str]] = {}
    for name, artifact in sorted(keys):
        ids.setdefault(name, []).append(artifact)
    parts = [f"({equals(corpus, name)} AND {one_of(artifact_id, listed)})" for name, listed in ids.items()]
    return " OR ".join(parts) or "false"


def one_of(column: str, values: Iterable[str]) -> str:
    """`column IN ('a','b')`; matches nothing without values."""
    return f"{column} IN ({','.join(map(quoted, values)) or 'NULL'})"
