"""Asset of the published records of a corpus: materialized when readers get another version, and only then.

Its data version is a hash of the records that readers see, so that a rollback brings back the data version of before.
Assets and automation of a team depend on it instead of on the partitions of a run that may fail.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.corpus import Corpus
from findingaid.model import Stage
from findingaid.reports import BatchReport
from findingaid.store.contents import Contents, read_contents
from findingaid_dagster.assets.keys import PUBLISHED, asset_key
from findingaid_dagster.assets.specs import CODE_VERSION, event_metadata
from findingaid_dagster.assets.upstream import Inputs, InputVersion, input_tags, latest_inputs, logged_inputs
from findingaid_dagster.internals.events import event_pointer, has_new_versions


def read_published(aid: FindingAid) -> dict[str, Contents]:
    """Return the contents of each corpus that readers see; empty ones before anything is published."""
    if aid.publisher.served() is None:
        return {corpus: Contents(0, 0, {}) for corpus in aid.corpora}
    records = aid.store.published()
    return aid.store.retried(lambda: {corpus: read_contents(records, corpus) for corpus in aid.corpora})


LOOKED_BACK = 100
"""Latest events of published records among which that of a version is sought that was rolled back to."""

OF_ANOTHER_STORE = (
    "what Dagster showed until now was of the store {}, and this run is of {}: if another code location has a corpus of"
    " this name, rename one, since each run replaces the partitions and events of the other"
)


@dataclass(frozen=True)
class LoggedPublication:
    """Event of the published records of a corpus, with the mark of the publish and the address of the store.

    It is empty if there is none.
    """

    mark: str | None = None
    uri: str | None = None
    data_version: str | None = None
    records: InputVersion | None = None
    inputs: Inputs = field(default_factory=dict)


def logged_publications(instance: dg.DagsterInstance, of: Corpus, limit: int) -> list[LoggedPublication]:
    """Return the latest events of the published records of a corpus, newest first."""
    records = instance.fetch_materializations(asset_key(of, PUBLISHED), limit=limit).records
    return [_logged(of, record.asset_materialization) for record in records if record.asset_materialization]


def _logged(of: Corpus, event: dg.AssetMaterialization) -> LoggedPublication:
    mark, uri = (str(found.value) if (found := event.metadata.get(x)) else None for x in ("published", "uri"))
    version = (event.tags or {}).get("dagster/data_version")
    inputs = logged_inputs(event, ())
    records = inputs.pop(asset_key(of, Stage.RECORDS).to_user_string(), None)
    return LoggedPublication(mark, uri, version, records, inputs)


def _inputs_of(instance: dg.DagsterInstance, of: Corpus, data_version: str) -> Inputs:
    """Return the inputs of the last event with this data version, as after a rollback, or else of the last event."""
    found = logged_publications(instance, of, LOOKED_BACK)
    same = [event for event in found if event.data_version == data_version]
    return next((event.inputs for event in [*same, *found]), {})


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
        **input_tags(inputs),
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

    `before` are the contents that readers saw before the run. `inputs` has the inputs of each corpus that it published
    as a whole, with their versions from before the source was listed.
    """
    seconds = run_seconds(context)
    changed = {
        event.asset_key.path[-2]: event for event in changed_publications(aid, context.instance, before, asked, inputs)
    }
    for shown, uri in _of_other_stores(context.instance, aid, {**reports, **changed}, changed):
        context.log.warning(f"{shown}: {OF_ANOTHER_STORE.format(uri, aid.store.uri)}")
    return [
        event.with_metadata({**event.metadata, **numbers_of(reports.get(corpus), seconds)})
        for corpus, event in changed.items()
    ]


def _of_other_stores(
    instance: dg.DagsterInstance, aid: FindingAid, corpora: Iterable[str], changed: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the corpora with the names of these that were of another store: prefix and name, and the store.

    Partitions have the name of a corpus without a prefix, so that corpora of one name replace each other's. Of the
    corpora of this configuration, only the `changed` ones have new events that may show another store.
    """
    ours = {corpus: asset_key(aid.corpora[corpus], PUBLISHED) for corpus in corpora}
    named = {tuple(key.path[-2:]): corpus for corpus, key in ours.items()}
    for key in instance.get_asset_keys():
        corpus = named.get(tuple(key.path[-2:]))
        if corpus is None or (key == ours[corpus] and corpus not in changed):
            continue
        event = instance.get_latest_materialization_event(key)
        found = event.asset_materialization.metadata.get("uri") if event and event.asset_materialization else None
        if found and found.value != aid.store.uri:
            yield dg.AssetKey(key.path[:-1]).to_user_string(), str(found.value)


def changed_publications(
    aid: FindingAid,
    instance: dg.DagsterInstance,
    before: Mapping[str, Contents] = MappingProxyType({}),
    asked: Collection[str] = (),
    inputs: Mapping[str, Inputs] = MappingProxyType({}),
) -> list[dg.AssetMaterialization]:
    """Return an event for each corpus whose last event differs from what readers see, and for those `asked`.

    `inputs` has, by corpus, the versions of the assets of others that the published records were made from now. Other
    records keep those of their last event, and new ones, as of a run of some artifacts, those of the event before.
    Records of the same data version as the last event count as unchanged, whatever readers had `before`.
    """
    served = aid.publisher.mark()  # before the contents are read: a later publish changes it
    last = {
        of.name: next(iter(logged_publications(instance, of, 1)), LoggedPublication()) for of in aid.corpora.values()
    }
    newest = {name: latest_inputs(found, last[name].inputs) for name, found in inputs.items()}
    due = {*asked, *(name for name, made in newest.items() if made != last[name].inputs)}
    due |= {name for name, event in last.items() if _is_stale(instance, aid.corpora[name], event)}
    if served is None or (not due and all(event.mark == served for event in last.values())):
        return []
    # A corpus without records and events was not published yet: the run was of another one, or a check held them back.
    told = inputs.keys() | {name for name, event in last.items() if event.data_version}
    contents = {
        corpus: now
        for corpus, now in read_published(aid).items()
        if corpus in due or (now.digest != last[corpus].data_version and (corpus in told or now.records))
    }
    same = {corpus: now for corpus, now in contents.items() if now.digest == last[corpus].data_version}
    made = {name: _inputs_of(instance, aid.corpora[name], now.digest) for name, now in contents.items()} | newest
    return [
        publication(instance, aid.corpora[corpus], aid, now, served, same.get(corpus, before.get(corpus)), made[corpus])
        for corpus, now in contents.items()
    ]


def _is_stale(instance: dg.DagsterInstance, of: Corpus, last: LoggedPublication) -> bool:
    """Check whether Dagster has learned of records after the event of their publish: it was told elsewhere, or anew.

    That is so after a publish by the command line that a sensor told of, and after records were wiped or divided anew.
    """
    return last.records is not None and has_new_versions(instance, asset_key(of, Stage.RECORDS), last.records.pointer)


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
