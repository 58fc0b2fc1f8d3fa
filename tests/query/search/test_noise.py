"""Weak matches: hits that are no more similar to the query than random records of the corpus are to each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from findingaid import Corpus, FindingAid
from findingaid.embedding.sentence import SentenceEmbedder
from findingaid.query.search.noise import CLEAR, corpus_noise, covered_share
from findingaid.store import Store
from findingaid.strategies.whole_text import WholeText
from findingaid.testing import MemorySource
from findingaid.text.analyzer import Lexical

TEXTS = (
    "Log files are rotated every night, and compressed after a week.",
    "The service restarts when its configuration changes.",
    "A lock protects the database while a backup is written.",
    "Passwords of the server are kept in a secret store.",
    "The scheduler starts a job for each partition.",
    "Metrics are exported over HTTP and scraped by the monitor.",
    "A failed request is retried three times before an alert is sent.",
    "Users sign in with a token that expires after an hour.",
    "The cache keeps the newest thousand answers in memory.",
    "Deployments are rolled back when the health check fails.",
)


@pytest.fixture(scope="module")
def aid(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    """Ten notes on running a service, and two notes on the kitchen, with the real model."""
    notes = {f"{number}.md": text for number, text in enumerate(TEXTS)}
    kitchen = {"bread.md": "Sourdough bread needs a night to rise.", "tea.md": "Green tea is brewed at 80 degrees."}
    corpora = {
        "notes": Corpus("notes", MemorySource(notes), WholeText()),
        "kitchen": Corpus("kitchen", MemorySource(kitchen), WholeText()),
    }
    aid = FindingAid(Store(str(tmp_path_factory.mktemp("noise") / "index")), SentenceEmbedder(), corpora)
    assert aid.index().ok
    return aid


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
@pytest.mark.parametrize("query", ["rotating log files", "password of the server", "roll back a deployment"])
def test_a_question_about_the_corpus_has_a_match_that_is_not_weak(aid: FindingAid, query: str, mode: str) -> None:
    hits = aid.search(query, corpora=["notes"], mode=mode)  # type: ignore[arg-type]
    assert not hits.weak
    assert not hits[0].weak


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
@pytest.mark.parametrize("query", ["flurble grommet snazz", "recipe for lasagna", "quantum chromodynamics lattice"])
def test_nonsense_has_only_weak_matches(aid: FindingAid, query: str, mode: str) -> None:
    assert aid.search(query, corpora=["notes"], mode=mode).weak  # type: ignore[arg-type]


def test_a_record_with_most_of_the_words_is_no_weak_match_whatever_the_model_thinks(aid: FindingAid) -> None:
    weak = {hit.artifact_id: hit.weak for hit in aid.search("rotated grommet", corpora=["notes"])}
    assert not weak["0.md"]
    assert any(weak.values())


def test_a_corpus_of_a_few_records_has_no_noise_to_measure(aid: FindingAid) -> None:
    assert corpus_noise(aid.searcher.reader(), "kitchen") is None
    assert not aid.search("flurble grommet snazz", corpora=["kitchen"]).weak


def test_no_hits_are_not_weak_hits(aid: FindingAid) -> None:
    assert not aid.search("flurble", mode="lexical").weak


def test_noise_lies_between_what_is_unrelated_and_what_is_equal(aid: FindingAid) -> None:
    noise = corpus_noise(aid.searcher.reader(), "notes")
    assert noise is not None
    assert noise.excess(1.0) > CLEAR > noise.excess(noise.mean) == 0


def test_covered_words_count_in_any_form_and_stop_words_do_not_count() -> None:
    assert covered_share("how are the logs rotated", TEXTS[0], Lexical()) == 1
    assert covered_share("how are the penguins rotated", TEXTS[0], Lexical()) == 0.5


def test_weak_hits_say_so_as_json(aid: FindingAid) -> None:
    assert [hit.to_dict()["weak"] for hit in aid.search("recipe for lasagna", 2, corpora=["notes"])] == [True, True]


def test_noise_is_measured_anew_for_a_new_version(tmp_path: Path) -> None:
    source = MemorySource({str(number): text for number, text in enumerate(TEXTS)})
    corpora = {"notes": Corpus("notes", source, WholeText())}
    aid = FindingAid(Store(str(tmp_path / "index")), SentenceEmbedder(), corpora)
    aid.index()
    before = corpus_noise(aid.searcher.reader(), "notes")
    source.payloads["more"] = "Whales sing."
    aid.index()
    assert corpus_noise(aid.searcher.reader(), "notes") != before
