"""The full-text index of the records: its configuration, and the analyzer settings that it was made with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from findingaid.text.analyzer import Lexical

if TYPE_CHECKING:
    from lance import LanceDataset

KEY = "findingaid.full_text"
"""Key of the index settings in the configuration of the records table, which is versioned with the table."""

EDITION = 4
"""Part of the index settings. Raise it when the words of the index change, to rebuild it."""

COLUMN = "lexical"
"""Column of the records that is indexed."""

TOKENIZER = "icu/split"
"""Tokenizer of Lance that splits at blanks and punctuation, and finds words in Chinese, Japanese and Thai texts."""


LONGEST_WORD = 1_000
"""Bytes of the longest word that is indexed. Hashes and German compounds are longer than the 40 of Lance's default."""


def make_index(records: LanceDataset, lexical: Lexical) -> None:
    """Create the index, in place of an earlier one.

    Stop words are indexed, for phrases and for queries of stop words alone, unless only Lance knows which they are.
    """
    records.create_scalar_index(
        COLUMN,
        "INVERTED",
        base_tokenizer=TOKENIZER,
        language=lexical.language,
        stem=lexical.stem,
        custom_stop_words=None if lexical.listed is None else [],
        max_token_length=LONGEST_WORD,
        with_position=True,
    )


def to_json(lexical: Lexical) -> str:
    """Return the settings as `made_with` reads them."""
    return json.dumps([EDITION, lexical.language, lexical.stem, lexical.stop_words])


def made_with(records: LanceDataset) -> Lexical | None:
    """Return the settings that the full-text index of a version was made with; None for another edition or no index."""
    edition, *settings = json.loads(records.config().get(KEY, "[null]"))
    if edition != EDITION:
        return None
    language, stem, stop_words = settings
    return Lexical(language, stem, tuple(stop_words) if isinstance(stop_words, list) else stop_words)
