"""The command line: parses, calls the library, prints. No logic lives here."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

import findingaid
from findingaid.aid import FindingAid, ProgressOf
from findingaid.config import parse_override, parse_part
from findingaid.errors import ConfigError, FindingAidError
from findingaid.model import Hit, Mode, Report
from findingaid.query import Recency
from findingaid.query.disclose import Disclosure, Level
from findingaid.query.edges import Referenced
from findingaid.query.fields import Field
from findingaid.query.routing import ROUTES
from findingaid.query.show import CorpusStatus, SummaryView
from findingaid.query.where import ALWAYS

if TYPE_CHECKING:
    from findingaid.evaluation import Comparison, Evaluation

SNIPPET = 160
"""Characters of a hit's text that a table shows."""


class OneLine(click.ClickException):
    """A findingaid error as click prints it: one line on stderr, exit status 1."""


def one_line_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Errors as one line."""

    @functools.wraps(command)
    def run(*arguments: Any, **named: Any) -> Any:
        try:
            return command(*arguments, **named)
        except FindingAidError as error:
            raise OneLine(str(error)) from error

    return run


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options every command has, and errors as one line."""

    @one_line_errors
    @functools.wraps(command)
    def run(config: str | None, overrides: tuple[str, ...], **arguments: Any) -> Any:
        return command(findingaid.open(config, dict(map(parse_override, overrides))), **arguments)

    for option in (json_option, set_option, config_option):
        run = option(run)
    return run


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of tables.")
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a setting for this run, e.g. --set embedder.kind=hash.",
)
config_option = click.option(
    "--config", type=click.Path(), help="The configuration. Default: $FINDINGAID_CONFIG, else findingaid.yaml."
)


corpus_option = click.option(
    "--corpus", "-c", "corpora", multiple=True, help="Only this corpus; may be given several times."
)


