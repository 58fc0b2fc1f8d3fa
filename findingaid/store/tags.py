"""Lance tags that mark published versions of the records, and the versions of other tables that belong to them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from findingaid.errors import StoreError

if TYPE_CHECKING:
    import lance
    from lance.dataset import Tag

PUBLISHED = "published"


KEPT = "published-"


ROLLED_BACK = "rolled-back"


BELONGS_TO = "records-"


ATTEMPTS = 20


DAMAGED = "LanceError(Arrow)"
"""Mark of Lance's error for a tag that is no JSON."""


def read_tags(dataset: lance.LanceDataset) -> dict[str, Tag]:
    """Return the tags of a table by name, also while another run removes some. Raises StoreError for a damaged one.

    Lance reads each tag after listing their names, and fails if one was removed between.
    """
    for tries_left in reversed(range(ATTEMPTS)):
        try:
            return dataset.tags.list()
        except (ValueError, RuntimeError) as error:
            if DAMAGED in str(error):
                raise StoreError(f"a tag of {dataset.uri} is damaged: run `findingaid index`") from None
            if not tries_left or "not found" not in str(error).lower():
                raise
    raise AssertionError


def drop_damaged_tags(dataset: lance.LanceDataset, names: Iterable[str]) -> None:
    """Remove the tags among `names` that cannot be read, for the next publish to set them anew.

    What a rollback withdrew stays withdrawn.
    """
    for name in names:
        try:
            dataset.tags.get_version(name)
        except OSError as error:
            if DAMAGED not in str(error):
                raise
            dataset.tags.delete(name)
            if name == ROLLED_BACK:
                dataset.tags.create(name, dataset.version)


def published_mark(records: lance.LanceDataset) -> object:
    """Return a value that changes with every publish; None if nothing is published.

    On a disk it is the state of the tag's file, which costs a search microseconds. Lance would read every tag.
    """
    if "://" in records.uri:
        return read_tags(records).get(PUBLISHED)
    try:
        stat = os.stat(os.path.join(records.uri, "_refs", "tags", f"{PUBLISHED}.json"))
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
