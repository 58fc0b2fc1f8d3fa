"""Search over the published records: modes, filters, order, and questions that cannot be asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from findingaid import Corpus, FindingAid, QueryError, StoreError
from findingaid.embedding.sentence import SentenceEmbedder
from findingaid.query import reciprocal_ranks
from findingaid.store import Store
from findingaid.strategies.whole_text import WholeText
from findingaid.testing import CountingEmbedder, MemorySource

TEXTS = {
    "pets": "Dogs and cats live with people in their homes.",
    "tax": "Income tax is levied by the state on earnings.",
    "code": "The function parse_header reads the first line of a request.",
    "quote": "She said: it's \"fine\", isn't it? (AND more)",
}


@pytest.fixture(scope="module")
def aid(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    """Two corpora with the real model."""
    other = MemorySource({"pets": "Goldfish swim in a bowl.", "rocks": "Granite is a hard stone."})
    corpora = {
        "one": Corpus("one", MemorySource(dict(TEXTS), {"pets": {"owner": "anna"}}), WholeText()),
        "two": Corpus("two", other, WholeText(kind="note")),
    }
    aid = FindingAid(Store(str(tmp_path_factory.mktemp("search") / "index")), SentenceEmbedder(), corpora)
    assert aid.index().ok
    return aid


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_meaning_finds_what_shares_no_word(aid: FindingAid, mode: str) -> None:
    assert aid.search("puppies and kittens", 1, mode=mode, corpora=["one"])[0].artifact_id == "pets"  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_words_find_what_has_them(aid: FindingAid, mode: str) -> None:
    assert aid.search("parse_header", 1, mode=mode)[0].artifact_id == "code"  # type: ignore[arg-type]


@pytest.mark.parametrize("query", ["dog", "homes", "living"])
def test_words_are_matched_by_their_stem(aid: FindingAid, query: str) -> None:
    assert [hit.artifact_id for hit in aid.search(query, mode="lexical")] == ["pets"]


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
@pytest.mark.parametrize(
    "query", ['it\'s "fine"', "(AND", "a OR b AND", "*", "+must -not", "\\", "naïve 🗂", "field:value", "~1"]
)
def test_any_text_is_a_query(aid: FindingAid, mode: str, query: str) -> None:
    aid.search(query, mode=mode)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_hits_come_best_first(aid: FindingAid, mode: str) -> None:
    scores = [hit.score for hit in aid.search("dogs in homes", mode=mode)]  # type: ignore[arg-type]

    assert scores == sorted(scores, reverse=True)


def test_k_hits_come_whenever_k_exist(aid: FindingAid) -> None:
    assert len(aid.search("anything", 6, mode="dense")) == 6
    assert len(aid.search("anything", 100, mode="hybrid")) == 6
    assert len(aid.search("anything", 2, mode="dense", where="artifact_id = 'pets'")) == 2


def test_filters_apply_before_ranking(aid: FindingAid) -> None:
    assert {hit.corpus for hit in aid.search("stone", 10, corpora=["two"])} == {"two"}
    assert {hit.surface_kind for hit in aid.search("stone", 10, surfaces=["note"])} == {"note"}
    assert [hit.artifact_id for hit in aid.search("stone", 10, where="artifact_id LIKE 'ta%'")] == ["tax"]
    assert aid.search("stone", 10, where="corpus = 'one' AND surface_kind = 'note'") == []


def test_a_hit_carries_its_filter_fields(aid: FindingAid) -> None:
    assert aid.search("dogs", 1, corpora=["one"])[0].metadata["owner"] == "anna"


@pytest.mark.parametrize("where", ["nope = 1", "artifact_id = ", "artifact_id", "1; DROP TABLE records", "text ="])
def test_a_filter_that_cannot_be_evaluated_lists_the_fields(aid: FindingAid, where: str) -> None:
    with pytest.raises(QueryError, match="Fields: record_id, corpus") as raised:
        aid.search("x", where=where)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("query", "k", "message"), [("", 1, "empty"), ("  ", 1, "empty"), ("x", 0, "at least 1")])
def test_a_question_that_cannot_be_asked_says_why(aid: FindingAid, query: str, k: int, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        aid.search(query, k)


def test_an_unknown_mode_lists_the_known(aid: FindingAid) -> None:
    with pytest.raises(QueryError, match="Known: dense, lexical, hybrid"):
        aid.search("x", mode="fuzzy")  # type: ignore[arg-type]


def test_another_embedder_than_the_index_was_made_with_is_refused(aid: FindingAid) -> None:
    other = FindingAid(aid.store, CountingEmbedder(), aid.corpora)

    with pytest.raises(StoreError, match=r"made with embedder all-MiniLM-L6-v2@.* says counting-hash-384"):
        other.search("x")
    assert other.search("dogs", mode="lexical")


def test_a_corpus_that_is_no_longer_configured_is_not_searched(aid: FindingAid) -> None:
    without = FindingAid(aid.store, aid.embedder, {"one": aid.corpora["one"]})

    assert {hit.corpus for hit in without.search("stone", 10)} == {"one"}


def test_fusion_rewards_agreement_and_breaks_ties_by_id() -> None:
    assert reciprocal_ranks([["a", "b"], ["b", "c"]]) == [("b", 1 / 62 + 1 / 61), ("a", 1 / 61), ("c", 1 / 62)]
    assert [item for item, _ in reciprocal_ranks([["z"], ["a"]])] == ["a", "z"]


def test_a_vector_index_keeps_every_hit_that_a_filter_leaves(
    make_aid: Callable[..., FindingAid], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past a size the index is approximate; a narrow filter must still fill k (the trap of IVF with a prefilter)."""
    monkeypatch.setattr("findingaid.store.store.VECTOR_INDEX_ROWS", 1000)
    source = MemorySource({f"{i:04d}": f"text number {i}" for i in range(1200)})
    aid = make_aid(source=source, strategy=WholeText(), synthesizer=None)
    aid.index()

    hits = aid.search("text", 10, mode="dense", where="artifact_id < '0010'")

    assert any(index.field_names == ["vector"] for index in aid.store.published().describe_indices())
    assert len(hits) == 10
