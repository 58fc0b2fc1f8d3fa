"""Cross-encoder in ONNX on a CPU, by onnxruntime, without torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

GRAPHS = ("onnx/model.onnx", "model.onnx")
"""Where the folder of a model has its graph, as exporters write it."""

MAX_LENGTH = 512
"""Most tokens of query and text, if the model does not say so itself."""


def graph_in(folder: Path) -> Path | None:
    """Return the graph of a model's folder; None if there is none, or no tokenizer.json beside it."""
    found = [folder / name for name in GRAPHS if (folder / name).is_file()]
    return found[0] if found and (folder / "tokenizer.json").is_file() else None


class OnnxCrossEncoder:
    """A loaded graph that takes pairs of texts and gives one score each, and its tokenizer."""

    def __init__(self, folder: Path, max_length: int | None, batch_size: int) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        self._session = onnxruntime.InferenceSession(str(graph_in(folder)), providers=["CPUExecutionProvider"])
        self._inputs = {each.name for each in self._session.get_inputs()}
        self._batch_size = batch_size
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        config = folder / "tokenizer_config.json"
        limit = json.loads(config.read_text()).get("model_max_length") if config.is_file() else None
        known = limit if isinstance(limit, int) and limit < 1_000_000 else MAX_LENGTH
        self._tokenizer.enable_truncation(max_length or known)
        self._tokenizer.enable_padding()

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the score of each text, between 0 and 1. Raises ValueError if the model has several classes."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # texts of a length need little padding
        found = np.empty(len(texts), np.float64)
        for start in range(0, len(order), self._batch_size):
            places = order[start : start + self._batch_size]
            found[places] = self._logits([(query, texts[i]) for i in places])
        return [float(score) for score in 1 / (1 + np.exp(-found))]

    def _logits(self, pairs: Sequence[tuple[str, str]]) -> Any:
        encoded = self._tokenizer.encode_batch(list(pairs))
        columns = {
            "input_ids": [each.ids for each in encoded],
            "attention_mask": [each.attention_mask for each in encoded],
            "token_type_ids": [each.type_ids for each in encoded],
        }
        given = {name: np.asarray(column, np.int64) for name, column in columns.items() if name in self._inputs}
        logits = np.asarray(self._session.run(None, given)[0], np.float64)
        if logits.size != len(pairs):
            raise ValueError(f"the model has {logits.shape[-1]} output classes: choose a model with a single score")
        return logits.reshape(len(pairs))
