"""Mails, and pages saved like one: header, text in the order of its parts, and what is attached."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC
from email import message_from_bytes, policy
from email.errors import CloseBoundaryNotFoundDefect
from email.utils import getaddresses, parsedate_to_datetime, quote
from typing import Any, NamedTuple

from findingaid.errors import ReadError
from findingaid.model import Note
from findingaid.sources.converters.calendars import convert_calendar
from findingaid.sources.converters.common import CUT_SHORT, has_words, left_out_notes, plain_text
from findingaid.sources.converters.rtf import convert_rtf
from findingaid.sources.converters.web import convert_html
from findingaid.sources.documents import ATTACHED, Converted
from findingaid.sources.mailboxes import DAMAGED
from findingaid.sources.outlook import OLE, outlook_mail
from findingaid.text.decoding import decode
from findingaid.text.titles import as_title

QUOTED_MAIL = re.compile(
    r"^(-{2,} ?(Original Message|Ursprüngliche Nachricht|Message d'origine|Mensaje original) ?-{2,}\s*$"
    r"|\**(From|Von|De):\**[ \t]\S.*\n+\**(Sent|Date|Gesendet|Datum|Envoyé|Enviado):\**[ \t])",
    re.IGNORECASE | re.MULTILINE,
)
"""Beginning of a mail that a program quotes below the answer, without ">" before its lines."""

SIGNATURE = "-- "
"""Line of a mail before the signature."""

OTHER_PARTS = "forwarded mails and other parts without a file name, not read"
BROKEN = "texts whose base64 is damaged, read in part"

FROM_PAGE = "words that only the HTML of a mail has, not read"
CALENDAR = "text/calendar"

READ: Mapping[str, Callable[[bytes, int], Converted]] = {
    "html": convert_html,
    "rtf": convert_rtf,
    **dict.fromkeys(("calendar", "vcard", "x-vcard", "directory"), convert_calendar),
}
"""Converters of the texts of a mail that are not plain, by their subtype."""

PLAIN = frozenset({"plain", "markdown", "x-markdown", "csv", "x-patch", "x-diff"})
"""Subtypes of texts that are read as they are, such as the patch in a mail of git."""

WORDS = re.compile(r"[^\W_]+")
SPECIAL = re.compile(r'[()<>@,:;".\[\]\\]')
"""Signs for which a person's name in an address is quoted."""

ADDRESS = re.compile(r"\b(?:https?|mailto|cid|tel):[^\s()<>]+")


def convert_mail(payload: bytes, max_bytes: int) -> Converted:
    """Convert a saved mail, or a page saved with its images, which is stored like one."""
    message = message_from_bytes(payload.removeprefix(codecs.BOM_UTF8), policy=policy.default)
    if not message.keys():
        raise ReadError("no mail despite its name: it has no header", "parse")
    notes: list[Note] = []
    left_out: Counter[str] = Counter()
    said = {name: _header(message, name) for name in ("From", "To", "Cc", "Date", "Subject")}
    title = {"title": as_title(said["Subject"])}
    if not (said["From"] or said["To"]) or message["Snapshot-Content-Location"]:
        bodies = filter(None, (message.get_body((kind,)) for kind in ("plain", "html")))
        text = _fullest([_form(body, max_bytes) for body in bodies], notes, left_out)
        attached = [part for part in message.iter_attachments() if part.get_content_maintype() != "image"]
        left_out[ATTACHED] += len(attached)
        return Converted(text, title, [*notes, *left_out_notes(left_out)])
    text = "\n\n".join(filter(None, _texts_of(message, max_bytes, notes, left_out)))
    defects = [(part.get_content_maintype(), defect) for part in message.walk() for defect in part.defects]
    left_out[CUT_SHORT] += any(isinstance(defect, CloseBoundaryNotFoundDefect) for _, defect in defects)
    left_out[BROKEN] += any(kind == "text" and isinstance(defect, DAMAGED) for kind, defect in defects)
    notes += left_out_notes(left_out)
    if has_words(f"{said['Subject']}{text}"):
        heads = "\n".join(f"{name}: {value}" for name, value in said.items() if value)
        text = "\n\n".join(filter(None, [heads, _mark_quoted(text)]))
    return Converted(text, title | {"author": as_title(said["From"])} | _mail_fields(said), notes)


def convert_outlook(payload: bytes, max_bytes: int) -> Converted:
    """Convert a mail that Outlook saved, or a text that another program wrote under its suffix."""
    if not payload.startswith(OLE):
        text, _, notes = plain_text(payload)
        return Converted(text, {"media_type": "text/plain"}, notes)
    mail, left_out = outlook_mail(payload)
    text, metadata, notes = convert_mail(mail, len(mail) + max_bytes)
    return Converted(text, metadata, [*notes, *left_out_notes(left_out)])


