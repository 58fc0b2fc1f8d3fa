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


@click.group()
def serve() -> None:
    """Serve the published index. What is published meanwhile is served at once.

    `serve` in the configuration has the same settings, and the limits.
    """


def serving(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that all servers have, and the session and settings that they come to."""

    def run(config: str | None, overrides: tuple[str, ...], corpora: tuple[str, ...], write: bool, **more: Any) -> Any:
        said: dict[str, Any] = {f"serve.{name}": value for name, value in more.items() if value is not None}
        said |= {"serve.corpora": list(corpora)} if corpora else {}
        said |= {"serve.read_only": False} if write else {}
        return _opened(command, config, dict(map(parse_override, overrides)) | said)

    for option in (
        set_option,
        config_option,
        click.option("--write", is_flag=True, help="Let callers propose claims; else they only read."),
        click.option("--corpus", "-c", "corpora", multiple=True, help="Serve this corpus alone; several times."),
    ):
        run = option(run)
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    return one_line_errors(run)


def _opened(command: Callable[..., Any], path: str | None, overrides: dict[str, Any]) -> Any:
    from findingaid.aid import FindingAid
    from findingaid.reviewing import whoami
    from findingaid.serve.session import Session

    config = load(path, overrides)
    settings = config.settings.serve
    actor = None if settings.read_only else f"{whoami()} by {command.__name__}"
    return command(Session.of(FindingAid.of(config), settings.corpora, actor, settings.dagster_url), settings)


def _needs(extra: str, error: ImportError) -> ConfigError:
    return ConfigError(f"{error.name} is not installed: pip install 'findingaid[{extra}]'")


@serve.command()
@click.option("--host", help="Where to listen. Default: 127.0.0.1; other machines need a token.")
@click.option("--port", type=int, help="Default: 8077.")
@click.option("--token-env", metavar="NAME", help="The variable that holds the bearer token.")
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
    click.echo(f"http://{settings.host}:{settings.port}", err=True)
    run(session, settings)
