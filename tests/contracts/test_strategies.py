"""What every strategy keeps, for any text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from findingaid import Strategy
from findingaid.embedding.minilm import MiniLM
from findingaid.identity import producer_id
from findingaid.model import Raw, SurfacePlan
from findingaid.strategies import STRATEGIES, strategy_from_spec, strategy_to_spec
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.package import Package
from findingaid.strategies.whole_text import WholeText

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)
MARKDOWN = st.lists(
    st.sampled_from(["# Head\n", "word ", "\n\n", "- item\n", "```\ncode\n```\n", "é\u0301🗂 ", "\x00", "|a|b|\n"]),
    max_size=60,
).map("".join)
SEEN = MiniLM()

EVERY: list[Any] = [
    WholeText(),
    Chunked(chunk_size=40, overlap=10),
    Chunked(chunk_size=1, overlap=0),
    Chunked(max_tokens=8).for_embedder(SEEN),
    Package(chunk_size=40, overlap=0),
    Package(max_tokens=8, overlap=2, embed_deps=True).for_embedder(SEEN),
]


def raw_for(strategy: Strategy, text: str) -> Raw:
    if isinstance(strategy, Package):
        return {
            "name": "a package",
            "description": text[:50],
            "readme": text,
            "deps": ["numpy"],
            "readme_type": "text/markdown",
        }
    return text


def decompose(strategy: Strategy, text: str, media_type: str) -> SurfacePlan:
    return strategy.decompose("a", raw_for(strategy, text), {"media_type": media_type})


@pytest.mark.parametrize("strategy", EVERY, ids=repr)
@pytest.mark.parametrize("media_type", ["text/plain", "text/markdown"])
@settings(max_examples=60, deadline=None)
@given(text=TEXTS | MARKDOWN)
@example("")
@example(" \n\t\x00 ")
@example("\ufeffmark")
@example("a" * 300)
def test_spans_give_back_the_text_no_surface_is_blank_and_the_plan_is_the_same_twice(
    strategy: Strategy, media_type: str, text: str
) -> None:
    plan = decompose(strategy, text, media_type)

    assert plan == decompose(strategy, text, media_type)
    for surface in plan.surfaces:
        assert surface.text.strip()
        if surface.span:
            start, end = surface.span
            assert text[start:end] == surface.text
    spans = [surface.span for surface in plan.surfaces if surface.span]
    assert spans == sorted(spans)


@settings(max_examples=100, deadline=None)
@given(text=TEXTS | MARKDOWN)
def test_every_word_is_in_some_chunk(text: str) -> None:
    covered: set[int] = set()
    for surface in Chunked(chunk_size=40, overlap=10).cut(text, markdown=True):
        assert surface.span
        covered.update(range(*surface.span))

    assert not [i for i, c in enumerate(text) if i not in covered and c.isalnum()]


@settings(max_examples=60, deadline=None)
@given(text=TEXTS | MARKDOWN)
def test_no_chunk_is_longer_than_its_limit(text: str) -> None:
    chunked = Chunked(max_tokens=8, overlap=2).for_embedder(SEEN)

    # A single character may be several tokens, and is never split.
    assert all(SEEN.count_tokens(s.text) <= 8 or len(s.text) == 1 for s in chunked.cut(text, markdown=True))
    assert all(len(s.text) <= 40 for s in Chunked(chunk_size=40).cut(text))


@pytest.mark.parametrize(
    "text", ["# Head\n\nSome words here.\n\n" * 90, "a line of words\n\n" * 120, "words " * 400, "x" * 2500]
)
def test_a_long_text_is_parted_without_loss(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Texts of many megabytes are cut part by part; no character between chunks may be lost."""
    monkeypatch.setattr("findingaid.strategies.chunked.PART_CHARACTERS", 1000)

    chunks = Chunked(chunk_size=100, overlap=0).cut(text, markdown=True)

    assert all(chunk.span and text[slice(*chunk.span)] == chunk.text for chunk in chunks)
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(text.split())


def test_chunks_are_counted_within_their_kind() -> None:
    plan = Package(chunk_size=30, overlap=0, embed_deps=True).decompose(
        "numpy", {"name": "numpy", "description": "arrays", "readme": "word " * 20, "deps": ["one", "two"]}, {}
    )

    assert [surface.kind for surface in plan.surfaces] == [
        "description",
        "readme",
        "readme",
        "readme",
        "readme",
        "deps",
    ]
    assert [surface.metadata.get("chunk_index") for surface in plan.surfaces] == [None, 0, 1, 2, 3, None]
    assert {surface.metadata["n_chunks"] for surface in plan.surfaces if surface.kind == "readme"} == {4}
    assert plan.surfaces[-1].text == "Depends on: one, two"
    assert plan.filter_fields == {"name": "numpy", "owner": "", "deps": ["one", "two"], "has_readme": True}


@pytest.mark.parametrize("strategy", [s for s in EVERY if getattr(s, "tokenizer", None) is None], ids=repr)
def test_a_spec_gives_the_strategy_back(strategy: Strategy) -> None:
    assert strategy_from_spec(strategy_to_spec(strategy)) == strategy
    assert strategy_from_spec(None) is None


@pytest.mark.parametrize("name", STRATEGIES.known())
def test_every_shipped_strategy_has_an_identity_of_its_own(name: str) -> None:
    default = STRATEGIES.create({"name": name}, "strategy")

    assert producer_id(default) == producer_id(STRATEGIES.create({"name": name}, "strategy"))
    assert producer_id(default).startswith(f"{name}-")
