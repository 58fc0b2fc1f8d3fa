"""Workbooks as Markdown: blocks of rows, each below a heading with its sheet and rows, with the header repeated.

`findingaid.text.structure.Rows` finds the places again.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

from findingaid.errors import ReadError
from findingaid.model import Note
from findingaid.sources.converters.common import (
    ENCRYPTED,
    LOCKED,
    MARKS,
    core_properties,
    left_out_notes,
    plain_text,
    unpacked,
)
from findingaid.sources.converters.marks import escape_cell, raised, struck
from findingaid.sources.converters.number_formats import (
    EXCEL_DAYS,
    MAC_DAYS,
    NEGATIVE,
    DateFormat,
    NumberFormat,
    cell_text,
    cells_in,
    dates_of,
    formats_of,
    struck_styles,
    with_formats,
)
from findingaid.sources.converters.office_parts import parsed_part, written_part
from findingaid.sources.converters.opendocument import RAISED, STRUCK, repeat_merged, styles_of
from findingaid.sources.converters.tables import NUMBER, are_names
from findingaid.sources.converters.web import convert_html
from findingaid.sources.documents import Converted
from findingaid.sources.outlook import OLE
from findingaid.text.structure import rows_heading

OLD_XLS = b"\x09"
"""First byte of Excel files from before 1997: the record that begins a sheet."""

BINARY = "units, leading zeros, errors and raised digits of cells (.xls, .xlsb), not read: save it as .xlsx"

BLOCK_CHARACTERS = 600
"""Length of a block, so that a block of numbers fits the 256 tokens that the default embedder reads."""

HEADER_WITHIN = 20
"""Number of first rows among which the header is looked for. The rows above it are titles."""

FIRST_ELEMENT = re.compile(rb"<(?:[\w.-]+:)?([\w.-]+)")

MAC_WORKBOOK = re.compile(rb"<(?:\w+:)?workbookPr\s[^<>]*date1904=[\"'](?:1|true)")
"""Setting of a workbook that counts its days from 1904."""

MARKED = re.compile(
    rb"vertAlign[^<>]*superscript|text-position=.(?:super|[1-9])|<(?:\w+:)?strike[\s/>]|line-through-\w+=.s[io]"
    rb"|number-rows-spanned=.(?:[2-9]|\d\d)"
)

RUN = "//*[local-name()='r'][*[local-name()='rPr']/*[{}]]/*[local-name()='t']"
RAISED_RUN = RUN.format("local-name()='vertAlign' and @val='superscript'")
STRUCK_RUN = RUN.format("local-name()='strike' and not(@val='0' or @val='false')")
"""Paths to the texts of such runs in a cell of Excel."""

AS_SHOWN = re.compile(
    rb"<[^<>]*\soffice:value-type=[\"'](?:(?:percentage|currency|time)[\"'][^<>]*>(?=\s*<(?:[\w.-]+:)?p[\s>])"
    rb"|float[\"'][^<>]*>(?=\s*<(?:[\w.-]+:)?p>(?:<(?:[\w.-]+:)?s/>)?(?:0\d|(?P<unit>[^<>]*[^<>\d\s.,'+()E/-][^<>]*))))"
)
NO_UNIT = re.compile(r"[\d\s.,'\u2019+()E/-]*")
VALUE = re.compile(rb"\soffice:(?:time-)?value=[\"'][^\"']*[\"']|(?<=\soffice:value-type=.)\w+")
"""Cells in an OpenDocument file whose text has more than their value, which would be read: a unit or leading zeros.

