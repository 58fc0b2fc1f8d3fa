"""Decisions outlive every run, and redacted text is nowhere on disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from findingaid import FindingAid, QueryError, StoreError
from findingaid.claims.model import Action, Circulation, Review, Tier
from findingaid.claims.review import ClaimView, ProposedClaim
from findingaid.claims.revocations import OF_ACCESS
from findingaid.corpus import Claiming
from findingaid.protocols import Bullet, Draft, Extraction, Member, Statement
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import MemorySource
from tests.conftest import Cli, ReadyMade, text_about

Make = Callable[..., FindingAid]
EVERY = list(Tier)
SECRET = "The owner of the ledger is Zebedee Quux."


@dataclass
class Says:
    """Finds these statements in every text that has their quote."""

    statements: Sequence[Statement] = ()
    id: str = "says"
    asked: list[str] = field(default_factory=list)

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        self.asked.append(text)
        return Extraction([s for s in self.statements if s.quote in text])


class Sums:
    """A summary node that repeats its members."""

    id = "sums"

    def summarize(self, members: Sequence[Member]) -> Draft | None:
        return Draft(tuple(Bullet(f"It says: {m.text}", (m.claim_id,)) for m in members), ("ledger",))


def sentence(topic: str) -> str:
    return f"The {topic} is described here in a sentence that is long enough to stand for itself."


def says(topic: str, text: str = "") -> Statement:
    """Statements of an extractor about an artifact, in the artifact's words or others."""
    return Statement(text or sentence(topic), sentence(topic))


def by_text(aid: FindingAid) -> dict[str, ClaimView]:
    return {view.text: view for view in aid.claims.list()}


def found(aid: FindingAid, kind: str = "claim") -> set[str]:
    return {hit.text for hit in aid.search("ledger reader", k=100, surfaces=[kind], tiers=EVERY)}


@pytest.fixture
def reviewed(make_aid: Make, ready_made: ReadyMade) -> FindingAid:
    """Three artifacts, each with claims; approved, rejected, contested, proposed, superseded."""
    aid = make_aid(claims=Claiming(Says([says(t) for t in ("ledger", "vector", "reader", "ledger again")])))
    ready_made("reviewed claims", lambda: _review(aid))
    return aid


def _review(aid: FindingAid) -> None:
    aid.index()
    ids = {text: view.claim_id for text, view in by_text(aid).items()}
    aid.claims.approve(ids[sentence("ledger")], truth="actionable", actor="ann", reason="read it")
    aid.claims.reject(ids[sentence("vector")], actor="ann", reason="not so")
    aid.claims.contest((ids[sentence("ledger")], ids[sentence("reader")]), actor="ann")
    (proposed,) = aid.claims.propose(
        ProposedClaim("docs", "reader.md", "Readers read.", sentence("reader")), actor="bob"
    )
    aid.claims.approve(proposed.claim_id, actor="ann")
    aid.claims.supersede((ids[sentence("ledger again")], proposed.claim_id), actor="ann")


def standing(aid: FindingAid) -> dict[str, tuple[Any, ...]]:
    return {
        text: (view.review, view.truth, view.circulation, view.contested_by, view.superseded_by)
        for text, view in by_text(aid).items()
    }


def test_a_proposal_that_was_approved_is_found_after_the_next_run(reviewed: FindingAid) -> None:
    assert "Readers read." not in found(reviewed)
    reviewed.index()

    assert "Readers read." in found(reviewed)
    assert by_text(reviewed)["Readers read."].waits is False
    assert found(reviewed) == {"Readers read.", sentence("ledger"), sentence("reader")}
    assert reviewed.verify() == []
    assert reviewed.plan().corpora["docs"].changed == 0


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {
            "strategy": Chunked(chunk_size=90, overlap=0),
            "claims": Claiming(Says(id="of another version")),
            "synopsis": {"context": True},
        },
    ],
    ids=["forced", "cut anew, in context, with another extractor"],
)
def test_a_run_loses_no_decision_whatever_changed(
    reviewed: FindingAid, make_aid: Make, changed: dict[str, Any]
) -> None:
    before, log = standing(reviewed), reviewed.claims.history()
    aid = make_aid(**{"claims": reviewed.corpora["docs"].claims} | changed)
    aid.index(force=True)

    assert standing(aid) == before
    assert not any(view.expired or view.waits for view in aid.claims.list())
    assert aid.claims.history() == log
    assert found(aid) == {"Readers read.", sentence("ledger"), sentence("reader")}
    assert aid.verify() == []


