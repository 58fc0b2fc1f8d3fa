"""Command group `mcp`: tells MCP clients, such as Claude Code and Cursor, how to start a server for this index."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click

from findingaid.cli.common import one_line_errors, replace_file
from findingaid.cli.options import HelpGroup, config_option
from findingaid.cli.printing import say_line
from findingaid.config.loading import find_file
from findingaid.errors import ConfigError

NAME = "findingaid"
"""Name of the server in the files of clients."""


class Client(NamedTuple):
    """File of an MCP client, in the folder that it is opened in, and the key of its servers."""

    file: str
    key: str


CLIENTS = {
    "claude": Client(".mcp.json", "mcpServers"),
    "cursor": Client(".cursor/mcp.json", "mcpServers"),
    "vscode": Client(".vscode/mcp.json", "servers"),
}


@click.group(name="mcp", cls=HelpGroup)
def mcp_group() -> None:
    """Have an MCP client start a server for this index."""


@mcp_group.command()
@click.argument("client", type=click.Choice(list(CLIENTS)))
@click.option("--print", "only_print", is_flag=True, help="Print the file; write nothing.")
@config_option
@one_line_errors
def install(client: str, only_print: bool, config: str | None) -> None:
    """Name this index in the file of CLIENT in the current folder. What else the file has stays.

    For Claude Desktop, print the file for claude and put it into its claude_desktop_config.json.

    \b
    Examples:
      findingaid mcp install claude
      findingaid mcp install vscode --print
    """
    found = find_file(config)
    if not found.is_file():
        raise ConfigError(f"no configuration at {found}: create one with `findingaid init`")
    of = CLIENTS[client]
    server: dict[str, Any] = {"command": _command(), "args": ["serve", "mcp", "--config", str(found.resolve())]}
    file = Path(of.file)
    given = {} if only_print else _read(file, of)
    servers = given.get(of.key, {})
    before = servers.get(NAME)
    server = {**before, **server} if isinstance(before, dict) else server  # its environment stays
    text = json.dumps({**given, of.key: {**servers, NAME: server}}, indent=2, ensure_ascii=False) + "\n"
    if only_print:
        click.echo(text, nl=False)
        return
    replace_file(file, text)
    say_line(f"Wrote {file}: {client} starts `findingaid serve mcp` for {found}")
    if before and before != server:
        say_line(f"In place of: {json.dumps(before, ensure_ascii=False)}")


def _command() -> str:
    """Return the path of the program that runs, as clients do not have its virtual environment."""
    beside = Path(sys.executable).with_name(NAME)
    return str(beside) if beside.exists() else shutil.which(NAME) or NAME


def _read(file: Path, of: Client) -> dict[str, Any]:
    """Return what a file has. Raises ConfigError for one that this program must not rewrite."""
    try:
        if file.exists() and not file.is_file():
            raise ConfigError(f"{file}: not a regular file: add what `--print` shows by hand")
        given = json.loads(file.read_text("utf-8"), object_pairs_hook=_once)
        json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: not JSON ({error}): add what `--print` shows by hand") from None
    if not isinstance(given, dict) or not isinstance(given.get(of.key, {}), dict):
        raise ConfigError(f"{file}: {of.key!r} is not an object: add what `--print` shows by hand")
    return given


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Raises ValueError for one that has a name twice, of which one value would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found
