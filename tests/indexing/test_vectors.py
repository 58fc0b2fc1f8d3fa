"""A vector is checked before it is cached, and a text that cannot be embedded fails its own artifact alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from findingaid import ConfigError, Corpus, FindingAid, StoreError
from findingaid.embedding.endpoint import OpenAIEmbedder
from findingaid.errors import EmbedError
from findingaid.identity.hashes import call_key
from findingaid.indexing.vectors import Embeddings, dimensions_of
from findingaid.llm.rate_limits import FAILURES
from findingaid.model import Vectors
from findingaid.store import Store, repair, schemas
from findingaid.store.schemas import KNOWN_TEXT
from findingaid.strategies import WholeText
from findingaid.testing import CountingEmbedder, MemorySource, OpenAIServer, faults
from findingaid.testing.faults import Fault

TEXTS = {f"hash{i}": f"Pier {i} is open." for i in range(20)}


class Spoiled(CountingEmbedder):
    """Changes the vectors of texts about pier 3 by `spoil`, which gets the whole matrix and the row."""

    spoil: Callable[[Any, int], Any] = staticmethod(lambda vectors, row: vectors)

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors: Any = super().embed(texts).astype(np.float32)
        for row, text in enumerate(texts):
            if "Pier 3 " in text:
                vectors = self.spoil(vectors, row)
        return vectors


def put(value: float) -> Callable[[Any, int], Any]:
    """Return a function that sets a row to one value."""

    def spoil(vectors: Any, row: int) -> Any:
        vectors[row] = value
        return vectors

    return spoil


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(str(tmp_path / "index"))
    repair.prepare(made, CountingEmbedder().dim)
    return made


@pytest.mark.parametrize(
    "spoil",
    [
        put(0.0),
        put(np.nan),
        put(np.inf),
        put(1e6),
        lambda vectors, _: vectors[:-1],
        lambda vectors, _: vectors[:, :-1],
        lambda vectors, _: [*vectors.tolist()[:-1], ["a"]],
        lambda vectors, _: None,
    ],
    ids=["zeros", "NaN", "infinite", "too long for float16", "one less", "other length", "words", "none"],
)
def test_one_bad_vector_fails_its_text_alone_and_is_not_cached(store: Store, spoil: Any) -> None:
    embedder = Spoiled()
    embedder.spoil = spoil
    embeddings = Embeddings(embedder, store)

    embeddings.make(TEXTS)

    assert set(embeddings.failures) == {"hash3"}
    assert set(embeddings.vectors) == TEXTS.keys() - {"hash3"}
    assert set(Embeddings(CountingEmbedder(), store).load(TEXTS)) == {"hash3"}


class Constant(CountingEmbedder):
    """Gives every text the vector of one text."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        return super().embed(["the same"] * len(texts))


@pytest.mark.parametrize("calls", [[2], [7], [20], [1, 1], [1, 2]])
def test_one_vector_for_all_texts_is_noticed_in_calls_of_any_size_and_taken_from_the_cache(
    store: Store, calls: list[int]
) -> None:
    texts = [f"Pier {n} has number{n}." for n in range(sum(calls))]

    for count in calls[:-1]:
        Embeddings(Constant(), store).make({text: text for text in texts[:count]})
    with pytest.raises(ConfigError, match="same vector for different texts"):
        Embeddings(Constant(), store).make({text: text for text in texts[-calls[-1] :]})

    assert store.count("embeddings") == 0


class Alone(Constant):
    """Gives one vector for any number of texts, as a proxy does that keeps the first answer for all requests."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        return super().embed(texts)[:1]


def test_one_vector_for_all_texts_is_noticed_also_if_texts_are_embedded_one_by_one(store: Store) -> None:
    with pytest.raises(ConfigError, match="same vector for different texts"):
        Embeddings(Alone(), store).make({text: text for text in ("Pier one is open.", "The ferry leaves at nine.")})

    assert store.count("embeddings") == 0


class FirstOnly(CountingEmbedder):
    """Embeds the first text of a call, and gives the others its vector."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.repeat(super().embed(texts[:1]), len(texts), axis=0)


@pytest.mark.parametrize("count", [2, 7, 64])
def test_a_server_that_embeds_only_the_first_text_of_a_call_is_noticed(store: Store, count: int) -> None:
    texts = [f"Pier {n} has number{n}." for n in range(count)]

    with pytest.raises(ConfigError, match="same vector for different texts"):
        Embeddings(FirstOnly(), store).make({text: text for text in texts})

    assert store.count("embeddings") == 0


