"""Filters for messages that go to Dagster, whose history keeps them.

Messages of failures, notes, reasons for waiting and refused claims may contain words from a document, a model or a
component. Unless `dagster.previews` is set, events, logs and step outputs name artifacts, stages and kinds of failure
instead. Without DAGSTER_HOME there is no history.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from findingaid.aid import FindingAid
from findingaid.indexing.run import NOTHING, UNSETTLED
from findingaid.llm.metering import OVER_BUDGET
from findingaid.model import Failure, Skipped
from findingaid.reports import BatchReport, CorpusReport
from findingaid.text.decoding import NOT_TEXT

R = TypeVar("R", bound=BatchReport)

SEE_STATUS = "run `findingaid status --failed` for the reason"
SEE_STATUS_SKIPPED = "run `findingaid status` for the reason"
SEE_PLAN = "the source has notes: run `findingaid plan` to see them"
SEE_INDEX = "calls stopped: run `findingaid index` for the reason"

BATCH = re.compile(r"batch [\w.-]+ of [\d,]+ synopses, sent [\d: -]+ UTC")
"""Pattern that matches `str(OpenBatch)`."""

NOT_CURRENT = re.compile(r"its \w+ are not current: materialize \w+/\w+ first")
"""Pattern of the one failure that tells what to do in Dagster, and names no document."""


def keeps_history() -> bool:
    """Check whether the instance outlives the run. Without DAGSTER_HOME it does not, and events would be useless."""
    return "DAGSTER_HOME" in os.environ


def may_quote(aid: FindingAid) -> bool:
    """Check whether messages may quote documents: where `dagster.previews` is set, or no history keeps them, as in CI.

    There the store may be gone with the run, and with it the reasons that `findingaid status` shows.
    """
    return aid.previews or not keeps_history()


def filter_failures(failures: Iterable[Failure], previews: bool) -> list[Failure]:
    """Return failures with each message that may quote a document replaced by a hint to `findingaid status`."""
    return [
        failure if previews or NOT_CURRENT.fullmatch(failure.message) else replace(failure, message=SEE_STATUS)
        for failure in failures
    ]


def filter_skipped(skipped: Iterable[Skipped], previews: bool) -> list[Skipped]:
    """Return skipped artifacts, with each reason replaced that may be the words of a component."""
    return [
        each if previews or each.reason == NOT_TEXT else replace(each, reason=SEE_STATUS_SKIPPED) for each in skipped
    ]


def filter_notes(notes: Iterable[str], previews: bool) -> list[str]:
    """Return the notes of a source, replaced unless their words are findingaid's own or `previews` is set."""
    return list(dict.fromkeys(note if previews or note in {NOTHING, UNSETTLED} else SEE_PLAN for note in notes))


def filter_reason(why: str, previews: bool) -> str:
    """Return a reason for waiting, replaced unless its words are findingaid's own or `previews` is set."""
    known = previews or not why or why == OVER_BUDGET or BATCH.fullmatch(why)
    return why if known else SEE_INDEX


def filter_report(report: R, artifact_ids: Sequence[str], previews: bool) -> R:
    """Return the report of a batch or a corpus without document text, or unchanged with `previews`.

    Of each refused claim only the artifact id remains, and of a note its kind.
    """
    if previews:
        return report
    if isinstance(report, CorpusReport):
        report = replace(report, waits=filter_notes(report.waits, previews))
    return replace(
        report,
        failed=filter_failures(report.failed, previews),
        waiting=filter_reason(report.waiting, previews),
        skipped=filter_skipped(report.skipped, previews),
        noted=[replace(note, words=note.kind.replace("_", " ")) for note in report.noted],
        refused=[next((i for i in artifact_ids if line.startswith(f"{i}: ")), "") for line in report.refused],
    )
