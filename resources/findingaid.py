"""Dagster resource that opens the finding aid of a configuration."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr

from findingaid.aid import FindingAid
from findingaid.aid import open as open_aid
from findingaid.errors import ConfigError, FindingAidError, StoreError, UnreachableError
from findingaid.registry import UNSHOWN
from findingaid_dagster.resources.parts import EmbedderConfig, StoreConfig, SynthesizerConfig


class FindingAidResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # the resource provides itself
    """Resource for one configuration, opened once per process and run, so that a model is loaded once."""

    config_path: str
    """Absolute path of the findingaid.yaml."""

    overrides: dict[str, Any] = Field(default_factory=dict)
    """Dotted settings that override the file, as in `--set`. Values may be `dg.EnvVar`, or {"env": NAME} in YAML."""

    store: StoreConfig = StoreConfig()
    embedder: EmbedderConfig = EmbedderConfig()
    synthesizer: SynthesizerConfig = SynthesizerConfig()

    _aid: FindingAid | None = PrivateAttr(default=None)

    def open(self) -> FindingAid:
        """Return the finding aid, opened by the first call. Raises ConfigError."""
        if self._aid is None:
            self._aid = open_aid(self.config_path, self.settings())
        return self._aid

    def settings(self, *, secrets: bool = True) -> dict[str, Any]:
        """Return the dotted settings that override the file, with the values of environment variables.

        Raises ConfigError for a variable that is not set. Without `secrets` those of secrets may be missing, since
        the process that loads the definitions needs none.
        """
        said = dict(self._said())
        for key, value in _leaves(said):
            if _is_unset(value) and (secrets or not is_secret(key)):
                raise ConfigError(f"{self.config_path}: {key}: the environment variable {_variable(value)} is not set")
        found: dict[str, Any] = _value(said)
        return found

    def refuse_shown_secrets(self) -> None:
        """Raise ConfigError if a secret is given as it is, since Dagster shows the configuration of resources."""
        for key, value in _leaves(dict(self._said())):
            if is_secret(key) and _variable(value) is None:
                raise ConfigError(
                    f"{self.config_path}: {key}: Dagster shows what a resource is configured with: name the environment"
                    ' variable that has the value, by dg.EnvVar("NAME"), or {env: NAME} in YAML'
                )

    def _said(self) -> Iterator[tuple[str, Any]]:
        """Yield the dotted settings as they were given."""
        parts = chain(self.store.settings(), self.embedder.settings(), self.synthesizer.settings())
        yield from self.overrides.items()
        yield from ((key, value) for key, value in parts if value is not None)


def is_secret(key: str) -> bool:
    """Check whether Dagster must not show the value of a dotted setting."""
    return not UNSHOWN.isdisjoint(key.split("."))


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value within mappings and lists, by its dotted name."""
    if _variable(value) is None and isinstance(value, dict | list):
        for key, within in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(within, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _variable(value: Any) -> str | None:
    """Return the name of the environment variable that a value names, if it does."""
    if isinstance(value, dg.EnvVar):
        return value.env_var_name
    is_named = isinstance(value, dict) and value.keys() == {"env"} and isinstance(value["env"], str)
    return value["env"] if is_named else None


def _is_unset(value: Any) -> bool:
    name = _variable(value)
    return name is not None and name not in os.environ


def _value(value: Any) -> Any:
    """Return a value with the values of its environment variables, without those that are not set."""
    if (name := _variable(value)) is not None:
        return os.environ[name]
    if isinstance(value, dict):
        return {key: _value(within) for key, within in value.items() if not _is_unset(within)}
    return [_value(within) for within in value if not _is_unset(within)] if isinstance(value, list) else value


def opened(resources: object, key: str) -> FindingAid:
    """Return the finding aid of the resource with this key; each configuration has its own key."""
    resource: FindingAidResource = getattr(resources, key)
    return resource.open()


OPTIONS = {
    "run again with --allow-loss": "run the job again with `allow_loss: true`",
    "`findingaid index --allow-loss`": "the index job with `allow_loss: true`",
    "`findingaid index --force`": "the index job with `force: true`",
    "add --force": "add `force: true`",
}
"""Options of the command line in messages, and those of the job that do the same."""


def in_dagster(message: str) -> str:
    """Return a message with the options of the command line replaced by those of the job."""
    for cli, job in OPTIONS.items():
        message = message.replace(cli, job)
    return message


@contextmanager
def in_one_line(lead: str = "") -> Iterator[None]:
    """Convert findingaid's errors to one-line step failures; only StoreError and UnreachableError allow retries."""
    try:
        yield
    except FindingAidError as error:
        retries = isinstance(error, StoreError | UnreachableError)
        raise dg.Failure(f"{lead}{in_dagster(str(error))}", allow_retries=retries) from None
