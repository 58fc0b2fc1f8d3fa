"""A plan predicts the calls of the run to the number, and its tokens and money as an upper bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from findingaid import Corpus, FindingAid, with_synopsis
from findingaid.indexing.plan import CorpusPlan
from findingaid.model import Listing
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import CountingEmbedder, MemorySource, OpenAIServer
from tests.conftest import text_about
from tests.indexing.test_budget import PRICE, model


def change(texts: dict[str, str], chance: Random, step: int) -> None:
    """Edit, add, delete, copy and rename at random; an edit may bring an earlier text back."""
    for _ in range(chance.randint(0, 4)):
        name = chance.choice(sorted(texts))
        match chance.randrange(5):
            case 0:
                texts[name] = text_about(f"topic {chance.randrange(6)}", f"more of {chance.randrange(3)}")
            case 1:
                texts[f"new{step}.md"] = text_about(f"topic {chance.randrange(20)}")
            case 2 if len(texts) > 4:
                del texts[name]
            case 3:
                texts[f"copy{step}.md"] = texts[name]
            case _:
                texts[f"moved{step}.md"] = texts.pop(name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_plan_foresees_the_calls_of_random_changes_to_the_number(
    tmp_path: Path, server: OpenAIServer, seed: int
) -> None:
    chance = Random(seed)
    source = MemorySource({f"{i}.md": text_about(f"topic {i}", f"more of {i % 3}") for i in range(6)})
    strategy = with_synopsis(Chunked(chunk_size=140, overlap=0), model(server))
    corpora = {"docs": Corpus("docs", source, strategy)}
    for step in range(6):
        aid = FindingAid(Store(str(tmp_path / "index")), CountingEmbedder(), corpora, prices={"small": PRICE})
        server.requests.clear()

        plan = aid.plan().corpora["docs"]
        assert server.requests == []
        done = aid.index().corpora["docs"]

        assert len(server.completions) == plan.calls.synthesize == done.calls.synthesize
        assert plan.usage.calls == done.usage.calls
        assert (plan.new, plan.changed, plan.deleted) == (done.new, done.changed, done.deleted)
        assert done.usage.input_tokens <= plan.usage.input_tokens
        assert done.usage.output_tokens <= plan.usage.output_tokens
        assert (done.cost or 0) <= (plan.cost or 0)
        change(source.payloads, chance, step)


@pytest.mark.parametrize(
    ("artifacts", "batches", "steps"),
    [(0, 0, 0), (512, 1, 1), (513, 2, 2), (16_384, 32, 32), (100_000, 98, 32), (1_000_000, 977, 123)],
)
def test_a_large_run_has_large_batches_and_larger_steps_up_to_a_limit(artifacts: int, batches: int, steps: int) -> None:
    plan = CorpusPlan("docs", artifacts, [Listing("a.md", "")] * artifacts, [])

    assert len(list(plan.batches())) == batches
    assert len(list(plan.steps())) == steps
    assert len(list(replace(plan, stale=(), deleted=[""] * artifacts).removals())) == steps


def test_a_batch_ends_at_its_bytes_however_few_artifacts_it_has() -> None:
    plan = CorpusPlan("docs", 4, [Listing(f"{n}.md", "", 40_000_000) for n in range(4)], [])

    assert [len(batch) for batch in plan.batches()] == [1, 1, 1, 1]
