"""Converter process that turns documents into text; findingaid.sources.documents starts and watches it.

It reads a line of JSON, [suffix, bytes, max_bytes, seconds], then the document. It answers with a line of JSON.

It limits its own memory and processor time. It ends with the process that started it, also in the middle of a document.
"""

from __future__ import annotations

import gc
import io
import json
import math
import os
import re
import signal
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from queue import SimpleQueue
from typing import Any, BinaryIO, NoReturn

import orjson

from findingaid.errors import ReadError
from findingaid.sources.documents import FORMATS
from findingaid.sources.files import decode
from findingaid.text.titles import as_title

PAGE_BREAK = "\n\n\f\n\n"
"""Separator between pages: a form feed, set off by blank lines so that strategies see the end of a paragraph."""

MOST_MEMORY = 4_000_000_000
"""Memory limit of the process, on systems that support one. Half of the machine's memory is the limit if it is less."""


def _memory_limit() -> int:
    try:
        return min(MOST_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    except (AttributeError, OSError, ValueError):  # the system does not tell
        return MOST_MEMORY


MEMORY_BYTES = _memory_limit()

NO_MEMORY = orjson.dumps(
    {"error": f"converting it takes more than {MEMORY_BYTES / 1e9:.1f} GB of memory: exclude it", "kind": "too_large"}
)

UNPACKED_SHARE = 10
"""Multiple of `max_bytes` that a zipped document may unpack to: XML takes several bytes per character of text."""

END_BYTES = 1024
"""Maximum distance, as in Acrobat, of a PDF's start mark from the file's start, and of its end mark from the end."""

NO_TITLES = frozenset({"untitled", "(unspecified)", "powerpoint presentation", "word document"})
"""Placeholder titles that programs write when nobody gave a title."""

NO_AUTHORS = frozenset({"anonymous", "(anonymous)", "(unspecified)", "python-docx"})

TITLE_STYLE = "p[style-name='Title'] => h1:fresh"
"""Style map that makes Word's Title style a heading; by default it is not one."""

HYPHEN = re.compile("\ufffe(.?)", re.DOTALL)
"""PDFium's sign for a hyphen at the end of a line, and the first character of the next line."""

ASIDE = "//nav | //a[contains(@class, 'headerlink')]"
"""Parts of a page that are not content: lists of links, and the permalinks that Sphinx and MkDocs write."""

SLIDE = re.compile(r"<!-- Slide number: \d+ -->")
EPUB_AUTHORS = re.compile(r"\*\*Authors:\*\* (.+)")
EPUB_LOCKS = ("META-INF/rights.xml", "META-INF/sinf.xml", "META-INF/license.lcpl")
OLE = b"\xd0\xcf\x11\xe0"
"""First bytes of Office files from before 2007, and of today's files with a password."""

Converted = tuple[str, dict[str, Any]]


def convert(suffix: str, payload: bytes, max_bytes: int) -> Converted:
    """Return a document's text and metadata. Raises ReadError for any defect of the document, and MemoryError."""
    name, _, is_text = FORMATS[suffix]
    if not payload and not is_text:
        raise ReadError(f"an empty file, not a valid {name}: exclude it", "parse")
    try:
        text, metadata = CONVERTERS[suffix](payload, max_bytes)
    except (ReadError, MemoryError):
        raise
    except Exception as error:  # a converter may raise anything; it fails this document alone
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ReadError(f"damaged, or not a valid {name} ({said}): repair or exclude it", "parse") from error
    text = text.replace("\0", "").encode("utf-8", "replace").decode()  # lone surrogates are not valid Unicode text
    if len(text.encode()) > max_bytes:
        raise ReadError(
            f"its text has {len(text.encode()):,} bytes, more than source.max_bytes = {max_bytes:,}:"
            " exclude it or raise the limit",
            "too_large",
        )
    return text, {key: value for key, value in metadata.items() if value}


def _pdf(payload: bytes, max_bytes: int) -> Converted:
    import pypdfium2

    if b"%PDF-" not in payload[:END_BYTES]:
        raise ReadError("not a PDF despite its name: exclude it", "parse")
    if b"%%EOF" not in payload.rstrip(b"\0\t\r\n ")[-END_BYTES:]:
        raise ReadError("a PDF that was cut short, without an end (%%EOF): get it again or exclude it", "parse")
    try:
        document = pypdfium2.PdfDocument(payload)
    except pypdfium2.PdfiumError as error:
        if error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD:
            raise ReadError("a PDF with a password: save it without, or exclude it", "encrypted") from None
        raise
    with closing(document):
        pages = list(_pages(document))
        said = document.get_metadata_dict()
    if not any(pages):
        raise ReadError(
            f"no text on its pages ({len(pages)}), only images or nothing: run OCR on it, or exclude it",
            "no_text",
        )
    return PAGE_BREAK.join(pages), {
        "title": _said(said.get("Title"), NO_TITLES),
        "author": _said(said.get("Author"), NO_AUTHORS),
        "n_pages": len(pages),
    }


def _pages(document: Any) -> Iterator[str]:
    for i in range(len(document)):
        with closing(document[i]) as page, closing(page.get_textpage()) as textpage:
            yield _page(textpage.get_text_range())


def _page(text: str) -> str:
    """Return a page's text with uniform line ends, words hyphenated across lines joined, and form feeds replaced."""
    text = HYPHEN.sub(lambda found: found[1] if found[1].islower() else f"-{found[1]}", text)
    return re.sub(r"\r\n?|\v|\f", "\n", text).strip()


def _docx(payload: bytes, max_bytes: int) -> Converted:
    with _unpacked(payload, max_bytes) as archive:
        said = _core_properties(archive)
    return _markdown("DocxConverter", payload, ".docx", style_map=TITLE_STYLE)[0], said


def _pptx(payload: bytes, max_bytes: int) -> Converted:
    with _unpacked(payload, max_bytes) as archive:
        said = _core_properties(archive)
    slides = [slide.strip() for slide in SLIDE.split(_markdown("PptxConverter", payload, ".pptx")[0])[1:]]
    return PAGE_BREAK.join(map(_page, slides)), said | {"n_pages": len(slides)}


def _epub(payload: bytes, max_bytes: int) -> Converted:
    with _unpacked(payload, max_bytes) as archive:
        if any(lock in archive.namelist() for lock in EPUB_LOCKS):
            raise ReadError("an EPUB locked by its shop (DRM): exclude it", "encrypted")
    text, title = _markdown("EpubConverter", payload, ".epub")
    authors = EPUB_AUTHORS.search(text[: text.find("\n\n")])
    return text, {"title": title, "author": authors and as_title(authors.group(1)), "text_type": "text/markdown"}


def _html(payload: bytes, max_bytes: int) -> Converted:
    from lxml import etree, html

    parser = html.HTMLParser(encoding="utf-8", huge_tree=True)
    try:
        root = html.document_fromstring(_html_text(payload).encode(), parser=parser)
    except etree.ParserError:  # lxml raises this for a page without any element
        return "", {}
    for element in root.xpath(ASIDE):
        element.drop_tree()
    # The parser has closed the tags that HTML lets stay open (p, li, td). markitdown would nest them, too deep for a
    # long page.
    text, title = _markdown("HtmlConverter", html.tostring(root, encoding="utf-8"), ".html")
    return text, {"title": title, "text_type": "text/markdown"}


def _html_text(payload: bytes) -> str:
    """Decode a page from UTF-8, or else from the encoding that it declares, or else from a guessed one."""
    from bs4.dammit import EncodingDetector

    text, encoding = decode(payload)
    declared = EncodingDetector.find_declared_encoding(payload, is_html=True)
    if declared and encoding != "utf-8":
        with suppress(LookupError, UnicodeDecodeError):
            return payload.decode(declared)
    return text


def _ipynb(payload: bytes, max_bytes: int) -> Converted:
    notebook = json.loads(payload)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ReadError("not a Jupyter notebook of format 4 or later: it has no list of cells", "parse")
    text, title = _markdown("IpynbConverter", payload, ".ipynb")
    return text, {"title": title, "text_type": "text/markdown"}


CONVERTERS: Mapping[str, Callable[[bytes, int], Converted]] = {
    ".pdf": _pdf,
    ".docx": _docx,
    ".pptx": _pptx,
    ".epub": _epub,
    ".html": _html,
    ".htm": _html,
    ".xhtml": _html,
    ".ipynb": _ipynb,
}


def _markdown(converter: str, payload: bytes, suffix: str, **options: Any) -> tuple[str, str]:
    """Convert a document with one of markitdown's converters; return the text and the title that it found."""
    import markitdown

    convert = getattr(markitdown.converters, converter)().convert
    result = convert(io.BytesIO(payload), markitdown.StreamInfo(extension=suffix), **options)
    return result.markdown, as_title(str(result.title or ""))


def _unpacked(payload: bytes, max_bytes: int) -> zipfile.ZipFile:
    """Open a zipped document. Raises ReadError if it is encrypted or would unpack to too much.

    zipfile reads no more of a file than the size that the archive declares, so the check is reliable.
    """
    if payload.startswith(OLE) and "EncryptedPackage".encode("utf-16-le") in payload:
        raise ReadError("with a password: save it without, or exclude it", "encrypted")
    archive = zipfile.ZipFile(io.BytesIO(payload))
    size = sum(file.file_size for file in archive.infolist())
    if size > UNPACKED_SHARE * max_bytes:
        raise ReadError(
            f"unpacks to {size:,} bytes, more than {UNPACKED_SHARE} times source.max_bytes = {max_bytes:,}:"
            " exclude it or raise the limit",
            "too_large",
        )
    return archive


def _core_properties(archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the title and author of an Office document. Its text type is Markdown."""
    from defusedxml.ElementTree import fromstring

    found: dict[str, str] = {}
    if "docProps/core.xml" in archive.namelist():
        root = fromstring(archive.read("docProps/core.xml"))
        found = {child.tag.rpartition("}")[2]: child.text or "" for child in root}
    return {
        "title": _said(found.get("title"), NO_TITLES),
        "author": _said(found.get("creator"), NO_AUTHORS),
        "text_type": "text/markdown",
    }


def _said(value: str | None, nothing: frozenset[str]) -> str:
    value = as_title((value or "").replace("\0", ""))
    return "" if value.lower() in nothing else value


def answer(suffix: str, payload: bytes, max_bytes: int) -> bytes:
    """Return the answer for one document: its text and metadata, or an error and its kind."""
    try:
        text, metadata = convert(suffix, payload, max_bytes)
        return orjson.dumps({"text": text, "metadata": metadata})
    except ReadError as error:
        return orjson.dumps({"error": str(error), "kind": error.kind})
    except MemoryError:
        pass  # the error holds the memory until here
    gc.collect()
    return NO_MEMORY


Request = tuple[str, bytes, int, float]
"""A document's suffix, its payload, the most bytes of its text, and the seconds that it may take."""


def serve(requests: BinaryIO, answers: BinaryIO) -> NoReturn:
    """Answer requests one after the other, until the process ends with their end."""
    received: SimpleQueue[Request] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests, received), daemon=True).start()
    while True:
        suffix, payload, max_bytes, seconds = received.get()
        _limit_time(seconds)
        answers.write(answer(suffix, payload, max_bytes) + b"\n")
        answers.flush()


