"""EPUB: its chapters in their order, without those that are missing or damaged."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from contextlib import suppress
from urllib.parse import unquote

from findingaid.errors import ReadError
from findingaid.model import Note
from findingaid.sources.converters.common import NO_TEXT, WORD, left_out_notes, to_markdown, unpacked
from findingaid.sources.converters.web import as_bytes, page_tree
from findingaid.sources.documents import Converted
from findingaid.text.decoding import decode
from findingaid.text.titles import as_title

AUTHORS = re.compile(r"\*\*Authors:\*\* (.+)")
LOCKS = ("META-INF/rights.xml", "META-INF/sinf.xml", "META-INF/license.lcpl")
DRM = "an EPUB locked by its shop (DRM): exclude it"

ENCRYPTION = "META-INF/encryption.xml"
"""Part that lists the encrypted files, which may be the fonts alone."""


def convert_epub(payload: bytes, max_bytes: int) -> Converted:
    """Convert a book. Raises ReadError for one that is locked or has no text."""
    with unpacked(payload, max_bytes) as archive:
        if any(lock in archive.namelist() for lock in LOCKS):
            raise ReadError(DRM, "encrypted")
        readable, notes, has_text = _chapters(archive)
    text, title = to_markdown("EpubConverter", readable, ".epub")
    if not has_text:
        raise ReadError(f"no text in the chapters of this EPUB, only images or nothing: {NO_TEXT}", "no_text")
    authors = AUTHORS.search(text[: text.find("\n\n")])
    own = {"title": title, "author": authors and as_title(authors.group(1)), "text_type": "text/markdown"}
    return Converted(text, own, notes)


def _chapters(archive: zipfile.ZipFile) -> tuple[bytes, list[Note], bool]:
    """Return an EPUB without damaged files, notes on the chapters that are not read, and whether any has words.

    Raises ReadError if a chapter is encrypted.
    """
    from defusedxml.ElementTree import fromstring

    files: dict[str, bytes] = {}
    for name in archive.namelist():
        with suppress(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
            files[name] = archive.read(name)
    container = fromstring(files["META-INF/container.xml"])
    place = next(each.get("full-path") for each in container.iter() if each.tag.endswith("rootfile"))
    package = fromstring(files[place])
    items = {each.get("id"): each.get("href", "") for each in package.iter() if each.tag.endswith("}item")}
    order = [each.get("idref") for each in package.iter() if each.tag.endswith("}itemref")]
    listed = fromstring(files[ENCRYPTION]).iter() if ENCRYPTION in files else ()
    encrypted = {unquote(each.get("URI", "")) for each in listed if each.tag.endswith("}CipherReference")}
    missing = images = words = 0
    for at, item in enumerate(order):
        href = posixpath.normpath(posixpath.join(posixpath.dirname(place), items.get(item, "")))
        if unquote(href) in encrypted:
            raise ReadError(DRM, "encrypted")
        found = files.get(unquote(href), files.get(href))
        if found is None or item not in items:
            missing += 1
            continue
        page = page_tree(decode(found)[0], is_xml=True)
        body = None if page is None else page.find("body")
        if body is not None and WORD.search(str(body.text_content())):
            words += 1
            files[unquote(href) if unquote(href) in files else href] = as_bytes(page)
        else:
            images += at > 0  # the first is the cover
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as into:
        for name, content in files.items():
            into.writestr(name, content)
    notes = {"chapters that are missing or damaged": missing, "chapters without text, only images": images}
    return packed.getvalue(), left_out_notes(notes), bool(words)
