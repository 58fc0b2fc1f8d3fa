"""Runs over named artifacts and stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from findingaid import FindingAid, NotFoundError, QueryError
from findingaid.claims.extraction import CustomClaims
from findingaid.corpus import Claiming
from findingaid.embedding.hashing import HashEmbedder
from findingaid.protocols import Statement
from findingaid.store import Ledger
from findingaid.testing import CountingEmbedder, MemorySource, ScriptedSynthesizer
from tests.conftest import Cli, text_about

Make = Callable[..., FindingAid]


def updated(aid: FindingAid) -> dict[str, Any]:
    return {artifact_id: row.updated for artifact_id, row in Ledger(aid.store).rows("docs").items()}


@pytest.mark.usefixtures("indexed")
def test_named_artifacts_alone_are_built_and_paid_again(
    aid: FindingAid, source: MemorySource, synthesizer: ScriptedSynthesizer
) -> None:
    before = updated(aid)
    named = sorted(source.payloads)[:2]

    report = aid.index(artifacts=named, force=True, pay_again=True).corpora["docs"]

    assert (report.artifacts, report.calls.synthesize, len(synthesizer.seen)) == (2, 2, 2)
    assert {i for i, at in updated(aid).items() if at != before[i]} == set(named)


@pytest.mark.usefixtures("indexed")
def test_named_artifacts_are_brought_up_to_date_or_removed_and_others_wait(
    aid: FindingAid, source: MemorySource
) -> None:
    source.payloads["ledger.md"] = text_about("harbours")
    source.payloads["new.md"] = text_about("ships")
    del source.payloads["vector.md"]

    first = aid.index(artifacts=["ledger.md", "vector.md"]).corpora["docs"]

    assert (first.changed, first.new, first.deleted) == (1, 0, 1)
    assert updated(aid).keys() == {"ledger.md", "reader.md"}
    rest = aid.index().corpora["docs"]
    assert (rest.changed, rest.new) == (0, 1)


def test_one_stage_alone_is_paid_again_and_what_follows_changes_with_it(
    make_aid: Make, embedder: CountingEmbedder, synthesizer: ScriptedSynthesizer
) -> None:
    read: list[str] = []

    def extract(text: str, metadata: Any) -> list[Statement]:
        read.append(text)
        return [Statement(text[:40], text[:40])]

    aid = make_aid(claims=Claiming(CustomClaims(extract, "mine-1")))
    aid.index()
    read.clear()
    embedder.seen.clear()
    synthesizer.script = {"ledger": "It has a new synopsis."}

    report = aid.index(stages=["synopses"], force=True, pay_again=True).corpora["docs"]

    assert (report.calls.synthesize, report.calls.extract, read) == (3, 0, [])
    assert embedder.seen == ["It has a new synopsis."]
    assert aid.search("new synopsis", k=1)[0].text == "It has a new synopsis."


@pytest.mark.usefixtures("indexed")
def test_a_run_over_named_artifacts_with_another_embedder_takes_nothing_from_readers(make_aid: Make) -> None:
    other = make_aid(embedder=CountingEmbedder(HashEmbedder(dim=64), "other"))

    report = other.index(artifacts=["ledger.md"])

    assert report.unpublished
    assert len(make_aid().search("ledger", k=20, per_artifact=True)) == 3


@pytest.mark.usefixtures("indexed")
def test_what_fails_under_another_embedder_keeps_no_others_from_readers(make_aid: Make, source: MemorySource) -> None:
    source.broken.add("ledger.md")
    other = make_aid(embedder=CountingEmbedder(name="other"))

    assert other.index(artifacts=["reader.md", "vector.md"]).unpublished
    report = other.index(artifacts=["ledger.md"])

    assert [failure.artifact_id for failure in report.corpora["docs"].failed] == ["ledger.md"]
    assert report.unpublished is None
    assert {hit.artifact_id for hit in other.search("ledger", 50)} == {"reader.md", "vector.md"}


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"artifacts": ["ledger.md", "no.md"]}, NotFoundError, "artifact 'no.md': in none of the sources of docs"),
        ({"stages": ["synopses"]}, QueryError, "stages: named to be redone: add --force"),
        (
            {"stages": ["synopsis"], "force": True},
            QueryError,
            "stage 'synopsis': docs has artifacts, ",
        ),
        ({"stages": ["claims"], "force": True}, QueryError, "stage 'claims': docs has artifacts, surfaces, synopses"),
    ],
)
def test_what_cannot_be_selected_is_one_line_and_nothing_is_built(
    aid: FindingAid, how: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as raised:
        aid.index(**how)

    assert str(raised.value).startswith(message)
    assert not (aid.store.exists() and updated(aid))


def test_the_command_line_names_artifacts_and_stages(cli: Cli) -> None:
    cli.write("a.md", text_about("ledger"))
    cli.write("b.md", text_about("harbour"))
    cli.settings["corpora"]["docs"]["synopsis"] = True
    cli.json("index")

    report = cli.json("index", "--artifact", "a.md", "--force", "--stage", "synopses")
    refused = cli.run("index", "--artifact", "c.md")

    assert report["corpora"]["docs"]["artifacts"] == 1
    assert refused.exit_code == 1
    assert refused.stderr.startswith("Error: artifact 'c.md': in none of the sources of docs\n")
