"""Integration of findingaid with any Dagster code location: `build_definitions`, and a component for `defs.yaml`.

`assets`, `resources` and `pipelines` are this project's folders of those names. The library itself needs no Dagster.
"""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

import lazy_loader

HERE = Path(__file__).parent


class _Folders:
    """Finder of the three folders in a checkout: they are beside this one, and inside it in an installation."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, folder = name.rpartition(".")
        if package != __name__ or folder not in {"assets", "pipelines", "resources"}:
            return None
        place = HERE.parent / folder
        return spec_from_file_location(name, place / "__init__.py", submodule_search_locations=[str(place)])


if not (HERE / "assets").is_dir():
    # Before the finder of an editable installation, which may be of another checkout.
    sys.meta_path.insert(0, _Folders())

# Lazy: every Dagster process imports this package for its event storage, and not all need the rest.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
