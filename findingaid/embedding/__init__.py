"""Embedders, which turn texts into vectors. All implement the protocol `findingaid.protocols.Embedder`."""

from findingaid.protocols import Embedder
from findingaid.registry import Registry

EMBEDDERS: Registry[Embedder] = Registry(
    "embedder",
    "kind",
    Embedder,
    "findingaid.embedders",
    {
        "hash": "findingaid.embedding.hashing:HashEmbedder",
        "openai": "findingaid.embedding.endpoint:OpenAIEmbedder",
        "sentence-transformers": "findingaid.embedding.sentence:SentenceEmbedder",
    },
)

__all__ = ["EMBEDDERS"]
