"""Lance tags that mark published versions of the records, and the versions of other tables that belong to them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import lance
    from lance.dataset import Tag

PUBLISHED = "published"


KEPT = "published-"


ROLLED_BACK = "rolled-back"


BELONGS_TO = "records-"


ATTEMPTS = 20


def read_tags(dataset: lance.LanceDataset) -> dict[str, Tag]:
    """Return the tags of a table by name, also while another run removes some.

    Lance reads each tag after listing their names, and fails if one was removed between.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return dataset.tags.list()
        except ValueError as error:
            if "not found" not in str(error).lower():
                raise
    return dataset.tags.list()


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
