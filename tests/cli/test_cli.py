"""Command line: JSON contract, exit status, help, and the README that shows it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from findingaid import __version__
from findingaid.cli import main
from findingaid.explain import explanations
from tests.conftest import Cli, ReadyMade, error_of, text_about
from tests.paths import ROOT
from tests.support.commands import subcommands

README = ROOT / "README.md"


@pytest.fixture
def indexed(cli: Cli, ready_made: ReadyMade) -> Cli:
    for topic in ("ledger", "vector", "reader"):
        cli.write(f"{topic}.md", text_about(topic))
    cli.settings["corpora"]["docs"]["synopsis"] = True
    ready_made("command line", lambda: cli.run("index"))
    return cli


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that can be run, by all of its names."""
    for name, command in subcommands(group).items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield f"{before}{name}", command


COMMANDS = dict(commands(main))


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_an_example_json_and_a_place_in_the_docs(command: str) -> None:
    found = COMMANDS[command]

    assert found.help
    assert "Examples:" in found.help
    assert f"findingaid {command}" in found.help
    assert command.startswith(("serve ", "mcp ", "completion")) or "--json" in [
        name for option in found.params for name in option.opts
    ]
    assert all(option.help for option in found.params if isinstance(option, click.Option))
    assert any(f"findingaid {command}" in page.read_text() for page in [README, *README.parent.glob("docs/*.md")])


def test_the_help_lists_every_command_once_under_a_heading_in_whole_sentences_of_80_columns() -> None:
    shown = CliRunner().invoke(main, ["--help"], terminal_width=80).stdout

    headings = re.findall(r"^(\w+):$", shown, re.MULTILINE)
    listed = re.findall(r"^  ([a-z]+)  ", shown.partition("Start:")[2], re.MULTILINE)
    assert headings == ["Options", "Start", "Index", "Ask", "Review", "Operate", "Serve"]
    assert sorted(listed) == sorted(subcommands(main))
    assert "..." not in shown.partition("Start:")[2]
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("group", [n for n, command in subcommands(main).items() if isinstance(command, click.Group)])
def test_the_help_of_a_group_lists_its_commands_in_whole_sentences(group: str) -> None:
    assert "..." not in CliRunner().invoke(main, [group, "--help"], terminal_width=80).stdout.partition("Commands:")[2]


def test_a_query_needs_no_quotes(indexed: Cli) -> None:
    quoted = indexed.run("search", "versions of the ledger", "--json").stdout

    assert indexed.run("search", "versions", "of", "the", "ledger", "--json").stdout == quoted


def test_index_and_plan_keep_the_contract(cli: Cli) -> None:
    cli.write("a.md", text_about("ledger"))
    cli.write("bad.md", b"\x00binary")
    keys = {"artifacts", "new", "changed", "unchanged", "deleted", "failed", "records", "calls", "seconds"}

    for command in ("plan", "index"):
        result = cli.run(command, "--json")
        report = json.loads(result.stdout)["corpora"]["docs"]

        assert result.exit_code == 1
        assert keys <= report.keys()
        assert report["calls"].keys() == {"embed", "synthesize", "extract", "summarize"}
        (failed,) = report["failed"]
        assert failed.pop("runs") == 1
        assert failed.pop("retry_in") is None
        assert failed == {
            "artifact_id": "bad.md", "stage": "artifacts", "kind": "binary", "message": "binary, not text: exclude it",
        }  # fmt: skip


def test_search_keeps_the_contract(indexed: Cli) -> None:
    hits = indexed.json("search", "ledger", "-k", "2")

    assert len(hits) == 2
    for hit in hits:
        assert list(hit) == [
            "record_id", "artifact_id", "corpus", "surface_kind", "surface_index", "score", "text", "span", "metadata",
            "route", "depth", "seed", "ranks", "weight", "parts", "weak",
            "fresh", "fresh_note", "artifact_version", "place",
        ]  # fmt: skip


def test_search_takes_its_options(indexed: Cli) -> None:
    every = indexed.json("search", "ledger", "--also", "vector", "-k", "4")
    second = indexed.json("search", "ledger", "--also", "vector", "-k", "2", "--offset", "2", "--timeout", "60")
    lifted = indexed.json("search", "ledger", "--weight", "synopsis=9", "--rrf", "--explain")
    best = indexed.json("search", "ledger", "--per-artifact", "--blend", "1")
    why = indexed.run(
        "search", "ledger", "--explain", "-k", "1", "--weight", "synopsis=2", "--weight", "chunk=0.5"
    ).output

    assert [hit["record_id"] for hit in second] == [hit["record_id"] for hit in every[2:]]
    assert [hit["surface_kind"] for hit in lifted[:3]] == ["synopsis"] * 3
    assert {rank["ranker"] for hit in lifted for rank in hit["ranks"]} == {"dense", "lexical"}
    assert len({hit["artifact_id"] for hit in best}) == len(best) == 3
    assert re.search(r"#\d+ -?\d\.\d{3}: \d\.\d{3}", why)
    assert "weight" in why


