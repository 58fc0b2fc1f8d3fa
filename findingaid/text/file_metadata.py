"""Metadata of Markdown files: their titles, the fields of their front matter, and their tags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from findingaid.model import Note
from findingaid.text.cleaning import MARKDOWN
from findingaid.text.front_matter import MAX_VALUES, FrontMatter, filter_fields
from findingaid.text.headings import headings_in
from findingaid.text.markdown import blocks
from findingaid.text.titles import as_title

COMMA, SPACE_OR_COMMA = re.compile(r","), re.compile(r"[\s,]+")

TAG = re.compile(r"#(?<!\S#)([\w/-]{1,200})(?![\w/-])")


def file_metadata(markdown: str, name: str) -> tuple[dict[str, Any], Sequence[Note]]:
    """Return the metadata of a Markdown file called `name`, and notes on its front matter.

    The title is that of the front matter, else the `first_heading`, else the name. `tags` has those of the
    front matter and of the text; `tags` and `aliases` are lists, also if written as one text.
    """
    front = FrontMatter.of(markdown)
    fields = filter_fields(front)
    said = fields.get("title")
    title = as_title(str(said)) if isinstance(said, str | int | float) else ""
    title = title or first_heading(markdown, MARKDOWN)
    tags = dict.fromkeys((*_listed(fields.get("tags"), SPACE_OR_COMMA), *inline_tags(markdown)))
    aliases = dict.fromkeys(_listed(fields.get("aliases"), COMMA))
    lists = {"tags": [*tags][:MAX_VALUES], "aliases": [*aliases]}
    return {
        **fields,
        **{field: values for field, values in lists.items() if values},
        "title": title or name,
    }, front.notes


def first_heading(text: str, media_type: str) -> str:
    """Return the first heading with words; "" if there is none, or if it is that of a section beside others."""
    found = ((level, title) for level, heading, _ in headings_in(text, media_type) if (title := as_title(heading)))
    first, title = next(found, (1, ""))
    return "" if first > 1 and any(level <= first for level, _ in found) else title


def inline_tags(markdown: str) -> Iterator[str]:
    """Yield the tags in a text, such as #home/energy, that are not in code, HTML or links."""
    if not TAG.search(markdown):
        return
    for block in blocks(markdown):
        if block.kind != "CodeBlock":
            words = "".join(
                event["Text"] if isinstance(event, dict) and "Text" in event else " " for event, _ in block.events
            )
            yield from (tag for tag in TAG.findall(words) if not tag.isdigit())


def _listed(value: Any, separator: re.Pattern[str]) -> list[str]:
    """Return the values of a field that may be written as a list or as one text."""
    values = value if isinstance(value, list) else separator.split(str(value or ""))
    return [text for one in values if (text := str(one).strip().removeprefix("#"))]
