"""findingaid as a part of any Dagster code location: `build_definitions`, and a component for `defs.yaml`.

`assets`, `resources` and `pipelines` are this project's folders of those names. The library needs no Dagster.
"""

import lazy_loader

# Lazy, since every Dagster process imports this package for its event storage and not all need the rest.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
