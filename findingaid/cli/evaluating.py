"""`eval` and `eval generate`; what they measure with is loaded by them alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from findingaid.cli.common import common, config_option, corpus_option, json_option, one_line_errors, tell
from findingaid.cli.printing import plain_table, progress_bars, say, say_json

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.evaluation import Comparison, Evaluation


@click.group("eval", invoke_without_command=True)
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
      findingaid eval answers --set qmsum -n 50
      findingaid eval generate --corpus docs -n 50 -o cases.yaml
    """
    from findingaid import evaluating
    from findingaid.evaluation import BeirSet
    from findingaid.evaluation.plots import draw

    if context.invoked_subcommand:
        return None
    path, told = evaluating.apart(words)
    cases = evaluating.load(path, split)
    setups = evaluating.setups(config, told, others, indexes=isinstance(cases, BeirSet))
    with progress_bars(enabled=not as_json) as progress:
        evaluations = [evaluating.evaluate_as(setup, cases, progress, **given) for setup in setups]
    comparisons = [evaluations[0].versus(other) for other in evaluations[1:]]
    if plot:
        draw(evaluations, plot)
    if as_json:
        return say_json(
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

    with progress_bars(enabled=not as_json) as progress:
        made = generating.generate(aid, corpus, count, seed, progress(corpus) if progress else None)
    made.write(output)
    if as_json:
        say_json({"generated_by": made.generated_by, "cases": len(made.cases), "problems": list(made.problems)})
    else:
        say(escape(f"{len(made.cases)} cases by {made.generated_by} in {output}"))
        tell(made.problems)
    if made.problems:
        sys.exit(1)


@evaluate.command("answers")
@corpus_option
@click.option(
    "--set", "words", multiple=True, metavar="DIR|FILE|KEY=VALUE", help="As of `eval`: a set or cases; settings."
)
@click.option("-n", "count", type=click.IntRange(1), help="Only so many of the questions, drawn by the seed.")
@click.option("--depth", default=3, show_default=True, help="How many claims an answer has, at most.")
@click.option("--max-chars", default=4000, show_default=True, help="Characters of an answer.")
@click.option("--llm", is_flag=True, help="Have the configured model write.")
@click.option("--split", help="Which qrels of a set, where it has several. Default: test, else the only one.")
@click.option("--store", "folder", type=click.Path(), help="Where indexes of sets are kept.")
@click.option("--seed", default=0, show_default=True, help="Of the draw and of the intervals.")
@json_option
@config_option
@one_line_errors
def grade(
    words: tuple[str, ...],
    config: str | None,
    corpora: tuple[str, ...],
    split: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Measure how good answers are: whether quotes carry them, and whether they cite what answers the question.

    The documents of a set are indexed with claims, cut as those of the corpus named. Intervals are of 95 %. What each
    measure is, and what it cannot see, stands in docs/answers.md.

    \b
    Examples:
      findingaid eval answers --set cases.yaml
      findingaid eval answers --set qmsum -n 50 --depth 5 --json
    """
    import findingaid
    from findingaid import evaluating
    from findingaid.config import parse_override

    path, told = evaluating.apart(words)
    aid = findingaid.open(config, dict(map(parse_override, told)))
    with progress_bars(enabled=not as_json) as progress:
        found = evaluating.answers(
            aid,
            evaluating.load(path, split),
            corpora=corpora or None,
            name=path,
            progress=partial(progress("answers"), "questions") if progress else None,
            indexing=progress,
            **given,
        )
    if as_json:
        return say_json(found.to_dict())
    table = plain_table("measure", ">cases", ">mean, 95 %")
    for measure, score in found.scores.items():
        table.add_row(measure, f"{found.count(measure):,}", str(score or "-"))
    return say(table)


def _print_evaluations(evaluations: Sequence[Evaluation], comparisons: Sequence[Comparison]) -> None:
    measures = evaluations[0].measures
    table = plain_table("", "kind", ">cases", *(f">{measure}" for measure in measures))
    for evaluation in evaluations:
        for kind, scores in evaluation.table().items():
            cells = [str(score or "-") for score in scores.values()]
            table.add_row(escape(evaluation.name), escape(kind or "all"), f"{evaluation.count(kind):,}", *cells)
    say(table)
    for comparison in comparisons:
        say(escape(f"\n{comparison.name} beside {comparison.versus}:"))
        differences = plain_table("", ">difference", "95 %", ">p")
        for measure, found in comparison.differences.items():
            differences.add_row(measure, f"{found.value:+.3f}", f"{found.low:+.3f} {found.high:+.3f}", f"{found.p:.2g}")
        say(differences)
