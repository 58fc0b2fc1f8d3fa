"""Search over the published records: modes, filters, order, and invalid queries."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from inspect import getdoc
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from findingaid import ConfigError, Corpus, FindingAid, QueryError, StoreError
from findingaid.embedding.sentence import SentenceEmbedder
from findingaid.model import Mode
from findingaid.query.search import Recency, Request
from findingaid.query.search.components import SearchDefaults
from findingaid.query.search.fusion import CANDIDATES, Ranking, fuse
from findingaid.query.search.options import DESCRIPTIONS
from findingaid.query.search.reader import RowHit
from findingaid.store import Store, schemas
from findingaid.store.schemas import RECORDS_VERSION
from findingaid.strategies.chunked import Chunked
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
        "one": Corpus("one", MemorySource(dict(TEXTS), {"pets": {"owner": "anna", "year": 2026}}), WholeText()),
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
    "query",
    [
        'it\'s "fine"',
        '"all of it quoted"',
        "(AND",
        "a OR b AND",
        "+must -not",
        "naïve",
        "🗂",
        "field:value",
        "~1",
        "two\nlines",
        "nul\0nul",
        "half \ud83d",
        "\u202eright to left",
        "日本語",
        "e\u0301",
        "\ufeffmark",
        "dogs " * 2_000,
    ],
)
def test_any_text_is_a_query(aid: FindingAid, mode: str, query: str) -> None:
    found = aid.search(query, mode=mode)  # type: ignore[arg-type]

    assert mode == "lexical" or len(found) == 6


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_hits_come_best_first(aid: FindingAid, mode: str) -> None:
    scores = [hit.score for hit in aid.search("dogs in homes", mode=mode)]  # type: ignore[arg-type]

    assert scores == sorted(scores, reverse=True)


def test_k_hits_come_whenever_k_exist(aid: FindingAid) -> None:
    assert len(aid.search("anything", 6, mode="dense")) == 6
    assert len(aid.search("anything", 10_000, mode="dense")) == 6
    assert len(aid.search("anything", 100, mode="hybrid")) == 6
    assert len(aid.search("anything", 2, mode="dense", where="artifact_id = 'pets'")) == 2


def test_filters_apply_before_ranking(aid: FindingAid) -> None:
    assert {hit.corpus for hit in aid.search("stone", 10, corpora=["two"])} == {"two"}
    assert {hit.surface_kind for hit in aid.search("stone", 10, surfaces=["note"])} == {"note"}
    assert [hit.artifact_id for hit in aid.search("stone", 10, where="artifact_id LIKE 'ta%'")] == ["tax"]
    assert aid.search("stone", 10, where="corpus = 'one' AND surface_kind = 'note'") == []


def test_help_names_every_option_and_another_one_is_refused(aid: FindingAid) -> None:
    told = getdoc(FindingAid.search) or ""

    assert all(f"- `{name}`: {meaning}" in told for name, meaning in DESCRIPTIONS.items())
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        aid.search("stone", depth=3)  # type: ignore[call-arg]  # as the type checker says, too


def test_an_option_that_is_none_has_its_default(aid: FindingAid) -> None:
    empty: Any = dict.fromkeys(DESCRIPTIONS)

    assert aid.search("stone", **empty) == aid.search("stone") != []


def test_a_hit_carries_its_filter_fields(aid: FindingAid) -> None:
    assert aid.search("dogs", 1, corpora=["one"])[0].metadata["owner"] == "anna"


@pytest.mark.parametrize("where", ["nope = 1", "artifact_id = ", "artifact_id", "1; DROP TABLE records", "text ="])
def test_a_filter_that_cannot_be_evaluated_lists_the_fields(aid: FindingAid, where: str) -> None:
    with pytest.raises(QueryError, match="Fields: record_id, corpus") as raised:
        aid.search("x", where=where)
    assert "\n" not in str(raised.value)


def test_another_embedder_than_the_index_was_made_with_is_refused(aid: FindingAid) -> None:
    other = FindingAid(aid.store, CountingEmbedder(), aid.corpora)

    with pytest.raises(StoreError, match=r"made with embedder all-MiniLM-L6-v2@.* says counting-hash-384"):
        other.search("x")
    assert other.search("dogs", mode="lexical")


def test_a_corpus_that_is_no_longer_configured_is_not_searched(aid: FindingAid) -> None:
    without = FindingAid(aid.store, aid.embedder, {"one": aid.corpora["one"]})

    assert {hit.corpus for hit in without.search("stone", 10)} == {"one"}


# -- questions that cannot be asked ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "how", "message"),
    [
        ("", {}, "the query is empty"),
        (" \n", {}, "the query is empty"),
        ([], {}, "the query is empty"),
        (["dogs", ""], {}, "the query is empty"),
        ("?!", {}, r"the query '\?!' is only punctuation"),
        ("\0", {}, r"the query '\\x00' is only punctuation"),
        ("\ud800", {}, r"the query .* is only punctuation"),
        ("dogs " * 20_000, {}, "the query has 100,000 characters, at most 10,000"),
        (["dogs"] * 33, {}, "33 queries at once, at most 32"),
        ("x", {"k": 0}, "k must be at least 1, got 0"),
        (
            "x",
            {"k": 1_000_000},
            "k plus offset must be at most 10,000, got 1,000,000: to get all records, read the table `records`",
        ),
        ("x", {"offset": -1}, "offset must be at least 0, got -1"),
        ("x", {"mode": "fuzzy"}, "unknown mode 'fuzzy'. Known: dense, lexical, hybrid"),
        ("x", {"surfaces": ["chunk"]}, "unknown surface kind 'chunk'. Known: document, note"),
        ("x", {"surfaces": ["note"], "corpora": ["one"]}, "unknown surface kind 'note'. Known: document"),
        ("x", {"weights": {"chunk": 2}}, "unknown surface kind 'chunk'. Known: document, note"),
        (
            "x",
            {"weights": {"note": 0}},
            "the weight of note must be above 0, got 0: to leave out kinds, use `surfaces`",
        ),
        ("x", {"blend": 1.5}, "from 0 to 1, got 1.5"),
        ("x", {"recency": Recency("wen", 1)}, "field 'wen' is in none of the corpora searched. Fields .*: .*owner"),
        ("x", {"recency": Recency("year", 1)}, "field 'year' is int64, not a time"),
        ("x", {"recency": Recency("owner", 0)}, "half-life of owner must be above 0 days, got 0"),
        ("x", {"timeout": 0}, "timeout must be above 0 seconds, got 0"),
        ("x", {"timeout": float("nan")}, "timeout must be above 0 seconds, got nan"),
    ],
)
def test_a_question_that_cannot_be_asked_says_why(
    aid: FindingAid, query: str | list[str], how: dict[str, Any], message: str
) -> None:
    with pytest.raises(QueryError, match=message) as raised:
        aid.search(query, **how)

    assert "\n" not in str(raised.value)


def test_an_unknown_corpus_lists_the_known(aid: FindingAid) -> None:
    with pytest.raises(ConfigError, match=r"unknown corpus 'three'\. Known: one, two"):
        aid.search("x", corpora=["three"])


def test_a_store_that_is_missing_or_only_begun_is_told(aid: FindingAid, tmp_path: Path) -> None:
    begun = FindingAid(Store(str(tmp_path / "begun")), aid.embedder, aid.corpora)
    begun.open_run().prepare()

    for store in (begun.store, Store(str(tmp_path / "missing"))):
        with pytest.raises(StoreError, match=r"nothing is published in .*: run `findingaid index`"):
            FindingAid(store, aid.embedder, aid.corpora).search("dogs")


def test_records_of_another_schema_are_refused(make_aid: Callable[..., FindingAid]) -> None:
    aid = make_aid()
    aid.index()
    aid.store.dataset("records").update_schema_metadata({schemas.VERSION_KEY.decode(): "records-2"})
    aid.publisher.publish()

    with pytest.raises(StoreError, match=f"schema records-2, this version of findingaid reads {RECORDS_VERSION}"):
        aid.search("ledger")


def test_a_search_that_takes_too_long_is_given_up(aid: FindingAid) -> None:
    slow = FindingAid(aid.store, SlowEmbedder(aid.embedder), aid.corpora)

    with pytest.raises(QueryError, match=r"no answer within 0.05 s"):
        slow.search("dogs", timeout=0.05)
    assert slow.search("dogs", mode="lexical", timeout=60)
    with pytest.raises(QueryError, match="not valid SQL"):
        slow.search("dogs", where="text =", timeout=60)


@dataclass
class SlowEmbedder:
    """An embedder that takes half a second for a query."""

    inner: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def embed_query(self, text: str) -> Any:
        time.sleep(0.5)
        return self.inner.embed_query(text)


# -- caches between searches -------------------------------------------------------------------------------


@pytest.mark.usefixtures("indexed")
def test_a_query_is_embedded_once(make_aid: Callable[..., FindingAid]) -> None:
    embedder = AskedEmbedder()
    aid = make_aid(embedder=embedder)

    for query in ("ledger", "vector", "ledger"):
        aid.search(query)
        aid.search(query, mode="dense", surfaces=["chunk"])

    assert embedder.asked.count("ledger") == embedder.asked.count("vector") == 1


@pytest.mark.usefixtures("indexed")
def test_the_first_search_loads_a_local_model_while_it_opens_the_tables(make_aid: Callable[..., FindingAid]) -> None:
    embedder = BesideEmbedder()
    aid = make_aid(embedder=embedder)

    aid.search(["ledger", "vector"])
    aid.search("lease", mode="dense")

    assert embedder.asked == ["ledger", "vector", "lease"]
    assert embedder.beside[0]
    assert not embedder.beside[-1]


@dataclass
class AskedEmbedder(CountingEmbedder):
    """Embedder that records its queries."""

    asked: list[str] = field(default_factory=list)

    def embed_query(self, text: str) -> Any:
        self.asked.append(text)
        return super().embed_query(text)


@dataclass
class BesideEmbedder(AskedEmbedder):
    """Embedder on this machine that records which queries another thread than the main one embeds."""

    local: ClassVar[Literal[True]] = True
    beside: list[bool] = field(default_factory=list)

    def embed_query(self, text: str) -> Any:
        self.beside.append(threading.current_thread() is not threading.main_thread())
        return super().embed_query(text)


def test_a_model_is_loaded_once_a_process(aid: FindingAid, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many aids there are, as in an evaluation of several configurations."""
    aid.search("dogs")
    monkeypatch.setattr("onnxruntime.InferenceSession", lambda *_, **__: pytest.fail("a model was loaded"))

    another = FindingAid(Store(aid.store.uri), SentenceEmbedder(), aid.corpora)

    assert another.search("cats in homes")[0].artifact_id == "pets"


