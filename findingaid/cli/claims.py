"""`claims`: what artifacts state, and what people decide of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from findingaid.claims.model import Circulation, Evidence, Review, Tier, Truth
from findingaid.cli.common import common, corpus_option
from findingaid.cli.printing import plain_table, say, say_json, snippet
from findingaid.errors import QueryError

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.claims.decisions import Decision
    from findingaid.reviewing import Claims, ClaimView, ProposedClaim

SHORT = 10
"""Characters of an id that a table shows; that many are enough to name a claim by."""


def one_of(words: Iterable[StrEnum]) -> click.Choice[str]:
    """A choice by the words themselves, which click would take by their names."""
    return click.Choice([word.value for word in words])


@click.group()
def claims() -> None:
    """List claims, and decide which of them hold. A decision is kept for good, whatever is indexed again.

    Commands that decide take ids, also cut short, or a file with one on each line; all of them are decided, or none.
    """


def deciding(argument: str = "claims", lines: str = "ids, one on each line") -> Callable[..., Any]:
    """The options of commands that decide: for whom, why, and of what."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            corpus_option,
            click.option("--reason", default="", help="Why, kept with the decision."),
            click.option("--actor", help="Who decides. Default: the user that runs this."),
            click.option("--file", type=click.File(encoding="utf-8"), help=f"Read {lines}; - for standard input."),
            click.argument(argument, nargs=-1, metavar="[ID]..."),
        ):
            command = option(command)
        return common(command)

    return add


@claims.command("list")
@corpus_option
@click.option("--artifact", help="Only of this artifact.")
@click.option("--review", type=one_of(Review), help="Only of which a person said this.")
@click.option("--truth", type=one_of(Truth), help="Only that can be relied on so far.")
@click.option("--circulation", type=one_of(Circulation), help="Only in use, or out of it.")
@click.option("--evidence", type=one_of(Evidence), help="Only whose quote was found, or not.")
@click.option("--tier", type=one_of(Tier), help="Only that are cited for this reason.")
@click.option("--expired/--no-expired", default=None, help="Only that no artifact says any more, or only others.")
@common
def list_(aid: FindingAid, corpora: tuple[str, ...], as_json: bool, **filters: Any) -> None:
    """List claims with where they stand.

    \b
    Examples:
      findingaid claims list
      findingaid claims list --review pending --corpus docs
      findingaid claims list --tier unreviewed --evidence verified --json
    """
    _print_claims(aid.claims.within(corpora).list(**filters), as_json)


