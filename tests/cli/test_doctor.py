"""`findingaid doctor` examines each part, and names what is not well with the way out."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from findingaid.testing import OpenAIServer
from tests.conftest import Cli, error_of, openai


def examined(cli: Cli, status: int) -> dict[str, tuple[str, str]]:
    """Return what was found of each part, and its problem."""
    done = cli.run("doctor")
    found: list[dict[str, str]] = cli.json("doctor")

    assert done.exit_code == status
    assert [line[:2] for line in done.stdout.splitlines()].count("no") == sum(bool(each["problem"]) for each in found)
    return {each["part"]: (each["found"], each["problem"]) for each in found}


def summarized(cli: Cli, server: OpenAIServer, **parameters: Any) -> None:
    cli.settings["corpora"]["docs"]["synopsis"] = {"synthesizer": openai(server, **parameters)}


def test_what_is_well_is_said_part_by_part_and_nothing_is_written(cli: Cli, server: OpenAIServer) -> None:
    cli.write("a.md", "Text.")
    server.models = ["of-this-name"]
    summarized(cli, server, model="of-this-name")

    before = examined(cli, 0)
    there = sorted(path.name for path in cli.folder.iterdir())
    cli.run("index", "--set", "corpora.docs.synopsis=false")
    after = examined(cli, 0)

    assert [*before] == ["configuration", "versions", "corpus docs", "embedder", "model of-this-name", "store"]
    assert before["corpus docs"] == ("1 listed", "")
    assert before["model of-this-name"][0].endswith("has it")
    assert "nothing is indexed yet" in before["store"][0]
    assert there == ["docs", "findingaid.yaml"]
    assert "every table opens" in after["store"][0]
    assert not server.completions


def test_a_source_that_lists_nothing_and_one_that_is_away_are_named(cli: Cli) -> None:
    assert "lists nothing" in examined(cli, 1)["corpus docs"][1]
    shutil.rmtree(cli.docs)
    assert "source.root: no such directory" in examined(cli, 1)["corpus docs"][1]


@pytest.mark.parametrize(
    ("key", "models", "problem"),
    [
        ("right", ["another"], "does not list it, but another: correct `model`"),
        ("wrong", ["m"], "the endpoint does not know the API key"),
        ("right", [], ""),
        ("right", ["m:latest"], ""),
        ("right", ["models/m"], ""),
        ("right", ["m:70b"], "does not list it, but m:70b"),
    ],
)
def test_a_server_is_asked_for_its_models_alone(cli: Cli, key: str, models: list[str], problem: str) -> None:
    cli.write("a.md", "Text.")
    with OpenAIServer(api_key="right", models=models) as server:
        summarized(cli, server, model="m", api_key=key)

        found, said = examined(cli, 1 if problem else 0)["model m"]

    assert problem in said
    assert bool(found) is not bool(said)
    assert key not in said.split()
    assert not server.completions


@pytest.mark.parametrize("table", ["records", "ledger"])
def test_an_endpoint_that_is_away_and_a_damaged_table_are_named_beside_what_is_well(cli: Cli, table: str) -> None:
    cli.write("a.md", "Text.")
    cli.run("index")
    with OpenAIServer() as server:
        summarized(cli, server, model="m")
    next((cli.folder / "index" / f"{table}.lance" / "data").iterdir()).unlink()

    found = examined(cli, 1)

    assert "no answer from 127.0.0.1" in found["model m"][1]
    assert table in found["store"][1]
    assert "run `findingaid index`" in found["store"][1]
    assert found["corpus docs"] == ("1 listed", "")


def test_an_index_that_no_search_can_use_is_not_well(cli: Cli) -> None:
    cli.write("a.md", "Text.")
    cli.run("index")
    cli.settings["embedder"] = {"kind": "hash", "dim": 48}

    assert "the index was made with embedder hash-" in examined(cli, 1)["store"][1]

    (cli.folder / "index" / "records.lance" / "_refs" / "tags" / "published.json").unlink()
    assert "nothing is published" in examined(cli, 1)["store"][1]


def test_an_embedder_at_an_endpoint_is_asked_for_nothing(cli: Cli, server: OpenAIServer) -> None:
    cli.write("a.md", "Text.")
    server.models = ["m"]
    cli.settings["embedder"] = {"kind": "openai", "model": "m", "base_url": server.base_url}

    assert [*examined(cli, 0)] == ["configuration", "versions", "corpus docs", "model m", "store"]
    assert {request.path for request in server.requests} == {"/v1/models"}


def test_a_file_that_is_not_valid_is_refused_in_one_line(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["strategy"] = {"name": "Chunked", "chunk_size": -1}

    assert "chunk_size" in error_of(cli.run("doctor"))
