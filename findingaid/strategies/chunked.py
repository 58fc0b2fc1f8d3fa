"""Chunks that end where the text's structure does (headings, paragraphs, sentences), by semantic-text-splitter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

from annotated_types import Ge, Gt
from pydantic import SkipValidation
from semantic_text_splitter import MarkdownSplitter, TextSplitter

from findingaid.errors import ConfigError
from findingaid.model import Raw, Surface, SurfacePlan
from findingaid.protocols import Embedder
from findingaid.registry import checked
from findingaid.strategies.base import CONTEXT_SHARE, SurfaceKind, first_words, heading_path, text_of
from findingaid.text.cleaning import Noise
from findingaid.text.code import Code
from findingaid.text.splitting import chunk_indices
from findingaid.text.structure import PAGE_SIGN, Headings, Pages, Rows, trim_page_ends

CHUNK_SIZE = 1200
"""Characters per chunk, about 250 tokens of English, for an embedder without a length limit."""

OVERLAP_SHARE = 6
"""Divisor for the default overlap: a sixth of a chunk, as in ir (200 of 1200).

That is enough to keep a split sentence whole in one of the chunks.
"""

TOKEN_CHARACTERS = 16
"""Characters per token above which a text is too long for a chunk without counting its tokens."""

OPENING = re.compile(r"(?>(?:[ \t]*(?:(?:#{1,6}[ \t]|`{3,}|~{3,})[^\r\n]*)?(?:\r?\n|\r|\Z))+)")
"""Headings of Markdown, and lines that begin or end a block of code, alone."""

Size = Annotated[int, Gt(0)] | None
Overlap = Annotated[int, Ge(0)] | None


@checked
@dataclass(frozen=True, kw_only=True)
class Chunked:
    """Overlapping chunks, each with its character span, so that text[start:end] is the chunk.

    The size is `max_tokens`, counted by the embedder's own tokenizer; the default is all that the model reads. Or it is
    `chunk_size` in characters, and the model's limit may then cut off the end of a chunk. `overlap` is in the same
    unit. Headings come into one chunk with words below them.

    The artifact's text_type, or else its media_type, decides how the text is cut. Markdown is cut along its structure,
    and its chunks get the path of the `headings` above them. Code is cut where definitions begin, without overlap
    between these, and its chunks get their `symbols` and `symbol_kinds`. If the artifact has `n_pages`, with pages
    separated by form feeds or ␌, a chunk gets its `page`. If it has `n_sheets`, it is cut where a block of rows begins,
    and a chunk gets its `sheet` and `rows`.

    Chunks are embedded and searched without badges, comments, navigation, licence headers, encoded data and link
    targets. A chunk of nothing else is left out. With `titles`, the title and the headings above precede a chunk when
    it is embedded and searched; they take at most a quarter of what the model reads.
    """

    max_tokens: Size = None
    chunk_size: Size = None
    overlap: Overlap = None
    text_key: str | None = None
    kind: SurfaceKind = "chunk"
    titles: bool = False
    tokenizer: SkipValidation[Embedder | None] = field(default=None, repr=False, metadata={"spec": False})
    version: ClassVar[int] = 13
    """Version of the cutting.

    Increment it when the same parameters cut differently, so that all artifacts are cut again.
    """

    strategy_id: ClassVar[str] = "Chunked"

    def __post_init__(self) -> None:
        if self.max_tokens and self.chunk_size:
            raise ConfigError("max_tokens and chunk_size exclude each other: keep one")
        if self.overlap is not None and self.overlap >= self._size:
            raise ConfigError(f"overlap {self.overlap} must be smaller than the chunk of {self._size}")

    def for_embedder(self, embedder: Embedder) -> Self:
        """Return a copy that counts tokens as `embedder` does, or the strategy itself if its size is in characters.

        Raises ConfigError if `max_tokens` is more than the embedder reads.
        """
        if self.chunk_size or (self.max_tokens is None and embedder.max_tokens is None):
            return self
        seen = embedder.max_tokens
        if self.max_tokens and seen and self.max_tokens > seen:
            raise ConfigError(
                f"strategy.max_tokens: {self.max_tokens}, but the embedder sees {seen} tokens: at most {seen}"
            )
        free = seen - seen // CONTEXT_SHARE if seen and self.titles else seen
        size = min(filter(None, (self.max_tokens, free)))
        return replace(self, max_tokens=size, tokenizer=embedder)

    def text(self, raw: Raw) -> str:
        """Return the text of a payload."""
        return text_of(raw, self.text_key)

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        text = self.text(raw)
        media_type = str(metadata.get("text_type") or metadata.get("media_type", ""))
        title = str(metadata.get("title") or "")
        paged, sheets = bool(metadata.get("n_pages")), bool(metadata.get("n_sheets"))
        return SurfacePlan(dict(metadata), self.cut(text, media_type, paged, title, sheets))

    def cut(
        self, text: str, media_type: str = "", paged: bool = False, title: str = "", sheets: bool = False
    ) -> list[Surface]:
        """Return the chunks of a text in order, without blank ones."""
        pages, rows = Pages.of(text) if paged else None, Rows.of(text) if sheets else None
        code = Code.of(text, media_type)
        markdown = media_type == "text/markdown"
        splitter = self._markdown if markdown else self._plain
        parts = code.pieces(self._fits) if code else rows.spans if rows else [(0, len(text))]
        cut: Iterator[tuple[int, str]] = (
            (at + i, chunk) for at, end in parts for i, chunk in chunk_indices(splitter, text[at:end], self._size)
        )
        if markdown:
            cut = self._with_next(text, cut)
        if paged:
            cut = (trim_page_ends(start, chunk) for start, chunk in cut)
        # The splitter trims white space as Rust defines it. Python and tokenizers drop further characters, so a chunk
        # may still be blank.
        chunks = self._cleaned(text, media_type, [c for c in cut if c[1].replace("\0", "").strip()])
        headings = Headings.of(text, media_type)
        surfaces = []
        for i, (start, chunk, searched) in enumerate(chunks):
            span = (start, start + len(chunk))
            own: dict[str, Any] = {"chunk_index": i, "n_chunks": len(chunks)}
            if path := headings.above(*span):
                own["headings"] = list(path)
            for structure in (pages, rows, code):
                own |= structure.fields(*span) if structure else {}
            if PAGE_SIGN in chunk:
                searched = (searched or chunk).replace(PAGE_SIGN, "")
            if self.titles:
                searched = self._under_title(heading_path(title, own), searched or chunk)
            surfaces.append(Surface(self.kind, chunk, "chunk", own, span, searched))
        return surfaces

    def _with_next(self, text: str, chunks: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        """Join headings and beginnings of code blocks that are a chunk of their own with the next one, if both fit."""
        above: tuple[int, str] | None = None
        for start, chunk in chunks:
            if above:
                joined = text[above[0] : start + len(chunk)]
                if self._fits(joined):
                    start, chunk = above[0], joined
                else:
                    yield above
            above = (start, chunk) if OPENING.fullmatch(chunk) else None
            if not above:
                yield start, chunk
        if above:
            yield above

    def _under_title(self, path: str, text: str) -> str:
        count = len if self.tokenizer is None else self.tokenizer.count_tokens
        above = first_words(path, self._size // (CONTEXT_SHARE - 1), count)
        return f"{above}\n\n{text}" if above else text

    def _cleaned(
        self, text: str, media_type: str, chunks: Sequence[tuple[int, str]]
    ) -> list[tuple[int, str, str | None]]:
        """Return each chunk with its text without noise, None if it has none. Chunks of noise alone are left out.

        If the whole text is noise, it stays as it is.
        """
        noise = Noise.of(text, media_type)
        cleaned = [(start, chunk, noise.removed(start, start + len(chunk))) for start, chunk in chunks]
        return [found for found in cleaned if found[2] != ""] or [(start, chunk, None) for start, chunk in chunks]

    def _fits(self, text: str) -> bool:
        text = text.strip()
        if self.tokenizer is None:
            return len(text) <= self._size
        return len(text) <= TOKEN_CHARACTERS * self._size and self.tokenizer.count_tokens(text) <= self._size

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
