"""HTML, and pages of web sites: what a browser shows, in the order and with the breaks that it shows."""

from __future__ import annotations

import re
from html import escape as escape_html
from typing import Any

from findingaid.model import Note
from findingaid.sources.change_times import time_of
from findingaid.sources.converters.common import FILLED, NO_TITLES, left_out_notes, property_text, to_markdown
from findingaid.sources.converters.marks import (
    escape_cell,
    escape_heading,
    escape_line,
    escape_tags,
    raised,
    strike_out,
)
from findingaid.sources.converters.numbering import as_label
from findingaid.sources.converters.tables import LONGEST_NAME, fills_columns, is_header
from findingaid.sources.documents import Converted
from findingaid.text.decoding import decode

ASIDE = "//nav | //a[contains(@class, 'headerlink')]"
"""Parts of a page that are not content: lists of links, and the permalinks that Sphinx and MkDocs write."""

FRAMES = "//iframe | //frame | //object | //embed"

BLOCKS = (
    "address", "aside", "button", "center", "details", "dialog", "dir", "fieldset", "figure", "footer", "form",
    "header", "hgroup", "legend", "main", "menu", "meter", "noscript", "optgroup", "option", "progress", "search",
    "select", "summary", "text", "textarea",
)  # fmt: skip
"""Elements that a browser sets off from the words before and behind, and markitdown does not."""

DATES = frozenset(
    {
        *("date", "pubdate", "publishdate", "publish_date", "publication_date", "article:published_time"),
        *("dc.date", "dc.date.created", "dc.date.issued", "dcterms.created", "dcterms.date", "dcterms.issued"),
        *("citation_date", "citation_publication_date", "datecreated", "datepublished", "og:published_time"),
    }
)
"""Names under which the head of a page says when it was published."""

LINKED_DATA = "//script[@type='application/ld+json']/text()"
PUBLISHED = re.compile(r'"datePublished"\s*:\s*"([^"]+)"')
TIMES = (
    "//*[@itemprop='datePublished' or @pubdate"
    " or contains(concat(' ', @class, ' '), ' published ') or contains(@class, 'dt-published')]/@datetime"
)
"""Elements of a page that are marked as the time when it was published."""

YEAR = re.compile(r"(?<![0-9])[0-9]{4}(?![0-9])")
ORDERS = ("DMY", "MDY")
LONGEST_DATE = 80
MOST_DATES = 20
"""Most different dates that are looked at: a page that declares more lists others, and words take some time to read."""

TYPED = (
    "//input[@value != '' and (not(@type) or contains(' text email number tel url date ', concat(' ', @type, ' ')))]"
)

NOT_IN_CODE = (
    "not(ancestor::head or ancestor::script or ancestor::style or ancestor::pre or ancestor::code or ancestor::kbd"
    " or ancestor::samp)"
)
SIGNS = {
    f"//text()[contains(., '<') and {NOT_IN_CODE}]": escape_tags,
    f"//text()[starts-with(normalize-space(.), '#') and {NOT_IN_CODE}]": escape_heading,
    "//text()[contains(., '|') and (ancestor::td or ancestor::th)]": escape_cell,
}
"""Texts that may have signs of Markdown, as paths, and how these are escaped. Code has tags as they are."""

FORMULAS = {
    "mfrac": "{}/{}",
    "mroot": "{1}\N{SQUARE ROOT}{0}",
    "msqrt": "\N{SQUARE ROOT}{}",
    "msubsup": "{}_{}^{}",
    "msup": "{}^{}",
    "munderover": "{}_{}^{}",
}
"""Elements of MathML whose parts do not stand beside each other, and how they are written on a line."""

KINDS = {
    "a": "lowerLetter",
    "A": "upperLetter",
    "i": "lowerRoman",
    "I": "upperRoman",
    "lower-alpha": "lowerLetter",
    "lower-latin": "lowerLetter",
    "upper-alpha": "upperLetter",
    "upper-latin": "upperLetter",
    "lower-roman": "lowerRoman",
    "upper-roman": "upperRoman",
    "decimal-leading-zero": "decimalZero",
}
"""Kinds of numbers of a list, by its type in HTML or its style, and their names for `as_label`."""

LIST_STYLE = re.compile(r"list-style(?:-type)?\s*:\s*([a-z-]+)")
INTEGER = re.compile(r"\s*(-?[0-9]{1,9})")

MARKED = ("a", "b", "code", "del", "em", "i", "kbd", "s", "samp", "strong", "sub", "sup", "u")
"""Elements around which the converter writes signs; it drops a break at their edges, and those without words."""

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")

ROWS = "./tr | ./thead/tr | ./tbody/tr | ./tfoot/tr"
BOLD = "ancestor::b or ancestor::strong or ancestor::*[contains(@style, 'bold')]"

