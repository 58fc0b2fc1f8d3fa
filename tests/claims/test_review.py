"""Review of claims by library and command line: lists, decisions, and their effect after a run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from findingaid import Corpus, FindingAid, QueryError, StoreError
from findingaid.claims.model import NOTHING_DECIDED, Claim, Evidence
from findingaid.claims.review import ProposedClaim
from findingaid.claims.standing import replay_decisions
from findingaid.cli import main
from findingaid.corpus import Claiming
from findingaid.errors import ConfigError
from findingaid.protocols import Extraction
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import CountingEmbedder, MemorySource
from tests.conftest import ReadyMade
from tests.support.claims import claim, write

TRUSTED = claim("The ledger is kept by hand.")
MODEL = claim("Ledgers are written in ink.", quote="in ink", verbatim=False)
FORGED = claim("The ledger is lost.", evidence=Evidence.FORGED, quote="is lost")
QUOTE = "The ledger is described here in a sentence"


class Silent:
    """An extractor that finds nothing, so that all claims are those that a test writes."""

    id = "silent"
    free = True

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        return Extraction()


@pytest.fixture
def aid(make_aid: Callable[..., FindingAid], ready_made: ReadyMade) -> FindingAid:
    aid = make_aid(synthesizer=None, claims=Claiming(Silent()))

    def build() -> None:
        aid.index()
        write(aid, [TRUSTED, MODEL, FORGED])

    ready_made("claims to review", build)
    return aid


def test_claims_are_listed_with_where_they_stand(aid: FindingAid) -> None:
    aid.claims.approve(MODEL.claim_id, truth="working", actor="ann", reason="read it")

    trusted, model, forged = aid.claims.list()
    assert (trusted.text, trusted.review, trusted.truth, trusted.tier) == (
        TRUSTED.text, "unreviewed", "working", "policy",
    )  # fmt: skip
    assert (model.review, model.truth, model.tier, model.evidences) == ("approved", "working", "approved", (MODEL,))
    assert (forged.evidence, forged.tier) == ("forged", "")
    (decision,) = aid.claims.history(MODEL.claim_id)
    assert (decision.actor, decision.reason, decision.text, decision.quote) == ("ann", "read it", MODEL.text, "in ink")


def test_lists_are_filtered(aid: FindingAid) -> None:
    aid.claims.approve(MODEL.claim_id)
    expected: list[tuple[dict[str, Any], list[Claim]]] = [
        ({"review": "approved"}, [MODEL]),
        ({"tier": "policy"}, [TRUSTED]),
        ({"evidence": "forged"}, [FORGED]),
        ({"circulation": "archived"}, []),
        ({"truth": "stable"}, [MODEL]),
        ({"artifact": "ledger.md", "expired": False}, [TRUSTED, MODEL, FORGED]),
        ({"artifact": "vector.md"}, []),
        ({"expired": True}, []),
    ]

    for filters, claims in expected:
        assert [view.claim_id for view in aid.claims.list(**filters)] == [c.claim_id for c in claims], filters


def test_what_is_forged_is_not_approved_and_a_rejection_needs_a_reason(aid: FindingAid) -> None:
    with pytest.raises(QueryError, match=r"its quote is not in ledger.md: it is forged"):
        aid.claims.approve(FORGED.claim_id)
    with pytest.raises(QueryError, match=r"reject: a reason is required"):
        aid.claims.reject(TRUSTED.claim_id)
    with pytest.raises(QueryError, match=r"unknown review 'good'. Known: unreviewed, pending, approved, rejected"):
        aid.claims.list(review="good")

    assert aid.claims.history() == []


@pytest.mark.parametrize(
    "decide",
    [
        *(lambda claims, a, b, name=name: getattr(claims, name)(a, b) for name in ("contest", "supersede")),
        *(lambda claims, a, b, name=name: getattr(claims, name)(a) for name in ("contest", "supersede")),
        *(
            lambda claims, a, b, name=name: getattr(claims, name)((a, b, "working"))
            for name in ("contest", "supersede")
        ),
        *(lambda claims, a, b, name=name: getattr(claims, name)([(a, b)]) for name in ("contest", "supersede")),
        *(lambda claims, a, b, name=name: getattr(claims, name)((a, None)) for name in ("contest", "supersede")),
        *(lambda claims, a, b, name=name: getattr(claims, name)([a, b]) for name in ("approve", "archive", "redact")),
        *(
            lambda claims, a, b, name=name: getattr(claims, name)(7)
            for name in ("approve", "restore", "show", "history")
        ),
        lambda claims, a, b: claims.reject([a, b], reason="no"),
        lambda claims, a, b: claims.reject(a, reason=None),
        lambda claims, a, b: claims.approve(a, reason=None),
        lambda claims, a, b: claims.propose("ledger.md", "The ledger is blue."),
        lambda claims, a, b: claims.propose({"artifact_id": "ledger.md", "text": "The ledger is blue."}),
        lambda claims, a, b: claims.undo("1"),
    ],
)
def test_arguments_of_another_form_are_refused_in_one_line_and_nothing_is_decided(
    aid: FindingAid, decide: Callable[[Any, str, str], object]
) -> None:
    one, other = (view.claim_id for view in aid.claims.list()[:2])

    with pytest.raises(QueryError) as error:
        decide(aid.claims, one, other)

    assert "\n" not in str(error.value)
    assert aid.claims.history() == []


def test_of_a_batch_all_is_written_or_nothing(aid: FindingAid) -> None:
    with pytest.raises(QueryError, match=r"no claim 'nope'.*; nothing of the batch was written"):
        aid.claims.archive(TRUSTED.claim_id, "nope")
    aid.claims.archive(TRUSTED.claim_id, MODEL.claim_id, actor="ann")

    assert [(d.seq, d.claim_id) for d in aid.claims.history()] == [(1, TRUSTED.claim_id), (2, MODEL.claim_id)]


def test_ids_may_be_cut_short_as_far_as_they_name_one(aid: FindingAid) -> None:
    assert aid.claims.show(TRUSTED.claim_id[:8]).claim_id == TRUSTED.claim_id
    with pytest.raises(QueryError, match=r"no claim"):
        aid.claims.show(TRUSTED.claim_id[:3])


def test_a_proposal_is_pending_then_approved_and_waits_for_the_next_run(aid: FindingAid) -> None:
    good, bad = aid.claims.propose(
        ProposedClaim("docs", "ledger.md", "Ledgers are described.", QUOTE),
        ProposedClaim("docs", "ledger.md", "Ledgers are secret.", "nobody may see them"),
        actor="ann",
    )

    assert (good.review, good.evidence, good.waits, good.expired, good.tier) == ("pending", "verified", True, False, "")
    assert good.evidences[0].span == (10, 10 + len(QUOTE))
    assert (bad.review, bad.evidence) == ("pending", "forged")
    (approved,) = aid.claims.approve(good.claim_id)
    assert (approved.review, approved.tier, approved.waits) == ("approved", "approved", True)
    with pytest.raises(QueryError, match=r"it is forged"):
        aid.claims.approve(bad.claim_id)
    with pytest.raises(QueryError, match=r"propose .*: it is pending. Possible: approve"):
        aid.claims.propose(ProposedClaim("docs", "ledger.md", "Ledgers are secret.", "nor may they"))
    (corrected,) = aid.claims.propose(ProposedClaim("docs", "ledger.md", "Ledgers are secret.", QUOTE))
    assert (corrected.claim_id, corrected.evidence) == (bad.claim_id, "verified")
    assert aid.claims.approve(bad.claim_id)[0].review == "approved"
    with pytest.raises(QueryError, match=r"propose .*: it is unreviewed. Possible: approve"):
        aid.claims.propose(ProposedClaim("docs", "ledger.md", TRUSTED.text))
    with pytest.raises(QueryError, match=r"no artifact 'nope.md' is published in docs"):
        aid.claims.propose(ProposedClaim("docs", "nope.md", "x"))


def test_a_forged_quote_does_not_block_the_right_one_after_a_run_or_an_edit(
    make_aid: Callable[..., FindingAid], ready_made: ReadyMade
) -> None:
    source = MemorySource({"ledger.md": f"# Ledger\n\n{QUOTE}."})
    aid = make_aid(source=source, synthesizer=None, claims=Claiming(Silent()))
    ready_made("one ledger", aid.index)
    (forged,) = aid.claims.propose(ProposedClaim("docs", "ledger.md", "Ledgers are described.", "somewhere else"))
    aid.index()
    assert [view.evidence for view in aid.claims.list()] == ["forged"]

    (right,) = aid.claims.propose(ProposedClaim("docs", "ledger.md", "Ledgers are described.", QUOTE))
    (approved,) = aid.claims.approve(forged.claim_id)
    aid.index()

    assert (right.review, right.evidence, right.waits) == ("pending", "verified", True)
    assert (approved.review, approved.waits) == ("approved", True)
    assert [(view.tier, view.evidence) for view in aid.claims.list()] == [("approved", "verified")]

    source.payloads["ledger.md"] = "# Ledger\n\nA ledger is described elsewhere."
    aid.index()
    assert [view.evidence for view in aid.claims.list()] == ["forged"]
    (again,) = aid.claims.propose(
        ProposedClaim("docs", "ledger.md", "Ledgers are described.", "is described elsewhere")
    )
    assert (again.review, again.evidence) == ("pending", "verified")


def test_a_decision_is_undone_by_its_number(aid: FindingAid) -> None:
    aid.claims.approve(MODEL.claim_id, truth="working", actor="ann")
    aid.claims.reject(MODEL.claim_id, actor="bob", reason="a slip")
    assert aid.claims.show(MODEL.claim_id).tier == ""

    (undone,) = aid.claims.undo(2, actor="ann", reason="he meant another")

    assert (undone.claim_id, undone.review, undone.truth, undone.tier) == (
        MODEL.claim_id, "approved", "working", "approved",
    )  # fmt: skip
    assert [(d.seq, d.action, d.undoes, d.actor) for d in aid.claims.history()] == [
        (1, "approve", None, "ann"), (2, "reject", None, "bob"), (3, "undo", 2, "ann"),
    ]  # fmt: skip
    assert aid.claims.history()[2].to_dict()["details"] == {"undoes": 2}
    assert not [problem for problem in aid.verify() if "decisions" in problem]
    assert replay_decisions("docs", aid.claims.history()).reviewed == {MODEL.claim_id}
    assert aid.claims.undo(3)[0].review == "rejected"
    assert aid.claims.undo(4, 1)[0].review == "unreviewed"
    assert (
        replay_decisions("docs", aid.claims.history()) == NOTHING_DECIDED
    )  # so that no run keeps it for its decisions


def test_a_superseded_claim_comes_back_when_the_decision_or_its_successor_is_undone(aid: FindingAid) -> None:
    aid.claims.supersede((TRUSTED.claim_id, MODEL.claim_id))
    assert aid.claims.show(TRUSTED.claim_id).circulation == "superseded"

    aid.claims.undo(1)
    assert aid.claims.show(TRUSTED.claim_id).circulation == "live"
    aid.claims.undo(2)
    aid.claims.archive(MODEL.claim_id)

    assert aid.claims.show(TRUSTED.claim_id).circulation == "live"
    aid.claims.undo(4)
    assert aid.claims.show(TRUSTED.claim_id).superseded_by == MODEL.claim_id


def test_a_batch_of_decisions_is_undone_together_and_a_proposal_or_a_redaction_is_not(aid: FindingAid) -> None:
    aid.claims.archive(TRUSTED.claim_id, MODEL.claim_id)
    aid.claims.propose(ProposedClaim("docs", "ledger.md", "Ledgers are described.", QUOTE))
    aid.claims.redact(FORGED.claim_id)

    with pytest.raises(QueryError, match=r"undo 3: a proposal cannot be undone: reject or archive claim"):
        aid.claims.undo(3)
    with pytest.raises(QueryError, match=r"undo 4: claim .* is redacted, which is final; nothing of the batch"):
        aid.claims.undo(1, 4)
    with pytest.raises(QueryError, match=r"no decision 9: `findingaid claims history` shows numbers"):
        aid.claims.undo(9)
    assert [view.circulation for view in aid.claims.undo(1, 2)] == ["live", "live"]
    assert [d.undoes for d in aid.claims.history()[4:]] == [2, 1]


def test_a_claim_that_no_artifact_says_any_more_is_expired_not_lost(aid: FindingAid) -> None:
    aid.claims.approve(MODEL.claim_id)
    aid.claims.contest((MODEL.claim_id, TRUSTED.claim_id))
    aid.store.drop("claims", "claim_id", [MODEL.claim_id, TRUSTED.claim_id])
    aid.publisher.publish()

    expired = {view.claim_id: view for view in aid.claims.list(expired=True)}

    assert expired.keys() == {MODEL.claim_id, TRUSTED.claim_id}
    assert (expired[MODEL.claim_id].text, expired[MODEL.claim_id].review) == (MODEL.text, "approved")
    assert expired[MODEL.claim_id].evidences == (MODEL,)
    assert expired[TRUSTED.claim_id].evidences == (TRUSTED,)
    assert {view.tier for view in expired.values()} == {""}
    with pytest.raises(QueryError, match=r"it is expired: ledger.md no longer states it"):
        aid.claims.approve(TRUSTED.claim_id)
    write(aid, [MODEL])
    assert aid.claims.show(MODEL.claim_id).tier == "approved"


def test_before_the_first_run_there_is_nothing_to_list_or_decide(make_aid: Callable[..., FindingAid]) -> None:
    aid = make_aid()

    assert aid.claims.list() == []
    with pytest.raises(QueryError, match=r"no claim 'abcdef'"):
        aid.claims.show("abcdef")
    with pytest.raises(StoreError, match=r"run `findingaid index`"):
        aid.claims.archive("abcdef")


def test_a_caller_limited_to_a_corpus_learns_nothing_of_others(tmp_path: Path) -> None:
    corpora = {
        name: Corpus(name, MemorySource({"a.md": f"about {name}"}), Chunked(chunk_size=200, overlap=0))
        for name in ("open", "closed")
    }
    aid = FindingAid(Store(str(tmp_path / "index")), CountingEmbedder(), corpora)
    aid.index()
    own, hidden = (claim(f"A claim of {name}.", "a.md", corpus=name) for name in ("open", "closed"))
    write(aid, [own])
    write(aid, [hidden])
    aid.claims.archive(hidden.claim_id, reason="a closed reason")

    limited = aid.claims.within(["open"])

    assert [view.claim_id for view in limited.list()] == [own.claim_id]
    assert limited.history() == []
    unknown = "no claim '{}': `findingaid claims list` shows ids"
    asks: list[Callable[[str], object]] = [
        limited.show, limited.history, limited.archive, lambda i: limited.contest((own.claim_id, i)),
    ]  # fmt: skip
    asked = [
        *((ask, hidden.claim_id) for ask in asks),
        (limited.show, hidden.claim_id[:8]),
        (limited.show, "nope-it-is"),
    ]
    for ask, wanted in asked:
        with pytest.raises(QueryError) as told:
            ask(wanted)
        assert str(told.value) == unknown.format(wanted)
    with pytest.raises(ConfigError, match=r"unknown corpus 'closed'. Known: open$"):
        limited.propose(ProposedClaim("closed", "a.md", "A claim."))
    with pytest.raises(ConfigError, match=r"unknown corpus 'closed'. Known: open$"):
        limited.within(["closed"])
    with pytest.raises(QueryError, match=r"belongs to another corpus"):
        aid.claims.contest((own.claim_id, hidden.claim_id))


def test_a_redacted_claim_is_in_no_answer_of_the_library(aid: FindingAid) -> None:
    aid.claims.approve(MODEL.claim_id, reason=f"since {MODEL.text}")
    with pytest.raises(QueryError, match=r"redact: the reason repeats the text to redact"):
        aid.claims.redact(MODEL.claim_id, reason=f"'{MODEL.text}' names a customer")
    (view,) = aid.claims.redact(MODEL.claim_id, reason="names a customer")

    told = json.dumps(
        [
            [v.to_dict() for v in aid.claims.list()],
            aid.claims.show(MODEL.claim_id).to_dict(),
            [d.to_dict() for d in aid.claims.history()],
            [hit.to_dict() for hit in aid.search("written in ink", k=50, surfaces=["claim"], tiers=["unreviewed"])],
            aid.show("ledger.md").to_dict(),
        ],
        default=str,
    )
    assert (view.text, view.circulation) == ("", "redacted")
    assert "ink" not in told
    assert "names a customer" in told
    assert aid.verify() == [] or not any("decision" in problem for problem in aid.verify())
    with pytest.raises(
        StoreError, match=r"not purged: 1 redacted claims are still indexed: run `findingaid index` first"
    ):
        aid.purge()
    with pytest.raises(QueryError, match=r"redacted. Possible: nothing"):
        aid.claims.propose(ProposedClaim("docs", "ledger.md", MODEL.text))


def test_verify_names_a_decision_that_was_altered(aid: FindingAid) -> None:
    import pyarrow.compute as pc

    aid.claims.approve(MODEL.claim_id, actor="ann")
    aid.store.revise(
        "decisions",
        lambda rows: rows.set_column(2, rows.schema.field("actor"), pc.replace_substring(rows["actor"], "ann", "eve")),
    )

    assert [p for p in aid.verify() if "decisions" in p] == [
        f"decisions: the chain is broken at decision 1 (approve {MODEL.claim_id} by eve,"
        f" {aid.claims.history()[0].at:%Y-%m-%d}): it was altered"
    ]


class Reviewing:
    """The command line over the store of a finding aid."""

    def __init__(self, folder: Path, aid: FindingAid) -> None:
        (folder / "docs").mkdir()
        self.config = folder / "findingaid.yaml"
        corpora = {"docs": {"source": {"kind": "files", "root": "docs"}, "claims": True}}
        settings = {"store": aid.store.uri, "embedder": {"kind": "hash"}, "corpora": corpora}
        self.config.write_text(json.dumps(settings))

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        result = CliRunner().invoke(main, ["claims", *arguments, "--config", str(self.config)], input=stdin)
        return result.output

    def json(self, *arguments: str, stdin: str | None = None) -> list[dict[str, object]]:
        said = self.run(*arguments, "--json", stdin=stdin)
        assert not said.startswith("Error"), said
        found: list[dict[str, object]] = json.loads(said)
        return found


@pytest.fixture
def reviewing(tmp_path: Path, aid: FindingAid) -> Reviewing:
    return Reviewing(tmp_path, aid)


def test_the_command_line_reviews_by_ids_and_by_files(reviewing: Reviewing) -> None:
    lines = f"{TRUSTED.claim_id[:10]}\n\n{MODEL.claim_id}\n"

    approved = reviewing.json("approve", "--file", "-", "--truth", "actionable", "--actor", "ann", stdin=lines)
    (proposed,) = reviewing.json(
        "propose", "--file", "-", stdin=json.dumps({"artifact_id": "ledger.md", "text": "A ledger.", "quote": QUOTE})
    )
    contested = reviewing.json("contest", TRUSTED.claim_id, MODEL.claim_id, "--reason", "one of them")
    shown = reviewing.run("show", TRUSTED.claim_id[:10])
    listed = reviewing.run("list")

    assert [(view["claim_id"], view["truth"]) for view in approved] == [
        (TRUSTED.claim_id, "actionable"), (MODEL.claim_id, "actionable"),
    ]  # fmt: skip
    assert (proposed["review"], proposed["corpus"]) == ("pending", "docs")
    assert contested[0]["contested_by"] == [MODEL.claim_id]
    assert "approve actionable" in shown
    assert "one of them" in shown
    assert any(line.split() == ["by", MODEL.claim_id[:10]] for line in shown.splitlines()), "on a line of its own"
    assert "approved, contested" in listed
    assert "pending, not indexed yet" in listed
    assert reviewing.run("reject", TRUSTED.claim_id, "--reason", "wrong").count("rejected") == 1
    assert len(reviewing.json("history")) == 5
    (undone,) = reviewing.json("undo", "5", "--reason", "right after all")
    assert (undone["claim_id"], undone["review"]) == (TRUSTED.claim_id, "approved")
    assert "undo 5" in reviewing.run("history")


def test_what_cannot_be_decided_is_one_line(reviewing: Reviewing) -> None:
    refused: list[tuple[list[str], str]] = [
        (["reject", TRUSTED.claim_id], "reject: a reason is required"),
        (["contest", TRUSTED.claim_id], f"contest: expected two ids, got 1: {TRUSTED.claim_id}"),
        (["approve"], "nothing to decide: name a claim"),
        (["show", "nope"], "no claim 'nope': `findingaid claims list` shows ids"),
        (["propose", "--file", "-"], "nothing to decide: name a claim"),
        (["undo"], "undo: name the number of a decision"),
        (["undo", "x"], "undo: 'x' is not the number of a decision: `findingaid claims history` shows numbers"),
        (["undo", "7"], "no decision 7: `findingaid claims history` shows numbers"),
        (["list", "--corpus", "nope"], "unknown corpus 'nope'. Known: docs"),
    ]

    for arguments, message in refused:
        line, see = reviewing.run(*arguments, stdin="").splitlines()

        assert line == f"Error: {message}"
        assert see.startswith("See: findingaid help ")


def test_a_log_that_is_gone_stops_runs_and_shows_no_claim(aid: FindingAid) -> None:
    aid.claims.reject(MODEL.claim_id, actor="ann", reason="hearsay")
    kept = Path(aid.store.uri) / "decisions.lance"
    kept.rename(kept.with_suffix(".away"))

    assert aid.verify() == ["table decisions is lost: restore it from a backup"]
    for ask in (aid.index, aid.claims.list, lambda: aid.answer("ink"), lambda: aid.search("ink", surfaces=["claim"])):
        with pytest.raises(StoreError, match="decisions"):
            ask()
    assert not kept.exists()
    kept.with_suffix(".away").rename(kept)
    assert aid.index().ok
    assert aid.claims.show(MODEL.claim_id).review == "rejected"


def test_a_damaged_log_shows_no_claim_also_after_its_damage_was_found(aid: FindingAid) -> None:
    aid.claims.reject(MODEL.claim_id, actor="ann", reason="hearsay")
    for path in (Path(aid.store.uri) / "decisions.lance" / "data").iterdir():
        path.write_bytes(path.read_bytes()[:20])
    other = FindingAid(aid.store, aid.embedder, aid.corpora)

    (problem,) = other.verify()

    assert problem.startswith("table decisions is damaged")
    for ask in (
        other.index,
        other.claims.list,
        lambda: other.answer("ink"),
        lambda: other.search("ink", surfaces=["claim"]),
    ):
        with pytest.raises(StoreError, match="is damaged"):
            ask()


def test_a_log_that_is_gone_for_good_begins_anew_when_somebody_says_so(aid: FindingAid) -> None:
    aid.claims.reject(MODEL.claim_id, actor="ann", reason="hearsay")
    shutil.rmtree(Path(aid.store.uri) / "decisions.lance")

    with pytest.raises(StoreError, match="start without it by `findingaid index --allow-loss`"):
        aid.index()
    assert "table decisions was lost and was rebuilt" in aid.index(allow_loss=True).repaired
    assert aid.claims.history() == []