@pytest.mark.usefixtures("indexed")
def test_a_searcher_sees_what_is_published_meanwhile(make_aid: Callable[..., FindingAid], source: MemorySource) -> None:
    searching, indexing = make_aid(retain=2), make_aid(retain=2)
    assert not searching.search("newcomer", mode="lexical")

    source.payloads["new.md"] = "A newcomer arrives."
    indexing.index()
    after = searching.search("newcomer", mode="lexical")
    indexing.rollback()
    rolled_back = searching.search("newcomer", mode="lexical")

    assert [hit.artifact_id for hit in after][:1] == ["new.md"]
    assert not rolled_back


def test_a_searcher_survives_that_the_store_is_made_anew(
    indexed: FindingAid, make_aid: Callable[..., FindingAid], tmp_path: Path
) -> None:
    """The new tables count their versions from 1 again."""
    searching = indexed
    assert searching.search("ledger", mode="lexical")

    shutil.rmtree(tmp_path / "index")
    with pytest.raises(StoreError, match="nothing is published"):
        searching.search("ledger")
    make_aid(source=MemorySource({f"{i}.md": "only granite" for i in range(3)})).index()

    assert {hit.text for hit in searching.search("granite", surfaces=["chunk"])} == {"only granite"}


# -- fusion ------------------------------------------------------------------------------------------------


