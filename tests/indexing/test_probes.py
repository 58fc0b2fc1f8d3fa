"""Costs of single changes, measured through the command line by probes that comparable programs fail.

Costs are texts sent to the embedder and synopses written. Each probe is one edit between two runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import findingaid
from findingaid.errors import DecomposeError
from findingaid.strategies.base import text_of
from findingaid.strategies.package import Package
from findingaid.strategies.whole_text import WholeText
from tests.conftest import PARAGRAPH, Cli, ReadyMade, text_about
from tests.paths import ROOT

TOPICS = ("ledger", "vector", "reader", "writer", "lease")
STRATEGY = {"name": "Chunked", "chunk_size": 140, "overlap": 0}


@pytest.fixture
def probe(cli: Cli, ready_made: ReadyMade) -> Cli:
    """Three files, one of five chunks, indexed with synopses."""
    cli.settings["corpora"]["docs"] |= {"strategy": dict(STRATEGY), "synopsis": True}
    cli.write("long.md", text_about(*TOPICS))
    cli.write("short.md", text_about("query"))
    cli.write("sub/other.md", text_about("commit", "crash"))
    cli.configure()
    ready_made("three files", lambda: cli.run("index"))
    return cli


def run(cli: Cli, command: str = "index") -> dict[str, Any]:
    result = cli.run(command, "--json")
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(result.stdout)["corpora"]["docs"]
    return report


def cost(report: Mapping[str, Any]) -> tuple[int, int]:
    return report["calls"]["embed"], report["calls"]["synthesize"]


def surfaces(cli: Cli, artifact_id: str) -> dict[str, list[str]]:
    """The texts of an artifact by kind."""
    found: dict[str, list[str]] = {}
    for record in cli.json("show", artifact_id)["records"]:
        found.setdefault(record["surface_kind"], []).append(record["text"])
    return found


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace("# reader", "# readers"),
        lambda text: text_about("said first") + "\n\n" + text,
    ],
    ids=["within", "before all"],
)
def test_an_edit_of_one_chunk_embeds_that_chunk_and_asks_for_one_synopsis(
    probe: Cli, edit: Callable[[str], str]
) -> None:
    before = surfaces(probe, "long.md")
    probe.write("long.md", edit(text_about(*TOPICS)))

    planned, report = run(probe, "plan"), run(probe)

    after = surfaces(probe, "long.md")
    assert len(set(after["chunk"]) - set(before["chunk"])) == 1
    assert cost(report) == (1 + (after["synopsis"] != before["synopsis"]), 1)
    assert (report["changed"], report["unchanged"]) == (1, 2)
    assert planned["calls"]["synthesize"] == 1


def test_a_chunk_that_is_deleted_costs_a_synopsis_only(probe: Cli) -> None:
    probe.write("long.md", text_about(*TOPICS[:-1]))

    embedded, written = cost(run(probe))

    assert len(surfaces(probe, "long.md")["chunk"]) == len(TOPICS) - 1
    assert (embedded, written) in {(0, 1), (1, 1)}  # the synopsis may have changed


def test_renames_moves_copies_and_touches_cost_nothing(probe: Cli) -> None:
    probe.docs.joinpath("short.md").rename(probe.docs / "renamed.md")
    probe.docs.joinpath("sub").rename(probe.docs / "moved")
    probe.write("copy.md", text_about(*TOPICS))
    probe.docs.joinpath("long.md").touch()

    report = run(probe)

    assert (report["new"], report["deleted"]) == (3, 2)
    assert cost(report) == (0, 0)
    assert surfaces(probe, "copy.md") == surfaces(probe, "long.md")


def test_a_revert_costs_nothing_and_gives_what_was_there(probe: Cli) -> None:
    before = probe.json("show", "long.md")
    probe.write("long.md", "Something else entirely.")
    run(probe)
    probe.write("long.md", text_about(*TOPICS))

    report = run(probe)

    assert (report["changed"], *cost(report)) == (1, 0, 0)
    assert probe.json("show", "long.md") == before


def test_what_comes_back_after_it_was_deleted_costs_nothing(probe: Cli) -> None:
    probe.docs.joinpath("short.md").unlink()
    run(probe)
    probe.write("short.md", text_about("query"))

    report = run(probe)

    assert (report["new"], *cost(report)) == (1, 0, 0)


def test_texts_that_come_out_the_same_when_all_is_cut_again_cost_nothing(probe: Cli) -> None:
    probe.settings["corpora"]["docs"]["strategy"] |= {"overlap": 1, "kind": "part"}

    report = run(probe)

    assert (report["changed"], *cost(report)) == (3, 0, 0)
    assert set(surfaces(probe, "long.md")) == {"synopsis", "part"}


def test_another_chunk_size_embeds_new_texts_and_costs_nothing_when_it_is_set_back(probe: Cli) -> None:
    before = surfaces(probe, "long.md")
    probe.settings["corpora"]["docs"]["strategy"] = {**STRATEGY, "chunk_size": 400}
    larger = run(probe)
    texts = set(surfaces(probe, "long.md")["chunk"]) | set(surfaces(probe, "sub/other.md")["chunk"])
    probe.settings["corpora"]["docs"]["strategy"] = dict(STRATEGY)

    set_back = run(probe)

    assert cost(larger) == (len(texts - set(before["chunk"])), 0)
    assert (set_back["changed"], *cost(set_back)) == (3, 0, 0)
    assert surfaces(probe, "long.md") == before


def test_a_preview_costs_nothing_and_foresees_what_the_run_does(probe: Cli) -> None:
    probe.write("long.md", text_about(*TOPICS, "batch"))
    probe.write("new.md", text_about("stage"))
    files = {path: path.stat().st_mtime_ns for path in (probe.folder / "index").rglob("*")}

    first, second = run(probe, "plan"), run(probe, "plan")

    assert {path: path.stat().st_mtime_ns for path in (probe.folder / "index").rglob("*")} == files
    assert first["calls"] == second["calls"]
    report = run(probe)
    assert {key: first[key] for key in ("new", "changed", "records")} == {
        key: report[key] for key in ("new", "changed", "records")
    }
    assert first["calls"]["synthesize"] == report["calls"]["synthesize"] == 2


def test_another_embedder_embeds_everything_once_and_none_are_mixed(probe: Cli) -> None:
    texts = {
        text for name in ("long.md", "short.md", "sub/other.md") for t in surfaces(probe, name).values() for text in t
    }
    probe.settings["embedder"] = {"kind": "hash", "dim": 16}

    report = run(probe)

    assert cost(report) == (len(texts), 0)
    aid = findingaid.open(probe.config)
    assert set(aid.store.published().to_table(columns=["embedder_id"])["embedder_id"].to_pylist()) == {"hash-16"}
    assert aid.verify() == []
    probe.settings["embedder"] = {"kind": "hash"}
    assert cost(run(probe)) == (0, 0)


def test_a_poisoned_document_fails_alone_by_name_and_is_tried_again(probe: Cli) -> None:
    probe.write("bad.md", b"\x00\x01 binary")
    probe.write("good.md", text_about("batch"))

    first, second = probe.run("index"), probe.run("index")
    (failed,) = probe.json("status")[0]["failed"]
    probe.write("bad.md", text_about("stage"))

    assert first.exit_code == second.exit_code == 1
    assert "docs: bad.md: binary, not text" in first.stderr
    assert "in 2 runs in a row" in second.stderr
    assert (failed["artifact_id"], failed["runs"]) == ("bad.md", 2)
    assert surfaces(probe, "good.md")
    assert run(probe)["failed"] == []
    assert surfaces(probe, "bad.md")
    assert probe.json("status")[0]["failed"] == []


CUTTER = """
from dataclasses import dataclass
from findingaid import Surface, SurfacePlan