def _receive(requests: BinaryIO, received: SimpleQueue[Request]) -> None:
    """Receive requests, and end the process when there are no more, that is, when the parent process has ended."""
    with suppress(OSError, ValueError):
        while line := requests.readline():
            suffix, size, max_bytes, seconds = orjson.loads(line)
            payload = requests.read(size)
            if len(payload) < size:
                break
            received.put((suffix, payload, max_bytes, seconds))
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # with the processes that a converter may have started
    os._exit(0)


def _limit_time(seconds: float) -> None:
    """Limit the processor time from now on, for a converter that lets no other thread of this process run."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        until = math.ceil(time.process_time() + seconds) + 1
        with suppress(ValueError):  # the limit of this process is lower
            resource.setrlimit(resource.RLIMIT_CPU, (until, most))


def _limit_memory() -> None:
    """Limit the memory of this process, and have it leave no image of its memory behind."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        soft = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MEMORY_BYTES, most)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Serve on the original standard input and output, which are hidden from the converters."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    answers = os.fdopen(os.dup(1), "wb")
    requests = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "r+b") as nothing:
        for descriptor in (0, 1, 2):
            os.dup2(nothing.fileno(), descriptor)
    _limit_memory()
    serve(requests, answers)


if __name__ == "__main__":
    main()
