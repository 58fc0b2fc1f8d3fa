"""Any sentence-transformers model; the packaged one runs through onnxruntime unless a device is set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Gt

from findingaid.embedding import minilm
from findingaid.embedding.prompts import Prompts, preset_of
from findingaid.embedding.shortening import shorten
from findingaid.errors import ConfigError
from findingaid.identity.hashes import bytes_hash, content_hash
from findingaid.model import Vectors
from findingaid.registry import checked

PACKAGED = {minilm.MODEL, f"sentence-transformers/{minilm.MODEL}"}
SAMPLE, SAMPLES = 1 << 14, 256
"""Bytes of a sample, and samples of a file at even distances. Smaller files are read whole."""

EXTRA = "findingaid[sentence-transformers]"
"""Extra with sentence-transformers and torch."""

KEPT = 4
"""Number of models that a process keeps loaded, the most recently used."""


@checked
@dataclass(frozen=True)
class SentenceEmbedder:
    """`model` is the packaged all-MiniLM-L6-v2, a folder, or a name on the Hugging Face hub.

    `device` (cpu, cuda, mps, ...) selects sentence-transformers. Without one the packaged model runs on the CPU through
    onnxruntime, by default in int8, which is more than twice as fast as fp32 and has other vectors, and so another id.
    In `precision` fp32 its vectors are those of a device within 1e-5, and so is its id. All else needs the extra
    "sentence-transformers"; without it, embedding raises ConfigError. `revision` pins a model of the hub, and belongs
    in every configuration that names one.

    `query_prompt` and `document_prompt` precede each query and text. By default they are those of a well-known model,
    or else of the model's own configuration. With `dimensions`, vectors are shortened to their first numbers, which
    suits only Matryoshka models.
    """

    model: str = minilm.MODEL
    device: str | None = None
    revision: str | None = None
    batch_size: int = 32
    precision: minilm.Precision | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    dimensions: Annotated[int, Gt(0)] | None = None
    local: ClassVar[Literal[True]] = True

    def __post_init__(self) -> None:
        if self.precision == "int8" and not self._on_cpu:
            raise ConfigError(
                f"embedder.precision: int8 is for the packaged {minilm.MODEL} on a CPU: leave out `model`, `revision`"
                " and `device`, or `precision`"
            )

    @property
    def _packaged(self) -> bool:
        return self.model in PACKAGED and self.revision is None

    @property
    def _on_cpu(self) -> bool:
        """Whether it is the packaged model through onnxruntime."""
        return self._packaged and self.device is None

    @property
    def _precision(self) -> minilm.Precision:
        return self.precision or ("int8" if self._on_cpu else "fp32")

    @cached_property
    def id(self) -> str:
        """Identifier of model, prompts and dimensions."""
        return f"{self._model_id}{self._prompts.id}{f'-{self.dimensions}d' if self.dimensions else ''}"

    @property
    def _model_id(self) -> str:
        if self._packaged:
            return minilm.id_of(self._precision)
        if (folder := Path(self.model).expanduser()).is_dir():
            return f"{folder.name}@{_folder_hash(folder)[:12]}"
        return f"{self.model}@{self.revision or 'main'}"

    @property
    def dim(self) -> int:
        return self.dimensions or self._backend.dim

    @cached_property
    def max_tokens(self) -> int | None:
        seen, prompt = self._backend.max_tokens, self._prompts.document
        return seen - self.count_tokens(prompt) if seen and prompt else seen

    def count_tokens(self, text: str) -> int:
        return self._backend.count_tokens(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self._prompts.document is None:
            return self._shortened(self._backend.embed(texts))
        return self._shortened(self._backend.embed_plain([self._prompts.document + text for text in texts]))

    def embed_query(self, text: str) -> Vectors:
        if self._prompts.query is None:
            return self._shortened(self._backend.embed_query(text))
        vector: Vectors = self._shortened(self._backend.embed_plain([self._prompts.query + text]))[0]
        return vector

    def _shortened(self, vectors: Vectors) -> Vectors:
        return shorten(vectors, self.dimensions) if self.dimensions else vectors

    @cached_property
    def _prompts(self) -> Prompts:
        return Prompts(self.query_prompt, self.document_prompt).over(preset_of(self.model))

    @property
    def _backend(self) -> minilm.MiniLM | _Torch:
        return _loaded(self, self.id)


@lru_cache(KEPT)
def _loaded(settings: SentenceEmbedder, _id: str) -> minilm.MiniLM | _Torch:
    """Return one loaded model per settings and id. A folder that now holds another model has another id."""
    return minilm.MiniLM(settings._precision) if settings._on_cpu else _Torch(settings)


class _Torch:
    """A loaded sentence-transformers model."""

    def __init__(self, settings: SentenceEmbedder) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ModuleNotFoundError:
            raise ConfigError(
                f"embedder: {settings.model!r} needs sentence-transformers: pip install '{EXTRA}'"
            ) from None
        packaged = settings._packaged
        name = str(minilm.packaged_model()) if packaged else str(Path(settings.model).expanduser())
        try:
            self._model: Any = SentenceTransformer(name, device=settings.device, revision=settings.revision)
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"embedder.model: {settings.model!r} cannot be loaded: {str(error).splitlines()[0]}"
            ) from error
        if packaged:
            self._model.max_seq_length = minilm.MAX_LENGTH
        self._batch_size = settings.batch_size
        self.id = settings.id
        self.dim = int(self._model.get_embedding_dimension() or 0)
        special = self._model.tokenizer.num_special_tokens_to_add()
        self.max_tokens = self._model.max_seq_length and self._model.max_seq_length - special

    def count_tokens(self, text: str) -> int:
        return len(self._model.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self._encode(self._model.encode_document, list(texts)).reshape(len(texts), self.dim)

    def embed_plain(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts without a prompt of the model's configuration."""
        return self._encode(partial(self._model.encode, prompt=""), list(texts)).reshape(len(texts), self.dim)

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self._encode(self._model.encode_query, [text])[0]
        return vector

    def _encode(self, encode: Any, texts: list[str]) -> Vectors:
        vectors = encode(texts, batch_size=self._batch_size, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, np.float32)


def _folder_hash(folder: Path) -> str:
    """Return a hash of a model folder's files: name, size, and samples. Weights are too large to read at every start.

    The samples are close enough for a layer that was trained to change some of them, though all others were frozen.
    """
    return content_hash(*(_file_sample(path, folder) for path in sorted(folder.rglob("*")) if path.is_file()))


def _file_sample(path: Path, folder: Path) -> tuple[str, int, str]:
    size = path.stat().st_size
    found = []
    with path.open("rb") as file:
        for n in range(SAMPLES):
            file.seek(max(0, size - SAMPLE) * n // (SAMPLES - 1))
            found.append(file.read(SAMPLE))
    return path.relative_to(folder).as_posix(), size, bytes_hash(b"".join(found))
