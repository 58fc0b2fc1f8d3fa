"""Texts of OpenDocument (.odt) as HTML, for the converter of pages."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from findingaid.sources.converters.common import NO_AUTHORS, NO_TITLES, left_out_notes, property_text, unpacked
from findingaid.sources.converters.marks import strike_out
from findingaid.sources.converters.web import MOST_SPANNED, convert_html
from findingaid.sources.documents import Converted

TAGS = {
    "p": "p",
    "list": "ul",
    "list-item": "li",
    "list-header": "li",
    "table": "table",
    "table-row": "tr",
    "table-cell": "td",
    "covered-table-cell": "td",
    "line-break": "br",
    "text": "body",
    "section": "div",
    "text-box": "div",
    "note": "span",
}
"""Elements of OpenDocument and those of HTML. A heading becomes one of its level, and any other a span."""

DROPPED = {
    "tracked-changes": "",
    "annotation": "comments, not read",
    "object": "embedded documents, not read",
    "note-citation": "",
    "soft-page-break": "",
}
"""Elements that are not read, and what notes call them; "" for those of which nothing is lost."""


TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"

APART = frozenset({"frame", "custom-shape", "title", "desc"})
"""Elements that are no part of the word beside them."""

RAISED = {"text-position": "super"}
STRUCK = {"text-line-through-style": "solid", "text-line-through-type": "single"}
"""Looks of words, see `styles_of`."""

HEADERS = ("{*}header", "{*}header-left", "{*}header-first", "{*}footer", "{*}footer-left", "{*}footer-first")

LETTER = re.compile(r"[^\W\d_]")


def convert_odt(payload: bytes, max_bytes: int) -> Converted:
    """Convert a text document, by way of HTML."""
    with unpacked(payload, max_bytes) as archive:
        page, said, left_out = _read(archive)
    text = convert_html(page, max_bytes).text
    own = {
        "title": property_text(said.get("title"), NO_TITLES),
        "author": property_text(said.get("author"), NO_AUTHORS),
    }
    return Converted(text, own | {"text_type": "text/markdown"}, left_out_notes(left_out))


def _read(archive: zipfile.ZipFile) -> tuple[bytes, dict[str, str], Counter[str]]:
    """Return the text of a document as HTML, its own title and author, and what is not read: words -> number."""
    from lxml import etree, html

    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    root = etree.fromstring(archive.read("content.xml"), parser)
    body = root.find(".//{*}body/{*}text")
    if body is None:
        raise ValueError("it has no text")
    left_out: Counter[str] = Counter()
    for element in list(body.iter()):
        if (local := _local(element)) in DROPPED:
            if DROPPED[local]:
                left_out[DROPPED[local]] += 1
            parent = element.getparent()
            _append(parent, element.getprevious(), element.tail or "")
            parent.remove(element)
    for cell in list(body.iter("{*}table-cell", "{*}covered-table-cell")):
        for _ in range(1, min(int(cell.get(f"{TABLE}number-columns-repeated") or 1), MOST_SPANNED)):
            cell.addnext(deepcopy(cell))
    left_out["headers and footers, not read"] += _headers(archive, parser)
    raised, struck = styles_of(root, RAISED), styles_of(root, STRUCK)
    for element in list(body.iter()):
        style = next((value for name, value in element.attrib.items() if name.endswith("}style-name")), "")
        _as_html(element, _local(element))
        if style in raised and element.tag == "span":
            element.tag = "sup"
        if style in struck and element.tag in {"span", "p"}:
            strike_out(element)
    return bytes(html.tostring(body, encoding="utf-8")), _said(archive, parser), left_out


def styles_of(root: Any, look: Mapping[str, str]) -> set[str]:
    """Return the names of the styles of a part that look so: attribute -> beginning of its value."""
    return {
        style.get(f"{STYLE}name", "")
        for style in root.iter(f"{STYLE}style")
        for name, begin in look.items()
        if any(each.get(f"{STYLE}{name}", "").startswith(begin) for each in style)
    }


def _as_html(element: Any, local: str) -> None:
    """Give an element the name that it has in HTML."""
    attributes = {str(name).rpartition("}")[2]: value for name, value in element.attrib.items()}
    element.attrib.clear()
    if local == "h":
        level = attributes.get("outline-level", "1")
        element.tag = f"h{level}" if level in {"1", "2", "3", "4", "5", "6"} else "h6"
    elif local == "p" and attributes.get("style-name") == "Title":
        element.tag = "h1"
    elif local == "a" and "href" in attributes:
        element.tag = "a"
        element.set("href", attributes["href"])
    else:
        element.tag = TAGS.get(local, "span")
    if element.tag == "td" and getattr(element.getparent().getprevious(), "tag", "") != "tr":
        element.tag = "th"  # of the first row
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


def _headers(archive: zipfile.ZipFile, parser: Any) -> int:
    """Return the number of headers and footers with words, not only with page numbers."""
    from lxml import etree

    if "styles.xml" not in archive.namelist():
        return 0
    found = etree.fromstring(archive.read("styles.xml"), parser).iter(*HEADERS)
    return sum(LETTER.search("".join(element.itertext())) is not None for element in found)


def _said(archive: zipfile.ZipFile, parser: Any) -> dict[str, str]:
    from lxml import etree

    if "meta.xml" not in archive.namelist():
        return {}
    found = {
        _local(element): element.text or "" for element in etree.fromstring(archive.read("meta.xml"), parser).iter()
    }
    return {"title": found.get("title", ""), "author": found.get("initial-creator") or found.get("creator", "")}


def _local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]