SIZE = {size}  # {comment}

def pieces(text):
    return [text[i:i + SIZE] for i in range(0, len(text), SIZE)]

@dataclass(frozen=True)
class Pieces:
    def decompose(self, artifact_id, raw, metadata):
        return SurfacePlan(metadata, [Surface("piece", piece) for piece in pieces(raw)])
"""


@pytest.mark.slow
def test_a_chunk_size_in_a_helper_that_the_strategy_calls_cuts_again(cli: Cli, tmp_path: Path) -> None:
    cli.write("a.md", PARAGRAPH.format(topic="ledger") * 3)
    cli.settings["corpora"]["docs"]["strategy"] = {"name": "own_cutter:Pieces"}
    cli.configure()

    def of_an_own_process(size: int, comment: str) -> tuple[int, int]:
        """Of a process that keeps no bytecode: an edit within a second would run as it was before."""
        (tmp_path / "own_cutter.py").write_text(CUTTER.format(size=size, comment=comment))
        done = subprocess.run(
            [sys.executable, "-m", "findingaid", "index", "--json", "--config", str(cli.config)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
            | {"PYTHONDONTWRITEBYTECODE": "1"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        report = json.loads(done.stdout)["corpora"]["docs"]
        return report["changed"] + report["new"], report["calls"]["embed"]

    length = len(PARAGRAPH.format(topic="ledger"))
    assert of_an_own_process(length, "one sentence") == (1, 1)
    assert of_an_own_process(length, "said otherwise") == (0, 0)
    assert of_an_own_process(2 * length, "two sentences") == (1, 1)
    assert of_an_own_process(length, "one sentence") == (1, 0)


class TestStrategies:
    """Promises that are tested nowhere else."""

    @pytest.mark.parametrize("raw", ["text", {"text": "text"}, {"body": "text"}, {"title": "x", "content": "text"}])
    def test_there_is_one_way_from_a_payload_to_its_text(self, raw: Any) -> None:
        assert text_of(raw) == "text"
        assert [surface.text for surface in WholeText().decompose("a", raw, {}).surfaces] == ["text"]

    def test_a_text_key_wins_over_the_usual_fields_and_a_wrong_one_names_those_there_are(self) -> None:
        raw = {"text": "usual", "note": "wanted"}

        assert text_of(raw, "note") == "wanted"
        with pytest.raises(DecomposeError, match="no text field 'notes'; it has text, note: set text_key"):
            WholeText(text_key="notes").decompose("a", raw, {})

    def test_blank_text_gives_no_surface(self) -> None:
        assert WholeText().decompose("a", " \n", {}).surfaces == []

    @pytest.mark.parametrize(
        ("fields", "kinds"),
        [
            ({"name": "numpy"}, ["description"]),
            ({"description": "arrays"}, ["description"]),
            ({"readme": "Words."}, ["readme"]),
            ({"name": "numpy", "readme": "Words.", "deps": ["x"]}, ["description", "readme"]),
            ({}, []),
        ],
    )
    def test_a_package_has_a_description_first_where_there_is_one_and_its_dependencies_only_when_asked(
        self, fields: dict[str, Any], kinds: list[str]
    ) -> None:
        plan = Package().decompose("a", fields, {})

        assert [surface.kind for surface in plan.surfaces] == kinds
        assert plan.filter_fields["has_readme"] == ("readme" in fields)

    def test_chunks_stand_by_their_place_among_all_surfaces_and_count_within_their_kind(self, probe: Cli) -> None:
        records = probe.json("show", "long.md")["records"]

        assert [record["surface_index"] for record in records] == list(range(len(TOPICS) + 1))
        assert records[0]["surface_kind"] == "synopsis"
        assert [record["metadata"]["chunk_index"] for record in records[1:]] == list(range(len(TOPICS)))
