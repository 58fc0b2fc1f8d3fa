"""A start without pandas, which takes a quarter of a second of every command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa


def start_without_pandas() -> None:
    """Let pyarrow make its first value, for which it would import pandas, while there seems to be none.

    It asks once, and has no switch. When somebody else imports pandas later, pyarrow is told.
    """
    if "pandas" in sys.modules or any(isinstance(finder, _Announced) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, hidden := _Hidden())
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(hidden)
    sys.meta_path.insert(0, _Announced())


class _Hidden(MetaPathFinder):
    """Finder that hides pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


class _Announced(MetaPathFinder):
    """Finder of pandas that tells pyarrow, whose conversions of data frames and series then work as always."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "pandas":
            return None
        others = [finder.find_spec for finder in sys.meta_path if finder is not self]
        found = next((spec for find in others if (spec := find(name, path, target))), None)
        if found is None or found.loader is None:
            return None
        run = found.loader.exec_module

        def run_and_tell(module: ModuleType) -> None:
            run(module)
            sys.meta_path.remove(self)  # not before: others only ask whether there is pandas
            pa.lib._pandas_api.pd  # noqa: B018  # reading it makes pyarrow look again

        found.loader.exec_module = run_and_tell  # type: ignore[method-assign]  # of this import alone
        return found
