"""Chunks that end where the text does: at headings, paragraphs, sentences, by semantic-text-splitter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

from annotated_types import Ge, Gt
from pydantic import SkipValidation
from semantic_text_splitter import MarkdownSplitter, TextSplitter

from findingaid.errors import ConfigError
from findingaid.model import Embedder, Raw, Surface, SurfacePlan
from findingaid.registry import STRICT
from findingaid.strategies.base import text_of
from findingaid.strategies.structure import Headings, Pages, python_pieces

CHUNK_SIZE = 1200
"""Characters a chunk for an embedder that sees any length, about 250 tokens of English."""

OVERLAP_SHARE = 6
"""The default overlap is a sixth of a chunk, as in ir (200 of 1200): enough to keep a split sentence whole once."""

PART_CHARACTERS = 1_000_000
"""Longer texts are first parted: the splitter's time grows with the square of a text, to minutes for 50 MB."""

PART_ENDS = (re.compile(r"^#{1,6} ", re.MULTILINE), re.compile(r"^[ \t]*\n", re.MULTILINE))
"""Where a part ends, best first: before a heading, at a blank line."""


@dataclass(frozen=True)
class Chunked:
    """Overlapping chunks, each with its character span, so that text[start:end] is the chunk.

    The size is `max_tokens` by the embedder's own tokenizer, by default all that the model sees; or
    `chunk_size` in characters, which may lose the tail of a chunk to the model's limit. `overlap` is in
    the same unit. The artifact's text_type decides, or else its media_type: Markdown is cut along its structure, its
    chunks with the path of `headings` above them; Python where functions and classes begin, without overlap between
    these. Where the artifact has `n_pages`, parted by form feeds, a chunk has its `page`.
    """

    max_tokens: Annotated[int, Gt(0)] | None = None
    chunk_size: Annotated[int, Gt(0)] | None = None
    overlap: Annotated[int, Ge(0)] | None = None
    text_key: str | None = None
    kind: str = "chunk"
    tokenizer: SkipValidation[Embedder | None] = field(default=None, repr=False, metadata={"spec": False})
    version: ClassVar[int] = 3
    """Raised when the same parameters cut otherwise, so that what was cut before is cut again."""

    __pydantic_config__: ClassVar = STRICT

    def __post_init__(self) -> None:
        if self.max_tokens and self.chunk_size:
            raise ConfigError("max_tokens and chunk_size exclude each other: keep one")
        if self.overlap is not None and self.overlap >= self._size:
            raise ConfigError(f"overlap {self.overlap} must be smaller than the chunk of {self._size}")

    def for_embedder(self, embedder: Embedder) -> Self:
        """Count as `embedder` does. Raises ConfigError when `max_tokens` is more than it sees."""
        if self.chunk_size or (self.max_tokens is None and embedder.max_tokens is None):
            return self
        seen = embedder.max_tokens
        if self.max_tokens and seen and self.max_tokens > seen:
            raise ConfigError(
                f"strategy.max_tokens: {self.max_tokens}, but the embedder sees {seen} tokens: at most {seen}"
            )
        return replace(self, max_tokens=self.max_tokens or seen, tokenizer=embedder)

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        text = text_of(raw, self.text_key)
        media_type = str(metadata.get("text_type") or metadata.get("media_type", ""))
        return SurfacePlan(dict(metadata), self.cut(text, media_type, paged=bool(metadata.get("n_pages"))))

    def cut(self, text: str, media_type: str = "", paged: bool = False) -> list[Surface]:
        """The chunks of a text, in order, without blank ones."""
        markdown = media_type == "text/markdown"
        splitter = self._markdown if markdown else self._plain
        parts = self._python(text) if media_type == "text/x-python" else _parts(text)
        cut = ((at + start, chunk) for at, part in parts for start, chunk in splitter.chunk_indices(part))
        # The splitter trims white space as Rust sees it, which leaves some that Python and tokenizers drop.
        chunks = [(start, chunk) for start, chunk in cut if chunk.replace("\0", "").strip()]
        headings = Headings.of(text) if markdown else None
        pages = Pages.of(text) if paged else None
        surfaces = []
        for i, (start, chunk) in enumerate(chunks):
            span = (start, start + len(chunk))
            own: dict[str, Any] = {"chunk_index": i, "n_chunks": len(chunks)}
            if headings and (path := headings.above(*span)):
                own["headings"] = list(path)
            if pages:
                own |= pages.fields(*span)
            surfaces.append(Surface(self.kind, chunk, "chunk", own, span))
        return surfaces

    def _python(self, text: str) -> Iterator[tuple[int, str]]:
        """(start, part) of a Python source; what does not parse, or is very long, as of any other text."""
        pieces = python_pieces(text, self._fits) if len(text) <= PART_CHARACTERS else None
        return _parts(text) if pieces is None else ((start, text[start:end]) for start, end in pieces)

    def _fits(self, text: str) -> bool:
        text = text.strip()
        return len(text) <= self._size if self.tokenizer is None else self.tokenizer.count_tokens(text) <= self._size

    @property
    def _size(self) -> int:
        return self.max_tokens or self.chunk_size or CHUNK_SIZE

    @property
    def _overlap(self) -> int:
        return self._size // OVERLAP_SHARE if self.overlap is None else self.overlap

    @cached_property
    def _plain(self) -> TextSplitter:
        if self.tokenizer is None:
            return TextSplitter(self._size, self._overlap)
        return TextSplitter.from_callback(self.tokenizer.count_tokens, self._size, self._overlap)

    @cached_property
    def _markdown(self) -> MarkdownSplitter:
        if self.tokenizer is None:
            return MarkdownSplitter(self._size, self._overlap)
        return MarkdownSplitter.from_callback(self.tokenizer.count_tokens, self._size, self._overlap)


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """(start, part) of a text, in parts of at most PART_CHARACTERS that end at a heading where there is one."""
    start = 0
    while len(text) - start > PART_CHARACTERS:
        window = text[start : start + PART_CHARACTERS]
        ends = (found[-1].start() for pattern in PART_ENDS if (found := list(pattern.finditer(window, 1))))
        end = start + next(ends, PART_CHARACTERS)
        yield start, text[start:end]
        start = end
    yield start, text[start:]
