"""Typed Dagster resources that hand out library objects."""

from findingaid_dagster.resources.findingaid import FindingAidResource, opened

__all__ = ["FindingAidResource", "opened"]
