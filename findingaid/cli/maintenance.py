"""Commands on the state of an index: `status`, `verify`, `versions`, `publish`, `rollback`, `purge`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from findingaid.cli.common import common, corpus_option, reading
from findingaid.cli.printing import plain_table, say, say_json, say_line
from findingaid.query.search.filters.fields import FILTER_COLUMNS
from findingaid.reports import expired_line, group_failures, note_lines, skipped_lines

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.model import Failure
    from findingaid.query.lookup.status import CorpusStatus
    from findingaid.query.search.filters.fields import Field


@click.command()
@corpus_option
@click.option("--fields", is_flag=True, help="List the fields that `search --where` can use, with their types.")
@click.option("--failed", is_flag=True, help="Only failures, one line for each artifact.")
@reading
def status(aid: FindingAid, corpora: tuple[str, ...], fields: bool, failed: bool, as_json: bool) -> None:
    """Show the counts and failures of each corpus, and the usage of synthesizers.

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
        return _print_lines(found, lambda failures: map(str, failures))
    table = plain_table("corpus", ">artifacts", ">passages", "synopses", ">pending", ">failed", "updated")
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
        waits = (f"waits for {batch}" for batch in s.batches)
        of_claims = [*([s.of_claims] if s.extracted else []), *filter(None, [expired_line(s.expired)])]
        for line in (*skipped_lines(s.skipped), *note_lines(s.noted), *of_claims, *s.usage, *waits):
            say_line(f"{s.corpus}: {line}")
    for line in {s.unpublished for s in found if s.unpublished}:
        say_line(line)
    for quality in {s.vector_index for s in found if s.vector_index}:
        say(escape(f"vectors: {quality}"))
    return _print_lines(found, group_failures)


def _print_lines(found: Sequence[CorpusStatus], lines_of: Callable[[Sequence[Failure]], Iterable[str]]) -> None:
    for s in found:
        for line in lines_of(s.failed):
            say_line(f"{s.corpus}: {line}")


def _print_fields(found: Mapping[str, Sequence[Field]], as_json: bool) -> None:
    if as_json:
        return say_json({corpus: [field.to_dict() for field in fields] for corpus, fields in found.items()})
    table = plain_table("corpus", "field", "type", ">passages")
    for corpus, fields in found.items():
        for field in fields:
            table.add_row(corpus, escape(field.name), escape(field.type), f"{field.records:,}")
    say(table)
    return say(f"for every passage: {', '.join(FILTER_COLUMNS)}")


@click.command()
@common
def verify(aid: FindingAid, as_json: bool) -> None:
    """Read every table and check that the tables are complete and consistent. Exits with 1 if not.

    It also names the version of findingaid that last wrote to them.

    \b
    Examples:
      findingaid verify
      findingaid verify --json
    """
    problems, writer = aid.verify(), aid.store.written_by()
    if as_json:
        say_json({"ok": not problems, "problems": problems, "written_by": writer})
    else:
        for line in (*(problems or ["ok"]), *([f"written by findingaid {writer}"] if writer else [])):
            say_line(line)
    if problems:
        sys.exit(1)


@click.command()
@common
def versions(aid: FindingAid, as_json: bool) -> None:
    """List the published versions of the records that are kept. The setting `retain` limits their number.

    \b
    Examples:
      findingaid versions
      findingaid versions --json
    """
    found = aid.versions()
    if as_json:
        return say_json([v.to_dict() for v in found])
    table = plain_table(">version", "written", ">passages", "")
    for v in found:
        table.add_row(str(v.version), v.written, f"{v.records:,}", "served" if v.served else "")
    say(table)
    return None


@click.command()
@common
def publish(aid: FindingAid, as_json: bool) -> None:
    """Publish the newest records. Every run does this at its end. It also ends a rollback.

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
    """Serve an earlier published version, by default the previous one.

    It is served until something new is indexed, or until `findingaid publish`.

    \b
    Examples:
      findingaid rollback
      findingaid rollback 12
    """
    _print_served(aid.rollback(version), as_json)


def _print_served(version: int, as_json: bool) -> None:
    if as_json:
        return say_json({"served": version})
    return say(f"serving version {version}")


@click.command()
@common
def purge(aid: FindingAid, as_json: bool) -> None:
    """Delete removed data from disk for good: cached vectors and synopses, earlier versions, leftovers.

    Corpora that the configuration does not name are removed too. Deleted cache entries must be paid for again if their
    content comes back. Run it while nothing else writes.

    \b
    Examples:
      findingaid purge
      findingaid purge --json
    """
    done = aid.purge()
    if done.corpora and not as_json:
        say(f"removed corpora that the configuration does not name: {', '.join(done.corpora)}")
    if as_json:
        return say_json(done.to_dict())
    return say(
        f"{done.rows:,} rows, {done.vectors:,} vectors and {done.calls:,} synthesizer results removed,"
        f" {done.bytes / 1e6:,.1f} MB freed"
    )
