"""Dagster checks of a corpus: every run checks the new rows, and "Execute" in the UI checks all rows."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from types import MappingProxyType
from typing import Any

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.corpus import Corpus
from findingaid.indexing.checks import (
    FAILURES,
    LEDGER,
    LISTED,
    ORPHANS,
    OUTCOME_CHECKS,
    QUALITY,
    CheckResult,
    check_listed,
    checks_of,
)
from findingaid.indexing.release import ReleaseResult
from findingaid.model import Outcome
from findingaid.store import Ledger
from findingaid.store.sql import equals
from findingaid_dagster.assets.disclosure import filter_failures, filter_reason
from findingaid_dagster.assets.keys import asset_key
from findingaid_dagster.assets.plots import bars, histogram, levels
from findingaid_dagster.internals.events import check_target, is_evaluated, latest_evaluation, show_as_evaluated
from findingaid_dagster.resources import in_dagster, opened

NAMED = 50
"""Number of failed artifacts that a check lists."""

PREVIEWED = 5
PREVIEW = 200
"""Number of rows in a preview, and of characters of a text in it."""

WAITS = "pending: "
"""Prefix of the check facts that count pending outputs, one fact per reason."""

DRAWN = 100_000
"""Maximum number of surfaces in the histogram of lengths: enough for the picture, at a small cost."""


def corpus_checks(
    of: Corpus, resource_key: str, pool: str | None = None, op_tags: Mapping[str, Any] = MappingProxyType({})
) -> dg.AssetChecksDefinition:
    """Return every check of a corpus, over all of its records, as run by "Execute" on a check.

    A run that builds makes the same checks on new rows, logs them, and publishes only if the blocking ones pass.
    """
    corpus = of.name
    specs = [
        dg.AssetCheckSpec(
            check.name, asset=asset_key(of, check.stage), description=check.description, blocking=check.blocking
        )
        for check in checks_of(of)
    ]

    @dg.multi_asset_check(
        name=checks_step(corpus),
        specs=specs,
        can_subset=True,
        required_resource_keys={resource_key},
        pool=pool,
        op_tags=op_tags,
    )
    def check_all(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        aid = opened(context.resources, resource_key)
        for result in aid.check([corpus]):
            key = dg.AssetCheckKey(asset_key(of, result.check.stage), result.check.name)
            if key in context.selected_asset_check_keys:
                yield dg.AssetCheckResult(asset_key=key.asset_key, check_name=key.name, **_outcome(aid, result))

    return check_all


def checks_step(corpus: str) -> str:
    """Return the name of the step that runs the checks alone. A step that builds logs their results itself."""
    return f"{corpus}_checks"


def complete_checks(
    instance: dg.DagsterInstance, aid: FindingAid, release: ReleaseResult, corpora: Collection[str]
) -> ReleaseResult:
    """Add results for those of these corpora that the run did not check and Dagster shows as not evaluated.

    Another process indexed them, or a run was killed before it had logged its checks. For the others, add
    only that their source could not be listed, or that it can be again.
    """
    unchecked = {*corpora} - {result.corpus for result in release.checks}
    due = {name for name in unchecked if release.visible and not _are_evaluated(instance, aid.corpora[name])}
    listed = [check_listed(aid.store, name) for name in sorted(unchecked - due)]
    told = [x for x in listed if not x.passed or shows_unlisted(instance, aid.corpora[x.corpus])]
    return replace(release, checks=[*release.checks, *(aid.check(sorted(due)) if due else []), *told])


def shows_unlisted(instance: dg.DagsterInstance, of: Corpus) -> bool:
    """Return whether Dagster shows that the source of a corpus could not be listed, or that its loss was refused."""
    shown = latest_evaluation(instance, dg.AssetCheckKey(asset_key(of, LISTED.stage), LISTED.name), None)
    return shown is not None and not shown.passed


def _are_evaluated(instance: dg.DagsterInstance, of: Corpus) -> bool:
    target_of = cache(partial(check_target, instance))
    keys = [dg.AssetCheckKey(asset_key(of, check.stage), check.name) for check in checks_of(of)]
    return all(is_evaluated(instance, key, target_of(key.asset_key)) for key in keys)


def log_checks(
    context: dg.OpExecutionContext, aid: FindingAid, results: Sequence[CheckResult], repeated: Sequence[str] = ()
) -> None:
    """Log the results of the checks at the end of a run, after the materializations.

    The records of a run may have been checked and published by a parallel one. The checks of `repeated` corpora that
    have no result are therefore logged again, as they were evaluated last.
    """
    instance = context.instance
    target_of = cache(partial(check_target, instance))
    found: dict[dg.AssetCheckKey, dg.AssetCheckEvaluation | None] = {}
    for result in results:
        key = asset_key(aid.corpora[result.corpus], result.check.stage)
        evaluation = dg.AssetCheckEvaluation(
            asset_key=key,
            check_name=result.check.name,
            target_materialization_data=target_of(key),
            **_outcome(aid, result),
        )
        found[evaluation.asset_check_key] = evaluation
    for of in (aid.corpora[name] for name in repeated):
        keys = (dg.AssetCheckKey(asset_key(of, check.stage), check.name) for check in checks_of(of))
        found |= {key: latest_evaluation(instance, key, target_of(key.asset_key)) for key in keys if key not in found}
    for evaluation in filter(None, found.values()):
        context.log_event(evaluation)  # type: ignore[arg-type]  # its annotation omits a documented event type
        show_as_evaluated(instance, evaluation)


def _outcome(aid: FindingAid, result: CheckResult) -> dict[str, Any]:
    severity = dg.AssetCheckSeverity.ERROR if result.check.blocking else dg.AssetCheckSeverity.WARN
    told: dict[str, float] = {}
    for name, found in result.facts.items():
        why = name.removeprefix(WAITS)
        key = name if why == name else f"{WAITS}{filter_reason(why, aid.previews)}"
        told[key] = told.get(key, 0) + found
    metadata = {name: _number(found) for name, found in told.items()}
    return {
        "passed": result.passed,
        "severity": severity,
        "description": in_dagster("; ".join(result.problems)) or None,
        "metadata": metadata | dict(_details(aid, result)),
    }


def _number(value: float) -> dg.IntMetadataValue | dg.FloatMetadataValue:
    return dg.MetadataValue.int(value) if isinstance(value, int) else dg.MetadataValue.float(value)


def _details(aid: FindingAid, result: CheckResult) -> Iterator[tuple[str, Any]]:
    """Yield the plots and tables that a check shows, as (name, metadata value)."""
    check, corpus = result.check, result.corpus
    where = equals("corpus", corpus)
    if check is FAILURES:
        yield from _failed(aid, corpus)
        yield from _indexed(aid, where)
    elif check is ORPHANS:
        found = aid.store.dataset("surfaces").to_table({"n": "character_length(text)"}, filter=where, limit=DRAWN)
        if lengths := found["n"].to_pylist():
            yield "length", histogram(lengths, "Lengths of surfaces", "characters", "surfaces")
    elif check in OUTCOME_CHECKS:
        outcomes = {o.value: result.facts[o] for o in Outcome if o in result.facts}
        if outcomes.keys() - {"skipped"}:  # otherwise no model was called
            yield "outcomes", bars(outcomes, f"Outcomes of {check.stage.replace('_', ' ')}", "artifacts")
    elif check is QUALITY and "floor" in result.facts:
        yield "quality", levels(result.facts, "Quality on known questions")
    elif check is LEDGER:
        columns = ["artifact_id", "surface_kind", "surface_index", "text", "shown"]
        rows = aid.store.dataset("records").to_table(columns, filter=where, limit=PREVIEWED).to_pylist()
        if rows:
            yield "preview", table([record_preview(row, aid.previews) for row in rows])


def record_preview(row: Mapping[str, Any], previews: bool) -> dict[str, Any]:
    """Return a record as a preview shows it: with its text if `previews`, else with the length of its text."""
    text = row["text"] if row["shown"] is None else row["shown"]
    shown = {name: value for name, value in row.items() if name not in {"text", "shown"}}
    return shown | ({"text": text} if previews else {"characters": len(text)})


def _indexed(aid: FindingAid, where: str) -> Iterator[tuple[str, Any]]:
    rows = aid.store.rows("ledger", ["bytes", "updated"], where)
    yield "bytes", sum(rows["bytes"].to_pylist())
    now = datetime.now(UTC)
    days = [round((now - updated).total_seconds() / 86_400, 2) for updated in rows["updated"].to_pylist()]
    if days:
        yield "age", histogram(days, "Ages of artifacts", "days ago", "artifacts")


def _failed(aid: FindingAid, corpus: str) -> Iterator[tuple[str, Any]]:
    failures = sorted(Ledger(aid.store).failures(corpus), key=lambda failure: -failure.runs)
    if failures:
        rows = [
            {"artifact": f.artifact_id, "runs": f.runs, "stage": f.stage, "kind": f.kind, "why": f.message}
            for f in filter_failures(failures[:NAMED], aid.previews)
        ]
        yield "failed artifacts", table(rows)


def table(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Convert rows of numbers and texts to a Dagster table; long texts are cut."""
    return dg.MetadataValue.table([dg.TableRecord({name: cut(value) for name, value in row.items()}) for row in rows])


def cut(value: Any) -> Any:
    """Cut a long text to the length of a preview."""
    return f"{value[:PREVIEW]}…" if isinstance(value, str) and len(value) > PREVIEW else value
