"""Everything in the `defs` folder."""

from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """The components of this project."""
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
