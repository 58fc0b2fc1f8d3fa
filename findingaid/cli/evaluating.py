"""Command group `eval`. Its commands import the evaluation modules when called, so that no other command loads them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from findingaid.cli.common import common, corpus_option, one_line_errors, print_problems
from findingaid.cli.options import HelpGroup, config_option, join_overrides, json_option
from findingaid.cli.printing import plain_table, progress_bars, say, say_json, say_plain
from findingaid.errors import ConfigError

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.evaluation.generated_cases import PriceEstimate
    from findingaid.evaluation.tuning import Tuning
    from findingaid.metrics import Comparison, Evaluation
    from findingaid.protocols import Verifier


@click.group("eval", cls=HelpGroup, invoke_without_command=True)
@corpus_option
@click.option(
    "--set",
    "words",
    multiple=True,
    callback=join_overrides,
    metavar="FILE|KEY=VALUE",
    help="File of cases to evaluate. With an =: a search option, such as mode=dense, or a setting.",
)
@click.option(
    "--versus",
    "others",
    multiple=True,
    metavar="KEY=VALUE|FILE",
    help="Compare with other options and settings, or with the findingaid.yaml of another configuration.",
)
@click.option("--metric", "measures", multiple=True, help="Only this measure, e.g. ndcg@10; may be repeated.")
@click.option(
    "--seed", default=0, type=click.IntRange(0), show_default=True, help="Random seed of the intervals and the tests."
)
@json_option
@config_option
@click.pass_context
@one_line_errors
def evaluate(
    context: click.Context,
    words: tuple[str, ...],
    config: str | None,
    others: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Measure how well searches of the published index find the expected artifacts for known questions.

    Intervals are 95 % intervals; p is from a paired randomisation test.

    \b
    Examples:
      findingaid eval --set cases.yaml
      findingaid eval --set cases.yaml --versus mode=dense --versus mode=lexical
      findingaid eval --set cases.yaml --corpus docs --set mode=dense --versus other.yaml --json
      findingaid eval answers --set cases.yaml -n 50
      findingaid eval generate --corpus docs -n 50 -o cases.yaml
    """
    from findingaid.evaluation import searches as evaluating
    from findingaid.metrics import load_cases

    if context.invoked_subcommand:
        return None
    path, told = evaluating.split_words(words)
    cases = load_cases(path)
    setups = evaluating.setups(config, told, others)
    with progress_bars(enabled=not as_json) as progress:
        evaluations = [evaluating.evaluate_as(setup, cases, progress, **given) for setup in setups]
    comparisons = [evaluations[0].versus(other) for other in evaluations[1:]]
    if as_json:
        return say_json(
            {"evaluations": [e.to_dict() for e in evaluations], "comparisons": [c.to_dict() for c in comparisons]}
        )
    return _print_evaluations(evaluations, comparisons)


@evaluate.command()
@click.option("--corpus", "-c", required=True, help="Corpus to draw passages from.")
@click.option("-n", "count", default=50, show_default=True, type=click.IntRange(1), help="Maximum number of cases.")
@click.option("--output", "-o", required=True, type=click.Path(), help="File to write, which must not exist.")
@click.option("--seed", default=0, show_default=True, help="Random seed for drawing passages.")
@click.option("--plan", is_flag=True, help="Only print what this costs at most; call no model.")
@common
def generate(aid: FindingAid, corpus: str, count: int, output: str, seed: int, plan: bool, as_json: bool) -> None:
    """Have a model write cases: a question about each of -n passages, which it cites. Review them before use.

    The model that writes the synopses of the corpus is used. Exits with 1 if a case could not be written.

    \b
    Examples:
      findingaid eval generate --corpus docs -n 50 -o cases.yaml
    """
    from findingaid.evaluation import generated_cases as generating

    if plan:
        return _print_price(generating.estimate_price(aid, corpus, count, seed), as_json)
    with progress_bars(enabled=not as_json) as progress:
        made = generating.generate(aid, corpus, count, seed, progress(corpus) if progress else None)
    made.write(output)
    if as_json:
        say_json({"generated_by": made.generated_by, "cases": len(made.cases), "problems": list(made.problems)})
    else:
        say(escape(f"{len(made.cases)} cases by {made.generated_by} in {output}"))
        print_problems(made.problems)
    if made.problems:
        sys.exit(1)
    return None


@evaluate.command()
@click.argument("path", metavar="CASES")
@corpus_option
@click.option("--metric", "measure", default="ndcg@10", show_default=True, help="Measure to improve.")
@click.option(
    "--seed", default=0, type=click.IntRange(0), show_default=True, help="Random seed of the intervals and the tests."
)
@common
def tune(
    aid: FindingAid,
    corpora: tuple[str, ...],
    path: str,
    measure: str,
    seed: int,
    as_json: bool,
) -> None:
    """Find the best search settings for a file of CASES, and print the lines to put into the configuration.

    Compares the configured search with other blends, then with routes. A change is recommended only if its p value,
    multiplied by the number of settings tried, is at most 0.05. No model is called, unless searches use one.

    \b
    Examples:
      findingaid eval tune cases.yaml
      findingaid eval tune cases.yaml --corpus docs --metric recall@10
    """
    from findingaid.evaluation.tuning import tune as tuned
    from findingaid.metrics import load_cases

    with progress_bars(enabled=not as_json) as progress:
        found = tuned(aid, load_cases(path), measure, corpora=corpora or None, seed=seed, progress=progress)
    if as_json:
        return say_json(found.to_dict())
    return _print_tuning(found)


