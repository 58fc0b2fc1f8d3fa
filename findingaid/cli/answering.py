"""`answer`, and where things come from and lead to: `why` and `impact`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from findingaid.claims.model import Tier
from findingaid.cli.common import common, corpus_option
from findingaid.cli.printing import plain_table, say, say_json, snippet

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.query.answer import Answer, Offer, Side
    from findingaid.query.passages import ClaimPassages, Passage
    from findingaid.query.provenance import Impact, Link, StandingOn


@click.command()
@click.argument("query")
@click.option("--depth", "-k", default=3, show_default=True, help="How many claims are said, at most.")
@click.option("--max-chars", default=4000, show_default=True, help="Characters of the answer, citations included.")
@corpus_option
@click.option("--where", help="SQL over the fields that `status --fields` lists, as in `search`.")
@click.option(
    "--tier",
    "tiers",
    multiple=True,
    type=click.Choice([tier.value for tier in Tier]),
    help="Cite claims of this tier; several times.",
)
@click.option("--llm", is_flag=True, help="Have the model write that `answer` in the configuration names.")
@common
def answer(
    aid: FindingAid, query: str, corpora: tuple[str, ...], tiers: tuple[str, ...], as_json: bool, **how: Any
) -> None:
    """Answer a question from claims that may be cited, each sentence with the claims it stands on.

    `findingaid show CLAIM` opens one. What no claim speaks of is named; a question that none covers has no answer.

    \b
    Examples:
      findingaid answer "what happens when a run is killed"
      findingaid answer "who owns auth?" --tier approved --depth 5
      findingaid answer "how are versions compared" --llm --max-chars 600 --json
    """
    found = aid.answer(query, corpora=corpora, tiers=tiers or None, **how)
    if as_json:
        return say_json(found.to_dict())
    return _print_answer(found)


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@corpus_option
@common
def why(aid: FindingAid, ids: tuple[str, ...], corpora: tuple[str, ...], as_json: bool) -> None:
    """Show where something comes from: claim or bullet, evidence, artifact version, source and producer.

    ID is a claim's, a summary node's, a record's (such as a synopsis's) or an artifact's. Every link is looked at:
    exits with 1 when one is broken.

    \b
    Examples:
      findingaid why 6f0c9ad1f7a4c2f8b7d5f7a1c3e2b4d6
      findingaid why how-it-works.md --json
    """
    links = [link for wanted in ids for link in aid.why(wanted, corpora)]
    if as_json:
        say_json([link.to_dict() for link in links])
    else:
        for link in links:
            _print_link(link, 0)
    if any(below.broken for link in links for below in link.walk()):
        sys.exit(1)


@click.command()
@click.argument("artifact_id", metavar="ARTIFACT")
@click.option("--corpus", "-c", help="The corpus, where the id is in several.")
@common
def impact(aid: FindingAid, artifact_id: str, corpus: str | None, as_json: bool) -> None:
    """Show what stands on an artifact: records, claims, what was decided of them, summary nodes, references.

    \b
    Examples:
      findingaid impact how-it-works.md
      findingaid impact click --corpus environment --json
    """
    found = aid.impact(artifact_id, corpus)
    if as_json:
        return say_json(found.to_dict())
    return _print_impact(found)


def _print_answer(found: Answer) -> None:
    numbers = {claim.claim_id: number for number, claim in enumerate(found.claims, 1)}
    for sentence in found.sentences:
        say(escape(sentence.cited(lambda claim_id: f"[{numbers[claim_id]}]")))
    if not found.sentences:
        why = "no sentence fits in the room there is" if found.cut else "no claim that may be cited speaks of it"
        say(f"no answer: {why}")
    if found.claims:
        say("")
        for claim in found.claims:
            _print_claim(numbers[claim.claim_id], claim)
        say(f"\nconfidence {found.confidence}{f', written by {found.producer}' if found.producer else ''}")
    for name, said in (("gaps", found.gaps), ("cut for room", found.cut), ("invented by the model", found.invented)):
        if said:
            say(escape(f"{name}: {', '.join(said)}"))
    for side in found.sides:
        if not side.cited:
            say(escape(_side(side)))
    for refused in found.refused:
        say(escape(f"left out: {refused.text!r}: {refused.reason}"))


def _print_claim(number: int, claim: Offer) -> None:
    say(escape(f"[{number}] {claim.claim_id}  {claim.tier}, {claim.standing.truth}"))
    for place in claim.places:
        span = f" [{place.span[0]}:{place.span[1]}]" if place.span else ""
        say(escape(f"    {claim.corpus}/{place.artifact_id}{span}  “{snippet(place.quote)}”"))


def _side(side: Side) -> str:
    said = f"{side.tier}: {side.text}" if side.text else "not to be shown"
    return f"contested: {side.claim_id} by {side.other_id} ({said})"


def print_passages(view: ClaimPassages) -> None:
    """A claim, and below it the passages that say it."""
    standing = view.standing
    say(f"[bold]{escape(view.text)}[/bold]")
    say(escape(f"claim {view.claim_id}  {view.corpus}  {view.type}  {view.tier}, {standing.truth}"))
    for other in standing.contested_by:
        say(escape(f"contested by {other}"))
    for passage in view.passages:
        _print_passage(view, passage)


def _print_passage(view: ClaimPassages, passage: Passage) -> None:
    line = f":{passage.line}" if passage.line else ""
    span = f"  [{passage.span[0]}:{passage.span[1]}]" if passage.span else ""
    by = f"  by {passage.producer_id}" if passage.producer_id else ""
    say(escape(f"\n{view.corpus}/{passage.artifact_id}{line}{span}  {passage.evidence}{by}"))
    say(f"{escape(passage.before)}[reverse]>>{escape(passage.quote)}<<[/reverse]{escape(passage.after)}")
    if passage.broken:
        say(escape(f"broken: {passage.broken}"))


def _print_link(link: Link, depth: int) -> None:
    said = f"  {snippet(link.said)}" if link.said else ""
    broken = f"  BROKEN: {link.broken}" if link.broken else ""
    say(escape(f"{'  ' * depth}{link.what} {link.id}{said}{broken}"))
    for below in link.links:
        _print_link(below, depth + 1)


def _print_impact(found: Impact) -> None:
    say(f"[bold]{found.corpus}/{escape(found.artifact_id)}[/bold]  version {found.version}")
    say(escape("records: " + ", ".join(f"{count:,} {kind}" for kind, count in found.records.items())))
    for name, standing in (("claims", found.claims), ("summary nodes", found.nodes)):
        if standing:
            say(f"{name}:")
            for one in standing:
                _print_standing(one)
    if found.decisions:
        say("decisions:")
        table = plain_table(">#", "action", "claim", "by", "at")
        for d in found.decisions:
            table.add_row(str(d["seq"]), *map(escape, (d["action"], d["claim_id"], d["actor"], d["at"])))
        say(table)
    for name, edges in (("refers to", found.refers_to), ("referred to by", found.referred_by)):
        if edges:
            say(escape(f"{name}: " + ", ".join(f"{edge.corpus}/{edge.artifact_id}" for edge in edges)))


def _print_standing(one: StandingOn) -> None:
    also = f"  (also in {', '.join(one.also)})" if one.also else ""
    say(escape(f"  {one.id}  {snippet(one.text)}{also}"))
