"""Commands `search`, `browse`, `show` and `neighbours`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

import click
from rich.markup import escape

from findingaid.cli.answering import print_passages
from findingaid.cli.common import (
    OneLine,
    corpus_option,
    fresh_option,
    mode_option,
    query_argument,
    reading,
    search_option,
    surfaces_option,
    where_option,
)
from findingaid.cli.options import csv_option, quiet_option
from findingaid.cli.printing import lines, plain_table, say, say_csv, say_json, say_plain, snippet
from findingaid.cli.results import Highlighter, format_freshness, fresh_words, mark_passage, open_in_editor, render_hits
from findingaid.config.loading import parse_part
from findingaid.errors import ConfigError, FindingAidError, QueryError, visible_line
from findingaid.query.lookup.disclosure import Level
from findingaid.query.lookup.places import line_of, span_of_line
from findingaid.query.lookup.resolve import place_in
from findingaid.query.search import Recency
from findingaid.query.search.fusion import CANDIDATES
from findingaid.query.search.hits import HitGroup, drop_repeats, group_by_artifact

READ_ON = 5
"""Records that are asked for each file that is listed, so that a file with many hits leaves room for others.

All in all `CANDIDATES` at most, which are ranked anyway.
"""

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.query.lookup.artifact import AnchoredSummaryView, ArtifactView
    from findingaid.query.lookup.disclosure import Disclosure
    from findingaid.query.lookup.places import Location
    from findingaid.query.lookup.references import ReferenceCount
    from findingaid.query.search.options import FreshnessOption


def parse_spec(_: click.Context, option: click.Parameter, value: str | None) -> Any:
    """Parse an option that is a kind, a YAML mapping of kind and settings, or `none`."""
    try:
        return None if value is None else parse_part(value, f"--{option.name}")
    except FindingAidError as error:
        raise OneLine(error) from error


def step_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for steps before and after the ranking, as keywords of `FindingAid.search`."""
    kind = {"metavar": "KIND|{kind: …}|none", "callback": parse_spec}
    for option in (
        search_option("expand", metavar="N|section|artifact|none"),
        search_option("select", **kind),
        search_option("rerank_depth", type=int),
        search_option("rerank", **kind),
        search_option("rewrite", **kind),
    ):
        command = option(command)
    return command


