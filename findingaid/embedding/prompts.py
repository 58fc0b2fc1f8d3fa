"""Prompts that models expect before a query and before a document, and presets of well-known models.

Models of the families E5, BGE and others name their prompts on their cards only. Without them they rank worse, and
nothing says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from findingaid.identity.hashes import content_hash


@dataclass(frozen=True, slots=True)
class Prompts:
    """Texts that precede a query and a document. None leaves it to the model's own configuration."""

    query: str | None = None
    document: str | None = None

    @property
    def id(self) -> str:
        """Part of the id of an embedder; "" without prompts."""
        return f"-{content_hash(self.query, self.document)[:8]}" if self != Prompts() else ""

    def over(self, preset: Prompts) -> Prompts:
        """Return these prompts, with those of the preset where they are None."""
        query = preset.query if self.query is None else self.query
        return Prompts(query, preset.document if self.document is None else self.document)


PASSAGES = "Represent this sentence for searching relevant passages: "
INSTRUCTION = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"

PRESETS = {
    r"e5-mistral-7b-instruct|multilingual-e5-large-instruct": Prompts(f"{INSTRUCTION} ", ""),
    r"(multilingual-)?e5-(small|base|large)(-v2)?": Prompts("query: ", "passage: "),
    r"bge-(small|base|large)-en(-v1\.5)?": Prompts(PASSAGES, ""),
    r"qwen3-embedding-[\w.]+": Prompts(INSTRUCTION, ""),
    r"nomic-embed-text(-v(1|1\.5|2-moe))?": Prompts("search_query: ", "search_document: "),
    r"mxbai-embed-(large|xsmall)(-v1)?": Prompts(PASSAGES, ""),
    r"snowflake-arctic-embed(-(xs|s|m|m-long|l|m-v1\.5))?": Prompts(PASSAGES, ""),
    r"snowflake-arctic-embed(2|-[ml]-v2\.0)": Prompts("query: ", ""),
    r"mdbr-leaf-ir(-asym)?": Prompts(PASSAGES, ""),
    r"embeddinggemma-300m": Prompts("task: search result | query: ", "title: none | text: "),
}
"""Prompts by the name of a model without its owner, as a pattern; taken from the models' cards."""


def preset_of(model: str) -> Prompts:
    """Return the prompts of a well-known model, from its name on a hub, its folder or an endpoint's name for it."""
    name = PurePath(model.partition(":")[0]).name.lower()
    return next((prompts for pattern, prompts in PRESETS.items() if re.fullmatch(pattern, name)), Prompts())
