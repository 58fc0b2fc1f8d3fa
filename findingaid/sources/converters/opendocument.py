"""Texts of OpenDocument (.odt) as HTML, for the converter of pages."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from findingaid.sources.converters.common import FILLED, core_properties, left_out_notes, unpacked
from findingaid.sources.converters.marks import strike_out
from findingaid.sources.converters.numbering import BOXES, as_label, integer
from findingaid.sources.converters.tables import LONGEST_NAME
from findingaid.sources.converters.web import KINDS, MOST_SPANNED, convert_html
from findingaid.sources.documents import Converted

TAGS = {
    "p": "p",
    "list": "ul",
    "list-item": "li",
    "list-header": "li",
    "table": "table",
    "table-header-rows": "thead",
    "table-rows": "tbody",
    "table-row-group": "tbody",
    "table-row": "tr",
    "table-cell": "td",
    "covered-table-cell": "td",
    "line-break": "br",
    "text": "body",
    "section": "div",
    "text-box": "div",
    "note": "span",
}
"""Elements of OpenDocument and those of HTML. A heading becomes one of its level.

Any other, such as a table of contents, becomes a div among paragraphs and a span within one.
"""

AMONG_PARAGRAPHS = {"body", "div", "li", "td", "th"}

DROPPED = {
    "tracked-changes": "",
    "annotation": "comments, not read",
    "object": "embedded documents, not read",
    "object-ole": "embedded documents, not read",
    "binary-data": "",
    "script": "",
    "index-title-template": "",
    "note-citation": "",
    "number": "",
    "soft-page-break": "",
    "table-column": "",
    "table-columns": "",
    "table-column-group": "",
    "table-header-columns": "",
}
"""Elements that are not read, and what notes call them; "" for those of which nothing is lost."""


TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"

FORM = "{urn:oasis:names:tc:opendocument:xmlns:form:1.0}"

CURRENT = {f"{FORM}{name}" for name in ("current-value", "current-state", "current-selected")}
"""Attributes of fields of a form, with what a person filled in."""

COVERED = f"{TABLE}covered-table-cell"
CELLS = (f"{TABLE}table-cell", COVERED)
"""Cells of a table; one that is covered belongs to a merged cell above it or to its left."""

BULLET = f"{TEXT}list-level-style-bullet"

ITEMS = (f"{TEXT}list-item", f"{TEXT}list-header")
"""Elements of a list; the second has no number."""

APART = (
    *("title", "desc", "frame", "g", "custom-shape", "rect", "ellipse", "circle", "caption", "measure", "connector"),
    *("line", "polyline", "polygon", "regular-polygon", "path"),
)
"""Elements that are no part of the word beside them."""

RAISED = {"text-position": "super|[1-9]"}
STRUCK = {"text-line-through-style": "solid", "text-line-through-type": "single"}
"""Looks of words, see `styles_of`."""

TITLE, TABLE_HEADING = "Title", "Table_20_Heading"
"""Names of styles in every language."""

HEADERS = ("{*}header", "{*}header-left", "{*}header-first", "{*}footer", "{*}footer-left", "{*}footer-first")

LETTER = re.compile(r"[^\W\d_]")


def convert_odt(payload: bytes, max_bytes: int) -> Converted:
    """Convert a text document, by way of HTML."""
    with unpacked(payload, max_bytes) as archive:
        page, left_out = _read(archive)
    return Converted(convert_html(page, max_bytes).text, core_properties(payload), left_out_notes(left_out))


def _read(archive: zipfile.ZipFile) -> tuple[bytes, Counter[str]]:
    """Return the text of a document as HTML, and what is not read: words -> number."""
    from lxml import etree, html

    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    root = etree.fromstring(archive.read("content.xml"), parser)
    body = root.find(".//{*}body/{*}text")
    if body is None:
        raise ValueError("it has no text")
    left_out = Counter({FILLED: sum(not CURRENT.isdisjoint(field.attrib) for field in body.iter(f"{FORM}*"))})
    for element in list(body.iter()):
        if (local := _local(element)) in DROPPED:
            if DROPPED[local]:
                left_out[DROPPED[local]] += 1
            parent = element.getparent()
            _append(parent, element.getprevious(), element.tail or "")
            parent.remove(element)
    repeat_merged(body, LONGEST_NAME)
    for cell in list(body.iter("{*}table-cell", "{*}covered-table-cell")):
        for _ in range(1, min(int(cell.get(f"{TABLE}number-columns-repeated") or 1), MOST_SPANNED)):
            cell.addnext(deepcopy(cell))
    roots = [*_named_styles(archive, parser), root]
    left_out["headers and footers, not read"] += _headers(roots)
    styles = ParagraphStyles(roots)
    Lists(roots, styles).write(body)
    raised, struck = styles_of(root, RAISED), styles_of(root, STRUCK)
    for element in list(body.iter()):
        style = next((value for name, value in element.attrib.items() if name.endswith("}style-name")), "")
        _as_html(element, _local(element), styles)
        if style in raised and element.tag == "span":
            element.tag = "sup"
        if style in struck and element.tag in {"span", "p"}:
            strike_out(element)
    return bytes(html.tostring(body, encoding="utf-8")), left_out


def repeat_merged(root: Any, longest: int | None = None) -> None:
    """Repeat the value of a cell that is merged downwards in the cells below, if it has no more characters.

    Rows without another value stay empty: a cell may be merged over all rows of a sheet.
    """
    for table in root.iter(f"{TABLE}table"):
        spanning: dict[int, tuple[Any, int]] = {}  # cells that go on below, and in how many rows, by column
        rows_of_table = (row for row in table.iter(f"{TABLE}table-row") if next(row.iterancestors(table.tag)) is table)
        for row in rows_of_table:
            column, going_on = 0, dict(spanning)
            cells = [each for each in row if each.tag in CELLS]
            has_value = bool(going_on) and any(
                each.tag != COVERED and "".join(each.itertext()).strip() for each in cells
            )
            for cell in cells:
                columns = integer(cell.get(f"{TABLE}number-columns-repeated"), 1)
                if cell.tag == COVERED and column in going_on and has_value:
                    cell.addprevious(deepcopy(going_on[column][0]))
                    cell.set(f"{TABLE}number-columns-repeated", str(columns - 1))
                    if columns == 1:
                        row.remove(cell)
                elif (rows := integer(cell.get(f"{TABLE}number-rows-spanned"), 1)) > 1:
                    value = deepcopy(cell)
                    for name in ("number-rows-spanned", "number-columns-spanned"):
                        value.attrib.pop(f"{TABLE}{name}", None)
                    if longest is None or len("".join(cell.itertext()).strip()) <= longest:
                        spanning[column] = value, rows
                column += columns
            below = integer(row.get(f"{TABLE}number-rows-repeated"), 1)
            spanning = {at: (cell, rows - below) for at, (cell, rows) in spanning.items() if rows > below}


class ParagraphStyles:
    """Styles of paragraphs, each with those that it is based on."""

    def __init__(self, roots: Iterable[Any]) -> None:
        found = (style for root in roots for style in root.iter(f"{STYLE}style"))
        self._styles = {
            style.get(f"{STYLE}name"): style for style in found if style.get(f"{STYLE}family") == "paragraph"
        }

    def attribute(self, name: str | None, attribute: str) -> str | None:
        """Return an attribute of a style, which it may have from the styles that it is based on."""
        return next(
            (found for each in self._from(name) if (found := each.get(f"{STYLE}{attribute}")) is not None), None
        )

    def is_based_on(self, name: str, base: str) -> bool:
        """Return whether a style is the one with the name `base`, or based on it."""
        return base in {name, *(style.get(f"{STYLE}parent-style-name") for style in self._from(name))}

    def level_of(self, name: str) -> str:
        """Return the level of the heading that a style makes of a paragraph; "" for none."""
        return "1" if self.is_based_on(name, TITLE) else self.attribute(name, "default-outline-level") or ""

    def _from(self, name: str | None) -> Iterator[Any]:
        seen: set[str | None] = set()
        while name in self._styles and name not in seen:
            seen.add(name)
            yield self._styles[name]
            name = self._styles[name].get(f"{STYLE}parent-style-name")


class Lists:
    """Lists of a document: their levels by the name of their style, and the numbers of those that may be continued."""

    def __init__(self, roots: Iterable[Any], styles: ParagraphStyles) -> None:
        self._styles = styles
        self._levels: dict[str, dict[int, Any]] = {}
        self._outline = ""
        for style in (each for root in roots for each in root.iter(f"{TEXT}list-style", f"{TEXT}outline-style")):
            name = style.get(f"{STYLE}name", "")
            self._outline = name if style.tag == f"{TEXT}outline-style" else self._outline
            levels = style.iter(f"{TEXT}list-level-style-number", f"{TEXT}outline-level-style", BULLET)
            levels = (level for level in levels if level.tag != BULLET or level.get(f"{TEXT}bullet-char") in BOXES)
            self._levels[name] = {integer(level.get(f"{TEXT}level"), 0): level for level in levels}

    def write(self, body: Any) -> None:
        """Write the number of each item and heading before its words, and take these items out of their lists."""
        of_styles: dict[str, dict[int, int]] = {}
        of_lists: dict[str, dict[int, int]] = {}
        for element in [each for each in body.iter(f"{TEXT}list", f"{TEXT}h") if each.getparent().tag not in ITEMS]:
            if element.tag == f"{TEXT}h":
                self._write_heading(element, of_styles.setdefault(self._outline, {}))
                continue
            style = element.get(f"{TEXT}style-name", "")
            numbers = of_styles.get(style, {}) if element.get(f"{TEXT}continue-numbering") == "true" else {}
            numbers = of_lists.get(element.get(f"{TEXT}continue-list", ""), numbers)
            of_styles[style] = numbers
            of_lists |= dict.fromkeys(element.xpath("@xml:id"), numbers)
            self._write_items(element, style, 1, numbers)

    def _write_items(self, items: Any, style: str, at: int, numbers: dict[int, int]) -> None:
        for item in [each for each in items if each.tag in ITEMS]:
            if item.tag == ITEMS[0] and len(item) and item[0].tag in {f"{TEXT}p", f"{TEXT}h"}:
                self._count(style, at, numbers, item.get(f"{TEXT}start-value"))
                _put(self._label(style, at, numbers), item[0])
            for inner in item.findall(f"{TEXT}list"):
                self._write_items(inner, inner.get(f"{TEXT}style-name", style), at + 1, numbers)
            if at in self._levels.get(style, {}):
                item.tag = f"{TEXT}section"
        if at in self._levels.get(style, {}):
            items.tag = f"{TEXT}section"

    def _write_heading(self, heading: Any, numbers: dict[int, int]) -> None:
        outlined = self._styles.attribute(heading.get(f"{TEXT}style-name"), "list-style-name") != ""
        if heading.get(f"{TEXT}is-list-header") == "true" or not outlined:
            return
        at = integer(heading.get(f"{TEXT}outline-level"), 1)
        self._count(self._outline, at, numbers, heading.get(f"{TEXT}start-value"))
        _put(self._label(self._outline, at, numbers), heading)

    def _count(self, style: str, at: int, numbers: dict[int, int], start: str | None) -> None:
        numbers[at] = integer(start, numbers[at] + 1 if at in numbers else self._start(style, at))
        for deeper in [each for each in numbers if each > at]:
            del numbers[deeper]

    def _start(self, style: str, at: int) -> int:
        level = self._levels.get(style, {}).get(at)
        return 1 if level is None else integer(level.get(f"{TEXT}start-value"), 1)

    def _label(self, style: str, at: int, numbers: Mapping[int, int]) -> str:
        """Return the numbers of as many levels as this one displays, or its box; "" for one that has neither."""
        levels = self._levels.get(style, {})
        if at in levels and levels[at].tag == BULLET:
            return str(levels[at].get(f"{TEXT}bullet-char"))
        if at not in levels or not levels[at].get(f"{STYLE}num-format"):
            return ""
        first = at + 1 - integer(levels[at].get(f"{TEXT}display-levels"), 1)
        shown = [
            as_label(numbers.get(each, self._start(style, each)), KINDS.get(kind, ""))
            for each in range(max(1, first), at + 1)
            if each in levels and (kind := levels[each].get(f"{STYLE}num-format"))
        ]
        prefix, suffix = (levels[at].get(f"{STYLE}num-{side}", "") for side in ("prefix", "suffix"))
        return f"{prefix}{'.'.join(shown)}{suffix}".strip()


def _put(label: str, element: Any) -> None:
    if label:
        element.text = f"{label} {element.text or ''}"


def styles_of(root: Any, look: Mapping[str, str]) -> set[str]:
    """Return the names of the styles of a part that look so: attribute -> pattern of the beginning of its value."""
    return {
        style.get(f"{STYLE}name", "")
        for style in root.iter(f"{STYLE}style")
        for name, begin in look.items()
        if any(re.match(begin, each.get(f"{STYLE}{name}", "")) for each in style)
    }


def _as_html(element: Any, local: str, styles: ParagraphStyles) -> None:
    """Give an element the name that it has in HTML."""
    attributes = {str(name).rpartition("}")[2]: value for name, value in element.attrib.items()}
    element.attrib.clear()
    style = attributes.get("style-name", "")
    level = attributes.get("outline-level", "1") if local == "h" else styles.level_of(style) if local == "p" else ""
    if level:
        element.tag = f"h{level}" if level in {"1", "2", "3", "4", "5", "6"} else "h6"
    elif local == "a" and "href" in attributes:
        element.tag = "a"
        element.set("href", attributes["href"])
    else:
        among = element.getparent() is not None and element.getparent().tag in AMONG_PARAGRAPHS
        element.tag = TAGS.get(local, "div" if among else "span")
    if local == "p" and element.getparent().tag == "td" and styles.is_based_on(style, TABLE_HEADING):
        element.getparent().tag = "th"
    if local in {"s", "tab"}:
        element.text = " "
    if local in APART:
        element.text, element.tail = f" {element.text or ''}", f" {element.tail or ''}"
    if local == "note-body":
        element.text, element.tail = f" ({element.text or ''}", f"){element.tail or ''}"
    if element.getparent() is not None and element.getparent().tag == "span" and element.tag in {"p", "div"}:
        element.tag = "span"  # the paragraphs of a footnote stay within their sentence
        if element.getnext() is not None:
            element.tail = f" {element.tail or ''}"


def _append(parent: Any, before: Any | None, text: str) -> None:
    """Add a text behind an element, or at the start of its parent."""
    if before is None:
        parent.text = (parent.text or "") + text
    else:
        before.tail = (before.tail or "") + text


def _named_styles(archive: zipfile.ZipFile, parser: Any) -> list[Any]:
    """Return the tree of the part with the styles that have names, if there is one."""
    from lxml import etree

    name = "styles.xml"
    return [etree.fromstring(archive.read(name), parser)] if name in archive.namelist() else []


def _headers(roots: Iterable[Any]) -> int:
    """Return the number of headers and footers with words, not only with page numbers."""
    found = (element for root in roots for element in root.iter(*HEADERS))
    return sum(LETTER.search("".join(element.itertext())) is not None for element in found)


def _local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]
