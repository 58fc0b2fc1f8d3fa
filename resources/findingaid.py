"""The finding aid of a configuration, as a resource."""

from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr

from findingaid.aid import FindingAid
from findingaid.aid import open as open_aid


class FindingAidResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # it hands out itself
    """Opens one configuration, once a process and run, so that a model is loaded once."""

    config_path: str
    """The findingaid.yaml, as an absolute path."""

    overrides: dict[str, Any] = Field(default_factory=dict)
    """Dotted settings that differ from the file, as in `--set`."""

    _aid: FindingAid | None = PrivateAttr(default=None)

    def open(self) -> FindingAid:
        """The finding aid. Raises ConfigError."""
        if self._aid is None:
            self._aid = open_aid(self.config_path, self.overrides)
        return self._aid


def opened(resources: object, key: str) -> FindingAid:
    """The finding aid of the resource with this key, which differs from configuration to configuration."""
    resource: FindingAidResource = getattr(resources, key)
    return resource.open()
