"""The only Definitions: every corpus of findingaid.yaml as five assets, and the `index` job.

The configuration is $FINDINGAID_CONFIG, else findingaid.yaml beside this checkout's README. Loading touches
neither store nor model.
"""

import os
import sys
from pathlib import Path

import dagster as dg

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `dagster job execute -f .../definitions.py` from elsewhere
    sys.path.insert(0, str(ROOT))

from assets import corpus_assets, source  # noqa: E402  # needs the path above
from findingaid.aid import open as open_aid  # noqa: E402
from findingaid.config import FILE_NAME, FILE_VARIABLE  # noqa: E402
from findingaid_dagster.events import enable_batching  # noqa: E402
from pipelines.automation import changed_sources, schedules  # noqa: E402
from pipelines.index import index  # noqa: E402
from resources import FindingAidResource  # noqa: E402


def build_definitions(config_path: Path) -> dg.Definitions:
    """The code location of one configuration. Raises ConfigError."""
    enable_batching()
    aid = open_aid(config_path)
    return dg.Definitions(
        assets=[
            asset
            for corpus in aid.corpora
            for asset in (source(corpus), corpus_assets(corpus, aid.indexer(corpus).recipe))
        ],
        jobs=[index],
        schedules=schedules(aid),
        sensors=[changed_sources],
        resources={"findingaid": FindingAidResource(config_path=str(config_path.resolve()))},
    )


defs = build_definitions(Path(os.environ.get(FILE_VARIABLE) or ROOT / FILE_NAME))
