"""A caller limited to certain corpora sees nothing of other corpora through any path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from findingaid import ConfigError, FindingAid, FindingAidError, UnknownCorpusError
from findingaid.claims.model import claim_id
from findingaid.query.search.filters.fields import Field
from findingaid.query.search.filters.syntax import restrict_filter
from findingaid.serve.errors import problem_of
from findingaid.serve.session import Session
from tests.support.serving import HIDDEN, WORDS, indexed, without_times

UNKNOWN = "0123456789abcdef0123456789abcdef"

BY_MEANING: dict[str, Any] = {"mode": "dense", "k": 50}
"""Word weights are counted over all corpora, so that lexical scores differ."""

OF_HIDDEN = "corpus = 'hidden' AND text LIKE '%safe%'"
"""Filters whose failure would reveal hidden rows."""

QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": "auth tokens", **BY_MEANING}),
    ("search", {"query": "zanzibar", **BY_MEANING, "explain": True}),
    ("search", {"query": "auth tokens", **BY_MEANING, "where": "corpus = 'hidden' OR artifact_id = 'vault.md'"}),
    ("search", {"query": "auth tokens", **BY_MEANING, "where": "true) OR (true"}),
    ("search", {"query": "auth tokens", **BY_MEANING, "where": "true /* /* */) OR (true -- */"}),
    ("search", {"query": "auth tokens", **BY_MEANING, "where": f"{OF_HIDDEN} AND text > DATE '2026-01-31'"}),
    ("answer", {"query": "auth tokens", "where": f"{OF_HIDDEN} AND text > DATE '2026-01-31'"}),
    ("search", {"query": "auth tokens", "where": f"{OF_HIDDEN} AND text LIKE '%{'_a%' * 20_000}'"}),
    ("search", {"query": "auth tokens", **BY_MEANING, "route": "neighbours"}),
    ("search", {"query": "auth tokens", **BY_MEANING, "route": "collapsed"}),
    ("search", {"query": "auth tokens", **BY_MEANING, "expand": "artifact"}),
    ("search", {"query": "auth tokens", **BY_MEANING, "surfaces": ["claim"], "tiers": ["policy", "unreviewed"]}),
    ("search", {"query": "auth tokens", **BY_MEANING, "use_summaries": True}),
    ("search", {"query": "auth tokens", "surfaces": ["nothing"]}),
    ("search", {"query": "auth tokens", "weights": {"nothing": 2.0}}),
    ("search", {"query": "auth tokens", "recency": {"field": "nothing", "half_life": 3.0}}),
    ("search", {"query": "auth tokens", "where": "nothing = 1"}),
    ("search", {"query": "auth tokens", "where": "title > timestamp '2026-01-01T00:00:00Z'"}),
    ("search", {"query": "auth tokens", "where": "chunk_index = 'Zanz'"}),
    ("search", {"query": "auth tokens", "corpora": ["hidden"]}),
    ("search", {"query": "auth tokens", "corpora": []} | BY_MEANING),
    ("answer", {"query": "how long do auth tokens live"}),
    ("answer", {"query": "what does Mortimer of Zanzibar know", "depth": 20}),
    ("answer", {"query": "auth tokens", "corpora": ["hidden"]}),
    ("answer", {"query": "auth tokens", "where": "corpus = 'hidden'"}),
    ("context", {"query": "auth tokens", "budget_tokens": 500} | BY_MEANING),
    ("context", {"query": "auth tokens", "corpora": ["hidden"]}),
    ("show", {"id": "auth.md"}),
    ("show", {"id": "auth.md", "corpus": "hidden"}),
    ("show", {"id": "auth.md", "level": "body"}),
    ("show", {"id": "open/auth.md:3"}),
    ("show", {"id": "hidden/vault.md"}),
    ("show", {"id": "valt.md"}),
    ("neighbours", {"id": "hidden/vault.md:1"}),
    ("why", {"id": "open/auth.md [0:9]"}),
    ("impact", {"id": "valt.md"}),
    ("show", {"id": "auth.md", "level": "records"}),
    ("show", {"id": "auth.md", "offset": 20}),
    ("show", {"id": "auth.md", "corpus": "hidden", "span": [0, 9]}),
    ("neighbours", {}),
    ("neighbours", {"corpus": "hidden"}),
    ("neighbours", {"id": "auth.md"}),
    ("neighbours", {"id": "auth.md", "reverse": True}),
    ("neighbours", {"id": "ledger.md", "kinds": ["REF"], "reverse": True}),
    ("why", {"id": "auth.md"}),
    ("why", {"id": "auth.md", "corpora": ["hidden"]}),
    ("impact", {"id": "auth.md"}),
    ("impact", {"id": "auth.md", "corpus": "hidden"}),
    ("corpora", {}),
    ("corpora", {"corpora": ["hidden"]}),
    ("status", {"corpora": ["hidden"]}),
    ("browse", {}),
    ("browse", {"corpora": ["hidden"]}),
    ("browse", {"where": "corpus = 'hidden' OR title LIKE '%a%'"}),
    ("browse", {"suffixes": [".md"], "folder": "vault"}),
    ("propose_claim", {"corpus": "hidden", "artifact_id": "vault.md", "text": "Tokens expire."}),
    ("propose_claim", {"corpus": "open", "artifact_id": "vault.md", "text": "Tokens expire."}),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    """An index of both corpora."""
    return indexed(tmp_path_factory.mktemp("both"), "open", "hidden")


@pytest.fixture(scope="module")
def limited(whole: FindingAid) -> Session:
    return Session.of(whole, ["open"], actor="ann")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A session of an index that never had another corpus."""
    return Session.of(indexed(tmp_path_factory.mktemp("alone"), "open"), actor="ann")


