"""`findingaid mcp install` names an index in the file of an MCP client, whose server then starts."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.conftest import Cli, error_of, text_about


@pytest.fixture
def home(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Path:
    cli.write("ledger.md", text_about("ledger"))
    cli.run("index")
    monkeypatch.chdir(cli.folder)
    return cli.folder


def test_a_client_starts_the_server_that_the_file_names(cli: Cli, home: Path) -> None:
    pytest.importorskip("mcp")
    from mcp import Client, StdioServerParameters

    cli.run("mcp", "install", "claude")
    entry = json.loads((home / ".mcp.json").read_text())["mcpServers"]["findingaid"]

    async def ask() -> list[str]:
        async with Client(StdioServerParameters(**entry)) as client:
            found = await client.call_tool("search", {"query": "ledger"})
            return [hit["artifact_id"] for hit in found.structured_content["hits"]]

    assert asyncio.run(ask())[0] == "ledger.md"


@pytest.mark.parametrize(
    ("client", "file", "key"), [("cursor", ".cursor/mcp.json", "mcpServers"), ("vscode", ".vscode/mcp.json", "servers")]
)
def test_other_servers_and_settings_of_the_client_stay(cli: Cli, home: Path, client: str, file: str, key: str) -> None:
    (home / file).parent.mkdir()
    (home / file).write_text(
        json.dumps({"inputs": [], key: {"other": {"command": "x"}, "findingaid": {"command": "old"}}})
    )

    cli.run("mcp", "install", client)
    printed = json.loads(cli.run("mcp", "install", client, "--print").stdout)

    said = json.loads((home / file).read_text())
    assert (said["inputs"], said[key]["other"]) == ([], {"command": "x"})
    assert said[key]["findingaid"] == printed[key]["findingaid"]
    assert said[key]["findingaid"]["args"] == ["serve", "mcp", "--config", str(cli.config)]


def test_the_entry_of_another_index_that_is_replaced_is_named(cli: Cli, home: Path) -> None:
    said = [cli.run("mcp", "install", "claude").stdout for _ in range(2)]
    file = home / ".mcp.json"
    file.write_text(file.read_text().replace(str(cli.config), "/other/findingaid.yaml"))

    assert not any("In place of" in each for each in said)
    assert '"/other/findingaid.yaml"' in cli.run("mcp", "install", "claude").stdout.partition("In place of")[2]


TWICE = '{"mcpServers": {"a": {}}, "mcpServers": {"b": {}}}'


@pytest.mark.parametrize(
    "given",
    ["// comment\n{}", "[]", '{"mcpServers": []}', "\xff", TWICE, '{"a": 1e999}', '{"a": "\\ud800"}', "[" * 100_000],
    ids=lambda given: given[:10],
)
def test_a_file_that_cannot_be_extended_stays_as_it_is(cli: Cli, home: Path, given: str) -> None:
    (home / ".mcp.json").write_bytes(given.encode("latin-1"))

    refused = cli.run("mcp", "install", "claude")

    assert refused.exit_code == 1
    assert error_of(refused).startswith(".mcp.json: ")
    assert error_of(refused).endswith("add what `--print` shows by hand")
    assert (home / ".mcp.json").read_bytes() == given.encode("latin-1")


def test_what_the_entry_of_the_server_has_beside_its_command_stays(cli: Cli, home: Path) -> None:
    file = home / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"findingaid": {"command": "old", "env": {"OPENAI_API_KEY": "k"}}}}))

    cli.run("mcp", "install", "claude")

    entry = json.loads(file.read_text())["mcpServers"]["findingaid"]
    assert entry["env"] == {"OPENAI_API_KEY": "k"}
    assert entry["command"] != "old"


def test_a_pipe_and_a_path_that_json_cannot_hold_are_one_line(cli: Cli, home: Path) -> None:
    os.mkfifo(home / ".mcp.json")
    folder = Path(os.fsdecode(bytes(home) + b"/\xff"))
    folder.mkdir()
    (folder / "findingaid.yaml").write_text(cli.config.read_text())

    assert error_of(cli.run("mcp", "install", "claude")).startswith(".mcp.json: not a regular file")
    cli.config = folder / "findingaid.yaml"
    assert "not valid UTF-8" in error_of(cli.run("mcp", "install", "cursor"))


def test_a_folder_that_cannot_hold_the_file_is_one_line(cli: Cli, home: Path) -> None:
    (home / ".vscode").write_text("")
    (home / ".cursor").symlink_to("/dev/null/nowhere")

    assert error_of(cli.run("mcp", "install", "vscode")) == ".vscode/mcp.json: cannot be read: Not a directory"
    assert error_of(cli.run("mcp", "install", "cursor")).startswith(".cursor/mcp.json: cannot be ")
