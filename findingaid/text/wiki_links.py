"""Wiki links between notes, such as [[Note#Heading|label]]: the name that a link says, which is not yet an id."""

from __future__ import annotations

import re
from unicodedata import normalize

OPEN, CLOSE = "[[", "]]"

WIKI_LINK = re.compile(r"!?\[\[([^\[\]]+)\]\]")


def wiki_target(link: str) -> tuple[str, str]:
    """Return the (target, section) of the text between the brackets of a wiki link.

    The target is the name in brackets, since only a reader, who knows all artifacts, can tell the id. It is "" if the
    link leads to a place in its own note.
    """
    said = link.partition("|")[0].removesuffix("\\")  # in a table, "|" is escaped
    name, _, section = said.partition("#")
    name = normalize("NFC", name).strip()
    return OPEN + name + CLOSE if name else "", section.strip()


def wiki_name(target_id: str) -> str:
    """Return the name in a target of `wiki_target`; "" for an id."""
    return target_id[len(OPEN) : -len(CLOSE)] if target_id.startswith(OPEN) and target_id.endswith(CLOSE) else ""
