"""Jupyter notebooks: their cells, without outputs."""

from __future__ import annotations

import json
import re
from typing import Any

from findingaid.errors import ReadError
from findingaid.sources.converters.common import left_out_notes
from findingaid.sources.documents import Converted
from findingaid.text.decoding import decode
from findingaid.text.titles import as_title

FENCE = re.compile("[ ]{0,3}(`{3,}(?=[^`]*$)|~{3,})")
"""Beginning of a block of code."""


def convert_notebook(payload: bytes, max_bytes: int) -> Converted:
    """Join the cells of a notebook. markitdown would refuse all of it for one that is damaged."""
    text, _, notes = decode(payload)
    notebook = json.loads(text)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ReadError("not a Jupyter notebook of format 4 or later: it has no list of cells", "parse")
    match said := notebook.get("metadata"):
        case {"kernelspec": {"language": str(language)}} | {"language_info": {"name": str(language)}}:
            pass
        case _:
            language = "python"
    cells = [_cell(cell, language) for cell in notebook["cells"]]
    left_out = {
        "cells with outputs, which are not read": sum(
            isinstance(cell, dict) and bool(cell.get("outputs")) for cell in notebook["cells"]
        ),
        "damaged cells, not read": cells.count(None),
    }
    title = as_title(str(said.get("title") or "")) if isinstance(said, dict) else ""
    read = "\n\n".join(cell for cell in cells if cell)
    return Converted(read, {"title": title, "text_type": "text/markdown"}, [*notes, *left_out_notes(left_out)])


def _cell(cell: Any, language: str) -> str | None:
    """Return a cell as Markdown, a code cell as a block of code; None for a damaged one."""
    match cell:
        case {"cell_type": str(kind), "source": str() | list() as source} if all(isinstance(s, str) for s in source):
            text = "".join(source)
        case _:
            return None
    if kind == "markdown":
        return _with_closed_fence(text)
    if not text.strip():
        return text
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{language if kind == 'code' else ''}\n{text}\n{fence}"


def _with_closed_fence(text: str) -> str:
    """Return Markdown whose last block of code ends with it, as in the notebook, and not in a later cell."""
    fence = ""
    for line in text.splitlines():
        if not fence and (found := FENCE.match(line)):
            fence = found[1]
        elif fence and set(line.strip()) == {fence[0]} and len(line.strip()) >= len(fence):
            fence = ""
    return f"{text}\n{fence}" if fence else text
