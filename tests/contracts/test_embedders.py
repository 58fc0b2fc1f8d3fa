"""Contract of every embedder, including the fakes; the packaged fast embedder equals Sentence Transformers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from findingaid import ConfigError, Corpus, Embedder, FindingAid
from findingaid.embedding import minilm
from findingaid.embedding.endpoint import OpenAIEmbedder
from findingaid.embedding.hashing import HashEmbedder
from findingaid.embedding.minilm import MODEL, MiniLM, check_digest, packaged_model, rounded
from findingaid.embedding.prompts import Prompts, preset_of
from findingaid.embedding.sentence import SentenceEmbedder
from findingaid.errors import EmbedError
from findingaid.store import Store
from findingaid.strategies import Chunked, bound
from findingaid.testing import CountingEmbedder, MemorySource, OpenAIServer, faults

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
PACKAGED = MiniLM()
EVERY: list[Embedder] = [
    HashEmbedder(),
    HashEmbedder(dim=7),
    CountingEmbedder(),
    PACKAGED,
    SentenceEmbedder(),
    SentenceEmbedder(precision="fp32"),
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


@pytest.mark.slow
def test_the_packaged_model_through_onnxruntime_equals_sentence_transformers(torch_embedder: SentenceEmbedder) -> None:
    fast, real = SentenceEmbedder(precision="fp32"), torch_embedder

    np.testing.assert_allclose(fast.embed(TEXTS), real.embed(TEXTS), atol=1e-5)
    np.testing.assert_allclose(fast.embed_query("a question"), real.embed_query("a question"), atol=1e-5)
    assert (fast.id, fast.dim, fast.max_tokens) == (real.id, real.dim, real.max_tokens)
    assert list(map(fast.count_tokens, TEXTS)) == list(map(real.count_tokens, TEXTS))


def test_int8_is_the_default_on_a_cpu_near_fp32_and_with_an_id_of_its_own(torch_embedder: SentenceEmbedder) -> None:
    fp32, int8 = SentenceEmbedder(precision="fp32"), SentenceEmbedder()
    texts = [text for text in TEXTS if text]

    assert (fp32.embed(texts) * int8.embed(texts)).sum(axis=1).min() > 0.99
    assert int8.id == SentenceEmbedder(precision="int8").id != fp32.id == torch_embedder.id
    assert (int8.dim, int8.max_tokens) == (fp32.dim, fp32.max_tokens)
    assert int8.count_tokens(TEXTS[5]) == fp32.count_tokens(TEXTS[5])


def test_int8_vectors_of_another_processor_are_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that differ in the last digit stand for a processor that adds up in another order."""
    here, there = MiniLM("int8"), MiniLM("int8")
    texts = [text for text in TEXTS if text] + ["Word", "A short question?", " ".join(map(str, range(300)))]
    expected = here.embed(texts)
    random = np.random.default_rng(0)

    def other(weights: Mapping[str, Any]) -> dict[str, Any]:
        made = rounded(weights)
        return made | {
            k: v * (1 + random.normal(0, 2e-7, v.shape)).astype(v.dtype)
            for k, v in made.items()
            if v.dtype == np.float32
        }

    monkeypatch.setattr(minilm, "rounded", other)
    vectors = there.embed(texts)

    assert not np.array_equal(vectors, expected)
    assert (vectors * expected).sum(axis=1).min() > 0.999


@pytest.mark.parametrize("other", [{"device": "cpu"}, {"model": "another"}, {"revision": "abc"}])
def test_int8_of_anything_but_the_packaged_model_on_a_cpu_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^embedder\.precision: int8 is for the packaged .*$") as raised:
        SentenceEmbedder(precision="int8", **other)
    assert "\n" not in str(raised.value)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(packaged_model() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=100))
@example("Many words, unbelievably. " * 100)
@example("0\x0cLAO")
@example("page\x0b one\x0c\x0ctwo \x85 \x1cthree")
def test_counting_by_words_is_exact(tokenizer: Tokenizer, text: str) -> None:
    assert PACKAGED.count_tokens(text) == len(tokenizer.encode(text, add_special_tokens=False).ids)


def test_what_is_near_in_meaning_is_near() -> None:
    dog, puppy, tax = SentenceEmbedder().embed(["a dog runs", "a puppy is running", "income tax law"])

    assert dog @ puppy > 0.6 > 0.2 > dog @ tax


@pytest.mark.slow
def test_another_model_goes_through_sentence_transformers(torch_embedder: SentenceEmbedder) -> None:
    folder = SentenceEmbedder(model=str(packaged_model()))

    assert folder.id.startswith("model@")
    assert folder.id == SentenceEmbedder(model=str(packaged_model())).id
    np.testing.assert_allclose(folder.embed(["a text"]), torch_embedder.embed(["a text"]), atol=1e-5)


def test_weights_that_are_not_the_known_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")

    with pytest.raises(ConfigError, match="expected 53aa"):
        check_digest(tmp_path / "model.safetensors", "53aa")


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(ConfigError, match=r"embedder\.model: .* cannot be loaded") as raised:
        SentenceEmbedder(model=str(tmp_path / "empty")).embed(["x"])
    assert "\n" not in str(raised.value)


# -- prompts and dimensions --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as started:
        yield started


def test_prompts_precede_queries_and_texts_and_are_part_of_the_id() -> None:
    plain, prompted = SentenceEmbedder(), SentenceEmbedder(query_prompt="query: ", document_prompt="passage: ")

    np.testing.assert_array_equal(prompted.embed(["a text"]), plain.embed(["passage: a text"]))
    np.testing.assert_array_equal(prompted.embed_query("a question"), plain.embed_query("query: a question"))
    assert len({plain.id, prompted.id, SentenceEmbedder(query_prompt="query: ").id}) == 3
    assert plain.max_tokens
    assert prompted.max_tokens == plain.max_tokens - plain.count_tokens("passage: ")


