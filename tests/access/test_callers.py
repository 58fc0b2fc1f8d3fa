"""A caller gets from every capability what an index of the artifacts that they may read would answer."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import orjson
import pytest

from findingaid import Corpus, FindingAid, FindingAidError, QueryError
from findingaid.access import Caller
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.claims.nodes import ExtractiveNodes
from findingaid.corpus import Claiming
from findingaid.query.lookup.freshness import VERIFY
from findingaid.serve.capabilities import CAPABILITIES
from findingaid.serve.errors import problem_of
from findingaid.serve.session import Session
from findingaid.sources.access import AccessRule, AccessRules
from findingaid.store import Store, permitted, upkeep, vectors
from findingaid.strategies.chunked import Chunked
from findingaid.testing import HashEmbedder, MemorySource
from tests.serve.test_scope import QUESTIONS, require_equal_scores_of_hidden_words
from tests.support.serving import HIDDEN, OPEN, WORDS, Refers, without_times

SECRET = {"vault.md": HIDDEN["vault.md"], "zanzibar/auth.md": HIDDEN["auth.md"]}
RULES = AccessRules([AccessRule("**", ["group:office"]), *(AccessRule(f"/{name}", ["public"]) for name in OPEN)])

OF_ONE_INDEX = {"updated", "published", "published_version", "next_cursor", "fresh_seconds"}
"""Fields that differ from index to index."""


def indexed(folder: Path, texts: Mapping[str, str], access: AccessRules = RULES) -> FindingAid:
    claiming = Claiming(ExtractiveClaims(), nodes=ExtractiveNodes(), at_least=2)
    edges = Refers([("open", name) for name in (*OPEN, *SECRET)])
    source = MemorySource(dict(texts))
    corpus = Corpus("open", source, Chunked(chunk_size=120, overlap=0), claims=claiming, edges=edges, access=access)
    aid = FindingAid(Store(str(folder / "index")), HashEmbedder(), {"open": corpus})
    problems = list(aid.index().problems())
    assert problems == [], problems
    return aid


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    return indexed(tmp_path_factory.mktemp("both"), {**OPEN, **SECRET})


@pytest.fixture(scope="module")
def limited(whole: FindingAid) -> Session:
    return Session.of(whole, actor="ann")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A session of an index that never had another artifact."""
    return Session.of(indexed(tmp_path_factory.mktemp("alone"), OPEN), actor="ann")


