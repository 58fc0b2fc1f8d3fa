"""Edges from links between the Markdown files of a corpus."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from findingaid.model import Artifact, Edge
from findingaid.registry import checked
from findingaid.text.markdown import blocks, whole_lines

NOT_FILES = frozenset({"Autolink", "Email"})
"""Kinds of link that are a URL or an address."""


@checked
@dataclass(frozen=True)
class LinkEdges:
    """An edge for each link of a Markdown text to another file, by the file's path. Images, URLs and code are skipped.

    A path is relative to the artifact's own, or to the root if it begins with "/". The part after "#" is the edge's
    `section`; the edge's span is the paragraph that contains the link.
    """

    edge: str = "LINK"
    extractor_id: ClassVar[str] = "links"

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Iterator[Edge]:
        text, metadata = artifact.raw, artifact.metadata
        markdown = (metadata.get("text_type") or metadata.get("media_type")) == "text/markdown"
        if not isinstance(text, str) or not markdown or "[" not in text:  # in each link to a file
            return
        for block in blocks(text, tables=False):
            for event, _ in block.events:
                match event:
                    case {"Start": {"Link": {"link_type": kind, "dest_url": href}}} if kind not in NOT_FILES:
                        target, section = _resolved(href, artifact.artifact_id)
                        if target and target != artifact.artifact_id:
                            yield Edge(self.edge, target, "", section, whole_lines(text, block.span))


def _resolved(href: str, artifact_id: str) -> tuple[str, str]:
    """Return the (file id, section) of a link. The file id is "" if the link does not lead to a file of a corpus."""
    try:
        url = urlsplit(href)
    except ValueError:  # brackets in an invalid address
        return "", ""
    if url.scheme or url.netloc or not url.path:
        return "", ""
    path = unquote(url.path)
    path = path.lstrip("/") if path.startswith("/") else posixpath.join(posixpath.dirname(artifact_id), path)
    return posixpath.normpath(path) if path else "", unquote(url.fragment)