def test_search_takes_its_filters(cli: Cli) -> None:
    """Modes, corpora, surfaces and SQL, alone and together, over several corpora at once."""
    for topic, day in (("ledger", "2020-01-01"), ("vector", "2026-11-01")):
        cli.write(f"{topic}.md", f"---\nday: {day}\n---\n{text_about(topic)}")
    (cli.folder / "notes").mkdir()
    (cli.folder / "notes" / "ledger.md").write_text(text_about("ledger notes"))
    cli.settings["corpora"]["docs"]["synopsis"] = True
    cli.settings["corpora"]["notes"] = {"source": {"kind": "files", "root": "notes"}}
    assert cli.run("index").exit_code == 0

    def found(*options: str) -> set[tuple[str, str, str]]:
        hits = cli.json("search", "ledger", "-k", "50", *options)
        return {(hit["corpus"], hit["artifact_id"], hit["surface_kind"]) for hit in hits}

    both = {("docs", "ledger.md", "chunk"), ("docs", "ledger.md", "synopsis"), ("notes", "ledger.md", "chunk")}
    assert found("--mode", "lexical") == both
    assert both < found("--mode", "dense") == found("--mode", "hybrid") == found()
    assert {corpus for corpus, *_ in found("-c", "notes")} == {"notes"}
    assert found("-c", "docs", "-c", "notes") == found()
    assert {kind for *_, kind in found("--surfaces", "synopsis")} == {"synopsis"}
    assert found("--where", "day < '2021-01-01'", "--surfaces", "chunk") == {("docs", "ledger.md", "chunk")}
    young = cli.json("search", "is described here", "-c", "docs", "--recency", "day=30", "--surfaces", "chunk")
    assert [hit["artifact_id"] for hit in young] == ["vector.md", "ledger.md"]
    assert young[1]["weight"] < young[0]["weight"] <= 1


def test_status_has_an_entry_a_corpus(indexed: Cli) -> None:
    (status,) = indexed.json("status")

    assert (status["corpus"], status["artifacts"], status["records"], status["pending"]) == ("docs", 3, 6, 0)
    assert status["synopses"] == {"ok": 3}


def test_a_rollback_is_named_by_runs_until_it_ends(indexed: Cli) -> None:
    indexed.settings["retain"] = 2
    indexed.write("added.md", text_about("added"))
    indexed.run("index")
    indexed.run("rollback")

    assert "rolled back to version" in indexed.run("index").stdout
    indexed.run("publish")
    assert "rolled back" not in indexed.run("index").stdout


def test_show_gives_an_artifact_in_plan_order_by_either_id(indexed: Cli) -> None:
    by_artifact = indexed.json("show", "ledger.md")
    by_record = indexed.json("show", by_artifact["records"][1]["record_id"])

    assert by_artifact == by_record
    assert [(r["surface_index"], r["surface_kind"]) for r in by_artifact["records"]] == [(0, "synopsis"), (1, "chunk")]
    assert by_artifact["records"][0]["producer_id"].startswith("extractive")


def test_verify_exits_with_1_and_names_the_problem(indexed: Cli) -> None:
    assert indexed.json("verify") == {"ok": True, "problems": [], "written_by": __version__}
    for path in (indexed.folder / "index" / "surfaces.lance" / "data").iterdir():
        path.unlink()

    result = indexed.run("verify", "--json")

    assert result.exit_code == 1
    assert '"ok": false' in result.stdout
    assert "surfaces" in result.stdout


def test_a_missing_root_names_the_key_and_leaves_the_others(indexed: Cli) -> None:
    indexed.settings["corpora"]["gone"] = {"source": {"kind": "files", "root": "nowhere"}}

    result = indexed.run("index")

    assert result.exit_code == 1
    assert "corpora.gone.source.root: no such directory" in result.stderr
    assert indexed.json("search", "ledger", "-k", "1")


def test_a_store_that_cannot_be_written_is_one_line(cli: Cli) -> None:
    (cli.folder / "index").write_text("a file in the way")

    for command in (["index"], ["search", "x"], ["verify"], ["status"]):
        line = error_of(cli.run(*command))

        assert line == f"store: {cli.folder / 'index'} is not a folder: name another, or move it away"


def test_before_the_first_run_every_command_says_what_to_do(cli: Cli) -> None:
    for command in (["search", "x"], ["show", "x"]):
        assert "run `findingaid index`" in error_of(cli.run(*command))
    verified = cli.run("verify")
    assert verified.exit_code == 1
    assert "run `findingaid index`" in verified.stdout
    assert not (cli.folder / "index").exists()


def test_an_unknown_corpus_lists_the_known(indexed: Cli) -> None:
    result = indexed.run("index", "--corpus", "dosc")

    assert result.exit_code == 1
    assert error_of(result) == "unknown corpus 'dosc'. Known: docs"


def test_set_overrides_one_setting_for_one_run(indexed: Cli) -> None:
    report = indexed.json(
        "plan", "--set", "corpora.docs.strategy.name=WholeText", "--set", "corpora.docs.synopsis=false"
    )

    assert report["corpora"]["docs"]["records"] == 3


