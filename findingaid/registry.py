"""Registries that map names in the configuration to classes.

Classes are imported when first used, and their parameters are checked by their types.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import cache, wraps
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    PydanticUserError,
    SkipValidation,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import ArgsKwargs

from findingaid.errors import ConfigError

T = TypeVar("T")


def checked(member: type[T]) -> type[T]:
    """Check the parameters of a dataclass by their types, in Python and in a configuration; the decorator of members.

    Values are converted as in a configuration: a list to a tuple, "3" to 3. An unknown parameter or an invalid value
    raises ConfigError.
    """
    member.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)  # type: ignore[attr-defined]

    @cache
    def validator() -> Any:  # made when first used: the types of the parameters may not be defined yet
        return TypeAdapter(member).validator

    @wraps(member.__init__)
    def init(self: T, *args: Any, **params: Any) -> None:
        try:
            validator().validate_python(ArgsKwargs(args, params), self_instance=self)
        except ValidationError as error:
            raise ConfigError(one_line(error, member.__name__, parameters(member))) from None

    member.__init__ = init  # type: ignore[method-assign, assignment]
    return member


def _beside_the_config(path: Path, info: ValidationInfo) -> Path:
    base = (info.context or {}).get("base")
    path = path.expanduser()
    return path if base is None else base / path


ConfigPath = Annotated[Path, AfterValidator(_beside_the_config)]
"""Path parameter; in a configuration it is relative to the folder of the configuration file."""


def _function(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str):
        return value
    where = f"{(info.context or {}).get('where', '')}.{info.field_name}".removeprefix(".")
    found = imported(value, where)
    if not callable(found):
        raise ConfigError(f"{where}: {value!r} is a {type(found).__name__}, expected a function")
    return found


Importable = Annotated[SkipValidation[Callable[..., Any]], BeforeValidator(_function)]
"""Function parameter; in a configuration it is an import path, "module:function"."""


UNSHOWN = frozenset({"storage_options", "default_headers", "api_key"})
"""Keys whose values, including all nested ones, are never shown, since they are or contain secrets."""

REGISTRIES: list[Registry[Any]] = []
"""Every registry created, used to recognise a parameter that is itself a member."""


class Registry(Generic[T]):
    """The members of one family (sources, strategies, ...) by name.

    `key` is the key that names the member in a spec ("kind", "name"), and `protocol` is the protocol of all members. A
    name is that of a shipped member, an entry point of an installed distribution in `group`, or an import path,
    "module:attribute" or "module.attribute". A member should be a dataclass: its fields are its parameters and are
    checked by their types. Any other callable gets its parameters unchecked.
    """

    def __init__(self, family: str, key: str, protocol: type, group: str, members: Mapping[str, str]) -> None:
        self.family = family
        self.key = key
        self.group = group
        self._protocol = protocol
        self._members = dict(members)
        REGISTRIES.append(self)

    def known(self) -> list[str]:
        """Return the names of the shipped members, sorted."""
        return sorted(self._members)

    def name_of(self, member: type) -> str | None:
        """Return the name of a shipped class; None for any other class."""
        path = import_path(member)
        return next((name for name, shipped in self._members.items() if shipped == path), None)

    def member(self, name: str, where: str) -> type[T]:
        """Return the class behind a name. Raises ConfigError, which lists the known names."""
        path = self._members.get(name) or self._plug_in(name, where) or name
        if "" in _parted(path):
            raise ConfigError(f"{where}.{self.key}: unknown {self.family} {name!r}. Known: {', '.join(self._named())}")
        loaded = imported(path, f"{where}.{self.key}", name)
        if not callable(loaded):
            raise ConfigError(f"{where}.{self.key}: {name!r} is a {type(loaded).__name__}, expected a class")
        member: type[T] = loaded
        return member

    def create(self, spec: Mapping[str, Any], where: str, base: Path | None = None) -> T:
        """Build the member that a spec names; `where` is the configuration key of the spec, for error messages.

        Parameters are beside the name or under `params`. Paths are relative to `base`. Raises ConfigError.
        """
        rest = dict(spec)
        name = rest.pop(self.key, None)
        if not isinstance(name, str):
            raise ConfigError(f"{where}.{self.key}: missing. Known: {', '.join(self._named())}")
        params = rest.pop("params", None) or {}
        if not isinstance(params, Mapping):
            raise ConfigError(f"{where}.params: expected keys and values, got {params!r}")
        made = self._make(self.member(name, where), rest | dict(params), where, base)
        if wanted := self._lacking(made):
            raise ConfigError(
                f"{where}.{self.key}: {name!r} is not a valid {self.family}: it has no {', '.join(wanted)}"
            )
        return made

    def spec_of(self, made: Any) -> dict[str, Any]:
        """Return the `{key, "params"}` spec of a member, for YAML or JSON; parameters at their default are left out.

        A member that is not shipped is named by its import path. Raises ConfigError if no spec can express it.
        """
        name = self.name_of(type(made)) or import_path(type(made))
        if "<locals>" in name or not dataclasses.is_dataclass(made):
            raise ConfigError(f"{name} has no spec: only a dataclass at the top level of a module has one")
        params = {
            f.name: _plain(value, f"{name}.{f.name}")
            for f in dataclasses.fields(made)
            if f.init and f.metadata.get("spec", True) and (value := getattr(made, f.name)) != _default(f)
        }
        return {self.key: name, "params": params}

    def is_member(self, value: Any) -> bool:
        """Check whether a value is an instance of this family."""
        return not self._lacking(value) and not isinstance(value, type)

    def _lacking(self, value: Any) -> list[str]:
        """Return the members of the protocol that a value does not have.

        `isinstance` would read each of them before Python 3.12, and the dimensions of some embedders are a request.
        """
        of = protocol_members(self._protocol)
        return [m for m in of if inspect.getattr_static(value, m, None) is None and not hasattr(value, m)]

    def _make(self, member: Any, params: dict[str, Any], where: str, base: Path | None) -> T:
        fields = parameters(member) if dataclasses.is_dataclass(member) else None
        # pydantic ignores unknown keys for a dataclass that is not `checked`.
        if fields is not None and (unknown := [key for key in params if key not in fields]):
            raise ConfigError(f"{where}.{unknown[0]}: unknown key. Known: {', '.join(fields) or 'none'}")
        try:
            if fields is None:
                made: T = member(**params)
                return made
            return TypeAdapter[T](member).validate_python(params, context={"base": base, "where": where})
        except ConfigError as error:  # of the member itself, or of a nested one that already names its key
            raise ConfigError(str(error) if str(error).startswith(f"{where}.") else f"{where}.{error}") from None
        except ValidationError as error:
            raise ConfigError(one_line(error, where, fields or [])) from None
        except PydanticUserError:
            raise ConfigError(
                f"{where}: the types of {member.__name__}'s parameters cannot be checked:"
                " decorate it with findingaid.registry.checked"
            ) from None
        except Exception as error:  # noqa: BLE001  # a class that findingaid does not ship may raise anything
            raise ConfigError(f"{where}: {getattr(member, '__name__', member)}: {said(error)}") from None

    def _named(self) -> list[str]:
        return sorted({*self._members, *(entry.name for entry in entry_points(group=self.group))})

    def _plug_in(self, name: str, where: str) -> str | None:
        """Return the import path of an entry point; None if no distribution has one of this name.

        Raises ConfigError if several distributions give the name to different members.
        """
        found = {f"{entry.module}:{entry.attr}": entry.dist for entry in entry_points(group=self.group, name=name)}
        if len(found) > 1:
            raise ConfigError(
                f"{where}.{self.key}: {name!r} is provided by"
                f" {' and '.join(sorted(d.name for d in found.values() if d))}:"
                f" name one by its import path, {' or '.join(sorted(found))}"
            )
        return next(iter(found), None)


def imported(path: str, where: str, name: str | None = None) -> Any:
    """Import the object at "module:attribute" or "module.attribute". Raises ConfigError that shows `name` if given."""
    module, attribute = _parted(path)
    try:
        loaded: Any = importlib.import_module(module)
        for part in attribute.split("."):
            loaded = getattr(loaded, part)
    except Exception as error:  # noqa: BLE001  # a module that findingaid does not ship may raise anything
        raise ConfigError(
            f"{where}: {name or path!r} cannot be imported: {said(error)}."
            " Is it installed, or its folder on PYTHONPATH?"
        ) from None
    return loaded


def import_path(code: Any) -> str:
    """Return the "module:attribute" path of a class or a function."""
    return f"{code.__module__}:{code.__qualname__}"


def _parted(path: str) -> tuple[str, str]:
    module, _, attribute = path.partition(":") if ":" in path else path.rpartition(".")
    return module, attribute


def _default(f: dataclasses.Field[Any]) -> Any:
    return f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default


def _plain(value: Any, where: str) -> Any:
    """Convert a parameter to YAML and JSON types. Raises ConfigError if that is not possible."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if of := [registry for registry in REGISTRIES if registry.is_member(value)]:
        # A member of two families is named by the registry that ships it.
        return next((registry for registry in of if registry.name_of(type(value))), of[0]).spec_of(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item, where) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, where) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item, where) for item in value), key=repr)
    if isinstance(value, Path):
        return str(value)
    if inspect.isfunction(value) and "<" not in value.__qualname__:
        return import_path(value)
    raise ConfigError(f"{where}: a spec cannot contain a {type(value).__name__}")