def test_an_artifact_that_goes_and_comes_back_finds_its_decisions(reviewed: FindingAid, source: MemorySource) -> None:
    before = standing(reviewed)
    text = source.payloads.pop("ledger.md")
    reviewed.index(allow_loss=True)
    gone = {view.text for view in reviewed.claims.list(expired=True)}
    without = found(reviewed)
    source.payloads["ledger.md"] = text
    reviewed.index()

    assert gone == {sentence("ledger"), sentence("ledger again")}
    assert without == {"Readers read.", sentence("reader")}
    assert standing(reviewed) == before
    assert reviewed.claims.list(expired=True) == []


def test_what_is_retracted_stays_hidden_after_a_rollback(make_aid: Make, source: MemorySource) -> None:
    aid = make_aid(claims=Claiming(Says([says("ledger")])), retain=2)
    aid.index()
    source.payloads["other.md"] = text_about("other")
    aid.index()
    (view,) = aid.claims.list()
    aid.claims.archive(view.claim_id)
    aid.index()
    aid.rollback()

    assert found(aid) == set()


@dataclass
class Gossips:
    """Synthesizer that repeats a text that no artifact contains, until told otherwise."""

    secret: str
    id: str = "gossips"
    asked: int = 0

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        self.asked += 1
        return f"About ledgers. {self.secret}" if "ledger" in text and self.secret else "About readers."


def test_what_is_redacted_is_nowhere_on_disk_after_the_next_run_and_a_purge(make_aid: Make, tmp_path: Path) -> None:
    """Not in the tables, their earlier versions, the caches or the log; and its extractor is not paid again."""
    extractor, writer = Says([says("ledger", SECRET), says("reader", "Readers are many.")]), Gossips(SECRET)
    aid = make_aid(claims=Claiming(extractor, nodes=Sums(), at_least=1), synthesizer=writer)
    aid.index()
    (secret,) = [view for view in aid.claims.list() if view.text == SECRET]
    aid.claims.approve(secret.claim_id, reason="Zebedee said so")
    (proposed,) = aid.claims.propose(ProposedClaim("docs", "reader.md", "Zebedee reads, too.", sentence("reader")))
    shown = [f"It says: {SECRET}"] == [text for text in found(aid, "summary") if "Zebedee" in text]
    on_disk = _files_with(tmp_path, "Zebedee")
    aid.claims.redact(secret.claim_id, proposed.claim_id, reason="names a person")
    hidden = [text for kind in ("claim", "summary") for text in found(aid, kind) if "Zebedee" in text]
    with pytest.raises(StoreError, match=r"redacted claims are still indexed: run `findingaid index` first"):
        aid.purge()
    writer.secret = ""
    aid.index()
    aid.purge()
    aid.index(force=True)

    assert shown
    assert on_disk
    assert hidden == []
    assert _files_with(tmp_path, "Zebedee") == []
    assert len(extractor.asked) == 3
    assert writer.asked == 4  # the synopsis that repeated it was written anew
    assert {view.text for view in aid.claims.list(circulation="live")} == {"Readers are many."}
    assert aid.verify() == []


