"""A configuration as Dagster definitions: every corpus as five assets, the `index` job, and what starts it."""

from pathlib import Path

import dagster as dg

from findingaid.aid import open as open_aid
from findingaid_dagster.assets import corpus_assets, corpus_checks, source
from findingaid_dagster.events import enable_batching
from findingaid_dagster.pipelines.automation import changed_sources, schedules
from findingaid_dagster.pipelines.index import index
from findingaid_dagster.resources import FindingAidResource


def build_definitions(config_path: str | Path) -> dg.Definitions:
    """What a code location needs of one findingaid.yaml; `dg.Definitions.merge` puts it beside a team's own.

    Loading touches neither store nor model. Raises ConfigError.
    """
    enable_batching()
    path = Path(config_path).resolve()
    aid = open_aid(path)
    return dg.Definitions(
        assets=[
            asset
            for corpus in aid.corpora
            for asset in (source(aid.corpora[corpus]), corpus_assets(aid.indexer(corpus)))
        ],
        asset_checks=[corpus_checks(corpus) for corpus in aid.corpora],
        jobs=[index],
        schedules=schedules(aid),
        sensors=[changed_sources],
        resources={"findingaid": FindingAidResource(config_path=str(path))},
    )
