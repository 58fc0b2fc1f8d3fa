"""Synopses made of whole sentences from the text itself. No model and no network are used, and nothing is invented."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import hypot, log
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Gt

from findingaid.registry import checked
from findingaid.text.code import Code
from findingaid.text.markdown import blocks
from findingaid.text.sentences import split_sentences
from findingaid.text.stop_words import ENGLISH_STOP_WORDS
from findingaid.text.words import LETTERS

READ_CHARACTERS = 20_000
"""How much of a long text is read.

The beginning says what a text is about (the lead bias of news and documentation).
"""

LEAD_WEIGHT = 0.15
"""Bonus for a sentence's position, falling from this value at the first sentence to 0 at the last.

It is small, so that it decides only between nearly equal sentences.
"""

SENTENCE_CHARACTERS = (25, 400)
"""Range of sentence lengths. Anything shorter is a label; anything longer is a table or a listing."""

SIGNATURE_CHARACTERS = 600
"""How much of a synopsis of code is signatures, about half of what an embedder reads."""

TERM = re.compile(r"\b\w\w+\b")


@checked
@dataclass(frozen=True)
class Extractive:
    """The `sentences` most central sentences, in the order of the text.

    The most central sentence is the one whose TF-IDF vector is closest to the mean of all vectors (the centroid method
    of Radev et al. 2004, https://doi.org/10.1016/j.ipm.2003.10.006). Early sentences get a small bonus.

    Of code, it is the first sentences of the first comment or docstring that has any, and signatures.
    """

    sentences: Annotated[int, Gt(0)] = 3
    free: ClassVar[Literal[True]] = True
    version: ClassVar[int] = 6

    @property
    def id(self) -> str:
        return f"extractive-{self.sentences}-v{self.version}"

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        types = (metadata.get(key) for key in ("text_type", "media_type", "readme_type"))
        media_type = next(filter(None, types), None)
        if code := Code.of(text[:READ_CHARACTERS], media_type or ""):
            return self._of_code(code)
        candidates = sentences_of(text[:READ_CHARACTERS], media_type)
        if len(candidates) <= self.sentences:
            return " ".join(candidates)
        scores = centrality(candidates) + LEAD_WEIGHT * np.linspace(1, 0, len(candidates))
        best = sorted(range(len(candidates)), key=lambda i: (-scores[i], i))[: self.sentences]
        return " ".join(candidates[i] for i in sorted(best))

    def _of_code(self, code: Code) -> str:
        said = (sentences_of(words, "text/plain") for words in code.comments_in_words())
        signatures = code.signatures()
        if sum(map(len, signatures)) > SIGNATURE_CHARACTERS:
            signatures = [signature for signature in signatures if not signature.startswith(" ")]
        sizes = accumulate(map(len, signatures))
        shown = [signature for signature, size in zip(signatures, sizes, strict=True) if size <= SIGNATURE_CHARACTERS]
        return "\n".join([" ".join(next(filter(None, said), [])[: self.sentences]), *shown]).strip()


def sentences_of(text: str, media_type: str | None) -> list[str]:
    """Return the distinct sentences of a text's prose, white space folded, without headings, code, tables or labels."""
    low, high = SENTENCE_CHARACTERS
    found = sentences_in(text, media_type)
    return list(dict.fromkeys(s for s in found if low <= len(s) <= high and len(LETTERS.findall(s)) >= 4))


def sentences_in(text: str, media_type: str | None) -> list[str]:
    """Return every sentence of a text's prose, however short, white space folded."""
    markdown = media_type in {None, "text/markdown"}
    paragraphs = [block.words for block in blocks(text) if block.is_prose] if markdown else text.split("\n\n")
    found = (" ".join(s.split()) for p in paragraphs for s in split_sentences(" ".join(p.split())))
    return [sentence for sentence in found if sentence]


def centrality(sentences: list[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the cosine of each sentence's TF-IDF vector with their mean; 0 for a sentence of stop words alone."""
    counts = [Counter(TERM.findall(sentence.lower())) for sentence in sentences]
    frequency = Counter(term for terms in counts for term in terms if term not in ENGLISH_STOP_WORDS)
    idf = {term: 1 + log((1 + len(sentences)) / (1 + df)) for term, df in frequency.items()}
    vectors = [_unit({term: (1 + log(n)) * idf[term] for term, n in terms.items() if term in idf}) for terms in counts]
    total: dict[str, float] = {}
    for vector in vectors:
        for term, weight in vector.items():
            total[term] = total.get(term, 0) + weight
    mean = _unit(total)
    scores = [sum(weight * mean[term] for term, weight in vector.items()) for vector in vectors]
    return np.array(scores, float).round(12)  # equal scores stay equal, so that the earlier sentence comes first


def _unit(vector: dict[str, float]) -> dict[str, float]:
    length = hypot(*vector.values())
    return {term: weight / length for term, weight in vector.items()}