def _texts_of(part: Any, max_bytes: int, notes: list[Note], left_out: Counter[str]) -> Iterator[str]:
    """Yield the texts of a mail in order, also those behind an attached file; count the parts that are not read."""
    kind, subtype = part.get_content_maintype(), part.get_content_subtype()
    if kind == "multipart" and part.is_multipart():
        inner = [*part.iter_parts()]
        if subtype == "alternative":
            inner.sort(key=lambda each: each.get_content_type() != "text/plain")
            forms = [_form(each, max_bytes) for each in inner if each.get_content_type() != CALENDAR]
            read = [form for form in forms if form.text] or forms[:1]
            left_out[OTHER_PARTS] += sum(form.left_out[OTHER_PARTS] for form in read)
            yield _fullest(forms, notes, left_out)
            within = (leaf for each in inner for leaf in each.walk())
            attached = [leaf for leaf in within if leaf.get_filename() or leaf.is_attachment()]
            inner = [
                *(each for each in inner if each.get_content_type() == CALENDAR and each not in attached),
                *attached,
            ]
        for each in inner:
            yield from _texts_of(each, max_bytes, notes, left_out)
    elif part.get_filename() or part.is_attachment():
        left_out[ATTACHED] += kind != "image"
    elif kind == "text" and (subtype in PLAIN or subtype in READ):
        yield _text_of(part, max_bytes, notes)
    elif kind != "image" and not subtype.endswith("signature"):
        left_out[OTHER_PARTS] += 1


class _Form(NamedTuple):
    """One of several forms of the same text."""

    text: str
    notes: list[Note]
    left_out: Counter[str]


def _form(part: Any, max_bytes: int) -> _Form:
    notes: list[Note] = []
    left_out: Counter[str] = Counter()
    return _Form("\n\n".join(filter(None, _texts_of(part, max_bytes, notes, left_out))), notes, left_out)


def _fullest(forms: Sequence[_Form], notes: list[Note], left_out: Counter[str]) -> str:
    """Return the form of a text that lacks the fewest words of the others; count those of the last that it lacks.

    Programs show the last form. The plain one may lack its tables, or say only that the other one cannot be shown.
    """
    forms = [form for form in forms if form.text.strip()]
    if not forms:
        return ""
    said = [{*WORDS.findall(ADDRESS.sub("", form.text))} for form in forms]
    found = min(forms, key=lambda form: len(set().union(*said).difference(WORDS.findall(form.text))))
    left_out[FROM_PAGE] += len(said[-1].difference(WORDS.findall(found.text)))
    notes += found.notes
    return found.text


def _header(message: Any, name: str) -> str:
    """Return a header on one line. One that the parser does not understand is returned as it is written."""
    try:
        value = message[name]
    except Exception:  # noqa: BLE001  # the parser may raise anything for a damaged header
        value = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
    return " ".join(str(value or "").split())


def _mail_fields(said: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a mail by which it can be filtered; the date as on the sender's clock."""
    date = ""
    with suppress(ValueError, TypeError, OverflowError):
        sent = parsedate_to_datetime(said["Date"])
        sent = sent if sent.tzinfo else sent.replace(tzinfo=UTC)
        sent.astimezone(UTC)  # raises for a time that a filter cannot compare
        date = sent.isoformat()
    to = [_person(*each) for each in getaddresses([said["To"]]) if any(each)]
    return {"subject": said["Subject"], "from": said["From"], "to": to, "date": date}


def _person(name: str, address: str) -> str:
    """Return a person's name and address; `email.utils.formataddr` would encode the name, and takes no such address."""
    shown = f'"{quote(name)}"' if SPECIAL.search(name) else name
    return f"{shown} <{address}>".strip() if name else address


def _mark_quoted(text: str) -> str:
    """Mark the lines of a mail that is quoted below the answer to it, as programs do that write ">" themselves."""
    found = QUOTED_MAIL.search(text)
    if found is None:
        return text
    quoted = "\n".join(
        line if line.startswith(">") else f"> {line}".rstrip() for line in text[found.start() :].split("\n")
    )
    return text[: found.start()] + quoted


def _text_of(body: Any, max_bytes: int, notes: list[Note]) -> str:
    content = body.get_payload(decode=True) or b""
    charset = body.get_content_charset()
    if charset:
        with suppress(LookupError, UnicodeError):
            name = codecs.lookup(charset).name
            content = content.decode("cp1252" if name == "iso8859-1" else name).encode()  # as in HTML
    convert = READ.get(body.get_content_subtype())
    if convert:
        text, _, also = convert(content, max_bytes)
    else:
        text, _, also = decode(content)
        if str(body.get_param("format", "")).lower() == "flowed":
            text = _unwrapped(text, str(body.get_param("delsp", "")).lower() == "yes")
    notes += also
    return str(text)


def _unwrapped(text: str, delete_space: bool) -> str:
    """Join the lines of each paragraph of a text that is `format=flowed` (RFC 3676), where a space ends a wrapped line.

    With `delete_space` that space is not part of the text, and a word may go on in the next line.
    """
    lines: list[str] = []
    wrapped: str | None = None
    for line in text.splitlines():
        own = line.lstrip(">")
        quote = line[: len(line) - len(own)]
        own = own.removeprefix(" ")
        signature = own == SIGNATURE
        if wrapped == quote and own and not signature:
            lines[-1] += own
        else:
            lines.append(f"{quote} {own}" if quote and own else f"{quote}{own}")
        wrapped = quote if own.endswith(" ") and not signature else None
        if wrapped is not None and delete_space:
            lines[-1] = lines[-1][:-1]
    return "\n".join(lines)
