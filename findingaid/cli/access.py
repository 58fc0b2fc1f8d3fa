"""Command group `access`: who may read what."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from findingaid.access import Caller
from findingaid.cli.common import common
from findingaid.cli.options import HelpGroup
from findingaid.cli.printing import say, say_json

if TYPE_CHECKING:
    from findingaid.aid import FindingAid


@click.group(cls=HelpGroup)
def access() -> None:
    """Show who may read what, and revoke rights. Reading commands and servers take --as."""


def _deciding(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--reason", default="", help="Why; it is kept in the log of decisions."),
        click.option("--actor", help="Who decides. Default: your name on this machine."),
        click.argument("named", nargs=-1, required=True, metavar="PRINCIPAL|ARTIFACT..."),
    ):
        command = option(command)
    return command


@access.command()
@_deciding
@common
def revoke(aid: FindingAid, named: tuple[str, ...], actor: str | None, reason: str, as_json: bool) -> None:
    """Take rights away at once: from a user or group, or from everybody for an artifact.

    A server applies it to the next request.

    \b
    Examples:
      findingaid access revoke user:bob --reason "left us"
      findingaid access revoke hr/pay.md
    """
    aid.revoke(*named, actor=actor, reason=reason)
    _print_revoked(aid, as_json)


@access.command()
@_deciding
@common
def admit(aid: FindingAid, named: tuple[str, ...], actor: str | None, reason: str, as_json: bool) -> None:
    """End what `access revoke` began.

    \b
    Examples:
      findingaid access admit hr/pay.md
    """
    aid.admit(*named, actor=actor, reason=reason)
    _print_revoked(aid, as_json)


@access.command()
@common
def revoked(aid: FindingAid, as_json: bool) -> None:
    """List what is revoked.

    \b
    Examples:
      findingaid access revoked
    """
    _print_revoked(aid, as_json)


def _print_revoked(aid: FindingAid, as_json: bool) -> None:
    found = aid.revoked()
    if as_json:
        return say_json({"principals": sorted(found.principals), "artifacts": sorted(map("/".join, found.artifacts))})
    return say(escape(str(found) or "nothing is revoked"))


@access.command()
@click.argument("artifact_id", metavar="ARTIFACT")
@click.option("--corpus", "-c", help="Corpus, if the id is in more than one.")
@click.option("--as", "asking", multiple=True, metavar="PRINCIPAL", help="Say whether user:NAME or group:NAME may.")
@common
def explain(aid: FindingAid, artifact_id: str, corpus: str | None, asking: tuple[str, ...], as_json: bool) -> None:
    """Show who may read an artifact, and which rules say so. With --as, exits with 1 if they may not.

    \b
    Examples:
      findingaid access explain hr/salaries.md
      findingaid access explain hr/salaries.md --as user:ann --as group:hr
    """
    caller = Caller.named(asking)
    found = aid.access(aid.artifact_of_file(artifact_id, corpus), corpus)
    limited = aid.revoked().limit(caller)
    may = limited.may_read(found.readers)
    if as_json:
        say_json({**found.to_dict(), **({"caller": str(caller), "may_read": may} if asking else {})})
    else:
        say(escape(f"{found.corpus}/{found.artifact_id}: published for {found.readers or 'nobody'}"))
        for line in [*found.rules, *found.notes]:
            say(escape(f"  {line}"))
        if asking:
            note = f" (revoked: {', '.join(sorted(limited.revoked))})" if limited.revoked else ""
            say(escape(f"{caller}: {'may' if may else 'may not'} read it{note}"))
    if asking and not may:
        sys.exit(1)
