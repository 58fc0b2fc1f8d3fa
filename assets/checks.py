"""The checks of a corpus in Dagster: those that every run makes of what is new, and all of it on demand."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.checks import CLAIMS, FAILURES, LEDGER, NODES, ORPHANS, QUALITY, SYNOPSES, CheckResult, checks_of
from findingaid.model import Corpus, Outcome
from findingaid.store import Ledger
from findingaid.store.sql import equals
from findingaid_dagster.assets.keys import asset_key
from findingaid_dagster.assets.plots import bars, histogram, levels
from findingaid_dagster.resources import opened

NAMED = 50
"""Failed artifacts that a check lists."""

PREVIEWED = 5
PREVIEW = 200
"""Rows that a preview has, and characters of a text in it."""

DRAWN = 100_000
"""Surfaces whose length is drawn, at most: enough for the picture, and its cost stays small."""


def corpus_checks(of: Corpus, resource_key: str) -> dg.AssetChecksDefinition:
    """Every check of a corpus, over all of its records; what "Execute" on a check runs.

    Runs that build make the same checks of what is new, publish only when the blocking ones pass, and log them.
    """
    corpus = of.name
    specs = [
        dg.AssetCheckSpec(
            check.name, asset=asset_key(corpus, check.stage), description=check.description, blocking=check.blocking
        )
        for check in checks_of(of)
    ]

    @dg.multi_asset_check(name=f"{corpus}_checks", specs=specs, can_subset=True, required_resource_keys={resource_key})
    def check_all(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        aid = opened(context.resources, resource_key)
        for result in aid.check([corpus]):
            key = dg.AssetCheckKey(asset_key(corpus, result.check.stage), result.check.name)
            if key in context.selected_asset_check_keys:
                yield dg.AssetCheckResult(asset_key=key.asset_key, check_name=key.name, **_outcome(aid, result))

    return check_all


def log_checks(context: dg.OpExecutionContext, aid: FindingAid, results: Sequence[CheckResult]) -> None:
    """Log what the checks at the end of a run found."""
    for result in results:
        key = asset_key(result.corpus, result.check.stage)
        found = dg.AssetCheckEvaluation(asset_key=key, check_name=result.check.name, **_outcome(aid, result))
        context.log_event(found)  # type: ignore[arg-type]  # its annotation leaves out what it documents


def _outcome(aid: FindingAid, result: CheckResult) -> dict[str, Any]:
    severity = dg.AssetCheckSeverity.ERROR if result.check.blocking else dg.AssetCheckSeverity.WARN
    metadata = {name: _number(found) for name, found in result.facts.items()}
    return {
        "passed": result.passed,
        "severity": severity,
        "description": "; ".join(result.problems) or None,
        "metadata": metadata | dict(_details(aid, result)),
    }


def _number(value: float) -> dg.IntMetadataValue | dg.FloatMetadataValue:
    return dg.MetadataValue.int(value) if isinstance(value, int) else dg.MetadataValue.float(value)


def _details(aid: FindingAid, result: CheckResult) -> Iterator[tuple[str, Any]]:
    """What makes a check worth opening."""
    check, corpus = result.check, result.corpus
    where = equals("corpus", corpus)
    if check is FAILURES:
        yield from _failed(aid, corpus)
        yield from _indexed(aid, where)
    elif check is ORPHANS:
        found = aid.store.dataset("surfaces").to_table({"n": "character_length(text)"}, filter=where, limit=DRAWN)
        if lengths := found["n"].to_pylist():
            yield "length", histogram(lengths, "How long surfaces are", "characters", "surfaces")
    elif check in {SYNOPSES, CLAIMS, NODES}:
        outcomes = {o.value: result.facts[o] for o in Outcome if o in result.facts}
        if outcomes.keys() - {"skipped"}:  # else nothing was asked of anyone
            yield "outcomes", bars(outcomes, f"What became of {check.stage.replace('_', ' ')}", "artifacts")
    elif check is QUALITY and "floor" in result.facts:
        yield "quality", levels(result.facts, "What known questions found")
    elif check is LEDGER:
        columns = ["artifact_id", "surface_kind", "surface_index", "text", "text_start"]
        rows = aid.store.dataset("records").to_table(columns, filter=where, limit=PREVIEWED).to_pylist()
        for row in rows:
            row["text"] = row["text"][row.pop("text_start") :]
        if rows:
            yield "preview", table(rows)


def _indexed(aid: FindingAid, where: str) -> Iterator[tuple[str, Any]]:
    rows = aid.store.rows("ledger", ["bytes", "updated"], where)
    yield "bytes", sum(rows["bytes"].to_pylist())
    now = datetime.now(UTC)
    days = [(now - updated).total_seconds() / 86_400 for updated in rows["updated"].to_pylist()]
    yield "age", histogram(days, "When artifacts were indexed", "days ago", "artifacts")


def _failed(aid: FindingAid, corpus: str) -> Iterator[tuple[str, Any]]:
    failures = sorted(Ledger(aid.store).failures(corpus), key=lambda failure: -failure.runs)
    if failures:
        rows = [
            {"artifact": f.artifact_id, "runs": f.runs, "stage": f.stage, "kind": f.kind, "why": f.message}
            for f in failures[:NAMED]
        ]
        yield "failed artifacts", table(rows)


def table(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Rows of numbers and texts as Dagster shows them, long texts cut."""
    return dg.MetadataValue.table([dg.TableRecord({name: _cut(value) for name, value in row.items()}) for row in rows])


def _cut(value: Any) -> Any:
    return f"{value[:PREVIEW]}…" if isinstance(value, str) and len(value) > PREVIEW else value