Between its digits a number may have spaces and apostrophes that are not ASCII.
"""

FIRST_WITHIN = 10_000
"""Bytes of a part among which its first element is looked for."""

NOT_READ: Mapping[bytes, Mapping[str, re.Pattern[bytes]]] = {
    b"worksheet": {
        "formulas without a stored value: open and save it in its program": re.compile(
            rb"(?:</(?:\w+:)?f>|<(?:\w+:)?f(?:\s[^<>]*)?/>)\s*(?:<(?:\w+:)?v\s*(?:/>|></(?:\w+:)?v>)\s*)?</(?:\w+:)?c>"
        ),
        "cells with an error": re.compile(rb"<(?:\w+:)?c\s[^<>]*\bt=[\"']e[\"']"),
    },
    b"comments": {"comments, not read": re.compile(rb"<(?:\w+:)?comment[\s>]")},
    b"chartSpace": {"charts, not read": re.compile(rb"<(?:\w+:)?chartSpace[\s>]")},
    b"dataModel": {"SmartArt, not read": re.compile(rb"<(?:\w+:)?dataModel[\s>]")},
    b"wsDr": {"text boxes, not read": re.compile(rb"<(?:\w+:)?txBody[\s>]")},
    b"userShapes": {"text boxes, not read": re.compile(rb"<(?:\w+:)?txBody[\s>]")},
    b"document-content": {
        "cells with an error": re.compile(rb"<[^<>]*\scalcext:value-type=[\"']error[\"']"),
        "comments, not read": re.compile(rb"<office:annotation[\s>]"),
        "charts, not read": re.compile(rb"<chart:chart[\s>]"),
        "text boxes, not read": re.compile(rb"<draw:(?:text-box|custom-shape)[\s>]"),
    },
}
"""Contents of a workbook that are not read, by the first element of their part, whatever the part is called.