XHTML = re.compile(r"\s*(?:<\?xml\s|(?:<!doctype\b[^<>]*>\s*)?<html\b[^<>]*\sxmlns\s*=)", re.IGNORECASE)
"""Beginning of a page in XML, in which sections of character data are text. In HTML they are comments."""

DIGITS = re.compile(r"[0-9]{1,9}")
MOST_SPANNED = 1_000
"""Most rows or columns of a merged cell."""


def convert_html(payload: bytes, max_bytes: int) -> Converted:
    """Convert a page, without its lists of links."""
    text, _, notes = decode(payload)
    page = page_tree(text)
    if page is None:
        return Converted("", {})
    for element in page.xpath(ASIDE):
        element.drop_tree()
    left_out = {
        "pages within the page (frames), not read": len(page.xpath(FRAMES)),
        FILLED: len(page.xpath(TYPED)),
    }
    # The parser has closed the tags that HTML lets stay open (p, li, td). markitdown would nest them, too deep for a
    # long page.
    text, title = to_markdown("HtmlConverter", as_bytes(page), ".html")
    said = {"title": property_text(title, NO_TITLES), "text_type": "text/markdown"}
    return Converted(text, said, [*notes, *left_out_notes(left_out)])


def convert_web_page(payload: bytes, max_bytes: int) -> Converted:
    """Convert the main text of a page, without menus and footers; or all of it, if none is found."""
    import trafilatura

    parsed = _parsed(decode(payload)[0])
    page = "" if parsed is None else as_bytes(parsed).decode()
    date, dates = ("", 0) if parsed is None else _published(parsed)
    whole = convert_html(payload, max_bytes)
    config = trafilatura.settings.use_config()
    config["DEFAULT"].update({"MIN_EXTRACTED_SIZE": "1", "MIN_OUTPUT_SIZE": "1"})  # a short page, too, has a menu
    text = trafilatura.extract(
        page, config=config, output_format="markdown", include_links=True, include_formatting=True, favor_recall=True
    )
    if not text:
        return whole._replace(notes=[*whole.notes, Note("guessed", "no main text found: the whole page is read")])
    beside = len(whole.text.split()) - len(text.split())
    left_out = {
        "words beside the main text of a page, as in its footer, not read": max(0, beside),
        "declared dates of a page, of several days or in no clear form, not read": dates,
    }
    notes = left_out_notes(left_out)
    found = trafilatura.extract_metadata(page, extensive=False)
    if parsed is not None and not _declares(parsed, found.author or ""):
        notes.append(Note("guessed", "author, guessed from the words of the page"))
    said = {"title": property_text(found.title, NO_TITLES), "author": found.author, "date": date}
    metadata = whole.metadata | {name: value for name, value in said.items() if value}
    return Converted(text, metadata, [*whole.notes, *notes])


def _published(page: Any) -> tuple[str, int]:
    """Return the day on which a page declares that it was published; "" and how many dates it declares without one.

    Any other date in its words may be of what it tells of, or of its footer.
    """
    head = [meta.get("content", "") for meta in page.iter("meta") if _name_of(meta) in DATES]
    linked = [day for script in page.xpath(LINKED_DATA) for day in PUBLISHED.findall(script)]
    told = [[said for text in texts if (said := text.strip())] for texts in (head, linked, page.xpath(TIMES))]
    for declared in told:
        if len(different := {*declared}) > MOST_DATES:
            return "", len(declared)
        if days := {day for said in different if (day := _day_of(said))}:
            return (days.pop(), 0) if len(days) == 1 else ("", len(declared))  # a page that lists others has theirs
    return "", sum(map(len, told))


def _day_of(said: str) -> str:
    """Return the day that a text states in any language; "" if it states none, or one of two, as 05/06/2024 does."""
    if at := time_of(said):
        return at.date().isoformat()
    if not YEAR.search(said):
        return ""
    import dateparser

    settings = {"STRICT_PARSING": True, "PARSERS": ["absolute-time"]}
    read = [dateparser.parse(said[:LONGEST_DATE], settings={**settings, "DATE_ORDER": order}) for order in ORDERS]
    days = {at.date().isoformat() for at in read if at}
    return days.pop() if len(days) == 1 else ""


def _declares(page: Any, authors: str) -> bool:
    """Return whether the head or the linked data of a page name all these authors; a byline may be of other words."""
    declared = " ".join([*page.xpath("//meta/@content"), *page.xpath(LINKED_DATA)]).casefold()
    return all(name.casefold() in declared for name in authors.split("; "))


def _name_of(meta: Any) -> str:
    return str(meta.get("name") or meta.get("property") or meta.get("itemprop") or "").lower()


