"""Edges that are links from one Markdown file of a corpus to another."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

from findingaid.front_matter import MATTER
from findingaid.model import Artifact, Edge
from findingaid.registry import STRICT
from findingaid.strategies.structure import line_starts

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MAY_LINK = re.compile(r"\]\((?![a-z]+:|#)|^ {0,3}\[[^\]\n]+\]:", re.MULTILINE)
"""Without one of these no parser needs to be asked, which takes a second a megabyte and a half."""


@dataclass(frozen=True)
class Links:
    """An edge for each link of a Markdown text to another file, by its path: images, URLs and code apart.

    A path is relative to the artifact's, or from the root on where it begins with "/". What stands behind "#" is the
    edge's `section`, and its span is the paragraph that holds the link.
    """

    edge: str = "LINK"
    __pydantic_config__: ClassVar = STRICT

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Iterator[Edge]:
        text, metadata = artifact.raw, artifact.metadata
        markdown = (metadata.get("text_type") or metadata.get("media_type")) == "text/markdown"
        if not isinstance(text, str) or not markdown or not MAY_LINK.search(text):
            return
        matter = MATTER.match(text)
        begin = matter.end() if matter else 0
        lines = line_starts(text, begin)
        for block in _parser().parse(text[begin:]):
            for inline in block.children or ():
                if inline.type == "link_open" and block.map:
                    target, section = _resolved(str(inline.attrs["href"]), artifact.artifact_id)
                    if target and target != artifact.artifact_id:
                        yield Edge(self.edge, target, "", section, (lines[block.map[0]], lines[block.map[1]]))


def _resolved(href: str, artifact_id: str) -> tuple[str, str]:
    """(id of the file, section) that a link leads to; "" for what is no file of any corpus."""
    try:
        url = urlsplit(href)
    except ValueError:  # brackets of an address that is none
        return "", ""
    if url.scheme or url.netloc or not url.path:
        return "", ""
    path = unquote(url.path)
    path = path.lstrip("/") if path.startswith("/") else posixpath.join(posixpath.dirname(artifact_id), path)
    return posixpath.normpath(path) if path else "", unquote(url.fragment)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")
