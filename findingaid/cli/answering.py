"""Commands `answer`, `why` and `impact`: answers, and the provenance and dependants of an artifact."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from findingaid.claims.model import Tier, Truth
from findingaid.cli.common import corpus_option, fresh_option, query_argument, reading, where_option
from findingaid.cli.printing import plain_table, say, say_json, say_line, snippet
from findingaid.cli.results import format_freshness, fresh_words, printed_span
from findingaid.errors import visible_line
from findingaid.query.answers.relevance import percent

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.query.answers.answer import Answer, CitableClaim, Contradiction, FoundPassage, Place
    from findingaid.query.answers.quotes import Quote
    from findingaid.query.lookup.passages import ClaimPassages, Passage
    from findingaid.query.lookup.provenance import Dependant, Impact, Link

TIER_WORDS = {
    Tier.APPROVED: "approved by a person",
    Tier.POLICY: "accepted without review",
    Tier.UNREVIEWED: "not reviewed",
}
"""The reason why a claim may be cited, as shown beside it."""


@click.command()
@query_argument
@click.option(
    "--depth", "-k", default=3, show_default=True, help="Maximum number of claims and passages that the answer cites."
)
@click.option(
    "--max-chars",
    default=4000,
    show_default=True,
    help="Maximum characters of the answer as it is shown, with citations: numbers, or ids with --json.",
)
@corpus_option
@where_option
@click.option(
    "--tier",
    "tiers",
    multiple=True,
    type=click.Choice([tier.value for tier in Tier]),
    help="Cite only claims of this tier; may be repeated.",
)
@click.option("--llm", is_flag=True, help="Let the model in the setting `answer` write the answer.")
@fresh_option
@reading
def answer(
    aid: FindingAid, query: str, corpora: tuple[str, ...], tiers: tuple[str, ...], as_json: bool, **how: Any
) -> None:
    """Answer a question from the indexed texts. Every sentence cites the claims or the passages that support it.

    Claims come first, if the corpus has them; sentences of passages fill in what no claim covers. Words of the question
    that neither covers are listed as gaps. If nothing fits the question, there is no answer, and the passages that a
    search finds are named instead. `findingaid show ID` opens a claim, `findingaid show 'ARTIFACT [START:END]'` a
    passage.

    \b
    Examples:
      findingaid answer "what happens when a run is killed"
      findingaid answer "who owns auth?" --tier approved --depth 5
      findingaid answer "how are versions compared" --llm --max-chars 600 --json
      findingaid answer "what happens when a run is killed" --fresh
    """
    found = aid.answer(query, corpora=corpora, tiers=tiers or None, numbered=not as_json, **how)
    if as_json:
        return say_json(found.to_dict())
    return _print_answer(found)


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@corpus_option
@reading
def why(aid: FindingAid, ids: tuple[str, ...], corpora: tuple[str, ...], as_json: bool) -> None:
    """Show the provenance of an item: claim or bullet, evidence, artifact version, source and producer.

    ID is the id of a claim, a summary node, a record (such as a synopsis) or an artifact. Every link is verified. Of an
    artifact, it also says why it has no claims, summary node, synopsis or references. Exits with 1 if a link is broken.

    \b
    Examples:
      findingaid why 6f0c9ad1f7a4c2f8b7d5f7a1c3e2b4d6
      findingaid why how-it-works.md --json
    """
    links = [link for wanted in ids for link in aid.why(aid.artifact_of_file(wanted), corpora)]
    if as_json:
        say_json([link.to_dict() for link in links])
    else:
        for link in links:
            _print_link(link, 0)
    if any(below.broken for link in links for below in link.walk()):
        sys.exit(1)


@click.command()
@click.argument("artifact_id", metavar="ARTIFACT")
@click.option("--corpus", "-c", help="Corpus, if the id is in more than one.")
@reading
def impact(aid: FindingAid, artifact_id: str, corpus: str | None, as_json: bool) -> None:
    """Show everything that depends on an artifact: records, claims, decisions on them, summary nodes, references.

    \b
    Examples:
      findingaid impact how-it-works.md
      findingaid impact click --corpus environment --json
    """
    found = aid.impact(aid.artifact_of_file(artifact_id, corpus), corpus)
    if as_json:
        return say_json(found.to_dict())
    return _print_impact(found)


def _print_answer(found: Answer) -> None:
    numbers = {cited_id: number for number, cited_id in enumerate(found.cited_ids, 1)}
    for sentence in found.cited_sentences:
        say(escape(sentence))
    if not found.sentences:
        say(f"no answer: {found.note}")
    if found.sentences:
        _print_cited(found, numbers)
    for name, said in (
        ("not read here, see findingaid status", [found.unread] if found.unread else []),
        ("not covered", found.gaps),
        ("left out for length", found.cut),
        ("invented by the model", found.invented),
    ):
        if said:
            say(escape(f"{name}: {', '.join(said)}"))
    for side in found.contradictions:
        if not side.cited:
            say(escape(_side(side)))
    for refused in found.refused:
        say(escape(f"left out: {refused.text!r}: {refused.reason}"))
    _print_found(found.passages)
    if found.fresh_seconds is not None:
        say(format_freshness(found.fresh_seconds))


def _print_cited(found: Answer, numbers: Mapping[str, int]) -> None:
    say("")
    for claim in found.claims:
        _print_claim(numbers[claim.claim_id], claim)
    for quote in found.quotes:
        _print_quote(numbers[quote.quote_id], quote)
    by = f", written by {found.producer}" if found.producer else ""
    note = f" ({found.note})" if found.note else ""
    relevance = f", relevance {percent(found.relevance)}" if not found.weak else ""
    claims = f", claims {found.standing}" if found.claims and found.standing != "contested" else ""
    say(f"\nconfidence {found.confidence}{note}{relevance}{claims}{by}")
    if found.unreviewed:
        say(f"not reviewed by a person: {found.unreviewed} of {len(found.sentences)} sentences")


def _named(corpus: str, cited: FoundPassage | Place | Quote) -> str:
    """Return the name of an artifact with its corpus, and the place in a document."""
    return ", ".join(filter(None, (f"{corpus}/{cited.artifact_id}", cited.place)))


def _print_found(passages: Sequence[FoundPassage]) -> None:
    if passages:
        say("passages that a search finds:")
    for passage in passages:
        part = printed_span(passage.span, passage.artifact_version) if passage.span else f"({passage.surface_kind})"
        place = f"{_named(passage.corpus, passage)} {part}{fresh_words(passage)}"
        say_line(f"    {place}  “{snippet(passage.text)}”")


def _print_claim(number: int, claim: CitableClaim) -> None:
    say(escape(f"[{number}] {claim.claim_id}  {_status(claim.tier, claim.standing.truth)}"))
    for place in claim.places:
        say_line(f"    {_cited(claim.corpus, place)}")


def _print_quote(number: int, quote: Quote) -> None:
    say_line(f"[{number}] passage  {_cited(quote.corpus, quote)}")


def _cited(corpus: str, cited: Place | Quote) -> str:
    """Return where cited words are, the date of their text, and the words."""
    span = f" {printed_span(cited.span, cited.artifact_version)}" if cited.span else ""
    date = f", {cited.date}" if cited.date else ""
    return f"{_named(corpus, cited)}{span}{date}{fresh_words(cited)}  “{snippet(cited.quote)}”"


def _status(tier: Tier, truth: Truth) -> str:
    """Return the review status of a claim in words. The truth of a claim that is not judged yet is not named."""
    return TIER_WORDS[tier] if truth is Truth.WORKING else f"{TIER_WORDS[tier]}, {truth}"


def _side(side: Contradiction) -> str:
    said = f"{side.tier}: {side.text}" if side.text else "may not be shown"
    return f"contested: {side.claim_id} by {side.other_id} ({said})"


def print_passages(view: ClaimPassages) -> None:
    """Print a claim and the passages that support it."""
    standing = view.standing
    say(f"[bold]{escape(view.text)}[/bold]")
    say(escape(f"claim {view.claim_id}  {view.corpus}  {view.type}  {_status(view.tier, standing.truth)}"))
    for other in standing.contested_by:
        say(escape(f"contested by {other}"))
    for passage in view.passages:
        _print_passage(view, passage)


def _print_passage(view: ClaimPassages, passage: Passage) -> None:
    line = f":{passage.line}" if passage.line else ""
    span = f"  {printed_span(passage.span, passage.artifact_version)}" if passage.span else ""
    by = f"  by {passage.producer_id}" if passage.producer_id else ""
    say("")
    say_line(f"{view.corpus}/{passage.artifact_id}{line}{span}  {passage.evidence}{by}{fresh_words(passage)}")
    say(f"{escape(passage.before)}[reverse]>>{escape(passage.quote)}<<[/reverse]{escape(passage.after)}")
    if passage.broken:
        say(escape(f"broken: {passage.broken}"))


def _print_link(link: Link, depth: int) -> None:
    absent = link.what.startswith("no ")
    said = f"  {link.said if absent else snippet(link.said)}" if link.said else ""
    broken = f"  BROKEN: {link.broken}" if link.broken else ""
    say_line(f"{'  ' * depth}{f'{link.what} {link.id}'.rstrip()}{said}{broken}")
    for below in link.links:
        _print_link(below, depth + 1)


def _print_impact(found: Impact) -> None:
    say(f"[bold]{found.corpus}/{escape(visible_line(found.artifact_id))}[/bold]  version {found.version}")
    say(escape("passages: " + ", ".join(f"{count:,} {kind}" for kind, count in found.records.items())))
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
            say_line(f"{name}: " + ", ".join(f"{edge.corpus}/{edge.artifact_id}" for edge in edges))


def _print_standing(one: Dependant) -> None:
    also = f"  (also in {', '.join(one.also)})" if one.also else ""
    say_line(f"  {one.id}  {snippet(one.text)}{also}")
