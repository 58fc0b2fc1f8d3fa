"""Integration of findingaid with any Dagster code location: `build_definitions`, and a component for `defs.yaml`.

`assets`, `resources` and `pipelines` are this project's folders of those names. The library itself needs no Dagster.
"""

from pathlib import Path

import lazy_loader

# An installation has these folders in here (setup.py); in a checkout they are beside this one.
if not Path(__file__).with_name("assets").is_dir():
    __path__.append(str(Path(__file__).resolve().parent.parent))

# Lazy: every Dagster process imports this package for its event storage, and not all need the rest.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
