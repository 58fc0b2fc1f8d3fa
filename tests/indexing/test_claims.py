"""Claims in the pipeline: their content, their costs, and their life cycle."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import findingaid
from findingaid import Corpus, FindingAid
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.claims.model import NOTHING_DECIDED, Claim, Decided, Evidence, Proposal, claim_id
from findingaid.corpus import Claiming
from findingaid.errors import SynthesisError
from findingaid.indexing.budget import Budget
from findingaid.indexing.calls import GROUP
from findingaid.indexing.claims import load_claims
from findingaid.indexing.run import Run
from findingaid.protocols import Bullet, Draft, Extraction, Member, Statement
from findingaid.reports import CorpusReport, Report
from findingaid.store import Ledger, Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import CountingEmbedder, MemorySource, OpenAIServer, Request, ScriptedSynthesizer
from tests.claims.test_extraction import echo
from tests.claims.test_nodes import GOOD
from tests.conftest import Cli, ReadyMade, openai, text_about
from tests.support.programs import COMMAND, Program, run_program

Make = Callable[..., FindingAid]

LEDGER = "The ledger is described here in a sentence that is long enough to stand for itself."


@dataclass
class Extractor:
    """Extractor of lines that end in a full stop, or of the scripted statements for a text with a key of the script."""

    id: str = "scripted-claims-1"
    script: Mapping[str, Sequence[Statement] | BaseException] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        self.seen.append(text)
        for key, found in self.script.items():
            if key in text:
                if isinstance(found, BaseException):
                    raise found
                return Extraction(list(found))
        lines = [line.strip() for line in text.splitlines()]
        return Extraction([Statement(line, line) for line in lines if line.endswith(".")])


@dataclass
class Producer:
    """Sums up by the first three claims; fails on claims that contain `poison`."""

    id: str = "scripted-nodes-1"
    poison: str = ""
    cites: str = ""
    confidence: float = 0.9
    points: int = 0
    seen: list[list[str]] = field(default_factory=list)

    def summarize(self, members: Sequence[Member]) -> Draft | None:
        self.seen.append([member.text for member in members])
        if self.poison and any(self.poison in member.text for member in members):
            raise SynthesisError("is down", "timeout")
        bullets = [Bullet(f"Mainly: {member.text}", (self.cites or member.claim_id,)) for member in members[:3]]
        if self.points:
            bullets = bullets[:1] * self.points
        return Draft(tuple(bullets), ("mainly",), self.confidence)


def of(extractor: Any = None, **how: Any) -> Claiming:
    return Claiming(extractor or ExtractiveClaims(), **how)


def docs(report: Report) -> CorpusReport:
    return report.corpora["docs"]


def claims(aid: FindingAid, artifact_id: str = "ledger.md") -> list[Claim]:
    return load_claims(aid.store, "docs", [artifact_id])


def record_ids(aid: FindingAid, *kinds: str) -> set[str]:
    rows = aid.store.rows("records", ["record_id", "surface_kind"]).to_pylist()
    return {row["record_id"] for row in rows if not kinds or row["surface_kind"] in kinds}


@pytest.fixture
def with_claims(make_aid: Make, ready_made: ReadyMade) -> None:
    """An index with claims of the extractor that ships."""
    ready_made("with claims", lambda: _index(make_aid, of()))


@pytest.fixture
def with_claims_of_extractor(make_aid: Make, ready_made: ReadyMade) -> None:
    ready_made("with claims of an extractor", lambda: _index(make_aid, of(Extractor())))


@pytest.fixture
def with_nodes(make_aid: Make, ready_made: ReadyMade) -> None:
    ready_made("with summary nodes", lambda: _index(make_aid, of(Extractor(), nodes=Producer(), at_least=2)))


def _index(make_aid: Make, claims: Claiming) -> None:
    aid = make_aid(claims=claims, embedder=CountingEmbedder(), synthesizer=ScriptedSynthesizer())
    assert aid.index().ok


def test_an_artifact_states_its_own_sentences_with_where_they_stand(make_aid: Make, source: MemorySource) -> None:
    aid = make_aid(claims=of())

    plan, report = docs(aid.plan()), docs(aid.index())

    assert (report.calls.extract, report.records) == (3, 15)
    assert (plan.calls, plan.records) == (report.calls, report.records)
    first = claims(aid)[0]
    assert (first.text, first.evidence, first.verbatim) == (LEDGER, Evidence.VERIFIED, True)
    assert first.span is not None
    assert str(source.payloads["ledger.md"])[slice(*first.span)] == first.quote == LEDGER
    assert aid.verify() == []
    assert all(result.passed for result in aid.check())


@pytest.mark.usefixtures("with_claims")
def test_ids_come_from_the_words_of_a_claim_and_not_from_its_place(make_aid: Make, source: MemorySource) -> None:
    before = {claim.claim_id: claim.record_id for claim in claims(make_aid())}
    source.payloads["ledger.md"] = (
        f"A sentence that now stands before all of the others.\n\n{source.payloads['ledger.md']}"
    )
    source.payloads["other.md"] = LEDGER.upper()
    aid = make_aid(claims=of())

    aid.index()

    now = {claim.claim_id: claim.record_id for claim in claims(aid)}
    assert before.items() < now.items()
    assert claim_id("docs", LEDGER) == claims(aid, "other.md")[0].claim_id
    assert claims(aid, "other.md")[0].record_id != before[claim_id("docs", LEDGER)]


@pytest.mark.usefixtures("indexed")
def test_claims_that_are_switched_on_move_and_cost_nothing_else(make_aid: Make) -> None:
    plain = make_aid()
    before = {(row["record_id"], row["surface_index"]) for row in _rows(plain)}
    embedder, synthesizer = CountingEmbedder(), ScriptedSynthesizer()
    aid = make_aid(claims=of(), embedder=embedder, synthesizer=synthesizer)

    aid.index()

    texts = {claim.text for name in ("ledger.md", "reader.md", "vector.md") for claim in claims(aid, name)}
    now = {(row["record_id"], row["surface_index"]) for row in _rows(aid)}
    assert before < now
    assert sorted(embedder.seen) == sorted(texts)
    assert synthesizer.seen == []


@pytest.mark.usefixtures("with_claims")
def test_claims_that_are_switched_off_are_gone_and_the_rest_stays(make_aid: Make, embedder: CountingEmbedder) -> None:
    before = record_ids(make_aid(), "synopsis", "chunk")
    aid = make_aid()

    aid.index()

    assert record_ids(aid) == before
    assert (embedder.seen, aid.store.count("claims"), aid.status()[0].claims) == ([], 0, 0)
    assert aid.verify() == []


def _rows(aid: FindingAid) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = aid.store.rows("records", ["record_id", "surface_index"]).to_pylist()
    return found


@pytest.mark.usefixtures("with_claims_of_extractor")
def test_a_new_extractor_is_asked_once_for_each_text_and_nobody_else_is(make_aid: Make, source: MemorySource) -> None:
    source.payloads["twin.md"] = source.payloads["ledger.md"]
    new, embedder, synthesizer = Extractor("second"), CountingEmbedder(), ScriptedSynthesizer()
    aid = make_aid(claims=of(new), embedder=embedder, synthesizer=synthesizer)

    report = docs(aid.index())

    assert len(new.seen) == len(set(new.seen)) == report.calls.extract == 3
    assert (embedder.seen, synthesizer.seen) == ([], [])
    assert {claim.producer_id for claim in claims(aid, "twin.md")} == {"second"}


@pytest.mark.usefixtures("with_claims_of_extractor")
def test_an_edited_artifact_alone_is_read_for_claims_again(make_aid: Make, source: MemorySource) -> None:
    before = {claim.claim_id for claim in claims(make_aid())}
    source.payloads["ledger.md"] = text_about("ledger", "another thing")
    extractor = Extractor()
    aid = make_aid(claims=of(extractor))

    aid.index()

    assert extractor.seen == [source.payloads["ledger.md"]]
    assert before - {claim.claim_id for claim in claims(aid)} == {
        claim_id("docs", LEDGER.replace("ledger", "ledger again"))
    }


def test_a_plan_foresees_the_calls_of_who_is_paid_without_asking(make_aid: Make) -> None:
    extractor = Extractor()
    aid = make_aid(claims=of(extractor))

    plan = docs(aid.plan())

    assert (plan.calls.extract, plan.usage.calls, extractor.seen) == (3, 6, [])


@pytest.mark.usefixtures("with_claims")
def test_claims_stand_behind_the_other_records_and_are_found_when_named(make_aid: Make) -> None:
    aid = make_aid(claims=of())

    plain = aid.search("ledger sentence", k=50)
    named = aid.search("ledger sentence", k=50, surfaces=["claim"])

    assert {hit.surface_kind for hit in plain} == {"synopsis", "chunk"}
    assert {hit.surface_kind for hit in named} == {"claim"}
    assert named[0].metadata["evidence"] == "verified"
    assert {hit.surface_kind for hit in aid.search("ledger", k=50, route="boost")} == {"synopsis", "chunk"}
    assert [r.surface_kind for r in aid.show("ledger.md").records] == ["synopsis", "chunk", "chunk", "claim", "claim"]
    whole = aid.search("ledger", k=1, expand="artifact")[0]
    assert whole.text.count(LEDGER) == 1
    assert {part.surface_kind for part in whole.parts} == {"synopsis", "chunk"}


def test_what_fails_is_recorded_and_tried_again_and_its_artifact_published(make_aid: Make) -> None:
    down = Extractor(script={"ledger": SynthesisError("is down", "timeout")})
    first = docs(make_aid(claims=of(down)).index())
    without = claims(make_aid())
    status = make_aid().status()[0]
    checks = {result.check.name: result for result in make_aid(claims=of(down)).check()}
    up = Extractor()
    aid = make_aid(claims=of(up))

    second = docs(aid.index())

    assert [str(failure) for failure in first.failed] == ["ledger.md: is down [claims: timeout]"]
    assert (without, status.extracted, status.synopses) == ([], {"failed": 1, "ok": 2}, {"ok": 3})
    assert checks["claims_extracted"].facts["failed"] == 1
    assert len([hit for hit in make_aid().search("ledger", k=50) if hit.artifact_id == "ledger.md"]) == 3
    assert (len(up.seen), len(second.failed), len(claims(aid))) == (1, 0, 2)
    assert aid.verify() == []


@pytest.mark.usefixtures("with_claims_of_extractor")
def test_claims_of_before_stand_in_while_their_quotes_are_there(make_aid: Make, source: MemorySource) -> None:
    source.payloads["ledger.md"] = f"Something new.\n\n{LEDGER}"
    aid = make_aid(claims=of(Extractor("second", {"ledger": SynthesisError("is down", "timeout")})))

    report = docs(aid.index())

    kept = claims(aid)
    assert [(claim.text, claim.producer_id, claim.span) for claim in kept] == [
        (LEDGER, Extractor.id, (16, 16 + len(LEDGER)))
    ]
    assert [failure.stage for failure in report.failed] == ["claims"]
    assert aid.verify() == []


def test_what_is_over_the_budget_waits_for_the_next_run(make_aid: Make) -> None:
    aid = make_aid(claims=of(Extractor()), synthesizer=None, budget=Budget(calls=2))

    report = docs(aid.index())

    assert (report.calls.extract, report.pending_claims) == (2, 1)
    assert report.left.startswith("1 artifacts' claims or summary nodes are left to the next run: the budget")
    assert aid.status()[0].extracted == {"ok": 2, "pending": 1}
    assert aid.verify() == []


@pytest.mark.usefixtures("with_claims")
def test_the_claims_of_an_artifact_that_is_gone_are_gone(make_aid: Make, source: MemorySource) -> None:
    del source.payloads["ledger.md"]
    aid = make_aid(claims=of())

    aid.index()

    assert claims(aid) == []
    assert {hit.artifact_id for hit in aid.search("sentence", k=50, surfaces=["claim"])} == {"reader.md", "vector.md"}
    assert aid.verify() == []


@pytest.mark.usefixtures("with_nodes")
def test_tables_that_are_lost_are_made_again_without_asking(make_aid: Make, tmp_path: Path) -> None:
    tables = ("claims", "summary_nodes")
    there = [make_aid().store.count(table) for table in tables]
    for table in tables:
        shutil.rmtree(tmp_path / "index" / f"{table}.lance")
    extractor, producer = Extractor(), Producer()
    aid = make_aid(claims=of(extractor, nodes=producer, at_least=2))

    report = aid.index()

    assert report.repaired == [f"table {table} was lost and was rebuilt" for table in tables]
    assert [aid.store.count(table) for table in tables] == there
    assert (extractor.seen, producer.seen) == ([], [])
    assert aid.verify() == []


@pytest.mark.usefixtures("with_nodes")
def test_forced_after_a_purge_nothing_that_was_paid_is_paid_again(make_aid: Make) -> None:
    extractor, producer, embedder = Extractor(), Producer(), CountingEmbedder()
    aid = make_aid(claims=of(extractor, nodes=producer, at_least=2), embedder=embedder)

    plan, purged = docs(aid.plan()), aid.purge()
    aid.index(force=True)

    assert plan.unchanged == 3
    assert (purged.calls, purged.vectors) == (0, 0)
    assert (extractor.seen, producer.seen, embedder.seen) == ([], [], [])
    assert aid.verify() == []


def test_summary_nodes_stand_on_all_claims_that_are_held(make_aid: Make) -> None:
    producer = Producer()
    aid = make_aid(claims=of(nodes=producer, at_least=2))

    report = docs(aid.index())

    members = [claim.claim_id for claim in claims(aid)]
    (hit,) = [h for h in aid.search("mainly", k=50, surfaces=["summary"]) if h.artifact_id == "ledger.md"]
    assert hit.text.startswith(f"Mainly: {LEDGER}")
    assert (hit.metadata["members"], hit.metadata["themes"]) == (members, ["mainly"])
    assert (report.calls.summarize, len(producer.seen), report.records) == (3, 3, 18)
    assert aid.show("ledger.md").records[-1].producer_id == producer.id
    assert aid.verify() == []


def test_an_artifact_with_too_few_claims_has_no_summary_node(make_aid: Make) -> None:
    producer = Producer()
    aid = make_aid(claims=of(nodes=producer, at_least=3))

    aid.index()

    assert (producer.seen, aid.status()[0].summary_nodes) == ([], 0)
    assert {row.summary_nodes_outcome for row in Ledger(aid.store).rows("docs").values()} == {"skipped"}
    assert docs(make_aid(claims=of(nodes=producer, at_least=3)).index()).unchanged == 3


def test_a_claim_of_a_wrong_or_low_confidence_is_refused_and_the_run_says_so(make_aid: Make) -> None:
    texts = {-0.1: "A ledger has rows.", 1.5: "A ledger has columns.", 0.4: "A ledger has readers."}
    statements = [*(Statement(text, confidence=n) for n, text in texts.items()), Statement(LEDGER, confidence=0.5)]
    source = MemorySource({"ledger.md": LEDGER})
    aid = make_aid(source=source, claims=of(Extractor(script={"ledger": statements}), near=None, min_confidence=0.5))

    report = docs(aid.index())

    why = dict.fromkeys(texts, "expected a number from 0 to 1") | {0.4: "below min_confidence 0.5"}
    assert [claim.text for claim in claims(aid)] == [LEDGER]
    assert report.refused == [f"ledger.md: {text!r} has the confidence {n}, {why[n]}" for n, text in texts.items()]
    assert report.failed == []


def test_a_summary_of_a_wrong_size_or_confidence_is_refused_for_every_producer_and_the_run_says_so(
    make_aid: Make,
) -> None:
    drafts = {
        "low": (Producer(confidence=0.6), "has the confidence 0.6, below min_confidence 0.7"),
        "none": (Producer(confidence=1.2), "has the confidence 1.2, expected a number from 0 to 1"),
        "few": (Producer(points=1), "has 1 points, expected 2 to 7"),
        "many": (Producer(points=8), "has 8 points, expected 2 to 7"),
        "good": (Producer(confidence=0.7), ""),
        "invented": (Producer(cites="invented"), ""),
    }

    class Each(Producer):
        def summarize(self, members: Sequence[Member]) -> Draft | None:
            (producer,) = (producer for name, (producer, _) in drafts.items() if f" {name} " in members[0].text)
            return producer.summarize(members)

    source = MemorySource({f"{name}.md": text_about(name, f"{name} again") for name in drafts})
    aid = make_aid(source=source, claims=of(nodes=Each(), at_least=2))

    report = docs(aid.index())

    assert sorted(report.refused) == sorted(f"{name}.md: its summary {why}" for name, (_, why) in drafts.items() if why)
    assert [(failure.artifact_id, failure.stage, failure.kind) for failure in report.failed] == [
        ("invented.md", "summary_nodes", "parse")
    ]
    assert {row["artifact_id"] for row in aid.store.rows("summary_nodes", ["artifact_id"]).to_pylist()} == {"good.md"}
    assert docs(aid.index()).unchanged == len(drafts)


@dataclass(frozen=True)
class Deciding(FindingAid):
    """A finding aid whose claims are built from these decisions."""

    said: Decided = NOTHING_DECIDED

    def open_run(self, name: str | None = None) -> Run:
        run = super().open_run(name)
        for corpus in self.corpora:
            vars(run.indexer(corpus))["decided"] = self.said
        return run


def deciding(aid: FindingAid, **decided: Any) -> FindingAid:
    """The same, where people decided this."""
    return Deciding(aid.store, aid.embedder, aid.corpora, said=Decided(**decided))


@pytest.mark.usefixtures("with_claims")
def test_what_people_propose_is_a_claim_of_its_artifact(make_aid: Make, source: MemorySource) -> None:
    said = Proposal(Statement("Ledgers outlive their readers."), "ada")
    quoting = Proposal(Statement("A ledger is described.", "The ledger is  described here"), "ada")
    forging = Proposal(Statement("A ledger is blue.", "The ledger is blue."), "bob")
    aid = deciding(make_aid(claims=of()), proposals={"ledger.md": [said, quoting, forging]})

    plan, report = docs(aid.plan()), docs(aid.index())

    assert (plan.changed, report.changed, report.unchanged) == (1, 1, 2)
    found = {claim.text: (claim.evidence.value, claim.producer_id, claim.quote) for claim in claims(aid)[-3:]}
    assert found == {
        "Ledgers outlive their readers.": ("none", "ada", ""),
        "A ledger is described.": ("verified", "ada", "The ledger is described here"),
        "A ledger is blue.": ("forged", "bob", "The ledger is blue."),
    }
    assert docs(make_aid(claims=of()).index()).changed == 1
    assert len(claims(aid)) == 2


def test_a_claim_that_people_decided_of_outlives_its_extractor_while_its_quote_is_there(make_aid: Make) -> None:
    worded = Statement("Ledgers are described.", LEDGER)
    kept = [Proposal(worded, "first", while_quoted=True)]
    aid = deciding(
        make_aid(claims=of(Extractor("second", {"described": []}))), proposals={"ledger.md": kept, "vector.md": kept}
    )

    aid.index()

    assert [(claim.text, claim.producer_id) for claim in claims(aid)] == [("Ledgers are described.", "first")]
    assert claims(aid, "vector.md") == []


CHILD = """
from findingaid.store import Store
from tests.indexing.test_claims import killed_aid
from tests.support.kills import Kill
Kill({die_at}, after=False).watch(Store, "replace", "replace_by_fragments")
killed_aid({store!r}, "edited").index()
"""


def killed_aid(store: str, edition: str) -> FindingAid:
    texts: dict[str, Any] = {f"{i}.md": text_about(f"{edition} {i}", "always the same") for i in range(3)}
    corpus = Corpus(
        "docs", MemorySource(texts), Chunked(chunk_size=200, overlap=0), claims=of(nodes=Producer(), at_least=2)
    )
    return FindingAid(Store(store), CountingEmbedder(), {"docs": corpus})


@pytest.mark.parametrize("die_at", [7, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 6))])
def test_a_run_killed_between_two_tables_is_healed_by_the_next(tmp_path: Path, die_at: int) -> None:
    """Whether the edit is still there then, or was reverted."""
    store = str(tmp_path / "index")
    killed_aid(store, "first").index()

    killed = run_program(CHILD.format(die_at=die_at, store=store))
    edition = "edited" if die_at % 2 else "first"
    aid = killed_aid(store, edition)
    report = aid.index()

    anew = killed_aid(str(tmp_path / "anew"), edition)
    anew.index()
    assert killed.returncode == -signal.SIGKILL
    assert report.ok
    assert aid.verify() == []
    for table in ("claims", "summary_nodes"):
        columns = [name for name in aid.store.dataset(table).schema.names if name != "position"]
        rows = [sorted(map(repr, each.store.rows(table, columns).to_pylist())) for each in (aid, anew)]
        assert rows[0] == rows[1]
    assert record_ids(aid) == record_ids(anew)


@pytest.mark.slow
@pytest.mark.parametrize("answered", [6, 18])
def test_claims_and_nodes_of_a_killed_run_are_paid_again_for_one_group_at_most(
    cli: Cli, server: OpenAIServer, answered: int
) -> None:
    """SIGKILL while a model is asked for the claims, then for the summary nodes, of 12 artifacts."""

    def write(request: Request) -> dict[str, Any]:
        asked = request.json["response_format"]["json_schema"]["schema"]["properties"]
        return GOOD if "bullets" in asked else echo(request)

    server.answer, server.delay = write, 0.1
    for number in range(12):
        facts = [f"Fact {word} of file {number} is kept by Lance." for word in ("one", "two", "three", "four", "five")]
        cli.write(f"{number:02d}.md", "\n\n".join(facts))
    cli.settings["corpora"]["docs"] |= {"claims": openai(server, concurrency=2), "summary_nodes": openai(server)}
    cli.configure()

    run = Program(COMMAND, "index", "--config", str(cli.config))
    while len(server.completions) < answered and run.running:
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    ended = run.ended()
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    paid = len(server.completions)
    report = cli.json("index")["corpora"]["docs"]

    assert report["failed"] == []
    assert 24 <= len(server.completions) <= 24 + min(paid, GROUP + 2)
    aid = findingaid.open(cli.config)
    assert aid.verify() == []
    assert len(aid.claims.list()) == 60
    assert {len(aid.summary_node(f"{number:02d}.md").members) for number in range(12)} == {5}


def test_a_configuration_switches_claims_on(cli: Cli) -> None:
    cli.write("a.md", text_about("ledger"))
    cli.settings["corpora"]["docs"]["claims"] = True

    run = cli.run("index")

    assert run.exit_code == 0, run.output
    (status,) = cli.json("status")
    assert (status["claims"], status["extracted"]) == (1, {"ok": 1})
    assert "docs: 1 claims, 0 summary nodes; artifacts: 1 ok" in cli.run("status").output


@pytest.mark.usefixtures("with_nodes")
def test_paying_again_asks_everybody_once_more(make_aid: Make) -> None:
    extractor, producer, embedder, synthesizer = Extractor(), Producer(), CountingEmbedder(), ScriptedSynthesizer()
    aid = make_aid(claims=of(extractor, nodes=producer, at_least=2), embedder=embedder, synthesizer=synthesizer)

    report = docs(aid.index(force=True, pay_again=True))

    assert (len(extractor.seen), len(producer.seen), len(synthesizer.seen)) == (3, 3, 3)
    assert len(embedder.seen) == len(set(embedder.seen)) == report.calls.embed == 18
    assert aid.verify() == []


def test_a_claim_that_cannot_be_embedded_fails_its_artifact_alone(make_aid: Make, source: MemorySource) -> None:
    source.payloads["bad.md"] = "A text with a poison-\nous sentence in it.\n\nAnd another sentence that is fine."
    aid = make_aid(claims=of(), embedder=CountingEmbedder(poison="poison- ous"))

    report = docs(aid.index())

    assert [(failure.artifact_id, failure.stage) for failure in report.failed] == [("bad.md", "embeddings")]
    assert {hit.artifact_id for hit in aid.search("sentence", k=50, surfaces=["claim"])} == {
        "ledger.md",
        "reader.md",
        "vector.md",
    }
