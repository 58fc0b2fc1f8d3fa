"""Loading of findingaid.yaml, the environment and overrides into validated settings."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from findingaid.config.budget_check import check_budget
from findingaid.config.building import Config
from findingaid.config.settings import Settings, _require_no_nul
from findingaid.errors import ConfigError, brief
from findingaid.identity.inputs import read_input
from findingaid.registry import UNSHOWN, one_line
from findingaid.text.strict_yaml import parse_yaml

LOGGER = logging.getLogger("findingaid")

FILE_NAME = "findingaid.yaml"


FILE_VARIABLE = "FINDINGAID_CONFIG"


PREFIX = "FINDINGAID__"

VARIABLE = re.compile(r"\$\{\w+[^}]*\}|(?:\A|(?<=[/\s]))\$[A-Z_][A-Z0-9_]*(?=[/\s]|\Z)|%[A-Z_]+%")
"""A variable of the environment, as shells write it, alone or as a part of a path."""

WORDS = 5
"""Words from which a value is a text, such as a prompt, that may speak of variables."""

ENDLESS = "it is nested too deeply, or contains itself"

OWN_VARIABLES = frozenset({"include", "exclude", "servers"})
"""Keys whose values may have dollar signs."""


def load(path: str | Path | None = None, overrides: Mapping[str, Any] | None = None, text: str | None = None) -> Config:
    """Read and check a configuration. Raises ConfigError with one line that names the key.

    Without a path it reads $FINDINGAID_CONFIG, else the findingaid.yaml in the current folder or the nearest folder
    above it. `overrides` maps dotted keys to values, {"embedder.kind": "hash"}. A `text` is taken for that of the file.
    """
    file = find_file(path)
    config = Config(read_settings(file, overrides, text), file.resolve().parent, file.absolute())
    try:
        config.embedder, config.synthesizer, config.corpora, config.search, config.context, config.answerer, config.ray  # noqa: B018  # builds every object, so that errors are raised now
        config.verifier  # noqa: B018  # as above
        check_budget(config.budget, config.prices, config.corpora.values())
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    return config


def find_file(path: str | Path | None = None) -> Path:
    """Return the configuration file: `path`, $FINDINGAID_CONFIG, or the nearest findingaid.yaml upward from here."""
    if named := path or os.environ.get(FILE_VARIABLE):
        return Path(named)
    try:
        here = Path.cwd()
    except OSError:  # the current folder was deleted
        return Path(FILE_NAME)
    files = (above / FILE_NAME for above in (here, *here.parents))
    found = next(filter(os.path.isfile, files), None)
    return Path(os.path.relpath(found)) if found else Path(FILE_NAME)


def read_settings(file: Path, overrides: Mapping[str, Any] | None = None, text: str | None = None) -> Settings:
    """Read a file, apply the environment and `overrides`, and validate the result. Raises ConfigError."""
    settings = _read(file, text)
    try:
        _refuse_variables(settings, ())
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{file}: {ENDLESS}") from None
    _warn_of_one_underscore()
    said = [(key, value) for key, _, value in environment()]
    for key, value in [*said, *(overrides or {}).items()]:
        _set(settings, key, value)
    try:
        _require_no_nul(settings, "")
        return Settings.model_validate(settings)
    except ValidationError as error:
        known = list(_group(error.errors()[0]["loc"]).model_fields)
        raise ConfigError(f"{file}: {one_line(error, '', known)}") from None
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{file}: {ENDLESS}") from None


def parse_override(text: str) -> tuple[str, Any]:
    """Parse `key=value` into (key, value as YAML). Raises ConfigError."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set: expected key=value, got {text!r}")
    return key, _value(key, value, f"--set {key}")


def parse_part(text: str, where: str) -> Any:
    """Parse a kind, or keys and values, as YAML; return False for `none`. Raises ConfigError."""
    if not text.strip():
        raise ConfigError(f"{where}: is empty: name a kind, or none")
    value = _value("", text, where)
    return False if value is None or value == "none" else value


