"""A configuration as Dagster definitions: every corpus as five assets, the `index` job, and what starts it."""

from pathlib import Path

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.config import load
from findingaid.errors import ConfigError
from findingaid_dagster.assets import corpus_assets, source
from findingaid_dagster.events import enable_batching
from findingaid_dagster.pipelines.automation import changed_sources, schedules
from findingaid_dagster.pipelines.executor import Execution
from findingaid_dagster.pipelines.index import index_job
from findingaid_dagster.resources import FindingAidResource


def build_definitions(config_path: str | Path) -> dg.Definitions:
    """What a code location needs of one findingaid.yaml; `dg.Definitions.merge` puts it beside a team's own.

    Loading touches neither store nor model. Raises ConfigError.

    Materializations from the UI use the configured executor too. Where none is configured they use that of the code
    location, since `merge` allows only one.
    """
    enable_batching()
    path = Path(config_path).resolve()
    config = load(path)
    aid = FindingAid.of(config)
    try:
        execution = Execution.of(config.settings.executor, config.base)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    resource = FindingAidResource(config_path=str(path))
    return dg.Definitions(
        assets=[
            asset
            for corpus in aid.corpora
            for asset in (source(corpus), corpus_assets(corpus, aid.indexer(corpus).recipe))
        ],
        jobs=[index_job(execution, resource)],
        schedules=schedules(aid),
        sensors=[changed_sources],
        executor=execution.executor if "executor" in config.settings.model_fields_set else None,
        resources={"findingaid": resource},
    )
