"""In-memory sources, embedders and synthesizers that implement the protocols of the real ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from findingaid.embedding.hashing import HashEmbedder
from findingaid.errors import EmbedError, ReadError
from findingaid.model import Artifact, Discovery, Listing, Raw, Vectors


@dataclass
class MemorySource:
    """Source with artifacts in a mapping of id -> payload, which tests may change between runs.

    Reading an id in `broken` raises ReadError. The media type is text/markdown unless the metadata has another.
    `read_by` are the principals that may read an artifact; of one without any, the source says nothing.
    """

    payloads: dict[str, Raw] = field(default_factory=dict)
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    read_by: dict[str, Sequence[str]] = field(default_factory=dict)

    def discover(self) -> Discovery:
        about = self.metadata, self.read_by
        stamps = {i: repr((payload, *(each.get(i) for each in about))) for i, payload in self.payloads.items()}
        return Discovery([Listing(i, stamps[i], len(str(self.payloads[i]))) for i in sorted(self.payloads)])

    def read(self, artifact_id: str) -> Artifact:
        if artifact_id in self.broken:
            raise ReadError("cannot be read: set to broken", "unreadable")
        metadata = {"media_type": "text/markdown", **self.metadata.get(artifact_id, {})}
        return Artifact(artifact_id, self.payloads[artifact_id], metadata, readers=self.read_by.get(artifact_id))


@dataclass
class CountingEmbedder:
    """Hash embedder that records every embedded text in `seen`.

    A batch with a text that contains `poison` raises EmbedError.
    """

    inner: HashEmbedder = field(default_factory=HashEmbedder)
    name: str = "counting"
    poison: str | None = None
    seen: list[str] = field(default_factory=list)
    id: str = field(init=False)
    free: ClassVar[Literal[True]] = True

    def __post_init__(self) -> None:
        self.id = f"{self.name}-{self.inner.id}"

    @property
    def dim(self) -> int:
        return self.inner.dim

    @property
    def max_tokens(self) -> int | None:
        return self.inner.max_tokens

    def count_tokens(self, text: str) -> int:
        return self.inner.count_tokens(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.poison and any(self.poison in text for text in texts):
            raise EmbedError(f"cannot embed a text with {self.poison!r}")
        self.seen.extend(texts)
        return self.inner.embed(texts)

    def embed_query(self, text: str) -> Vectors:
        return self.inner.embed_query(text)


@dataclass
class ScriptedSynthesizer:
    """Synthesizer that writes "Synopsis of <first words>." unless the text contains a key of `script`.

    The script's value for the key is the synopsis to return or an exception to raise. `seen` records every text.
    """

    id: str = "scripted-1"
    script: Mapping[str, str | BaseException] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        self.seen.append(text)
        for key, written in self.script.items():
            if key in text:
                if isinstance(written, BaseException):
                    raise written
                return written
        return f"Synopsis of {' '.join(text.split()[:5])}."
