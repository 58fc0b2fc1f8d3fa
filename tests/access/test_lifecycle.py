"""Permissions have a life of their own: a change rewrites them and nothing else, and what is unknown is for nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from findingaid import FindingAid, SurfacePlan
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.claims.nodes import ExtractiveNodes
from findingaid.corpus import Claiming
from findingaid.errors import DecomposeError
from findingaid.indexing.options import BuildOptions
from findingaid.indexing.run import CHANGED
from findingaid.model import Discovery, Stage
from findingaid.sources.access import AccessRule, AccessRules
from findingaid.strategies.chunked import Chunked
from findingaid.testing import CountingEmbedder, MemorySource, ScriptedSynthesizer
from tests.support.serving import Refers

READERS = ("artifacts", "records", "edges", "claims", "summary_nodes")
"""Tables with a column of readers."""


def rules(**readers: str) -> AccessRules:
    """Return rules by which each of these documents has these readers."""
    return AccessRules([AccessRule(f"/{name}.md", said.split()) for name, said in readers.items()])


OPEN = rules(ledger="public", vector="public", reader="public")


ALL = ["ledger.md", "reader.md", "vector.md"]


@dataclass(frozen=True)
class Fussy:
    """Strategy that cannot cut what is marked as broken."""

    id = "fussy-1"

    def decompose(self, artifact_id: str, raw: Any, metadata: Any) -> SurfacePlan:
        if "broken" in metadata:
            raise DecomposeError("broken")
        return Chunked(chunk_size=200, overlap=0).decompose(artifact_id, raw, metadata)


@dataclass
class Partly(MemorySource):
    """Source in which nothing can be listed below a prefix."""

    hidden: str = ""

    def discover(self) -> Discovery:
        found = super().discover()
        if not self.hidden:
            return found
        return Discovery(
            [x for x in found.listings if not x.artifact_id.startswith(self.hidden)], unknown=[self.hidden]
        )


@dataclass(frozen=True)
class Blank:
    """Strategy that finds nothing to search in the ledger."""

    id = "blank-1"

    def decompose(self, artifact_id: str, raw: Any, metadata: Any) -> SurfacePlan:
        if artifact_id == "ledger.md":
            return SurfacePlan({}, [])
        return Chunked(chunk_size=200, overlap=0).decompose(artifact_id, raw, metadata)


def claiming() -> Claiming:
    return Claiming(ExtractiveClaims(), nodes=ExtractiveNodes(), at_least=1)


def said(aid: FindingAid, table: str) -> dict[str, set[str]]:
    """Return the readers of the rows of each artifact in a table."""
    found: dict[str, set[str]] = {}
    for row in aid.store.rows(table, ["artifact_id", "readers"]).to_pylist():
        found.setdefault(row["artifact_id"], set()).add(row["readers"])
    return found


def ids(aid: FindingAid) -> list[str]:
    return [artifact_id for (_, artifact_id), _ in aid.artifacts()]


def test_a_changed_rule_rewrites_the_readers_and_pays_for_nothing(
    make_aid: Any, embedder: CountingEmbedder, synthesizer: ScriptedSynthesizer
) -> None:
    make_aid(access=OPEN, claims=claiming()).index()
    paid = len(embedder.seen), len(synthesizer.seen)
    before = make_aid().store.rows("records", ["record_id", "artifact_version"]).to_pylist()

    aid = make_aid(access=rules(ledger="group:staff", vector="public", reader="public"), claims=claiming())
    report = aid.index().corpora["docs"]

    assert (len(embedder.seen), len(synthesizer.seen)) == paid
    assert (report.calls.embed, report.calls.synthesize, report.tokens) == (0, 0, 0)
    for table in READERS:
        found = said(aid, table)
        assert found.get("ledger.md", {"group:staff"}) == {"group:staff"}, table
        assert found.get("vector.md", {"public"}) == {"public"}, table
    assert {*said(aid, "records"), *said(aid, "claims"), *said(aid, "summary_nodes")} == set(ALL)
    after = aid.store.rows("records", ["record_id", "artifact_version"]).to_pylist()
    assert sorted(map(str, after)) == sorted(map(str, before))
    assert ids(aid.as_caller()) == ["reader.md", "vector.md"]
    assert ids(aid.as_caller(groups=["group:staff"])) == ALL


def test_only_artifacts_whose_readers_change_are_written(make_aid: Any) -> None:
    make_aid(access=OPEN).index()

    report = make_aid(access=rules(ledger="group:staff", vector="public", reader="public")).index().corpora["docs"]

    assert (report.new, report.changed, report.unchanged) == (0, 1, 2)


def test_an_index_without_rules_gets_them_and_loses_them(make_aid: Any) -> None:
    make_aid().index()
    aid = make_aid(access=rules(ledger="group:staff"))

    aid.index()
    assert ids(aid.as_caller()) == []
    assert ids(aid.as_caller(groups=["group:staff"])) == ["ledger.md"]

    aid = make_aid()
    aid.index()
    assert ids(aid.as_caller()) == ALL
    assert said(aid, "records") == {i: {"public"} for i in ALL}


def test_a_field_that_changes_changes_the_readers(make_aid: Any, source: MemorySource) -> None:
    access = AccessRules([AccessRule(field="for", prefix="user:")])
    source.metadata = {name: {"for": "ann"} for name in ALL}
    make_aid(access=access).index()

    source.metadata = {**source.metadata, "ledger.md": {"for": "bob"}}
    aid = make_aid(access=access)
    aid.index()

    assert ids(aid.as_caller("user:bob")) == ["ledger.md"]
    assert ids(aid.as_caller("user:ann")) == ["reader.md", "vector.md"]
    assert ids(aid.as_caller()) == []


def test_what_a_source_says_alone_is_a_change(make_aid: Any, source: MemorySource, embedder: CountingEmbedder) -> None:
    source.read_by = {name: ["user:ann"] for name in ALL}
    make_aid(access=AccessRules()).index()
    embedded = len(embedder.seen)

    source.read_by = {**source.read_by, "ledger.md": ["user:bob"]}
    aid = make_aid(access=AccessRules())
    aid.index()

    assert len(embedder.seen) == embedded
    assert ids(aid.as_caller("user:bob")) == ["ledger.md"]
    assert ids(aid.as_caller("user:ann")) == ["reader.md", "vector.md"]


def test_readers_of_a_source_that_nobody_asked_for_are_an_error(make_aid: Any, source: MemorySource) -> None:
    """Else what a source means to hide would be open to everybody."""
    source.read_by = {"ledger.md": ["user:ann"]}
    aid = make_aid()

    report = aid.index().corpora["docs"]

    assert [(each.artifact_id, each.kind) for each in report.failed] == [("ledger.md", "access")]
    assert "its corpus has no `access`" in report.failed[0].message
    assert ids(aid) == ["reader.md", "vector.md"]


def test_an_artifact_of_unknown_readers_is_named_and_read_by_nobody(make_aid: Any) -> None:
    aid = make_aid(access=rules(ledger="public", vector="public"))

    report = aid.index().corpora["docs"]

    assert [(note.kind, note.artifact_id) for note in report.noted] == [("access", "reader.md")]
    assert ids(aid) == ALL
    assert ids(aid.as_caller("user:ann", ["group:staff"])) == ["ledger.md", "vector.md"]
    readable = next(each for each in aid.check() if each.check.name == "readable")
    assert list(readable.problems) == ["1 artifacts can be read by nobody: reader.md"]
    assert readable.facts == {"principals": 1}
    assert not readable.check.blocking


def test_a_rule_that_matches_nothing_is_named(make_aid: Any) -> None:
    aid = make_aid(access=AccessRules([AccessRule("**", ["public"]), AccessRule("secret/", deny=["public"])]))

    report = aid.index().corpora["docs"]

    assert "access: rule 2 (secret/) matches no artifact" in report.waits


def test_what_cannot_be_read_under_new_rules_leaves_the_index(make_aid: Any, source: MemorySource) -> None:
    """Its records say who could read it by the old rules."""
    make_aid(access=OPEN, claims=claiming()).index()
    source.broken = {"ledger.md"}
    source.payloads["ledger.md"] += "More."

    aid = make_aid(access=OPEN, claims=claiming())
    aid.index()
    assert ids(aid.as_caller()) == ALL  # the last good version, by the same rules

    aid = make_aid(access=rules(ledger="group:staff", vector="public", reader="public"), claims=claiming())
    report = aid.index().corpora["docs"]

    assert [each.artifact_id for each in report.failed] == ["ledger.md"]
    assert ids(aid) == ["reader.md", "vector.md"]
    for table in READERS:
        assert "ledger.md" not in said(aid, table)
    assert [each.artifact_id for each in aid.status()[0].failed] == ["ledger.md"]
    assert aid.as_caller().status()[0].failed == []
    assert aid.verify() == []

    source.broken = set()
    aid.index()
    assert ids(aid.as_caller(groups=["group:staff"])) == ALL
    assert aid.verify() == []


def test_rules_that_change_during_a_run_leave_the_rest_to_the_next(make_aid: Any, source: MemorySource) -> None:
    """Each step of a job in Dagster may load the configuration anew."""
    make_aid(access=OPEN).index()
    source.payloads["vector.md"] += "More."
    plan = make_aid(access=OPEN).open_run().plan("docs")
    aid = make_aid(access=rules(ledger="group:staff", vector="public", reader="public"))
    run = aid.open_run()
    run.begin(plan)

    report = run.finish_corpus(plan, [run.indexer("docs").build(batch) for batch in plan.batches()])

    assert run.close(["docs"]).visible
    assert (report.deleted, report.waits) == (0, [CHANGED])
    assert ids(aid.as_caller()) == ALL
    assert not aid.index().corpora["docs"].waits
    assert ids(aid.as_caller()) == ["reader.md", "vector.md"]


def test_what_cannot_be_cut_with_new_readers_leaves_the_index(make_aid: Any, source: MemorySource) -> None:
    access = AccessRules([AccessRule(field="for", prefix="user:")])
    source.metadata = {name: {"for": "ann"} for name in ALL}
    make_aid(access=access, strategy=Fussy()).index()

    source.metadata = {**source.metadata, "ledger.md": {"for": "bob", "broken": "yes"}}
    aid = make_aid(access=access, strategy=Fussy())
    report = aid.index().corpora["docs"]

    assert [each.artifact_id for each in report.failed] == ["ledger.md"]
    assert ids(aid.as_caller("user:ann")) == ["reader.md", "vector.md"]
    assert ids(aid) == ["reader.md", "vector.md"]


def test_what_is_not_listed_under_new_rules_leaves_the_index(make_aid: Any, source: MemorySource) -> None:
    """As below a folder that cannot be listed, whose artifacts stay otherwise."""
    listing = Partly(source.payloads)
    make_aid(source=listing, access=OPEN).index()
    listing.hidden = "ledger"

    aid = make_aid(source=listing, access=OPEN)
    aid.index()
    assert ids(aid.as_caller()) == ALL

    aid = make_aid(source=listing, access=rules(ledger="group:staff", vector="public", reader="public"))
    report = aid.index().corpora["docs"]

    assert "1 artifacts left the index, such as 'ledger.md': who may read them by now is not known" in report.waits
    assert report.deleted == 1
    assert ids(aid) == ["reader.md", "vector.md"]
    assert aid.verify() == []

    listing.hidden = ""
    aid.index()
    assert ids(aid.as_caller(groups=["group:staff"])) == ALL


def test_what_is_half_written_under_new_rules_and_not_listed_any_more_leaves_the_index(
    make_aid: Any, source: MemorySource
) -> None:
    listing = Partly(source.payloads)
    make_aid(source=listing, access=OPEN).index()
    aid = make_aid(source=listing, access=rules(ledger="group:staff", vector="public", reader="public"))
    with aid.open_run() as run:
        run.prepare()
        run.indexer("docs").build(listing.discover().listings, BuildOptions(stages=(Stage.ARTIFACTS,)))
    listing.hidden = "ledger"

    aid.index()

    assert {*said(aid, "records"), *said(aid, "artifacts")} == {"reader.md", "vector.md"}


def test_what_has_edges_and_no_records_leaves_the_index_too(make_aid: Any, source: MemorySource) -> None:
    given: dict[str, Any] = {"strategy": Blank(), "synthesizer": None, "edges": Refers([("docs", "vector.md")])}
    make_aid(access=OPEN, **given).index()
    assert said(make_aid(), "edges")["ledger.md"] == {"public"}
    source.broken = {"ledger.md"}

    aid = make_aid(access=rules(ledger="group:staff", vector="public", reader="public"), **given)
    aid.index()

    assert "ledger.md" not in {**said(aid, "edges"), **said(aid, "artifacts")}
    referring = [each.artifact_id for each in aid.as_caller().neighbours("vector.md", reverse=True)]
    assert "ledger.md" not in referring


def test_stages_one_by_one_change_the_readers_too(make_aid: Any, embedder: CountingEmbedder) -> None:
    """As their assets in Dagster do."""
    make_aid(access=OPEN, claims=claiming()).index()
    embedded = len(embedder.seen)
    aid = make_aid(access=rules(ledger="group:staff", vector="public", reader="public"), claims=claiming())

    for stage in aid.corpora["docs"].stages:
        with aid.open_run() as run:
            run.prepare()
            indexer = run.indexer("docs")
            listings = aid.corpora["docs"].source.discover().listings
            report = indexer.build(listings, BuildOptions(stages=(stage,)))
            assert report.failed == [], stage
            run.close(["docs"])

    assert len(embedder.seen) == embedded
    assert ids(aid.as_caller()) == ["reader.md", "vector.md"]
    for table in READERS:
        assert said(aid, table).get("ledger.md", {"group:staff"}) == {"group:staff"}, table
    assert aid.plan().corpora["docs"].unchanged == len(ALL)


def test_verify_names_readers_that_are_not_those_of_the_ledger(make_aid: Any) -> None:
    aid = make_aid(access=OPEN)
    aid.index()
    aid.store.dataset("artifacts").update({"readers": "'user:bob'"}, "artifact_id = 'ledger.md'")

    assert (
        "table artifacts have other readers than the ledger states: docs/ledger.md: run `findingaid index --force`"
        in ("".join(aid.verify()))
    )
    aid.index(force=True)
    assert aid.verify() == []


@pytest.mark.parametrize("stage", [Stage.SURFACES, Stage.RECORDS])
def test_a_stage_after_the_artifacts_does_not_make_them_current_under_new_rules(make_aid: Any, stage: Stage) -> None:
    """Else the next run would take them for undecided, and remove them all."""
    make_aid(access=OPEN).index()
    aid = make_aid(access=rules(ledger="group:staff", vector="public", reader="public"))
    with aid.open_run() as run:
        run.prepare()
        run.indexer("docs").build(aid.corpora["docs"].source.discover().listings, BuildOptions(stages=(stage,)))

    report = aid.index().corpora["docs"]

    assert report.deleted == 0
    assert ids(aid.as_caller()) == ["reader.md", "vector.md"]
    assert ids(aid.as_caller(groups=["group:staff"])) == ALL
    assert aid.plan().corpora["docs"].unchanged == len(ALL)


def test_readers_of_what_could_not_be_cut_in_a_run_that_was_killed_are_written_later(
    make_aid: Any, source: MemorySource
) -> None:
    """Its end would have taken the artifact out of the index."""
    source.read_by = {name: ["user:ann"] for name in ALL}
    make_aid(access=AccessRules(), strategy=Fussy()).index()
    source.read_by = {**source.read_by, "ledger.md": ["user:bob"]}
    source.metadata = {"ledger.md": {"broken": "yes"}}
    aid = make_aid(access=AccessRules(), strategy=Fussy())
    with aid.open_run() as run:
        run.prepare()
        assert run.indexer("docs").build(aid.corpora["docs"].source.discover().listings).failed
    source.metadata = {}

    aid.index()

    for table in ("artifacts", "records"):
        assert said(aid, table)["ledger.md"] == {"user:bob"}, table
