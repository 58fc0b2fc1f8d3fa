"""Which row of a table names its columns. As a name, a value would be attributed to all that stand below it."""

from __future__ import annotations

import re
from collections.abc import Sequence

NUMBER = re.compile(r"[-\d.,:% ]+|[-.,% $€£¥]*\d[-\d.,:% $€£¥]*(?:[A-Z]{3})?")
"""Value of a cell that is no name of a column: a number, date or time, with a unit or without."""

LONGEST_NAME = 60
"""Characters of the longest name of a column in a row that is not marked as a header, and of rows in a merged cell."""

FORM_COLUMNS = 2
"""Columns of a form, whose rows are a name and its value. Nothing but a mark tells its first row from a header."""


def are_names(cells: Sequence[str]) -> bool:
    """Return whether cells may name columns: there is no number among them, and none is there twice."""
    return len(set(cells)) == len(cells) and not any(NUMBER.fullmatch(cell) for cell in cells)


def fills_columns(cells: Sequence[str], n_below: int) -> bool:
    """Return whether the first row of a table is no title: it has words above each of the cells but the first."""
    return 0 < n_below <= len(cells) and all(cells[1:])


def is_header(cells: Sequence[str], n_below: int) -> bool:
    """Return whether the first row of a table names its columns, though nothing marks it, above so many cells."""
    return (
        fills_columns(cells, n_below)
        and len(cells) > FORM_COLUMNS
        and are_names(cells)
        and max(map(len, cells)) <= LONGEST_NAME
    )
