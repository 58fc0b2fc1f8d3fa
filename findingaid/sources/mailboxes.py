"""Files that hold several artifacts: mailboxes (.mbox) with their mails, and mails with their attached files.

Mails are called .eml or .msg, or are in a Maildir.

The id of such a part is the path of its file, "/", and a name that its own content gives, never its position. The
stamp of a mail of a mailbox is its hash, so that one that is added or removed changes no other.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from email import message_from_bytes, policy
from email.errors import InvalidBase64CharactersDefect, InvalidBase64LengthDefect, InvalidBase64PaddingDefect
from email.message import EmailMessage
from email.parser import BytesHeaderParser
from typing import IO, NamedTuple

from findingaid.errors import ReadError
from findingaid.identity.hashes import bytes_hash
from findingaid.model import Listing
from findingaid.sources.local import too_large
from findingaid.sources.media_types import MEDIA_TYPES
from findingaid.sources.outlook import MESSAGE, OLE, outlook_mail

MAILBOX, MAIL = ".mbox", ".eml"

OF_MAILDIR = re.compile(r"(?:^|/)(?:cur|new|tmp)/\d{9,}(?:_\d+)?\.[\dA-Fa-fIMPQRVX_]+\.[^/]+$")
"""Path of a mail in a Maildir: its name has the time, a number of the process that delivered it, and the host."""

SEPARATOR = re.compile(rb"From .*\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b.*\d\d:\d\d")
"""Line that begins a mail of a mailbox, with the day and the time at which it came."""

QUOTED_SEPARATOR = re.compile(rb"^>(?=>*From )", re.MULTILINE)
"""Sign before a line of a mail that would begin another."""

MESSAGE_ID = re.compile(rb"^message-id:\s*<?([^\s<>]+)", re.IGNORECASE | re.MULTILINE)
HEADER_END = re.compile(rb"\r?\n\r?\n")

LINE_BYTES = 1_000_000
"""Most bytes that are read at once. Lines of mails have at most 1,000."""

NAME_CHARACTERS = 120
UNSAFE = re.compile(r"[^\w.@+=()\[\] -]|^[.~#]+|\.+$")
"""Parts of a name that are replaced."""

DAMAGED = (InvalidBase64CharactersDefect, InvalidBase64LengthDefect, InvalidBase64PaddingDefect)
"""Defects after which the parser gives a part of a content, or another one."""

DEEPEST = 20
"""Most levels of parts within parts of a mail."""

Span = tuple[int, int]


class Part(NamedTuple):
    """Place of a mail in its file and, for an attached file, its place `within` the mail."""

    stamp: str
    mail: Span
    within: Span | None = None

    def listing(self, artifact_id: str) -> Listing:
        """Return the listing of the part."""
        start, end = self.within or self.mail
        return Listing(artifact_id, self.stamp, end - start)


def is_mailbox(path: str) -> bool:
    """Return whether a file is a mailbox, by its name."""
    return path.lower().endswith(MAILBOX)


def is_mail(path: str) -> bool:
    """Return whether an artifact is a mail, by its path."""
    return path.lower().endswith((MAIL, MESSAGE)) or OF_MAILDIR.search(path) is not None


def file_name(path: str) -> str:
    """Return the name by which a file is read: that of a mail in a Maildir does not tell its format."""
    name = os.path.basename(path)
    return f"{name}{MAIL}" if OF_MAILDIR.search(path) else name


def is_container(path: str) -> bool:
    """Return whether a file may hold other artifacts, by its path."""
    return is_mailbox(path) or is_mail(path)


def containers_of(path: str) -> Iterator[str]:
    """Yield the paths above this one that may be files which hold it."""
    names = path.split("/")
    yield from filter(is_container, ("/".join(names[:n]) for n in range(1, len(names))))


def find_parts(path: str, file: IO[bytes], stamp: str, max_bytes: int) -> dict[str, Part] | None:
    """Map the ids of the parts of an opened file to their places; None if it is no mailbox despite its name.

    `stamp` is that of the file. Attached files of a mail of more than `max_bytes` are not listed.
    """
    found: dict[str, Part] = {}
    if not is_mailbox(path):
        stored = file.read(max_bytes + 1)
        for name, span in attached_to(path, stored, max_bytes).items():
            found[f"{path}/{name}"] = Part(stamp, (0, len(stored)), span)
        return found
    for mail, message in _mails(file, max_bytes):
        if not mail[0]:
            return None
        digest = bytes_hash(message)
        mail_id = f"{path}/{_mail_name(message)}{MAIL}"
        if mail_id in found and found[mail_id].stamp != digest:  # two mails with the same id
            mail_id = f"{mail_id.removesuffix(MAIL)}-{digest[:8]}{MAIL}"
        found[mail_id] = Part(digest, mail)
        for name, span in attached_to(mail_id, message, max_bytes).items():
            found[f"{mail_id}/{name}"] = Part(digest, mail, span)
    return found


def read_part(path: str, part: Part, file: IO[bytes], max_bytes: int) -> bytes:
    """Return the content of a part of an opened file. Raises ReadError for one of more than `max_bytes`."""
    start, end = part.mail
    if end - start > max_bytes:
        raise too_large(end - start, max_bytes)
    file.seek(start)
    content = file.read(end - start)
    if is_mailbox(path):
        content = QUOTED_SEPARATOR.sub(b"", content)
        if bytes_hash(content) != part.stamp:
            raise ReadError("changed since it was listed: the next run tries again", "changed")
    return content if part.within is None else _content(_as_sent(path, content)[slice(*part.within)])


def _as_sent(path: str, content: bytes) -> bytes:
    """Return the content of a mail as it was sent. Raises ReadError for a damaged message of Outlook."""
    is_outlook = path.lower().endswith(MESSAGE) and content.startswith(OLE)
    return outlook_mail(content)[0] if is_outlook else content


def _mails(file: IO[bytes], max_bytes: int) -> Iterator[tuple[Span, bytes]]:
    """Yield the place of each mail of a mailbox, and its content, of a longer one more than `max_bytes`.

    If the file does not begin as a mailbox, it yields the place (0, 0).
    """
    start = at = 0
    lines: list[bytes] = []
    blank, size = True, 0
    while line := file.readline(LINE_BYTES):
        if blank and SEPARATOR.match(line):
            if start:
                yield (start, at), QUOTED_SEPARATOR.sub(b"", b"".join(lines))
            start, lines, size = at + len(line), [], 0
        elif not start and line.strip():
            yield (0, 0), b""
            return
        elif size <= max_bytes:
            lines.append(line)
            size += len(line)
        blank = not line.strip()
        at += len(line)
    if start:
        yield (start, at), QUOTED_SEPARATOR.sub(b"", b"".join(lines))


def _mail_name(message: bytes) -> str:
    """Return the name of a mail: its Message-ID, or else its hash."""
    header_end = HEADER_END.search(message)
    found = MESSAGE_ID.search(message, 0, header_end.start() if header_end else len(message))
    return _safe(found[1].decode("utf-8", "replace")) if found else bytes_hash(message)


def _headers(message: bytes) -> EmailMessage:
    end = HEADER_END.search(message)
    parser: BytesHeaderParser[EmailMessage] = BytesHeaderParser(policy=policy.default)
    return parser.parsebytes(message[: end.end()] if end else message)


def attached_to(path: str, stored: bytes, max_bytes: int) -> Mapping[str, Span]:
    """Map the name of each attached file of a mail to its place, with its own header, in the mail as it was sent.

    The result is empty for a mail whose headers the parser does not understand. Raises ReadError for a damaged message
    of Outlook.
    """
    found: dict[str, Span] = {}
    if len(stored) > max_bytes:
        return found
    message = _as_sent(path, stored)
    counts: Counter[str] = Counter()
    try:
        for headers, span in _leaves(message, (0, len(message)), DEEPEST):
            if name := _attached_name(headers):
                stem, suffix = os.path.splitext(name)
                given = name
                while name in found:
                    counts[given] += 1
                    name = f"{stem}-{counts[given] + 1}{suffix}"
                found[name] = span
    except Exception:  # noqa: BLE001  # the parser may raise anything for a damaged header; the mail itself is read
        return {}
    return found


def _leaves(message: bytes, span: Span, levels: int) -> Iterator[tuple[EmailMessage, Span]]:
    """Yield the headers and the place of each part that has no parts of its own."""
    start, end = span
    header_end = HEADER_END.search(message, start, end)
    body = header_end.end() if header_end else end
    headers = _headers(message[start:body])
    boundary = headers.get_boundary() if headers.get_content_maintype() == "multipart" else None
    if not boundary or not levels:
        yield headers, span
        return
    mark = re.compile(re.escape(b"--" + boundary.encode("ascii", "replace")) + rb"(--)?[ \t]*(?:\r?\n|\Z)")
    begin = None
    for found in mark.finditer(message, body, end):
        if message[found.start() - 1 : found.start()] != b"\n":
            continue
        if begin is not None:
            yield from _leaves(message, (begin, max(begin, found.start() - 1)), levels - 1)
        if found[1]:
            return
        begin = found.end()
    if begin is not None:  # a mail that was cut short
        yield from _leaves(message, (begin, end), levels - 1)


def _attached_name(headers: EmailMessage) -> str:
    """Return the file name of an attached part; "" for a part of the mail's own text, and for a picture within it."""
    given = headers.get_filename()
    disposition = headers.get_content_disposition()
    within_text = headers.get_content_maintype() == "image" and (disposition == "inline" or headers["Content-ID"])
    if within_text or not (given or disposition == "attachment"):
        return ""
    suffixes = (f".{headers.get_content_subtype()}", *MEDIA_TYPES)
    suffix = next((suffix for suffix in suffixes if MEDIA_TYPES.get(suffix) == headers.get_content_type()), "")
    return _safe(re.split(r"[/\\]", given or "")[-1]) or f"attachment{suffix}"


def _safe(name: str) -> str:
    return UNSAFE.sub("_", " ".join(name.split()))[-NAME_CHARACTERS:]


def _content(part: bytes) -> bytes:
    """Return the content of a part of a mail without its header, decoded. Raises ReadError for damaged base64."""
    message = message_from_bytes(part, policy=policy.default)
    if message.get_content_maintype() == "message":
        header_end = HEADER_END.search(part)
        return part[header_end.end() :] if header_end else b""
    content = message.get_payload(decode=True)
    if any(isinstance(defect, DAMAGED) for defect in message.defects):
        raise ReadError("its base64 in the mail is damaged or cut short: save the mail again", "parse")
    return content if isinstance(content, bytes) else b""