@click.command()
@query_argument
@click.option("-k", default=10, show_default=True, help="Number of passages.")
@corpus_option
@mode_option
@where_option
@surfaces_option
@click.option("--also", multiple=True, metavar="QUERY", help="Another query, ranked together; may be repeated.")
@click.option(
    "--weight", "weights", multiple=True, metavar="KIND=NUMBER", help="Factor of a surface kind; may be repeated."
)
@search_option("recency", metavar="FIELD=DAYS")
@search_option("per_artifact", is_flag=True)
@click.option("--all", "every", is_flag=True, help="List every passage, not only the best of each file.")
@click.option(
    "--open", "opened", type=click.IntRange(min=1), metavar="N", help="Open the N-th hit in $VISUAL or $EDITOR."
)
@search_option("offset", default=0, show_default=True)
@click.option("--blend", type=float, help="Share of the dense score in a hybrid score. Default: 0.5, or as configured.")
@click.option("--rrf", is_flag=True, help="Fuse by reciprocal rank instead of blending scores.")
@search_option("timeout", type=float, metavar="SECONDS")
@search_option("explain", is_flag=True)
@search_option("route", metavar="NAME|MODULE:ATTRIBUTE")
@search_option("use_summaries", is_flag=True)
@search_option("summary_top_k", default=3, show_default=True)
@step_options
@fresh_option
@csv_option
@quiet_option
@reading
def search(
    aid: FindingAid,
    query: str,
    also: tuple[str, ...],
    surfaces: str | None,
    weights: tuple[str, ...],
    recency: str | None,
    blend: float | None,
    rrf: bool,
    every: bool,
    opened: int | None,
    quiet: bool,
    as_csv: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Search the published index.

    Lists up to K files, each with its best record, and counts its other good records. --all lists K records, and so do
    --json and --csv. With --offset, or a step that works on K records, the files of these K records are listed.
    --use-summaries also lists the summary node of such a file, with its best claims beneath.

    \b
    Examples:
      findingaid search how are versions compared
      findingaid search how are versions compared --open 1
      findingaid search "vector database" -k 3 --corpus environment --surfaces description
      findingaid search lance --mode lexical --where "corpus = 'environment'" --json
      findingaid search "broken lock" --also "lease lost" --per-artifact --explain
      findingaid search "what was decided" --recency ended=30 --weight synopsis=2
      findingaid search "how are versions compared" --select gap --expand section
      findingaid search "what was decided" --use-summaries --summary-top-k 5
      findingaid search "how are versions compared" --fresh
    """
    k, flat = how.pop("k"), every or as_json or as_csv
    hits = aid.search(
        [query, *also],
        k if flat or not _may_read_on(aid, how) else max(k, min(k * READ_ON, CANDIDATES)),
        surfaces=None if surfaces is None else [kind.strip() for kind in surfaces.split(",")],
        weights=dict(_number("--weight", weight) for weight in weights),
        recency=Recency(*_number("--recency", recency)) if recency else None,
        blend="rrf" if rrf else blend,
        **how,
    )
    if hits.enough and not quiet:
        say_plain(f"{len(hits)} kept: {hits.enough}", err=True)
    if as_json:
        return say_json([hit.to_dict() for hit in hits])
    if as_csv:
        return say_csv(hits.to_arrow().to_pylist())
    groups = (
        [HitGroup(hit, ()) for hit in drop_repeats(hits)] if every else group_by_artifact(hits, k, how["summary_top_k"])
    )
    locations = aid.locate([group.best for group in groups])
    if opened is not None:
        return _open(aid, groups, locations, opened)
    if not groups:
        why = aid.why_empty(how["corpora"])
        return say(escape(f"nothing found, since nothing is indexed. {why}") if why else "nothing found")
    if hits.fresh_seconds is not None and not quiet:
        say_plain(format_freshness(hits.fresh_seconds), err=True)
    words = Highlighter(hits.queries, aid.store.lexical)
    return say(render_hits(groups, locations, words, how["mode"] if how["explain"] else None))


def _may_read_on(aid: FindingAid, how: Mapping[str, Any]) -> bool:
    """Return whether more than k hits can be asked for at little cost, and have no other result."""
    defaults = aid.search_defaults
    steps = any(how[step] is not None for step in ("rerank", "select", "expand"))
    configured = defaults.rerank or defaults.select or defaults.expand is not None
    return not (how["offset"] or how["per_artifact"] or steps or configured)


def _open(aid: FindingAid, groups: Sequence[HitGroup], locations: Sequence[Location], number: int) -> None:
    """Open a hit in the editor; without an editor or a file, show its artifact with the passage marked."""
    if number > len(groups):
        count = "is 1 hit" if len(groups) == 1 else f"are {len(groups)} hits"
        raise QueryError(f"--open {number}: there {count}: give a lower number")
    hit, location = groups[number - 1].best, locations[number - 1]
    if location.path and (os.environ.get("VISUAL") or os.environ.get("EDITOR")):
        return open_in_editor(location)
    passage = aid.read(hit.record_id, hit.corpus).passage or hit.span
    return _print_text(aid, aid.show(hit.record_id, hit.corpus), passage, location.line)


def _number(option: str, text: str) -> tuple[str, float]:
    """Parse `name=number` into (name, number). Raises ConfigError."""
    name, _, number = text.partition("=")
    try:
        return name.strip(), float(number)
    except ValueError:
        raise ConfigError(f"{option}: expected a name and a number, such as description=2, got {text!r}") from None


@click.command()
@click.argument("id_", metavar="ID")
@click.option("--corpus", "-c", help="Corpus, if the id is in more than one.")
@click.option("--history", is_flag=True, help="Show all anchored summaries of the artifact, oldest first.")
@click.option("--level", type=click.Choice(get_args(Level)), help="Show the metadata, the body or the files instead.")
@click.option("--file", help="Show the text of one of its files instead; --level files lists them.")
@click.option("--pieces", is_flag=True, help="Show its passages instead, in plan order.")
@fresh_option
@reading
def show(
    aid: FindingAid,
    id_: str,
    corpus: str | None,
    history: bool,
    level: Level | None,
    file: str | None,
    pieces: bool,
    fresh: FreshnessOption,
    as_json: bool,
) -> None:
    """Show the text of an artifact, or a claim with its passages and marked quotes.

    ID is the id of an artifact, a record or a claim, or a place as `search` prints it: then the passage is marked. An
    artifact without a text, and --pieces, show the records. --json has the records.

    \b
    Examples:
      findingaid show strategies.md
      findingaid show docs/strategies.md:12
      findingaid show strategies.md --pieces
      findingaid show 6f0c9ad1f7a4c2f8b7d5f7a1c3e2b4d6
      findingaid show lancedb --corpus environment --json
      findingaid show strategies.md --level body
      findingaid show --history -- -home-ada-shop/84a7e050
    """
    id_ = aid.artifact_of_file(id_, corpus)
    if history:
        return _print_history(aid.history(id_, corpus), as_json)
    if level or file is not None:
        return _print_disclosure(aid.disclose(id_, level or "files", corpus, file, fresh=fresh), as_json)
    if claim := aid.passages(id_, [corpus] if corpus else None, fresh=fresh):
        return say_json(claim.to_dict()) if as_json else print_passages(claim)
    view = aid.show(id_, corpus, fresh=fresh)
    if as_json:
        return say_json(view.to_dict())
    if pieces:
        return _print_pieces(view)
    place = place_in(id_, (view.corpus, view.artifact_id))
    if any(record.record_id == id_ for record in view.records):
        passage = aid.read(id_, view.corpus).passage
    elif passage := place.span:
        found = aid.read(view.artifact_id, view.corpus, span=passage, chars=sys.maxsize)
        passage = found.offset, found.offset + len(found.text)
    return _print_text(aid, view, passage, place.line)


def _print_text(aid: FindingAid, view: ArtifactView, span: tuple[int, int] | None, line: int | None) -> None:
    """Print the text of an artifact with a passage or a line marked, or its records if it has no text."""
    try:
        text = aid.disclose(view.artifact_id, "body", view.corpus).body or ""
    except QueryError:
        return _print_pieces(view)
    if span is None and line:
        span = span_of_line(text, line)
    _print_heading(view)
    return say(mark_passage(text, span), line_of(text, span[0]) if span else 1)


def _print_heading(view: ArtifactView) -> None:
    say(
        f"[bold]{escape(view.title)}[/bold]  {view.corpus}/{escape(visible_line(view.artifact_id))}"
        f"  version {view.artifact_version}{fresh_words(view)}"
    )
    for note in view.notes:
        say_plain(f"note  {note}")


def _print_pieces(view: ArtifactView) -> None:
    _print_heading(view)
    table = plain_table(">#", "kind", ">span", "text")
    for record in view.records:
        span = f"{record.span[0]}:{record.span[1]}" if record.span else ""
        kind = lines(record.surface_kind, *([f"by {record.producer_id}"] if record.producer_id else []))
        table.add_row(str(record.surface_index), kind, span, escape(snippet(record.text)))
    say(table)
    return


def _print_history(found: Sequence[AnchoredSummaryView], as_json: bool) -> None:
    if as_json:
        return say_json([view.to_dict() for view in found])
    for view in found:
        say(f"[bold]iteration {view.iteration}[/bold]  {view.segments} segments  {view.at}  by {view.producer_id}")
        say(escape(f"\n{view.summary.to_prompt_text()}\n"))
    if not found:
        say("it has no anchored summaries")
    return None


def _print_disclosure(found: Disclosure, as_json: bool) -> None:
    if as_json:
        return say_json(found.to_dict())
    if found.text is not None:
        return say_plain(found.text)
    say(
        f"[bold]{escape(found.title)}[/bold]  {found.corpus}/{escape(visible_line(found.artifact_id))}"
        f"  version {found.artifact_version}{fresh_words(found)}"
    )
    if found.description:
        say_plain(found.description)
    for name, value in found.metadata.items() if found.body is None else ():
        say_plain(f"{name}: {value}")
    if found.body is not None:
        say_plain(f"\n{found.body}")
    if found.files is not None:
        table = plain_table(">bytes", "file")
        for bundled in found.files:
            table.add_row(f"{bundled.size:,}", escape(bundled.path))
        say(table if found.files else "it has no files")
    for line in found.left_out:
        say_plain(f"left out: {line}", err=True)
    return None


@click.command()
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--corpus", "-c", help="Corpus, if the id is in more than one.")
@click.option("--kind", "kinds", multiple=True, help="Only edges of this kind, e.g. REF; may be repeated.")
@click.option("--reverse", is_flag=True, help="Show the artifacts that refer to it instead.")
@click.option("-k", default=10, show_default=True, help="Number of artifacts, without ID.")
@csv_option
@reading
def neighbours(
    aid: FindingAid,
    id_: str | None,
    corpus: str | None,
    kinds: tuple[str, ...],
    reverse: bool,
    k: int,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show the artifacts that an artifact refers to; without ID, those that most artifacts refer to.

    An artifact that is in no corpus has no title.

    \b
    Examples:
      findingaid neighbours lancedb
      findingaid neighbours numpy --reverse --json
      findingaid neighbours --corpus docs --kind LINK
    """
    if id_ is None:
        counts = aid.most_referenced(k, corpora=[corpus] if corpus else None, kinds=kinds)
        return _print_reference_counts(counts, as_json, as_csv)
    found = aid.neighbours(aid.artifact_of_file(id_, corpus), corpus, kinds=kinds, reverse=reverse)
    if as_json or as_csv:
        return (say_json if as_json else say_csv)([neighbour.to_dict() for neighbour in found])
    table = plain_table("kind", "corpus", "artifact", "section", "title")
    rows = [(n.kind, n.corpus, n.artifact_id, n.section, n.title or "-") for n in found]
    for row in dict.fromkeys(rows):  # a wiki link and another link may lead to the same artifact
        table.add_row(*map(escape, row))
    return say(table if found else "nothing refers to it" if reverse else "it refers to nothing")


def _print_reference_counts(found: Sequence[ReferenceCount], as_json: bool, as_csv: bool) -> None:
    if as_json or as_csv:
        return (say_json if as_json else say_csv)([referenced.to_dict() for referenced in found])
    table = plain_table(">references", "corpus", "artifact", "title")
    for r in found:
        table.add_row(f"{r.references:,}", r.corpus, escape(r.artifact_id), escape(r.title or "-"))
    return say(table if found else "there are no references")


@click.command()
@click.argument("folder", default="")
@corpus_option
@where_option
@click.option("--suffix", "suffixes", multiple=True, help="Only ids that end so, e.g. .md; may be repeated.")
@click.option("-k", default=20, show_default=True, help="Number of artifacts.")
@click.option("--offset", default=0, help="Number of newer artifacts to leave out.")
@csv_option
@reading
def browse(
    aid: FindingAid,
    folder: str,
    corpora: tuple[str, ...],
    where: str | None,
    suffixes: tuple[str, ...],
    k: int,
    offset: int,
    as_csv: bool,
    as_json: bool,
) -> None:
    """List the indexed artifacts, newest first: all, or those whose ids begin with FOLDER.

    \b
    Examples:
      findingaid browse
      findingaid browse notes/ --suffix .md -k 50
      findingaid browse --corpus docs --json
    """
    found = aid.browse(corpora, where=where, suffixes=suffixes, folder=folder, k=k, offset=offset)
    if as_json:
        return say_json(found.to_dict())
    if as_csv:
        return say_csv([asdict(artifact) for artifact in found.newest])
    table = plain_table("changed", "corpus", "artifact", "title")
    for a in found.newest:
        table.add_row(a.changed or "-", a.corpus, escape(visible_line(a.artifact_id)), escape(visible_line(a.title)))
    if found.newest:
        say(table)
    kinds = ", ".join(f"{kind.artifacts:,} {kind.value}" for kind in found.suffixes)
    return say_plain(f"{found.artifacts:,} artifacts" + (f": {kinds}" if kinds else ""), err=True)
