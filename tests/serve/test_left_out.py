"""A run over a document of every format names all that it left out, wherever people and programs look.

The page is tested in `test_page.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from findingaid import FindingAid
from findingaid.config.loading import load
from findingaid.serve.session import Session
from findingaid.sources.documents import FORMATS
from tests.conftest import Cli
from tests.support.left_out import ALSO_NOTED, FAILED, NOTED, SKIPPED, write_every_format
from tests.support.serving import mcp_client, served


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    return write_every_format(tmp_path_factory.mktemp("every"))


@pytest.fixture(scope="module")
def run(cli: Cli) -> str:
    """What a run printed."""
    return cli.run("index").output


@pytest.fixture(scope="module")
def printed_status(cli: Cli, run: str) -> str:
    return cli.run("status").stdout


@pytest.fixture(scope="module")
def status(cli: Cli, run: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = cli.json("status")[0]
    return found


@pytest.fixture(scope="module")
def address(cli: Cli, run: str) -> Iterator[str]:
    with served(Session.of(FindingAid.of(load(cli.config))), mcp=True) as address:
        yield address


def all_notes(name: str) -> list[str]:
    return [*ALSO_NOTED.get(name, []), NOTED[name][1]]


def why(address: str, artifact_id: str) -> str:
    """Return what the MCP tool `why` says of an artifact."""

    async def call() -> Any:
        async with mcp_client(address) as connected:
            return await connected.call_tool("why", {"id": artifact_id})

    return str(anyio.run(call).content[0].text)


def test_there_is_a_document_of_every_format() -> None:
    assert {Path(name).suffix for name in NOTED} >= FORMATS.keys()


@pytest.mark.parametrize("name", NOTED)
def test_what_was_left_out_of_a_document_is_named(
    run: str, printed_status: str, status: Mapping[str, Any], name: str
) -> None:
    words = NOTED[name][1]

    for printed in (run, printed_status):
        assert [line for line in printed.splitlines() if line.startswith(f"docs: {words}: ") and name in line]
    assert [note["words"] for note in status["noted"] if note["artifact_id"] == name] == all_notes(name)


@pytest.mark.parametrize("name", [*ALSO_NOTED, "guessed.txt"])
def test_notes_on_a_document_are_shown_with_it(cli: Cli, run: str, address: str, name: str) -> None:
    *_, words = all_words = all_notes(name)

    assert f"note  {words}" in cli.run("show", name).stdout
    assert f"note  {words}" in cli.run("why", name).stdout
    assert [note["words"] for note in cli.json("show", name)["notes"]] == all_words
    assert [link["said"] for link in cli.json("why", name)[0]["links"] if link["what"] == "note"] == all_words
    assert words in why(address, name)


@pytest.mark.parametrize("name", [*FAILED, *SKIPPED])
def test_a_document_of_which_nothing_is_read_is_named(
    cli: Cli, run: str, printed_status: str, status: Mapping[str, Any], address: str, name: str
) -> None:
    words = {**FAILED, **SKIPPED}[name][1]

    named = f"{name}: " if name in FAILED else f"1 {Path(name).suffix}"
    for printed in (run, printed_status):
        assert [line for line in printed.splitlines() if named in line and words in line]
    counted = {each["artifact_id"]: each["message"] for each in status["failed"]}
    counted |= {each["artifact_id"]: each["reason"] for each in status["skipped"]}
    assert words in counted[name]
    for command in ("show", "why"):
        assert words in cli.run(command, name).stderr
    assert words in why(address, name)
