"""Word and PowerPoint files: made readable for their converters, and compared with what these returned.

The converters know a part of the formats. Before them, words are moved out of the elements that they do not know, and
references to parts that are missing are removed, since one of these would fail the whole document. After them, every
word of the document is looked up in the text; those that are not in it are noted by the kind of their part.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from posixpath import join, normpath
from typing import Any
from urllib.parse import unquote

from findingaid.model import Note
from findingaid.sources.converters.marks import escape_cell, escape_heading, escape_tags, raised, struck
from findingaid.sources.converters.numbering import BULLET, Numbering, integer, slide_labels
from findingaid.sources.converters.tables import LONGEST_NAME, fills_columns, is_header

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
A14 = "{http://schemas.microsoft.com/office/drawing/2010/main}"
P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"

WRAPPERS = frozenset({"fldSimple", "moveTo", "customXml", "smartTag", "dir", "bdo", "ruby", "rubyBase", "conflictIns"})
"""Elements around words, by which Word marks fields, moved text, custom XML, directions and readings."""

REMOVED = frozenset({"moveFrom", "conflictDel", "rt", "rubyPr", "customXmlPr", "smartTagPr"})
"""Elements with the old place of moved text, readings beside a ruby's text, and properties of wrappers."""

CHUNK = "findingaidchunk{}x"
"""Word that stands for an inserted document until the text is converted."""

WITH_PROPERTIES = ("acc", "bar", "d", "f", "groupChr")
"""Elements of a formula that the converter reads only with their properties, which may be left out."""

ALPHANUMERIC = re.compile("[A-Za-z0-9]+")

WORDS_OF_PART = "words in elements that the converter does not know"

PARTS = {
    "document": WORDS_OF_PART,
    "footnotes": WORDS_OF_PART,
    "endnotes": WORDS_OF_PART,
    "sld": WORDS_OF_PART,
    "hdr": "headers and footers",
    "ftr": "headers and footers",
    "dataModel": "SmartArt",
    "chartSpace": "charts",
    "comments": "comments",
    "cmLst": "comments",
    "notes": "notes of slides",
}
"""Roots of parts with words, and what a note calls what is not read of them. Programs choose the names of parts."""

OFFICE = re.compile(r"\{http://schemas\.(openxmlformats\.org|microsoft\.com/office)/")
"""Beginning of the names of their elements; a part of a user's own XML may have the same roots."""

STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
"""Beginning of the names of elements and relations in files that Office saves as strict."""

LISTS = re.compile(rb"<(?:\w+:)?(?:numbering|styles)[\s>]")
FIRST_WITHIN = 10_000
"""First element of the parts with the lists and styles of Word, and the bytes among which it is looked for."""

TITLES = frozenset({"title", "ctrTitle"})
ABOVE_ALL = "-27273042329600"
"""Placeholders of the title of a slide, and the least distance from its upper edge, by ST_Coordinate of ECMA-376."""

ON, OFF = ("1", "true"), ("0", "false", "off")
FIRST_ROW = 0x20
"""Values of switches of Office, and the bit of a number of `tblLook` that stands for the first row."""

NO_MEMORY = 2
"""Code of an error of lxml, `etree.ErrorTypes.ERR_NO_MEMORY`."""

UNLETTERED = re.compile(r"[\W_]+")
WORDS = re.compile(r"\w+")
LETTER = re.compile(r"[^\W\d_]")


