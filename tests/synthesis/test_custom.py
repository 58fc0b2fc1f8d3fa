"""Functions as synthesizers and claim extractors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from findingaid import Artifact, ConfigError, FindingAid, with_synopsis
from findingaid.claims.extraction import CustomClaims
from findingaid.corpus import Claiming
from findingaid.protocols import Statement
from findingaid.strategies import Chunked
from findingaid.synthesis.custom import Custom
from findingaid.testing import MemorySource

Make = Callable[..., FindingAid]

LOOPS: set[int] = set()


async def slowly(text: str, metadata: Mapping[str, Any]) -> str:
    LOOPS.add(id(asyncio.get_running_loop()))
    await asyncio.sleep(0)
    return f"Slowly: {text.split()[1]}."


async def fails(text: str, metadata: Mapping[str, Any]) -> str:
    raise TimeoutError("too slow")


async def states(text: str, metadata: Mapping[str, Any]) -> list[Statement]:
    return [Statement(text[:20], text[:20])]


def named(text: str, metadata: Mapping[str, Any], artifact: Artifact) -> str:
    assert isinstance(artifact.raw, str)
    return f"{artifact.artifact_id} by {artifact.metadata.get('author')}: {len(artifact.raw)} characters."


def synopses(aid: FindingAid) -> list[str]:
    rows = aid.store.rows("records", ["text", "surface_kind"]).to_pylist()
    return sorted(row["text"] for row in rows if row["surface_kind"] == "synopsis")


def test_an_async_function_writes_synopses_on_one_loop_and_states_claims(make_aid: Make) -> None:
    LOOPS.clear()
    aid = make_aid(synthesizer=Custom(slowly), claims=Claiming(CustomClaims(states)))

    report = aid.index().corpora["docs"]

    assert (report.calls.synthesize, report.calls.extract, report.failed) == (3, 3, [])
    assert synopses(aid) == ["Slowly: ledger.", "Slowly: reader.", "Slowly: vector."]
    assert len(LOOPS) == 1


def test_an_async_function_also_works_within_a_running_loop() -> None:
    async def within() -> str:
        return Custom(slowly, "slowly").synthesize("a b", {})

    assert asyncio.run(within()) == "Slowly: b."


def test_an_error_of_an_async_function_is_raised() -> None:
    with pytest.raises(TimeoutError, match="too slow"):
        Custom(fails).synthesize("a b", {})


def test_a_function_that_wants_the_artifact_is_cached_by_what_it_was_given(make_aid: Make) -> None:
    source = MemorySource({"a.md": "A ledger.", "b.md": "A ledger."}, {"a.md": {"author": "Ann"}})
    aid = make_aid(source=source, synthesizer=Custom(named))

    first = aid.index().corpora["docs"].calls.synthesize
    written = synopses(aid)
    source.payloads["c.md"] = source.payloads.pop("b.md")
    source.metadata["a.md"] = {"author": "Bea"}
    changed = aid.index().corpora["docs"].calls.synthesize

    assert written == ["a.md by Ann: 9 characters.", "b.md by None: 9 characters."]
    assert (first, changed) == (2, 2)
    assert synopses(aid) == ["a.md by Bea: 9 characters.", "c.md by None: 9 characters."]


def test_a_strategy_alone_shows_the_artifact_too() -> None:
    plan = with_synopsis(Chunked(), named).decompose("a.md", "A ledger.", {"author": "Ann"})

    assert plan.surfaces[0].text == "a.md by Ann: 9 characters."


@pytest.mark.parametrize(
    ("function", "taken"),
    [
        (lambda text: text, "<lambda> takes (text)"),
        (lambda text, metadata, title: text, "<lambda> takes (text, metadata, title)"),
        (lambda: "", "<lambda> takes ()"),
    ],
)
def test_a_function_with_other_parameters_is_refused_when_it_is_configured(
    function: Callable[..., Any], taken: str
) -> None:
    message = re.escape(f"function: {taken}, expected (text, metadata)")

    with pytest.raises(ConfigError, match=rf"^{message} or \(text, metadata, artifact\)$"):
        Custom(function, "mine")
    with pytest.raises(ConfigError, match=f"^{message}$"):
        CustomClaims(function, "mine")


def test_functions_with_defaults_and_builtin_ones_are_taken() -> None:
    def longest(text: str, metadata: Mapping[str, Any], most: int = 3) -> str:
        return text[:most]

    assert Custom(longest, "longest").synthesize("abcdef", {}) == "abc"
    assert Custom(max, "max").synthesize("b", "a") == "b"  # type: ignore[arg-type]  # any built-in function does


def test_a_fallback_that_wants_the_artifact_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^fallback: reads the artifact, which only the synthesizer is shown$"):
        with_synopsis(Chunked(), fallback=Custom(named))
