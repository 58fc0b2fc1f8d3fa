"""What others wrote for a search or an answer: what it is called, and what becomes of what it raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from findingaid.errors import FindingAidError, ModelError, failure_kind
from findingaid.registry import said


def named(family: str, part: Any) -> str:
    """How an error calls it: by its family, and its model, its own name or its type's."""
    name = getattr(part, "model", None) or getattr(part, "__name__", None) or type(part).__name__
    return f"{family} {name}"


@contextmanager
def calling(name: str) -> Iterator[None]:
    """Makes what it raises a ModelError of one line; errors of findingaid's own stay what they are."""
    try:
        yield
    except FindingAidError:
        raise
    except Exception as error:  # a function that findingaid does not ship may raise anything
        raise ModelError(f"{name}: {said(error)}", failure_kind(error)) from error
