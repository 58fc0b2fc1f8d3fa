"""`serve`: the published index for programs, agents and people, over HTTP, MCP or lines of JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from findingaid.cli.common import config_option, one_line_errors, set_option
from findingaid.config import load, parse_override
from findingaid.errors import ConfigError

if TYPE_CHECKING:
    from findingaid.config import ServeSettings
    from findingaid.serve.session import Session


SETTINGS = frozenset({"host", "port", "token_env"})
"""Options that are settings of the same name."""


class Listing(click.Command):
    """A command whose help ends with what can be asked, from the list that it serves."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from findingaid.serve.capabilities import CAPABILITIES

        with formatter.section("Capabilities"):
            formatter.write_dl([(c.name, c.description) for c in CAPABILITIES])


@click.group()
def serve() -> None:
    """Serve the published index. What is published meanwhile is served at once.

    `serve` in the configuration has the same settings, and the limits.
    """


def serving(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that all servers have, and the session and settings that they come to."""

    def run(config: str | None, overrides: tuple[str, ...], corpora: tuple[str, ...], write: bool, **more: Any) -> Any:
        own = {name: more.pop(name) for name in SETTINGS & more.keys()}
        said: dict[str, Any] = {f"serve.{name}": value for name, value in own.items() if value is not None}
        said |= {"serve.corpora": list(corpora)} if corpora else {}
        said |= {"serve.read_only": False} if write else {}
        session, settings = _opened(command.__name__, config, dict(map(parse_override, overrides)) | said)
        return command(session, settings, **more)

    for option in (
        set_option,
        config_option,
        click.option("--write", is_flag=True, help="Let callers propose claims; else they only read."),
        click.option("--corpus", "-c", "corpora", multiple=True, help="Serve this corpus alone; several times."),
    ):
        run = option(run)
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    return one_line_errors(run)


def listening(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of servers that listen."""
    for option in (
        click.option("--token-env", metavar="NAME", help="The variable that holds the bearer token."),
        click.option("--port", type=int, help="Default: 8077."),
        click.option("--host", help="Where to listen. Default: 127.0.0.1; other machines need a token."),
    ):
        command = option(command)
    return command


def _opened(by: str, path: str | None, overrides: dict[str, Any]) -> tuple[Session, ServeSettings]:
    from findingaid.aid import FindingAid
    from findingaid.reviewing import whoami
    from findingaid.serve.session import Session

    config = load(path, overrides)
    settings = config.settings.serve
    actor = None if settings.read_only else f"{whoami()} by {by}"
    return Session.of(FindingAid.of(config), settings.corpora, actor, settings.dagster_url), settings


def _needs(extra: str, error: ImportError) -> ConfigError:
    return ConfigError(f"{error.name} is not installed: pip install 'findingaid[{extra}]'")


@serve.command(cls=Listing)
@listening
@serving
def http(session: Session, settings: ServeSettings) -> None:
    """Serve over HTTP: /v1/NAME for each capability, /openapi.json, /healthz, /readyz, /metrics, and a search page.

    \b
    Examples:
      findingaid serve http
      findingaid serve http --corpus docs --port 9000
      TOKEN=… findingaid serve http --host 0.0.0.0 --token-env TOKEN
    """
    try:
        from findingaid.serve.http import run
    except ImportError as error:
        raise _needs("serve", error) from None
    run(session, settings)


@serve.command(cls=Listing)
@click.option(
    "--transport",
    type=click.Choice(["stdio", "http"]),
    default="stdio",
    show_default=True,
    help="Its own standard streams, or /mcp over HTTP beside everything that `serve http` serves.",
)
@listening
@serving
def mcp(session: Session, settings: ServeSettings, transport: str) -> None:
    """Serve agents over MCP: tools, and artifacts as resources.

    \b
    Examples:
      findingaid serve mcp
      findingaid serve mcp --corpus docs --write
      findingaid serve mcp --transport http --port 9000
    """
    try:
        from findingaid.serve import mcp as over_mcp

        if transport == "http":
            from findingaid.serve.http import run
    except ImportError as error:
        raise _needs("mcp,serve" if transport == "http" else "mcp", error) from None
    if transport == "stdio":
        return over_mcp.run(session, settings)
    return run(session, settings, mcp=True)


@serve.command(cls=Listing)
@serving
def jsonl(session: Session, settings: ServeSettings) -> None:
    """Serve a program over its standard streams: a request on each line, {"id": …, "method": …, "params": {…}}.

    \b
    Examples:
      findingaid serve jsonl
      echo '{"id": 1, "method": "search", "params": {"query": "leases"}}' | findingaid serve jsonl
    """
    from findingaid.serve.jsonl import run

    run(session, settings)