They map the words in notes to where each begins. Programs choose the names of parts and the prefixes of elements.
"""

Row = tuple[int, list[str]]
"""Number of a row as the program shows it, and the texts of its cells."""


def convert_workbook(payload: bytes, max_bytes: int) -> Converted:
    """Convert a workbook, or a page or table of text that a program exported under its name."""
    from defusedxml.ElementTree import ParseError

    said: dict[str, Any] = {}
    notes: list[Note] = []
    if payload.lstrip(MARKS)[:1] == b"<":
        return convert_html(payload, max_bytes)
    if payload.startswith(b"PK"):
        with unpacked(payload, max_bytes):
            try:
                said = core_properties(payload)
            except (ParseError, zipfile.BadZipFile, zlib.error):
                notes.append(Note("damaged_part", "damaged parts, not read"))
    elif payload.startswith(OLE) and ENCRYPTED in payload:
        raise ReadError(LOCKED, "encrypted")
    elif not payload.startswith((OLE, OLD_XLS)):
        return plain_text(payload)
    text, n_sheets, left_out = _read(payload, max_bytes)
    own = {"text_type": "text/markdown", "n_sheets": n_sheets}
    return Converted(text, said | own, [*notes, *left_out_notes(left_out)])


def _read(payload: bytes, max_bytes: int) -> tuple[str, int, Mapping[str, int]]:
    """Return the text of a workbook, the number of sheets in it, and what is not read: words -> number.

    The text ends where it is longer than `max_bytes`. Raises ReadError for a workbook with a password.
    """
    import python_calamine as calamine

    left_out: Counter[str] = Counter()
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(_as_shown(payload, left_out)))
    except calamine.PasswordError:
        raise ReadError("with a password: save it without, or exclude it", "encrypted") from None
    left_out.update(_not_in_cells(payload))
    blocks: list[str] = []
    sheets = size = 0
    for about in book.sheets_metadata:
        if about.visible != calamine.SheetVisibleEnum.Visible:
            left_out["hidden sheets, not read"] += 1
        elif about.typ != calamine.SheetTypeEnum.WorkSheet:
            left_out["sheets of charts or macros, not read"] += 1
        elif not (rows := list(_rows(book.get_sheet_by_name(about.name), max_bytes))):
            left_out["empty sheets"] += 1
        else:
            sheets += 1
            for block in (each for table in _tables(rows) for each in _blocks(about.name, *table)):
                blocks.append(block)
                size += len(block.encode())
                if size > max_bytes:
                    return "\n\n".join(blocks), sheets, left_out
    return "\n\n".join(blocks), sheets, left_out


def _as_shown(payload: bytes, left_out: Counter[str]) -> bytes:
    """Return a workbook whose cells have as text what calamine leaves out or misreads.

    That is raised numbers, struck words, units, and dates before the first day that the workbook counts.

    Cells that are struck out as a whole are counted.
    """
    if not payload.startswith(b"PK"):
        left_out[BINARY] = 1
        return payload
    parts: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        for name in archive.namelist():
            with suppress(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):  # calamine may not need it
                parts[name] = archive.read(name)
    left_out[BINARY] = int(any(name.endswith("workbook.bin") for name in parts))
    xml = {name: content for name, content in parts.items() if name.endswith(".xml")}
    shown = {name: _with_marks(content) for name, content in xml.items() if MARKED.search(content)}
    styles = next((parsed_part(content) for content in xml.values() if _first_element(content) == b"styleSheet"), None)
    formats, struck_out = ({}, ()) if styles is None else (formats_of(styles), struck_styles(styles))
    first = MAC_DAYS if any(MAC_WORKBOOK.search(content) for content in xml.values()) else EXCEL_DAYS
    dates = {} if styles is None else dates_of(styles, first)
    both: Mapping[bytes, NumberFormat | DateFormat] = {**formats, **dates}
    for name, content in xml.items():
        kind = _first_element(content)
        if kind == b"worksheet":
            left_out["cells that are struck out, read like others"] += cells_in(content, struck_out)
            known = both if NEGATIVE.search(content) else formats
            shown |= {name: with_formats(shown.get(name, content), known)} if known else {}
        elif kind == b"document-content" and AS_SHOWN.search(content):
            shown[name] = AS_SHOWN.sub(_as_text, shown.get(name, content))
    if not shown:
        return payload
    parts |= shown
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as into:
        for name, content in parts.items():
            into.writestr(name, content)
    return packed.getvalue()


def _as_text(cell: re.Match[bytes]) -> bytes:
    if cell["unit"] and NO_UNIT.fullmatch(cell["unit"].decode()):
        return cell[0]
    return VALUE.sub(lambda found: b"" if found[0][:1].isspace() else b"string", cell[0])


def _first_element(part: bytes) -> bytes:
    found = FIRST_ELEMENT.search(part[:FIRST_WITHIN])
    return found[1] if found else b""


def _with_marks(part: bytes) -> bytes:
    """Return a part with raised numbers in raised characters, marks around struck words, and merged values repeated."""
    root = parsed_part(part)
    for mark, of_run, look in ((raised, RAISED_RUN, RAISED), (struck, STRUCK_RUN, STRUCK)):
        styles = styles_of(root, look)
        spans = [span for span in root.iter("{*}span") if not styles.isdisjoint(span.attrib.values())]
        for element in [*root.xpath(of_run), *spans]:
            element.text = mark(element.text or "")
    repeat_merged(root)
    return written_part(root)


def _not_in_cells(payload: bytes) -> Mapping[str, int]:
    if not payload.startswith(b"PK"):
        return {}
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        left_out = Counter[str]()
        for name in archive.namelist():
            if name.endswith(".xml"):
                with archive.open(name) as part:
                    head = part.read(FIRST_WITHIN)
                    sought = NOT_READ.get(_first_element(head), {})
                    content = head + part.read() if sought else b""
                for words, begin in sought.items():
                    left_out[words] += len(begin.findall(content))
            elif name.startswith("xl/embeddings/"):
                left_out["embedded documents, not read"] += 1
        return left_out


def _rows(sheet: Any, max_bytes: int) -> Iterator[Row]:
    """Yield the rows that are not empty, up to `max_bytes` of text. Cells merged downwards repeat their value."""
    if sheet.start is None:
        return
    merged = _merged_below(sheet.merged_cell_ranges or ())
    above: dict[int, str] = {}
    size = 0
    _, left = sheet.start
    for number, values in enumerate(sheet.iter_rows(), 1):
        cells = [""] * left + [cell_text(value) for value in values]
        for column in merged.get(number, ()):
            if column < len(cells):  # else all cells so far to the right are empty
                cells[column] = cells[column] or above.get(column, "")
        above = dict(enumerate(cells)) if number + 1 in merged else {}
        if any(cells):
            yield number, cells
            size += sum(map(len, cells))
            if size > max_bytes:
                return


def _merged_below(ranges: Iterable[tuple[tuple[int, int], tuple[int, int]]]) -> Mapping[int, list[int]]:
    """Map the number of each row to the columns whose cells continue a merged cell of the row above."""
    found: dict[int, list[int]] = {}
    for (top, left), (bottom, _) in ranges:
        for row in range(top + 1, bottom + 1):
            found.setdefault(row + 1, []).append(left)
    return found


def _tables(rows: Sequence[Row]) -> Iterator[tuple[Sequence[Row], bool]]:
    """Yield the tables of a sheet, one below the other, and whether a header may be looked for in each.

    Where nothing tells whether rows behind empty ones have a header of their own, they have none.
    """
    starts = [i for i in range(1, len(rows)) if rows[i][0] > rows[i - 1][0] + 1]
    first, named = 0, True
    for start, end in pairwise([*starts, len(rows)]):
        group = _without_empty_columns(rows[start:end])[1]
        at = _header_of(group)
        if at is None or all(sum(map(bool, cells)) < 2 for _, cells in rows[first:start]):  # titles
            continue
        columns = zip(group[at][1], *(cells for _, cells in group[at + 1 :]), strict=True)
        measured = any(name and _are_numbers(values) for name, *values in columns)
        if measured or at or rows[start][0] > rows[start - 1][0] + 2:
            yield rows[first:start], named
            first, named = start, measured
    yield rows[first:], named


def _are_numbers(values: Iterable[str]) -> bool:
    filled = [value for value in values if value]
    return bool(filled) and all(NUMBER.fullmatch(value) for value in filled)


def _without_empty_columns(rows: Sequence[Row]) -> tuple[list[int], list[Row]]:
    """Return the indexes of the columns that are not empty in all rows, and the rows with these columns alone."""
    used = [i for i in range(max(len(cells) for _, cells in rows)) if any(i < len(c) and c[i] for _, c in rows)]
    return used, [(number, [cells[i] if i < len(cells) else "" for i in used]) for number, cells in rows]


def _blocks(sheet: str, rows: Sequence[Row], named: bool) -> Iterator[str]:
    """Yield the blocks of a table, below its header if it is `named`, without columns that are empty in all rows."""
    used, rows = _without_empty_columns(rows)
    at = _header_of(rows) if named else None
    header = rows[at][1] if at is not None else [column_name(i) for i in used]
    above, body = (rows[:at], rows[at + 1 :]) if at is not None else ([], rows)
    if above or not body:
        yield _block(sheet, above or rows, [_title(cells) for _, cells in above or rows])
    table = [_line(header), _line(["---"] * len(header))]
    wide = len(table[0]) > BLOCK_CHARACTERS / 2
    block: list[Row] = []
    size = 0
    for row in body:
        line = len(_line(row[1])) + 1
        if block and (wide or size + line > BLOCK_CHARACTERS):
            yield _block(sheet, block, _listed(header, block) if wide else [*table, *(_line(c) for _, c in block)])
            block, size = [], 0
        size += line + (0 if block else len(table[0]) + len(table[1]))
        block.append(row)
    if block:
        yield _block(sheet, block, _listed(header, block) if wide else [*table, *(_line(c) for _, c in block)])


def _header_of(rows: Sequence[Row]) -> int | None:
    """Return the index of the header: the first of the top rows that is half filled, with texts that do not repeat."""
    for i, (_, cells) in enumerate(rows[:HEADER_WITHIN]):
        filled = [cell for cell in cells if cell]
        if len(filled) >= max(2, len(cells) / 2):
            return i if are_names(filled) and len(rows) > i + 1 else None
    return None


def column_name(index: int) -> str:
    """Return the letters of a column: 0 is A, 26 is AA."""
    return ("" if index < 26 else column_name(index // 26 - 1)) + chr(ord("A") + index % 26)


def _title(cells: Sequence[str]) -> str:
    """Return a row above the header, which is no heading of Markdown even if it begins as one."""
    text = " ".join(filter(None, cells))
    return f"\\{text}" if text.startswith("#") else text


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape_cell, cells))} |"


def _listed(header: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Return rows that are too wide for a table: a line for each cell, with the name of its column."""
    return [f"- {name}: {cell}" for _, cells in rows for name, cell in zip(header, cells, strict=True) if cell]


def _block(sheet: str, rows: Sequence[Row], lines: Sequence[str]) -> str:
    return "\n".join([rows_heading(sheet, rows[0][0], rows[-1][0]), "", *lines])
