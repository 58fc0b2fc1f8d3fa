"""The text that synthesizers and claim extractors are shown, for strategies of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from findingaid import FindingAid, Surface, SurfacePlan, with_synopsis
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.corpus import Claiming
from findingaid.errors import DecomposeError
from findingaid.indexing.claims import load_claims
from findingaid.model import Raw
from findingaid.protocols import Strategy, TextStrategy
from findingaid.strategies import Chunked, ClaudeSession, ClaudeTurn, Package, Skill, WholeText
from findingaid.testing import MemorySource, ScriptedSynthesizer

Make = Callable[..., FindingAid]

TITLE = "The ledger of the harbour keeps one row for every ship that has paid its fees."
STEP = "Every ship that has not paid its fees waits outside the harbour until it does so."
RECIPE = {"title": TITLE, "steps": [STEP], "secret": "Nobody may read this sentence in any synopsis at all."}


@dataclass(frozen=True)
class Recipe:
    """A surface for the title and for each step."""

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        assert isinstance(raw, Mapping)
        return SurfacePlan({}, [Surface("title", raw["title"]), *(Surface("step", step) for step in raw["steps"])])


@dataclass(frozen=True)
class TitledRecipe(Recipe):
    """A recipe of which only the title is summarised."""

    def text(self, raw: Raw) -> str:
        assert isinstance(raw, Mapping)
        return str(raw["title"])


@dataclass(frozen=True)
class SilentRecipe(Recipe):
    """A recipe whose text cannot be made."""

    problem: str = "raises"

    def text(self, raw: Raw) -> Any:
        if self.problem == "raises":
            raise DecomposeError("has no text", "parse")
        return 7


@dataclass(frozen=True)
class Lines:
    """A surface for each line, with its span."""

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        assert isinstance(raw, str)
        end = raw.index("\n")
        return SurfacePlan({}, [Surface("line", raw[:end], span=(0, end))])


@pytest.fixture
def source() -> MemorySource:
    return MemorySource({"harbour": RECIPE})


@pytest.mark.parametrize(
    ("strategy", "shown"), [(Recipe(), f"{TITLE}\n\n{STEP}"), (TitledRecipe(), TITLE)], ids=["surfaces", "text"]
)
def test_a_synopsis_and_claims_read_the_text_of_the_strategy_or_else_its_surfaces(
    make_aid: Make, strategy: Strategy, shown: str
) -> None:
    synthesizer = ScriptedSynthesizer()
    aid = make_aid(strategy=strategy, synthesizer=synthesizer, claims=Claiming(ExtractiveClaims()))

    report = aid.index().corpora["docs"]

    assert report.failed == []
    assert synthesizer.seen == [shown]
    claims = load_claims(aid.store, "docs", ["harbour"])
    assert [claim.text for claim in claims] == shown.split("\n\n")
    assert [shown[slice(*claim.span)] for claim in claims if claim.span] == shown.split("\n\n")
    assert [p.quote for p in aid.passages(claims[0].claim_id).passages] == [TITLE]


def test_a_surface_with_a_span_makes_the_text_of_the_payload_the_shown_one() -> None:
    synthesizer = ScriptedSynthesizer()

    with_synopsis(Lines(), synthesizer).decompose("a", f"{TITLE}\n{STEP}", {})

    assert synthesizer.seen == [f"{TITLE}\n{STEP}"]


@pytest.mark.parametrize(
    ("problem", "message"), [("raises", "text: has no text"), ("a number", "text: expected text, got int")]
)
def test_a_text_that_cannot_be_made_costs_the_synopsis_and_the_claims_alone(
    make_aid: Make, problem: str, message: str
) -> None:
    aid = make_aid(strategy=SilentRecipe(problem), claims=Claiming(ExtractiveClaims()))

    report = aid.index().corpora["docs"]

    assert {(f.artifact_id, f.kind, f.message) for f in report.failed} == {("harbour", "parse", message)}
    assert {f.stage for f in report.failed} <= {"synopses", "claims"}
    assert [hit.text for hit in aid.search("harbour ship fees", k=5)].count(STEP) == 1


@pytest.mark.parametrize("strategy", [Chunked(), WholeText(), Package(), Skill(), ClaudeTurn(), ClaudeSession()])
def test_every_shipped_strategy_states_its_text(strategy: Strategy) -> None:
    assert isinstance(strategy, TextStrategy)
