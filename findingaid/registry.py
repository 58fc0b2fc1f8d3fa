"""Names in the configuration -> classes, imported when first used, their parameters checked by their types."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError, ValidationInfo

from findingaid.errors import ConfigError

T = TypeVar("T")

STRICT = ConfigDict(extra="forbid", strict=False, arbitrary_types_allowed=True)
"""Set as `__pydantic_config__` on a registered dataclass: an unknown parameter is an error."""


def _beside_the_config(path: Path, info: ValidationInfo) -> Path:
    base = (info.context or {}).get("base")
    path = path.expanduser()
    return path if base is None else base / path


ConfigPath = Annotated[Path, AfterValidator(_beside_the_config)]
"""A path that, in a configuration, is relative to the folder of its file."""


class Registry(Generic[T]):
    """The members of one family (sources, strategies, ...) by name.

    `key` is the key that names the member in a spec ("kind", "name"); a member is given as
    "module:attribute" and is a dataclass whose fields are its parameters.
    """

    def __init__(self, family: str, key: str, members: Mapping[str, str]) -> None:
        self.family = family
        self.key = key
        self._members = dict(members)

    def known(self) -> list[str]:
        return sorted(self._members)

    def member(self, name: str, where: str) -> type[T]:
        """The class behind a name. Raises ConfigError that lists the known ones."""
        if name not in self._members:
            raise ConfigError(f"{where}.{self.key}: unknown {self.family} {name!r}. Known: {', '.join(self.known())}")
        module, attribute = self._members[name].split(":")
        loaded: type[T] = getattr(importlib.import_module(module), attribute)
        return loaded

    def create(self, spec: Mapping[str, Any], where: str, base: Path | None = None) -> T:
        """Build the member a spec names; `where` is the spec's own key, for error messages.

        Parameters stand beside the name or under `params`. Raises ConfigError.
        """
        rest = dict(spec)
        name = rest.pop(self.key, None)
        if not isinstance(name, str):
            raise ConfigError(f"{where}.{self.key}: missing. Known: {', '.join(self.known())}")
        rest |= rest.pop("params", None) or {}
        member = self.member(name, where)
        try:
            return TypeAdapter(member).validate_python(rest, context={"base": base})
        except ValidationError as error:
            fields = [f.name for f in dataclasses.fields(member) if f.init]  # type: ignore[arg-type]  # members are dataclasses
            raise ConfigError(one_line(error, where, fields)) from None


def one_line(error: ValidationError, where: str, known: list[str]) -> str:
    """The first problem of a pydantic error as `key: problem`, with the valid keys where one is unknown."""
    problems = error.errors(include_url=False)
    first = problems[0]
    key = ".".join(str(part) for part in (where, *first["loc"]) if part != "")
    match first["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            message = f"unknown key. Known: {', '.join(known)}"
        case "missing" | "missing_argument":
            message = "missing, but required"
        case "value_error":
            message = str(first["ctx"]["error"])
        case _:
            shown = repr(first["input"])
            expected = first["msg"].replace("a valid tuple", "a list")
            message = f"{expected}, got {shown if len(shown) < 80 else shown[:77] + '...'}"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{key}: {message}{more}"
