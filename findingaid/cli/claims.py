"""Command group `claims`: list the claims of artifacts, and record decisions on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from rich.markup import escape

from findingaid.claims.model import Circulation, Evidence, Review, Tier, Truth
from findingaid.cli.common import common, corpus_option
from findingaid.cli.options import HelpGroup, TextFile, csv_option
from findingaid.cli.printing import lines, plain_table, say, say_csv, say_json, say_json_lines, say_line, snippet
from findingaid.cli.results import printed_span
from findingaid.errors import QueryError

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.claims.decisions import Decision
    from findingaid.claims.review import ClaimView, ProposedClaim

SHORT_ID = 10
"""Characters of an id that a table shows; enough to name a claim by."""


def enum_choice(words: Iterable[StrEnum]) -> click.Choice[str]:
    """Return a choice by the values of an enum. By default click would offer its names."""
    return click.Choice([word.value for word in words])


@click.group(cls=HelpGroup)
def claims() -> None:
    """List claims, and record decisions on them. Decisions are permanent: indexing again keeps them.

    Commands that decide take ids, which may be abbreviated, or a file with one id per line. Either all claims are
    decided, or none.
    """


@claims.command("list")
@corpus_option
@click.option("--artifact", help="Only claims of this artifact.")
@click.option("--review", type=enum_choice(Review), help="Only claims with this review status.")
@click.option("--truth", type=enum_choice(Truth), help="Only claims with this truth level.")
@click.option("--circulation", type=enum_choice(Circulation), help="Only claims with this circulation status.")
@click.option("--evidence", type=enum_choice(Evidence), help="Only claims with this evidence.")
@click.option("--tier", type=enum_choice(Tier), help="Only claims of this tier.")
@click.option(
    "--expired/--no-expired", default=None, help="Only claims that no artifact states any more, or only the others."
)
@click.option(
    "--limit", type=click.IntRange(min=0), default=50, show_default=True, help="Number of claims to list; 0 for all."
)
@csv_option
@common
def list_(
    aid: FindingAid,
    corpora: tuple[str, ...],
    artifact: str | None,
    limit: int,
    as_csv: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """List claims with their status, and say in which artifacts none was found, and why.

    --json and --csv list all claims unless --limit is given.

    \b
    Examples:
      findingaid claims list
      findingaid claims list --review pending --corpus docs
      findingaid claims list --tier unreviewed --evidence verified --json
    """
    if artifact:
        artifact = _artifact_id(aid.within(corpora) if corpora else aid, artifact)
    found = aid.claims.within(corpora).list(artifact=artifact, **filters)
    given = click.get_current_context().get_parameter_source("limit") is not ParameterSource.DEFAULT
    shown = found[:limit] if limit and (given or not (as_json or as_csv)) else found
    if as_csv:
        return say_csv([view.to_dict() for view in shown])
    _print_claims(shown, as_json)
    if not as_json:
        if len(shown) < len(found):
            say(f"{len(shown):,} of {len(found):,} claims; --limit 0 lists all")
        if all(value is None for value in filters.values()):
            _print_absences(aid, corpora, artifact, none=not found)
    return None


def _artifact_id(aid: FindingAid, named: str, corpus: str | None = None) -> str:
    """Return the id of the artifact that a name denotes; the name itself if no such artifact is published."""
    key = aid.resolve(aid.artifact_of_file(named, corpus), corpus)
    return key[1] if key else named


def _print_absences(aid: FindingAid, corpora: Sequence[str], artifact: str | None, *, none: bool) -> None:
    """Print in which artifacts no claim was found, or why one artifact has none."""
    if artifact is None:
        for corpus, unclaimed in aid.unclaimed(corpora).items():
            if str(unclaimed):
                say_line(f"{corpus}: {unclaimed}")
    elif none:
        for corpus in corpora or aid.corpora:
            for absence in aid.absences(artifact, corpus):
                if absence.what == "claims":
                    say_line(f"{corpus}/{artifact}: {absence.reason}")


@claims.command()
@click.argument("claim", metavar="ID")
@corpus_option
@common
def show(aid: FindingAid, claim: str, corpora: tuple[str, ...], as_json: bool) -> None:
    """Show a claim: its passages, its status and the decisions on it.

    \b
    Examples:
      findingaid claims show 1f0a9c33d2
      findingaid claims show 1f0a9c33d2 --json
    """
    within = aid.claims.within(corpora)
    view, history = within.show(claim), within.history(claim)
    if as_json:
        return say_json(view.to_dict() | {"history": [decision.to_dict() for decision in history]})
    say(f"[bold]{escape(view.text or '(redacted)')}[/bold]\n{view.claim_id}  {view.corpus}  {escape(_standing(view))}")
    for evidence in view.evidences if view.text else ():
        at = f" {printed_span(evidence.span, evidence.artifact_version)}" if evidence.span else ""
        by = f"  by {evidence.producer_id}" if evidence.producer_id else ""
        say("")
        say_line(f"{evidence.artifact_id}{at}  {evidence.evidence}{by}")
        if evidence.quote:
            say(escape(f"  {' '.join(evidence.quote.split())}"))
    if history:
        say("")
        _print_history(history)
    return None


@claims.command()
@click.argument("claim", metavar="[ID]", required=False)
@corpus_option
@common
def history(aid: FindingAid, claim: str | None, corpora: tuple[str, ...], as_json: bool) -> None:
    """Show all decisions, or those of one claim, oldest first.

    \b
    Examples:
      findingaid claims history
      findingaid claims history 1f0a9c33d2 --json
    """
    found = aid.claims.within(corpora).history(claim)
    if as_json:
        return say_json([decision.to_dict() for decision in found])
    return _print_history(found)


@claims.command()
@common
def export(aid: FindingAid, as_json: bool) -> None:
    """Print the whole log of decisions, one JSON object per line, to keep it or to import it elsewhere.

    \b
    Examples:
      findingaid claims export > decisions.jsonl
    """
    from findingaid.claims.decisions import DecisionLog

    say_json_lines(decision.to_line() for decision in DecisionLog(aid.store).all())


@claims.command("import")
@click.argument("file", type=TextFile())
@common
def import_(aid: FindingAid, file: str, as_json: bool) -> None:
    """Append the decisions of an exported log that this store lacks; - reads standard input.

    The file must continue the log of the store, which may be empty. Index afterwards.

    \b
    Examples:
      findingaid claims import decisions.jsonl
    """
    from findingaid.claims.decisions import Decision

    decisions = []
    for number, line in enumerate(file.split("\n"), 1):
        if line.strip():
            try:
                decisions.append(Decision.parse(line))
            except QueryError as error:
                raise QueryError(f"line {number}: {error}") from None
    count = aid.claims.import_log(decisions)
    if as_json:
        return say_json({"imported": count})
    say(f"{count:,} of {len(decisions):,} decisions imported" + (": run `findingaid index`" if count else ""))
    return None


@claims.command()
@click.argument("artifact", required=False)
@click.argument("text", required=False)
@click.option("--quote", default="", help="Passage of the artifact that supports it.")
@click.option("--type", "kind", default="fact", show_default=True, help="Kind of statement.")
@click.option("--entity", "entities", multiple=True, help="Person, thing or topic that it is about; may be repeated.")
@click.option(
    "--file",
    type=TextFile(),
    help="File with proposals, one JSON object per line; - for standard input.",
)
@click.option("--actor", help="Author of the proposal. Default: the current user.")
@click.option("--reason", default="", help="Reason, recorded with the decision.")
@click.option("--corpus", "-c", help="Corpus, if there is more than one.")
@common
def propose(
    aid: FindingAid,
    artifact: str | None,
    text: str | None,
    quote: str,
    kind: str,
    entities: tuple[str, ...],
    file: str | None,
    actor: str | None,
    reason: str,
    corpus: str | None,
    as_json: bool,
) -> None:
    """Propose a claim that an artifact states. It is pending until someone approves it.

    \b
    Examples:
      findingaid claims propose how-it-works.md "A crash loses no artifact." --quote "redoes only that"
      findingaid claims propose --file proposals.jsonl --actor ann --json
    """
    from findingaid.claims.review import ProposedClaim

    within = aid.claims.within([corpus] if corpus else None)
    named = next(iter(within.corpora)) if len(within.corpora) == 1 else ""
    given = (file or "").split("\n")
    proposals = [_proposal(line, number, named) for number, line in enumerate(given, 1) if line.strip()]
    if artifact and text:
        if not named:
            raise QueryError(f"propose: choose a corpus with --corpus: {', '.join(within.corpora)}")
        proposals.append(ProposedClaim(named, _artifact_id(aid, artifact, named), text, quote, None, kind, entities))
    _print_claims(within.propose(*proposals, actor=actor, reason=reason), as_json)


def _parse_pairs(action: str, words: Sequence[str], lines: Sequence[str]) -> list[tuple[str, ...]]:
    pairs = [*([tuple(words)] if words else []), *(tuple(line.split()) for line in lines)]
    if wrong := next((pair for pair in pairs if len(pair) != 2), None):
        raise QueryError(f"{action}: expected two ids, got {len(wrong)}: {' '.join(wrong)}")
    return pairs


def _parse_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise QueryError(
            f"undo: {text!r} is not the number of a decision: `findingaid claims history` shows numbers"
        ) from None


def _add_decision(
    action: str,
    about: str,
    parse: Callable[[str, Sequence[str], Sequence[str]], Sequence[Any]] = lambda _, words, lines: [*words, *lines],
    lines: str = "ids, one per line",
    metavar: str = "[ID]...",
    extra: Callable[..., Any] = lambda command: command,
) -> None:
    """Add the command for a kind of decision: it calls the method of `Claims` with its name. `extra` adds an option."""

    def decide(
        aid: FindingAid, words: tuple[str, ...], file: str | None, corpora: tuple[str, ...], as_json: bool, **given: Any
    ) -> None:
        decided = parse(action, words, [line.strip() for line in (file or "").split("\n") if line.strip()])
        _print_claims(getattr(aid.claims.within(corpora), action)(*decided, **given), as_json)

    command: Callable[..., Any] = decide
    for option in (
        corpus_option,
        click.option("--reason", default="", help="Reason, recorded with the decision."),
        click.option("--actor", help="Author of the decision. Default: the current user."),
        click.option("--file", type=TextFile(), help=f"File with {lines}; - for standard input."),
        click.argument("words", nargs=-1, metavar=metavar),
    ):
        command = option(command)
    claims.command(action, help=about)(extra(common(command)))


_add_decision(
    "approve",
    """Approve claims, so that they are cited as approved. Approve again to change the truth level.

    \b
    Examples:
      findingaid claims approve 1f0a9c33d2 --truth working
      findingaid claims approve --file ids.txt --actor ann --reason "read them all" --json
    """,
    extra=click.option(
        "--truth",
        type=enum_choice((Truth.STABLE, Truth.ACTIONABLE, Truth.WORKING)),
        default=Truth.STABLE.value,
        show_default=True,
        help="Truth level of the claims.",
    ),
)
_add_decision(
    "reject",
    """Reject claims and record the reason. They are no longer shown.

    \b
    Examples:
      findingaid claims reject 1f0a9c33d2 --reason "it was true of version 1"
    """,
)
_add_decision(
    "contest",
    """Record that two claims contradict each other. Both are contested until one is out of use.

    \b
    Examples:
      findingaid claims contest 1f0a9c33d2 77ab03e5c1 --reason "they name different defaults"
    """,
    _parse_pairs,
    "two ids per line",
)
_add_decision(
    "supersede",
    """Replace the first claim by the second.

    \b
    Examples:
      findingaid claims supersede 1f0a9c33d2 77ab03e5c1 --reason "since version 2"
    """,
    _parse_pairs,
    "two ids per line",
)
_add_decision(
    "archive",
    """Take claims out of use, without a decision on whether they are right.

    \b
    Examples:
      findingaid claims archive 1f0a9c33d2
    """,
)
_add_decision(
    "restore",
    """Take archived or superseded claims into use again, as they were before.

    \b
    Examples:
      findingaid claims restore 1f0a9c33d2
    """,
)
_add_decision(
    "undo",
    """Undo decisions by their numbers, so that each claim is as it was before. `claims history` shows the numbers.

    The newest is undone first. A redaction is final. An undo can be undone by its own number.

    \b
    Examples:
      findingaid claims undo 12
      findingaid claims undo 12 13 --reason "the wrong file"
    """,
    lambda _, words, lines: [*map(_parse_number, (*words, *lines))],
    "numbers, one per line",
    "[NUMBER]...",
)
_add_decision(
    "redact",
    """Remove the text of claims from all stored data, permanently.

    The claims are no longer shown. Run `index`, then `purge`, to remove them from disk. The source is not changed.

    \b
    Examples:
      findingaid claims redact 1f0a9c33d2 --reason "names a customer"
      findingaid index && findingaid purge
    """,
)


def _proposal(line: str, number: int, corpus: str) -> ProposedClaim:
    from findingaid.claims.review import ProposedClaim

    try:
        said = {"corpus": corpus} | json.loads(line)
        span = said.pop("span", None)
        return ProposedClaim(**said, span=tuple(span) if span else None)
    except (ValueError, TypeError) as error:
        raise QueryError(
            f"propose: line {number} is not a proposal such as"
            f' {{"artifact_id": "a.md", "text": "…", "quote": "…"}}: {error}'
        ) from None


def _print_claims(found: Sequence[ClaimView], as_json: bool) -> None:
    if as_json:
        return say_json([view.to_dict() for view in found])
    table = plain_table("claim", "corpus", "artifact", "standing", "evidence", "text")
    for view in found:
        artifacts = lines(*dict.fromkeys(claim.artifact_id for claim in view.evidences))
        text = snippet(view.text) or "(redacted)"
        table.add_row(view.claim_id[:SHORT_ID], view.corpus, artifacts, _standing(view), view.evidence, escape(text))
    return say(table if found else "no claims")


def _standing(view: ClaimView) -> str:
    """Describe the standing of a claim, leaving out default values."""
    words: list[str] = [view.review, *([] if view.truth is Truth.WORKING else [view.truth])]
    if view.circulation is not Circulation.LIVE:
        words = [*words, view.circulation]
    if view.tier == Tier.POLICY:
        words.append("by policy")
    words += ["expired"] * view.expired + ["not indexed yet"] * view.waits
    return ", ".join(words)


def _print_history(found: Sequence[Decision]) -> None:
    table = plain_table(">#", "at", "actor", "action", "claim", "reason")
    for d in found:
        what = f"{d.action} {d.truth or d.undoes or ''}".rstrip()
        other = [f"by {d.other_id[:SHORT_ID]}"] if d.other_id else []
        claim = lines(d.claim_id[:SHORT_ID], *other)
        reason = "(redacted)" if d.reason is None else d.reason
        table.add_row(str(d.seq), f"{d.at:%Y-%m-%d %H:%M}", escape(d.actor), what, claim, escape(reason))
    say(table if found else "no decisions")
