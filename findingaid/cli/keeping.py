"""What is there and how it is: `status`, `verify`, `versions`, `publish`, `rollback`, `purge`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from findingaid.cli.common import common, corpus_option
from findingaid.cli.printing import plain_table, say, say_json
from findingaid.query.where import ALWAYS

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.query.fields import Field
    from findingaid.query.show import CorpusStatus


@click.command()
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
        return say_json([s.to_dict() for s in found])
    if failed:
        return _print_failures(found)
    table = plain_table("corpus", ">artifacts", ">records", "synopses", ">pending", ">failed", "updated")
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
    say(table)
    for s in found:
        if s.extracted:
            say(escape(f"{s.corpus}: {s.of_claims}"))
        for used in s.usage:
            say(escape(f"{s.corpus}: {used}"))
        for batch in s.batches:
            say(escape(f"{s.corpus}: waits for {batch}"))
    for quality in {s.vector_index for s in found if s.vector_index}:
        say(escape(f"vectors: {quality}"))
    return _print_failures(found)


def _print_failures(found: Sequence[CorpusStatus]) -> None:
    for s in found:
        for failure in s.failed:
            say(f"{s.corpus}: {escape(str(failure))}")


def _print_fields(found: Mapping[str, Sequence[Field]], as_json: bool) -> None:
    if as_json:
        return say_json({corpus: [field.to_dict() for field in fields] for corpus, fields in found.items()})
    table = plain_table("corpus", "field", "type", ">records")
    for corpus, fields in found.items():
        for field in fields:
            table.add_row(corpus, escape(field.name), escape(field.type), f"{field.records:,}")
    say(table)
    return say(f"and of every record: {', '.join(ALWAYS)}")


@click.command()
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
        say_json({"ok": not problems, "problems": problems})
    else:
        for problem in problems or ["ok"]:
            say(escape(problem))
    if problems:
        sys.exit(1)


@click.command()
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
        return say_json([v.to_dict() for v in found])
    table = plain_table(">version", "written", ">records", "")
    for v in found:
        table.add_row(str(v.version), v.written, f"{v.records:,}", "served" if v.served else "")
    say(table)
    return None


@click.command()
@common
def publish(aid: FindingAid, as_json: bool) -> None:
    """Serve the newest records; what every run does at its end, and what ends a rollback.

    \b
    Examples:
      findingaid publish
      findingaid publish --json
    """
    _print_served(aid.publish(), as_json)


@click.command()
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


def _print_served(version: int, as_json: bool) -> None:
    if as_json:
        return say_json({"served": version})
    return say(f"readers have version {version}")


@click.command()
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
        return say_json(done.to_dict())
    return say(
        f"{done.rows:,} rows, {done.vectors:,} vectors and {done.calls:,} synthesizer results removed,"
        f" {done.bytes / 1e6:,.1f} MB freed"
    )
