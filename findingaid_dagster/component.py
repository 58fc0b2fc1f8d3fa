"""Dagster component of a configuration, for projects whose definitions are YAML files in a `defs` folder."""

import os
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from pydantic import Field

from findingaid.config.loading import FILE_NAME
from findingaid.config.proposal import corpus_name, quote_yaml
from findingaid_dagster.assets import AssetData, unchanged
from findingaid_dagster.internals.definitions import TranslationFn, TranslationFnResolver
from findingaid_dagster.pipelines.code_location import build_definitions

STARTER = """\
# Paths are relative to this file.
store: {store}
corpora:
  {corpus}:
    source: {{kind: files, root: documents}}
"""
DOCUMENT = "# Documents\n\nPut the documents to index in this folder.\n"


class FindingAidScaffolder(dg.Scaffolder):
    """Scaffolder of `dg scaffold defs`: a component with its findingaid.yaml and a folder of documents."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """Write the files; a component that is not the first of its project gets a name, as it needs one."""
        folder = request.target_path
        project = request.project_root or folder
        is_second = any(request.type_name in path.read_text() for path in project.rglob("defs.yaml"))
        corpus = corpus_name(folder)
        dg.scaffold_component(request, {"config": FILE_NAME, **({"name": corpus} if is_second else {})})
        store = os.path.relpath(project / ".findingaid" / corpus, folder)
        (folder / FILE_NAME).write_text(
            STARTER.format(store=quote_yaml(Path(store).as_posix()), corpus=quote_yaml(corpus))
        )
        (folder / "documents").mkdir()
        (folder / "documents" / "README.md").write_text(DOCUMENT)


@dg.scaffold_with(FindingAidScaffolder)
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
