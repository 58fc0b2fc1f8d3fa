"""`context`: what answers a query, put together for a model; `summary`: what the claims of an artifact come to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
from rich.markup import escape

from findingaid.cli.common import common, corpus_option
from findingaid.cli.printing import plain_table, say, say_json
from findingaid.cli.searching import parts, spec
from findingaid.model import Mode
from findingaid.query.forms import Form

if TYPE_CHECKING:
    from findingaid.aid import FindingAid


@click.command()
@click.argument("query")
@click.option("--budget", required=True, type=int, metavar="TOKENS", help="The most that is printed, in tokens.")
@click.option("-k", default=20, show_default=True, help="How many hits are looked at.")
@corpus_option
@click.option(
    "--as", "form", type=click.Choice(get_args(Form)), default="text", show_default=True, help="How it is shown."
)
@click.option("--pin", "pinned", multiple=True, metavar="TEXT", help="Text that comes first; several times.")
@click.option(
    "--pin-file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of such text; several times.",
)
@click.option("--session", "sessions", multiple=True, metavar="ID", help="A session whose anchored summary comes next.")
@click.option("--no-summaries", "summaries", is_flag=True, flag_value=False, default=True, help="Hits alone.")
@click.option(
    "--summarizer",
    metavar="KIND|{kind: …}|none",
    callback=spec,
    help="Who writes of what does not fit: extractive, openai.",
)
@click.option(
    "--mode", type=click.Choice(get_args(Mode)), default="hybrid", show_default=True, help="How records are ranked."
)
@click.option("--where", help="SQL over the fields that `status --fields` lists.")
@click.option("--surfaces", help="Only these surface kinds, separated by commas.")
@parts
@common
def context(
    aid: FindingAid,
    query: str,
    budget: int,
    pinned: tuple[str, ...],
    files: tuple[Path, ...],
    surfaces: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Put together for a model what answers a query, in a budget of tokens. Stderr says what was left out.

    \b
    Examples:
      findingaid context "how are versions compared" --budget 1000
      findingaid context "what if a run is killed" --budget 2000 --expand section --as messages
      findingaid context "what was decided" --budget 500 --pin "Answer in French." --json
    """
    texts = [*pinned, *(path.read_text("utf-8", "replace") for path in files)]
    kinds = [kind.strip() for kind in surfaces.split(",")] if surfaces else None
    pack = aid.context(query, budget, pinned=texts, surfaces=kinds, **how)
    if as_json:
        return say_json(pack.to_dict())
    click.echo(pack.rendered) if isinstance(pack.rendered, str) else say_json(pack.rendered)
    for line in (str(pack), *(f"degraded: {each}" for each in pack.degraded)):
        click.echo(line, err=True)
    return None


@click.command()
@click.argument("id_", metavar="ID")
@click.option("--corpus", "-c", help="The corpus, where the id is in several.")
@common
def summary(aid: FindingAid, id_: str, corpus: str | None, as_json: bool) -> None:
    """Show the summary node of an artifact: its points, each with where the claims stand that it cites.

    ID is the artifact's, the node's or its record's.

    \b
    Examples:
      findingaid summary operations.md
      findingaid summary operations.md --corpus docs --json
    """
    node = aid.summary_node(id_, corpus)
    if as_json:
        return say_json(node.to_dict())
    say(
        f"[bold]{node.node_id}[/bold]  {node.corpus}/{escape(node.artifact_id)}  by {node.producer_id}"
        f"  confidence {node.confidence:.2f}"
    )
    if node.themes:
        say(escape(f"themes: {', '.join(node.themes)}"))
    members = {member.section: member for member in node.members}
    table = plain_table("point", "claims", ">span")
    for bullet in node.bullets:
        spans = [members[i].span for i in bullet.members]
        shown = "\n".join(f"{span[0]}:{span[1]}" if span else "-" for span in spans)
        table.add_row(escape(bullet.text), "\n".join(bullet.members), shown)
    say(table)
    say(f"of {len(node.members)} claims")
    for event in node.events:
        by = f" by {event.by}" if event.by else ""
        say(f"{event.at:%Y-%m-%d %H:%M:%S}  {event.event} {event.node_id}{by}")
    return None
