"""Where artifacts come from. Every source lists cheaply (`discover`) and reads one artifact at a time (`read`)."""

from findingaid.model import Source
from findingaid.registry import Registry

SOURCES: Registry[Source] = Registry(
    "source",
    "kind",
    {
        "files": "findingaid.sources.files:Files",
        "mcp": "findingaid.sources.tools:Tools",
        "packages": "findingaid.sources.packages:Packages",
        "records": "findingaid.sources.records:RecordFile",
        "sessions": "findingaid.sources.sessions:Sessions",
        "skills": "findingaid.sources.skills:Skills",
    },
)

__all__ = ["SOURCES"]