@evaluate.command("answers")
@corpus_option
@click.option(
    "--set",
    "words",
    multiple=True,
    callback=join_overrides,
    metavar="FILE|KEY=VALUE",
    help="File of cases, as in `eval`. With an =: a setting.",
)
@click.option("-n", "count", type=click.IntRange(1), help="Number of questions, drawn by the seed. Default: all.")
@click.option(
    "--depth", default=3, show_default=True, help="Maximum number of claims and passages that an answer cites."
)
@click.option("--max-chars", default=4000, show_default=True, help="Maximum characters of an answer.")
@click.option("--llm", is_flag=True, help="Let the configured model write the answers.")
@click.option(
    "--judge",
    metavar="KIND|SPEC",
    help="Verifier that judges each sentence too: a kind, or a mapping such as '{kind: openai, model: gpt-5-mini}'.",
)
@click.option("--seed", default=0, show_default=True, help="Random seed of the draw and the intervals.")
@json_option
@config_option
@one_line_errors
def grade(
    words: tuple[str, ...],
    config: str | None,
    corpora: tuple[str, ...],
    judge: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Measure how good answers are: whether they cite the right sentences, and refuse questions without an answer.

    Intervals are 95 % intervals. docs/evaluation.md explains each measure and its limits.

    \b
    Examples:
      findingaid eval answers --set cases.yaml
      findingaid eval answers --set cases.yaml -n 50 --depth 5 --json
    """
    import findingaid
    from findingaid.config.loading import parse_override
    from findingaid.evaluation import searches as evaluating

    path, told = evaluating.split_words(words)
    aid = findingaid.open(config, dict(map(parse_override, told)))
    with progress_bars(enabled=not as_json) as progress:
        found = evaluating.evaluate_answers(
            aid,
            path,
            corpora=corpora or None,
            name=path,
            progress=partial(progress("answers"), "questions") if progress else None,
            judge=_verifier(judge) if judge else None,
            **given,
        )
    if as_json:
        return say_json(found.to_dict())
    table = plain_table("measure", ">cases", ">value, 95 %")
    for measure, score in found.scores.items():
        table.add_row(measure, f"{found.count(measure):,}", str(score or "-"))
    return say(table)


def _print_price(price: PriceEstimate, as_json: bool) -> None:
    usage = price.usage
    if as_json:
        return say_json({"cases": price.cases, **asdict(usage), "cost": price.cost})
    cost = "the model has no price in `prices`" if price.cost is None else f"{price.cost:.4f}"
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    return say(escape(f"{price.cases} cases, at most {usage.calls:,} calls, {tokens}; cost: {cost}"))


def _print_tuning(found: Tuning) -> None:
    configured = found.tried[0][1]
    table = plain_table("", f">{found.measure}", ">difference", "95 %", ">p")
    for _, tried in found.tried:
        change = tried.versus(configured).differences[found.measure]
        cells = () if tried is configured else (f"{change.value:+.3f}", f"{change.low:+.3f} {change.high:+.3f}")
        p = () if tried is configured else (f"{change.p:.2g}",)
        table.add_row(escape(tried.name), str(tried.score(found.measure)), *cells, *p)
    say(table)
    if not found.advice:
        return say("\nKeep the configuration: no gain is more than chance.")
    say(escape(f"\nPut this into the configuration (p = {found.corrected_p:.2g} after correction):\n"))
    return say_plain(found.lines.rstrip())


def _verifier(spec: str) -> Verifier:
    """Return the verifier of a kind, or of a spec in YAML. Raises ConfigError."""
    import yaml

    from findingaid.query.answers.verification import VERIFIERS

    try:
        given = yaml.safe_load(spec)
    except yaml.YAMLError:
        given = None
    if not isinstance(given, str | dict):
        raise ConfigError(f"verifier: {spec!r} is neither a kind nor a mapping such as {{kind: openai, model: NAME}}")
    return VERIFIERS.create({"kind": given} if isinstance(given, str) else given, "verifier")


def _print_evaluations(evaluations: Sequence[Evaluation], comparisons: Sequence[Comparison]) -> None:
    measures = evaluations[0].measures
    table = plain_table("", "kind", ">cases", *(f">{measure}" for measure in measures))
    for evaluation in evaluations:
        for kind, scores in evaluation.table().items():
            cells = [str(score or "-") for score in scores.values()]
            table.add_row(escape(evaluation.name), escape(kind or "all"), f"{evaluation.count(kind):,}", *cells)
    say(table)
    for comparison in comparisons:
        say(escape(f"\n{comparison.name} compared with {comparison.versus}:"))
        differences = plain_table("", ">difference", "95 %", ">p")
        for measure, found in comparison.differences.items():
            differences.add_row(measure, f"{found.value:+.3f}", f"{found.low:+.3f} {found.high:+.3f}", f"{found.p:.2g}")
        say(differences)
