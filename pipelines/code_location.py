"""A configuration as Dagster definitions: every corpus as its assets, the `index` job, and what starts it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.config import load
from findingaid.errors import ConfigError
from findingaid_dagster.assets import corpus_assets, corpus_checks, source
from findingaid_dagster.events import enable_batching
from findingaid_dagster.pipelines.automation import (
    changed_sources,
    finished_batches,
    observe_sources,
    schedules,
    sends_batches,
)
from findingaid_dagster.pipelines.executor import Execution
from findingaid_dagster.pipelines.index import index_job
from findingaid_dagster.resources import FindingAidResource


def build_definitions(
    config_path: str | Path, overrides: Mapping[str, Any] | None = None, *, name: str | None = None
) -> dg.Definitions:
    """What a code location needs of one findingaid.yaml; `dg.Definitions.merge` puts it beside a team's own.

    `overrides` maps dotted settings to values, as `findingaid.open` does. Where a code location has more than one
    configuration, all but one need a `name`, which then leads the names of the job and the sensors and is the key
    of the resource; their corpora must have different names. Loading touches neither store nor model.
    Raises ConfigError.

    Materializations from the UI use the configured executor too. Where none is configured they use that of the code
    location, since `merge` allows only one.
    """
    enable_batching()
    path = Path(config_path).resolve()
    config = load(path, overrides)
    aid = FindingAid.of(config)
    try:
        execution = Execution.of(config.settings.executor, config.base)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    resource = FindingAidResource(config_path=str(path), overrides=dict(overrides or {}))
    key = name or "findingaid"
    lead = f"{name}_" if name else ""
    job = index_job(f"{lead}index", execution, resource)
    return dg.Definitions(
        assets=[
            asset
            for corpus in aid.corpora
            for asset in (source(aid.corpora[corpus], key), corpus_assets(aid.indexer(corpus), key))
        ],
        asset_checks=[corpus_checks(corpus, key) for corpus in aid.corpora.values()],
        jobs=[job],
        schedules=schedules(aid, job),
        sensors=[
            changed_sources(f"{lead}changed_sources", job, key),
            observe_sources(f"{lead}observe_sources", job, key),
            *([finished_batches(f"{lead}finished_batches", job, key)] if sends_batches(aid) else []),
        ],
        executor=execution.executor if "executor" in config.settings.model_fields_set else None,
        resources={key: resource},
    )