def parts(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options for what is done before and after the ranking, as keywords of `FindingAid.search`."""

    def spec(_: click.Context, option: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else parse_part(value, f"--{option.name}")
        except FindingAidError as error:
            raise OneLine(str(error)) from error

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


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(findingaid.__version__, prog_name="findingaid")
def main() -> None:
    """Index collections incrementally, and search them with citations that can be opened."""


@main.command()
@corpus_option
@common
def plan(aid: FindingAid, corpora: tuple[str, ...], as_json: bool) -> None:
    """Say what `index` would do and cost. Calls no model, writes nothing.

    \b
    Examples:
      findingaid plan
      findingaid plan --corpus docs --json
    """
    report = aid.plan(corpora)
    _print_report(report, as_json, ">to embed", ">to write", "at most ")
    _exit_with(report)


@main.command()
@corpus_option
@click.option("--force", is_flag=True, help="Do every artifact again; calls that were paid for are not repeated.")
@click.option("--pay-again", is_flag=True, help="With --force: ask the models again, too.")
@click.option("--allow-loss", is_flag=True, help="Accept that a source lists far fewer artifacts than are indexed.")
@common
def index(
    aid: FindingAid, corpora: tuple[str, ...], force: bool, pay_again: bool, allow_loss: bool, as_json: bool
) -> None:
    """Bring the index up to date and publish it. Costs what changed.

    Exits with 1 when an artifact or a corpus failed; everything else is published all the same.

    \b
    Examples:
      findingaid index
      findingaid index --corpus docs --set embedder.kind=hash
    """
    with _progress(enabled=not as_json) as progress:
        report = aid.index(corpora, force=force, pay_again=pay_again, allow_loss=allow_loss, progress=progress)
    _print_report(report, as_json, ">embedded", ">synopses")
    _exit_with(report)


@main.command()
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
        return _print_json([hit.to_dict() for hit in hits])
    return _print_hits(hits, how["explain"])


@main.command()
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
    """Show an artifact with its records in plan order; ID is an artifact's or a record's.

    \b
    Examples:
      findingaid show strategies.md
      findingaid show lancedb --corpus environment --json
      findingaid show strategies.md --level body
      findingaid show --history -- -home-ada-shop/84a7e050
    """
    if history:
        return _print_history(aid.history(id_, corpus), as_json)
    if level or file is not None:
        return _print_disclosed(aid.disclose(id_, level or "files", corpus, file), as_json)
    view = aid.show(id_, corpus)
    if as_json:
        return _print_json(view.to_dict())
    _print(
        f"[bold]{escape(view.title)}[/bold]  {view.corpus}/{escape(view.artifact_id)}  version {view.artifact_version}"
    )
    table = _table(">#", "kind", ">span", "text")
    for record in view.records:
        span = f"{record.span[0]}:{record.span[1]}" if record.span else ""
        kind = record.surface_kind + (f"\nby {record.producer_id}" if record.producer_id else "")
        table.add_row(str(record.surface_index), escape(kind), span, escape(_snippet(record.text)))
    _print(table)
    return None


def _print_history(found: Sequence[SummaryView], as_json: bool) -> None:
    if as_json:
        return _print_json([view.to_dict() for view in found])
    for view in found:
        _print(f"[bold]iteration {view.iteration}[/bold]  {view.segments} segments  {view.at}  by {view.producer_id}")
        _print(escape(f"\n{view.summary.to_prompt_text()}\n"))
    if not found:
        _print("no anchored summary of it was written")
    return None


@main.command()
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
        return _print_json([neighbour.to_dict() for neighbour in found])
    table = _table("kind", "corpus", "artifact", "section", "title")
    for n in found:
        table.add_row(*map(escape, (n.kind, n.corpus, n.artifact_id, n.section, n.title or "-")))
    return _print(table if found else "nothing refers to it" if reverse else "it refers to nothing")


def _print_referenced(found: Sequence[Referenced], as_json: bool) -> None:
    if as_json:
        return _print_json([referenced.to_dict() for referenced in found])
    table = _table(">references", "corpus", "artifact", "title")
    for r in found:
        table.add_row(f"{r.references:,}", r.corpus, escape(r.artifact_id), escape(r.title or "-"))
    return _print(table if found else "nothing refers to anything")


@main.command()
@corpus_option
@click.option("--fields", is_flag=True, help="Show the fields that `search --where` can name, with their types.")
@click.option("--failed", is_flag=True, help="Only what failed, one line each.")
@common
def status(aid: FindingAid, corpora: tuple[str, ...], fields: bool, failed: bool, as_json: bool) -> None:
    """Show what the index holds of each corpus, what failed, and what synthesizers have used.

    \b
    Examples:
      findingaid status
      findingaid status --failed
      findingaid status --corpus docs --json
      findingaid status --fields
    """
    if fields:
        return _print_fields(aid.fields(corpora), as_json)
    found = aid.status(corpora)
    if as_json:
        return _print_json([s.to_dict() for s in found])
    if failed:
        return _print_failures(found)
    table = _table("corpus", ">artifacts", ">records", "synopses", ">pending", ">failed", "updated")
    for s in found:
        synopses = ", ".join(f"{n} {outcome}" for outcome, n in s.synopses.items()) or "-"
        table.add_row(
            s.corpus,
            f"{s.artifacts:,}",
            f"{s.records:,}",
            synopses,
            f"{s.pending:,}",
            f"{len(s.failed):,}",
            s.updated or "never",
        )
    _print(table)
    for s in found:
        for used in s.usage:
            _print(escape(f"{s.corpus}: {used}"))
        for batch in s.batches:
            _print(escape(f"{s.corpus}: waits for {batch}"))
    for quality in {s.vector_index for s in found if s.vector_index}:
        _print(escape(f"vectors: {quality}"))
    return _print_failures(found)


def _print_failures(found: Sequence[CorpusStatus]) -> None:
    for s in found:
        for failure in s.failed:
            _print(f"{s.corpus}: {escape(str(failure))}")


@main.command()
@common
def verify(aid: FindingAid, as_json: bool) -> None:
    """Read every table and check that they are whole and agree. Exits with 1 when they do not.

    \b
    Examples:
      findingaid verify
      findingaid verify --json
    """
    problems = aid.verify()
    if as_json:
        _print_json({"ok": not problems, "problems": problems})
    else:
        for problem in problems or ["ok"]:
            _print(escape(problem))
    if problems:
        sys.exit(1)


@main.command()
@common
def versions(aid: FindingAid, as_json: bool) -> None:
    """List the published versions of the records that are kept; `retain` in the configuration says how many.

    \b
    Examples:
      findingaid versions
      findingaid versions --json
    """
    found = aid.versions()
    if as_json:
        return _print_json([v.to_dict() for v in found])
    table = _table(">version", "written", ">records", "")
    for v in found:
        table.add_row(str(v.version), v.written, f"{v.records:,}", "served" if v.served else "")
    _print(table)
    return None


@main.command()
@common
def publish(aid: FindingAid, as_json: bool) -> None:
    """Serve the newest records; what every run does at its end, and what ends a rollback.

    \b
    Examples:
      findingaid publish
      findingaid publish --json
    """
    _print_served(aid.publish(), as_json)


@main.command()
@click.argument("version", type=int, required=False)
@common
def rollback(aid: FindingAid, version: int | None, as_json: bool) -> None:
    """Serve an earlier published version, by default the one before.

    It stays until something new is indexed, or `findingaid publish`.

    \b
    Examples:
      findingaid rollback
      findingaid rollback 12
    """
    _print_served(aid.rollback(version), as_json)


@main.command()
@common
def purge(aid: FindingAid, as_json: bool) -> None:
    """Make what was removed really gone from disk: cached vectors and synopses, earlier versions, leftovers.

    What is not in use is paid for again if it comes back. Run it while nothing else writes.

    \b
    Examples:
      findingaid purge
      findingaid purge --json
    """
    done = aid.purge()
    if as_json:
        return _print_json(done.to_dict())
    return _print(
        f"{done.rows:,} rows, {done.vectors:,} vectors and {done.calls:,} synthesizer results removed,"
        f" {done.bytes / 1e6:,.1f} MB freed"
    )


def _print_hits(hits: Sequence[Hit], explained: bool) -> None:
    table = _table(">score", "corpus", "artifact", "surface", "text", *(["why"] if explained else []))
    for hit in hits:
        surface = f"{hit.surface_kind} {hit.surface_index}" + (f"\n[{hit.span[0]}:{hit.span[1]}]" if hit.span else "")
        cells = [hit.corpus, *map(escape, (hit.artifact_id, surface, _snippet(hit.text)))]
        table.add_row(f"{hit.score:.3f}", *cells, *([escape("\n".join(hit.why()))] if explained else []))
    _print(table if hits else "nothing found")


def _number(option: str, text: str) -> tuple[str, float]:
    """`name=number` -> (name, number)."""
    name, _, number = text.partition("=")
    try:
        return name.strip(), float(number)
    except ValueError:
        raise ConfigError(f"{option} wants a name and a number, such as description=2, got {text!r}") from None


@main.group("eval", invoke_without_command=True)
@corpus_option
@click.option(
    "--set",
    "words",
    multiple=True,
    metavar="DIR|FILE|KEY=VALUE",
    help="What to evaluate: a folder in BEIR's layout, or a file of cases. With an =: an option of the searches, such"
    " as mode=dense, or a setting.",
)
@click.option(
    "--versus",
    "others",
    multiple=True,
    metavar="KEY=VALUE|FILE",
    help="Compare with this: options and settings that differ, or the findingaid.yaml of another configuration.",
)
@click.option(
    "--metric", "measures", multiple=True, help="Only this measure, e.g. ndcg@10; may be given several times."
)
@click.option("--split", help="Which qrels of a set, where it has several. Default: test, else the only one.")
@click.option("--store", "folder", type=click.Path(), help="Where indexes of sets and rankings are kept.")
@click.option("--plot", type=click.Path(), help="Draw the measures with their intervals into this PNG file.")
@click.option("--seed", default=0, type=click.IntRange(0), show_default=True, help="Of the intervals and the tests.")
@json_option
@config_option
@click.pass_context
@one_line_errors
def evaluate(
    context: click.Context,
    words: tuple[str, ...],
    config: str | None,
    others: tuple[str, ...],
    split: str | None,
    plot: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Measure how well known questions find what they should, in what is published or in a set of its own.

    The documents of a set are indexed whole, or cut as those of the corpus named. What was indexed, embedded and
    ranked before is not done again. Intervals are of 95 %; p is of a paired randomisation test.

    \b
    Examples:
      findingaid eval --set cases.yaml
      findingaid eval --set scifact --versus mode=dense --versus mode=lexical --plot scifact.png
      findingaid eval --set scifact --corpus docs --set mode=dense --versus other.yaml --json
      findingaid eval generate --corpus docs -n 50 -o cases.yaml
    """
    if context.invoked_subcommand:
        return None
    from findingaid import evaluating
    from findingaid.evaluation import BeirSet
    from findingaid.evaluation.plots import draw

    path, told = evaluating.apart(words)
    cases = evaluating.load(path, split)
    setups = evaluating.setups(config, told, others, indexes=isinstance(cases, BeirSet))
    with _progress(enabled=not as_json) as progress:
        evaluations = [evaluating.evaluate_as(setup, cases, progress, **given) for setup in setups]
    comparisons = [evaluations[0].versus(other) for other in evaluations[1:]]
    if plot:
        draw(evaluations, plot)
    if as_json:
        return _print_json(
            {"evaluations": [e.to_dict() for e in evaluations], "comparisons": [c.to_dict() for c in comparisons]}
        )
    return _print_evaluations(evaluations, comparisons)


@evaluate.command()
@click.option("--corpus", "-c", required=True, help="The corpus whose passages questions are asked of.")
@click.option("-n", "count", default=50, show_default=True, type=click.IntRange(1), help="How many, at most.")
@click.option("--output", "-o", required=True, type=click.Path(), help="The file to write, which must not be there.")
@click.option("--seed", default=0, show_default=True, help="Of the draw of passages.")
@common
def generate(aid: FindingAid, corpus: str, count: int, output: str, seed: int, as_json: bool) -> None:
    """Have a model write cases: a question to each of some passages, which the file cites. Read them before use.

    The model is the one that writes the corpus's synopses. Exits with 1 when some could not be written.

    \b
    Examples:
      findingaid eval generate --corpus docs -n 50 -o cases.yaml
    """
    from findingaid import generating

    with _progress(enabled=not as_json) as progress:
        made = generating.generate(aid, corpus, count, seed, progress(corpus) if progress else None)
    made.write(output)
    if as_json:
        _print_json({"generated_by": made.generated_by, "cases": len(made.cases), "problems": list(made.problems)})
    else:
        _print(escape(f"{len(made.cases)} cases by {made.generated_by} in {output}"))
        for problem in made.problems:
            click.echo(f"Error: {problem}", err=True)
    if made.problems:
        sys.exit(1)


def _print_evaluations(evaluations: Sequence[Evaluation], comparisons: Sequence[Comparison]) -> None:
    measures = evaluations[0].measures
    table = _table("", "kind", ">cases", *(f">{measure}" for measure in measures))
    for evaluation in evaluations:
        for kind, scores in evaluation.table().items():
            cells = [str(score or "-") for score in scores.values()]
            table.add_row(escape(evaluation.name), escape(kind or "all"), f"{evaluation.count(kind):,}", *cells)
    _print(table)
    for comparison in comparisons:
        _print(escape(f"\n{comparison.name} beside {comparison.versus}:"))
        differences = _table("", ">difference", "95 %", ">p")
        for measure, found in comparison.differences.items():
            differences.add_row(measure, f"{found.value:+.3f}", f"{found.low:+.3f} {found.high:+.3f}", f"{found.p:.2g}")
        _print(differences)


def _print_disclosed(found: Disclosure, as_json: bool) -> None:
    if as_json:
        return _print_json(found.to_dict())
    if found.text is not None:
        return click.echo(found.text)
    _print(
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
        table = _table(">bytes", "file")
        for bundled in found.files:
            table.add_row(f"{bundled.size:,}", escape(bundled.path))
        _print(table if found.files else "no files come with it")
    for line in found.left_out:
        click.echo(f"left out: {line}", err=True)
    return None


def _print_fields(found: Mapping[str, Sequence[Field]], as_json: bool) -> None:
    if as_json:
        return _print_json({corpus: [field.to_dict() for field in fields] for corpus, fields in found.items()})
    table = _table("corpus", "field", "type", ">records")
    for corpus, fields in found.items():
        for field in fields:
            table.add_row(corpus, escape(field.name), escape(field.type), f"{field.records:,}")
    _print(table)
    return _print(f"and of every record: {', '.join(ALWAYS)}")


def _print_served(version: int, as_json: bool) -> None:
    if as_json:
        return _print_json({"served": version})
    return _print(f"readers have version {version}")


def _print_report(report: Report, as_json: bool, embed: str, synthesize: str, spent: str = "") -> None:
    if as_json:
        return _print_json(report.to_dict())
    table = _table("corpus", ">total", ">new", ">changed", ">deleted", ">failed", ">records", embed, synthesize, ">s")
    for name, c in report.corpora.items():
        counts = (c.artifacts, c.new, c.changed, c.deleted, len(c.failed), c.records, c.calls.embed, c.calls.synthesize)
        table.add_row(name, *(f"{count:,}" for count in counts), f"{c.seconds:.1f}")
    _print(table)
    for line in report.repaired:
        _print(escape(line))
    for name, c in report.corpora.items():
        for line in filter(None, (c.warning, c.spent and f"{spent}{c.spent}", c.left)):
            _print(escape(f"{name}: {line}"))
    for problem in report.problems():
        click.echo(f"Error: {problem}", err=True)
    return None


def _exit_with(report: Report) -> None:
    if not report.ok:
        sys.exit(1)


@contextmanager
def _progress(enabled: bool) -> Iterator[ProgressOf | None]:
    """Bars for artifacts and texts, on a terminal only."""
    console = Console(stderr=True)
    if not enabled or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:

        def of_corpus(corpus: str) -> Callable[[str, int, int], None]:
            tasks: dict[str, TaskID] = {}

            def advance(stage: str, more: int, done: int) -> None:
                if stage not in tasks:
                    tasks[stage] = bars.add_task(escape(f"{corpus}: {stage}"), total=0)
                task = tasks[stage]
                bars.update(task, total=(bars.tasks[task].total or 0) + more, advance=done)

            return advance

        yield of_corpus


def _table(*columns: str) -> Table:
    """A plain table; a column whose name begins with ">" holds numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.lstrip(">"), overflow="fold", justify="right" if column.startswith(">") else "left")
    return table


def _print(what: Table | str) -> None:
    # Not a terminal: no colour, and no line folded to a guessed width.
    console = Console(width=None if sys.stdout.isatty() else 160, soft_wrap=isinstance(what, str))
    console.print(what, highlight=False)


def _print_json(value: dict[str, Any] | Sequence[Any]) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def _snippet(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SNIPPET else line[: SNIPPET - 1] + "…"
