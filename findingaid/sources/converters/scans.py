"""Scans: PDFs and pictures whose text is recognized, and the pictures of their pages that the search page shows."""

from __future__ import annotations

import io
from base64 import b64encode
from contextlib import closing
from functools import partial

from findingaid.errors import ReadError
from findingaid.sources.converters.common import defects_of, left_out_notes, plain_text
from findingaid.sources.converters.ocr import Recognition, open_picture, page_done, picture_page
from findingaid.sources.converters.pdf import convert_pdf, is_pdf, show_page
from findingaid.sources.documents import Converted
from findingaid.text.structure import PAGE_BREAK

MOST_SHOWN = 1_600
"""Most pixels of a side of the picture of a page that is shown."""


def convert_scan(payload: bytes, max_bytes: int) -> Converted:
    """Convert a PDF, and recognize the text of its scanned pages."""
    return convert_pdf(payload, max_bytes, Recognition(page_done.get()))


def convert_picture(payload: bytes, _: int) -> Converted:
    """Recognize the text of a picture, and of each page of a TIFF."""
    try:
        picture = open_picture(payload)
    except OSError:
        return plain_text(payload)
    with picture:
        n_frames = getattr(picture, "n_frames", 1)
        n_pages = n_frames if picture.format == "TIFF" else 1
        scans = Recognition(page_done.get())
        pages = [scans.read(i + 1, partial(picture_page, picture, i)) for i in range(n_pages)]
        moving = n_frames - 1 if picture.format in {"PNG", "WEBP"} else 0
    if not any(pages):
        raise ReadError("pictures in which no text was recognized", "no_text")
    own = {"n_pages": n_pages if n_pages > 1 else 0, "text_type": "text/plain"}
    notes = [*scans.notes, *left_out_notes({"further pictures of an animation, not read": moving})]
    return Converted(PAGE_BREAK.join(pages), own | scans.metadata, notes)


def page_picture(payload: bytes, number: int) -> Converted:
    """Return a page, from 1, of a PDF or picture as a JPEG in base64, with its size in the unit of the boxes."""
    with defects_of("scan"):
        if is_pdf(payload):
            import pypdfium2

            with closing(pypdfium2.PdfDocument(payload)) as document:
                document.init_forms()
                with closing(document[number - 1]) as page:
                    picture, scale = show_page(page)
        else:
            with open_picture(payload) as opened:
                picture, scale = picture_page(opened, number - 1)
        size = {"width": picture.width / scale, "height": picture.height / scale}
        picture.thumbnail((MOST_SHOWN, MOST_SHOWN))
        made = io.BytesIO()
        picture.save(made, "JPEG", quality=80)
    return Converted(b64encode(made.getvalue()).decode(), size)
