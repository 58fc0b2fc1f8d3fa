"""Code location whose runs have many small batches, each its own step."""

import os

from findingaid.indexing import plan
from findingaid_dagster.pipelines.code_location import build_definitions

plan.BATCH_ARTIFACTS = 6
defs = build_definitions(os.environ["FINDINGAID_CONFIG"])