@dataclass
class Readable:
    """A document that its converter can read.

    `chunks` are the names and contents of documents inserted into it, by the words that stand for them. `texts` are for
    each part what a note calls it, and its words, one string for each run.
    """

    payload: bytes = b""
    chunks: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    texts: list[tuple[str, list[str]]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    numbering: Numbering = field(default_factory=Numbering)
    header_styles: frozenset[str] = frozenset()

    def left_out(self, text: str) -> list[Note]:
        """Return notes on the words that are not in the converted text, by the kind of their part."""
        found = UNLETTERED.sub("", text)
        counts: dict[str, int] = {}
        for what, runs in self.texts:
            missing = [run for run in _missing(runs, found) if what == WORDS_OF_PART or LETTER.search(run)]
            if missing:
                count = len(WORDS.findall(" ".join(missing))) if what == WORDS_OF_PART else 1
                counts[what] = counts.get(what, 0) + count
        return [*self.notes, *(Note("left_out", f"{what}, not read", count) for what, count in counts.items())]


def _missing(runs: Iterable[str], text: str) -> Iterator[str]:
    """Yield the runs whose letters are not in the text; it mostly has them in the same order."""
    at = 0
    for run in runs:
        if not (letters := UNLETTERED.sub("", run)):
            continue
        found = text.find(letters, at)
        if found < 0:
            found = text.find(letters)
        if found < 0:
            yield run
        else:
            at = found + len(letters)


def make_readable(archive: zipfile.ZipFile) -> Readable:
    """Rewrite a Word or PowerPoint file. Raises any exception for one whose main parts are damaged."""
    made = Readable()
    names = [name for name in archive.namelist() if not name.endswith("/")]
    parts = {name: content for name in names if (content := _part(archive, name)) is not None}
    if damaged := len(names) - len(parts):
        made.notes.append(Note("damaged_part", "damaged parts, not read", damaged))
    relations = {name: _drop_missing(name, parts) for name in [*parts] if name.endswith(".rels")}
    made.numbering, made.header_styles = _styles(parts)
    for name in [*parts]:
        if name.endswith(".xml"):
            related = relations.get(str(PurePosixPath(name).parent / "_rels" / f"{PurePosixPath(name).name}.rels"), {})
            _rewrite(name, parts, related, made)
        elif "/embeddings/" in name and not name.endswith(".xlsx"):  # a chart shows its table
            made.texts.append(("embedded documents", [PurePosixPath(name).name]))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as into:
        for name, content in parts.items():
            into.writestr(name, content)
    made.payload = packed.getvalue()
    return made


def _part(archive: zipfile.ZipFile, name: str) -> bytes | None:
    """Return the content of a part, with the names of elements that the converters know; None for a damaged one."""
    try:
        content = archive.read(name)
        if name.endswith((".xml", ".rels")):
            content = STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", content)
            parsed_part(content)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, SyntaxError):
        return None
    return content


