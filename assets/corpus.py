"""The assets of one corpus, as one operation that does whichever of them are asked for.

One operation and not one each: its partitions get their own data versions, which Dagster lets only hand-logged
events have, and a step that hand-logs its events would make Dagster skip the steps after it.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.errors import SourceError
from findingaid.indexing import Indexer
from findingaid.model import Listing, Stage
from findingaid.plan import CorpusPlan
from findingaid_dagster.assets.artifacts import artifacts
from findingaid_dagster.assets.checks import log_checks
from findingaid_dagster.assets.claims import claims
from findingaid_dagster.assets.embeddings import embeddings
from findingaid_dagster.assets.keys import artifact_id_of, asset_key, partitions_of
from findingaid_dagster.assets.records import records
from findingaid_dagster.assets.summary_nodes import summary_nodes
from findingaid_dagster.assets.surfaces import surfaces
from findingaid_dagster.assets.sync import sync
from findingaid_dagster.assets.synopses import synopses
from findingaid_dagster.resources import opened

NAMED = 20
"""Artifact ids that a line of the log names."""

SPECS = {
    Stage.ARTIFACTS: artifacts,
    Stage.SURFACES: surfaces,
    Stage.SYNOPSES: synopses,
    Stage.CLAIMS: claims,
    Stage.SUMMARY_NODES: summary_nodes,
    Stage.EMBEDDINGS: embeddings,
    Stage.RECORDS: records,
}


class MaterializeConfig(dg.Config):
    """What a materialization may be told, in the launchpad or by run configuration."""

    force: bool = False
    """Do the selected stages again, also where nothing changed; calls that were paid for are not repeated."""

    pay_again: bool = False
    """With `force`: ask the models again, too."""


def corpus_assets(indexer: Indexer, resource_key: str) -> dg.AssetsDefinition:
    """The assets `corpus/artifacts` to `corpus/records`, partitioned an artifact."""
    corpus = indexer.corpus

    @dg.multi_asset(
        name=f"{corpus}_index",
        specs=[SPECS[stage](indexer) for stage in indexer.of.stages],
        can_subset=True,
        partitions_def=partitions_of(corpus),
        backfill_policy=dg.BackfillPolicy.single_run(),
        required_resource_keys={resource_key},
    )
    def build(context: dg.AssetExecutionContext, config: MaterializeConfig) -> Iterator[dg.MaterializeResult]:  # type: ignore[type-arg]  # dagster leaves its value type open
        """Take the selected artifacts through the selected stages, check, then publish."""
        stages = [stage for stage in indexer.of.stages if asset_key(corpus, stage) in context.selected_asset_keys]
        ids = [artifact_id_of(key) for key in context.partition_keys]
        aid = opened(context.resources, resource_key)
        try:
            failed = materialize(context.op_execution_context, aid, corpus, ids, stages, config)
        except SourceError as error:
            raise dg.Failure(f"{corpus}: {error}", allow_retries=False) from None
        if failed:
            raise dg.Failure(
                f"{len(failed)} of {len(ids)} artifacts failed: {'; '.join(failed[:5])}", allow_retries=False
            )
        yield from ()  # events are logged by hand, one a partition with its own data version

    return build


def materialize(
    context: dg.OpExecutionContext,
    aid: FindingAid,
    corpus: str,
    artifact_ids: list[str],
    stages: list[Stage],
    config: MaterializeConfig,
) -> list[str]:
    """Build some stages of some artifacts and publish; returns what failed, one line each."""
    for line in aid.prepare():
        context.log.warning(line)
    indexer = aid.indexer(corpus, aid.spending(context.run_id))
    discovery = indexer.of.source.discover()
    wanted = set(artifact_ids)
    listings = [listing for listing in discovery.listings if listing.artifact_id in wanted]
    failures = [failure for failure in discovery.failures if failure.artifact_id in wanted]
    gone = wanted - {listing.artifact_id for listing in listings} - {failure.artifact_id for failure in failures}
    failed = [str(failure) for failure in failures]
    failed += [f"{artifact_id}: no longer in the source: run the index job" for artifact_id in sorted(gone)]
    for batch in CorpusPlan(corpus, len(listings), listings, ()).batches():
        context.log.info(f"{corpus}: {len(batch)} artifacts: {named(batch)}")
        report = indexer.build(batch, stages, config.force, config.pay_again)
        failed += map(str, report.failed)
        if report.truncated.warning:
            context.log.warning(f"{corpus}: {report.truncated.warning}")
        if report.pending:
            context.log.warning(f"{corpus}: {report.pending} synopses are pending: {report.waiting}")
        if report.pending_claims:
            context.log.warning(f"{corpus}: claims of {report.pending_claims} artifacts are pending: {report.waiting}")
        for line in report.refused:
            context.log.warning(f"{corpus}: refused: {line}")
        sync(context, indexer, [listing.artifact_id for listing in batch], stages)
    end = aid.finish([corpus])
    log_checks(context, aid, end.checks)
    if end.unpublished:
        failed.append(f"not published, readers keep the version before: {end.unpublished}")
    for line in failed:
        context.log.error(f"{corpus}: {line}")
    return failed


def named(listings: Sequence[Listing]) -> str:
    """The ids of the artifacts of a batch for a log line, the first of many."""
    ids = ", ".join(listing.artifact_id for listing in listings[:NAMED])
    return ids + (", …" if len(listings) > NAMED else "")
