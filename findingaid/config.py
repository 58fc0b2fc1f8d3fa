"""findingaid.yaml and the environment -> typed settings, and from them the objects they name.

Order of precedence, highest first: overrides given in code or by `--set key=value`, environment variables
(FINDINGAID__EMBEDDER__KIND=hash sets embedder.kind), the file. All values are YAML, as in the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from findingaid.embedding import EMBEDDERS
from findingaid.errors import ConfigError
from findingaid.model import Corpus, Embedder, Synthesizer
from findingaid.registry import one_line
from findingaid.sources import SOURCES
from findingaid.strategies import STRATEGIES, WithTokenizer
from findingaid.synthesis import SYNTHESIZERS

FILE_NAME = "findingaid.yaml"
FILE_VARIABLE = "FINDINGAID_CONFIG"
PREFIX = "FINDINGAID__"

Spec = dict[str, Any]


def _plain_name(name: str) -> str:
    if not name.replace("_", "").isalnum() or not name.isascii():
        raise ValueError(f"a corpus name is letters, digits and _, since it becomes a Dagster asset key; got {name!r}")
    return name


CorpusName = Annotated[str, AfterValidator(_plain_name)]


def _cron(text: str) -> str:
    if len(text.split()) != 5:
        raise ValueError(f"a schedule is five fields of cron, such as '0 3 * * *'; got {text!r}")
    return text


CronText = Annotated[str, AfterValidator(_cron)]


class CorpusSettings(BaseModel):
    """One corpus as configured."""

    model_config = ConfigDict(extra="forbid")
    source: Spec
    strategy: Spec = Field(default_factory=lambda: {"name": "Chunked"})
    synopsis: bool = False
    schedule: CronText | None = None
    max_loss: float = Field(default=0.5, ge=0, le=1)


class Settings(BaseModel):
    """The whole of findingaid.yaml."""

    model_config = ConfigDict(extra="forbid")
    store: str = ".findingaid/index"
    retain: int = Field(default=1, ge=1)
    embedder: Spec = Field(default_factory=lambda: {"kind": "sentence-transformers"})
    synthesizer: Spec = Field(default_factory=lambda: {"kind": "extractive"})
    executor: Spec = Field(default_factory=lambda: {"kind": "in_process"})
    """What runs the steps of Dagster's runs; read by the code location, not by this library."""

    corpora: dict[CorpusName, CorpusSettings]


@dataclass(frozen=True)
class Config:
    """Validated settings and the folder that their paths are relative to."""

    settings: Settings
    base: Path

    @property
    def store(self) -> str:
        """The store's URI, or its absolute path."""
        uri = self.settings.store
        return uri if "://" in uri else str((self.base / Path(uri).expanduser()).resolve())

    @cached_property
    def embedder(self) -> Embedder:
        return EMBEDDERS.create(self.settings.embedder, "embedder")

    @cached_property
    def synthesizer(self) -> Synthesizer:
        return SYNTHESIZERS.create(self.settings.synthesizer, "synthesizer")

    @cached_property
    def corpora(self) -> dict[str, Corpus]:
        return {name: self._corpus(name, settings) for name, settings in self.settings.corpora.items()}

    def _corpus(self, name: str, settings: CorpusSettings) -> Corpus:
        where = f"corpora.{name}"
        try:
            strategy = STRATEGIES.create(settings.strategy, f"{where}.strategy")
            # A bound strategy knows what the model can see; that asks for its tokenizer, not its weights.
            bound = strategy.for_embedder(self.embedder) if isinstance(strategy, WithTokenizer) else strategy
        except ConfigError as error:
            raise ConfigError(str(error) if str(error).startswith(where) else f"{where}.{error}") from None
        return Corpus(
            name,
            SOURCES.create(settings.source, f"{where}.source", self.base),
            bound,
            self.synthesizer if settings.synopsis else None,
            settings.max_loss,
            settings.schedule,
        )


def load(path: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """Read and check a configuration. Raises ConfigError with one line that names the key.

    Without a path: $FINDINGAID_CONFIG, else findingaid.yaml in this folder. `overrides` maps dotted keys
    to values, {"embedder.kind": "hash"}.
    """
    file = Path(path or os.environ.get(FILE_VARIABLE) or FILE_NAME)
    settings = _read(file)
    for key, value in [*_environment(), *(overrides or {}).items()]:
        _set(settings, key, value)
    try:
        config = Config(Settings.model_validate(settings), file.resolve().parent)
    except ValidationError as error:
        raise ConfigError(f"{file}: {_known_keys(error)}") from None
    try:
        config.synthesizer, config.corpora  # noqa: B018  # builds every object, so that a wrong one is named now
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    return config


def parse_override(text: str) -> tuple[str, Any]:
    """`key=value` -> (key, value as YAML). Raises ConfigError."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set wants key=value, got {text!r}")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError:
        raise ConfigError(f"--set {key}: {value!r} is not YAML") from None


def _read(file: Path) -> dict[str, Any]:
    try:
        settings = yaml.safe_load(file.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"no configuration at {file}: write one, or name it by --config or ${FILE_VARIABLE}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{file}{place}: not YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"{file}: expected keys and values. Known: {', '.join(Settings.model_fields)}")
    return settings


def _environment() -> Iterator[tuple[str, Any]]:
    for variable, text in sorted(os.environ.items()):
        if variable.startswith(PREFIX):
            key = variable.removeprefix(PREFIX).replace("__", ".").lower()
            try:
                yield key, yaml.safe_load(text)
            except yaml.YAMLError:
                raise ConfigError(f"${variable}: {text!r} is not YAML") from None


def _set(settings: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key; a key of the environment, always lower case, finds the one that differs only in case."""
    *folders, last = key.split(".")
    for folder in folders:
        nested = settings.setdefault(_existing(settings, folder), {})
        if not isinstance(nested, dict):
            raise ConfigError(f"{key}: {folder} is {nested!r}, not a group of keys")
        settings = nested
    settings[_existing(settings, last)] = value


def _existing(settings: dict[str, Any], key: str) -> str:
    return next((k for k in settings if isinstance(k, str) and k.lower() == key), key)


def _known_keys(error: ValidationError) -> str:
    inside_corpus = error.errors()[0]["loc"][0] == "corpora"
    return one_line(error, "", list((CorpusSettings if inside_corpus else Settings).model_fields))
