"""Names in the configuration -> classes, imported when first used, their parameters checked by their types."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Mapping
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

from findingaid.errors import ConfigError
from findingaid.model import (
    Answerer,
    ClaimExtractor,
    EdgeExtractor,
    Embedder,
    NodeProducer,
    Reranker,
    Rewriter,
    Selector,
    Source,
    Strategy,
    Synthesizer,
)
from findingaid.summaries import Summarizer

T = TypeVar("T")

STRICT = ConfigDict(extra="forbid", strict=False, arbitrary_types_allowed=True)
"""Set as `__pydantic_config__` on a registered dataclass: an unknown parameter is an error."""


def _beside_the_config(path: Path, info: ValidationInfo) -> Path:
    base = (info.context or {}).get("base")
    path = path.expanduser()
    return path if base is None else base / path


ConfigPath = Annotated[Path, AfterValidator(_beside_the_config)]
"""A path that, in a configuration, is relative to the folder of its file."""


def _function(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str):
        return value
    where = f"{(info.context or {}).get('where', '')}.{info.field_name}".removeprefix(".")
    found = imported(value, where)
    if not callable(found):
        raise ConfigError(f"{where}: {value!r} is a {type(found).__name__}, expected a function")
    return found


Importable = Annotated[SkipValidation[Callable[..., Any]], BeforeValidator(_function)]
"""A parameter that is a function; in a configuration its import path, "module:function"."""


UNSHOWN = frozenset({"storage_options", "default_headers", "api_key"})
"""Keys whose values, all of those that hold several, are shown to nobody, since they are secrets or hold some."""

FAMILIES: Mapping[str, tuple[str, type]] = {
    "source": ("findingaid.sources", Source),
    "strategy": ("findingaid.strategies", Strategy),
    "synthesizer": ("findingaid.synthesizers", Synthesizer),
    "summarizer": ("findingaid.summarizers", Summarizer),
    "embedder": ("findingaid.embedders", Embedder),
    "extractor": ("findingaid.extractors", EdgeExtractor),
    "claim extractor": ("findingaid.claim_extractors", ClaimExtractor),
    "node producer": ("findingaid.node_producers", NodeProducer),
    "reranker": ("findingaid.rerankers", Reranker),
    "selector": ("findingaid.selectors", Selector),
    "rewriter": ("findingaid.rewriters", Rewriter),
    "answerer": ("findingaid.answerers", Answerer),
}
"""Family -> the entry point group of its plug-ins, and what each member must be."""


REGISTRIES: list[Registry[Any]] = []
"""Every registry that was made, so that a parameter which is a member itself can be told from a value."""


class Registry(Generic[T]):
    """The members of one family (sources, strategies, ...) by name.

    `key` is the key that names the member in a spec ("kind", "name"). A name is one that ships, one that an
    installed distribution gives as an entry point of the family's group, or an import path, "module:attribute" or
    "module.attribute". A member is best a dataclass, whose fields are its parameters and are checked by their types;
    any other callable takes them as they are.
    """

    def __init__(self, family: str, key: str, members: Mapping[str, str]) -> None:
        self.family = family
        self.key = key
        self.group, self._protocol = FAMILIES[family]
        self._members = dict(members)
        REGISTRIES.append(self)

    def known(self) -> list[str]:
        """The names that ship."""
        return sorted(self._members)

    def name_of(self, member: type) -> str | None:
        """The name under which a class ships, None for any other."""
        path = import_path(member)
        return next((name for name, shipped in self._members.items() if shipped == path), None)

    def member(self, name: str, where: str) -> type[T]:
        """The class behind a name. Raises ConfigError that lists the known ones."""
        path = self._members.get(name) or self._plug_in(name, where) or name
        if "" in _parted(path):
            raise ConfigError(f"{where}.{self.key}: unknown {self.family} {name!r}. Known: {', '.join(self._named())}")
        loaded = imported(path, f"{where}.{self.key}", name)
        if not callable(loaded):
            raise ConfigError(f"{where}.{self.key}: {name!r} is a {type(loaded).__name__}, expected a class")
        member: type[T] = loaded
        return member

    def create(self, spec: Mapping[str, Any], where: str, base: Path | None = None) -> T:
        """Build the member a spec names; `where` is the spec's own key, for error messages.

        Parameters stand beside the name or under `params`. Raises ConfigError.
        """
        rest = dict(spec)
        name = rest.pop(self.key, None)
        if not isinstance(name, str):
            raise ConfigError(f"{where}.{self.key}: missing. Known: {', '.join(self._named())}")
        params = rest.pop("params", None) or {}
        if not isinstance(params, Mapping):
            raise ConfigError(f"{where}.params: expected keys and values, got {params!r}")
        made = self._make(self.member(name, where), rest | dict(params), where, base)
        if not isinstance(made, self._protocol):
            wanted = [m for m in protocol_members(self._protocol) if not hasattr(made, m)]
            raise ConfigError(f"{where}.{self.key}: {name!r} is no {self.family}: it has no {', '.join(wanted)}")
        return made

    def spec_of(self, made: Any) -> dict[str, Any]:
        """The `{key, "params"}` spec of a member, for YAML or JSON; parameters at their default are left out.

        What does not ship is named by its import path. Raises ConfigError for what no spec can say.
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
        """Whether a value is of this family."""
        return isinstance(value, self._protocol) and not isinstance(value, type)

    def _make(self, member: Any, params: dict[str, Any], where: str, base: Path | None) -> T:
        fields = parameters(member) if dataclasses.is_dataclass(member) else None
        # pydantic passes over unknown keys for a dataclass that does not say STRICT.
        if fields is not None and (unknown := [key for key in params if key not in fields]):
            raise ConfigError(f"{where}.{unknown[0]}: unknown key. Known: {', '.join(fields) or 'none'}")
        try:
            if fields is None:
                made: T = member(**params)
                return made
            return TypeAdapter[T](member).validate_python(params, context={"base": base, "where": where})
        except ConfigError as error:  # of the member itself, or of one within it, which says where
            raise ConfigError(str(error) if str(error).startswith(f"{where}.") else f"{where}.{error}") from None
        except ValidationError as error:
            raise ConfigError(one_line(error, where, fields or [])) from None
        except PydanticUserError:
            raise ConfigError(
                f"{where}: the types of {member.__name__}'s parameters cannot be checked:"
                " set __pydantic_config__ = findingaid.registry.STRICT in it"
            ) from None
        except Exception as error:  # noqa: BLE001  # a class that findingaid does not ship may raise anything
            raise ConfigError(f"{where}: {getattr(member, '__name__', member)}: {said(error)}") from None

    def _named(self) -> list[str]:
        return sorted({*self._members, *(entry.name for entry in entry_points(group=self.group))})

    def _plug_in(self, name: str, where: str) -> str | None:
        """The import path of an entry point; None where no distribution has one of this name."""
        found = {f"{entry.module}:{entry.attr}": entry.dist for entry in entry_points(group=self.group, name=name)}
        if len(found) > 1:
            raise ConfigError(
                f"{where}.{self.key}: {name!r} is given by {' and '.join(sorted(d.name for d in found.values() if d))}:"
                f" name one by its import path, {' or '.join(sorted(found))}"
            )
        return next(iter(found), None)