def test_an_emptied_source_is_refused_until_allowed(indexed: Cli) -> None:
    for path in indexed.docs.iterdir():
        path.unlink()

    refused = indexed.run("index")
    allowed = indexed.run("index", "--allow-loss")

    assert refused.exit_code == 1
    assert "--allow-loss" in refused.stderr
    counts = refused.stdout.splitlines()[1].split()[1:-1]
    assert set(counts) == {"-"}, "nobody knows how many there are"
    assert allowed.exit_code == 0
    assert indexed.json("search", "ledger") == []


def test_an_empty_folder_is_indexed_as_nothing(cli: Cli) -> None:
    assert cli.run("index").exit_code == 0
    assert cli.json("search", "anything") == []


def test_chunks_longer_than_the_model_reads_are_named_by_plan_and_run(cli: Cli) -> None:
    cli.settings["embedder"] = {"kind": "sentence-transformers"}
    cli.settings["corpora"]["docs"]["strategy"] = {"name": "Chunked", "chunk_size": 1500}
    for i in range(7):
        cli.write(f"long{i}.md", f"{i} " + "word " * 280)
    cli.write("short.md", "word")

    plan, result, again = cli.run("plan"), cli.run("index"), cli.run("index")

    named = (
        "longer than the embedder reads, so that searches miss their ends: 7,"
        " in long0.md, long1.md, long2.md, long3.md, long4"
    )
    assert result.exit_code == 0
    assert named in plan.stdout
    assert named in result.stdout
    assert "longer than" not in again.stdout


def test_output_that_is_no_terminal_has_no_colour(indexed: Cli) -> None:
    for command in (["search", "ledger"], ["status"], ["show", "ledger.md"], ["plan"]):
        assert "\x1b" not in indexed.run(*command).stdout


def test_config_and_set_stand_before_the_command_or_after_it_where_they_win(cli: Cli, tmp_path: Path) -> None:
    cli.write("a.md", text_about("ledger"))
    assert cli.run("index").exit_code == 0
    config, elsewhere = str(cli.config), f"store={tmp_path / 'other'}"

    def indexed(*arguments: str) -> int:
        done = CliRunner().invoke(main, [*arguments, "--json"])
        assert done.exit_code == 0, done.stderr
        return int(json.loads(done.stdout)["corpora"]["docs"]["new"])

    assert indexed("--config", config, "plan") == 0
    assert indexed("--config", config, "--set", elsewhere, "plan") == 1
    assert indexed("--config", "missing.yaml", "plan", "--config", config) == 0
    assert indexed("--config", config, "--set", elsewhere, "plan", "--set", f"store={tmp_path / 'index'}") == 0


@pytest.mark.parametrize("command", [["claims", "list"], ["serve", "jsonl"]], ids=" ".join)
def test_a_missing_configuration_named_before_a_command_of_a_group_is_one_line(command: list[str]) -> None:
    done = CliRunner().invoke(main, ["--config", "missing.yaml", *command])

    assert done.exit_code == 1
    assert "missing.yaml" in error_of(done)


def test_help_prints_the_section_of_an_error_with_the_pages_that_its_links_lead_to() -> None:
    helped = CliRunner().invoke(main, ["help", "sourceerror"])

    assert helped.exit_code == 0
    assert helped.stdout.startswith("SourceError\n\nA whole source cannot be listed: ")
    assert "See Sources (docs/sources.md)." in helped.stdout
    assert "##" not in helped.stdout


def test_help_on_a_kind_of_failure_prints_its_line() -> None:
    helped = CliRunner().invoke(main, ["help", "encrypted", "timeout"])

    assert helped.stdout.strip().split("\n\n") == [
        "encrypted",
        "reading: a document with a password",
        "timeout",
        "no answer in time, or none at all; the next run tries again",
    ]


def test_help_without_a_kind_lists_every_kind_with_its_meaning() -> None:
    lines = CliRunner().invoke(main, ["help"]).stdout.splitlines()[1:]

    assert [line.split()[0] for line in lines] == list(explanations())
    assert all(len(line.split()) > 2 for line in lines)


def test_help_on_an_unknown_kind_lists_the_known_ones() -> None:
    assert "'nix' is not a kind of error. Known: ConfigError, " in error_of(CliRunner().invoke(main, ["help", "nix"]))


def test_the_version_is_told_without_a_database_a_model_or_the_library() -> None:
    code = (
        "import sys\nfrom findingaid.cli import main\n"
        "try: main(['--version'])\n"
        "except SystemExit: print(*{'lance', 'numpy', 'pyarrow', 'pydantic', 'findingaid.aid'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"findingaid, version {__version__}\n\n"


@pytest.mark.parametrize("wrong", ["serch", "findall"])
def test_an_unknown_command_is_a_usage_error(wrong: str) -> None:
    refused = CliRunner().invoke(main, [wrong])
    assert refused.exit_code == 2
    assert f"No such command '{wrong}'" in refused.stderr
