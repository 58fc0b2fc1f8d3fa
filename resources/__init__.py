"""Typed Dagster resources that hand out library objects."""

from resources.findingaid import FindingAidResource

__all__ = ["FindingAidResource"]