def ranking(ranker: str, *scored: tuple[int, float]) -> Ranking:
    return Ranking(ranker, 0, [RowHit(row, score) for row, score in scored])


def fused(*rankings: Ranking, **how: Any) -> list[tuple[int, float]]:
    first, behind = fuse(rankings, Request(("x",), **how), [10.0])
    return [(found.rowid, found.score) for found in (*first, *behind)]


def test_ranks_are_fused_by_their_reciprocals() -> None:
    """Agreement counts."""
    dense = ranking("dense", (1, 0.9), (2, 0.1))
    lexical = ranking("lexical", (2, 9.0), (3, 8.0))

    assert fused(dense, lexical, blend=None) == [(2, 1 / 62 + 1 / 61), (1, 1 / 61), (3, 1 / 62)]


def test_a_blend_puts_both_rankers_on_one_scale() -> None:
    """BM25 counts as a share of the maximum score of the query's words, here 10; a negative cosine counts 0."""
    dense = ranking("dense", (1, 0.8), (2, 0.6), (4, -0.1))
    lexical = ranking("lexical", (2, 5.0), (3, 2.0))

    assert fused(dense, lexical) == [(2, 0.55), (1, 0.4), (3, 0.1), (4, 0.0)]
    assert fused(dense, lexical, blend=1.0)[:2] == [(1, 0.8), (2, 0.6)]
    assert fused(dense, lexical, blend=0.0)[:2] == [(2, 0.5), (3, 0.2)]


