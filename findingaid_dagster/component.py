"""A configuration as a component, for projects whose definitions are YAML files in a `defs` folder."""

from typing import Any

import dagster as dg
from pydantic import Field

from findingaid_dagster.pipelines.code_location import build_definitions


class FindingAidComponent(dg.Component, dg.Model, dg.Resolvable):
    """Indexes of documents and packages: the assets, job, schedules and sensors of one findingaid.yaml."""

    config: str = Field(default="findingaid.yaml", description="The findingaid.yaml, relative to this component.")
    overrides: dict[str, Any] = Field(
        default_factory=dict, description="Dotted settings that differ from the file, such as `embedder.kind: hash`."
    )
    name: str | None = Field(
        default=None, description="Leads the names of the job and the sensors, for a second configuration in a project."
    )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions of the configuration. Raises ConfigError."""
        return build_definitions(context.path / self.config, self.overrides, name=self.name)

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        produces = ["asset", "job", "resource", "schedule", "sensor"]
        return dg.ComponentTypeSpec(description=cls.__doc__, produces=produces)