def page_tree(text: str, is_xml: bool = False) -> Any | None:
    """Return the tree of a page, in which `BLOCKS` are elements that markitdown sets off; None without any element."""
    root = _parsed(text, is_xml)
    if root is None:
        return None
    for option in root.xpath("//option[@selected]"):
        option.text = f"[x] {option.text or ''}"
    for element in root.iter(*BLOCKS):
        element.tag = "div"
    for field in root.iter("input"):
        if field.get("type", "").lower() in {"checkbox", "radio"}:
            field.set("type", "checkbox")  # the converter marks these if they are checked
    for foot in root.xpath("//tfoot"):
        foot.getparent().append(foot)  # a browser shows it below the other rows
    for items in list(root.iter("ol")):
        _write_numbers(items)
    around = {*root.xpath("//table[.//table]")}  # Markdown has no tables within tables
    cells = [
        (each, next(each.iterancestors("table"))) for each in root.xpath("//table//*[self::tr or self::td or self::th]")
    ]
    for element in [*around, *(cell for cell, table in cells if table in around)]:
        element.tag = "div"
    for table in list(root.iter("table")):
        _name_columns(table)
        _keep_on_lines(table)
        _fill_merged(table)
        _join_groups(table)
    return root


def free_spaces(root: Any) -> None:
    """Put spaces and breaks at the edges of marked words outside, where the converter keeps them between words."""
    for element in reversed(list(root.iter(*MARKED))):  # inner ones first
        has_words = element.text_content().strip() or element.xpath(".//img | .//input")
        if has_words:
            _free_leading(element)
            _free_trailing(element)
        if not has_words or (element.tag == "a" and not element.get("href")):
            element.tag = "span"


def _free_leading(element: Any) -> None:
    while True:
        text = element.text or ""
        words = text.lstrip()
        before, parent = element.getprevious(), element.getparent()
        if before is None:
            parent.text = (parent.text or "") + text[: len(text) - len(words)]
        else:
            before.tail = (before.tail or "") + text[: len(text) - len(words)]
        element.text = words
        line = next(element.iterchildren(), None)
        if words or line is None or line.tag != "br":
            return
        element.text, line.tail = line.tail, None
        element.addprevious(line)


def _free_trailing(element: Any) -> None:
    while True:
        last = next(element.iterchildren(reversed=True), None)
        text = (element.text if last is None else last.tail) or ""
        words = text.rstrip()
        element.tail = text[len(words) :] + (element.tail or "")
        if last is None:
            element.text = words
            return
        last.tail = words
        if words or last.tag != "br":
            return
        behind, element.tail, last.tail = element.tail, None, None
        element.addnext(last)
        last.tail = behind


def _parsed(text: str, is_xml: bool = False) -> Any | None:
    """Return the tree of a page, in which no number or word runs into the one before it; None without any element."""
    from lxml import etree, html

    if is_xml or XHTML.match(text):
        text = _write_character_data(text)
    try:
        root = html.document_fromstring(text.encode(), parser=html.HTMLParser(encoding="utf-8", huge_tree=True))
    except etree.ParserError:
        return None
    for element in root.xpath("//svg//title"):  # the name of an icon, which the converters take for the page's
        element.tag = "span"
    _raise_numbers(root)
    for element in list(root.iter("math")):
        _write_formula(element)
    for element in root.xpath("//*[contains(@style, 'line-through')]"):
        strike_out(element)
    for path, escape in SIGNS.items():
        for found in root.xpath(path):
            setattr(found.getparent(), "tail" if found.is_tail else "text", escape(found))
    for line in root.xpath(f"//br[{NOT_IN_CODE}]"):  # a path to what follows each takes quadratic time
        line.tail = escape_line(line.tail or "")
    free_spaces(root)
    return root


def _raise_numbers(root: Any) -> None:
    """Write raised numbers with signs of their own; the converter would make 106 of 10 to the 6th."""
    for element in list(root.iter("sup")):
        number = (element.text or "").strip()
        if not len(element) and raised(number) != number:
            _write(element, raised(number))


def _write_character_data(text: str) -> str:
    """Return a page in XML in which sections of character data are escaped texts, as its parser would read them."""
    before, *sections = text.split("<![CDATA[")
    written = [before]
    for section in sections:
        inside, end, behind = section.partition("]]>")
        written += [escape_html(inside, quote=False), behind] if end else ["<![CDATA[", section]
    return "".join(written)


def _write_formula(math: Any) -> None:
    """Put a formula on one line: as TeX if the page has that too, or else with signs for places above and below."""
    tex = math.xpath("string(.//annotation[contains(@encoding, 'tex')])").strip()
    for element in [] if tex else reversed(list(math.iter(*FORMULAS))):  # inner ones first
        parts = ["".join(part.itertext()).strip() for part in ([element] if element.tag == "msqrt" else element)]
        up = raised(parts[-1]) if parts else ""
        form = f"{{}}{up}" if element.tag == "msup" and up != parts[-1] else FORMULAS[element.tag]
        if len(parts) == FORMULAS[element.tag].count("{"):
            _write(element, form.format(*(x if x.isalpha() or x.isdecimal() else x and f"({x})" for x in parts)))
    for shown in math.xpath("ancestor::*[@class='katex']/*[@class='katex-html']"):  # the same again
        shown.drop_tree()
    _write(math, f"${tex}$" if tex else " ".join("".join(math.itertext()).split()))


