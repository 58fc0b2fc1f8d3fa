"""Filter for the folders and files of a tree that is not a local folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

HIDDEN = "hidden (source.hidden)"
UNSELECTED = "left out by source.include or source.exclude"
SUBMODULE = "submodules, whose files are in repositories of their own"
"""Reasons for which files and folders are not listed."""


@dataclass(frozen=True)
class TreeFilter:
    """Filter for a remote tree. A file below an excluded folder is excluded too, even if its own name is included."""

    included: Callable[[str], bool]
    excluded: Callable[[str], bool]
    hidden: bool
    left_out: Counter[str] = field(default_factory=Counter)
    _folders: dict[str, bool] = field(default_factory=lambda: {"": True})

    def folder(self, path: str) -> bool:
        """Return whether to look into a folder; its path ends in "/"."""
        if path not in self._folders:
            self._folders[path] = self._wanted(self._shown(path[:-1]), lambda: not self.excluded(path))
        return self._folders[path]

    def file(self, path: str) -> bool:
        return self._wanted(self._shown(path), lambda: self._selects(path))

    def _selects(self, path: str) -> bool:
        included, excluded = self.included(path), self.excluded(path)  # both note the patterns that match nothing
        return included and not excluded

    def _wanted(self, shown: bool, selected: Callable[[], bool]) -> bool:
        """Return whether a path is shown and selected, and count it if not."""
        if not shown:
            self.left_out[HIDDEN] += 1
        elif not selected():
            self.left_out[UNSELECTED] += 1
        else:
            return True
        return False

    def _shown(self, path: str) -> bool:
        folder, separator, name = path.rpartition("/")
        return (self.hidden or not name.startswith(".")) and self.folder(folder + separator)
