"""Definitions of $FINDINGAID_CONFIG, or else of the findingaid.yaml in the root of this checkout."""

import os
from pathlib import Path

from findingaid.config.loading import FILE_NAME, FILE_VARIABLE
from findingaid_dagster.pipelines.code_location import build_definitions

ROOT = Path(__file__).resolve().parent.parent

defs = build_definitions(os.environ.get(FILE_VARIABLE) or ROOT / FILE_NAME)
