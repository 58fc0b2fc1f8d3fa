"""Who turns texts into vectors. All embedders stand behind one protocol, `findingaid.model.Embedder`."""

from findingaid.model import Embedder
from findingaid.registry import Registry

EMBEDDERS: Registry[Embedder] = Registry(
    "embedder",
    "kind",
    {
        "hash": "findingaid.embedding.hashing:HashEmbedder",
        "sentence-transformers": "findingaid.embedding.sentence:SentenceEmbedder",
    },
)

__all__ = ["EMBEDDERS"]
