"""Messages that Outlook saves (.msg): the mail that one was sent as, with its attached files.

Such a file is an OLE file of properties, as [MS-OXMSG] describes. Made into a mail as all other programs store it, its
text and its attached files are found by the same code.
"""

from __future__ import annotations

import codecs
import io
import mimetypes
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email import policy
from email.message import EmailMessage
from email.parser import HeaderParser
from email.utils import format_datetime, parsedate_to_datetime, quote
from typing import NamedTuple

from findingaid.errors import ReadError
from findingaid.identity.hashes import bytes_hash
from findingaid.text.decoding import decode

MESSAGE = ".msg"

OLE = b"\xd0\xcf\x11\xe0"
"""First bytes of an OLE file: of messages, Office files from before 2007, and today's with a password.

Files of other programs with the suffix of messages, such as those of ROS, are text.
"""

PROPERTIES = "__properties_version1.0"
HEADER, INNER_HEADER, PART_HEADER = 32, 24, 8
"""Bytes before the properties of fixed size of a message, of one within it, and of a recipient or attached file."""

UNICODE, CODE_PAGE, BINARY = "001F", "001E", "0102"
"""Types of properties with a stream of their own."""

CLASS, SUBJECT, BODY, HTML, RTF, HEADERS = 0x001A, 0x0037, 0x1000, 0x1013, 0x1009, 0x007D
SENDER = (0x0C1A, 0x5D01, 0x0C1F)
BEHALF = (0x0042, 0x5D02, 0x0065)
RECIPIENT = (0x3001, 0x39FE, 0x3003)
"""Name of a person, and addresses, of which that of an Exchange server has no "@"."""

RECIPIENT_TYPE, RECIPIENT_TYPES = 0x0C15, {1: "To", 2: "Cc"}
SHOWN = {"To": 0x0E04, "Cc": 0x0E03}
DATES = (0x0039, 0x0E06)
"""Times at which a message was sent, and delivered."""

CODE_PAGES = (0x3FDE, 0x3FFD)
"""Code page of the text of a mail, and of its other properties."""

FILE_NAMES = (0x3707, 0x3704, 0x3001)
FILE_TYPE, FILE_ID, FILE = 0x370E, 0x3712, 0x3701
OBJECT = f"__substg1.0_{FILE:04X}000D"
"""Storage of an attached message, or of an object of another program."""

WITH_UNICODE = policy.default.clone(utf8=True)
"""Form of a mail whose addresses may have any letters."""

EPOCH = datetime(1601, 1, 1, tzinfo=UTC)

NOT_STORED = "attached links, notes and objects of other programs, not read"
OTHER_FIELDS = "fields of appointments, contacts and tasks of Outlook, not read"

DEEPEST = 20
"""Most levels of messages within messages."""

Path = tuple[str, ...]


def outlook_mail(payload: bytes) -> tuple[bytes, Counter[str]]:
    """Return the mail of a message of Outlook, and the counts of what it lacks, by the words that name it.

    The result is the same for the same message. Raises ReadError for a damaged one.
    """
    left_out: Counter[str] = Counter()
    try:
        mail = _Storage(_streams(payload), (), HEADER).mail(left_out, DEEPEST)
        digest = bytes_hash(payload)
        for n, part in enumerate(mail.walk()):
            if part.get_content_maintype() == "multipart":
                part.set_boundary(f"=_{digest}_{n}")
        return mail.as_bytes(), left_out
    except MemoryError:
        raise
    except Exception as error:  # its parser may raise anything
        said = " ".join(str(error).split())[:200]
        raise ReadError(f"damaged, or not a valid Outlook message ({said}): repair or exclude it", "parse") from error


def _streams(payload: bytes) -> Mapping[Path, bytes]:
    """Return the streams of an OLE file by their paths. Raises ValueError for a file that is damaged."""
    from olefile import OleFileIO

    with OleFileIO(io.BytesIO(payload)) as file:
        paths = [tuple(path) for path in file.listdir()]
        if sum(file.get_size("/".join(path)) for path in paths) > len(payload):
            raise ValueError("its parts overlap")
        return {path: file.openstream("/".join(path)).read() for path in paths}


