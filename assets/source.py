"""Observable source asset of a corpus: shows in the UI which partitions a run would read again."""

import warnings
from collections.abc import Iterator

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.corpus import Corpus
from findingaid.indexing.plan import CorpusPlan
from findingaid_dagster.assets.failures import known_failures
from findingaid_dagster.assets.keys import SOURCE, add_partitions, asset_key, keys_in_use
from findingaid_dagster.assets.partitions import observed_version, stamps_version
from findingaid_dagster.assets.specs import Translation, source_spec, translated, unchanged
from findingaid_dagster.internals.events import log_asset_events, logged_data_versions
from findingaid_dagster.resources import in_one_line, opened

# In beta in the pinned dagster; tests/code_location/test_code_location.py tests the behaviour relied on.
warnings.filterwarnings("ignore", "Function `multi_observable_source_asset`", dg.BetaWarning)


def source(of: Corpus, resource_key: str, translation: Translation = unchanged) -> dg.AssetsDefinition:
    """Return the source asset of a corpus. Observing it lists artifacts, reads none, and reports the changed ones."""
    corpus = of.name

    @dg.multi_observable_source_asset(  # type: ignore[untyped-decorator]  # dagster leaves it untyped
        name=f"{corpus}_source",
        specs=[translated(translation, of, SOURCE, source_spec(of))],
        required_resource_keys={resource_key},
    )
    def observe(context: dg.OpExecutionContext) -> Iterator[dg.ObserveResult]:
        with in_one_line(f"{corpus}: "):
            aid = opened(context.resources, resource_key)
            found = changed_partitions(context.instance, aid, aid.open_run().plan(corpus))
        add_partitions(context.instance, corpus, list(found))
        # Only events that the step logs itself may each have a partition and a version of their own.
        log_asset_events(context, [observation(of, key, version) for key, version in found.items() if version])
        yield from ()

    assets: dg.AssetsDefinition = observe
    return assets


def changed_partitions(instance: dg.DagsterInstance, aid: FindingAid, plan: CorpusPlan) -> dict[str, str]:
    """Map each listed partition that is new or differs from its last observation to its version.

    The version is "" if the source gives none. Known failures do not count as changes.
    """
    indexer, listings = aid.indexer(plan.corpus), plan.listed
    skipped = {i: observed_version(stamp) for i, (stamp, _) in indexer.skipped.of(indexer.name).items()}
    stamps = {
        listing.artifact_id: listing.stamp
        for listing in listings
        if skipped.get(listing.artifact_id) != observed_version(listing.stamp)
    }
    tried = known_failures(instance, indexer, listings)
    made = indexer.ledger.stamps(indexer.name) if tried else {}
    keys = keys_in_use(instance, indexer.corpus, len(stamps))
    found = {
        key: stamps_version({i: stamps[i] for i in ids}) if keys.buckets else observed_version(stamps[ids[0]])
        for key, ids in keys.group(stamps).items()
        if not tried.intersection(ids) or any(made.get(i) != stamps[i] for i in ids if i not in tried)
    }
    there = set(instance.get_dynamic_partitions(indexer.name))
    known = logged_data_versions(instance, asset_key(indexer.corpus, SOURCE), observed=True)
    # A partition that was deleted and is back has an earlier observation, but counts as new.
    return {key: v for key, v in found.items() if key not in there or (v and v != known.get(key))}


def observation(of: Corpus, key: str, version: str) -> dg.AssetObservation:
    """Return the event that tells Dagster that the artifacts of a partition were listed with this version."""
    tags = {"dagster/data_version": version, "dagster/data_version_is_user_provided": "true"}
    return dg.AssetObservation(asset_key(of, SOURCE), partition=key, tags=tags)