def said(session: Session, name: str, given: dict[str, Any]) -> dict[str, Any]:
    try:
        return without_times(session.call(name, given))
    except FindingAidError as error:
        return problem_of(error).to_dict()


@pytest.mark.parametrize(("name", "given"), QUESTIONS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(QUESTIONS)])
def test_a_limited_session_answers_as_if_there_were_no_other_corpus(
    limited: Session, alone: Session, name: str, given: dict[str, Any]
) -> None:
    answer = said(limited, name, given)

    assert answer == said(alone, name, given)
    told = orjson.dumps(answer).decode().lower()
    asked = orjson.dumps(given).decode().lower()
    assert [word for word in WORDS if word in told and word not in asked] == []


def ids_of(aid: FindingAid) -> list[str]:
    """Return a hidden id of each kind: of artifacts, records, claims and nodes, and beginnings of claim ids."""
    rows = aid.store.rows("records", ["corpus", "surface_kind", "record_id", "claim_id", "artifact_id"]).to_pylist()
    of_kind = {row["surface_kind"]: row for row in rows if row["corpus"] == "hidden"}
    ids = {row[column] for row in of_kind.values() for column in ("record_id", "claim_id")} - {""}
    return sorted(ids | {"vault.md"} | {row["claim_id"][:10] for row in of_kind.values() if row["claim_id"]})


def test_an_id_of_another_corpus_is_one_that_is_not_there(whole: FindingAid, limited: Session, alone: Session) -> None:
    hidden = ids_of(whole)

    assert len(hidden) >= 7
    for wanted in hidden:
        for name, more in (
            ("show", {}),
            ("show", {"level": "records"}),
            ("why", {}),
            ("impact", {}),
            ("neighbours", {"reverse": True}),
        ):
            known = said(limited, name, {"id": wanted, **more})

            assert known == said(alone, name, {"id": wanted, **more})
            assert known["error"]["kind"] == "not_found"


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_scores_do_not_tell_which_words_others_have(limited: Session, mode: str) -> None:
    """Else all words of another corpus could be guessed, one after another."""
    require_equal_scores_of_hidden_words(limited, mode)


def require_equal_scores_of_hidden_words(session: Session, mode: str) -> None:
    def scores(word: str) -> list[tuple[str, float]]:
        found = said(session, "search", {"query": f"auth {word}", "mode": mode, "blend": 0.0, "explain": True})
        return [(hit["record_id"], hit["score"]) for hit in found["hits"] if hit["score"]]

    assert scores("zanzibar") == scores("mortimer") == scores("qwxyzk")
    assert scores("zanzibar") != scores("expire")