def imported(path: str, where: str, name: str | None = None) -> Any:
    """What stands at "module:attribute" or "module.attribute". Raises ConfigError, by `name` where it has another."""
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
    """ "module:attribute" of a class or a function."""
    return f"{code.__module__}:{code.__qualname__}"


def _parted(path: str) -> tuple[str, str]:
    module, _, attribute = path.partition(":") if ":" in path else path.rpartition(".")
    return module, attribute


def _default(f: dataclasses.Field[Any]) -> Any:
    return f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default


def _plain(value: Any, where: str) -> Any:
    """A parameter as YAML and JSON know it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if of := [registry for registry in REGISTRIES if registry.is_member(value)]:
        # What is of two families goes by the name that it ships under.
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
    raise ConfigError(f"{where}: no spec can say a {type(value).__name__}")


def parameters(member: Any) -> list[str]:
    """The parameters of a member that is a dataclass; those marked {"spec": False} are set by code alone."""
    return [f.name for f in dataclasses.fields(member) if f.init and f.metadata.get("spec", True)]


def protocol_members(protocol: type) -> list[str]:
    """The names that a class must have to be of a protocol."""
    return sorted(name for name in vars(protocol) if not name.startswith("_"))


def said(error: BaseException) -> str:
    """What an error says, in one line, with its type."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


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
            message = first["msg"].replace("a valid tuple", "a list")
            if UNSHOWN.isdisjoint(first["loc"]):
                message += f", got {shown if len(shown) < 80 else shown[:77] + '...'}"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{key}: {message}{more}"
