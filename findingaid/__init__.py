"""findingaid: incremental, traceable indexes of collections, for people and agents.

    import findingaid
    aid = findingaid.open("findingaid.yaml")
    aid.index()
    for hit in aid.search("how are versions compared"):
        print(hit.score, hit.artifact_id, hit.span)

Importing this loads no model, no database and no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from findingaid.aid import FindingAid, open
    from findingaid.errors import (
        ArtifactError,
        ConfigError,
        FindingAidError,
        QueryError,
        SourceError,
        SourceShrunkError,
        StoreError,
    )
    from findingaid.model import (
        Artifact,
        Discovery,
        Embedder,
        Failure,
        Hit,
        Listing,
        Report,
        Source,
        Strategy,
        Surface,
        SurfacePlan,
        Synthesizer,
    )

__version__ = "0.1.0"

_HOMES = {
    "findingaid.aid": ("FindingAid", "open"),
    "findingaid.errors": (
        "ArtifactError",
        "ConfigError",
        "FindingAidError",
        "QueryError",
        "SourceError",
        "SourceShrunkError",
        "StoreError",
    ),
    "findingaid.model": (
        "Artifact",
        "Discovery",
        "Embedder",
        "Failure",
        "Hit",
        "Listing",
        "Report",
        "Source",
        "Strategy",
        "Surface",
        "SurfacePlan",
        "Synthesizer",
    ),
}

_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*sorted(_HOME), "__version__"]  # noqa: PLE0604  # all are strings


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'findingaid' has no attribute {name!r}")
