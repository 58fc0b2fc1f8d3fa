"""Typed Dagster resources that hand out library objects."""

from findingaid_dagster.resources.findingaid import FindingAidResource

__all__ = ["FindingAidResource"]
