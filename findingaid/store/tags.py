"""Names of the Lance tags that mark published versions of the records and their edges."""

from __future__ import annotations

PUBLISHED = "published"


KEPT = "published-"


ROLLED_BACK = "rolled-back"


EDGES_OF = "records-"
