"""Contract of every embedder, including the fakes; the packaged fast embedder equals Sentence Transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from findingaid import ConfigError, Embedder
from findingaid.embedding.hashing import HashEmbedder
from findingaid.embedding.minilm import MiniLM, check_digest, packaged_model
from findingaid.embedding.sentence import SentenceEmbedder
from findingaid.testing import CountingEmbedder

TEXTS = [
    "An index of documents.",
    "",
    "x",
    "naïve café 長さ 🗂",
    "word " * 1000,
    "MixedCase snake_case camelCase",
    "a\x00b \u200b c",
    "1.5 e.g. C++",
]
EVERY: list[Embedder] = [
    HashEmbedder(),
    HashEmbedder(dim=7),
    CountingEmbedder(),
    MiniLM(),
    SentenceEmbedder(),
    SentenceEmbedder(precision="int8"),
]


@pytest.fixture(scope="module")
def torch_embedder() -> SentenceEmbedder:
    return SentenceEmbedder(device="cpu")


@pytest.mark.parametrize("embedder", EVERY, ids=lambda e: f"{type(e).__name__}-{e.dim}-{e.id[-4:]}")
def test_vectors_are_finite_of_length_one_and_the_same_in_any_company(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS)

    assert vectors.shape == (len(TEXTS), embedder.dim)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(embedder.embed(TEXTS[::-1])[::-1], vectors)
    assert embedder.embed([]).shape == (0, embedder.dim)
    assert embedder.embed_query("a question").shape == (embedder.dim,)


def test_the_packaged_model_through_onnxruntime_equals_sentence_transformers(torch_embedder: SentenceEmbedder) -> None:
    fast, real = SentenceEmbedder(), torch_embedder

    np.testing.assert_allclose(fast.embed(TEXTS), real.embed(TEXTS), atol=1e-5)
    np.testing.assert_allclose(fast.embed_query("a question"), real.embed_query("a question"), atol=1e-5)
    assert (fast.id, fast.dim, fast.max_tokens) == (real.id, real.dim, real.max_tokens)


def test_int8_vectors_are_near_those_of_fp32_under_an_id_of_their_own() -> None:
    fp32, int8 = SentenceEmbedder(), SentenceEmbedder(precision="int8")
    texts = [text for text in TEXTS if text]

    assert (fp32.embed(texts) * int8.embed(texts)).sum(axis=1).min() > 0.97
    assert int8.id == f"{fp32.id}-int8"
    assert (int8.dim, int8.max_tokens) == (fp32.dim, fp32.max_tokens)
    assert int8.count_tokens(TEXTS[5]) == fp32.count_tokens(TEXTS[5])


@pytest.mark.parametrize("other", [{"device": "cpu"}, {"model": "another"}, {"revision": "abc"}])
def test_int8_of_anything_but_the_packaged_model_on_a_cpu_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^embedder\.precision: int8 is for the packaged .*$") as raised:
        SentenceEmbedder(precision="int8", **other)
    assert "\n" not in str(raised.value)


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_counting_by_words_never_undercounts(torch_embedder: SentenceEmbedder, text: str) -> None:
    """Check that the count is exact, except for separators that BERT drops and Python splits at.

    There it may count too many tokens.
    """
    exact, counted = torch_embedder.count_tokens(text), MiniLM().count_tokens(text)

    assert counted >= exact
    if not any(c in "\x1c\x1d\x1e\x1f\x85\x0b\x0c" for c in text):
        assert counted == exact


def test_what_is_near_in_meaning_is_near() -> None:
    dog, puppy, tax = SentenceEmbedder().embed(["a dog runs", "a puppy is running", "income tax law"])

    assert dog @ puppy > 0.6 > 0.2 > dog @ tax


def test_another_model_goes_through_sentence_transformers(torch_embedder: SentenceEmbedder) -> None:
    folder = SentenceEmbedder(model=str(packaged_model()))

    assert folder.id.startswith("model@")
    assert folder.id == SentenceEmbedder(model=str(packaged_model())).id
    np.testing.assert_allclose(folder.embed(["a text"]), torch_embedder.embed(["a text"]), atol=1e-5)


def test_weights_that_are_not_the_known_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")

    with pytest.raises(ConfigError, match="expected 53aa"):
        check_digest(tmp_path / "model.safetensors", "53aa")


def test_a_model_that_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(ConfigError, match=r"embedder\.model: .* cannot be loaded") as raised:
        SentenceEmbedder(model=str(tmp_path / "empty")).embed(["x"])
    assert "\n" not in str(raised.value)
