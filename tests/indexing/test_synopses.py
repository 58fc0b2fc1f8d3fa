"""Synopses: the choice of synthesizer, the costs, and the handling of failures."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

import findingaid
from findingaid import FindingAid, with_synopsis
from findingaid.errors import ConfigError, SynthesisError
from findingaid.identity.hashes import text_hash
from findingaid.indexing.budget import Budget, Price
from findingaid.indexing.vectors import EMBED_GROUP, Embeddings
from findingaid.model import Outcome, SurfacePlan, Synopsis, SynthesizerInput, Usage, Vectors
from findingaid.reports import CorpusReport, Report
from findingaid.strategies import strategy_from_spec, strategy_to_spec
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.package import Package
from findingaid.strategies.whole_text import WholeText
from findingaid.strategies.with_synopsis import CONTEXT_SHARE, WithSynopsis
from findingaid.synthesis.custom import Custom
from findingaid.synthesis.extractive import Extractive
from findingaid.testing import CountingEmbedder, MemorySource, ScriptedSynthesizer
from tests.conftest import Cli, text_about

Make = Callable[..., FindingAid]


def docs(report: Report) -> CorpusReport:
    return report.corpora["docs"]


def published(aid: FindingAid) -> list[dict[str, Any]]:
    columns = ["record_id", "artifact_id", "surface_kind", "surface_index", "text", "shown", "producer_id"]
    rows: list[dict[str, Any]] = aid.store.published().to_table(columns=columns).to_pylist()
    return sorted(rows, key=lambda row: (row["artifact_id"], row["surface_index"]))


def first_words(text: str, metadata: Mapping[str, Any]) -> str:
    return " ".join(text.split()[:3])


def first_words_by_name(text: str, metadata: Mapping[str, Any]) -> str:
    return first_words(text, metadata)


first_words_by_name.synthesizer_id = "mine-1"  # type: ignore[attr-defined]  # the subject of the test


def about_ledgers(plan: SurfacePlan) -> bool:
    return any("ledger" in surface.text for surface in plan.surfaces)


@dataclass
class PricedSynthesizer:
    """Several at once, ten tokens in and five out each."""

    script: Mapping[str, Synopsis] = field(default_factory=dict)
    id: str = "priced-1"
    model: str = "small"
    seen: list[str] = field(default_factory=list)

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        raise AssertionError("asked one by one")

    def synthesize_all(self, shown: Sequence[SynthesizerInput]) -> Iterator[tuple[int, Synopsis]]:
        for place, what in reversed(list(enumerate(shown))):
            self.seen.append(what.text)
            said = next((s for key, s in self.script.items() if key in what.text), None)
            yield place, said or Synopsis(Outcome.OK, f"On {what.text.split()[1]}.", usage=Usage(1, 10, 5))

    def estimate(self, text: str) -> Usage:
        return Usage(1, 10, 5)


class TestWrapper:
    def test_a_synopsis_stands_first_stamped_with_who_wrote_it(self) -> None:
        raw = {"name": "lance", "description": "A column store for vectors.", "readme": "It is fast."}
        strategy = with_synopsis(Package(), ScriptedSynthesizer())

        plan = strategy.decompose("lance", raw, {})

        assert [surface.kind for surface in plan.surfaces] == ["synopsis", "description", "readme"]
        assert plan.surfaces[0].metadata == {"synthesizer_id": "scripted-1"}

    @pytest.mark.parametrize("written", ["", "  ", None, 7])
    def test_what_is_no_text_drops_that_surface_alone(self, written: Any) -> None:
        plan = with_synopsis(Chunked(), lambda text, metadata: written, "x").decompose("a", "Some text.", {})

        assert [surface.kind for surface in plan.surfaces] == ["chunk"]

    def test_what_is_shown_is_what_the_strategy_indexes(self) -> None:
        synthesizer = ScriptedSynthesizer()
        strategy = with_synopsis(Chunked(text_key="body"), synthesizer, fields=["title", "tags"])

        strategy.decompose("a/path.md", {"text": "not this", "body": "but this"}, {"title": "T", "tags": ["x", "y"]})

        assert synthesizer.seen == ["title: T\ntags: x, y\n\nbut this"]

    def test_it_has_a_spec_that_goes_there_and_back(self) -> None:
        strategy = with_synopsis(Chunked(chunk_size=300), first_words, when="thin", fields=["title"], context=True)

        spec = strategy_to_spec(strategy)

        assert spec["params"]["inner"] == {"name": "Chunked", "params": {"chunk_size": 300}}
        assert yaml.safe_load(yaml.safe_dump(spec)) == spec
        assert strategy_from_spec(spec) == strategy

    def test_a_synopsis_of_a_synopsis_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="already has a synopsis"):
            with_synopsis(with_synopsis(Chunked()))


class TestIdentity:
    def test_a_function_is_known_by_its_name_and_code(self) -> None:
        assert with_synopsis(Chunked(), first_words).id.startswith("tests.indexing.test_synopses.first_words-")

    def test_an_id_of_its_own_wins(self) -> None:
        assert with_synopsis(Chunked(), first_words_by_name).id == "mine-1"
        assert with_synopsis(Chunked(), first_words_by_name, "given-2").id == "given-2"
        assert with_synopsis(Chunked(), ScriptedSynthesizer(), "given-3").id == "given-3"

    def test_a_lambda_warns_when_it_is_given_and_counts_by_its_code(self) -> None:
        with pytest.warns(UserWarning, match="has no identity of its own.*synthesizer_id") as warned:
            one, other = (
                with_synopsis(Chunked(), by) for by in (lambda text, metadata: "x", lambda text, metadata: "y")
            )

        assert {warning.filename for warning in warned} == {__file__}
        assert one.id != other.id

    def test_gate_fields_and_fallback_are_part_of_it(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ids = [
                with_synopsis(Chunked()).id,
                with_synopsis(Chunked(), when="thin").id,
                with_synopsis(Chunked(), when=about_ledgers).id,
                with_synopsis(Chunked(), when=about_ledgers, when_id="2").id,
                with_synopsis(Chunked(), fields=["title"]).id,
                with_synopsis(Chunked(), fallback=Extractive(2)).id,
            ]

        assert len(set(ids)) == len(ids)
        assert ids[0] == "extractive-3-v6"


class TestGate:
    def test_what_it_holds_back_costs_no_synopsis_until_it_opens_and_no_record_moves(
        self, make_aid: Make, synthesizer: ScriptedSynthesizer, embedder: CountingEmbedder
    ) -> None:
        aid = make_aid(synopsis={"when": about_ledgers})

        assert aid.index().ok

        assert len(synthesizer.seen) == 1
        assert [row["artifact_id"] for row in published(aid) if row["surface_index"] == 0] == ["ledger.md"]
        assert aid.status()[0].synopses == {"ok": 1, "skipped": 2}
        before = {row["record_id"] for row in published(aid)}
        synthesizer.seen.clear()
        embedder.seen.clear()

        make_aid().index()

        assert len(synthesizer.seen) == len(embedder.seen) == 2
        assert before < {row["record_id"] for row in published(make_aid())}

    def test_thin_is_what_says_little_about_itself(self) -> None:
        long = "A paragraph that goes on. " * 20
        strategy = with_synopsis(Package(chunk_size=200, overlap=0), ScriptedSynthesizer(), when="thin")

        def kinds(description: str, readme: str) -> list[str]:
            raw = {"name": "lance", "description": description, "readme": readme}
            return [surface.kind for surface in strategy.decompose("lance", raw, {}).surfaces]

        assert "synopsis" in kinds("", long)
        assert "synopsis" not in kinds("A column store for vectors, with versions and full-text search, " * 2, long)
        assert "synopsis" not in kinds("", "")

    def test_one_that_raises_fails_the_synopsis_alone(self, make_aid: Make) -> None:
        def broken(plan: SurfacePlan) -> bool:
            raise KeyError("oh")

        aid = make_aid(synopsis={"when": broken, "when_id": "broken"})
        report = aid.index()

        assert [f.message for f in docs(report).failed] == ["when: KeyError: 'oh'"] * 3
        assert len(published(aid)) == 6


class TestCache:
    @pytest.mark.usefixtures("indexed")
    def test_a_hint_how_to_read_the_text_counts_a_title_does_not(
        self, make_aid: Make, source: MemorySource, synthesizer: ScriptedSynthesizer
    ) -> None:
        synthesizer.seen.clear()

        source.metadata["ledger.md"] = {"title": "New"}
        source.metadata["vector.md"] = {"media_type": "text/plain"}
        make_aid().index()

        (seen,) = synthesizer.seen
        assert "vector" in seen


@dataclass
class WaitingSynthesizer(ScriptedSynthesizer):
    """Writes once `embedded` is set, as a slow model would."""

    embedded: threading.Event = field(default_factory=threading.Event)

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        assert self.embedded.wait(30)
        return super().synthesize(text, metadata)


@dataclass
class TellingEmbedder(CountingEmbedder):
    """Sets `embedded` once it has embedded texts."""

    embedded: threading.Event = field(default_factory=threading.Event)

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = super().embed(texts)
        self.embedded.set()
        return vectors


class TestOverlap:
    def test_surfaces_are_embedded_while_a_model_writes_synopses(self, make_aid: Make) -> None:
        embedder = TellingEmbedder()
        aid = make_aid(synthesizer=WaitingSynthesizer(embedded=embedder.embedded), embedder=embedder)

        report = docs(aid.index())

        assert (report.failed, report.calls.synthesize) == ([], 3)
        assert len(embedder.seen) == len(set(embedder.seen)) == report.calls.embed == len(published(aid))

    def test_a_text_that_cannot_be_embedded_is_tried_once_and_named(self, make_aid: Make) -> None:
        embedder = TellingEmbedder(poison="ledger")
        alone: list[str] = []
        one_by_one = embedder.embed
        embedder.embed = lambda texts: alone.extend(texts if len(texts) == 1 else ()) or one_by_one(texts)  # type: ignore[method-assign,func-returns-value]

        report = docs(
            make_aid(synthesizer=ScriptedSynthesizer(script={"ledger": "Of books."}), embedder=embedder).index()
        )

        assert [failure.artifact_id for failure in report.failed] == ["ledger.md"]
        assert len(alone) == len(set(alone)) > 0

    def test_embedding_stops_and_keeps_what_it_has_when_the_run_is_interrupted(self, make_aid: Make) -> None:
        embedder = TellingEmbedder()
        aid = make_aid(synthesizer=None, embedder=embedder)
        aid.open_run().prepare()
        embeddings = Embeddings(embedder, aid.store)
        texts = {text_hash(text): text for text in (f"text {number}" for number in range(100 * EMBED_GROUP))}

        with suppress(KeyboardInterrupt), embeddings.making(texts) as made:
            assert embedder.embedded.wait(30)
            raise KeyboardInterrupt

        assert 0 < made.result() < len(texts)
        assert len(Embeddings(embedder, aid.store).load(texts)) == len(texts) - made.result()


class TestFailures:
    def test_a_fallback_is_published_as_such_and_replaced_once_the_synthesizer_answers(self, make_aid: Make) -> None:
        failing = ScriptedSynthesizer(script={"ledger": SynthesisError("said no", "refused")})
        report = make_aid(synthesizer=failing, synopsis={"fallback": Extractive(1)}).index()

        assert [str(f) for f in docs(report).failed] == ["ledger.md: said no [synopses: refused]"]
        first = published(make_aid())[0]
        assert (first["surface_kind"], first["producer_id"]) == ("synopsis", "extractive-1-v6")
        assert first["text"].startswith("The ledger is described here")

        answers = ScriptedSynthesizer()
        report = make_aid(synthesizer=answers, synopsis={"fallback": Extractive(1)}).index()

        assert report.ok
        assert len(answers.seen) == 1
        again = published(make_aid())[0]
        assert (again["record_id"], again["producer_id"]) == (first["record_id"], "scripted-1")
        assert make_aid().verify() == []

    def test_an_endpoint_that_is_down_is_tried_a_few_times_and_the_rest_is_published(
        self, make_aid: Make, source: MemorySource
    ) -> None:
        source.payloads |= {f"{i:02d}.md": text_about(f"topic {i}") for i in range(5)}
        down = ScriptedSynthesizer(script={"": ConnectionError("refused")})
        aid = make_aid(synthesizer=down)

        report = docs(aid.index())

        assert len(down.seen) == 5
        assert (len(report.failed), report.pending) == (5, 3)
        assert report.left == ("3 synopses are left to the next run: not tried: ConnectionError: refused")
        assert {row["artifact_id"] for row in published(aid)} == set(source.payloads)
        assert aid.status()[0].synopses == {"failed": 5, "pending": 3}

        report = docs(make_aid().index())

        assert (report.calls.synthesize, report.pending, len(report.failed)) == (8, 0, 0)

    def test_one_answer_for_all_artifacts_is_named(self, make_aid: Make, source: MemorySource) -> None:
        source.payloads |= {f"{i:02d}.md": text_about(f"topic {i}") for i in range(4)}
        parrot = ScriptedSynthesizer(script={"": "It is about the first request."})

        (warning,) = docs(make_aid(synthesizer=parrot).index()).warnings

        assert warning.startswith("7 of 7 synopses are the same, though the artifacts differ")
        assert "--pay-again --stage synopses" in warning
        mended = docs(make_aid().index(stages=["synopses"], force=True, pay_again=True))
        assert (mended.calls.synthesize, mended.warnings) == (7, [])

    def test_equal_synopses_of_equal_texts_and_of_few_artifacts_are_no_news(
        self, make_aid: Make, source: MemorySource
    ) -> None:
        source.payloads |= {f"{i:02d}.md": text_about("the same") for i in range(5)}

        assert docs(make_aid().index()).warnings == []

    def test_equal_sentences_of_the_texts_themselves_are_no_fault_of_an_endpoint(
        self, make_aid: Make, source: MemorySource
    ) -> None:
        source.payloads = {f"{i:02d}.md": f"The same sentence begins each text. Number {i}." for i in range(5)}

        report = docs(make_aid(synthesizer=Extractive(1)).index())

        assert (report.calls.synthesize, report.warnings) == (5, [])

    def test_one_that_answers_nothing_at_all_fails(self, make_aid: Make) -> None:
        class Silent(PricedSynthesizer):
            def synthesize_all(self, shown: Sequence[SynthesizerInput]) -> Iterator[tuple[int, Synopsis]]:
                yield 0, Synopsis(Outcome.OK, "One.")

        report = docs(make_aid(synthesizer=Silent()).index())

        assert [f.message for f in report.failed] == ["the synthesizer returned no answer"] * 2

    def test_status_lists_failures_with_reasons(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        (cli.folder / "failing.py").write_text("def no(text, metadata):\n    raise TimeoutError('after 3 s')\n")
        monkeypatch.syspath_prepend(cli.folder)
        cli.write("a.md", text_about("a"))
        cli.write("b.md", text_about("b"))
        cli.settings["synthesizer"] = {"kind": "custom", "function": "failing:no"}
        cli.settings["corpora"]["docs"]["synopsis"] = True

        assert cli.run("index").exit_code == 1
        found = cli.run("status", "--failed")

        assert found.stdout.splitlines() == [
            f"docs: {name}: TimeoutError: after 3 s [synopses: timeout]" for name in ("a.md", "b.md")
        ]
        assert "docs: 2 artifacts (a.md, b.md): TimeoutError" in cli.run("status").stdout


class TestBudget:
    def test_a_run_stops_at_it_with_the_rest_pending(self, make_aid: Make) -> None:
        priced: dict[str, Any] = {"budget": Budget(money=0.000045), "prices": {"small": Price(1, 2)}}
        aid = make_aid(synthesizer=PricedSynthesizer(), **priced)

        report = aid.index()

        assert report.ok
        assert (docs(report).calls.synthesize, docs(report).pending) == (2, 1)
        assert docs(report).usage == Usage(2, 20, 10)
        assert docs(report).cost == pytest.approx(0.00004)
        assert "the budget of this run is spent" in docs(report).left
        assert len(published(aid)) == 6 + 2

        second = make_aid(synthesizer=PricedSynthesizer(), **priced).index()

        assert (docs(second).calls.synthesize, docs(second).pending) == (1, 0)
        assert [str(used) for used in aid.status()[0].usage] == [
            "small: 3 calls, 30 tokens in, 15 out, 0.00; in the last run 1 call, 10 tokens in, 5 out, 0.00"
        ]

    def test_processes_of_one_run_share_it(self, make_aid: Make) -> None:
        aid = make_aid(synthesizer=PricedSynthesizer(), budget=Budget(calls=2))
        aid.open_run().prepare()
        batch = next(iter(aid.open_run().plan("docs").batches()))

        first = aid.open_run("run 1").indexer("docs").build(batch[:1])
        second = aid.open_run("run 1").indexer("docs").build(batch[1:])

        assert (first.usage.calls, second.usage.calls, second.pending) == (1, 1, 1)

    def test_a_plan_says_calls_tokens_and_money_without_a_call(self, make_aid: Make) -> None:
        synthesizer = PricedSynthesizer()

        report = docs(make_aid(synthesizer=synthesizer, prices={"small": Price(1, 2)}).plan())

        assert (report.calls.synthesize, report.usage, synthesizer.seen) == (3, Usage(3, 30, 15), [])
        assert report.cost == pytest.approx(0.00006)
        assert report.spent == "3 synthesizer calls, 30 tokens in, 15 out, 0.00 by the prices configured"

    def test_failures_are_paid_too_and_without_a_price_nobody_knows_how_much(self, make_aid: Make) -> None:
        cut = Synopsis(Outcome.FAILED, kind="truncated", message="cut off", usage=Usage(1, 10, 500))

        report = docs(make_aid(synthesizer=PricedSynthesizer({"ledger": cut})).index())

        assert report.usage == Usage(3, 30, 510)
        assert report.cost is None
        assert report.spent == "3 synthesizer calls, 30 tokens in, 510 out"


class Short(CountingEmbedder):
    """Embedder whose model reads 64 words."""

    max_tokens = 64

    def count_tokens(self, text: str) -> int:
        return len(text.split())


class TestContext:
    def test_chunks_are_found_by_their_synopsis_or_title_and_headings_and_shown_without(
        self, make_aid: Make, source: MemorySource
    ) -> None:
        source.metadata["vector.md"] = {"title": "The big book"}
        synthesizer = ScriptedSynthesizer(script={"ledger": "Bookkeeping for zebras.", "vector": ""})
        aid = make_aid(synthesizer=synthesizer, synopsis={"context": True})
        aid.index()

        hits = aid.search("zebras", mode="lexical")

        assert {(hit.artifact_id, hit.surface_kind) for hit in hits} == {
            ("ledger.md", "synopsis"),
            ("ledger.md", "chunk"),
        }
        chunk = next(hit for hit in hits if hit.surface_kind == "chunk")
        assert chunk.span
        assert chunk.text == text_about("ledger", "ledger again")[slice(*chunk.span)]
        assert [record.text for record in aid.show("ledger.md").records if "zebras" in record.text] == [
            "Bookkeeping for zebras."
        ]
        texts = [row["text"] for row in published(aid) if row["artifact_id"] == "vector.md"]
        assert texts[0].startswith("The big book > vector\n\n# vector")
        assert texts[1].startswith("The big book > vector again\n\n# vector again")

    @pytest.mark.usefixtures("indexed")
    def test_switching_it_embeds_once_and_publishes_again_and_asks_nobody(
        self, make_aid: Make, synthesizer: ScriptedSynthesizer, embedder: CountingEmbedder
    ) -> None:
        before = {row["record_id"] for row in published(make_aid())}
        synthesizer.seen.clear()
        embedder.seen.clear()

        report = make_aid(synopsis={"context": True}).index()

        assert docs(report).changed == 3
        assert synthesizer.seen == []
        assert len(embedder.seen) == 6
        assert {row["record_id"] for row in published(make_aid())} == before

        make_aid(synopsis={"context": True}).purge()
        embedder.seen.clear()
        make_aid(synopsis={"context": True}).index(force=True)
        assert embedder.seen == []

    def test_nothing_of_a_chunk_is_lost_to_its_context(self, make_aid: Make, source: MemorySource) -> None:
        model = Short()
        source.payloads = {"a.md": " ".join(f"Sentence {i} says something of its own." for i in range(60))}
        long = ScriptedSynthesizer(script={"": "A synopsis of very many words. " * 60})
        strategy = with_synopsis(Chunked(), long, context=True).for_embedder(model)

        aid = make_aid(strategy=strategy, synthesizer=None, embedder=model)
        aid.index()

        chunks = [row for row in published(aid) if row["surface_kind"] == "chunk"]
        assert len(chunks) > 1
        assert max(model.count_tokens(row["text"]) for row in chunks) <= model.max_tokens
        assert max(model.count_tokens(row["text"].removesuffix(row["shown"])) for row in chunks) > 0.9 * (
            model.max_tokens // CONTEXT_SHARE
        )


class TestConfiguration:
    def test_a_corpus_may_say_everything_itself(self, tmp_path: Path) -> None:
        file = tmp_path / "findingaid.yaml"
        synopsis = {
            "synthesizer": {"kind": "extractive", "sentences": 1},
            "when": "thin",
            "kind": "abstract",
            "fields": ["title"],
            "fallback": {"kind": "extractive"},
            "context": True,
        }
        corpus = {"source": {"kind": "files", "root": "."}, "strategy": {"name": "WholeText"}, "synopsis": synopsis}
        settings = {
            "budget": {"calls": 10, "money": 2},
            "prices": {"small": {"input": 0.15, "output": 0.6}},
            "corpora": {"docs": corpus},
        }
        file.write_text(yaml.safe_dump(settings))

        aid = findingaid.open(file)

        strategy = aid.corpora["docs"].strategy
        assert isinstance(strategy, WithSynopsis)
        assert isinstance(strategy.inner, WholeText)
        assert (strategy.synthesizer, strategy.fallback) == (Extractive(1), Extractive())
        assert (strategy.kind, strategy.fields, strategy.context) == ("abstract", ("title",), True)
        assert (aid.budget, aid.prices) == (Budget(calls=10, money=2), {"small": Price(0.15, 0.6)})

    @pytest.mark.parametrize(
        ("synopsis", "message"),
        [
            ({"wen": "thin"}, r"corpora\.docs\.synopsis\.wen: unknown key"),
            ({"when": "thn"}, r"corpora\.docs\.synopsis\.when: unknown gate 'thn'\. Known: always, thin"),
            ({"when": "no.such:gate"}, r"corpora\.docs\.synopsis\.when: 'no\.such:gate' cannot be imported"),
            ({"synthesizer": {"kind": "x"}}, r"corpora\.docs\.synopsis\.synthesizer\.kind: unknown synthesizer 'x'"),
            ({"fallback": {"kind": "extractive", "n": 1}}, r"corpora\.docs\.synopsis\.fallback\.n: unknown key"),
        ],
    )
    def test_mistakes_name_their_key(self, tmp_path: Path, synopsis: dict[str, Any], message: str) -> None:
        file = tmp_path / "findingaid.yaml"
        corpus = {"source": {"kind": "files", "root": "."}, "synopsis": synopsis}
        file.write_text(yaml.safe_dump({"corpora": {"docs": corpus}}))

        with pytest.raises(ConfigError, match=message):
            findingaid.open(file)

    @pytest.mark.usefixtures("indexed")
    def test_another_kind_of_surface_replaces_the_records_of_the_first(self, make_aid: Make) -> None:
        aid = make_aid(synopsis={"synopsis_kind": "abstract"})
        aid.index()

        assert {row["surface_kind"] for row in published(aid)} == {"abstract", "chunk"}
        assert aid.verify() == []


@pytest.mark.parametrize("returned", [None, {"text": "A ferry."}, 3, ["A ferry."]])
def test_a_function_that_returns_no_text_has_not_said_that_there_is_nothing_to_say(
    make_aid: Make, returned: Any
) -> None:
    asked: list[str] = []

    def returns(text: str, metadata: Mapping[str, Any]) -> Any:
        asked.append(text)
        return returned if len(asked) == 1 else "A ferry."

    source = MemorySource({"a.md": "The ferry leaves at nine."})
    aid = make_aid(source=source, synthesizer=Custom(returns, name="returns"))

    first = docs(aid.index())
    again = docs(aid.index())

    (failure,) = first.failed
    assert (failure.stage, failure.kind) == ("synopses", "parse")
    assert f"returned {type(returned).__name__}, not a text" in failure.message
    assert (again.failed, len(asked)) == ([], 2)
