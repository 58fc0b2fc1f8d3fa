"""A request reads one published version in all of its parts: records, texts, claims and what stands beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from findingaid import FindingAid, StoreError
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.cli.results import printed_span
from findingaid.corpus import Claiming
from findingaid.errors import NotFoundError
from findingaid.indexing.options import BuildOptions
from findingaid.model import Hit, Stage
from findingaid.query.answers import evidence
from findingaid.serve.search_fetch import SEARCH_FETCH, part_id
from findingaid.serve.session import Session
from findingaid.store.schemas import OF_RECORDS
from findingaid.testing import MemorySource
from tests.conftest import ReadyMade

OLD = "# Tokens\n\nAccess tokens expire after fifteen minutes of idle time."
DRAFT = "# Tokens\n\nNobody may change this draft of a rule. Access tokens never expire in the new product at all."

QUESTION = "when do access tokens expire"


@pytest.fixture
def source() -> MemorySource:
    return MemorySource({"a.md": OLD, "b.md": "# Other\n\nThe other text is about gears and levers only."})


@pytest.fixture
def aid(make_aid: Callable[..., FindingAid], ready_made: ReadyMade) -> FindingAid:
    def make() -> FindingAid:
        return make_aid(synthesizer=None, claims=Claiming(ExtractiveClaims()), retain=3)

    ready_made("one version", lambda: make().index())
    return make()


def rolled_back(aid: FindingAid, source: MemorySource) -> None:
    aid.index()
    aid.rollback()


def refused(aid: FindingAid, source: MemorySource) -> None:
    source.payloads["c.md"], source.broken = "unreadable", {"c.md"}
    strict = {"docs": replace(aid.corpora["docs"], max_failures=0.1)}
    assert replace(aid, corpora=strict).index().unpublished


def killed(aid: FindingAid, source: MemorySource) -> None:
    """Leave the run after its batches, before it publishes."""
    run = aid.open_run()
    run.prepare()
    plan = run.plan("docs")
    run.indexer("docs").build(plan.stale, BuildOptions())


def one_stage(aid: FindingAid, source: MemorySource) -> None:
    """Run the first stage alone, as Dagster does, and close the run."""
    run = aid.open_run()
    run.prepare()
    run.indexer("docs").build(run.plan("docs").stale, BuildOptions([Stage.ARTIFACTS]))
    run.close(["docs"])


@pytest.mark.parametrize("unpublished", [rolled_back, refused, killed, one_stage])
def test_what_is_not_published_is_nowhere_to_be_read(
    aid: FindingAid, source: MemorySource, unpublished: Callable[[FindingAid, MemorySource], None]
) -> None:
    source.payloads["a.md"] = DRAFT
    unpublished(aid, source)
    (hit,) = aid.search(QUESTION, 1)
    again = replace(aid, store=aid.store)  # as another process

    shown: list[Any] = [
        again.read("a.md", span=hit.span).text,
        again.disclose("a.md", "body").body,
        again.search(QUESTION, 1, expand="artifact")[0].text,
        *(view.text for view in again.claims.list()),
        Session.of(again).call("show", {"id": "a.md"}),
        again.why("a.md"),
    ]

    assert shown[:3] == [hit.text, OLD, OLD]
    assert not [each for each in shown if "draft" in str(each) or "product" in str(each)]
    assert [location.line for location in again.locate([hit])] == [1]


def test_a_text_of_which_only_half_is_indexed_is_refused_and_not_opened_as_another(
    aid: FindingAid, source: MemorySource
) -> None:
    source.payloads["a.md"] = DRAFT
    one_stage(aid, source)
    source.payloads["b.md"] += " And pulleys."
    aid.index(artifacts=["b.md"])

    assert "pulleys" in aid.read("b.md").text
    with pytest.raises(StoreError, match=r"docs/a\.md: was indexed again, but not to its end: run `findingaid index`"):
        aid.read("a.md")

    aid.index()

    assert aid.read("a.md").text == DRAFT


def test_an_answer_beside_a_publish_cites_the_version_that_holds_the_sentence(
    make_aid: Callable[..., FindingAid], source: MemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    aid = make_aid(synthesizer=None, retain=3)
    aid.index()
    quoted, payloads = evidence.find_quotes, dict(source.payloads)

    def publish_before(*given: Any) -> Any:
        source.payloads["a.md"] = DRAFT
        aid.index()
        return quoted(*given)

    monkeypatch.setattr(evidence, "find_quotes", publish_before)
    before = aid.show("a.md").artifact_version

    (quote,) = aid.answer(QUESTION).quotes

    assert quote.artifact_version == before
    assert payloads["a.md"][slice(*quote.span)] == quote.quote


@pytest.mark.parametrize(
    "ask",
    [
        lambda aid: aid.search(QUESTION, 1, fresh=True)[0],
        lambda aid: aid.answer(QUESTION, fresh=True).claims[0].places[0],
    ],
)
def test_what_was_published_again_meanwhile_is_not_called_current(
    aid: FindingAid, source: MemorySource, monkeypatch: pytest.MonkeyPatch, ask: Callable[[FindingAid], Any]
) -> None:
    checked = FindingAid._freshness

    def publish_before(*given: Any) -> Any:
        source.payloads["a.md"] = DRAFT
        aid.index()
        return checked(*given)

    monkeypatch.setattr(FindingAid, "_freshness", publish_before)

    assert ask(aid).fresh != "current"
    assert ask(aid).fresh in {"current", "unknown"}


def test_the_parts_of_a_request_are_of_the_version_at_its_beginning(aid: FindingAid, source: MemorySource) -> None:
    request = aid.pinned()
    (hit,) = request.search(QUESTION, 1)
    source.payloads["a.md"] = DRAFT
    aid.index()

    assert request.read("a.md", span=hit.span).text == hit.text
    assert request.pinned().show("a.md").artifact_version != aid.show("a.md").artifact_version
    assert aid.read("a.md").text == DRAFT


def test_a_request_whose_version_a_purge_has_removed_goes_on_with_the_published_one(
    aid: FindingAid, source: MemorySource
) -> None:
    request = aid.pinned()
    request.search(QUESTION, 1)
    source.payloads["a.md"] = DRAFT
    aid.index()
    aid.purge()

    assert request.read("a.md").text == DRAFT
    for table in OF_RECORDS:
        dataset = aid.store.dataset(table)
        assert [*dataset.tags.list()] == [f"records-{aid.publisher.served()}"]
        assert len(dataset.versions()) == 1


def test_every_version_that_is_kept_can_be_read_whole(aid: FindingAid, source: MemorySource) -> None:
    texts = [OLD]
    for number in range(2):
        texts.append(f"{OLD} This is edition {number} of the rule about it.")
        source.payloads["a.md"] = texts[-1]
        aid.index()

    for version, text in zip(aid.versions(), reversed(texts), strict=True):
        if not version.served:
            aid.rollback(version.version)
        assert aid.read("a.md").text == text
    source.payloads["b.md"] += " And pulleys."
    aid.index()
    assert aid.read("a.md").text == texts[-1]


def test_a_search_that_fails_gives_up_its_own_reader_and_no_later_one(aid: FindingAid, source: MemorySource) -> None:
    searcher, seen = aid.searcher, []

    def fail_once(reader: Any) -> Any:
        seen.append(reader)
        if len(seen) == 1:
            source.payloads["a.md"] = DRAFT
            aid.index()
            seen.append(searcher.reader())
            raise OSError("a file of the version is gone")
        return reader

    assert searcher.read(fail_once) is seen[1]
    assert searcher.reader() is seen[1]


PLACES: dict[str, Callable[[FindingAid, Hit], object]] = {
    "read": lambda aid, hit: aid.read("a.md", span=hit.span, artifact_version=hit.artifact_version),
    "read by the record": lambda aid, hit: aid.read(hit.record_id, offset=9, artifact_version=hit.artifact_version),
    "show": lambda aid, hit: aid.show("a.md", "docs", artifact_version=hit.artifact_version),
    "body": lambda aid, hit: aid.disclose("a.md", "body", artifact_version=hit.artifact_version),
    "printed": lambda aid, hit: aid.show(f"docs/a.md {printed_span(hit.span or (0, 0), hit.artifact_version)}"),
    "served": lambda aid, hit: Session.of(aid).call(
        "show", {"id": "a.md", "span": list(hit.span or ()), "artifact_version": hit.artifact_version}
    ),
    "the next part of a fetched document": lambda aid, hit: replace(Session.of(aid), served=SEARCH_FETCH).call(
        "fetch", {"id": part_id({"corpus": "docs", **hit.to_dict()}, 9)}
    ),
}
"""Openings of the place of a hit that name the version in which it is."""


@pytest.mark.parametrize("opened", PLACES)
def test_the_place_of_a_hit_does_not_open_the_words_of_a_later_version(
    aid: FindingAid, source: MemorySource, opened: str
) -> None:
    (hit,) = aid.search(QUESTION, 1)
    PLACES[opened](aid, hit)
    source.payloads["a.md"] = f"# Preface\n\nThis was put before it.\n\n{OLD}"
    aid.index()

    with pytest.raises(NotFoundError, match=r"docs/a\.md: changed since version .* search again"):
        PLACES[opened](aid, hit)

    (again,) = aid.search(QUESTION, 1)
    PLACES[opened](aid, again)
    assert aid.read("a.md", span=again.span, artifact_version=again.artifact_version).text == again.text


def test_every_answer_with_spans_names_the_version_that_they_are_in(aid: FindingAid) -> None:
    version = aid.show("a.md").artifact_version
    session = Session.of(aid)
    found = [
        hit
        for detail in ("id", "snippet", "full")
        for hit in session.call("search", {"query": QUESTION, "k": 1, "detail": detail})["hits"]
    ]
    found += session.call("context", {"query": QUESTION, "k": 1, "details": True})["pieces"]
    answer = session.call("answer", {"query": QUESTION})
    found += [place for claim in answer["claims"] for place in claim["places"]] + answer["quotes"]

    assert {each["artifact_version"] for each in found if each["artifact_id"] == "a.md" and each["span"]} == {version}


def test_the_call_that_reads_on_is_of_the_version_that_was_read(aid: FindingAid, source: MemorySource) -> None:
    session = Session.of(aid)
    part = session.call("show", {"id": "a.md", "chars": 20})
    calls = {"show": lambda **given: session.call("show", given)}
    source.payloads["a.md"] = f"Put before it. {OLD}"
    aid.index()

    with pytest.raises(NotFoundError, match="changed since"):
        eval(part["next"], calls)


def test_a_source_that_raises_anything_breaks_the_link_to_it_and_not_the_trace(
    aid: FindingAid, source: MemorySource
) -> None:
    del source.payloads["a.md"]

    (link,) = aid.why("a.md")

    assert [each.broken for each in link.walk() if each.what == "source"] == ["KeyError: 'a.md'"]