def test_records_that_only_words_found_are_scored_by_meaning_too(make_aid: Callable[..., FindingAid]) -> None:
    """Also behind the hundred nearest, in the table as in memory."""
    near = {f"near{i:03d}": f"granite stone number {i}" for i in range(300)}
    source = MemorySource(near | {"far": "The parrot of the harbour master sings zanzibar all day"})
    aid = make_aid(source=source, strategy=WholeText(), synthesizer=None, embedder=CountingEmbedder())
    aid.index()
    query = "granite stone zanzibar"
    cosines = {hit.artifact_id: hit.score for hit in aid.search(query, 400, mode="dense")}
    assert list(cosines).index("far") >= CANDIDATES

    for _ in ("in the table", "in memory"):
        hits = aid.search(query, 400, explain=True)
        (found,) = (hit for hit in hits if hit.artifact_id == "far")
        dense, lexical = sorted(found.ranks, key=lambda rank: rank.ranker)

        assert dense.rank is None
        assert dense.score == pytest.approx(cosines["far"], abs=1e-3)
        assert found.score == pytest.approx(dense.share + lexical.share)
        assert dense.share == pytest.approx(max(0.0, dense.score) / 2)
        assert str(dense).startswith(f"dense {dense.score:.3f}: ")


def test_what_is_deeper_than_is_fused_follows_by_its_best_rank() -> None:
    dense = ranking("dense", *((i, 1 - i / 1000) for i in range(300)))
    lexical = ranking("lexical", *((299 - i, 9 - i / 100) for i in range(300)))

    rows = [row for row, _ in fused(dense, lexical, blend=None)]

    assert sorted(rows[:200]) == [*range(100), *range(200, 300)]
    assert rows[200:204] == [100, 199, 101, 198]


@settings(max_examples=30)
@given(st.randoms(use_true_random=False), st.integers(100, 260), st.booleans())
def test_what_is_deeper_comes_in_one_order_however_deep_is_looked(chance: Any, depth: int, by_ranks: bool) -> None:
    rows = [chance.sample(range(300), 300) for _ in range(3)]
    whole = [
        ranking(name, *((row, 300.0 - i) for i, row in enumerate(of))) for name, of in zip("abc", rows, strict=True)
    ]
    blend = None if by_ranks else 0.5

    every = fused(*whole, blend=blend)
    some = fused(*(Ranking(r.ranker, 0, r.found[:depth]) for r in whole), blend=blend)

    assert [row for row, _ in some] == [row for row, _ in every][: len(some)]


def test_one_word_of_several_does_not_win_over_meaning(aid: FindingAid) -> None:
    """By ranks alone the record with the word "first" would be the best that words find, and as good as any."""
    query = "puppies and kittens in their first year"

    assert aid.search(query, 1, mode="dense")[0].artifact_id == "pets"
    assert aid.search(query, 1, blend="rrf")[0].artifact_id == "code"
    assert aid.search(query, 1)[0].artifact_id == "pets"


# -- several queries, weights, recency, pages ---------------------------------------------------------------


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
@pytest.mark.parametrize("blend", [0.5, "rrf"])
def test_several_queries_find_what_answers_any_of_them(aid: FindingAid, mode: Any, blend: Any) -> None:
    # By ranks alone the goldfish, second for both queries, comes before what answers one of them.
    both = aid.search(["dogs in homes", "granite stone"], 3 if blend == "rrf" else 2, mode=mode, blend=blend)
    one = aid.search(["dogs in homes", "dogs in homes"], 6, mode=mode, blend=blend)

    assert {hit.artifact_id for hit in both} == {"pets", "rocks"}
    assert one[0].artifact_id == "pets"
    assert one[0].record_id == aid.search("dogs in homes", mode=mode, blend=blend)[0].record_id


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_a_weight_lifts_its_surface_kind(aid: FindingAid, mode: Any) -> None:
    query = "dogs and a hard stone"
    plain = aid.search(query, mode=mode)
    lifted = aid.search(query, mode=mode, weights={"note": 10.0})
    lowered = aid.search(query, mode=mode, weights={"note": 0.01})

    kinds = [hit.surface_kind for hit in lifted]
    assert kinds == sorted(kinds, reverse=True)
    assert lowered[0].surface_kind == "document"
    assert {hit.record_id for hit in lifted} == {hit.record_id for hit in plain}
    assert [hit.score for hit in lifted] == sorted((hit.score for hit in lifted), reverse=True)
    assert {hit.weight for hit in lifted} == {1.0, 10.0}