def said(session: Session, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the answer without what belongs to one index, or one moment: its cursors, and how long something took."""
    try:
        answer = without_times(session.call(name, given))
        return {key: value for key, value in answer.items() if key not in OF_ONE_INDEX}
    except FindingAidError as error:
        return problem_of(error).to_dict()


ASKED = [
    *QUESTIONS,
    ("search", {"query": "auth tokens", "mode": "dense", "k": 50, "where": "artifact_id = 'vault.md' OR title <> ''"}),
    ("search", {"query": "auth tokens", "where": "readers = 'group:office'"}),
    ("search", {"query": "auth tokens", "mode": "dense", "per_artifact": True, "fresh": True}),
    ("browse", {"folder": "zanzibar/"}),
    ("show", {"id": "zanzibar/auth.md"}),
    ("show", {"id": "open/vault.md"}),
    ("why", {"id": "vault.md"}),
    ("neighbours", {"id": "vault.md", "reverse": True}),
]


@pytest.mark.parametrize(("name", "given"), ASKED, ids=[f"{name}-{i}" for i, (name, _) in enumerate(ASKED)])
def test_a_caller_is_answered_as_if_there_were_no_other_artifact(
    limited: Session, alone: Session, name: str, given: dict[str, Any]
) -> None:
    answer = said(limited, name, given)

    assert answer == said(alone, name, given)
    told, asked = (orjson.dumps(each).decode().lower() for each in (answer, given))
    if name not in ("neighbours", "impact"):  # a text that may be read names what it refers to
        assert [word for word in WORDS if word in told and word not in asked] == []


def test_the_questions_ask_every_capability() -> None:
    """Whoever adds a capability adds a question here."""
    assert {name for name, _ in ASKED} == {capability.name for capability in CAPABILITIES}


def test_an_id_of_an_artifact_that_may_not_be_read_is_one_that_is_not_there(
    whole: FindingAid, limited: Session, alone: Session
) -> None:
    rows = whole.store.rows("records", ["artifact_id", "record_id", "claim_id"]).to_pylist()
    hidden = [row for row in rows if row["artifact_id"] in SECRET]
    ids = {*SECRET, *(row["record_id"] for row in hidden), *(row["claim_id"] for row in hidden if row["claim_id"])}

    assert len(ids) > 10
    for wanted in ids:
        for name in ("show", "why", "impact", "neighbours"):
            known = said(limited, name, {"id": wanted})

            assert known == said(alone, name, {"id": wanted})
            assert known["error"]["kind"] == "not_found"


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_scores_do_not_tell_which_words_others_have(limited: Session, mode: str) -> None:
    require_equal_scores_of_hidden_words(limited, mode)


def test_status_counts_what_a_caller_may_read(limited: Session, alone: Session) -> None:
    def counted(session: Session) -> list[dict[str, Any]]:
        (corpus,) = session.call("status", {})["corpora"]
        return [{key: corpus[key] for key in corpus if key not in OF_ONE_INDEX}]

    assert counted(limited) == counted(alone)
    assert limited.call("status", {})["caller"] == "public"


def test_status_does_not_tell_how_many_records_the_index_has(tmp_path: Path) -> None:
    aid = indexed(tmp_path, OPEN)
    vectors.write(aid.store.dataset("records"), vectors.Measured(10, 1.0, 12_345))
    aid.publish()

    assert "12345" in str(aid.status())
    assert "12345" not in str(aid.as_caller().status())


def test_nothing_is_proposed_or_decided_for_a_caller(limited: Session, whole: FindingAid) -> None:
    """Whether a claim is known would tell what others have."""
    given = {"corpus": "open", "artifact_id": "auth.md", "text": "Mortimer stole the Zanzibar key."}

    assert "not for a caller" in str(said(limited, "propose_claim", given))
    caller = whole.as_caller("user:ann")
    for call in (
        lambda: caller.claims,
        lambda: caller.index(),
        lambda: caller.plan(),
        lambda: caller.publish(),
        lambda: caller.rollback(),
        lambda: caller.purge(),
        lambda: caller.verify(),
        lambda: caller.check(),
        lambda: caller.access("auth.md"),
        lambda: caller.as_caller("user:eve"),
    ):
        with pytest.raises(QueryError, match="not for a caller"):
            call()
    with pytest.raises(QueryError, match="nothing is written for a caller"):
        caller.store.drop("records", "record_id", ["x"])


def test_freshness_does_not_tell_what_a_source_has(whole: FindingAid) -> None:
    caller = whole.as_caller()

    for fresh in (True, VERIFY):
        for artifact_id in ("vault.md", "nowhere.md"):
            with pytest.raises(QueryError, match=f"no published artifact '{artifact_id}'"):
                caller.freshness([("open", artifact_id)], fresh)


def test_decisions_on_claims_take_effect_and_are_not_told(tmp_path: Path) -> None:
    """They quote claims of other artifacts, and their ids confirm a guess of what these say."""
    aid = indexed(tmp_path / "both", {**OPEN, **SECRET})
    limited, alone = Session.of(aid, actor="ann"), Session.of(indexed(tmp_path / "alone", OPEN), actor="ann")
    rows = aid.store.rows("claims", ["artifact_id", "claim_id"]).to_pylist()
    rejected, approved, contesting, *_ = [row["claim_id"] for row in rows if row["artifact_id"] in SECRET]
    contested, kept, *_ = [row for row in rows if row["artifact_id"] in OPEN]
    aid.claims.reject(rejected, actor="boss", reason="Mortimer lies")
    aid.claims.approve(approved, actor="boss")
    aid.claims.contest((contested["claim_id"], contesting), actor="boss", reason="see the Zanzibar file")
    ids = [rejected, rejected[:6], approved, approved[:8], contested["claim_id"], contested["artifact_id"]]
    asked = [(name, {"id": i}) for name in ("show", "why", "impact", "neighbours") for i in ids]

    for name, given in [*asked, ("answer", {"query": "How long do auth tokens expire?"})]:
        assert said(limited, name, given) == said(alone, name, given), (name, given)

    aid.claims.reject(kept["claim_id"], actor="boss", reason="it does not hold")
    assert said(limited, "show", {"id": kept["claim_id"]})["error"]["kind"] == "not_found"


def test_an_index_of_which_nothing_may_be_read_is_an_empty_one(tmp_path: Path) -> None:
    access = AccessRules([AccessRule("**", ["group:office"])])
    limited = Session.of(indexed(tmp_path / "both", OPEN, access))
    empty = Session.of(indexed(tmp_path / "empty", {}, access))

    for name, given in ASKED:
        assert said(limited, name, given) == said(empty, name, given), (name, given)


def test_a_filter_of_a_caller_cannot_fail_on_what_others_may_read(whole: FindingAid) -> None:
    """Lance evaluates it in no known order, and the error would quote the value."""
    caller = whole.as_caller()

    for where in ("CAST(title AS BIGINT) > 0", "1 / (length(title) - 5) > 3", "regexp_match(text, '(') IS NOT NULL"):
        with pytest.raises(QueryError, match="is not allowed here"):
            caller.search("auth", where=where)
    assert caller.browse(where="title <> '' OR true").artifacts == len(OPEN)


def test_a_caller_is_who_they_are_whatever_was_asked_before(whole: FindingAid) -> None:
    """Views share the model and the vectors, and nothing else."""
    office, public = whole.as_caller(groups=["group:office"]), whole.as_caller()

    for _ in range(3):  # the second search loads the vectors
        for aid, expected in ((office, {*OPEN, *SECRET}), (public, {*OPEN}), (whole, {*OPEN, *SECRET})):
            for mode in ("dense", "lexical", "hybrid"):
                found = aid.search("auth tokens of the Zanzibar office, ledger row", 50, mode=mode)
                assert {hit.artifact_id for hit in found} == expected, mode
    assert whole.searcher.reader().memory is public.searcher.reader().memory
    assert public.within(["open"]).browse().artifacts == len(OPEN)


def test_few_readable_records_among_many_fill_a_page(tmp_path: Path) -> None:
    texts = {f"n{i}.md": f"# Note {i}\n\nThe ledger keeps row {i}.\n" for i in range(60)}
    access = AccessRules([AccessRule("**", ["group:office"]), AccessRule("/n?.md", ["public"])])
    caller = indexed(tmp_path, texts, access).as_caller()

    for _ in range(2):
        for mode in ("dense", "lexical", "hybrid"):
            found = caller.search("ledger row", 10, mode=mode, surfaces=["chunk"])
            assert {hit.artifact_id for hit in found} == {f"n{i}.md" for i in range(10)}, mode


@pytest.mark.parametrize("least_share", [0, 1], ids=["read with others", "filtered"])
def test_a_lexical_search_finds_the_best_readable_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least_share: float
) -> None:
    """Whether the others are more or fewer, better or worse, and after their readers have changed places."""
    monkeypatch.setattr(permitted, "LEAST_SHARE", least_share)
    monkeypatch.setattr(upkeep, "KEY_INDEX_ROWS", 1)
    words = {i: "ledger row " * (7 if i % 3 else 1) + "page " * (i % 11) for i in range(60)}
    texts = {f"n{i}.md": f"# Note {i}\n\nThe ledger has {words[i]}and row {i}.\n" for i in words}
    for pattern in ("*[0369].md", "*[1245678].md"):
        access = AccessRules([AccessRule("**", ["group:office"]), AccessRule(pattern, ["public"])])
        aid = indexed(tmp_path, texts, access)
        readable = {id_ for id_ in texts if fnmatch(id_, pattern)}
        everything = aid.search("ledger row", 200, mode="lexical")
        assert ["readers"] in [index.field_names for index in aid.store.dataset("records").describe_indices()]

        for k in (1, 7, 50):
            found = aid.as_caller().search("ledger row", k, mode="lexical")
            expected = [hit for hit in everything if hit.artifact_id in readable][:k]
            assert [(hit.record_id, hit.score) for hit in found] == [(hit.record_id, hit.score) for hit in expected]


TOPICS = ("auth", "ledger", "vault", "office", "token", "row", "key", "year")
PRINCIPALS = ("public", "user:ann", "user:bob", "group:hr", "group:it")
CALLERS = (Caller.of(), Caller.of("user:ann"), Caller.of("user:bob", ["group:hr"]), Caller.of("", ["group:it"]))


def some_text(chance: random.Random) -> str:
    words = [chance.choice(TOPICS) for _ in range(12)]
    return f"# {words[0]}\n\nThe {words[1]} of the {words[2]} is a {' '.join(words[3:])}.\n"


def some_readers(chance: random.Random) -> list[str]:
    allowed = chance.sample(PRINCIPALS, chance.randrange(1, 3))
    return [*allowed, *(f"-{each}" for each in chance.sample(PRINCIPALS[1:], 1) if chance.random() < 0.3)]


ANSWERS: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": "the vault of the office", "mode": "dense", "k": 50, "detail": "full"}),
    ("search", {"query": "key row", "mode": "dense", "k": 3, "route": "neighbours"}),
    ("context", {"query": "token of the year", "budget_tokens": 300, "mode": "dense"}),
    ("browse", {}),
    ("corpora", {}),
    ("neighbours", {}),
    *((name, {"id": f"n{i}.md"}) for i in range(4) for name in ("show", "why", "impact", "neighbours")),
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.release) for seed in (1, 2, 3))])
def test_after_any_changes_a_caller_sees_an_index_of_what_they_may_read(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    texts = {f"n{i}.md": some_text(chance) for i in range(8)}
    readers = {name: some_readers(chance) for name in texts}
    for step in range(3):
        for name in chance.sample(sorted(texts), 2):
            readers[name] = some_readers(chance)
        texts[chance.choice(sorted(texts))] = some_text(chance)
        if step:
            gone = chance.choice(sorted(texts))
            texts[f"n{8 + step}.md"], readers[f"n{8 + step}.md"] = some_text(chance), some_readers(chance)
            del texts[gone], readers[gone]
        session = Session.of(read_by(tmp_path / "all", texts, readers))
        for number, caller in enumerate(CALLERS):
            mine = [name for name in texts if may_read(caller, readers[name])]
            there = {name: texts[name] for name in mine}
            only = Session.of(read_by(tmp_path / f"{step}-{number}", there, readers))
            view, other = (replace(each, caller=caller) for each in (session, only))
            for name, given in ANSWERS if mine else ():
                assert said(view, name, given) == said(other, name, given), (step, str(caller), name, given)
            for query in TOPICS:  # words are weighed by all artifacts, so that the order of what is found may differ
                for artifact_id in re.findall(
                    r"n\d+\.md", str(said(view, "answer", {"query": f"what is the {query}"}))
                ):
                    assert artifact_id in mine, (step, str(caller), query)


def may_read(caller: Caller, readers: list[str]) -> bool:
    """Return whether a caller is allowed and not denied, said once more and otherwise."""
    allowed = {each for each in readers if not each.startswith("-")}
    denied = {each[1:] for each in readers if each.startswith("-")}
    return bool(caller.principals & allowed) and not caller.principals & denied


def read_by(folder: Path, texts: Mapping[str, str], readers: Mapping[str, list[str]]) -> FindingAid:
    claiming = Claiming(ExtractiveClaims(), nodes=ExtractiveNodes(), at_least=1)
    source = MemorySource(dict(texts), read_by={name: readers[name] for name in texts})
    edges = Refers([("docs", f"n{i}.md") for i in range(3)])
    chunks = Chunked(chunk_size=120, overlap=0)
    corpus = Corpus("docs", source, chunks, claims=claiming, edges=edges, access=AccessRules())
    aid = FindingAid(Store(str(folder)), HashEmbedder(), {"docs": corpus})
    assert list(aid.index(allow_loss=True).problems()) == []
    return aid
