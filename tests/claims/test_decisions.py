"""Decision log: allowed transitions, the state of claims, and a hash chain that reveals alterations."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from findingaid import StoreError
from findingaid.claims.decisions import Decision, DecisionLog, Verdict, broken, hash_of
from findingaid.claims.model import Action, Circulation, ClaimStatus, Review, Truth
from findingaid.claims.standing import LINKS, ClaimStatuses, require_undoable
from findingaid.errors import QueryError
from findingaid.store import Store, repair, schemas, upkeep
from tests.conftest import ReadyMade
from tests.paths import ROOT
from tests.support.programs import Program

CLAIMS = [letter * 4 for letter in "abcd"]


@pytest.fixture
def log(tmp_path: Path, ready_made: ReadyMade) -> DecisionLog:
    store = Store(str(tmp_path / "index"))
    ready_made("empty", lambda: repair.prepare(store, 4))
    return DecisionLog(store)


def verdict(action: Action | str, claim: str, other: str = "", text: str = "The words of a claim") -> Verdict:
    return Verdict(Action(action), "docs", claim, "a.md", other, text=f"{text} {claim}", quote=f"quoted {claim}")


def decide(log: DecisionLog, *verdicts: Verdict, reason: str = "so it is") -> Sequence[Decision]:
    """Take decisions, all or none, as the rules have it."""

    def allowed(before: Sequence[Decision]) -> Sequence[Verdict]:
        standings = ClaimStatuses.after(before)
        for v in verdicts:
            standings.require(v)
            standings.take(v)
        return verdicts

    return log.decide(allowed, "ann", reason)


def rewrite(log: DecisionLog, decisions: Sequence[Decision]) -> None:
    """Forge the log, as is possible with access to the files."""
    columns = {name: [getattr(d, name) for d in decisions] for name in schemas.DECISIONS.names}
    log.store.revise("decisions", lambda _: pa.table(columns, schema=schemas.DECISIONS))


def test_a_decision_is_read_back_as_it_was_taken(log: DecisionLog) -> None:
    (taken,) = decide(log, verdict("approve", "aaaa"))

    (read,) = DecisionLog(log.store).all()
    assert read == taken
    assert (read.seq, read.actor, read.reason, read.text, read.previous) == (
        1, "ann", "so it is", "The words of a claim aaaa", "",
    )  # fmt: skip


def test_before_the_first_run_there_are_no_decisions_and_none_can_be_taken(tmp_path: Path) -> None:
    log = DecisionLog(Store(str(tmp_path / "none")))

    assert log.all() == ()
    with pytest.raises(StoreError, match=r"nothing is indexed in .* run `findingaid index`"):
        decide(log, verdict("approve", "aaaa"))


@pytest.mark.parametrize(
    ("taken", "refused", "message"),
    [
        (["archive"], "approve", "approve aaaa: it is unreviewed and archived. Possible: restore, redact"),
        (
            ["approve"],
            "propose",
            "propose aaaa: it is approved. Possible: approve, reject, contest, supersede, archive",
        ),
        (
            [],
            "restore",
            "restore aaaa: it is unreviewed. Possible: approve, reject, contest, supersede, archive, redact",
        ),
        (["approve", "reject"], "reject", "reject aaaa: it is rejected. Possible: propose, archive, redact"),
        (["redact"], "redact", "redact aaaa: it is unreviewed and redacted. Possible: nothing"),
        ([], "propose", "propose aaaa: it is unreviewed. Possible: approve, reject, contest, supersede"),
    ],
)
def test_what_may_not_follow_is_refused_with_what_may(
    log: DecisionLog, taken: list[str], refused: str, message: str
) -> None:
    for action in taken:
        decide(log, verdict(action, "aaaa"))

    with pytest.raises(QueryError, match=message):
        decide(log, verdict(refused, "aaaa"))


def test_a_batch_in_which_one_is_refused_leaves_nothing(log: DecisionLog) -> None:
    with pytest.raises(QueryError):
        decide(log, verdict("reject", "aaaa"), verdict("reject", "aaaa"))

    assert log.all() == []


def test_the_truth_of_an_approved_claim_is_changed_by_approving_it_again(log: DecisionLog) -> None:
    decide(log, verdict("approve", "aaaa"))
    decide(log, replace(verdict("approve", "aaaa"), truth=Truth.ACTIONABLE))

    assert ClaimStatuses.after(log.all()).of("aaaa").truth is Truth.ACTIONABLE


@pytest.mark.parametrize("action", ["archive", "supersede"])
def test_a_restored_claim_is_as_it_was_before(log: DecisionLog, action: str) -> None:
    decide(log, verdict("approve", "aaaa"))
    before = ClaimStatuses.after(log.all()).of("aaaa")
    decide(log, verdict(action, "aaaa", "bbbb" if action == "supersede" else ""))
    assert ClaimStatuses.after(log.all()).of("aaaa").retracted

    decide(log, verdict("restore", "aaaa"))

    assert ClaimStatuses.after(log.all()).of("aaaa") == before
    decide(log, verdict("redact", "aaaa"))
    with pytest.raises(QueryError, match="Possible: nothing"):
        decide(log, verdict("restore", "aaaa"))


@pytest.mark.parametrize("falls", ["reject", "archive", "redact"])
def test_a_superseded_claim_is_live_again_when_the_one_in_its_place_falls(log: DecisionLog, falls: str) -> None:
    decide(log, verdict("supersede", "aaaa", "bbbb"))
    assert ClaimStatuses.after(log.all()).of("aaaa").superseded_by == "bbbb"

    decide(log, verdict(falls, "bbbb"))

    assert ClaimStatuses.after(log.all()).of("aaaa") == ClaimStatus()
    decide(log, verdict("approve", "aaaa"))


def test_a_claim_stays_superseded_while_the_one_in_its_place_is_superseded_too(log: DecisionLog) -> None:
    decide(log, verdict("supersede", "aaaa", "bbbb"))
    decide(log, verdict("supersede", "bbbb", "cccc"))
    assert [ClaimStatuses.after(log.all()).of(c).retracted for c in ("aaaa", "bbbb", "cccc")] == [True, True, False]

    decide(log, verdict("reject", "cccc"))

    assert [ClaimStatuses.after(log.all()).of(c).retracted for c in ("aaaa", "bbbb", "cccc")] == [True, False, True]


def test_a_contest_holds_both_ways_as_long_as_both_are_held(log: DecisionLog) -> None:
    decide(log, verdict("approve", "aaaa"), verdict("approve", "bbbb"))
    decide(log, verdict("contest", "aaaa", "bbbb"))

    contested = ClaimStatuses.after(log.all())
    decide(log, verdict("reject", "bbbb"))
    settled = ClaimStatuses.after(log.all())

    assert (contested.of("aaaa").truth, contested.of("aaaa").contested_by) == (Truth.CONTESTED, ("bbbb",))
    assert (contested.of("bbbb").truth, contested.of("bbbb").contested_by) == (Truth.CONTESTED, ("aaaa",))
    assert (settled.of("aaaa").truth, settled.of("aaaa").contested_by) == (Truth.STABLE, ())


def test_what_supersedes_is_named_and_a_claim_supersedes_not_itself(log: DecisionLog) -> None:
    decide(log, verdict("supersede", "aaaa", "bbbb"))

    standing = ClaimStatuses.after(log.all()).of("aaaa")
    assert (standing.circulation, standing.superseded_by, standing.retracted) == (
        Circulation.SUPERSEDED, "bbbb", True,
    )  # fmt: skip
    with pytest.raises(QueryError, match="cannot supersede itself"):
        decide(log, verdict("supersede", "bbbb", "bbbb"))
    with pytest.raises(QueryError, match="contest aaaa: it is unreviewed and superseded"):
        decide(log, verdict("contest", "bbbb", "aaaa"))


def rehashed(decision: Decision, **changed: str) -> Decision:
    """Alter a decision and compute its hash again."""
    altered = replace(decision, **changed)
    return replace(altered, hash=hash_of(altered))


def test_an_altered_action_is_a_named_problem(log: DecisionLog) -> None:
    decide(log, verdict("approve", "aaaa"))
    rewrite(log, [replace(log.all()[0], action="bless")])  # type: ignore[arg-type]  # never written by the library

    with pytest.raises(StoreError, match="decision 1 was altered: it has the unknown action 'bless'"):
        DecisionLog(log.store).all()


def test_the_chain_names_the_first_link_that_does_not_hold(log: DecisionLog) -> None:
    for claim in CLAIMS:
        decide(log, verdict("approve", claim))
    good = list(log.all())
    forged = replace(good[1], actor="eve")
    forgeries = {
        "decision 2 .*it was altered": [good[0], forged, *good[2:]],
        "decision 3 .*it does not follow the previous decision": [
            good[0],
            replace(forged, hash=hash_of(forged)),
            *good[2:],
        ],
        "decision 3 .*its text was altered": [*good[:2], replace(good[2], text="other words"), good[3]],
        "decision 3 .*its reason is missing without a redaction": [*good[:2], replace(good[2], reason=None), good[3]],
        "decision 4 .*it is at position 3": [*good[:2], good[3]],
        "decision 4 .*it was altered": [*good[:3], replace(good[3], digests="{")],
        "decision 4 .*its digests were altered": [*good[:3], rehashed(good[3], digests="{")],
        "decision 3 .*its digests were altered": [*good[:2], rehashed(good[2], digests="[1]"), good[3]],
    }

    assert not list(broken(good))
    for message, decisions in forgeries.items():
        rewrite(log, decisions)
        (problem,) = broken(log.all())
        assert re.search(message, problem), problem


def test_redaction_takes_the_words_out_of_every_decision_and_the_chain_still_holds(log: DecisionLog) -> None:
    decide(log, verdict("approve", "aaaa", text="secret"), verdict("approve", "bbbb"), reason="a secret reason")
    decide(log, verdict("contest", "bbbb", "aaaa"), reason="says secret otherwise")
    decide(log, replace(verdict("redact", "aaaa"), text="", quote=""), reason="a password")

    approved, other, contest, redacted = log.all()
    assert (approved.text, approved.quote, approved.reason, approved.details) == (None, None, None, None)
    assert other.text == "The words of a claim bbbb"
    assert (contest.reason, contest.text) == (None, "The words of a claim bbbb")
    assert redacted.reason == "a password"
    assert not list(broken(log.all()))


@pytest.mark.slow
def test_processes_that_decide_at_once_do_not_fork_the_chain(log: DecisionLog) -> None:
    code = (
        "import sys; from findingaid.claims.decisions import *; from findingaid.claims.model import Action;"
        "from findingaid.store import Store; log = DecisionLog(Store(sys.argv[1]));"
        "[log.decide(lambda _: [Verdict(Action.ARCHIVE, 'docs', f'{sys.argv[2]}{i}', 'a.md')], sys.argv[2])"
        " for i in range(10)]"
    )

    running = [Program(code, log.store.uri, name) for name in ("ann", "bob", "cyd")]
    ended = [program.ended().returncode for program in running]

    assert ended == [0, 0, 0]
    assert [d.seq for d in log.all()] == list(range(1, 31))
    assert not list(broken(log.all()))
    assert {d.actor for d in log.all()} == {"ann", "bob", "cyd"}


def test_a_log_that_was_restored_from_a_backup_is_read_anew(log: DecisionLog) -> None:
    """It may have as many versions again as the one that was read."""
    backup, table = Path(f"{log.store.uri}.backup"), Path(log.store.uri)
    shutil.copytree(table, backup)
    decide(log, verdict("approve", "aaaa"))
    read = log.all()

    shutil.rmtree(table)
    shutil.copytree(backup, table)
    decide(DecisionLog(Store(log.store.uri)), verdict("reject", "aaaa"))

    assert [decision.action for decision in (*read, *log.all())] == [Action.APPROVE, Action.REJECT]


def test_maintenance_loses_no_decision_and_a_damaged_log_is_never_made_anew(log: DecisionLog) -> None:
    for i in range(12):
        decide(log, verdict("approve", f"claim{i}"))
    upkeep.compact(log.store)
    upkeep.drop_old_versions(log.store)
    decide(log, verdict("approve", "last"))

    assert [d.claim_id for d in log.all()] == [*(f"claim{i}" for i in range(12)), "last"]
    assert not list(broken(log.all()))
    for path in (Path(log.store.uri) / "decisions.lance" / "data").iterdir():
        path.unlink()
    with pytest.raises(StoreError, match=r"table decisions of .* is damaged, and its content cannot be rebuilt"):
        repair.prepare(log.store, 4)


def undo(log: DecisionLog, number: int) -> None:
    def allowed(before: Sequence[Decision]) -> Sequence[Verdict]:
        wanted = before[number - 1]
        require_undoable(wanted, before)
        link = wanted.claim_id, wanted.artifact_id, wanted.other_id
        return [Verdict(Action.UNDO, "docs", *link, details={"undoes": number})]

    log.decide(allowed, "ann", "undone")


def test_a_decision_is_undone_only_before_those_that_followed_it(log: DecisionLog) -> None:
    decide(log, verdict("approve", "aaaa"))
    decide(log, verdict("contest", "aaaa", "bbbb"))
    decide(log, verdict("archive", "aaaa"))

    with pytest.raises(
        QueryError, match=r"undo 1: decision 3 \(archive\) changed its claim later: undo that one first"
    ):
        undo(log, 1)
    undo(log, 2)
    assert ClaimStatuses.after(log.all()).of("aaaa").contested_by == ()
    undo(log, 3)
    undo(log, 1)

    assert ClaimStatuses.after(log.all()).of("aaaa") == ClaimStatus()
    with pytest.raises(QueryError, match=r"undo 1: decision 6 undid it. To bring it back, undo 6"):
        undo(log, 1)
    with pytest.raises(QueryError, match=r"undo 5: decision 6 \(undo\) changed its claim later: undo that one first"):
        undo(log, 5)
    undo(log, 6)
    undo(log, 5)
    assert ClaimStatuses.after(log.all()).of("aaaa") == ClaimStatus(Review.APPROVED, Truth.STABLE, Circulation.ARCHIVED)
    assert not list(broken(log.all()))


def test_a_redaction_erases_which_decision_an_undo_took_back_and_changes_no_other_claim(log: DecisionLog) -> None:
    decide(log, verdict("contest", "aaaa", "bbbb"))
    decide(log, verdict("supersede", "aaaa", "bbbb"))
    undo(log, 1)
    undo(log, 2)
    before = ClaimStatuses.after(log.all()).of("aaaa")

    decide(log, verdict("redact", "bbbb"))

    assert ClaimStatuses.after(log.all()).of("aaaa") == before == ClaimStatus()
    assert [d.undoes for d in log.all()] == [None] * 5
    assert not list(broken(log.all()))
    with pytest.raises(QueryError, match=r"undo 1: claim bbbb is redacted, which is final"):
        undo(log, 1)


ACTIONS = st.tuples(
    st.sampled_from(list(Action)), st.sampled_from(CLAIMS), st.sampled_from(CLAIMS), st.sampled_from(["", "stable"])
)


@given(st.lists(ACTIONS, max_size=25))
@settings(max_examples=100)
def test_no_sequence_of_decisions_leaves_the_table_of_transitions(actions: list[tuple[Action, str, str, str]]) -> None:
    """After any sequence of decisions, links have both sides, and the status of claims follows the table."""
    standings = ClaimStatuses()
    contests: set[frozenset[str]] = set()
    for action, claim, other, _ in actions:
        wanted = verdict(action, claim, other if action in LINKS else "")
        before = {c: standings.of(c) for c in CLAIMS}
        possible = {c: standings.possible(c) for c in CLAIMS}
        try:
            standings.require(wanted)
        except QueryError:
            again = action is Action.CONTEST and frozenset({claim, other}) in contests
            both = action not in possible[claim] or (action in LINKS and action not in possible[other])
            assert both or again or (action in LINKS and claim == other)
            assert {c: standings.of(c) for c in CLAIMS} == before
            continue
        assert action in possible[claim]
        standings.take(wanted)
        if action is Action.CONTEST:
            contests.add(frozenset({claim, other}))
        _holds(standings, contests)


def _holds(standings: ClaimStatuses, contests: set[frozenset[str]]) -> None:
    now = {c: standings.of(c) for c in CLAIMS}
    held = {c for c in CLAIMS if now[c].circulation is Circulation.LIVE and now[c].review is not Review.REJECTED}
    for c, standing in now.items():
        against = {other for pair in contests if c in pair for other in pair - {c}} & held
        assert set(standing.contested_by) == against
        assert (standing.truth is Truth.CONTESTED) == bool(against)
        assert (standing.circulation is Circulation.SUPERSEDED) <= bool(standing.superseded_by)
        for other in standing.contested_by:
            if c in held:
                assert c in now[other].contested_by


def check_elsewhere(exported: Path) -> subprocess.CompletedProcess[str]:
    """Run the program of the guide, which knows nothing of findingaid, over an exported log."""
    page = (ROOT / "docs" / "claims.md").read_text()
    (program,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "blake2b" in block]
    command = [sys.executable, "-I", "-c", program, str(exported)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def exported(log: DecisionLog, tmp_path: Path) -> Path:
    """A log with links, a redaction and words of other languages."""
    decide(log, verdict("approve", "aaaa", text="Größe 𝄞"), verdict("approve", "bbbb"), reason='by "me"')
    decide(log, verdict("contest", "aaaa", "bbbb"), verdict("approve", "cccc"))
    decide(log, verdict("redact", "cccc"))
    log.close(["cccc"])
    file = tmp_path / "decisions.jsonl"
    file.write_text("".join(f"{decision.to_line()}\n" for decision in log.all()))
    return file


def test_an_exported_log_is_checked_without_findingaid_and_restored_as_it_was(
    log: DecisionLog, exported: Path, tmp_path: Path
) -> None:
    decisions = list(map(Decision.parse, exported.read_text().splitlines()))
    other = DecisionLog(Store(str(tmp_path / "other")))
    repair.prepare(other.store, 4)

    checked = check_elsewhere(exported)
    counts = [other.restore(decisions[:3]), other.restore(decisions), other.restore(decisions)]

    assert (checked.returncode, checked.stderr) == (0, "")
    assert counts == [3, 2, 0]
    assert other.all() == log.all() == decisions
    assert list(broken(other.all())) == []
    assert decide(other, verdict("archive", "aaaa"))[0].previous == decisions[-1].hash


def test_an_altered_or_another_log_is_not_restored(log: DecisionLog, exported: Path, tmp_path: Path) -> None:
    before = list(log.all())
    exported.write_text(exported.read_text().replace("Größe", "Grösse"))
    altered = list(map(Decision.parse, exported.read_text().splitlines()))
    other = DecisionLog(Store(str(tmp_path / "other")))
    repair.prepare(other.store, 4)
    decide(other, verdict("approve", "dddd"))

    assert "its text was altered" in check_elsewhere(exported).stderr.replace("text of 1", "its text")
    with pytest.raises(StoreError, match=r"nothing was imported: .* its text was altered"):
        other.restore(altered)
    with pytest.raises(StoreError, match=r"nothing was imported: decision 1 .* is another one in the export"):
        other.restore(before)
    assert [decision.claim_id for decision in other.all()] == ["dddd"]


@pytest.mark.parametrize("line", ["{}", "[]", "no JSON", '{"seq": 1}', "null"])
def test_a_line_that_is_no_decision_is_refused(line: str) -> None:
    with pytest.raises(QueryError, match="not a decision as `findingaid claims export` writes it"):
        Decision.parse(line)
    with pytest.raises(QueryError, match=r"writes it: no 'at'$"):
        Decision.parse("{}")


@pytest.mark.parametrize(("name", "value"), [("seq", "one"), ("action", "praise"), ("at", 7), ("truth", 1)])
def test_a_decision_with_a_wrong_value_is_refused(exported: Path, name: str, value: object) -> None:
    row = json.loads(exported.read_text().splitlines()[0]) | {name: value}

    with pytest.raises(QueryError, match="not a decision"):
        Decision.parse(json.dumps(row))
