"""Sources of artifacts. Every source lists cheaply (`discover`) and reads one artifact at a time (`read`)."""

from collections.abc import Mapping
from typing import Any

from findingaid.protocols import Source
from findingaid.registry import Registry

SOURCES: Registry[Source] = Registry(
    "source",
    "kind",
    Source,
    "findingaid.sources",
    {
        "files": "findingaid.sources.files:Files",
        "loader": "findingaid.sources.loaders:Loader",
        "mcp": "findingaid.sources.mcp_tools:Tools",
        "packages": "findingaid.sources.packages:Packages",
        "records": "findingaid.sources.records:RecordFile",
        "sessions": "findingaid.sources.sessions:Sessions",
        "skills": "findingaid.sources.skills:Skills",
        "sql": "findingaid.sources.databases:Database",
        "web": "findingaid.sources.sites:Site",
    },
)

CHUNKED = {"name": "Chunked"}


def default_strategy(source: Source) -> Mapping[str, Any]:
    """Return the spec of the strategy that fits the source's payloads, for a corpus that names none.

    A source declares it as the class attribute `default_strategy`. Without it, the payloads are text, which is cut into
    chunks.
    """
    return getattr(source, "default_strategy", CHUNKED)


__all__ = ["SOURCES", "default_strategy"]