def _read(file: Path, text: str | None) -> dict[str, Any]:
    try:
        settings = parse_yaml(read_input(file) if text is None else text)
    except FileNotFoundError:
        raise ConfigError(
            f"no configuration at {file}: create one with `findingaid init`, or name another file by --config or"
            f" ${FILE_VARIABLE}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    except ValueError as error:
        raise ConfigError(f"{file}{error}") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"{file}: expected keys and values. Known: {', '.join(Settings.model_fields)}")
    return settings


def environment() -> Iterator[tuple[str, str, Any]]:
    """Yield the key, the variable and the value of each setting in the environment. Raises ConfigError."""
    for variable, text in sorted(os.environ.items()):
        if variable.startswith(PREFIX):
            key = variable.removeprefix(PREFIX).replace("__", ".").lower()
            yield key, variable, _value(key, text, f"${variable}")


def _warn_of_one_underscore() -> None:
    """Warn of variables that would set something if they had a second underscore."""
    for name in Settings.model_fields:
        variable, meant = f"{PREFIX[:-1]}{name.upper()}", f"{PREFIX}{name.upper()}"
        if variable in os.environ and meant not in os.environ:
            LOGGER.warning("$%s sets nothing: the variable of this setting is $%s", variable, meant)


def _refuse_variables(value: object, at: tuple[str, ...]) -> None:
    """Raise ConfigError for a value with a variable of the environment, which is not expanded.

    Otherwise it would be taken as it is, for the name of a folder or for a key. Patterns may have dollar signs, as in
    $RECYCLE.BIN, and servers of MCP expand variables themselves.
    """
    if at and at[-1] in OWN_VARIABLES:
        return
    if isinstance(value, dict):
        for key, within in value.items():
            _refuse_variables(within, (*at, str(key)))
    elif isinstance(value, list):
        for within in value:
            _refuse_variables(within, at)
    elif isinstance(value, str) and (found := VARIABLE.search(value)) and len(value.split()) < WORDS:
        key = ".".join(at)
        raise ConfigError(
            f"{key}: {found[0].rstrip('/')} is not expanded here: write the value, or set the variable"
            f" {PREFIX}{'__'.join(at).upper()}"
        )


def _value(key: str, text: str, where: str) -> Any:
    """Parse a setting from outside the file: YAML, or the text as it is for a secret. Raises ConfigError."""
    *folders, last = key.split(".")
    if last == "api_key" or not UNSHOWN.isdisjoint(folders):
        return text
    try:
        return parse_yaml(text)
    except ValueError as error:
        reason = " ".join(str(error).partition(": not YAML: ")[2].split())
        said = "this is not YAML" if last in UNSHOWN else f"{brief(text)} is not YAML: {reason}"
        raise ConfigError(f"{where}: {said}") from None


def _set(settings: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key, replacing one that differs only in case, since keys from the environment are lower case."""
    *folders, last = keys = key.split(".")
    for depth, folder in enumerate(folders, 1):
        nested = settings.setdefault(_existing(settings, folder), {})
        if not isinstance(nested, dict):
            whole, rest = ".".join(keys[:depth]), ".".join(keys[depth:])
            raise ConfigError(
                f"{key}: {folder} is a single value, not a group of keys: set {whole} to {{{rest}: ...}} instead"
            )
        settings = nested
    settings[_existing(settings, last)] = value


def _existing(settings: dict[str, Any], key: str) -> str:
    return next((k for k in settings if isinstance(k, str) and k.lower() == key), key)


def _group(location: Sequence[int | str]) -> type[BaseModel]:
    """Return the settings that hold the key at this location."""
    group: type[BaseModel] = Settings
    keys = iter(location[:-1])
    for key in keys:
        if field := group.model_fields.get(str(key)):
            group = _model_in(field.annotation) or group
            if get_origin(field.annotation) is dict:  # the next key is a name that the user chose
                next(keys, None)
    return group


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
