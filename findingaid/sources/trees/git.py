"""Commits of a local repository of git."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from findingaid.sources.limits import ListingLimits
from findingaid.sources.tree_filter import SUBMODULE, TreeFilter
from findingaid.sources.trees.tree import DEEPEST, GIT_LINK, LINK, Entry, Listed

if TYPE_CHECKING:
    import pygit2


NOT_FETCHED = "not in this clone, which is partial: fetch it, as with `git fetch --refetch`, or exclude it"


class Git:
    """A commit of a local repository: `REPOSITORY:REF@FOLDER`, as fsspec writes it. Stamps are blob ids.

    fsspec's own implementation cannot list a folder that contains a submodule. This one counts submodules as left out.
    """

    def __init__(self, place: str) -> None:
        import pygit2

        repository, _, place = place.partition(":")
        ref, _, folder = place.rpartition("@")
        found = pygit2.Repository(repository)
        try:
            self._tree = found.revparse_single(ref or "HEAD").peel(pygit2.Tree)
        except KeyError:
            raise ValueError(f"no branch, tag or commit {ref or 'HEAD'!r}") from None
        if folder := folder.strip("/"):
            self._tree = self._at(folder).peel(pygit2.Tree)

    def listed(self, wanted: TreeFilter) -> Listed:
        listed, limits = Listed(), ListingLimits()
        for entry in self._entries(self._tree, "", wanted, listed.unlisted, limits):
            listed.entries.append(entry)
        return listed

    def size(self, path: str) -> int | None:
        return int(self._at(path).size)

    def payload(self, path: str, most: int) -> bytes:
        return bytes(memoryview(self._at(path))[:most])

    def opened(self) -> tuple[IO[bytes], str]:
        raise ValueError("an archive in a repository is not opened: check out the repository")

    def _entries(
        self,
        folder: pygit2.Tree,
        prefix: str,
        wanted: TreeFilter,
        unlisted: dict[str, BaseException],
        limits: ListingLimits,
    ) -> Iterator[Entry]:
        if prefix.count("/") > DEEPEST:
            unlisted[prefix] = RecursionError(f"more than {DEEPEST} folders deep")
            return
        import pygit2

        limits.count(len(folder))
        entry: Any  # a blob, a tree, or the commit of a submodule
        for entry in folder:
            path = prefix + entry.raw_name.decode("utf-8", "surrogateescape")
            if entry.type_str == "tree" and wanted.folder(f"{path}/"):
                try:
                    inside = entry.peel(type(folder))
                except (KeyError, OSError, pygit2.GitError):
                    unlisted[f"{path}/"] = ValueError(NOT_FETCHED)
                    continue
                yield from self._entries(inside, f"{path}/", wanted, unlisted, limits)
            elif entry.type_str == "blob" and wanted.file(path):
                yield _blob(entry, path)
            elif entry.type_str == "commit" and wanted.folder(f"{path}/"):
                wanted.left_out[SUBMODULE] += 1

    def _at(self, path: str) -> Any:
        try:
            return self._tree[path]
        except KeyError:
            raise FileNotFoundError(path) from None


def _blob(entry: Any, path: str) -> Entry:
    """Return the entry of a file, whose content may be missing from a partial clone."""
    import pygit2

    try:
        size = entry.size
    except (KeyError, OSError, pygit2.GitError):
        return Entry(path, str(entry.id), broken=NOT_FETCHED)
    return Entry(path, str(entry.id), size, LINK if entry.filemode == GIT_LINK else "")
