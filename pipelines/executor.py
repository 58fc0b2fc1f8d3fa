"""Where the steps of a run happen: the `executor` of a findingaid.yaml, as Dagster's own objects."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import dagster as dg

from findingaid.errors import ConfigError

KINDS = {"in_process": "dagster.in_process_executor", "multiprocess": "dagster.multiprocess_executor"}
KNOWN = f"{', '.join(KINDS)}, or the import path of an executor, such as dagster_k8s.k8s_job_executor"


@dataclass(frozen=True)
class Execution:
    """What runs the steps of a job, and how they hand each other their work."""

    executor: dg.ExecutorDefinition
    io_manager: dg.FilesystemIOManager

    @classmethod
    def of(cls, spec: Mapping[str, Any], base: Path) -> Self:
        """What a configuration asks for; `base` is the folder that a path in it is relative to. Raises ConfigError.

        Work is handed over in files even within one process, so that Dagster can retry a run from where it failed.
        """
        options = dict(spec)
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
        return cls(configured, dg.FilesystemIOManager(base_dir=scratch))


def _executor(kind: object) -> dg.ExecutorDefinition:
    module, _, name = KINDS.get(str(kind), str(kind)).rpartition(".")
    if not module:
        raise ConfigError(f"executor.kind: unknown kind {kind!r}. Known: {KNOWN}")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise ConfigError(f"executor.kind: {kind!r} cannot be imported: {error}") from None
    if not isinstance(found, dg.ExecutorDefinition):
        raise ConfigError(f"executor.kind: {kind!r} is no Dagster executor. Known: {KNOWN}")
    return found