class _Storage(NamedTuple):
    """A message, recipient or attached file: its streams, the path of its storage, and the length of its header."""

    streams: Mapping[Path, bytes]
    path: Path
    header: int
    code_page: str = ""

    def mail(self, left_out: Counter[str], levels: int) -> EmailMessage:
        """Return the mail of a message; count what is left out."""
        here = self._replace(code_page=self._code_page(CODE_PAGES[1]) or self.code_page)
        mail = EmailMessage(WITH_UNICODE)
        for name, value in here._heads().items():
            if value:
                mail[name] = " ".join(value.split())
        left_out[OTHER_FIELDS] += not (here.text(CLASS) or "IPM.Note").upper().startswith(("IPM.NOTE", "REPORT."))
        bodies = [*here._bodies()]
        if bodies:
            mail.set_content(*bodies[0][:3], cte="base64", params=bodies[0][3])
        for content, kind, subtype, params in bodies[1:]:
            mail.add_alternative(content, kind, subtype, cte="base64", params=params)
        for part in here._below("__attach_version1.0_#", PART_HEADER):
            part._attach_to(mail, left_out, levels)
        return mail

    def text(self, *properties: int) -> str:
        """Return the text of the first of the properties that has one; "" if none has."""
        for number in properties:
            if value := self._stream(number, UNICODE):
                return value.decode("utf-16-le", "replace").replace("\0", "")
            if value := self._stream(number, CODE_PAGE):
                return value.decode(self.code_page, "replace") if self.code_page else decode(value)[0]
        return ""

    def _stream(self, number: int, kind: str) -> bytes:
        return self.streams.get((*self.path, f"__substg1.0_{number:04X}{kind}"), b"")

    def _fixed(self, number: int) -> bytes:
        """Return the eight bytes of a property of fixed size; b"" if there is none."""
        stored = self.streams.get((*self.path, PROPERTIES), b"")
        for at in range(self.header, len(stored) - 15, 16):
            if struct.unpack_from("<H", stored, at + 2)[0] == number:
                return stored[at + 8 : at + 16]
        return b""

    def _number(self, number: int) -> int:
        return int.from_bytes(self._fixed(number)[:4], "little")

    def _code_page(self, number: int) -> str:
        page = self._number(number)
        with suppress(LookupError):
            return codecs.lookup(f"iso8859-{page - 28590}" if 28590 < page < 28610 else f"cp{page}").name
        return ""

    def _below(self, name: str, header: int) -> Iterator[_Storage]:
        depth = len(self.path)
        found = {path[: depth + 1] for path in self.streams if len(path) > depth + 1 and path[:depth] == self.path}
        for path in sorted(found):
            if path[-1].startswith(name):
                yield _Storage(self.streams, path, header, self.code_page)

    def _heads(self) -> Mapping[str, str]:
        """Return the heads of a mail: the properties of the message, or those with which it came."""
        came = HeaderParser().parsestr(self.text(HEADERS))
        people = [*self._below("__recip_version1.0_#", PART_HEADER)]
        found = {
            name: ", ".join(each._person(RECIPIENT) for each in people if each._number(RECIPIENT_TYPE) == kind)
            or self.text(SHOWN[name]).replace(";", ",")
            for kind, name in RECIPIENT_TYPES.items()
        }
        dates = [int.from_bytes(self._fixed(number), "little") for number in DATES]
        said, date = str(came["Date"] or ""), ""
        with suppress(ValueError):
            parsedate_to_datetime(said)
            date = said  # as on the sender's clock, while a property has no zone
        with suppress(StopIteration, OverflowError):
            date = date or format_datetime(EPOCH + timedelta(microseconds=next(filter(None, dates)) // 10))
        return {
            "From": self._person(SENDER) or self._person(BEHALF) or str(came["From"] or ""),
            **found,
            "Date": date or said,
            "Subject": self.text(SUBJECT),
        }

    def _person(self, properties: tuple[int, ...]) -> str:
        name, *addresses = (self.text(number) for number in properties)
        address = next((each for each in addresses if "@" in each), "")
        said = f'"{quote(name)}"' if name and name != address else ""
        return f"{said} <{address}>".strip() if address else said

    def _bodies(self) -> Iterator[tuple[bytes, str, str, dict[str, str]]]:
        """Yield the forms of the text: content, main type, subtype and parameters. RTF is only read for want of others.

        Outlook makes it of the HTML.
        """
        page = self._code_page(CODE_PAGES[0]) or self.code_page
        said = {"charset": page} if page else {}
        found = False
        for number, subtype in ((BODY, "plain"), (HTML, "html")):
            if content := self._stream(number, CODE_PAGE) or self._stream(number, BINARY):
                yield content, "text", subtype, said
            elif text := self.text(number):
                yield text.encode(), "text", subtype, {"charset": "utf-8"}
            else:
                continue
            found = True
        if not found and (stored := self._stream(RTF, BINARY)):
            from compressed_rtf import decompress

            yield decompress(stored), "text", "rtf", {}

    def _attach_to(self, mail: EmailMessage, left_out: Counter[str], levels: int) -> None:
        inner = _Storage(self.streams, (*self.path, OBJECT), INNER_HEADER, self.code_page)
        name = self.text(*FILE_NAMES)
        if (*inner.path, PROPERTIES) in self.streams and levels:
            attached = inner.mail(left_out, levels - 1)
            mail.add_attachment(
                attached, filename=f"{(name or inner.text(SUBJECT) or 'mail').removesuffix('.eml')}.eml"
            )
        elif (*self.path, f"__substg1.0_{FILE:04X}{BINARY}") in self.streams:
            said = self.text(FILE_TYPE) or mimetypes.guess_type(name)[0] or ""
            kind, _, subtype = said.partition("/")
            if kind in {"", "message", "multipart"} or not subtype:
                kind, subtype = "application", "octet-stream"
            identifier = self.text(FILE_ID)
            cid = f"<{identifier}>" if identifier else None
            mail.add_attachment(self._stream(FILE, BINARY), kind, subtype, filename=name or None, cid=cid)
        else:
            left_out[NOT_STORED] += 1
