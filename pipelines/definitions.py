"""The only Definitions: those of $FINDINGAID_CONFIG, else of the findingaid.yaml beside this checkout's README."""

import os
from pathlib import Path

from findingaid.config import FILE_NAME, FILE_VARIABLE
from findingaid_dagster.pipelines.code_location import build_definitions

ROOT = Path(__file__).resolve().parent.parent

defs = build_definitions(os.environ.get(FILE_VARIABLE) or ROOT / FILE_NAME)
