"""Parts of definitions: the configuration of an op, and a component's attributes of assets."""

import dagster as dg
from dagster.components.utils.translation import TranslationFn as TranslationFn
from dagster.components.utils.translation import TranslationFnResolver as TranslationFnResolver


def config_field(config: type[dg.Config]) -> dg.Field:
    """Return the fields of a configuration class as a field of another configuration."""
    return config.to_config_schema().as_field()
