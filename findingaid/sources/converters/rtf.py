"""RTF: text with the marks of struck, removed and raised words, and notes on the groups that are not read."""

from __future__ import annotations

import codecs
import re

from findingaid.sources.converters.common import (
    CUT_SHORT,
    FILLED,
    MARKS,
    NO_AUTHORS,
    NO_TITLES,
    left_out_notes,
    plain_text,
    property_text,
)
from findingaid.sources.converters.marks import STRUCK, raised
from findingaid.sources.documents import Converted

ESCAPED = re.compile(r"\\[\\{}]")
SPAN = r"\\(?:(?:{})(\d*)(?![a-z\d])|(plain)(?![a-z])|[\\{{}}])|([{{}}])"
TRACKED = re.compile(SPAN.format("deleted|mvf"))
STRUCK_WORDS = re.compile(SPAN.format("striked?"))
"""Begin and end of words that a change removed but that still have to be accepted, of struck words, and of groups."""

FOOTNOTE = re.compile(r"(?:\\\*\s*)?\\footnote\b ?")
RAISED = re.compile(
    r"(\\(?:super|up(?!0)\d*)(?![a-z\d])(?:\s*\\(?!(?:plain|nosupersub|sub|up0)(?![a-z\d]))[a-z]+-?\d*)*\s+)"
    r"([-+]?[0-9]{1,9})(?=[}\\])"
)
"""Number in raised characters, and the words of RTF before it: the format, and others such as the font."""

LINE_END = re.compile(r"\\(?:column|soft(?:col|line|page))(?![a-z]) ?")
"""End of a column or line, which the converter leaves out."""

CELL_END = re.compile(r"\\par(?=[\s}]*\\cell(?![a-z]))")
"""End of the last paragraph of a cell, which would part the cell from the others of its row."""

NOT_READ = {
    "comments, not read": re.compile(r"\\annotation\b"),
    "embedded documents, not read": re.compile(r"\\object\b"),
    FILLED: re.compile(r"\\fftype[12](?!\d)"),
    "formulas, not read": re.compile(r"\\moMath(?![a-zA-Z])"),
    "headers and footers, not read": re.compile(r"\\(?:header|footer)[lrf]?\b"),
    "text boxes, not read": re.compile(r"\\(?:shptxt|dptxbxtext)\b"),
}
"""Groups of an RTF document that its converter leaves out, by what notes call them."""

PROPERTY = re.compile(r"\{\\(title|author) ((?:[^{}\\]|\\.)*)\}", re.DOTALL)
CODE_PAGE = re.compile(r"\\ansicpg(\d+)")

CHARACTER_SETS = {"mac": "mac_roman", "pca": "cp850", "pc": "cp437"}
"""Character sets of documents without a code page, or with one that Python does not know, such as 10000 of Macs."""

CHARACTER_SET = re.compile(r"\{\\rtf\d*\s*\\(mac|pca|pc)(?![a-z])")

BINARY = re.compile(r"\\(?:[\\{}]|bin(\d{1,10}) ?)")
"""Number of raw bytes that follow, as of a picture, which may be braces too; or an escaped sign."""

REPLACED = {
    re.compile(r"\\pntext(?![a-z])"): r"\\listtext",  # the number of a list's item, as older programs write it
    re.compile(r"\\upr\s*\{"): r"{\\*",  # words for programs without Unicode
    re.compile(r"\\\*\s*\\ud(?![a-z])"): "",  # the same words in Unicode
    re.compile(r"\\\\(?=bin)"): r"\\\\{}",  # of a path: with it, what is behind a picture is left out
}
"""What the converter leaves out or misreads, and what makes it read it."""


def convert_rtf(payload: bytes, max_bytes: int) -> Converted:
    """Convert a document in RTF, or a text that a program wrote under its name."""
    if not payload.lstrip(MARKS).startswith(b"{\\rtf"):
        return plain_text(payload)
    source = _without_binary(payload.decode("latin-1"))
    up = RAISED.sub(_raised, source)
    up = _around(STRUCK_WORDS, STRUCK, STRUCK, up)
    up = _around(TRACKED, r"{\*", "}", up)  # a group that the converter leaves out
    up = CELL_END.sub("", LINE_END.sub(r"\\line ", up))
    read = FOOTNOTE.sub(" ", up)  # the converter leaves out a group of this name; so it stays in its sentence
    for group, instead in REPLACED.items():
        read = group.sub(instead, read)
    text = re.sub(r"[\f\v]", "\n", _read(read, source)).strip()
    braces = ESCAPED.sub("", source)
    left_out = {words: len(group.findall(source)) for words, group in NOT_READ.items()}
    left_out[CUT_SHORT] = braces.count("{") > braces.count("}")
    page = CODE_PAGE.search(source)
    found = {
        name: _read(f"{{\\rtf1{page[0] if page else ''} {value}}}", source) for name, value in PROPERTY.findall(source)
    }
    said = {
        "title": property_text(found.get("title"), NO_TITLES),
        "author": property_text(found.get("author"), NO_AUTHORS),
    }
    return Converted(text, said, left_out_notes(left_out))


def _read(text: str, source: str) -> str:
    """Return the words of RTF. Its character set is that of its `source`."""
    from striprtf.striprtf import rtf_to_text

    named = CHARACTER_SET.search(source)
    encoding = CHARACTER_SETS[named[1]] if named else "cp1252"
    return str(rtf_to_text(CODE_PAGE.sub(_known_page, text), encoding, errors="replace"))


def _known_page(found: re.Match[str]) -> str:
    try:
        codecs.lookup(f"cp{found[1]}")
    except LookupError:
        return ""
    return found[0]


def _without_binary(source: str) -> str:
    kept, at = [], 0
    while found := BINARY.search(source, at):
        kept.append(source[at : found.start() if found[1] else found.end()])
        at = found.end() + int(found[1] or 0)
    return "".join(kept) + source[at:]


def _raised(found: re.Match[str]) -> str:
    return found[1] + "".join(f"{{\\uc1\\u{ord(sign)}?}}" for sign in raised(found[2]))


def _around(span: re.Pattern[str], begin: str, close: str, source: str) -> str:
    """Put signs before and after words of RTF in a format. They end where their own group ends, or the format does."""
    ends = [""]

    def replace(found: re.Match[str]) -> str:
        end = ""
        if found[3] == "{":
            ends.append("")
        elif found[3] == "}":
            end = ends.pop() if len(ends) > 1 else ""
        elif found[1] == "0" or found[2]:
            end, ends[-1] = ends[-1], ""
        elif found[1] is not None and not ends[-1]:
            ends[-1] = close
            return begin + found[0]
        return end + found[0]

    return span.sub(replace, source)