@pytest.mark.slow
def test_a_folder_named_like_a_well_known_model_gets_its_prompts(tmp_path: Path) -> None:
    folder = tmp_path / "e5-small-v2"
    folder.symlink_to(packaged_model())
    embedder, plain = SentenceEmbedder(model=str(folder)), SentenceEmbedder(precision="fp32")
    own = SentenceEmbedder(model=str(folder), query_prompt="", document_prompt="")

    np.testing.assert_allclose(embedder.embed(["a text"]), plain.embed(["passage: a text"]), atol=1e-5)
    np.testing.assert_allclose(embedder.embed_query("a"), plain.embed_query("query: a"), atol=1e-5)
    np.testing.assert_allclose(own.embed_query("a"), plain.embed_query("a"), atol=1e-5)
    assert own.id != embedder.id


@pytest.mark.parametrize("megabytes", [1, 100])
def test_a_layer_in_the_middle_of_a_models_weights_changes_its_id(tmp_path: Path, megabytes: int) -> None:
    """Whoever trains a few layers and freezes the others writes a file with the same size, begin and end."""
    weights, layer = tmp_path / "model.safetensors", megabytes << 14
    with weights.open("wb") as file:
        file.truncate(megabytes << 20)
    before = SentenceEmbedder(model=str(tmp_path)).id

    with weights.open("r+b") as file:
        file.seek(megabytes << 19)
        file.write(b"x" * layer)

    assert SentenceEmbedder(model=str(tmp_path)).id != before


@pytest.mark.parametrize(
    ("model", "query", "document"),
    [
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("nomic-embed-text:v1.5", "search_query: ", "search_document: "),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("MongoDB/mdbr-leaf-ir", "Represent this sentence for searching relevant passages: ", ""),
        ("BAAI/bge-m3", None, None),
        (MODEL, None, None),
    ],
)
def test_well_known_models_have_their_prompts_by_name(model: str, query: str | None, document: str | None) -> None:
    assert preset_of(model) == Prompts(query, document)


def test_dimensions_keep_the_first_numbers_of_a_vector() -> None:
    whole, short = SentenceEmbedder(), SentenceEmbedder(dimensions=64)
    first = whole.embed(["a text"])[:, :64]

    assert (short.dim, short.id) == (64, f"{whole.id}-64d")
    np.testing.assert_allclose(short.embed(["a text"]), first / np.linalg.norm(first), atol=1e-6)
    assert np.linalg.norm(short.embed_query("a text")) == pytest.approx(1)
    with pytest.raises(ConfigError, match=r"embedder\.dimensions: 1000, but the model's vectors have 384"):
        SentenceEmbedder(dimensions=1000).embed(["a text"])


# -- endpoints ---------------------------------------------------------------------------------------------


def test_an_endpoint_embeds_in_batches_with_prompts_and_at_length_one(server: OpenAIServer) -> None:
    embedder = OpenAIEmbedder("e5-small-v2", base_url=server.base_url, batch_size=2)
    expected = HashEmbedder(server.dimensions).embed(["passage: a", "passage: b", "passage: "])

    np.testing.assert_allclose(embedder.embed(["a", "b", ""]), expected, atol=1e-5)
    assert [request.json["input"] for request in server.requests[-2:]] == [["passage: a", "passage: b"], ["passage: "]]
    np.testing.assert_allclose(
        embedder.embed_query("a"), HashEmbedder(server.dimensions).embed_query("query: a"), atol=1e-5
    )
    assert embedder.embed([]).shape == (0, embedder.dim) == (0, server.dimensions)
    assert isinstance(embedder, Embedder)


def test_an_endpoint_is_known_by_model_prompts_and_dimensions_and_not_by_its_address(server: OpenAIServer) -> None:
    made = [
        OpenAIEmbedder("m", base_url=server.base_url),
        OpenAIEmbedder("m", base_url="http://other/v1"),
        OpenAIEmbedder("m", base_url=server.base_url, dimensions=8),
        OpenAIEmbedder("m", base_url=server.base_url, query_prompt="q: "),
    ]

    assert made[0].id == made[1].id
    assert len({embedder.id for embedder in made}) == 3
    assert made[2].dim == 8
    assert np.linalg.norm(made[2].embed(["a"])) == pytest.approx(1)
    assert made[0].embed([""]).shape == (1, server.dimensions)  # servers refuse an empty text


def test_a_search_over_an_index_of_an_endpoint_finds_its_text(server: OpenAIServer, tmp_path: Path) -> None:
    embedder = OpenAIEmbedder("any", base_url=server.base_url)
    corpus = Corpus("docs", MemorySource({"a.md": "one text", "b.md": "another"}), bound(Chunked(), embedder))
    aid = FindingAid(Store(str(tmp_path / "index")), embedder, {"docs": corpus})
    aid.index()

    assert aid.search("one text", mode="dense", k=1)[0].artifact_id == "a.md"
    assert aid.verify() == []


def test_the_wrong_key_and_a_broken_answer_are_one_line(server: OpenAIServer) -> None:
    with OpenAIServer(api_key="right") as locked:
        wrong = OpenAIEmbedder("m", base_url=locked.base_url, api_key="wrong")
        with pytest.raises(ConfigError, match=r"^embedder: m at .*401: the endpoint does not know the API key"):
            wrong.embed(["a"])
    server.when(lambda request: request.path.endswith("embeddings"), faults.server_error(400), 1)
    with pytest.raises(EmbedError, match=r"^m at 127") as raised:
        OpenAIEmbedder("m", base_url=server.base_url).embed(["a"])
    assert "\n" not in str(raised.value)
