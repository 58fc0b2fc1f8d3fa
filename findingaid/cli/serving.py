"""Command group `serve`: serves the published index to programs, agents and people, over HTTP, MCP or JSON lines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from findingaid.access import Caller
from findingaid.cli.common import missing_extra, one_line_errors
from findingaid.cli.options import HelpGroup, config_option, set_option
from findingaid.cli.streams import take_streams
from findingaid.cli.watching import watching
from findingaid.config.loading import load, parse_override

if TYPE_CHECKING:
    from findingaid.config.settings import ServeSettings
    from findingaid.serve.session import Session


SETTING_OPTIONS = frozenset({"host", "port", "token_env", "profile"})
"""Options that set the setting of the same name."""


class ServeCommand(click.Command):
    """A command whose help ends with the list of capabilities that it serves."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from findingaid.serve.capabilities import CAPABILITIES

        with formatter.section("Capabilities"):
            formatter.write_dl([(c.name, c.description) for c in CAPABILITIES])


@click.group(cls=HelpGroup)
def serve() -> None:
    """Serve the published index. A new version is served as soon as it is published.

    The setting `serve` in the configuration has the same options, and the limits.
    """


def session_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that all servers have; call the command with a session and settings.

    A server on standard streams also gets these, `streams`. They are taken before any user code is loaded.
    """

    def run(
        config: str | None,
        overrides: tuple[str, ...],
        corpora: tuple[str, ...],
        principals: tuple[str, ...],
        write: bool,
        watch: bool,
        **more: Any,
    ) -> Any:
        transport = more.pop("transport", "http" if command.__name__ == "http" else "stdio")
        if transport == "stdio":
            more["streams"] = take_streams()
        own = {name: more.pop(name) for name in SETTING_OPTIONS & more.keys()}
        said: dict[str, Any] = {f"serve.{name}": value for name, value in own.items() if value is not None}
        said |= {"serve.corpora": list(corpora)} if corpora else {}
        said |= {"serve.read_only": False} if write else {}
        session, settings = _open_session(command.__name__, config, dict(map(parse_override, overrides)) | said)
        session = replace(session, caller=Caller.named(principals))
        chosen = [] if config is None else ["--config", config]
        chosen += [f"--set={override}" for override in overrides]
        chosen += [f"--corpus={corpus}" for corpus in session.aid.corpora]
        with watching(chosen) if watch else nullcontext():
            return command(session, settings, **more)

    for option in (
        set_option,
        config_option,
        click.option("--watch", is_flag=True, help="Index what changes meanwhile, as `findingaid watch` does."),
        click.option("--write", is_flag=True, help="Let callers propose claims. Default: read only."),
        click.option(
            "--as",
            "principals",
            multiple=True,
            metavar="PRINCIPAL",
            help="Serve what this user:NAME or group:NAME may read; may be repeated. Default: public, see `access`.",
        ),
        click.option("--corpus", "-c", "corpora", multiple=True, help="Serve only this corpus; may be repeated."),
    ):
        run = option(run)
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    return one_line_errors(run)


def port_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of servers that listen on a port."""
    for option in (
        click.option("--token-env", metavar="NAME", help="Environment variable that holds the bearer token."),
        click.option("--port", type=int, help="Port to listen on. Default: 8077."),
        click.option("--host", help="Address to listen on. Default: 127.0.0.1; other addresses need a token."),
    ):
        command = option(command)
    return command


def _open_session(by: str, path: str | None, overrides: dict[str, Any]) -> tuple[Session, ServeSettings]:
    from findingaid.aid import FindingAid
    from findingaid.claims.review import whoami
    from findingaid.serve.session import Session

    config = load(path, overrides)
    settings = config.settings.serve
    actor = None if settings.read_only else f"{whoami()} by {by}"
    return Session.of(FindingAid.of(config), settings.corpora, actor, settings.dagster_url), settings


@serve.command(cls=ServeCommand)
@click.option("--open", "open_page", is_flag=True, help="Open the search page in the browser.")
@port_options
@session_options
def http(session: Session, settings: ServeSettings, open_page: bool = False) -> None:
    """Serve over HTTP: /v1/NAME for each capability, /openapi.json, /healthz, /readyz, /metrics, and a search page.

    \b
    Examples:
      findingaid serve http --open
      findingaid serve http --corpus docs --port 9000
      TOKEN=… findingaid serve http --host 0.0.0.0 --token-env TOKEN
    """
    try:
        from findingaid.serve.http import serve_http
    except ImportError as error:
        raise missing_extra("serve", error) from None
    serve_http(session, settings, open_page=open_page)


@serve.command(cls=ServeCommand)
@click.option(
    "--transport",
    type=click.Choice(["stdio", "http"]),
    default="stdio",
    show_default=True,
    help="Standard input and output, or /mcp over HTTP beside all that `serve http` serves.",
)
@click.option(
    "--profile",
    type=click.Choice(["agent", "full", "search-fetch"]),
    help="Tools: a few for agents (default), all capabilities, or the search and fetch that ChatGPT expects.",
)
@port_options
@session_options
def mcp(session: Session, settings: ServeSettings, streams: tuple[BinaryIO, BinaryIO] | None = None) -> None:
    """Serve agents over MCP: tools, and artifacts as resources.

    \b
    Examples:
      findingaid serve mcp
      findingaid serve mcp --corpus docs --write
      findingaid serve mcp --transport http --port 9000
      findingaid serve mcp --transport http --profile search-fetch
    """
    try:
        from findingaid.serve import mcp as over_mcp

        if streams is None:
            from findingaid.serve.http import serve_http
    except ImportError as error:
        raise missing_extra("mcp" if streams else "mcp,serve", error) from None
    if streams:
        return over_mcp.serve_mcp(session, settings, *streams)
    return serve_http(session, settings, mcp=True)


@serve.command(cls=ServeCommand)
@session_options
def jsonl(session: Session, settings: ServeSettings, streams: tuple[BinaryIO, BinaryIO]) -> None:
    """Serve a program over standard input and output: one request per line, {"id": …, "method": …, "params": {…}}.

    \b
    Examples:
      findingaid serve jsonl
      echo '{"id": 1, "method": "search", "params": {"query": "leases"}}' | findingaid serve jsonl
    """
    from findingaid.serve.jsonl import serve_jsonl

    serve_jsonl(session, settings, *streams)
