"""Absences are explained: in the output of a run, in `claims list`, in `why` and in `summary`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import pytest

import findingaid
from findingaid import FindingAid
from findingaid.claims.decisions import DecisionLog, Verdict
from findingaid.claims.model import Action
from findingaid.claims.nodes import ExtractiveNodes
from findingaid.corpus import Claiming
from findingaid.protocols import Bullet, Draft, Extraction, Member, Statement
from findingaid.reports import Unclaimed
from findingaid.testing import MemorySource
from tests.conftest import Cli, ReadyMade

TEAM = "# Team\n\nFrank writes documentation. Anna works at Acme Corp. Ben tests the parser. Is it so? Yes.\n"
FULL = " ".join(f"Person number {name} owns a part." for name in ("one", "two", "three", "four", "five"))


@pytest.fixture
def team(cli: Cli) -> Cli:
    for name, text in {
        "team.md": TEAM,
        "full.md": FULL,
        "a.py": "x = 1\n",
        "b.py": "y = 2\n",
        "t.md": "# Only\n",
    }.items():
        cli.write(name, text)
    cli.settings["corpora"]["docs"] |= {"claims": True, "summary_nodes": True, "edges": True}
    cli.settings["corpora"]["docs"]["source"]["include"] = ["**/*"]
    return cli


@pytest.fixture
def indexed(team: Cli, ready_made: ReadyMade) -> Cli:
    ready_made("absences", lambda: team.run("index"))
    team.configure()
    return team


def opened(cli: Cli) -> FindingAid:
    return findingaid.open(cli.config)


GROUPED = (
    "docs: no claims in 3 artifacts: 2 .py (text/x-python is not prose);"
    " 1 .md (no sentences outside headings, code, tables and lists of links)"
)


def test_a_run_and_the_list_of_claims_group_the_artifacts_without_claims_by_reason(team: Cli) -> None:
    assert GROUPED in team.run("index").stdout.splitlines()
    assert "no claims in" not in team.run("index").stdout
    assert GROUPED in team.run("claims", "list").stdout.splitlines()
    assert "no claims in" not in team.run("claims", "list", "--review", "unreviewed").stdout


def test_the_list_of_claims_of_one_artifact_says_why_it_is_empty(indexed: Cli) -> None:
    assert indexed.run("claims", "list", "--artifact", "a.py").stdout.splitlines() == [
        "no claims", "docs/a.py: text/x-python is not prose"
    ]  # fmt: skip
    assert "docs/team.md" not in indexed.run("claims", "list", "--artifact", "team.md").stdout


def test_too_few_claims_for_a_summary_are_counted_and_what_was_not_taken_is_named(indexed: Cli) -> None:
    reason = "3 claims, 5 needed; not taken: 'Is it so?' (a question), 'Yes.' (1 word, 3 needed)"

    refused = indexed.run("summary", "team.md")

    assert refused.exit_code == 1
    assert f"docs/team.md has no summary node: {reason}" in refused.stderr
    assert f"  no summary node  {reason}" in indexed.run("why", "team.md").stdout
    assert "because it has no claims: text/x-python is not prose" in indexed.run("summary", "a.py").stderr
    assert "no summary node or artifact 'nothing'" in indexed.run("summary", "nothing").stderr


def test_why_explains_only_what_is_missing_and_configured(indexed: Cli) -> None:
    aid = opened(indexed)

    assert [a.what for a in aid.absences("full.md", "docs")] == ["references"]
    assert [a.what for a in aid.absences("a.py", "docs")] == ["claims", "references"]
    assert aid.absences("nothing", "docs") == []
    assert not any(link.broken for link in aid.why("a.py")[0].walk())


def test_a_synopsis_that_the_gate_left_out_and_one_without_words_are_told_apart(team: Cli) -> None:
    team.settings["corpora"]["docs"]["synopsis"] = {"when": "tests.query.lookup.test_absences:short"}
    team.run("index")
    aid = opened(team)

    why = {i: {a.what: a.reason for a in aid.absences(i, "docs")} for i in ("full.md", "t.md")}

    assert why["full.md"]["synopsis"] == "`when` of the corpus's synopsis leaves it out"
    assert "synopsis" not in why["t.md"] or "nothing to say" in why["t.md"]["synopsis"]


def short(plan: findingaid.model.SurfacePlan) -> bool:
    return sum(len(surface.text) for surface in plan.surfaces) < 100


def test_a_retracted_claim_explains_why_there_are_too_few(indexed: Cli) -> None:
    aid = opened(indexed)
    first = aid.claims.list(artifact="full.md")[0].claim_id
    assert aid.summary_node("full.md").bullets

    verdict = Verdict(Action.ARCHIVE, "docs", first, "full.md")
    DecisionLog(aid.store).decide(lambda _: [verdict], "ann")

    with pytest.raises(findingaid.NotFoundError, match="5 claims, 1 not in use, 5 needed"):
        opened(indexed).summary_node("full.md")


def test_a_corpus_without_claims_or_nodes_is_told_which_setting_it_lacks(indexed: Cli) -> None:
    indexed.settings["corpora"]["docs"] |= {"summary_nodes": None}
    assert "set corpora.docs.summary_nodes" in indexed.run("summary", "team.md").stderr
    indexed.settings["corpora"]["docs"] |= {"claims": None}
    assert "set corpora.docs.claims" in indexed.run("summary", "team.md").stderr


# -- refusals ----------------------------------------------------------------------------------------------


class Unsure:
    """Extractor that finds each sentence, with the given confidence."""

    id = "unsure"

    def __init__(self, confidence: float) -> None:
        self.confidence = confidence

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        sentences = [f"{said.strip()}." for said in text.split(".") if said.strip()]
        return Extraction([Statement(said, said, confidence=self.confidence) for said in sentences])


class UnsureAndFree(Unsure):
    id = "unsure and free"
    free: ClassVar[Literal[True]] = True


class Short:
    """Producer of as many points as it is told, with the given confidence."""

    id = "short"

    def __init__(self, points: int, confidence: float) -> None:
        self.points, self.confidence = points, confidence

    def summarize(self, members: Sequence[Member]) -> Draft | None:
        points = tuple(Bullet(member.text, (member.claim_id,)) for member in members[: self.points])
        return Draft(points, (), self.confidence) if points else None


BELOW = "below min_confidence 0.7"


@pytest.mark.parametrize(
    ("claiming", "reason"),
    [
        (Claiming(Unsure(1.0), nodes=Short(3, 0.4)), f"its summary has the confidence 0.4, {BELOW}"),
        (Claiming(Unsure(0.5), nodes=ExtractiveNodes()), f"its summary has the confidence 0.5, {BELOW}"),
        (Claiming(Unsure(1.0), nodes=Short(2, 1.0)), "its summary has 2 points, expected 3 to 7"),
        (Claiming(Unsure(1.0), nodes=Short(0, 1.0)), "its producer had nothing to say"),
    ],
)
def test_a_refused_summary_is_told_apart_from_one_without_words(
    make_aid: Callable[..., FindingAid], claiming: Claiming, reason: str
) -> None:
    aid = make_aid(source=MemorySource({"full.md": FULL}), synthesizer=None, claims=claiming)
    aid.index()

    with pytest.raises(findingaid.NotFoundError, match=f"docs/full.md has no summary node: {reason}$"):
        aid.summary_node("full.md")
    assert [link.said for link in aid.why("full.md")[0].walk() if link.what == "no summary node"] == [reason]


@pytest.mark.parametrize("extractor", [Unsure(0.5), UnsureAndFree(0.5)])
def test_refused_claims_are_told_apart_from_a_text_that_states_nothing(
    make_aid: Callable[..., FindingAid], extractor: Unsure
) -> None:
    source = MemorySource({"full.md": "Ada owns the parser.", "blank.md": ""})
    aid = make_aid(source=source, synthesizer=None, claims=Claiming(extractor, min_confidence=0.7))
    report = aid.index().corpora["docs"]

    assert [absence.reason for absence in aid.absences("full.md", "docs")] == [
        f"all refused: 'Ada owns the parser.' has the confidence 0.5, {BELOW}"
    ]
    assert aid.unclaimed(["docs"])["docs"] == report.unclaimed
    assert "1 .md (all refused)" in str(report.unclaimed)


def test_many_suffixes_are_summed_up() -> None:
    reasons = {f"a.{letter * n}": "not prose" for n, letter in enumerate("abcdefg", 1)} | {"Makefile": "no text"}

    line = str(Unclaimed.of(reasons))

    assert line == "no claims in 8 artifacts: 1 .a, 1 .bb, 1 .ccc, 1 .dddd, 1 .eeeee, 2 others (not prose); 1 (no text)"
    assert Unclaimed.of({"a.py": "x"}) + Unclaimed.of({"b.py": "x"}) == Unclaimed({"x": {".py": 2}})
