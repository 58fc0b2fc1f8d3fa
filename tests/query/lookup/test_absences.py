"""Absences are explained: in the output of a run, in `claims list`, in `why` and in `summary`."""

from __future__ import annotations

import pytest

import findingaid
from findingaid import FindingAid
from findingaid.claims.decisions import DecisionLog, Verdict
from findingaid.claims.model import Action
from findingaid.reports import Unclaimed
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


def test_many_suffixes_are_summed_up() -> None:
    reasons = {f"a.{letter * n}": "not prose" for n, letter in enumerate("abcdefg", 1)} | {"Makefile": "no text"}

    line = str(Unclaimed.of(reasons))

    assert line == "no claims in 8 artifacts: 1 .a, 1 .bb, 1 .ccc, 1 .dddd, 1 .eeeee, 2 others (not prose); 1 (no text)"
    assert Unclaimed.of({"a.py": "x"}) + Unclaimed.of({"b.py": "x"}) == Unclaimed({"x": {".py": 2}})