@claims.command()
@click.argument("claim", metavar="ID")
@corpus_option
@common
def show(aid: FindingAid, claim: str, corpora: tuple[str, ...], as_json: bool) -> None:
    """Show a claim: its passages, where it stands, and what was decided of it.

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
        at = f" [{evidence.span[0]}:{evidence.span[1]}]" if evidence.span else ""
        by = f"  by {evidence.producer_id}" if evidence.producer_id else ""
        say(escape(f"\n{evidence.artifact_id}{at}  {evidence.evidence}{by}"))
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
@click.argument("artifact", required=False)
@click.argument("text", required=False)
@click.option("--quote", default="", help="The passage of the artifact that says so.")
@click.option("--type", "kind", default="fact", show_default=True, help="What kind of statement it is.")
@click.option("--entity", "entities", multiple=True, help="What it is about; may be given several times.")
@click.option(
    "--file",
    type=click.File(encoding="utf-8"),
    help="Read proposals, a JSON object on each line; - for standard input.",
)
@click.option("--actor", help="Who proposes it. Default: the user that runs this.")
@click.option("--reason", default="", help="Why, kept with the decision.")
@click.option("--corpus", "-c", help="The corpus, where there are several.")
@common
def propose(
    aid: FindingAid,
    artifact: str | None,
    text: str | None,
    quote: str,
    kind: str,
    entities: tuple[str, ...],
    file: Any,
    actor: str | None,
    reason: str,
    corpus: str | None,
    as_json: bool,
) -> None:
    """Say that an artifact states something. It is pending until somebody approves it.

    \b
    Examples:
      findingaid claims propose how-it-works.md "A crash loses no artifact." --quote "redoes only that"
      findingaid claims propose --file proposals.jsonl --actor ann --json
    """
    from findingaid.reviewing import ProposedClaim

    within = aid.claims.within([corpus] if corpus else None)
    named = next(iter(within.corpora)) if len(within.corpora) == 1 else ""
    proposals = [_proposal(line, number, named) for number, line in enumerate(file or (), 1) if line.strip()]
    if artifact and text:
        if not named:
            raise QueryError(f"propose: name the corpus by --corpus: {', '.join(within.corpora)}")
        proposals.append(ProposedClaim(named, artifact, text, quote, None, kind, entities))
    _print_claims(within.propose(*proposals, actor=actor, reason=reason), as_json)


@claims.command()
@click.option(
    "--truth",
    type=one_of((Truth.STABLE, Truth.ACTIONABLE, Truth.WORKING)),
    default=Truth.STABLE.value,
    show_default=True,
    help="How far it can be relied on.",
)
@deciding()
def approve(aid: FindingAid, truth: str, **given: Any) -> None:
    """Stand for claims, so that they are cited as approved.

    \b
    Examples:
      findingaid claims approve 1f0a9c33d2 --truth working
      findingaid claims approve --file ids.txt --actor ann --reason "read them all" --json
    """
    _decide(aid, "approve", truth=truth, **given)


@claims.command()
@deciding()
def reject(aid: FindingAid, **given: Any) -> None:
    """Say that claims do not hold, and why; nobody is shown them from now on.

    \b
    Examples:
      findingaid claims reject 1f0a9c33d2 --reason "it was true of version 1"
    """
    _decide(aid, "reject", **given)


@claims.command()
@deciding(lines="two ids on each line")
def contest(aid: FindingAid, **given: Any) -> None:
    """Say that of two claims one cannot be right; both are contested until one is out of use.

    \b
    Examples:
      findingaid claims contest 1f0a9c33d2 77ab03e5c1 --reason "they name different defaults"
    """
    _decide_of_pairs(aid, "contest", **given)


@claims.command()
@deciding(lines="two ids on each line")
def supersede(aid: FindingAid, **given: Any) -> None:
    """Put the second claim in the place of the first.

    \b
    Examples:
      findingaid claims supersede 1f0a9c33d2 77ab03e5c1 --reason "since version 2"
    """
    _decide_of_pairs(aid, "supersede", **given)


@claims.command()
@deciding()
def archive(aid: FindingAid, **given: Any) -> None:
    """Take claims out of use, without a word on whether they are right.

    \b
    Examples:
      findingaid claims archive 1f0a9c33d2
    """
    _decide(aid, "archive", **given)


@claims.command()
@deciding()
def redact(aid: FindingAid, **given: Any) -> None:
    """Take the words of claims out of everything that is kept, for good.

    Nobody is shown them from now on; `index`, then `purge` take them from disk. Their source keeps what it says.

    \b
    Examples:
      findingaid claims redact 1f0a9c33d2 --reason "names a customer"
      findingaid index && findingaid purge
    """
    _decide(aid, "redact", **given)


def _decide(
    aid: FindingAid,
    action: str,
    claims: Sequence[str],
    file: Any,
    corpora: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    ids = [*claims, *(line.strip() for line in file or () if line.strip())]
    within: Claims = aid.claims.within(corpora)
    _print_claims(getattr(within, action)(*ids, **given), as_json)


def _decide_of_pairs(
    aid: FindingAid,
    action: str,
    claims: Sequence[str],
    file: Any,
    corpora: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    pairs = [tuple(claims)] if claims else []
    pairs += [tuple(line.split()) for line in file or () if line.strip()]
    if wrong := next((pair for pair in pairs if len(pair) != 2), None):
        raise QueryError(f"{action}: expected two ids, got {len(wrong)}: {' '.join(wrong)}")
    within: Claims = aid.claims.within(corpora)
    _print_claims(getattr(within, action)(*pairs, **given), as_json)


def _proposal(line: str, number: int, corpus: str) -> ProposedClaim:
    from findingaid.reviewing import ProposedClaim

    try:
        said = {"corpus": corpus} | json.loads(line)
        span = said.pop("span", None)
        return ProposedClaim(**said, span=tuple(span) if span else None)
    except (ValueError, TypeError) as error:
        raise QueryError(
            f"propose: line {number} is no proposal such as"
            f' {{"artifact_id": "a.md", "text": "…", "quote": "…"}}: {error}'
        ) from None


def _print_claims(found: Sequence[ClaimView], as_json: bool) -> None:
    if as_json:
        return say_json([view.to_dict() for view in found])
    table = plain_table("claim", "corpus", "artifact", "standing", "evidence", "text")
    for view in found:
        artifacts = "\n".join(dict.fromkeys(claim.artifact_id for claim in view.evidences))
        text = snippet(view.text) or "(redacted)"
        table.add_row(
            view.claim_id[:SHORT], view.corpus, escape(artifacts), _standing(view), view.evidence, escape(text)
        )
    return say(table if found else "no claims")


def _standing(view: ClaimView) -> str:
    """Where a claim stands, in the words that say something."""
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
        what = d.action + (f" {d.truth}" if d.truth else "")
        claim = d.claim_id[:SHORT] + (f"\nby {d.other_id[:SHORT]}" if d.other_id else "")
        reason = "(redacted)" if d.reason is None else d.reason
        table.add_row(str(d.seq), f"{d.at:%Y-%m-%d %H:%M}", escape(d.actor), what, claim, escape(reason))
    say(table if found else "nothing was decided")
