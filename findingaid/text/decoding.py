"""Decoding of texts: a byte order mark decides, then UTF-8, then a declared encoding, then a guess that is noted."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple
from unicodedata import category

from findingaid.errors import ReadError
from findingaid.model import Note

BINARY = "binary"
NOT_TEXT = "not text"
"""Failure kind of a file that is not text, and the reason for which it is skipped."""

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks and their encodings. That of UTF-32 begins like that of UTF-16."""

CONTROLS = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
"""Control bytes that are in no text, of any encoding that keeps ASCII."""

CONTROL_CHARACTERS = re.compile("[\x00-\x06\x0e-\x1a\x1c-\x1f]")

REPLACED = "\ufffd"

UNLIKELY_SHARE = 0.02
"""Highest share of damaged and unassigned characters in a text with a mark: any bytes can begin like one."""

NON_ASCII = re.compile("[^\x00-\x7f\u07c0-\u07ff\ufffd]")
"""Characters that show that a text is UTF-8.

The script NKo is left out: in Windows-1252, ß before a closing quote has the bytes of its letters.
"""

CUT_CHARACTER = re.compile(rb"(?:[\xe1-\xef][\x80-\xbf]|[\xf1-\xf3][\x80-\xbf]{1,2})\Z")
"""Beginning of a character of UTF-8 at the end of a text."""

RICH_TEXT = b"{\\rtf"
"""Beginning of a file in Rich Text Format, in which commands stand between the words and within them."""

