"""Metadata of Markdown files: their titles, and the fields of their front matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from findingaid.model import Note
from findingaid.text.front_matter import FrontMatter, filter_fields
from findingaid.text.markdown import headings
from findingaid.text.titles import as_title


def file_metadata(markdown: str, name: str) -> tuple[dict[str, Any], Sequence[Note]]:
    """Return the metadata of a Markdown file called `name`, and notes on its front matter.

    The title is that of the front matter, else the first heading with words, else the name.
    """
    front = FrontMatter.of(markdown)
    fields = filter_fields(front)
    said = fields.get("title")
    title = as_title(str(said)) if isinstance(said, str | int | float) else ""
    title = title or next(filter(None, (as_title(heading) for _, heading, _ in headings(markdown))), "")
    return {**fields, "title": title or name}, front.notes
