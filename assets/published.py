"""Asset of the published records of a corpus: materialized when readers get another version, and only then.

Its data version is a hash of the records that readers see, so that a rollback brings back the data version of before.
Assets, freshness policies and automation of a team depend on it instead of on the partitions of a run that may fail.
"""

import time
from collections.abc import Collection, Mapping
from types import MappingProxyType

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.corpus import Corpus
from findingaid.model import Stage
from findingaid.reports import BatchReport
from findingaid.store.contents import Contents, read_contents
from findingaid_dagster.assets.keys import PUBLISHED, asset_key
from findingaid_dagster.assets.specs import CODE_VERSION
from findingaid_dagster.internals.events import event_pointer


def read_published(aid: FindingAid) -> dict[str, Contents]:
    """Return the contents of each corpus that readers see; empty ones before anything is published."""
    if aid.publisher.served() is None:
        return {corpus: Contents(0, 0, {}) for corpus in aid.corpora}
    records = aid.store.published()
    return aid.store.retried(lambda: {corpus: read_contents(records, corpus) for corpus in aid.corpora})


def told_version(instance: dg.DagsterInstance, of: Corpus) -> tuple[int | None, str | None]:
    """Return the version of the records and the data version of the last event; None for each without one."""
    event = instance.get_latest_materialization_event(asset_key(of, PUBLISHED))
    if event is None or event.asset_materialization is None:
        return None, None
    version = event.asset_materialization.metadata.get("version")
    tags = event.asset_materialization.tags or {}
    return version.value if version else None, tags.get("dagster/data_version")  # type: ignore[return-value]  # an int, see `publication`


def publication(
    instance: dg.DagsterInstance,
    of: Corpus,
    now: Contents,
    before: Contents | None = None,
) -> dg.AssetMaterialization:
    """Return the event that tells Dagster what readers see `now`.

    With `before`, the contents that they saw until then, it has the counts of artifacts that differ.
    """
    told, _ = told_version(instance, of)
    counts = {"version": now.version, "artifacts": len(now.artifacts), "dagster/row_count": now.records}
    if before is not None:
        changes = now.since(before)
        counts |= {"new": changes.new, "changed": changes.changed, "deleted": changes.deleted}
    records = asset_key(of, Stage.RECORDS).to_user_string()
    tags = {
        "dagster/code_version": CODE_VERSION,
        "dagster/data_version": now.digest,
        "dagster/data_version_is_user_provided": "true",
        f"dagster/input_data_version/{records}": now.digest,
        f"dagster/input_event_pointer/{records}": str(event_pointer(instance)),
    }
    how = "rolled back" if told is not None and now.version < told else "published"
    return dg.AssetMaterialization(asset_key(of, PUBLISHED), tags=tags, metadata={"by": how, **counts})


def publications(
    context: dg.OpExecutionContext,
    aid: FindingAid,
    before: Mapping[str, Contents],
    reports: Mapping[str, BatchReport],
    asked: Collection[str] = (),
) -> list[dg.AssetMaterialization]:
    """Return an event for each corpus whose published records changed, and for those `asked`, with a run's numbers.

    `before` are the contents that readers saw before the run.
    """
    seconds = run_seconds(context)
    return [
        event.with_metadata({**event.metadata, **numbers_of(reports.get(event.asset_key.path[-2]), seconds)})
        for event in news(aid, context.instance, before, asked)
    ]


def news(
    aid: FindingAid,
    instance: dg.DagsterInstance,
    before: Mapping[str, Contents] = MappingProxyType({}),
    asked: Collection[str] = (),
) -> list[dg.AssetMaterialization]:
    """Return an event for each corpus whose published records differ from its last event, and for those `asked`."""
    served = aid.publisher.served()
    told = {name: told_version(instance, of) for name, of in aid.corpora.items()}
    if served is None or (not asked and all(version == served for version, _ in told.values())):
        return []
    return [
        publication(instance, aid.corpora[corpus], now, before.get(corpus))
        for corpus, now in read_published(aid).items()
        if corpus in asked or now.digest != told[corpus][1]
    ]


def as_result(event: dg.AssetMaterialization) -> dg.MaterializeResult:  # type: ignore[type-arg]  # dagster leaves its value type open
    """Return an event as the output of a step; the tags of its inputs stay exact."""
    tags = dict(event.tags or {})
    version = dg.DataVersion(tags.pop("dagster/data_version"))
    return dg.MaterializeResult(asset_key=event.asset_key, metadata=event.metadata, data_version=version, tags=tags)


def numbers_of(report: BatchReport | None, seconds: float | None) -> dict[str, float]:
    """Return the numbers of a run about one corpus, for the metadata of its published records."""
    if report is None:
        return {}
    cost = {} if report.cost is None else {"cost": float(report.cost)}
    return {"failed": len(report.failed), **usage_numbers(report), **cost, **({"seconds": seconds} if seconds else {})}


def usage_numbers(report: BatchReport) -> dict[str, int]:
    """Return the calls of models and the tokens of a report, by name."""
    return {
        "synthesizer calls": report.usage.calls,
        "tokens in": report.usage.input_tokens,
        "tokens out": report.usage.output_tokens,
        "texts embedded": report.calls.embed,
        "tokens embedded": report.tokens,
    }


def run_seconds(context: dg.OpExecutionContext) -> float | None:
    """Return the seconds since the run started."""
    record = context.instance.get_run_record_by_id(context.run_id)
    return round(time.time() - record.start_time, 1) if record and record.start_time else None
