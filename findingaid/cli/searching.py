"""`search`, and what opens what it found: `show` and `neighbours`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

import click
from rich.markup import escape

from findingaid.cli.answering import print_passages
from findingaid.cli.common import OneLine, common, corpus_option
from findingaid.cli.printing import plain_table, say, say_json, snippet
from findingaid.config import parse_part
from findingaid.errors import ConfigError, FindingAidError
from findingaid.model import Hit, Mode
from findingaid.query import Recency
from findingaid.query.disclose import Level
from findingaid.query.routing import ROUTES

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.query.disclose import Disclosure
    from findingaid.query.edges import Referenced
    from findingaid.query.show import SummaryView


def spec(_: click.Context, option: click.Parameter, value: str | None) -> Any:
    """An option that is a kind, keys and values as YAML, or `none`."""
    try:
        return None if value is None else parse_part(value, f"--{option.name}")
    except FindingAidError as error:
        raise OneLine(error) from error


def parts(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options for what is done before and after the ranking, as keywords of `FindingAid.search`."""
    kind = "KIND|{kind: …}|none"
    for option in (
        click.option(
            "--expand",
            metavar="N|section|artifact|none",
            help="Show each hit with so many neighbours, or all around it.",
        ),
        click.option(
            "--select", metavar=kind, callback=spec, help="Keep what is enough: conservative, gap, threshold …"
        ),
        click.option("--rerank-depth", type=int, help="How many of the best hits are reranked; at least all shown."),
        click.option(
            "--rerank", metavar=kind, callback=spec, help="Order the best hits anew: cross-encoder, endpoint."
        ),
        click.option(
            "--rewrite", metavar=kind, callback=spec, help="Search for the query in other words, too: openai."
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("query")
@click.option("-k", default=10, show_default=True, help="How many records.")
@corpus_option
@click.option(
    "--mode", type=click.Choice(get_args(Mode)), default="hybrid", show_default=True, help="How records are ranked."
)
@click.option("--where", help="SQL over the fields that `status --fields` lists, e.g. \"title LIKE 'lance%'\".")
@click.option("--surfaces", help="Only these surface kinds, separated by commas.")
@click.option("--also", multiple=True, metavar="QUERY", help="Another query, answered together; several times.")
@click.option(
    "--weight",
    "weights",
    multiple=True,
    metavar="KIND=NUMBER",
    help="Multiply the scores of a surface kind; several times.",
)
@click.option("--recency", metavar="FIELD=DAYS", help="Halve a score for so many days of age by a time field.")
@click.option("--per-artifact", is_flag=True, help="Only the best record of each artifact.")
@click.option("--offset", default=0, show_default=True, help="Leave out so many first, for the next page.")
@click.option("--blend", type=float, default=0.5, show_default=True, help="The share of dense in a hybrid score.")
@click.option("--rrf", is_flag=True, help="Fuse by reciprocal ranks instead of a blend of scores.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Give up after so long.")
@click.option("--explain", is_flag=True, help="Say what each score is made of.")
@click.option(
    "--route",
    default="flat",
    show_default=True,
    help=f"By way of summaries or edges: {', '.join(ROUTES)}, or module:attribute of one of yours.",
)
@click.option("--use-summaries", is_flag=True, help="Find summary nodes, too, each with the best of its claims.")
@click.option("--summary-top-k", default=3, show_default=True, help="Claims shown with a summary node.")
@parts
@common
def search(
    aid: FindingAid,
    query: str,
    also: tuple[str, ...],
    surfaces: str | None,
    weights: tuple[str, ...],
    recency: str | None,
    blend: float,
    rrf: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Search the published index.

    \b
    Examples:
      findingaid search "how are versions compared"
      findingaid search "vector database" -k 3 --corpus environment --surfaces description
      findingaid search lance --mode lexical --where "corpus = 'environment'" --json
      findingaid search "broken lock" --also "lease lost" --per-artifact --explain
      findingaid search "what was decided" --recency ended=30 --weight synopsis=2
      findingaid search "how are versions compared" --select gap --expand section
      findingaid search "what was decided" --use-summaries --summary-top-k 5
    """
    hits = aid.search(
        [query, *also],
        surfaces=None if surfaces is None else [kind.strip() for kind in surfaces.split(",")],
        weights=dict(_number("--weight", weight) for weight in weights),
        recency=Recency(*_number("--recency", recency)) if recency else None,
        blend=None if rrf else blend,
        **how,
    )
    if hits.enough:
        click.echo(f"{len(hits)} kept: {hits.enough}", err=True)
    if as_json:
        return say_json([hit.to_dict() for hit in hits])
    return _print_hits(hits, how["explain"])


def _print_hits(hits: Sequence[Hit], explained: bool) -> None:
    table = plain_table(">score", "corpus", "artifact", "surface", "text", *(["why"] if explained else []))
    for hit in hits:
        surface = f"{hit.surface_kind} {hit.surface_index}" + (f"\n[{hit.span[0]}:{hit.span[1]}]" if hit.span else "")
        cells = [hit.corpus, *map(escape, (hit.artifact_id, surface, snippet(hit.text)))]
        table.add_row(f"{hit.score:.3f}", *cells, *([escape("\n".join(hit.why()))] if explained else []))
    say(table if hits else "nothing found")


def _number(option: str, text: str) -> tuple[str, float]:
    """`name=number` -> (name, number)."""
    name, _, number = text.partition("=")
    try:
        return name.strip(), float(number)
    except ValueError:
        raise ConfigError(f"{option} wants a name and a number, such as description=2, got {text!r}") from None


@click.command()
@click.argument("id_", metavar="ID")
@click.option("--corpus", "-c", help="The corpus, where the id is in several.")
@click.option("--history", is_flag=True, help="The anchored summaries that it has had, oldest first.")
@click.option("--level", type=click.Choice(get_args(Level)), help="Instead: its metadata, its body or its files.")
@click.option("--file", help="Instead: the text of one of its files, as --level files lists them.")
@common
def show(
    aid: FindingAid,
    id_: str,
    corpus: str | None,
    history: bool,
    level: Level | None,
    file: str | None,
    as_json: bool,
) -> None:
    """Show an artifact with its records in plan order, or a claim with the passages that say it, its quote marked.

    ID is that of an artifact, a record or a claim.

    \b
    Examples:
      findingaid show strategies.md
      findingaid show 6f0c9ad1f7a4c2f8b7d5f7a1c3e2b4d6
      findingaid show lancedb --corpus environment --json
      findingaid show strategies.md --level body
      findingaid show --history -- -home-ada-shop/84a7e050
    """
    if history:
        return _print_history(aid.history(id_, corpus), as_json)
    if level or file is not None:
        return _print_disclosed(aid.disclose(id_, level or "files", corpus, file), as_json)
    if claim := aid.passages(id_, [corpus] if corpus else None):
        return say_json(claim.to_dict()) if as_json else print_passages(claim)
    view = aid.show(id_, corpus)
    if as_json:
        return say_json(view.to_dict())
    say(f"[bold]{escape(view.title)}[/bold]  {view.corpus}/{escape(view.artifact_id)}  version {view.artifact_version}")
    table = plain_table(">#", "kind", ">span", "text")
    for record in view.records:
        span = f"{record.span[0]}:{record.span[1]}" if record.span else ""
        kind = record.surface_kind + (f"\nby {record.producer_id}" if record.producer_id else "")
        table.add_row(str(record.surface_index), escape(kind), span, escape(snippet(record.text)))
    say(table)
    return None


def _print_history(found: Sequence[SummaryView], as_json: bool) -> None:
    if as_json:
        return say_json([view.to_dict() for view in found])
    for view in found:
        say(f"[bold]iteration {view.iteration}[/bold]  {view.segments} segments  {view.at}  by {view.producer_id}")
        say(escape(f"\n{view.summary.to_prompt_text()}\n"))
    if not found:
        say("no anchored summary of it was written")
    return None


def _print_disclosed(found: Disclosure, as_json: bool) -> None:
    if as_json:
        return say_json(found.to_dict())
    if found.text is not None:
        return click.echo(found.text)
    say(
        f"[bold]{escape(found.title)}[/bold]  {found.corpus}/{escape(found.artifact_id)}"
        f"  version {found.artifact_version}"
    )
    if found.description:
        click.echo(found.description)
    for name, value in found.metadata.items() if found.body is None else ():
        click.echo(f"{name}: {value}")
    if found.body is not None:
        click.echo(f"\n{found.body}")
    if found.files is not None:
        table = plain_table(">bytes", "file")
        for bundled in found.files:
            table.add_row(f"{bundled.size:,}", escape(bundled.path))
        say(table if found.files else "no files come with it")
    for line in found.left_out:
        click.echo(f"left out: {line}", err=True)
    return None


@click.command()
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--corpus", "-c", help="The corpus, where the id is in several.")
@click.option("--kind", "kinds", multiple=True, help="Only edges of this kind, e.g. REF; may be given several times.")
@click.option("--reverse", is_flag=True, help="What refers to it, instead of what it refers to.")
@click.option("-k", default=10, show_default=True, help="Without ID: how many.")
@common
def neighbours(
    aid: FindingAid,
    id_: str | None,
    corpus: str | None,
    kinds: tuple[str, ...],
    reverse: bool,
    k: int,
    as_json: bool,
) -> None:
    """Show what an artifact refers to; without ID what most artifacts refer to. What is in no corpus has no title.

    \b
    Examples:
      findingaid neighbours lancedb
      findingaid neighbours numpy --reverse --json
      findingaid neighbours --corpus docs --kind LINK
    """
    if id_ is None:
        return _print_referenced(aid.most_referenced(k, corpora=[corpus] if corpus else None, kinds=kinds), as_json)
    found = aid.neighbours(id_, corpus, kinds=kinds, reverse=reverse)
    if as_json:
        return say_json([neighbour.to_dict() for neighbour in found])
    table = plain_table("kind", "corpus", "artifact", "section", "title")
    for n in found:
        table.add_row(*map(escape, (n.kind, n.corpus, n.artifact_id, n.section, n.title or "-")))
    return say(table if found else "nothing refers to it" if reverse else "it refers to nothing")


def _print_referenced(found: Sequence[Referenced], as_json: bool) -> None:
    if as_json:
        return say_json([referenced.to_dict() for referenced in found])
    table = plain_table(">references", "corpus", "artifact", "title")
    for r in found:
        table.add_row(f"{r.references:,}", r.corpus, escape(r.artifact_id), escape(r.title or "-"))
    return say(table if found else "nothing refers to anything")
