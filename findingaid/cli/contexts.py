"""Commands `context`, which packs search results for a model, and `summary`, which shows a summary node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import click
import orjson
from rich.markup import escape

from findingaid.cli.common import (
    corpus_option,
    fresh_option,
    mode_option,
    query_argument,
    reading,
    surfaces_option,
    where_option,
)
from findingaid.cli.options import TextFile, quiet_option
from findingaid.cli.printing import lines, plain_table, say, say_json, say_plain
from findingaid.cli.searching import parse_spec, step_options
from findingaid.errors import visible_line
from findingaid.query.context.rendering import Form

if TYPE_CHECKING:
    from findingaid.aid import FindingAid


def _parse_object(_: click.Context, __: click.Parameter, text: str | None) -> Any:
    """Return the JSON object in the text of the file that an option names. Raises BadParameter if there is none."""
    try:
        found = None if text is None else orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise click.BadParameter(f"it is not JSON: {error}") from None
    if text is not None and not isinstance(found, dict):
        raise click.BadParameter("it is not a JSON object, as `findingaid context --json` prints it")
    return found


@click.command()
@query_argument
@click.option("--budget", required=True, type=int, metavar="TOKENS", help="Maximum size of the pack, in tokens.")
@click.option("-k", default=20, show_default=True, help="Number of hits to consider.")
@corpus_option
@click.option("--form", type=click.Choice(get_args(Form)), default="text", show_default=True, help="Form of the pack.")
@click.option("--pin", "pinned", multiple=True, metavar="TEXT", help="Text to put first; may be repeated.")
@click.option(
    "--pin-file",
    "files",
    multiple=True,
    type=TextFile(),
    help="File with text to put first; may be repeated.",
)
@click.option(
    "--session",
    "sessions",
    multiple=True,
    metavar="ID",
    help="Session whose anchored summary comes next; may be repeated.",
)
@click.option(
    "--no-summaries",
    "summaries",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Leave out the summaries of artifacts.",
)
@click.option(
    "--summarizer",
    metavar="KIND|{kind: …}|none",
    callback=parse_spec,
    help="Summarizer of the pieces that do not fit: extractive, openai.",
)
@click.option(
    "--previous",
    type=TextFile(),
    callback=_parse_object,
    help="Pack before this one, as printed by --json, or an anchored summary as JSON: its digest is continued.",
)
@mode_option
@where_option
@surfaces_option
@step_options
@fresh_option
@quiet_option
@reading
def context(
    aid: FindingAid,
    query: str,
    budget: int,
    pinned: tuple[str, ...],
    files: tuple[str, ...],
    surfaces: str | None,
    quiet: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Assemble the hits of a query for a model, within a token budget. Pieces left out are counted on stderr.

    \b
    Examples:
      findingaid context "how are versions compared" --budget 1000
      findingaid context "what if a run is killed" --budget 2000 --expand section --form messages
      findingaid context "what was decided" --budget 500 --pin "Answer in French." --json
      findingaid context "and why" --budget 500 --summarizer extractive --previous pack.json --json
    """
    kinds = [kind.strip() for kind in surfaces.split(",")] if surfaces else None
    pack = aid.context(query, budget, pinned=[*pinned, *files], surfaces=kinds, **how)
    if as_json:
        return say_json(pack.to_dict())
    say_plain(pack.rendered) if isinstance(pack.rendered, str) else say_json(pack.rendered)
    for line in () if quiet else (str(pack), *(f"degraded: {each}" for each in pack.degraded)):
        say_plain(line, err=True)
    return None


@click.command()
@click.argument("id_", metavar="ID")
@click.option("--corpus", "-c", help="Corpus, if the id is in more than one.")
@reading
def summary(aid: FindingAid, id_: str, corpus: str | None, as_json: bool) -> None:
    """Show the summary node of an artifact: its points, and the claims that each cites, with their places.

    ID is the id of the artifact, the node or its record.

    \b
    Examples:
      findingaid summary operations.md
      findingaid summary operations.md --corpus docs --json
    """
    node = aid.summary_node(aid.artifact_of_file(id_, corpus), corpus)
    if as_json:
        return say_json(node.to_dict())
    say(
        f"[bold]{node.node_id}[/bold]  {node.corpus}/{escape(visible_line(node.artifact_id))}  by {node.producer_id}"
        f"  confidence {node.confidence:.2f}"
    )
    if node.themes:
        say(escape(f"themes: {', '.join(node.themes)}"))
    members = {member.section: member for member in node.members}
    table = plain_table("point", "claims", ">span")
    for bullet in node.bullets:
        spans = [members[i].span for i in bullet.members]
        shown = lines(*(f"{span[0]}:{span[1]}" if span else "-" for span in spans))
        table.add_row(escape(bullet.text), lines(*bullet.members), shown)
    say(table)
    say(f"of {len(node.members)} claims")
    for event in node.events:
        by = f" by {event.by}" if event.by else ""
        say(f"{event.at:%Y-%m-%d %H:%M:%S}  {event.event} {event.node_id}{by}")
    return None
