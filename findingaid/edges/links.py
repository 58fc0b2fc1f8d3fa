"""Edges from links between the Markdown files of a corpus: links of Markdown, and wiki links between notes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from mimetypes import guess_type
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from findingaid.model import Artifact, Edge
from findingaid.registry import checked
from findingaid.text.markdown import Span, blocks, whole_lines
from findingaid.text.wiki_links import OPEN, WIKI_LINK, wiki_target

NOT_FILES = frozenset({"Autolink", "Email"})
"""Kinds of link that are a URL or an address."""


@checked
@dataclass(frozen=True)
class LinkEdges:
    """An edge for each link of a Markdown text to another file. URLs, pictures and code are skipped.

    The target of a Markdown link is a path relative to the artifact's own, or to the root if it begins with "/". That
    of a wiki link, `[[Note]]`, is its name in brackets; readers find the artifact, see `findingaid.query.search.edges`.
    The part after "#" is the edge's `section`; the edge's span is the paragraph that contains the link.
    """

    edge: str = "LINK"
    extractor_id: ClassVar[str] = "links-2"

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Iterator[Edge]:
        text, metadata = artifact.raw, artifact.metadata
        markdown = (metadata.get("text_type") or metadata.get("media_type")) == "text/markdown"
        if not isinstance(text, str) or not markdown or "[" not in text:  # in each link to a file
            return
        links = sorted(_links(text, artifact.artifact_id), key=attrgetter("start"))
        for link in (*_links_of_fields(fields), *links):
            if link.target and link.target != artifact.artifact_id:
                yield Edge(self.edge, link.target, "", link.section, link.block and whole_lines(text, link.block))


class _Link(NamedTuple):
    """Link with its place in the text, and the span of the block that contains it; None in front matter."""

    target: str
    section: str
    start: int = 0
    block: Span | None = None


def _links(text: str, artifact_id: str) -> Iterator[_Link]:
    """Yield the Markdown links of a text, then its wiki links."""
    taken = set[int]()  # by links of Markdown: [[1]](a.md) is one
    for block in blocks(text, tables=False):
        for event, at in block.events:
            match event:
                case {"Start": {"Link": {"link_type": kind, "dest_url": href}}} if kind not in NOT_FILES:
                    start = block.place(at)[0]
                    taken.add(start)
                    yield _Link(*_resolved(href, artifact_id), start, block.span)
    if OPEN not in text:
        return
    for block in blocks(text, tables=False, wiki_links=True):
        for event, at in block.events:
            start = block.place(at)[0]
            free = not taken & {start, start + 1}
            match event:
                case {"Start": {"Link": {"link_type": {"WikiLink": _}, "dest_url": said}}} if free:
                    yield _Link(*wiki_target(said), start, block.span)
                case {"Start": {"Image": {"link_type": {"WikiLink": _}, "dest_url": said}}} if not _is_picture(said):
                    yield _Link(*wiki_target(said), start, block.span)


def _links_of_fields(fields: Mapping[str, Any]) -> Iterator[_Link]:
    """Yield the wiki links that are values of front matter."""
    for value in fields.values():
        for said in value if isinstance(value, list | tuple) else [value]:
            if isinstance(said, str) and (found := WIKI_LINK.fullmatch(said)):
                yield _Link(*wiki_target(found[1]))


def _is_picture(name: str) -> bool:
    kind, _ = guess_type(name.partition("|")[0].partition("#")[0])
    return bool(kind and kind.startswith("image/"))


def _resolved(href: str, artifact_id: str) -> tuple[str, str]:
    """Return the (file id, section) of a link. The file id is "" if the link does not lead to a file of a corpus."""
    try:
        url = urlsplit(href)
        site = urlsplit(artifact_id).netloc
    except ValueError:  # brackets in an invalid address
        return "", ""
    if site:  # the id of a page is its address
        target, section = urldefrag(urljoin(artifact_id, href))
        return target if urlsplit(target).netloc == site else "", unquote(section)
    if url.scheme or url.netloc or not url.path:
        return "", ""
    path = unquote(url.path)
    path = path.lstrip("/") if path.startswith("/") else posixpath.join(posixpath.dirname(artifact_id), path)
    return posixpath.normpath(path) if path else "", unquote(url.fragment)