def _files_with(folder: Path, word: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


STEPS = st.lists(
    st.tuples(
        st.sampled_from([action for action in Action if action not in OF_ACCESS]), st.integers(0, 4), st.integers(0, 4)
    ),
    max_size=8,
)


@pytest.mark.slow
def test_whatever_is_decided_every_read_path_follows_at_once(make_aid: Make, tmp_path: Path) -> None:
    """Retracted claims are gone everywhere, links have both sides, the chain is intact, and a run changes nothing."""
    texts = [says("ledger"), says("vector"), says("reader"), says("ledger again"), says("reader", "Readers are many.")]
    made = make_aid(claims=Claiming(Says(texts), nodes=Sums(), at_least=1))
    made.index()
    ids = sorted(view.claim_id for view in made.claims.list())
    copies = count()

    @given(steps=STEPS, run=st.booleans())
    @settings(max_examples=15)
    def follows(steps: list[tuple[Action, int, int]], run: bool) -> None:
        store = shutil.copytree(made.store.uri, tmp_path / f"copy{next(copies)}")
        aid = FindingAid(Store(str(store)), made.embedder, made.corpora)
        for action, one, other in steps:
            with suppress(QueryError):
                _do(aid, action, ids[one], ids[other])
        _follows(aid)
        if run:
            before = standing(aid)
            aid.index()
            assert standing(aid) == before
            _follows(aid)
        shutil.rmtree(store)

    follows()


def _do(aid: FindingAid, action: Action, one: str, other: str) -> None:
    if action is Action.PROPOSE:
        view = aid.claims.show(one)
        (where, *_) = view.evidences
        aid.claims.propose(ProposedClaim("docs", where.artifact_id, view.text or "Gone.", where.quote))
    else:
        pair = action in {Action.CONTEST, Action.SUPERSEDE}
        getattr(aid.claims, action.value)((one, other) if pair else one, reason="so it is")


def _follows(aid: FindingAid) -> None:
    views = {view.claim_id: view for view in aid.claims.list()}
    live = {i for i, v in views.items() if v.circulation is Circulation.LIVE and v.review is not Review.REJECTED}
    held = {views[i].text for i in live if views[i].review is not Review.PENDING and not views[i].waits}
    shown = {r.text for i in ("ledger.md", "vector.md", "reader.md") for r in aid.show(i).records}
    every = {sentence(topic) for topic in ("ledger", "vector", "reader", "ledger again")} | {"Readers are many."}

    assert found(aid) == held
    assert {h.text for h in aid.search("ledger", k=50, surfaces=["claim"], tiers=EVERY, mode="lexical")} <= held
    for gone in every - held:
        assert not [text for text in found(aid, "summary") if gone in text]
        assert not [text for text in shown if text == gone or (text.startswith("It says: ") and gone in text)]
    for i, view in views.items():
        assert set(view.contested_by) <= live
        if i in live:
            assert all(i in views[other].contested_by for other in view.contested_by)
        assert (view.circulation is Circulation.SUPERSEDED) <= (view.superseded_by in views)
    assert not [problem for problem in aid.verify() if "decisions" in problem]


def test_decisions_go_from_a_lost_log_to_a_new_one_by_a_file(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["claims"] = True
    cli.write("ledger.md", text_about("ledger"))
    cli.run("index")
    wanted = cli.json("claims", "list")[0]["claim_id"]
    cli.run("claims", "reject", wanted, "--reason", "of version 1")
    exported = cli.run("claims", "export")
    (cli.folder / "log.jsonl").write_text(exported.stdout)
    shutil.rmtree(cli.folder / "index" / "decisions.lance")
    begun = cli.run("index", "--allow-loss")

    forgotten = cli.json("claims", "show", wanted)["review"]
    imported = cli.run("claims", "import", str(cli.folder / "log.jsonl"))
    again = cli.json("claims", "import", str(cli.folder / "log.jsonl"))
    (cli.folder / "log.jsonl").write_text(exported.stdout + "no decision\n")
    refused = cli.run("claims", "import", str(cli.folder / "log.jsonl"))

    assert (begun.exit_code, forgotten) == (0, "unreviewed")
    assert imported.stdout == "1 of 1 decisions imported: run `findingaid index`\n"
    assert again == {"imported": 0}
    assert cli.json("claims", "show", wanted)["review"] == "rejected"
    assert refused.exit_code == 1
    assert "line 2: not a decision as `findingaid claims export` writes it" in refused.stderr
    assert [cli.run(command).exit_code for command in ("index", "verify")] == [0, 0]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_files_of_decisions_are_read_as_powershell_writes_them(cli: Cli, encoding: str) -> None:
    cli.settings["corpora"]["docs"]["claims"] = True
    cli.write("ledger.md", text_about("ledger"))
    cli.run("index")
    wanted = cli.json("claims", "list")[0]["claim_id"]
    (cli.folder / "ids.txt").write_text(f"{wanted}\r\n", encoding=encoding)

    decided = cli.run("claims", "reject", "--file", str(cli.folder / "ids.txt"), "--reason", "of version 1")
    (cli.folder / "log.jsonl").write_text(cli.run("claims", "export").stdout, encoding=encoding)
    imported = cli.json("claims", "import", str(cli.folder / "log.jsonl"))

    assert (decided.exit_code, cli.json("claims", "show", wanted)["review"]) == (0, "rejected")
    assert imported == {"imported": 0}


def test_a_file_of_decisions_that_is_not_text_is_refused_in_one_line(cli: Cli) -> None:
    cli.write("ledger.md", text_about("ledger"))
    cli.run("index")
    (cli.folder / "log.jsonl").write_bytes(b"\x7fELF\0\xff")

    refused = cli.run("claims", "import", str(cli.folder / "log.jsonl"))

    assert refused.exit_code == 2
    assert "log.jsonl: binary, not text" in refused.stderr


def test_a_renamed_corpus_says_that_decisions_do_not_apply_to_it(cli: Cli) -> None:
    cli.write("a.md", "The boiler is serviced each May by the firm Alder.")
    cli.settings["corpora"]["docs"]["claims"] = True
    cli.run("index")
    [claim] = cli.json("claims", "list")
    assert "decisions on" not in cli.run("index").output
    cli.run("claims", "reject", claim["claim_id"], "--reason", "no")
    cli.settings["corpora"] = {"wiki": cli.settings["corpora"]["docs"]}

    first, second = cli.run("index"), cli.run("index")

    assert "decisions on 1 claims or artifacts are of corpora that are not in the configuration, such as 'docs'" in (
        first.output
    )
    assert first.exit_code == 0
    assert "decisions on" not in second.output


def test_a_run_and_the_status_count_approved_claims_that_no_artifact_states_any_more(
    reviewed: FindingAid, source: MemorySource, make_aid: Make
) -> None:
    """Renaming a file loses the approved claims that people proposed about it, and those cut out of its text."""
    assert [(s.corpus, s.expired) for s in reviewed.status()] == [("docs", 0)]
    source.payloads["renamed.md"] = source.payloads.pop("reader.md")  # Readers read. was proposed about reader.md
    renamed = reviewed.index(allow_loss=True).corpora["docs"]
    source.payloads["ledger.md"] = "Nothing is left of the old words in this text, which is about another thing."
    changed = reviewed.index().corpora["docs"]

    assert [view.text for view in reviewed.claims.list(expired=True, review="approved")] == [
        sentence("ledger"), "Readers read.",
    ]  # fmt: skip
    assert (renamed.expired, changed.expired, reviewed.status()[0].expired) == (1, 2, 2)
    assert any("no artifact states any more" in line and ": 2;" in line for line in changed.warnings)


def test_a_run_without_claims_in_its_configuration_counts_what_the_status_does(
    reviewed: FindingAid, make_aid: Make
) -> None:
    """Those that were extracted are gone; what people proposed waits for a run that writes claims."""
    aid = make_aid()

    assert (aid.index().corpora["docs"].expired, aid.status()[0].expired) == (1, 1)


def test_a_proposal_that_waits_for_the_next_run_is_not_counted_as_expired(reviewed: FindingAid) -> None:
    (proposed,) = reviewed.claims.propose(
        ProposedClaim("docs", "ledger.md", "Ledgers last.", sentence("ledger")), actor="bob"
    )
    reviewed.claims.approve(proposed.claim_id, actor="ann")

    assert reviewed.status()[0].expired == 0