def _write(element: Any, text: str) -> None:
    """Replace an element by a text."""
    for child in list(element):
        element.remove(child)
    element.tag, element.text = "span", text


def _write_numbers(items: Any) -> None:
    """Write the numbers of a list before its items, unless it counts upwards in digits, as the converter does."""
    styled = LIST_STYLE.search(items.get("style", ""))
    kind = KINDS.get(styled[1] if styled else items.get("type", ""), "")
    own = [item for item in items if item.tag == "li"]
    downwards = items.get("reversed") is not None
    if not (kind or downwards or any(item.get("value") for item in own)):
        return
    number = _number(items, "start", len(own) if downwards else 1)
    items.tag = "div"
    for item in own:
        number = _number(item, "value", number)
        item.tag = "div"
        first = item[0] if len(item) and item[0].tag == "p" and not (item.text or "").strip() else item
        first.text = f"{as_label(number, kind)}. {(first.text or '').lstrip()}"
        number += -1 if downwards else 1


def _number(element: Any, name: str, default: int) -> int:
    found = INTEGER.match(element.get(name, ""))
    return int(found[1]) if found else default


def _name_columns(table: Any) -> None:
    """Mark the first row as the header of a table that has none, if it is bold or has names: see `is_header`."""
    rows = table.xpath(ROWS)
    if len(rows) < 2 or table.xpath("./thead | .//th"):
        return
    cells, below = (list(row.iter("td")) for row in rows[:2])
    words = [" ".join(str(cell.text_content()).split()) for cell in cells]
    bold = all(map(_is_bold, cells)) and not all(map(_is_bold, below))
    named = (bold and fills_columns(words, len(below))) or is_header(words, len(below))
    for cell in cells if named else ():
        cell.tag = "th"


def _is_bold(cell: Any) -> bool:
    return not cell.xpath(f".//text()[normalize-space(.) != '' and not({BOLD})]")


def _keep_on_lines(table: Any) -> None:
    """Change what would end a cell or join its words: headings, and bars in the attributes that Markdown shows."""
    for element in table.iterdescendants(*HEADINGS):
        element.tag = "div"
    for element in table.iterdescendants("a", "img"):
        for name, bar in (("alt", r"\|"), ("title", r"\|"), ("href", "%7C"), ("src", "%7C")):
            if "|" in element.get(name, ""):
                element.set(name, element.get(name).replace("|", bar))


def _fill_merged(table: Any) -> None:
    """Put a cell into each row below a cell that is merged downwards: one with its name, or an empty one.

    Markdown has no merged cells: without it, the other cells of these rows would stand below the wrong headers.
    """
    group, below = None, dict[int, tuple[int, str]]()  # rows that are left of merged cells, and names, by column
    for row in table.xpath(ROWS):
        cells, column = [cell for cell in row if cell.tag in {"td", "th"}], 0
        now = below if row.getparent() is group else {}
        group, below = row.getparent(), {at: (rows - 1, name) for at, (rows, name) in now.items() if rows > 1}
        for cell in [*cells, None]:
            while column in now:
                filler = row.makeelement("td", {})
                filler.text = now[column][1]
                if cell is None:
                    row.append(filler)
                else:
                    cell.addprevious(filler)
                column += 1
            if cell is not None:
                rows, columns = _span(cell, "rowspan", MOST_SPANNED), _span(cell, "colspan", 1)
                name = " ".join(str(cell.text_content()).split())
                names = [name if len(name) <= LONGEST_NAME else "", *[""] * (columns - 1)]
                below |= {column + at: (rows - 1, name) for at, name in enumerate(names) if rows > 1}
                column += columns


def _join_groups(table: Any) -> None:
    """Put the rows of all parts below the head into one: the converter would begin another table with each."""
    first, *others = table.xpath("./tbody | ./tfoot") or [None]
    for other in others:
        first.extend(list(other))
        table.remove(other)
    if first is not None:
        first.tag = "tbody"


def _span(cell: Any, name: str, of_zero: int) -> int:
    """Return over how many rows or columns a cell goes: `of_zero` if its attribute says 0."""
    found = DIGITS.match(cell.get(name, "").strip())
    return min(int(found[0]) or of_zero, MOST_SPANNED) if found else 1


def as_bytes(page: Any) -> bytes:
    """Return the tree of a page as HTML in UTF-8."""
    from lxml import html

    return bytes(html.tostring(page, encoding="utf-8"))
