"""Failures of runs, told where people look for them: in the error of the step and in a tag of the run."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from findingaid_dagster.internals.events import tag_run

FAILED_TAG = "findingaid/failed"
"""Tag of a failed run that names the first failures; the list of runs shows it, and alerts can read it."""

NAMED = 5
"""Number of failures that the error of a run names."""

TAG_CHARACTERS = 300

HELD = "readers keep the version that was rolled back to: the job publish_index publishes the newest records"


def fail_run(
    context: dg.OpExecutionContext, lead: str, problems: Sequence[str], metadata: Mapping[str, Any] | None = None
) -> dg.Failure:
    """Tag the run with its first failures, one line each, and return the error to raise, which names them too."""
    more = "; …" if len(problems) > NAMED else ""
    named = "; ".join(problems[:NAMED]) + more
    cut = named if len(named) <= TAG_CHARACTERS else f"{named[:TAG_CHARACTERS]}…"
    tag_run(context.instance, context.run_id, {FAILED_TAG: cut})
    return dg.Failure(f"{lead}: {named}", metadata, allow_retries=False)
