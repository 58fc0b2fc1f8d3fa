"""Search indexes: full text by the settings, and a vector index as long as its recall is sufficient."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from findingaid import Corpus, FindingAid
from findingaid.embedding.hashing import HashEmbedder
from findingaid.model import Vectors
from findingaid.query.search import Reader
from findingaid.query.search.components import SearchDefaults
from findingaid.query.search.reader import RowHit
from findingaid.query.search.vector_memory import CANDIDATE_COLUMNS
from findingaid.store import Store, indexes, lexical, upkeep, vectors
from findingaid.strategies.whole_text import WholeText
from findingaid.testing import CountingEmbedder, MemorySource
from findingaid.text.analyzer import ENGLISH, Language, Lexical
from tests.conftest import Cli, ReadyMade, error_of
from tests.query.search.test_routing import Counted

WORDS = {
    "why": "Why does any of it happen before or after?",
    "german": "Die Häuser der Städte",
    "runner": "Runners run a running race",
    "names": "snake_case and the café",
}


def of_words(store: Path, settings: Lexical, texts: dict[str, str] | None = None) -> FindingAid:
    """An aid as another process would open it, with these settings."""
    corpora = {"words": Corpus("words", MemorySource(dict(texts or WORDS)), WholeText())}
    return FindingAid(Store(str(store), lexical=settings), CountingEmbedder(), corpora)


def found(aid: FindingAid, query: str) -> set[str]:
    return {hit.artifact_id for hit in aid.search(query, mode="lexical")}


def test_english_stop_words_are_left_out_and_words_are_stemmed(tmp_path: Path) -> None:
    aid = of_words(tmp_path / "index", Lexical())
    aid.index()

    assert found(aid, f"{ENGLISH} cafe") == {"names"}
    assert found(aid, "happens") == {"why"}
    assert found(aid, "runs") == {"runner"}
    assert found(aid, "cafe snake") == {"names"}


SETTINGS: list[tuple[Lexical, dict[str, set[str]]]] = [
    (Lexical(stop_words=False), {"why": {"why"}}),
    (Lexical(stem=False), {"runs": set(), "running": {"runner"}, "why does any runs": set()}),
    (Lexical(stop_words=("race", "Happen")), {"race happens cafe": {"names"}}),
    (Lexical(stop_words=("race",)), {"race before": {"why"}}),
    (Lexical(language="German"), {"haus stadt": {"german"}, "das der": set()}),
    (Lexical(), {"haus": set()}),
]


@pytest.mark.parametrize(("language", "word"), [("German", "nicht"), ("French", "pas"), ("Finnish", "no")])
def test_a_word_is_a_stop_word_before_and_after_the_index_is_extended(
    tmp_path: Path, language: Language, word: str
) -> None:
    """lancedb and pylance carry Lance of different versions, which take other words for stop words."""
    texts = {"old": f"ledger {word}"}
    of_words(tmp_path / "index", Lexical(language), texts).index()
    aid = of_words(tmp_path / "index", Lexical(language), texts | {"new": f"ledger {word}"})
    aid.index()

    assert found(aid, word) in (set(), {"old", "new"})


def test_words_weigh_the_same_in_an_index_that_has_grown_as_in_one_made_at_once(tmp_path: Path) -> None:
    texts = {f"{n:02}": f"ledger {'zebra' if n % 9 == 1 else 'row'} number {n}" for n in range(40)}
    of_words(tmp_path / "index", Lexical(), dict([*texts.items()][:3])).index()
    aids = [of_words(tmp_path / name, Lexical(), texts) for name in ("index", "whole")]
    for aid in aids:
        aid.index()

    for query in ("zebra", "ledger", "zebra row"):
        one, other = ({hit.artifact_id: hit.score for hit in aid.search(query, 50, mode="lexical")} for aid in aids)
        assert one == pytest.approx(other)


def test_a_changed_setting_makes_the_index_anew_and_nothing_else(tmp_path: Path) -> None:
    first = of_words(tmp_path / "index", Lexical(language="Finnish"))
    first.index()

    for settings, wanted in SETTINGS:
        embedder, version = CountingEmbedder(), first.publisher.served()
        aid = FindingAid(Store(first.store.uri, lexical=settings), embedder, first.corpora)

        report = aid.index()

        assert {query: found(aid, query) for query in wanted} == wanted
        assert not report.corpora["words"].active
        assert not embedder.seen
        assert aid.publisher.served() != version
        assert aid.publisher.served() == aid.publisher.newest()
        assert lexical.made_with(aid.store.published()) == settings


def test_what_was_indexed_before_there_were_settings_is_indexed_again(tmp_path: Path) -> None:
    aid = of_words(tmp_path / "index", Lexical())
    aid.index()
    aid.store.dataset("records").update_config({lexical.KEY: json.dumps([0, "English", True, True])})
    aid.publish()
    assert lexical.made_with(aid.store.published()) is None
    assert found(aid, "runs") == {"runner"}  # until then it is searched as it is

    aid.index()

    assert lexical.made_with(aid.store.published()) == Lexical()


def test_a_word_that_no_record_has_makes_the_others_count_for_less(tmp_path: Path) -> None:
    aid = of_words(tmp_path / "index", Lexical())
    aid.index()
    reader = aid.searcher.reader()
    for query in ("race", "runners", "zebras"):
        load_maxima(reader, query)

    race = aid.search("race", 1, mode="lexical")[0].score
    assert reader.max_bm25("the race of the race") == pytest.approx(race)
    assert reader.max_bm25("race zebras") > 2 * race
    assert reader.max_bm25("why race before") == pytest.approx(race)


def load_maxima(reader: Reader, query: str) -> None:
    for term in reader.terms_without_maximum(query):
        reader.load_maximum(term)


NAMES = {
    "camel": "def getUserName(self): returns the account",
    "snake": "def get_user_name(self): returns the account",
    "words": "Get the user name of the account.",
    "other": "def getAccount(self): returns it",
    "chinese": "服务器每天凌晨三点自动备份数据库。",
    "japanese": "サーバーを再起動すると設定が反映されます。",
}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    aid = of_words(tmp_path_factory.mktemp("names") / "index", Lexical(), NAMES)
    aid.index()
    return aid


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("getUserName", {"camel", "snake", "words", "other"}),
        ("get_user_name", {"camel", "snake", "words", "other"}),
        ("user name", {"camel", "snake", "words"}),
        ("getusername", {"camel", "snake"}),
        ("数据库", {"chinese"}),
        ("再起動", {"japanese"}),
    ],
)
def test_names_are_found_in_other_styles_and_words_without_blanks(
    names: FindingAid, query: str, wanted: set[str]
) -> None:
    hits = names.search(query, mode="lexical")
    reader = names.searcher.reader()
    load_maxima(reader, query)

    assert {hit.artifact_id for hit in hits} == wanted
    assert hits[0].score <= reader.max_bm25(query) * 1.0001


def test_a_name_is_embedded_and_shown_as_it_is_written(names: FindingAid) -> None:
    (row,) = names.store.rows("records", ["text", "lexical", "shown"], "artifact_id = 'camel'").to_pylist()
    assert row["text"] == NAMES["camel"]
    assert row["shown"] is None
    assert row["lexical"] == "def get User Name(self): returns the account\ngetusername"
    assert isinstance(names.embedder, CountingEmbedder)
    assert NAMES["camel"] in names.embedder.seen


def test_the_configuration_says_how_words_are_taken(cli: Cli) -> None:
    cli.settings["lexical"] = {"language": "German", "stop_words": ["haus"]}
    cli.write("one.md", "Die Häuser der Stadt")
    assert cli.run("index").exit_code == 0

    assert [hit["artifact_id"] for hit in cli.json("search", "städte", "--mode", "lexical")] == ["one.md"]
    assert cli.json("search", "haus hafen", "--mode", "lexical") == []
    cli.settings["lexical"] = {"language": "Klingon"}
    refused = cli.run("search", "x")
    assert refused.exit_code == 1
    assert "lexical.language" in error_of(refused)
    assert "'English'" in error_of(refused)


# -- vectors -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Near:
    """Places all texts around a few centres, so that partitions of an index mean something; or anywhere at all."""

    centres: int
    inner: ClassVar = HashEmbedder(64)
    dim: ClassVar = 64
    max_tokens: ClassVar = None
    id: ClassVar = "near-64"

    def count_tokens(self, text: str) -> int:
        return 1

    def embed(self, texts: Sequence[str]) -> Vectors:
        at = [f"centre {int(text.split()[-1]) % self.centres}" for text in texts]
        moved: Vectors = self.inner.embed(at) + 0.5 * self.inner.embed(texts)
        return moved / np.linalg.norm(moved, axis=1, keepdims=True)

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.embed([text])[0]
        return vector


@dataclass
class Many:
    """An aid with so many records, one a text, and the source to add more."""

    folder: Path
    source: MemorySource = field(default_factory=MemorySource)

    def aid(self, count: int, centres: int = 20) -> FindingAid:
        self.source.payloads = {f"{i:05d}": f"text number {i}" for i in range(count)}
        corpora = {"many": Corpus("many", self.source, WholeText())}
        in_table = SearchDefaults(memory=0)  # these tests are about the index of the table
        return FindingAid(Store(str(self.folder / "index")), Near(centres), corpora, search_defaults=in_table)


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Many:
    monkeypatch.setattr(vectors, "INDEX_ROWS", 200)
    return Many(tmp_path)


@pytest.fixture
def with_index(many: Many, ready_made: ReadyMade) -> FindingAid:
    """The aid over 240 records and an index of their vectors."""
    ready_made("vector index", many.aid(240).index)
    return many.aid(240)


def has_index(aid: FindingAid) -> bool:
    return any(index.field_names == ["vector"] for index in aid.store.published().describe_indices())


def test_below_a_size_a_search_is_exact(many: Many) -> None:
    aid = many.aid(180)
    aid.index()

    assert not has_index(aid)
    assert aid.status()[0].vector_index is None
    assert "vector" not in upkeep.unindexed(aid.store)


def test_an_index_is_measured_when_it_is_made_and_the_status_says_so(with_index: FindingAid) -> None:
    aid = with_index
    (status,) = aid.status()

    assert has_index(aid)
    assert status.vector_index == vectors.Measured(20, 1.0, 240)
    assert status.to_dict()["vector_index"] == {"probes": 20, "recall": 1.0, "rows": 240}
    assert str(status.vector_index) == "index, 20 probes: finds 100.0% of the nearest 10"
    exact = Reader(aid.store.published(), aid.embedder, aid.store)
    vector = aid.embedder.embed_query("number 7")
    by_index = [f.rowid for f in exact.nearest(vector, 10)]
    assert by_index == [f.rowid for f in exact.nearest(vector, 10, selective=True)]


def test_records_of_a_condition_are_compared_in_memory_as_by_lance(many: Many) -> None:
    many.source.payloads = {f"{i:05d}": f"text number {i // 2}" for i in range(180)}  # each twice, so that they tie
    corpora = {"many": Corpus("many", many.source, WholeText())}
    aid = FindingAid(Store(str(many.folder / "index")), Near(20), corpora)
    aid.index()
    records = aid.store.published()
    vector = aid.embedder.embed_query("number 7")

    def nearest(few: int, depth: int, condition: str, selective: bool) -> list[RowHit]:
        reader = Reader(records, aid.embedder, aid.store, exact_limit=few)
        return reader.nearest(vector, depth, condition, selective, CANDIDATE_COLUMNS)

    conditions = ("artifact_id < '00040'", "corpus = 'many'", "artifact_id = 'none'")
    for depth, asked in product((1, 7, 30, 181), product(conditions, (True, False))):
        by_lance, in_memory = nearest(0, depth, *asked), nearest(180, depth, *asked)
        assert [f.score for f in in_memory] == pytest.approx([f.score for f in by_lance], abs=1e-4)
        assert all(f.row and f.row.keys() == set(CANDIDATE_COLUMNS) for f in in_memory)
        assert [f.rowid for f in in_memory] == [f.rowid for f in nearest(180, 181, *asked)][:depth]
        assert [f.rowid for f in nearest(3, depth, *asked)] == [f.rowid for f in by_lance]  # more than few


def test_a_condition_of_few_records_is_read_once(many: Many) -> None:
    aid = many.aid(50)
    aid.index()
    asked: list[dict[str, Any]] = []
    reader = Reader(Counted(aid.store.published(), asked), aid.embedder, aid.store)

    first = reader.nearest(aid.embedder.embed_query("number 7"), 5, "artifact_id < '00040'", columns=CANDIDATE_COLUMNS)
    read = len(asked)
    again = reader.nearest(aid.embedder.embed_query("number 7"), 5, "artifact_id < '00040'", columns=CANDIDATE_COLUMNS)

    assert again == first
    assert (read, len(asked)) == (1, 1)


def test_more_probes_are_taken_where_few_do_not_find_enough(many: Many, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "PARTITION_ROWS", 15)
    monkeypatch.setattr(vectors, "PROBES", (1, 2, 1_000))
    aid = many.aid(240, centres=240)  # so that near vectors can be anywhere
    aid.index()

    assert aid.status()[0].vector_index == vectors.Measured(1_000, 1.0, 240)


def test_an_index_that_finds_too_little_is_dropped_until_there_is_twice_as_much(
    many: Many, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "PARTITION_ROWS", 15)
    with monkeypatch.context() as narrow:
        narrow.setattr(vectors, "PROBES", (1,))
        aid = many.aid(240, centres=240)
        aid.index()
        (found,) = {status.vector_index for status in aid.status()}
        assert not has_index(aid)
        assert found
        assert (found.probes, found.rows) == (0, 240)
        assert 0 < found.recall < vectors.FLOOR
        assert str(found) == f"exact: an index found {found.recall:.1%} of the nearest 10, less than 98%"
        assert all(check.passed for check in aid.check())

    many.aid(260, centres=240).index()
    assert not has_index(aid)
    many.aid(480, centres=240).index()
    assert has_index(aid)
    again = aid.status()[0].vector_index
    assert again
    assert again.rows == 480
    assert again.recall >= vectors.FLOOR


@pytest.mark.usefixtures("with_index")
def test_an_index_is_measured_again_when_there_is_much_more(many: Many, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuilt index with too little recall is dropped, too."""
    monkeypatch.setattr(indexes, "UNINDEXED_ROWS", 100)
    many.aid(250).index()
    assert many.aid(250).status()[0].vector_index == vectors.Measured(20, 1.0, 240)

    monkeypatch.setattr(vectors, "FLOOR", 1.1)
    aid = many.aid(500)
    aid.index()
    assert aid.status()[0].vector_index == vectors.Measured(0, 1.0, 500)
    assert not has_index(aid)


def test_a_narrow_filter_still_leaves_every_hit(with_index: FindingAid) -> None:
    """Past a size the index is approximate; a selective filter must still fill k (the trap of IVF with a prefilter)."""
    aid = with_index
    assert has_index(aid)

    for mode in ("dense", "hybrid"):
        hits = aid.search("number 1", 10, mode=mode, where="artifact_id < '00010'")

        assert {hit.artifact_id for hit in hits} == {f"{i:05d}" for i in range(10)}


def test_deep_pages_go_on_where_the_index_ends(with_index: FindingAid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "INDEX_DEPTH", 100)
    aid = with_index

    pages = [aid.search("number 1", 40, mode="dense", offset=start) for start in range(0, 240, 40)]

    assert len({hit.record_id for page in pages for hit in page}) == 240


def test_measuring_reads_more_records_than_a_batch(many: Many) -> None:
    aid = many.aid(1_100)
    aid.index()
    upkeep.drop_indexes(aid.store, "records")
    records = aid.store.dataset("records")

    measured = vectors.measure(records)

    assert measured == vectors.Measured(20, 1.0, 1_100)  # without an index every search is exact
