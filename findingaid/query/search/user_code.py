"""Calls of user-supplied search and answer components: their names in errors, and conversion of their exceptions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from findingaid.errors import FindingAidError, ModelError, failure_kind
from findingaid.registry import said


def component_name(family: str, part: Any) -> str:
    """Return the name of a component for errors: its family, then its model, its `__name__` or the name of its type."""
    name = getattr(part, "model", None) or getattr(part, "__name__", None) or type(part).__name__
    return f"{family} {name}"


@contextmanager
def convert_exceptions(name: str) -> Iterator[None]:
    """Convert exceptions raised in the block to a one-line ModelError; let findingaid's own errors pass."""
    try:
        yield
    except FindingAidError:
        raise
    except Exception as error:  # user code may raise anything
        raise ModelError(f"{name}: {said(error)}", failure_kind(error)) from error