def parsed_part(content: bytes) -> Any:
    """Return the tree of a part. Raises SyntaxError for a damaged one, and MemoryError."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    try:
        return etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        if lacks_memory(error):  # else the part would be left out as a damaged one
            raise MemoryError from error
        raise


def lacks_memory(error: Exception) -> bool:
    """Check whether lxml got no memory, which it raises as an error of syntax."""
    return type(error).__module__ == "lxml.etree" and getattr(error, "code", None) == NO_MEMORY


def written_part(root: Any) -> bytes:
    """Return the tree of a part as XML."""
    from lxml import etree

    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True))


def _drop_missing(name: str, parts: dict[str, bytes]) -> dict[str, str]:
    """Remove the relationships of a part to parts that are not there, and return the rest: id -> name of the part."""
    root = parsed_part(parts[name])
    folder = PurePosixPath(name).parent.parent
    found: dict[str, str] = {}
    dropped = False
    for each in list(root):
        target = each.get("Target") or ""
        if each.get("TargetMode") == "External" or not target or target.startswith("#"):
            continue
        place = normpath(target.lstrip("/") if target.startswith("/") else join(str(folder), target))
        there = next((path for path in (place, unquote(place)) if path in parts), None)
        if there is None:
            root.remove(each)
            dropped = True
        else:
            found[each.get("Id") or ""] = there
    if dropped:
        parts[name] = written_part(root)
    return found


def _rewrite(name: str, parts: dict[str, bytes], related: Mapping[str, str], made: Readable) -> None:
    """Rewrite a part with words, and keep the words that are to be found in the converted text."""
    root = parsed_part(parts[name])
    what = PARTS.get(_local(root)) if OFFICE.match(str(root.tag)) else None
    if what is None:
        return
    _escape_signs(root)
    if what != WORDS_OF_PART:
        made.texts.append((what, list(_runs(root))))
        parts[name] = written_part(root)
        return
    _choose_alternatives(root)
    if root.tag.startswith(W):
        _repeat_merged(root)
        if root.tag == f"{W}document":
            _write_numbers(root, made.numbering)
        _unwrap(root)
        _write_choices(root)
        _move_boxes(root)
        _flatten_tables(root)
        _fill_rows(root)
        _mark_headers(root, made.header_styles)
        _drop_pictures(root, related, made)
        if unknown := _unknown_symbols(root):
            made.notes.append(Note("left_out", "symbols of a font that is not known, not read", unknown))
        _mark_chunks(root, related, parts, made)
    _write_formulas(root)
    _repeat_merged_of_slides(root)
    _write_slide_numbers(root)
    _move_title_up(root)
    _write_marks(root)
    made.texts.append((what, list(_runs(root))))
    parts[name] = written_part(root)


def _local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _replace(element: Any, children: Iterable[Any]) -> None:
    """Put children in the place of an element."""
    parent = element.getparent()
    at = parent.index(element)
    for offset, child in enumerate(list(children)):
        parent.insert(at + offset, child)
    parent.remove(element)


def _choose_alternatives(root: Any) -> None:
    """Replace alternatives for several versions of Office by the first that has words, or else by the last."""
    for element in reversed(list(root.iter(f"{MC}AlternateContent"))):  # inner ones first
        choices = list(element)
        if choices:
            _replace(element, next((choice for choice in choices if any(_runs(choice))), choices[-1]))


def _unwrap(root: Any) -> None:
    for element in reversed(list(root.iter("{*}*"))):
        local = _local(element)
        if element is root or not str(element.tag).startswith("{http://schemas.") or "/word" not in element.tag:
            continue
        if local in REMOVED:
            element.getparent().remove(element)
        elif local in WRAPPERS:
            _replace(element, element)


def _has_lists(name: str, part: bytes) -> bool:
    return name.endswith(".xml") and LISTS.search(part[:FIRST_WITHIN]) is not None


def _styles(parts: dict[str, bytes]) -> tuple[Numbering, frozenset[str]]:
    """Return the numbering of a Word document, and the styles of tables that set off the first row.

    The styles of levels, by which the converter counts, are removed.
    """
    found = {name: parsed_part(part) for name, part in parts.items() if _has_lists(name, part)}
    numbering = Numbering.of(found.values())
    for name, root in found.items():
        for level in root.iter(f"{W}lvl"):
            style, kind = level.find(f"{W}pStyle"), level.find(f"{W}numFmt")
            if style is not None and (kind is None or kind.get(f"{W}val") != BULLET):
                level.remove(style)
        parts[name] = written_part(root)
    styles = (style for root in found.values() for style in root.iter(f"{W}style"))
    with_header = (style for style in styles if style.find(f"{W}tblStylePr[@{W}type='firstRow']") is not None)
    return numbering, frozenset(style.get(f"{W}styleId") for style in with_header)


def _write_numbers(root: Any, numbering: Numbering) -> None:
    """Write the number of each paragraph of a list before its words, and take it out of the list."""
    for paragraph in list(root.iter(f"{W}p")):
        if (label := numbering.label(paragraph)) is None:
            continue
        properties = paragraph.find(f"{W}pPr")
        for own in properties.findall(f"{W}numPr"):
            properties.remove(own)
        if label:
            properties.addnext(_run(root, f"{label} "))


def _write_slide_numbers(root: Any) -> None:
    """Write the number of each numbered paragraph of a slide before its words."""
    for body in root.iter(f"{P}txBody", f"{A}txBody"):
        for paragraph, label in list(slide_labels(body.iter(f"{A}p"))):
            paragraph.find(f"{A}pPr").addnext(_run(root, f"{label} ", A))


def _write_choices(root: Any) -> None:
    """Write the chosen entry of each drop-down field before it: the converter reads no such field."""
    for choices in list(root.iter(f"{W}ddList")):
        entries = [each.get(f"{W}val") or "" for each in choices.iter(f"{W}listEntry")]
        chosen = next((each.get(f"{W}val") or "" for each in choices.iter(f"{W}result", f"{W}default")), "0")
        field = next(choices.iterancestors(f"{W}r"), None)
        if field is not None and chosen.isdecimal() and int(chosen) < len(entries):
            field.addprevious(_run(root, entries[int(chosen)]))


def _unknown_symbols(root: Any) -> int:
    """Return the number of symbols that the converter leaves out, since it does not know their place in their font."""
    from mammoth.docx.dingbats import dingbats

    codes = ((found.get(f"{W}font"), int(found.get(f"{W}char", "0"), 16)) for found in root.iter(f"{W}sym"))
    return sum((font, code) not in dingbats and (font, code - 0xF000) not in dingbats for font, code in codes)


def _write_formulas(root: Any) -> None:
    """Write each formula as TeX: the converter leaves all of them out if it cannot read one."""
    for name in WITH_PROPERTIES:
        for element in root.iter(f"{M}{name}"):
            if element.find(f"{M}{name}Pr") is None:
                element.insert(0, element.makeelement(f"{M}{name}Pr", {}))
    for formula in list(root.iter(f"{M}oMath")):
        sign = "$$" if formula.getparent().tag == f"{M}oMathPara" else "$"
        text = f"{sign}{escape_tags(_as_tex(formula))}{sign}"
        in_table = next(formula.iterancestors(f"{W}tbl", f"{A}tbl"), None) is not None
        _replace(formula, [_run(root, escape_cell(text) if in_table else text, W if root.tag.startswith(W) else A)])
    for around in [*root.iter(f"{M}oMathPara"), *root.iter(f"{A14}m")]:
        _replace(around, around)


def _as_tex(formula: Any) -> str:
    """Return a formula as TeX, or its words in their order if a part of it has no such form."""
    from markitdown.converter_utils.docx.math.omml import oMath2Latex

    converter: Any = oMath2Latex
    words = [text.text or "" for text in formula.iter(f"{M}t")]
    try:
        made = str(converter(formula).latex)
    except Exception:  # noqa: BLE001  # it may raise anything for an element that it does not know
        made = ""
    return made if all(word in made for word in ALPHANUMERIC.findall(" ".join(words))) else " ".join(words)


def _write_marks(root: Any) -> None:
    """Write raised numbers of Word and PowerPoint in raised characters, and mark struck words of PowerPoint.

    The converter marks those of Word itself.
    """
    for run in root.iter(f"{W}r", f"{A}r"):
        place, properties = run.find(f"{W}rPr/{W}vertAlign"), run.find(f"{A}rPr")
        height = run.find(f"{W}rPr/{W}position")
        raised_word = place is not None and place.get(f"{W}val") == "superscript"
        raised_word |= height is not None and not height.get(f"{W}val", "0").startswith(("0", "-"))
        raised_slide = properties is not None and not properties.get("baseline", "0").startswith(("0", "-"))
        for text in run.iter("{*}t") if raised_word or raised_slide else ():
            text.text = raised(text.text or "")
        if properties is not None and properties.get("strike", "noStrike") != "noStrike":
            for text in run.iter("{*}t"):
                text.text = struck(text.text or "")


def _escape_signs(root: Any) -> None:
    """Escape the signs of a text that Markdown would take for markup, and end words of Word where a line ends."""
    for text in root.iter(f"{W}t", f"{A}t"):
        text.text = escape_heading(escape_tags(text.text or ""))
        if next(text.iterancestors(f"{W}tbl", f"{A}tbl"), None) is not None:
            text.text = escape_cell(text.text)
    for element in root.iter(f"{W}cr", f"{W}ptab"):
        element.tag = f"{W}br" if element.tag == f"{W}cr" else f"{W}tab"
    for line_end in root.iter(f"{W}br"):  # the converter leaves out the end of a page or column
        line_end.attrib.pop(f"{W}type", None)


def _flatten_tables(root: Any) -> None:
    """Replace each table that has others within it, which Markdown has not, by what is in its cells."""
    for table in list(root.iter(f"{W}tbl")):
        if next(table.iterdescendants(f"{W}tbl"), None) is not None:
            cells = [cell for cell in table.iter(f"{W}tc") if next(cell.iterancestors(f"{W}tbl")) is table]
            _replace(table, [each for cell in cells for each in cell if each.tag in {f"{W}p", f"{W}tbl", f"{W}sdt"}])


def _words(cell: Any, of: str) -> str:
    """Return the words of a cell of Word or PowerPoint, by their names, on one line."""
    return " ".join(" ".join("".join(_runs(each)) for each in cell.iter(f"{of}p")).split())


def _repeat_merged(root: Any) -> None:
    """Repeat the name in a cell that is merged downwards in the cells below, which are cells of their own then."""
    for table in root.iter(f"{W}tbl"):
        above: dict[int, str] = {}
        for row in table.findall(f"{W}tr"):
            column = sum(integer(each.get(f"{W}val"), 0) for each in row.iter(f"{W}gridBefore"))
            for cell in row.findall(f"{W}tc"):
                span, merged = cell.find(f"{W}tcPr/{W}gridSpan"), cell.find(f"{W}tcPr/{W}vMerge")
                if merged is None:
                    above.pop(column, None)
                elif (words := _words(cell, W)) or merged.get(f"{W}val") == "restart":
                    above[column] = words if len(words) <= LONGEST_NAME else ""
                elif (paragraph := cell.find(f"{W}p")) is not None and above.get(column):
                    paragraph.append(_run(root, above[column]))
                column += 1 if span is None else integer(span.get(f"{W}val"), 1)
    for merged in list(root.iter(f"{W}vMerge")):
        merged.getparent().remove(merged)


def _move_title_up(root: Any) -> None:
    """Move the title of a slide above all other shapes, which are read from top to bottom."""
    titles = (kind for kind in root.iter(f"{P}ph") if kind.get("type") in TITLES and kind.get("idx", "0") == "0")
    for shape in [kind.getparent().getparent().getparent() for kind in titles]:
        if (properties := shape.find(f"{P}spPr")) is not None:
            for place in properties.findall(f"{A}xfrm"):
                properties.remove(place)
            properties.insert(0, place := properties.makeelement(f"{A}xfrm"))
            place.append(place.makeelement(f"{A}off", {"x": "0", "y": ABOVE_ALL}))
            place.append(place.makeelement(f"{A}ext", {"cx": "0", "cy": "0"}))


def _repeat_merged_of_slides(root: Any) -> None:
    """Repeat the name in a cell that is merged downwards in the cells below."""
    for table in root.iter(f"{A}tbl"):
        above: dict[int, str] = {}
        for row in table.findall(f"{A}tr"):
            for column, cell in enumerate(row.findall(f"{A}tc")):
                words, paragraph = _words(cell, A), cell.find(f"{A}txBody/{A}p")
                if cell.get("vMerge") not in ON:
                    above[column] = words if cell.get("hMerge") not in ON and len(words) <= LONGEST_NAME else ""
                elif not words and paragraph is not None and above.get(column):
                    paragraph.insert(paragraph.find(f"{A}pPr") is not None, _run(root, above[column], A))


def _fill_rows(root: Any) -> None:
    """Put an empty cell into each row that begins further right, so that its cells stay below their headers."""
    for row in list(root.iter(f"{W}tr")):
        before, cell = row.find(f"{W}trPr/{W}gridBefore"), row.find(f"{W}tc")
        if before is None or cell is None:
            continue
        empty = row.makeelement(f"{W}tc", {})
        properties = empty.makeelement(f"{W}tcPr", {})
        properties.append(empty.makeelement(f"{W}gridSpan", {f"{W}val": before.get(f"{W}val") or "1"}))
        empty.extend([properties, empty.makeelement(f"{W}p", {})])
        cell.addprevious(empty)


def _mark_headers(root: Any, styles: Container[str]) -> None:
    """Mark the first row of each table as its header, if its style sets it off, or it is bold or has names."""
    for table in root.iter(f"{W}tbl"):
        rows = list(table.iter(f"{W}tr"))
        if len(rows) < 2 or next(table.iter(f"{W}tblHeader"), None) is not None:
            continue
        style, look = table.find(f"{W}tblPr/{W}tblStyle"), table.find(f"{W}tblPr/{W}tblLook")
        styled = style is not None and style.get(f"{W}val") in styles and look is not None and _has_first_row(look)
        cells = [_words(cell, W) for cell in rows[0].iter(f"{W}tc")]
        n_below = len(list(rows[1].iter(f"{W}tc")))
        marked = styled or (_is_bold(rows[0]) and not _is_bold(rows[1]))
        if (marked and fills_columns(cells, n_below)) or is_header(cells, n_below):
            properties = rows[0].find(f"{W}trPr")
            if properties is None:
                properties = rows[0].makeelement(f"{W}trPr", {})
                rows[0].insert(0, properties)
            properties.append(properties.makeelement(f"{W}tblHeader", {}))


def _has_first_row(look: Any) -> bool:
    """Return whether a table shows its first row as a header, which older files say in a number."""
    if (said := look.get(f"{W}firstRow")) is not None:
        return str(said) not in OFF
    return bool(int(look.get(f"{W}val") or "0", 16) & FIRST_ROW)


def _is_bold(row: Any) -> bool:
    runs = [run for run in row.iter(f"{W}r") if any(_runs(run))]
    bold = (run.find(f"{W}rPr/{W}b") for run in runs)
    return bool(runs) and all(each is not None and each.get(f"{W}val") not in OFF for each in bold)


def _move_boxes(root: Any) -> None:
    """Move the paragraphs of text boxes behind the paragraph that holds the box."""
    for box in reversed(list(root.iter(f"{W}txbxContent"))):
        around = next(box.iterancestors(f"{W}p"), None)
        if around is None:
            continue
        place = around.getparent()
        at = place.index(around) + 1
        for offset, child in enumerate(list(box)):
            place.insert(at + offset, child)
        box.getparent().remove(box)


def _drop_pictures(root: Any, related: Mapping[str, str], made: Readable) -> None:
    """Replace pictures that are missing, or lie outside the document, by their descriptions."""
    dropped = 0
    for picture in list(root.iter(f"{A}blip", "{urn:schemas-microsoft-com:vml}imagedata")):
        target = picture.get(f"{R}embed") or picture.get(f"{R}id")
        if target in related:
            continue
        if target or picture.get(f"{R}link"):
            dropped += 1
        holder = next(picture.iterancestors(f"{W}drawing", f"{W}pict"), None)
        picture.getparent().remove(picture)
        described = _description(holder) if holder is not None else ""
        if holder is not None and described and holder.getparent().tag == f"{W}r":
            text = holder.makeelement(f"{W}t", {})
            text.text = f" {described} "
            holder.addprevious(text)
    if dropped:
        made.notes.append(Note("missing_picture", "pictures that are not in the document", dropped))


def _description(holder: Any) -> str:
    for element in holder.iter():
        if isinstance(element.tag, str) and _local(element) in {"docPr", "shape"}:
            return str(element.get("descr") or element.get("alt") or element.get("title") or "").strip()
    return ""


def _mark_chunks(root: Any, related: Mapping[str, str], parts: Mapping[str, bytes], made: Readable) -> None:
    """Put a word in the place of each inserted document."""
    for chunk in list(root.iter(f"{W}altChunk")):
        target = related.get(chunk.get(f"{R}id") or "")
        if target is None:
            made.notes.append(Note("left_out", "inserted documents that are missing"))
            continue
        word = CHUNK.format(len(made.chunks))
        made.chunks[word] = target, parts[target]
        paragraph = root.makeelement(f"{W}p", {})
        paragraph.append(_run(root, word))
        _replace(chunk, [paragraph])


def _run(root: Any, words: str, of: str = W) -> Any:
    run = root.makeelement(f"{of}r", {})
    text = run.makeelement(f"{of}t", {})
    text.text = words
    run.append(text)
    return run


def _runs(root: Any) -> Iterator[str]:
    """Yield the words of a part. Numbers of pages and slides, which fields make, are left out."""
    for element in root.iter("{*}t", "{*}v", f"{P}text"):
        parent = element.getparent()
        number = parent is not None and _local(parent) == "fld" and parent.get("type") == "slidenum"
        deleted = next(element.iterancestors(f"{W}del"), None) is not None
        if element.text and element.text.strip() and not number and not deleted:
            yield element.text
