"""Jobs that move readers between versions, verify and purge the tables, and prune Dagster's history.

Each is also a command.
"""

from collections.abc import Callable
from functools import partial

import dagster as dg

from findingaid.aid import FindingAid
from findingaid_dagster.assets import (
    fail_run,
    forget_failure,
    keeps_history,
    prune_history,
    publications,
    read_published,
)
from findingaid_dagster.internals.events import log_asset_events
from findingaid_dagster.pipelines.console import LOGGERS, quiet
from findingaid_dagster.pipelines.executor import Execution
from findingaid_dagster.resources import in_one_line, opened


class RollbackConfig(dg.Config):
    """Options of a rollback."""

    version: int | None = None
    """Version to serve; the previous one if none is given."""


def maintenance_jobs(lead: str, key: str, execution: Execution) -> list[dg.JobDefinition]:
    """Return the maintenance jobs of one configuration: `rollback_index` and the others that are listed below."""
    operate = partial(
        dg.op, required_resource_keys={key}, tags=execution.op_tags, pool=execution.pool, out=dg.Out(dg.Nothing)
    )

    @operate(name=f"{lead}rollback")
    def rollback(context: dg.OpExecutionContext, config: RollbackConfig) -> None:
        """Serve an earlier published version until something new is indexed, or until `publish_index`."""
        _move_readers(context, opened(context.resources, key), lambda aid: aid.rollback(config.version))

    @operate(name=f"{lead}publish")
    def publish(context: dg.OpExecutionContext) -> None:
        """Publish the newest records if they pass their checks. This also ends a rollback."""
        _move_readers(context, opened(context.resources, key), FindingAid.publish)

    @operate(name=f"{lead}verify")
    def verify(context: dg.OpExecutionContext) -> None:
        """Read every table and check that the tables are complete and consistent."""
        forget_failure(context)
        with in_one_line():
            problems = opened(context.resources, key).verify()
        if problems:
            raise fail_run(context, f"{len(problems)} problems", problems)
        context.log.info("ok")

    @operate(name=f"{lead}purge")
    def purge(context: dg.OpExecutionContext) -> None:
        """Delete removed data from disk for good: cached vectors and synopses, earlier versions, leftovers.

        Corpora that the configuration does not name are removed too, also those of another code location.
        """
        with in_one_line():
            done = opened(context.resources, key).purge()
        context.add_output_metadata(done.to_dict())

    @operate(name=f"{lead}prune")
    def prune(context: dg.OpExecutionContext) -> None:
        """Delete Dagster's events of artifacts that are gone, for good."""
        with in_one_line():
            done = prune_history(context.instance, opened(context.resources, key))
        context.add_output_metadata({"partitions": done.partitions, "events": done.events, "bytes": done.size})

    def job(
        name: str, op: dg.OpDefinition, config: type[dg.Config] | None = None, what: str = "index"
    ) -> dg.JobDefinition:
        @dg.graph(name=f"{lead}{name}_{what}", description=op.description)
        def alone() -> None:
            op.alias(name)()

        return alone.to_job(
            executor_def=execution.executor,
            config=quiet(name, config),
            tags=execution.run_tags,  # not run_tags, which Dagster leaves out of runs from its UI and command line
            logger_defs=LOGGERS,
        )

    return [
        job("rollback", rollback, RollbackConfig),
        job("publish", publish),
        job("verify", verify),
        job("purge", purge),
        job("prune", prune, what="history"),
    ]


def _move_readers(context: dg.OpExecutionContext, aid: FindingAid, move: Callable[[FindingAid], int]) -> None:
    """Move readers to another version, and tell Dagster what they see now."""
    with in_one_line(), aid.store.require_index():
        before = read_published(aid)
        version = move(aid)
        if keeps_history():
            log_asset_events(context, publications(context, aid, before, {}))
    context.log.info(f"serving version {version}")
    context.add_output_metadata({"version": version})
