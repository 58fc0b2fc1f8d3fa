"""Lance tags that mark published versions of the records and their edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import lance
    from lance.dataset import Tag

PUBLISHED = "published"


KEPT = "published-"


ROLLED_BACK = "rolled-back"


EDGES_OF = "records-"


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