HEAD_BYTES = 1024
DECLARED = (
    re.compile(rb"""\A\s*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)"""),
    re.compile(rb"\A(?:[^\n]*\n)?[ \t]*(?:#|//|--|;|%|/\*|<!--|\"|\.\.)[^\n]*?coding[:=][ \t]*([\w.-]+)"),
    re.compile(rb"""<meta\s[^>]*?charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE),
    re.compile(rb"""\A@charset\s+["']([\w.:-]+)["']"""),
)
"""Declarations of XML, of source code in its first two lines, of HTML and of CSS."""

STATEFUL = re.compile(r"iso2022|hz|utf_?7")
"""Names of encodings that have only ASCII bytes, so that their texts look like UTF-8."""

NO_ENCODINGS = frozenset({"idna", "mbcs", "oem", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"})
"""Codecs of Python that are no encoding of a file."""

EBCDIC = ["cp037", "cp1026", "cp1140", "cp273", "cp424", "cp500", "cp875"]
"""Encodings of mainframes, which fit any short text and are in no file that people write."""

WIDE = ["utf_16", "utf_16_be", "utf_16_le", "utf_32", "utf_32_be", "utf_32_le"]
"""Encodings in which line ends and blanks have zero bytes, so that no text without these is in one."""

WESTERN_SIGNS = frozenset("\xa0€…‘’“”•–—™¡£§©«®°±·»¿×„‚†‡‰‹›¦¬µ¶½")  # noqa: RUF001  # these signs are meant
OF_NUMBERS = re.compile(r"(?<=[\d\s])[¼¾](?!\w)|(?<=m)[²³](?!\w)|(?<=\d)[ªº²³](?!\w)")
"""Fractions, powers and ordinals. Elsewhere these bytes are letters of other languages: ¾ is the ľ of Slovak."""

ACCENTED_SHARE = 0.3
ACCENTED_SHARE_OF_WORD = 0.7
"""Highest share of letters with accents in a text, and in those of its words that have any."""

FEW_ACCENTED = 2
WORD = re.compile("[A-Za-z\x80-\uffff]{2,}")
"""Word of two or more characters. One alone, such as à, does not show that its text is Western or not."""

SAMPLE_CHARACTERS = 100_000


class Decoded(NamedTuple):
    """A text, the encoding of its bytes, and a note if that was guessed, or if some bytes are damaged."""

    text: str
    encoding: str
    notes: tuple[Note, ...] = ()


def decode(payload: bytes, said: str = "") -> Decoded:
    """Decode a text. Line ends are kept. Raises ReadError for a payload that is not text.

    `said` is the encoding that its server names, which counts more than one that the text declares.
    """
    for mark, encoding in MARKS:
        if payload.startswith(mark):
            return _decode_marked(payload[len(mark) :], encoding)
    if is_binary(payload):
        raise _not_text()
    declared = _declared(payload, said)
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return _decode_other(payload, declared)
    if declared and payload.isascii() and STATEFUL.match(declared):
        return _decode_as(payload, declared) or Decoded(text, "utf-8")
    return Decoded(text, "utf-8")


def has_mark(payload: bytes) -> bool:
    """Return whether a payload begins with the byte order mark of an encoding in which texts hold zero bytes."""
    return any(payload.startswith(mark) for mark, encoding in MARKS if encoding != "utf-8")


def is_binary(head: bytes) -> bool:
    """Return whether the beginning of a file shows that it is not text."""
    return (b"\x00" in head and not has_mark(head)) or head.startswith(RICH_TEXT)


def _decode_marked(body: bytes, encoding: str) -> Decoded:
    decoded = _replacing(body, encoding)
    sample = decoded.text[:SAMPLE_CHARACTERS]
    unlikely = sum(c == REPLACED or category(c) in {"Cn", "Co"} for c in sample)
    if "\x00" in decoded.text or unlikely > max(1, UNLIKELY_SHARE * len(sample)):
        raise _not_text()
    if unlikely and CONTROL_CHARACTERS.search(sample):
        raise _not_text()
    return decoded._replace(encoding=encoding.removesuffix("-le").removesuffix("-be"))


def _decode_other(payload: bytes, declared: str) -> Decoded:
    """Decode a text that is not valid UTF-8."""
    if declared and declared != "utf-8" and (found := _decode_as(payload, declared)):
        return found
    damaged = _replacing(payload, "utf-8")
    count = sum(note.count for note in damaged.notes)
    controls = CONTROLS.search(payload)
    valid = len(NON_ASCII.findall(damaged.text))
    if not controls and (declared == "utf-8" or count <= valid or (count == 1 and CUT_CHARACTER.search(payload))):
        return damaged
    if (western := _as_western(payload)) is not None:
        return Decoded(western, "cp1252", (_guessed("cp1252"),))
    if not controls and count == 1:
        return damaged
    from charset_normalizer import from_bytes  # imported here, since few files need it

    for sample in dict.fromkeys((payload if controls else _telling_lines(payload), payload)):
        best = from_bytes(sample, cp_exclusion=[*EBCDIC, *WIDE]).best()
        if best and (found := _decode_as(payload, best.encoding)):
            return found._replace(notes=(_guessed(found.encoding),))
    if controls:
        raise _not_text()
    raise ReadError("no known text encoding fits: save it as UTF-8 or exclude it", "encoding")


def _telling_lines(payload: bytes) -> bytes:
    """Return the lines that are not all ASCII: many others would make any encoding fit."""
    return b"".join(line for line in payload.splitlines(keepends=True) if not line.isascii())


def _not_text() -> ReadError:
    return ReadError(f"binary, {NOT_TEXT}: exclude it", BINARY)


def _guessed(encoding: str) -> Note:
    return Note("guessed_encoding", f"encoding: {encoding} (guessed)")


def _replacing(payload: bytes, encoding: str) -> Decoded:
    """Decode with a replacement character for each damaged place, and note how many there are."""
    text = payload.decode(encoding, "replace")
    damaged = text.count(REPLACED) - _written(payload, encoding)
    note = Note("damaged_bytes", f"damaged {encoding.upper()}, shown as {REPLACED}", damaged)
    return Decoded(text, encoding, (note,) if damaged > 0 else ())


def _written(payload: bytes, encoding: str) -> int:
    """Return how many replacement characters a text holds itself."""
    return payload.decode(encoding, "ignore").count(REPLACED)


def _declared(payload: bytes, said: str) -> str:
    """Return the name of the codec that is said, or declared in the head of a text; "" if none that is known is."""
    for name in (said, *_declarations(payload[:HEAD_BYTES])):
        with suppress(LookupError, ValueError):
            found = codecs.lookup(name)
            if found._is_text_encoding and found.name.replace("-", "_") not in NO_ENCODINGS:
                return found.name
    return ""


def _declarations(head: bytes) -> Iterator[str]:
    for pattern in DECLARED:
        if found := pattern.search(head):
            yield found[1].decode()


def _decode_as(payload: bytes, encoding: str) -> Decoded | None:
    """Decode by a declaration, or return None if the text is not in that encoding.

    Latin-1 and ASCII mean Windows-1252, as in HTML: it has letters and quotes where these have controls or nothing.
    """
    tried = ("cp1252", encoding) if encoding in {"iso8859-1", "ascii"} else (encoding,)
    for each in tried:
        with suppress(UnicodeError):
            text = payload.decode(each)
            return None if "\x00" in text else Decoded(text, each.replace("_", "-"))
    return None


def _as_western(payload: bytes) -> str | None:
    """Return the text decoded as Windows-1252 if that looks plausible: mostly ASCII, the rest letters and quotes.

    Otherwise None.

    The general detection guesses from letter statistics, and takes a short German text for a Baltic one.
    """
    try:
        text = payload.decode("cp1252")
    except UnicodeDecodeError:
        return None
    sample = text[:SAMPLE_CHARACTERS]
    plausible = all(c < "\x80" or c.isalpha() or c in WESTERN_SIGNS for c in OF_NUMBERS.sub("", sample))
    words = "".join(word for word in WORD.findall(sample) if not word.isascii())
    few = _few_accented(sample, ACCENTED_SHARE) and _few_accented(words, ACCENTED_SHARE_OF_WORD)
    return text if plausible and few else None


def _few_accented(text: str, share: float) -> bool:
    letters = [c for c in text if c.isalpha()]
    return sum(c > "\x7f" for c in letters) <= max(FEW_ACCENTED, share * len(letters))
