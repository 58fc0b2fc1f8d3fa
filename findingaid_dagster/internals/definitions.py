"""Parts of definitions: the configuration of an op, the steps after it, and a component's attributes of assets."""

import dagster as dg
from dagster.components.utils.translation import TranslationFn as TranslationFn
from dagster.components.utils.translation import TranslationFnResolver as TranslationFnResolver


def config_field(config: type[dg.Config]) -> dg.Field:
    """Return the fields of a configuration class as a field of another configuration."""
    return config.to_config_schema().as_field()


def awaited_assets(context: dg.AssetExecutionContext, besides: str) -> set[dg.AssetKey]:
    """Return the assets of this step on which other steps of the run depend, apart from those of the op `besides`."""
    step = context.op_execution_context.get_step_execution_context()
    name = step.node_handle.name
    awaited = {
        source.output
        for node, inputs in step.job_def.dependencies.items()
        if node.name != besides
        for dependency in inputs.values()
        for source in dependency.get_node_dependencies()
        if source.node == name
    }
    return {key for output, key in context.assets_def.keys_by_output_name.items() if output in awaited}
