"""Asset of the published records of a corpus: materialized when readers get another version, and only then.

Its data version is a hash of the records that readers see, so that a rollback brings back the data version of before.
Assets and automation of a team depend on it instead of on the partitions of a run that may fail.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.corpus import Corpus
from findingaid.model import Stage
from findingaid.reports import BatchReport
from findingaid.store.contents import Contents, read_contents
from findingaid.store.sql import equals
from findingaid_dagster.assets.keys import PUBLISHED, asset_key
from findingaid_dagster.assets.specs import CODE_VERSION, event_metadata, upstream_of
from findingaid_dagster.internals.events import current_data_version, event_pointer, spec_inputs

INPUT = "dagster/input_data_version/"
POINTER = "dagster/input_event_pointer/"


def read_published(aid: FindingAid) -> dict[str, Contents]:
    """Return the contents of each corpus that readers see; empty ones before anything is published."""
    if aid.publisher.served() is None:
        return {corpus: Contents(0, 0, {}) for corpus in aid.corpora}
    records = aid.store.published()
    return aid.store.retried(lambda: {corpus: read_contents(records, corpus) for corpus in aid.corpora})


@dataclass(frozen=True)
class InputVersion:
    """Data version of an asset that the published records are made from, and the highest event id at that time."""

    data_version: str
    pointer: int = field(compare=False)


Inputs = Mapping[str, InputVersion]
"""Assets of others, and the versions of them that the published records of a corpus were made from."""


@dataclass(frozen=True)
class LastPublication:
    """Last event of the published records of a corpus, with the mark of the publish; empty if there is none."""

    mark: str | None = None
    data_version: str | None = None
    inputs: Inputs = field(default_factory=dict)


def last_publication(instance: dg.DagsterInstance, of: Corpus) -> LastPublication:
    """Return the last event of the published records of a corpus."""
    event = instance.get_latest_materialization_event(asset_key(of, PUBLISHED))
    if event is None or event.asset_materialization is None:
        return LastPublication()
    mark, tags = event.asset_materialization.metadata.get("published"), event.asset_materialization.tags or {}
    versions = {name.removeprefix(INPUT): found for name, found in tags.items() if name.startswith(INPUT)}
    inputs = {asset: InputVersion(found, int(tags[f"{POINTER}{asset}"])) for asset, found in versions.items()}
    inputs.pop(asset_key(of, Stage.RECORDS).to_user_string(), None)
    return LastPublication(str(mark.value) if mark else None, tags.get("dagster/data_version"), inputs)


def publication(
    instance: dg.DagsterInstance,
    of: Corpus,
    aid: FindingAid,
    now: Contents,
    mark: str,
    before: Contents | None,
    inputs: Inputs,
) -> dg.AssetMaterialization:
    """Return the event that tells Dagster what readers see `now`, with the mark of the publish and `inputs` of others.

    With `before`, the contents that they saw until then, it has the counts of artifacts that differ.
    """
    counts: dict[str, Any] = {"version": now.version, "artifacts": len(now.artifacts), "dagster/row_count": now.records}
    if before is not None:
        changes = now.since(before)
        counts |= {"new": changes.new, "changed": changes.changed, "deleted": changes.deleted}
    records = asset_key(of, Stage.RECORDS).to_user_string()
    inputs = {records: InputVersion(now.digest, event_pointer(instance)), **inputs}
    tags = {
        "dagster/code_version": CODE_VERSION,
        "dagster/data_version": now.digest,
        "dagster/data_version_is_user_provided": "true",
        **{f"{INPUT}{asset}": found.data_version for asset, found in inputs.items()},
        **{f"{POINTER}{asset}": str(found.pointer) for asset, found in inputs.items()},
    }
    how = "published" if aid.publisher.rolled_back() is None else "rolled back"
    metadata = {"by": how, **counts, "published": mark, **event_metadata(of, PUBLISHED, aid.store.uri)}
    return dg.AssetMaterialization(asset_key(of, PUBLISHED), tags=tags, metadata=metadata)


def publications(
    context: dg.OpExecutionContext,
    aid: FindingAid,
    before: Mapping[str, Contents],
    reports: Mapping[str, BatchReport],
    asked: Collection[str] = (),
    inputs: Mapping[str, Inputs] = MappingProxyType({}),
) -> list[dg.AssetMaterialization]:
    """Return an event for each corpus whose published records changed, and for those `asked`, with a run's numbers.

    `before` are the contents that readers saw before the run. `inputs` has the `input_versions` of each corpus that it
    published as a whole, read before the source was listed.
    """
    seconds = run_seconds(context)
    return [
        event.with_metadata({**event.metadata, **numbers_of(reports.get(event.asset_key.path[-2]), seconds)})
        for event in changed_publications(aid, context.instance, before, asked, inputs)
    ]


def input_versions(context: dg.OpExecutionContext, of: Corpus) -> dict[str, InputVersion]:
    """Map the assets of others that the published records are made from to their current versions."""
    pointer = event_pointer(context.instance)
    keys = {*upstream_of(of), *spec_inputs(context, asset_key(of, PUBLISHED))} - {asset_key(of, Stage.RECORDS)}
    return {key.to_user_string(): InputVersion(current_data_version(context.instance, key), pointer) for key in keys}


def changed_publications(
    aid: FindingAid,
    instance: dg.DagsterInstance,
    before: Mapping[str, Contents] = MappingProxyType({}),
    asked: Collection[str] = (),
    inputs: Mapping[str, Inputs] = MappingProxyType({}),
) -> list[dg.AssetMaterialization]:
    """Return an event for each corpus whose last event differs from what readers see, and for those `asked`.

    `inputs` has, by corpus, the versions of the assets of others that the published records were made from now.
    """
    served = aid.publisher.mark()  # before the contents are read: a later publish changes it
    events = {name: last_publication(instance, of) for name, of in aid.corpora.items()}
    made = {name: {**last.inputs, **inputs.get(name, {})} for name, last in events.items()}
    due = {*asked, *(name for name, last in events.items() if made[name] != last.inputs)}
    if served is None or (not due and all(last.mark == served for last in events.values())):
        return []
    return [
        publication(instance, aid.corpora[corpus], aid, now, served, before.get(corpus), made[corpus])
        for corpus, now in read_published(aid).items()
        if corpus in due or (now.digest != events[corpus].data_version and not _is_held_back(aid, corpus, now))
    ]


def _is_held_back(aid: FindingAid, corpus: str, now: Contents) -> bool:
    """Check whether all records of a corpus wait, since a check of some corpus of the store failed."""
    return not now.records and aid.store.count("records", equals("corpus", corpus)) > 0


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
