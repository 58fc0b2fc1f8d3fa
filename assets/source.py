"""What the source holds now, observed: shows in the UI which partitions a run would read again."""

import warnings

import dagster as dg

from findingaid.model import Corpus
from findingaid_dagster.assets.keys import partition_key, partitions_of, source_key
from findingaid_dagster.events import logged_data_versions
from findingaid_dagster.resources import FindingAidResource

# Both are in beta in the pinned dagster; tests/test_dagster.py shows what is relied on.
warnings.filterwarnings(
    "ignore", "(Function `observable_source_asset`|Class `DataVersionsByPartition`)", dg.BetaWarning
)


def source(of: Corpus) -> dg.SourceAsset:
    """The source of a corpus. Observing it lists the artifacts, reads none, and reports those that changed."""

    corpus = of.name

    @dg.observable_source_asset(
        key=source_key(corpus),
        partitions_def=partitions_of(corpus),
        group_name=of.group or corpus,
        tags=of.tags,
        description="The artifacts as their source lists them. Observe it to see which partitions are stale.",
    )
    def observe(context: dg.OpExecutionContext, findingaid: FindingAidResource) -> dg.DataVersionsByPartition:
        listings = findingaid.open().indexer(corpus).of.source.discover().listings
        known = logged_data_versions(context.instance, source_key(corpus), observed=True)
        found = {partition_key(listing.artifact_id): observed_version(listing.stamp) for listing in listings}
        context.instance.add_dynamic_partitions(corpus, [key for key in found if key not in known])
        return dg.DataVersionsByPartition({key: v for key, v in found.items() if v and v != known.get(key)})

    return observe


def observed_version(stamp: str) -> str:
    """A stamp as a data version; whether it can be trusted is nothing that Dagster compares."""
    return stamp.rstrip("?")
