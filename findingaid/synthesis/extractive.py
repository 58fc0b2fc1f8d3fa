"""A synopsis of whole sentences of the text itself: no model, no network, nothing invented."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from annotated_types import Gt
from sentencex import segment

from findingaid.registry import STRICT

if TYPE_CHECKING:
    from markdown_it.token import Token

READ_CHARACTERS = 20_000
"""How much of a long text is considered; what a text is about stands early (the lead bias of news and docs)."""

LEAD_WEIGHT = 0.15
"""A sentence's bonus for standing first, falling to 0 at the last: it decides among near equals only."""

SENTENCE_CHARACTERS = (25, 400)
"""Shorter is a label, longer is a table or a listing."""

WORDY = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True)
class Extractive:
    """The `sentences` most central sentences, in the order of the text.

    Central is a sentence whose TF-IDF vector lies closest to the mean of all (the centroid method of
    Radev et al. 2004, https://doi.org/10.1016/j.ipm.2003.10.006), with a small bonus for an early place.
    """

    sentences: Annotated[int, Gt(0)] = 3
    __pydantic_config__: ClassVar = STRICT

    @property
    def id(self) -> str:
        return f"extractive-{self.sentences}-v1"

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        types = (metadata.get(key) for key in ("text_type", "media_type", "readme_type"))
        candidates = sentences_of(text[:READ_CHARACTERS], next(filter(None, types), None))
        if len(candidates) <= self.sentences:
            return " ".join(candidates)
        scores = centrality(candidates) + LEAD_WEIGHT * np.linspace(1, 0, len(candidates))
        best = sorted(range(len(candidates)), key=lambda i: (-scores[i], i))[: self.sentences]
        return " ".join(candidates[i] for i in sorted(best))


def sentences_of(text: str, media_type: str | None) -> list[str]:
    """The sentences of a text's prose, white space folded, each once; no headings, code, tables or labels."""
    low, high = SENTENCE_CHARACTERS
    found = sentences_in(text, media_type)
    return list(dict.fromkeys(s for s in found if low <= len(s) <= high and len(WORDY.findall(s)) >= 4))


def sentences_in(text: str, media_type: str | None) -> list[str]:
    """Every sentence of a text's prose, white space folded, however short."""
    paragraphs = _prose(text) if media_type in {None, "text/markdown"} else text.split("\n\n")
    found = (" ".join(s.split()) for p in paragraphs for s in segment("en", " ".join(p.split())))
    return [sentence for sentence in found if sentence]


def _prose(markdown: str) -> list[str]:
    """The words of each paragraph of a Markdown text, list items included, without their markup."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    inlines = (after for before, after in pairwise(tokens) if before.type == "paragraph_open")
    return ["".join(_plain(child) for child in inline.children or ()) for inline in inlines]


def _plain(token: Token) -> str:
    return (
        " "
        if token.type in {"softbreak", "hardbreak"}
        else token.content
        if token.type in {"text", "code_inline"}
        else ""
    )


def centrality(sentences: list[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Cosine of each sentence's TF-IDF vector with their mean; 0 for all when no word is left."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    try:
        matrix = TfidfVectorizer(sublinear_tf=True, stop_words="english").fit_transform(sentences)
    except ValueError:  # every word is a stop word
        return np.zeros(len(sentences))
    mean = np.asarray(matrix.mean(axis=0)).ravel()
    scores: np.ndarray[Any, np.dtype[np.float64]] = (matrix @ mean) / np.linalg.norm(mean)
    return scores