class Uncased(CountingEmbedder):
    """Gives texts that differ in case or punctuation only one vector."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        return super().embed([re.sub(r"\W", "", text).lower() for text in texts])


@pytest.mark.parametrize("texts", [["Pier", "pier", "PIER!"], ["?", "!!"]])
def test_texts_that_a_model_cannot_tell_apart_may_have_one_vector(store: Store, texts: list[str]) -> None:
    for given in ([texts[0]], texts[1:], texts):
        Embeddings(Uncased(), store).make({text: text for text in given})

    assert Embeddings(Uncased(), store).load({text: text for text in texts}) == {}


@pytest.mark.parametrize("bad", [[0.0] * 384, [1.0] * 384, [float("nan")] * 384, [1.0], []])
def test_a_cached_vector_that_is_not_sound_is_not_there_and_is_made_anew(store: Store, bad: list[float]) -> None:
    embedder = CountingEmbedder()
    row = {"key": call_key(embedder.id, "hash3"), "producer_id": embedder.id, "vector": bad}
    store.append("embeddings", pa.Table.from_pylist([row], schema=schemas.EMBEDDINGS))
    embeddings = Embeddings(embedder, store, embedder.dim)

    assert embeddings.load(TEXTS) == TEXTS
    embeddings.make(TEXTS)
    assert Embeddings(embedder, store, embedder.dim).load(TEXTS) == {}


# -- endpoints ---------------------------------------------------------------------------------------------


def made(tmp_path: Path, server: OpenAIServer, texts: dict[str, str], **params: Any) -> FindingAid:
    """Return an index of texts, each in one record, embedded by a server."""
    embedder = OpenAIEmbedder("m", base_url=server.base_url, retries=0, **params)
    corpus = Corpus("docs", MemorySource(dict(texts)), WholeText())
    return FindingAid(Store(str(tmp_path / "index")), embedder, {"docs": corpus})


def asks_about(word: str) -> Any:
    """Return a predicate for requests to embed a text with a word."""
    return lambda request: any(word in text for text in request.json.get("input", ()))


@pytest.mark.parametrize(
    "fault",
    [
        Fault("llama.cpp", 500, {"message": "input (681 tokens) is too large to process"}),
        Fault("TEI", 413, {"message": "inputs must have less than 512 tokens"}),
        Fault("Ollama", 500, {"message": "json: unsupported value: NaN"}),
        Fault("firewall", 403, {"message": "forbidden words"}),
        Fault("page", raw=b"<html>no</html>"),
    ],
    ids=lambda fault: fault.name,
)
def test_texts_that_a_server_cannot_take_fail_alone_however_many_they_are(
    server: OpenAIServer, store: Store, fault: Fault
) -> None:
    bad = {f"a{i}": f"long text {i}" for i in range(2 * FAILURES)}
    good = {f"b{i}": f"Pier {i} is open on day {i}." for i in range(2 * FAILURES + 1)}
    server.when(asks_about("long"), fault)
    embeddings = Embeddings(OpenAIEmbedder("m", base_url=server.base_url, retries=0), store)

    embeddings.make({**bad, **good})

    assert embeddings.failures.keys() == bad.keys()
    assert embeddings.vectors.keys() == good.keys()


def test_an_endpoint_that_is_down_is_left_alone_and_nothing_that_is_published_goes(
    server: OpenAIServer, tmp_path: Path
) -> None:
    texts = {f"{i}.md": f"Pier {i} is open." for i in range(12)}
    aid = made(tmp_path, server, {"0.md": texts["0.md"]})
    assert aid.index().ok
    server.when(lambda _: True, faults.server_error())
    sent = len(server.requests)
    aid = made(tmp_path, server, texts)

    report = aid.index()

    assert {failure.kind for failure in report.corpora["docs"].failed} <= {"transport", "unavailable"}
    assert len(report.corpora["docs"].failed) == 11
    assert len(server.requests) - sent <= FAILURES + 3
    server.recover()
    aid = made(tmp_path, server, texts)
    assert aid.index().ok
    assert len(aid.search("Pier", 50)) == 12


def test_a_server_without_the_words_of_its_model_gets_what_is_meant(server: OpenAIServer) -> None:
    embedder = OpenAIEmbedder("m", base_url=server.base_url)
    coded = "AACAPwAAAAAAAAAAAAAAAA=="  # 1, 0, 0, 0 as float32
    answer = {"data": [{"index": 1, "embedding": coded}, {"index": 0, "embedding": ["0", "1", "0", "0"]}]}
    server.when(lambda _: True, Fault("base64", raw=json.dumps(answer).encode()))

    assert embedder.embed(["a", "b"]).tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]


@pytest.mark.parametrize(
    "data",
    [
        [{"index": 0, "embedding": [1.0]}],
        [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}],
        [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}, {"index": 1, "embedding": [0.5]}],
        [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 0.0]}],
        [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": None}],
        [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": "words"}],
        [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [True]}],
        None,
    ],
)
def test_vectors_that_cannot_be_told_apart_are_refused(server: OpenAIServer, data: Any) -> None:
    server.when(lambda _: True, Fault("vectors", raw=json.dumps({"data": data}).encode()))

    with pytest.raises(EmbedError) as raised:
        OpenAIEmbedder("m", base_url=server.base_url).embed(["a", "b"])
    assert raised.value.kind == "parse"


def test_a_model_replaced_under_its_name_is_one_line_with_the_remedy(server: OpenAIServer, tmp_path: Path) -> None:
    texts = {"a.md": "Pier 1 is open.", "b.md": "Pier 2 is open."}
    assert made(tmp_path, server, texts).index().ok
    server.dimensions = 24
    changed = made(tmp_path, server, {**texts, "c.md": "Pier 3 is open."})

    message = r"embedder: openai-m.* gives vectors of 24 dimensions, .* have 32: .*embedder\.revision"
    for _ in range(2):
        with pytest.raises(ConfigError, match=message) as raised:
            changed.index()
        with pytest.raises(StoreError, match=message):
            changed.search("Pier 1 is open.", mode="dense")
    assert "\n" not in str(raised.value)
    assert changed.search("Pier 1 is open.", mode="lexical")

    mended = made(tmp_path, server, {**texts, "c.md": "Pier 3 is open."}, revision="2")
    assert mended.index().ok
    assert mended.search("Pier 3 is open.", mode="dense", k=1)[0].artifact_id == "c.md"


def test_another_model_of_the_same_dimensions_is_noticed_before_anything_of_it_is_kept(
    server: OpenAIServer, tmp_path: Path
) -> None:
    texts = {"a.md": "Pier 1 is open.", "b.md": "Pier 2 is open."}
    assert made(tmp_path, server, texts).index().ok
    made(tmp_path, server, texts).purge()
    server.loaded = "another"
    more = {**texts, "c.md": "Pier 3 is open."}
    changed = made(tmp_path, server, more)

    message = r"^embedder: openai-m gives a known text another vector than before \(cosine .*embedder\.revision"
    for _ in range(2):
        with pytest.raises(ConfigError, match=message):
            changed.index()
        with pytest.raises(StoreError, match=message):
            changed.search("Pier 1 is open.", mode="dense")
    assert changed.search("Pier 1 is open.", mode="lexical")

    server.loaded = ""
    assert made(tmp_path, server, more).index().ok
    server.loaded = "another"
    new = made(tmp_path, server, more, revision="2")
    assert new.index().ok
    assert new.search("Pier 3 is open.", mode="dense", k=1)[0].artifact_id == "c.md"


def test_the_vector_of_the_known_text_is_made_and_stored_once(server: OpenAIServer, store: Store) -> None:
    embeddings = Embeddings(OpenAIEmbedder("m", base_url=server.base_url), store)

    for key, text in TEXTS.items():
        embeddings.make({key: text})

    assert sum(request.json["input"] == [KNOWN_TEXT] for request in server.requests) == 1
    assert store.count("embeddings") == len(TEXTS) + 1


def test_the_known_text_is_embedded_again_once_for_all_searches_and_not_for_a_run_without_new_texts(
    server: OpenAIServer, tmp_path: Path
) -> None:
    texts = {f"{i}.md": f"Pier {i} is open." for i in range(5)}
    made(tmp_path, server, texts).index()
    again = made(tmp_path, server, texts)
    sent = len(server.requests)

    again.index()
    assert len(server.requests) == sent
    again.search("Pier", mode="dense")
    again.search("Rope", mode="dense")

    asked = [text for request in server.requests[sent:] for text in request.json["input"]]
    assert sorted(asked) == sorted(["Pier", "Rope", KNOWN_TEXT])


def test_a_run_without_new_texts_says_that_the_model_was_replaced_and_what_to_do(
    server: OpenAIServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = {"a.md": "Pier 1 is open."}
    made(tmp_path, server, texts).index()
    server.dimensions = 24

    assert made(tmp_path, server, texts).index(force=True).ok

    (said,) = (message for message in caplog.messages if "check finds_itself: not made" in message)
    assert re.search(r"gives vectors of 24 dimensions, .* have 32: .*embedder\.revision", said)


def test_dimensions_are_asked_for_once_in_a_store(server: OpenAIServer, tmp_path: Path) -> None:
    texts = {"a.md": "Pier 1 is open."}
    made(tmp_path, server, texts).index()
    sent = len(server.requests)
    again = made(tmp_path, server, texts)

    assert again.index().ok
    assert dimensions_of(again.embedder, again.store) == 32
    assert len(server.requests) == sent


def test_a_query_without_a_sound_vector_is_an_error_and_asked_again(server: OpenAIServer, tmp_path: Path) -> None:
    aid = made(tmp_path, server, {"a.md": "Pier 1 is open."})
    aid.index()
    zeros = {"data": [{"index": 0, "embedding": [0.0] * 32}]}
    server.when(lambda _: True, Fault("zeros", raw=json.dumps(zeros).encode()), 1)

    with pytest.raises(EmbedError, match="not finite or of zeros"):
        aid.search("pier", mode="dense")
    assert aid.search("pier", mode="dense")