def test_a_claim_that_was_decided_elsewhere_is_not_known_here(tmp_path: Path) -> None:
    aid = indexed(tmp_path, "open", "hidden")
    claim = claim_id("hidden", "Mortimer stole the Zanzibar key.")
    aid.claims.reject(claim, reason="he did not", actor="ann")
    session = Session.of(aid, ["open"])

    for name in ("show", "why"):
        assert said(session, name, {"id": claim})["error"]["kind"] == "not_found"
        assert "rejected" not in str(said(session, name, {"id": claim}))
        assert "rejected" in str(said(Session.of(aid), name, {"id": claim}))


def test_status_counts_what_is_within_the_scope(limited: Session, alone: Session) -> None:
    def counted(session: Session) -> list[dict[str, Any]]:
        (corpus,) = session.call("status", {})["corpora"]
        return [{key: corpus[key] for key in corpus if key not in {"updated", "published_version"}}]

    assert counted(limited) == counted(alone)


def test_artifacts_listed_are_those_of_the_scope(limited: Session, whole: FindingAid) -> None:
    assert [key for key, _ in limited.aid.artifacts()] == [("open", "auth.md"), ("open", "ledger.md")]
    assert len(whole.artifacts()) == 2 + len(HIDDEN)


def test_a_corpus_outside_is_not_told_from_one_that_is_nowhere(limited: Session) -> None:
    hidden = said(limited, "search", {"query": "x", "corpora": ["hidden"]})
    nowhere = said(limited, "search", {"query": "x", "corpora": ["nowhere"]})

    assert hidden["error"]["kind"] == "unknown_corpus"
    assert hidden["error"]["message"] == "unknown corpus 'hidden'. Known: open"
    assert str(hidden).replace("hidden", "nowhere") == str(nowhere)


def test_a_session_of_no_corpus_or_an_unknown_one_is_refused(whole: FindingAid) -> None:
    with pytest.raises(ConfigError, match="no corpus given"):
        Session.of(whole, [])
    with pytest.raises(UnknownCorpusError, match="unknown corpus 'nowhere'"):
        Session.of(whole, ["nowhere"])


@pytest.mark.parametrize(
    "where",
    [
        "repeat(title, 1000000000) = 'x'",
        "1 / chunk_index > 0",
        "CAST(title AS INT) > 0",
        "title > text",
        "lower(title) > 5",
        "array_has(chunk_index, title)",
        "title || title = 'x'",
        "regexp_like(title, '(a|b)*')",
        "CASE WHEN title = 'x' THEN 1 / 0 END = 1",
        "upper(lower(title)) = 'X'",
    ],
)
def test_a_filter_from_outside_can_neither_fail_on_a_row_nor_grow(limited: Session, where: str) -> None:
    answer = said(limited, "search", {"query": "tokens", "where": where})

    assert answer["error"]["kind"] == "query"
    assert "is not allowed here. Allowed: fields compared with values" in answer["error"]["message"]


@pytest.mark.parametrize(
    "where",
    [
        "title LIKE 'a%' AND NOT (chunk_index > 3 OR chunk_index IS NULL)",
        "artifact_id IN ('auth.md', 'ledger.md') AND chunk_index BETWEEN 0 AND 9",
        "starts_with(artifact_id, 'auth') AND lower(title) = 'auth'",
        "`artifact_id` <> 'x' AND -1 < chunk_index",
        "updated > timestamp '2026-01-31T12:00:00Z'",
    ],
)
def test_a_filter_of_comparisons_is_harmless(where: str) -> None:
    restrict_filter(where, lambda: [Field("updated", "timestamp", 1)])


def test_a_filter_of_too_many_parts_is_refused_in_words(limited: Session) -> None:
    answer = said(limited, "search", {"query": "tokens", "where": "NOT " * 3_000 + "true"})

    assert "nested operators" in answer["error"]["message"]


def test_what_only_reads_has_nothing_that_writes(whole: FindingAid) -> None:
    answer = said(Session.of(whole), "propose_claim", {})

    assert answer["error"]["kind"] == "unknown_capability"
    assert "propose_claim" not in Session.of(whole).capabilities
