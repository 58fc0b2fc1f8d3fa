"""Dagster component of a configuration, for projects whose definitions are YAML files in a `defs` folder."""

from typing import Annotated, Any

import dagster as dg
from pydantic import Field

from findingaid_dagster.assets import AssetData, unchanged
from findingaid_dagster.internals.definitions import TranslationFn, TranslationFnResolver
from findingaid_dagster.pipelines.code_location import build_definitions


class FindingAidComponent(dg.Component, dg.Model, dg.Resolvable):
    """Indexes of documents and packages: the assets, job, schedules and sensors of one findingaid.yaml."""

    config: str = Field(default="findingaid.yaml", description="Path of findingaid.yaml, relative to this component.")
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description="Dotted settings that differ from the file, such as `embedder.kind: hash`. `{env: NAME}` names an"
        " environment variable that has the value, as secrets must.",
    )
    name: str | None = Field(
        default=None, description="Prefix for the names of the jobs and the sensors of a second configuration."
    )

    translation: Annotated[
        TranslationFn[AssetData] | None,
        TranslationFnResolver[AssetData](lambda data: {"corpus": data.corpus, "part": data.part}),
    ] = Field(
        default=None,
        description="Attributes of every asset that differ from the default; `corpus`, `part` and `spec` are in scope.",
    )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the definitions of the configuration. Raises ConfigError."""
        return build_definitions(
            context.path / self.config, self.overrides, name=self.name, translation=self.translation or unchanged
        )

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        produces = ["asset", "job", "resource", "schedule", "sensor"]
        return dg.ComponentTypeSpec(description=cls.__doc__, produces=produces)
