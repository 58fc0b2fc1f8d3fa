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


def is_header(cells: Sequence[str], n_rows: int) -> bool:
    """Return whether the first row of a table of text names its columns, though it is not marked as a header."""
    filled = [cell for cell in cells[1:] if cell]
    return (
        n_rows > 1
        and len(cells) > FORM_COLUMNS
        and len(filled) == len(cells) - 1
        and are_names(cells)
        and max(map(len, cells)) <= LONGEST_NAME
    )
