"""Typed Dagster resources that provide library objects."""

from findingaid_dagster.resources.findingaid import FindingAidResource, in_dagster, in_one_line, opened
from findingaid_dagster.resources.parts import EmbedderConfig, StoreConfig, SynthesizerConfig

__all__ = [
    "EmbedderConfig",
    "FindingAidResource",
    "StoreConfig",
    "SynthesizerConfig",
    "in_dagster",
    "in_one_line",
    "opened",
]
