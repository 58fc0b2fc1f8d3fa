"""Dagster definitions of a configuration: the assets of every corpus, the `index` job, schedules and sensors."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.config.loading import load
from findingaid.errors import ConfigError
from findingaid_dagster.assets import Translation, corpus_assets, corpus_checks, source, store_tag, unchanged
from findingaid_dagster.pipelines.executor import Execution
from findingaid_dagster.pipelines.index import index_job, steps_key
from findingaid_dagster.pipelines.maintenance import maintenance_jobs
from findingaid_dagster.pipelines.schedules import backfill_schedules, check_schedules, schedules
from findingaid_dagster.pipelines.sensors import changed_sources, observe_sources, published_elsewhere
from findingaid_dagster.resources import EmbedderConfig, FindingAidResource, StoreConfig, SynthesizerConfig


def build_definitions(
    config_path: str | Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    store: StoreConfig | None = None,
    embedder: EmbedderConfig | None = None,
    synthesizer: SynthesizerConfig | None = None,
    translation: Translation = unchanged,
) -> dg.Definitions:
    """Build the Dagster definitions of one findingaid.yaml; `dg.Definitions.merge` adds them to a team's own.

    A relative `config_path` is looked for beside the file that calls this, and else in the working directory, which the
    code locations of a workspace share.
    `overrides` maps dotted settings to values, as in `findingaid.open`; `store`, `embedder` and `synthesizer` override
    those settings. Any of their values may be a `dg.EnvVar`, and secrets must be, since Dagster shows the others.
    `translation` may change the specs of the assets: description, group, owners, tags, automation condition and others.
    If a code location has several configurations, all but one need a `name`. It prefixes the names of the jobs and
    the sensors, and is the key of the resource. Their corpora must have different names. Loading touches neither store
    nor model. Raises ConfigError.

    Every run takes the resource from the code location, so that tests can replace it. Materializations from the UI use
    the configured executor too. If none is configured they use that of the code location, since `merge` allows only
    one.
    """
    beside = Path(sys._getframe(1).f_globals.get("__file__", "")).parent / config_path
    path = (beside if beside.is_file() else Path(config_path)).resolve()
    resource = FindingAidResource(
        config_path=str(path),
        overrides=dict(overrides or {}),
        store=store or StoreConfig(),
        embedder=embedder or EmbedderConfig(),
        synthesizer=synthesizer or SynthesizerConfig(),
    )
    resource.refuse_shown_secrets()
    config = load(path, resource.settings(secrets=False))
    check_schedules(config.corpora.values())
    aid = FindingAid.of(config)
    try:
        execution = Execution.of(config.settings.executor, config.base, config.settings.dagster)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    key = name or "findingaid"
    lead = f"{name}_" if name else ""
    execution = replace(execution, run_tags={**execution.run_tags, **store_tag(aid)})
    job = index_job(lead, key, execution)
    return dg.Definitions(
        assets=[
            asset
            for corpus in aid.corpora
            for asset in (
                source(aid.corpora[corpus], key, translation),
                corpus_assets(aid.indexer(corpus), key, execution.pool, execution.op_tags, translation),
            )
        ],
        asset_checks=[corpus_checks(corpus, key, execution.pool, execution.op_tags) for corpus in aid.corpora.values()],
        jobs=[job, *maintenance_jobs(lead, key, execution)],
        schedules=[*schedules(aid, job), *backfill_schedules(aid, job, key)],
        sensors=[
            changed_sources(f"{lead}changed_sources", job, key),
            observe_sources(f"{lead}observe_sources", job, key),
            published_elsewhere(f"{lead}published_elsewhere", key),
        ],
        executor=execution.executor if "executor" in config.settings.model_fields_set else None,
        resources={key: resource, steps_key(key): execution.io_manager},
    )