def parameters(member: Any) -> list[str]:
    """Return the parameters of a dataclass member, without those marked {"spec": False}, which only code sets."""
    return [f.name for f in dataclasses.fields(member) if f.init and f.metadata.get("spec", True)]


def protocol_members(protocol: type) -> list[str]:
    """Return the names that a class must have to implement a protocol."""
    return sorted(name for name in vars(protocol) if not name.startswith("_"))


def said(error: BaseException) -> str:
    """Return an error's type and message on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


PLAIN_WORDS = {
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "dataclass_type"), "expected keys and values"),
    **dict.fromkeys(("list_type", "tuple_type", "sequence_str"), "expected a list"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "expected true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "expected a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "expected a number"),
    "string_type": "expected a text",
}
"""Messages for values of the wrong type, in the words of YAML instead of pydantic's, which name Python's types."""


ALTERNATIVE = re.compile(r"(?:literal|lax-or-strict|union|function-\w{1,9}|json-or-python)\[")
"""Beginning of what pydantic adds to the location of a problem for the alternative of a type that it tried."""

YAML_SCALARS = (bool, int, float, date)
"""Types that YAML gives to words without quotes, such as no, 2024, 1.5 and 2024-05-01."""


def one_line(error: ValidationError, where: str, known: list[str]) -> str:
    """Format the first problem of a pydantic error as `key: problem`, with the `known` keys if a key is unknown."""
    problems = error.errors(include_url=False)
    first = problems[0]
    if first["type"] == "unexpected_positional_argument":
        return f"{where}: {first['input']!r} has no name: give each parameter by its name. Known: {', '.join(known)}"
    at = [*first["loc"]]
    if at and isinstance(at[0], int) and at[0] < len(known):  # a positional argument
        at[0] = known[at[0]]
    if at and at[-1] == "[key]":
        at[-2:] = [str(first["input"])]
    parts = (str(part) for part in (where, *at))
    key = ".".join(part for part in parts if part and not ALTERNATIVE.match(part))
    match first["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            message = f"unknown key. Known: {', '.join(known)}"
        case "missing" | "missing_argument":
            message = "missing, but required"
        case "value_error":
            message = str(first["ctx"]["error"])
        case _:
            shown = repr(first["input"])
            message = PLAIN_WORDS.get(first["type"]) or first["msg"].replace("Input should be", "must be")
            if UNSHOWN.isdisjoint(first["loc"]):
                message += f", got {shown if len(shown) < 80 else shown[:77] + '...'}"
                if first["type"] == "string_type" and (
                    isinstance(first["input"], YAML_SCALARS) or first["loc"][-1] == "[key]"
                ):
                    message += ": YAML reads it so; put it in quotes"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{key}: {message}{more}"
