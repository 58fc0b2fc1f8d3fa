"""What the source holds now, observed: shows in the UI which partitions a run would read again."""

import warnings

import dagster as dg

from findingaid.indexing import Indexer
from findingaid.model import Corpus
from findingaid_dagster.assets.keys import add_partitions, partition_key, partitions_of, source_key
from findingaid_dagster.events import logged_data_versions
from findingaid_dagster.resources import opened

# Both are in beta in the pinned dagster; tests/test_dagster.py shows what is relied on.
warnings.filterwarnings(
    "ignore", "(Function `observable_source_asset`|Class `DataVersionsByPartition`)", dg.BetaWarning
)


def source(of: Corpus, resource_key: str) -> dg.SourceAsset:
    """The source of a corpus. Observing it lists the artifacts, reads none, and reports those that changed."""

    corpus = of.name

    @dg.observable_source_asset(
        key=source_key(corpus),
        partitions_def=partitions_of(corpus),
        group_name=of.group or corpus,
        tags=of.tags,
        description="The artifacts as their source lists them. Observe it to see which partitions are stale.",
        required_resource_keys={resource_key},
    )
    def observe(context: dg.OpExecutionContext) -> dg.DataVersionsByPartition:
        found = changed(context.instance, opened(context.resources, resource_key).indexer(corpus))
        add_partitions(context.instance, corpus, list(found))
        return dg.DataVersionsByPartition({key: version for key, version in found.items() if version})

    return observe


def changed(instance: dg.DagsterInstance, indexer: Indexer) -> dict[str, str]:
    """partition -> version of what the source lists otherwise than last observed; "" where it gives no version.

    Raises SourceError.
    """
    listings = indexer.of.source.discover().listings
    found = {partition_key(listing.artifact_id): observed_version(listing.stamp) for listing in listings}
    there = set(instance.get_dynamic_partitions(indexer.corpus))
    known = logged_data_versions(instance, source_key(indexer.corpus), observed=True)
    # What was deleted and came back has been observed before, but is as new.
    return {key: v for key, v in found.items() if key not in there or (v and v != known.get(key))}


def observation(corpus: str, key: str, version: str) -> dg.AssetObservation:
    """What tells Dagster that an artifact was listed with this version."""
    tags = {"dagster/data_version": version, "dagster/data_version_is_user_provided": "true"}
    return dg.AssetObservation(source_key(corpus), partition=key, tags=tags)


def observed_version(stamp: str) -> str:
    """A stamp as a data version; whether it can be trusted is nothing that Dagster compares."""
    return stamp.rstrip("?")
