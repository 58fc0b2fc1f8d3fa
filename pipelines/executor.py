"""How runs execute: executor, IO manager, pool and tags, from the settings `executor` and `dagster`."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import dagster as dg

from findingaid.config.building import KNOWN_EXECUTORS
from findingaid.config.settings import DagsterSettings
from findingaid.errors import ConfigError
from findingaid.indexing.workers import TRIES

DELAY = 5
"""Seconds after which a batch that failed is tried again."""

KINDS = {
    "in_process": "dagster.in_process_executor",
    "multiprocess": "dagster.multiprocess_executor",
    "ray": "dagster.in_process_executor",  # the library hands the batches of a step to Ray
}


@dataclass(frozen=True)
class Execution:
    """Executor that runs the steps of a job, and IO manager that passes data between them.

    `crashes` has Dagster try a step again whose process died. It is None if the steps share the process of the run,
    whose interruption Dagster would take for a crash. `pool` limits the steps at once, `op_tags` are those of every op
    and step, and `run_tags` those of the runs of jobs.
    """

    executor: dg.ExecutorDefinition
    io_manager: dg.FilesystemIOManager
    crashes: dg.RetryPolicy | None = None
    pool: str | None = None
    op_tags: Mapping[str, Any] = field(default_factory=dict)
    run_tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: Mapping[str, Any], base: Path, dagster: DagsterSettings) -> Self:
        """Build the configured execution; paths in `spec` are relative to `base`. Raises ConfigError.

        Steps exchange data through files even within one process, so that Dagster can retry a run from the failed step.
        """
        options = {"kind": "ray"} if spec.get("kind") == "ray" else dict(spec)
        executor = _executor(options.pop("kind", None))
        scratch = options.pop("scratch", None)
        if scratch is not None and not isinstance(scratch, str):
            raise ConfigError(f"executor.scratch: expected a folder or an address such as s3://…, got {scratch!r}")
        if scratch and "://" not in scratch:
            scratch = str((base / Path(scratch).expanduser()).resolve())
        configured = executor.configured(options)
        try:
            dg.validate_run_config(dg.GraphDefinition("nothing").to_job(executor_def=configured))
        except dg.DagsterInvalidConfigError as error:
            raise ConfigError(f"executor: {error.errors[0].message}") from None
        io_manager = dg.FilesystemIOManager(base_dir=scratch)
        crashes = None if executor is dg.in_process_executor else dg.RetryPolicy(max_retries=TRIES, delay=DELAY)
        return cls(configured, io_manager, crashes, dagster.pool, dagster.op_tags, dagster.run_tags)


def _executor(kind: object) -> dg.ExecutorDefinition:
    module, _, name = KINDS.get(str(kind), str(kind)).rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise ConfigError(f"executor.kind: {kind!r} cannot be imported: {error}") from None
    if not isinstance(found, dg.ExecutorDefinition):
        raise ConfigError(f"executor.kind: {kind!r} is not a Dagster executor. Known: {KNOWN_EXECUTORS}")
    return found
