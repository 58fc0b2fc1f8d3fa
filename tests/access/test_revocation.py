"""A revocation counts at once, before any run, and is a decision that the log keeps."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from findingaid import FindingAid, QueryError
from findingaid.access import Caller
from findingaid.claims.revocations import Revoked
from findingaid.cli import main
from findingaid.corpus import Corpus
from findingaid.serve.session import Session
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import HashEmbedder, MemorySource
from tests.access.test_callers import SECRET, indexed
from tests.support.serving import OPEN, post, served

TOKEN = hashlib.sha256(b"ann").hexdigest()
CALLERS = [{"token_sha256": TOKEN, "user": "user:ann", "groups": ["group:office"]}]


@pytest.fixture
def aid(tmp_path: Path) -> FindingAid:
    return indexed(tmp_path, {**OPEN, **SECRET})


def ids(aid: FindingAid, user: str = "", *groups: str) -> set[str]:
    return {artifact_id for (_, artifact_id), _ in aid.as_caller(user, groups).artifacts()}


def test_a_revoked_user_reads_nothing_and_a_revoked_group_gives_nothing(aid: FindingAid) -> None:
    aid.revoke("user:ann", actor="eve", reason="left us")

    assert ids(aid, "user:ann", "group:office") == set()
    assert ids(aid, "user:bob", "group:office") == {*OPEN, *SECRET}
    assert aid.as_caller("user:ann").browse().artifacts == 0
    assert list(aid.as_caller("user:ann").search("auth tokens")) == []
    assert aid.as_caller("user:ann").status()[0].artifacts == 0

    aid.revoke("group:office")
    assert ids(aid, "user:bob", "group:office") == {*OPEN}

    aid.admit("user:ann", "group:office")
    assert ids(aid, "user:ann", "group:office") == {*OPEN, *SECRET}


def test_a_revoked_group_still_denies(aid: FindingAid) -> None:
    """Else it would give its members what it was to keep from them."""
    caller = Caller.of("user:ann", ["group:guests"])
    limited = Revoked(frozenset(["group:guests"])).limit(caller)

    assert not caller.may_read("public -group:guests")
    assert not limited.may_read("public -group:guests")
    assert not limited.may_read("group:guests")
    assert limited.may_read("public")


def test_a_principal_is_revoked_in_either_form_of_unicode(aid: FindingAid) -> None:
    aid.revoke("user:Zoe\u0308")
    assert ids(aid, "user:Zo\u00eb", "group:office") == set()
    aid.admit("user:Zo\u00eb")
    assert ids(aid, "user:Zo\u00eb", "group:office") == {*OPEN, *SECRET}


def test_a_revoked_artifact_is_not_there_for_any_caller(aid: FindingAid) -> None:
    assert "vault.md" in ids(aid, "", "group:office")

    aid.revoke("vault.md", actor="eve")

    assert ids(aid, "", "group:office") == {*OPEN, *SECRET} - {"vault.md"}
    caller = aid.as_caller(groups=["group:office"])
    for mode in ("dense", "lexical", "hybrid"):
        assert "vault.md" not in {hit.artifact_id for hit in caller.search("the vault of zanzibar", 50, mode=mode)}
    for call in (caller.show, caller.read, caller.why, caller.impact, caller.neighbours, caller.history):
        with pytest.raises(QueryError, match=r"vault\.md' is published|no published artifact"):
            call("vault.md")
    assert "vault.md" in {artifact_id for (_, artifact_id), _ in aid.artifacts()}
    aid.admit("open/vault.md")
    assert "vault.md" in ids(aid, "", "group:office")


def test_a_server_applies_a_revocation_to_the_next_request(aid: FindingAid) -> None:
    def found(address: str) -> set[str]:
        answer = post(address, "search", {"query": "auth tokens", "k": 50}, authorization="Bearer ann").json()
        return {hit["artifact_id"] for hit in answer["hits"]}

    with served(Session.of(aid), callers=CALLERS) as address:
        assert found(address) == {*OPEN, *SECRET}
        FindingAid(Store(aid.store.uri), aid.embedder, aid.corpora).revoke("vault.md")  # as another process
        assert found(address) == {*OPEN, *SECRET} - {"vault.md"}
        FindingAid(Store(aid.store.uri), aid.embedder, aid.corpora).revoke("user:ann")
        assert found(address) == set()
        status = post(address, "status", {}, authorization="Bearer ann").json()
    assert status["caller"] == "nobody"


def test_revocations_outlast_runs_and_are_no_decisions_on_claims(aid: FindingAid) -> None:
    standing = [(view.claim_id, view.review) for view in aid.claims.list()]
    aid.revoke("user:ann", "vault.md", actor="eve", reason="left us")

    report = aid.index(force=True)

    assert list(report.problems()) == []
    assert str(aid.revoked()) == "user:ann\nopen/vault.md"
    assert [(view.claim_id, view.review) for view in aid.claims.list()] == standing
    assert aid.claims.history() == []
    assert aid.verify() == []
    with pytest.raises(QueryError, match="no decision 2"):
        aid.claims.undo(2)


def test_what_cannot_be_revoked_is_one_line(aid: FindingAid, tmp_path: Path) -> None:
    for named, reason in (
        ("nowhere.md", "neither user:NAME, group:NAME nor a published artifact"),
        ("users:ann", "neither user:NAME, group:NAME nor a published artifact"),
    ):
        with pytest.raises(QueryError, match=reason):
            aid.revoke("user:bob", named)
    with pytest.raises(QueryError, match="admit user:bob: it is not revoked"):
        aid.admit("user:bob")
    with pytest.raises(QueryError, match="name a principal or an artifact"):
        aid.revoke()
    assert aid.revoked().principals == frozenset()  # all of them or none

    corpus = Corpus("docs", MemorySource({"a.md": "A."}), Chunked())
    open_to_all = FindingAid(Store(str(tmp_path / "open")), HashEmbedder(), {"docs": corpus})
    open_to_all.index()
    with pytest.raises(QueryError, match="no corpus has `access`"):
        open_to_all.revoke("user:ann")


def test_the_command_line_revokes_admits_and_lists(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\nThe office opens at nine.\n")
    config = tmp_path / "findingaid.yaml"
    config.write_text(
        "store: index\nembedder: {kind: hash}\ncorpora:\n  docs:\n    source: {kind: files, root: docs}\n"
        "    access: [{readers: [public]}]\n"
    )

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(main, [*arguments, "--config", str(config)])
        assert done.exit_code == 0, done.stderr
        return done.stdout

    run("index")
    assert run("access", "revoked") == "nothing is revoked\n"
    assert run("access", "revoke", "user:bob", "a.md", "--reason", "left us") == "user:bob\ndocs/a.md\n"
    assert json.loads(run("search", "office", "--as", "public", "--json")) == []
    assert json.loads(run("access", "admit", "docs/a.md", "--json")) == {"principals": ["user:bob"], "artifacts": []}
    assert len(json.loads(run("search", "office", "--as", "public", "--json"))) == 1
    assert "left us" in run("claims", "export")