def test_what_is_younger_counts_more(make_aid: Callable[..., FindingAid]) -> None:
    now = datetime.now(UTC)
    ages = {"new": now, "month": now - timedelta(days=30), "year": now - timedelta(days=365)}
    metadata: dict[str, dict[str, Any]] = {
        name: {"at": at.isoformat(), "day": at.date().isoformat()} for name, at in ages.items()
    }
    source = MemorySource(dict.fromkeys([*ages, "undated"], "The same words."), metadata)
    aid = make_aid(source=source, strategy=WholeText(), synthesizer=None)
    aid.index()

    for name in ("at", "day"):
        hits = aid.search("same words", recency=Recency(name, 30))

        assert hits[0].artifact_id == "new"
        assert {hit.artifact_id for hit in hits[1:3]} == {"month", "undated"}
        assert [round(hit.weight, 1) for hit in hits] == [1.0, 0.5, 0.5, 0.0]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    """Forty artifacts of ten records each, half of which are the same text."""
    paragraphs = [f"Record {i % 5} of its artifact, which says what others say." for i in range(10)]
    source = MemorySource({f"{i:02d}": "\n\n".join([f"Artifact {i}.", *paragraphs]) for i in range(40)})
    corpora = {"crowd": Corpus("crowd", source, Chunked(chunk_size=60, overlap=0))}
    aid = FindingAid(Store(str(tmp_path_factory.mktemp("crowd") / "index")), CountingEmbedder(), corpora)
    assert aid.index().ok
    return aid


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
@pytest.mark.parametrize(
    "how",
    [{}, {"blend": "rrf"}, {"weights": {"chunk": 2.0}}, {"per_artifact": True}, {"query": ["record", "artifact 7"]}],
)
def test_pages_are_cut_from_one_order(crowd: FindingAid, mode: Any, how: dict[str, Any]) -> None:
    """However they are cut, although four fifths of the records tie with others."""
    asked = {"query": "which record says what", "mode": mode, **how}
    every = [hit.record_id for hit in crowd.search(k=10_000, **asked)]

    assert len(every) == len(set(every))
    size = 90
    pages = [crowd.search(k=size, offset=start, **asked) for start in range(0, len(every) + size, size)]
    assert [hit.record_id for page in pages for hit in page] == every
    scores = [hit.score for page in pages for hit in page]
    assert scores == sorted(scores, reverse=True)


def test_equal_texts_stand_in_one_order_whether_vectors_are_in_memory_or_in_the_table(crowd: FindingAid) -> None:
    """The last digit of their similarity differs between the two."""
    table = FindingAid(crowd.store, crowd.embedder, crowd.corpora, search_defaults=SearchDefaults(memory=0))
    memory = crowd.searcher.reader().memory
    assert memory
    memory.load()

    for how in ({}, {"per_artifact": True}):
        orders = [[hit.record_id for hit in aid.search("which record says what", 440, **how)] for aid in (crowd, table)]
        assert orders[0] == orders[1]


def test_the_best_hit_of_an_artifact_stands_for_it(crowd: FindingAid) -> None:
    """Although the first hundred records by rank are of few artifacts."""
    for mode in get_args(Mode):
        hits = crowd.search("record 3 of its artifact", 40, mode=mode, per_artifact=True)
        every = crowd.search("record 3 of its artifact", 440, mode=mode)

        assert len({hit.artifact_id for hit in hits}) == len(hits) == 40
        best = {hit.artifact_id: hit.record_id for hit in reversed(every)}
        assert best == {hit.artifact_id: hit.record_id for hit in hits}


# -- hits --------------------------------------------------------------------------------------------------


def test_a_score_is_explained_when_asked(aid: FindingAid) -> None:
    explained = aid.search(["dogs in homes", "pets"], explain=True, weights={"document": 2.0})
    first = explained[0]

    assert first.artifact_id == "pets"
    assert {(rank.ranker, rank.query) for rank in first.ranks} >= {("dense", 0), ("dense", 1), ("lexical", 0)}
    assert sum(rank.share for rank in first.ranks) * first.weight == pytest.approx(first.score)
    assert str(first.ranks[0]).startswith("dense #1 0.")
    assert aid.search("dogs")[0].ranks == ()


def test_hits_are_a_table_and_a_data_frame(aid: FindingAid) -> None:
    hits = aid.search("dogs", 3)
    table, frame = hits.to_arrow(), hits.to_pandas()

    assert table["record_id"].to_pylist() == frame["record_id"].tolist() == [hit.record_id for hit in hits]
    assert json.loads(table["metadata"][0].as_py()) == hits[0].metadata
    assert table["span_end"].to_pylist() == [hit.span and hit.span[1] for hit in hits]
    none = aid.search("dogs", where="artifact_id = 'none'")
    assert none.to_arrow().schema == table.schema
