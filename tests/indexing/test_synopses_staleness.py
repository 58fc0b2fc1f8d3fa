"""After any change the index equals a new build, and only unanswered requests are sent again."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from findingaid import Corpus, FindingAid, with_synopsis
from findingaid.errors import SynthesisError
from findingaid.indexing.budget import Budget
from findingaid.model import Outcome, SurfacePlan, Usage
from findingaid.store import Ledger, Store
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.with_synopsis import WithSynopsis
from findingaid.synthesis.extractive import Extractive
from findingaid.testing import CountingEmbedder, MemorySource, ScriptedSynthesizer
from tests.conftest import text_about
from tests.indexing.test_incremental import docs, records

Make = Callable[..., FindingAid]

TOPICS = ("ledger", "vector", "reader", "writer", "index")
STEPS = 12


def titled(plan: SurfacePlan) -> bool:
    return bool(plan.filter_fields.get("title"))


SETTINGS: dict[str, list[Any]] = {
    "when": ["always", "thin", titled],
    "fields": [(), ("title",)],
    "fallback": [None, Extractive(1), Extractive(2)],
    "context": [True, False],
    "synopsis_kind": ["synopsis", "gist"],
}


@dataclass
class World:
    """Changes that a user may make between two runs."""

    rng: random.Random
    payloads: dict[str, str] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    settings: dict[str, Any] = field(default_factory=dict)
    chunk_size: int = 200
    model: str = "m1"

    def change(self) -> None:
        name, topic = f"{self.rng.choice(TOPICS)}.md", self.rng.choice(TOPICS)
        match what := self.rng.choice(["edit", "edit", "delete", "title", "down", "cut", "model", *SETTINGS]):
            case "edit":
                self.payloads[name] = text_about(topic, f"{topic} again")
            case "delete":
                self.payloads.pop(name, None)
            case "title":
                self.titles[name] = self.rng.choice(["", "A title"])
            case "down":
                self.down = set(self.rng.sample(TOPICS, self.rng.randrange(3)))
            case "cut":
                self.chunk_size = self.rng.choice([120, 200, 2000])
            case "model":
                self.model = self.rng.choice(["m1", "m2"])
            case _:
                self.settings[what] = self.rng.choice(SETTINGS[what])

    @property
    def source(self) -> MemorySource:
        return MemorySource(dict(self.payloads), {name: {"title": title} for name, title in self.titles.items()})

    def strategy(self, answered: Mapping[str, object]) -> WithSynopsis:
        """Build with a synthesizer that fails on texts in `down` unless it has answered them before."""
        return with_synopsis(
            Chunked(chunk_size=self.chunk_size, overlap=0), _Failing(self.model, self.down, answered), **self.settings
        )

    def wanted(self) -> set[str]:
        """Return the expected input of the synthesizer."""
        strategy, source = self.strategy({}), self.source
        found = set()
        for name in self.payloads:
            artifact = source.read(name)
            plan = strategy.inner.decompose(name, artifact.raw, artifact.metadata)
            if strategy.when(plan):
                found.add(strategy.shown(artifact, plan).text)
        return found


class _Failing(ScriptedSynthesizer):
    def __init__(self, model: str, down: set[str], answered: Mapping[str, object]) -> None:
        super().__init__(model)
        self.down = down
        self.answered = answered

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        self.seen.append(text)
        if f"{self.id} {text}" not in self.answered and any(topic in text for topic in self.down):
            raise SynthesisError("is down", "timeout")
        return f"{self.id} on {' '.join(text.split()[:5])}."


def built(folder: Path, strategy: WithSynopsis, source: MemorySource) -> FindingAid:
    aid = FindingAid(Store(str(folder)), CountingEmbedder(), {"docs": Corpus("docs", source, strategy)})
    aid.index(allow_loss=True)
    return aid


def tables(aid: FindingAid) -> dict[str, Any]:
    """Everything that is kept of artifacts, apart from when and how often."""
    columns = ["artifact_id", "key", "outcome", "text", "producer_id"]
    rows = {
        i: [getattr(row, name) for name in ("surfaces", "synopses", "embeddings", "records", "synopsis_outcome")]
        + [row.n_surfaces, row.n_synopses, row.n_records, row.failed_kind]
        for i, row in Ledger(aid.store).rows("docs").items()
    }
    kept = sorted(aid.store.rows("synopses", columns).to_pylist(), key=lambda row: row["artifact_id"])
    return {"ledger": rows, "synopses": kept, "records": records(aid)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_after_any_changes_the_index_is_as_if_built_anew(tmp_path: Path, seed: int) -> None:
    world = World(random.Random(seed), {f"{topic}.md": text_about(topic, f"{topic} again") for topic in TOPICS[:3]})
    answered: dict[str, None] = {}

    for step in range(STEPS):
        wanted = {text for text in world.wanted() if f"{world.model} {text}" not in answered}
        strategy = world.strategy(answered)
        aid = built(tmp_path / "index", strategy, world.source)
        anew = built(tmp_path / f"anew{step}", world.strategy(answered), world.source)

        asked = strategy.synthesizer.seen  # type: ignore[attr-defined]  # it is of this test
        failed = {text for text in wanted if any(topic in text for topic in world.down)}
        assert sorted(asked) == sorted(wanted)
        assert tables(aid) == tables(anew)
        assert aid.verify() == []
        answered |= {f"{world.model} {text}": None for text in wanted - failed}
        world.change()


def test_a_gate_that_opens_by_another_cut_is_known_to_be_open(make_aid: Make) -> None:
    """The text shown is the same, only the number of chunks differs."""
    make_aid(strategy=Chunked(chunk_size=2000, overlap=0), synopsis={"when": "thin"}).index()
    closed = make_aid().status()[0].synopses
    aid = make_aid(synopsis={"when": "thin"})
    aid.index()

    purged = aid.purge()

    assert (closed, aid.status()[0].synopses) == ({"skipped": 3}, {"ok": 3})
    assert aid.store.count("synopses") == 3
    assert purged.calls == 0


def test_records_follow_a_synopsis_that_comes_late_into_their_context(make_aid: Make) -> None:
    failing = ScriptedSynthesizer(script={"ledger": SynthesisError("not now", "timeout")})
    make_aid(synthesizer=failing, synopsis={"context": True}).index()
    before = make_aid().search("scripted zebras", mode="lexical")
    late = ScriptedSynthesizer(script={"ledger": "Zebras."})
    aid = make_aid(synthesizer=late, synopsis={"context": True})

    plan = docs(aid.plan())
    report = docs(aid.index())

    assert before == []
    assert (plan.calls, plan.records) == (report.calls, report.records)
    assert report.calls.embed == 2 + 1
    hits = aid.search("zebras", mode="lexical")
    assert sorted((hit.artifact_id, hit.surface_index) for hit in hits) == [("ledger.md", i) for i in range(3)]
    assert aid.search("zebras", mode="lexical", where="shown IS NOT NULL", k=1)[0].surface_kind == "chunk"
    assert [record.text[:8] for record in aid.show("ledger.md").records] == ["Zebras.", "# ledger", "# ledger"]
    assert all(result.passed for result in aid.check())


@dataclass
class Counted(ScriptedSynthesizer):
    """Says beforehand how many tokens a text has."""

    def estimate(self, text: str) -> Usage:
        return Usage(1, len(text.split()), 0)


def test_what_is_too_long_for_the_budget_does_not_keep_the_others_waiting(make_aid: Make, source: MemorySource) -> None:
    source.payloads["a.md"] = "very long " * 500
    aid = make_aid(synthesizer=Counted(), budget=Budget(tokens=500))

    aid.index()

    assert aid.status()[0].synopses == {"ok": 3, "pending": 1}
    assert aid.verify() == []


def test_a_plan_counts_artifacts_of_the_same_text_as_the_run_does(make_aid: Make, source: MemorySource) -> None:
    source.payloads = {f"{i}.md": text_about("ledger") for i in range(4)}

    plan, report = docs(make_aid().plan()), docs(make_aid().index())

    assert (plan.calls, plan.records) == (report.calls, report.records)
    assert (report.calls.synthesize, report.records) == (1, 8)


def test_the_same_synopsis_for_all_is_a_record_each(make_aid: Make, embedder: CountingEmbedder) -> None:
    aid = make_aid(synthesizer=ScriptedSynthesizer(script={"": "All alike."}))

    report = docs(aid.index())

    assert report.records == 9
    assert embedder.seen.count("All alike.") == 1
    assert len(aid.search("alike", surfaces=["synopsis"])) == 3
    assert aid.verify() == []


def test_what_no_table_can_hold_fails_alone(make_aid: Make) -> None:
    script = {"ledger": "half a \ud83d pair", "vector": ValueError("half a \ud83d pair")}
    aid = make_aid(synthesizer=ScriptedSynthesizer(script=script))

    report = docs(aid.index())

    assert {str(failure) for failure in report.failed} == {
        "ledger.md: the synthesizer wrote text that is not valid Unicode [synopses: parse]",
        r"vector.md: ValueError: half a \ud83d pair [synopses: other]",
    }
    assert report.records == 7
    assert aid.status()[0].synopses == {"failed": 2, "ok": 1}


def test_blank_texts_are_empty_and_ask_nobody(
    make_aid: Make, source: MemorySource, synthesizer: ScriptedSynthesizer
) -> None:
    source.payloads = {"a.md": "", "b.md": " \n\t\u00a0 ", "c.md": text_about("ledger")}
    aid = make_aid()

    aid.index()

    assert len(synthesizer.seen) == 1
    assert aid.status()[0].synopses == {Outcome.EMPTY.value: 2, "ok": 1}
    assert docs(make_aid().index()).unchanged == 3


def test_an_interrupt_keeps_what_was_paid_for(make_aid: Make, synthesizer: ScriptedSynthesizer) -> None:
    interrupted = ScriptedSynthesizer(script={"vector": KeyboardInterrupt()})

    with pytest.raises(KeyboardInterrupt):
        make_aid(synthesizer=interrupted).index()
    make_aid().index()

    assert len(interrupted.seen) == 3
    assert len(synthesizer.seen) == 1
