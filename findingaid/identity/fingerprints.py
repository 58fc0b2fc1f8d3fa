"""Fingerprints of components: strategies, synthesizers, gates, extractors.

Two components have the same fingerprint if and only if they behave the same. The values that they hold count by type
and value, and the code that they run counts by its source. A value with neither, such as a lock, raises IdentityError.
"""

from __future__ import annotations

import contextlib
import copyreg
import dataclasses
import dis
import functools
import inspect
import re
import reprlib
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any, NoReturn

from findingaid.errors import IdentityError
from findingaid.identity.code import Origin, code_hash, is_file_of, origin, package_hash, source_hash
from findingaid.identity.hashes import bytes_hash, content_hash, text_hash

DECLARED = ("strategy_id", "synthesizer_id", "extractor_id", "gate_id")
"""Attributes by which a component or a function declares its own id."""

STRATEGY, SYNTHESIZER, GATE = "strategy", "synthesizer", "gate"
EDGE_EXTRACTOR, CLAIM_EXTRACTOR = "edge extractor", "claim extractor"
NODE_PRODUCER, EMBEDDER = "node producer", "embedder"
"""The roles of components, as named in messages."""

DECLARATIONS = {
    STRATEGY: "strategy_id",
    SYNTHESIZER: "synthesizer_id",
    GATE: "gate_id",
    EDGE_EXTRACTOR: "extractor_id",
    CLAIM_EXTRACTOR: "extractor_id",
}
"""Role -> the attribute that a component should declare; for other roles it is `id`."""

PRODUCES = ("synthesize", "embed", "extract", "summarize")
"""Methods of components whose protocol has an `id`. In other objects an `id` is an ordinary attribute."""

NUMBERS = (int, float, complex, Decimal, Fraction, range)
COLLECTIONS = (list, tuple, dict, set, frozenset)
SETTINGS = (str, bytes, re.Pattern, Enum, PurePath, date, time, timedelta, functools.partial, *NUMBERS, *COLLECTIONS)
"""Types of class attributes that count by value, in addition to the source: the program may set them at run time."""

GENERATED = {
    f"__{name}__" for name in ("init", "new", "repr", "eq", "hash", "lt", "le", "gt", "ge", "setattr", "delattr")
}
"""Methods that dataclass generates from the fields, which count anyway."""

LAZY = "_cached"
"""Prefix of attributes that are filled during use and therefore do not count."""

DIGITS = 12
LARGEST = 1_000_000
"""Number of objects in a component above which it must declare an id."""


def fingerprint(value: Any) -> str:
    """Return the hash of a value and of its code. Raises IdentityError when it holds a value without an identity."""
    return _Fingerprinter().of(value, "")


def producer_id(producer: object, role: str = STRATEGY) -> str:
    """Return the id of a strategy or another component: a declared id, or name and fingerprint, "Chunked-1f2e…".

    Raises IdentityError, which names the attribute that has no identity.
    """
    return _id(producer, role, _Fingerprinter())


def check_id(producer: object, role: str) -> str:
    """Return the id of a component that is being built.

    Warns (UserWarning) when another release of Python would change the id. Raises IdentityError as `producer_id` does.
    """
    fingerprinter = _Fingerprinter()
    made = _id(producer, role, fingerprinter)
    for name in fingerprinter.compiled[:1]:
        warnings.warn(
            f"{role} {_label(producer)}: {name} has no identity of its own: its id comes from its compiled code, which"
            f" another release of Python changes. Move it to the top level of a module, or declare"
            f" `{DECLARATIONS.get(role, 'id')}`",
            UserWarning,
            stacklevel=_level_of_caller(),
        )
    return made


def _level_of_caller() -> int:
    """Return the stack level, counted from `check_id`, of the first caller outside findingaid."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and origin(str(frame.f_globals.get("__name__"))) is Origin.SHIPPED:
        frame, level = frame.f_back, level + 1
    return level


def _id(producer: object, role: str, fingerprinter: _Fingerprinter) -> str:
    name = _label(producer)
    try:
        if (declared := _declared_id(producer)) is not None:
            return declared
        return f"{_constant_of(type(producer)) or name}-{fingerprinter.of(producer, '')[:DIGITS]}"
    except IdentityError as error:
        told = "" if "declare" in str(error) else f": declare `{DECLARATIONS.get(role, 'id')}`"
        raise IdentityError(f"{role} {name}: {error}{told}") from None
    except RecursionError:
        raise IdentityError(f"{role} {name}: holds values that are nested too deeply for an id") from None


# -- declared ids --------------------------------------------------------------------------------------


def _declared_id(value: Any) -> str | None:
    """Return the id that a value declares, or None.

    Functions declare it by an attribute, objects by a property or the `id` of their protocol. Raises IdentityError
    for an id that is empty or not a string, or that is inherited and does not cover the object's own class.
    """
    if isinstance(value, type):
        return None
    if isinstance(value, types.FunctionType | functools.partial):
        return next((_text(vars(value)[name], name) for name in DECLARED if name in vars(value)), None)
    if any(hasattr(type(value), method) for method in PRODUCES) and hasattr(value, "id"):
        _refuse_inherited(value, "id")
        return _text(value.id, "id")
    for name in DECLARED:
        if isinstance(inspect.getattr_static(type(value), name, None), property | functools.cached_property):
            _refuse_inherited(value, name)
            return _text(getattr(value, name), name)
    return None


def _text(declared: Any, name: str) -> str:
    if not isinstance(declared, str) or not declared.strip():
        raise IdentityError(f"`{name}` is {declared!r}, expected a text to declare")
    return declared


def _refuse_inherited(value: Any, name: str) -> None:
    """Raise IdentityError for an inherited id, which does not cover code that a subclass changes."""
    if name in getattr(value, "__dict__", {}) or origin(type(value).__module__) is Origin.SHIPPED:
        return
    for base in type(value).__mro__:
        if name in vars(base) or isinstance(inspect.getattr_static(base, name, None), types.MemberDescriptorType):
            return
        if any(_is_member(key, member) for key, member in vars(base).items()):
            owner = next((b.__name__ for b in type(value).__mro__ if name in vars(b)), "its object")
            raise IdentityError(
                f"its `{name}` is that of {owner}, which does not cover what {base.__name__} changes:"
                f" declare `{name}` in {base.__name__}"
            )


def _constant_of(cls: type) -> str | None:
    """Return the id that a class declares for its own code, or None; subclasses do not inherit it."""
    return next((_text(vars(cls)[n], n) for n in DECLARED if isinstance(vars(cls).get(n), str)), None)


# -- names ---------------------------------------------------------------------------------------------


def name_of(code: Any) -> str:
    """Return the name of a class or function, without the modules between which its code may move."""
    name = getattr(code, "__qualname__", None) or type(code).__qualname__
    module = getattr(code, "__module__", None) or "builtins"
    match origin(module):
        case Origin.SHIPPED:
            return str(name)
        case Origin.STANDARD:
            return f"{module.partition('.')[0].lstrip('_')}.{name}"
    return f"{module}.{name}"


def _label(part: object) -> str:
    return name_of(part) if isinstance(part, functools.partial) or inspect.isroutine(part) else type(part).__name__


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _at_top_level(code: Any, module: str) -> bool:
    """Check whether a module defines a class or function under its qualified name, and does not make it at run time."""
    found: Any = sys.modules.get(module)
    for part in code.__qualname__.split("."):
        found = getattr(found, part, None)
    inner = inspect.unwrap(code) if inspect.isroutine(code) else code
    file = getattr(getattr(inner, "__code__", None), "co_filename", None)
    return found is code and (file is None or is_file_of(file, module) or origin(module) is not Origin.OWN)


# -- values --------------------------------------------------------------------------------------------

ATOMS: Mapping[type, Callable[[Any], str]] = {
    type(None): lambda _: "None",
    type(...): lambda _: "...",
    bool: lambda value: content_hash("bool", value),
    int: lambda value: content_hash("int", hex(value)),
    float: lambda value: content_hash("float", value.hex()),
    str: lambda value: content_hash("str", text_hash(value)),
    bytes: lambda value: content_hash("bytes", bytes_hash(value)),
}
"""Exact types whose values contain no other values."""


class _Fingerprinter:
    """Walk over the values of one component. `compiled` lists lambdas and local code, which count by compiled code."""

    def __init__(self) -> None:
        self.compiled: list[str] = []
        self._open: dict[int, int] = {}
        self._done: dict[int, str] = {}
        self._kept: list[Any] = []  # keeps visited objects alive, so that their id() is not reused
        self._outermost = LARGEST
        self._sources: dict[str, str] = {}

    def of(self, value: Any, path: str) -> str:
        """Return the fingerprint of the value at `path` within the component. Cycles are detected and end the walk."""
        if atom := ATOMS.get(type(value)):
            return atom(value)
        key = id(value)
        if key in self._done:
            return self._done[key]
        if key in self._open:
            self._outermost = min(self._outermost, self._open[key])
            return content_hash("cycle", len(self._open) - self._open[key])
        if len(self._kept) >= LARGEST:
            raise IdentityError(f"{_at(path)} holds more than {LARGEST:,} objects")
        return self._composite(value, path)

    def _composite(self, value: Any, path: str) -> str:
        depth, before, self._outermost = len(self._open), self._outermost, LARGEST
        self._open[id(value)] = depth
        self._kept.append(value)
        try:
            made = content_hash(*self._described(value, path))
        finally:
            del self._open[id(value)]
        if self._outermost >= depth:  # nothing in it refers to an enclosing value
            self._done[id(value)], self._outermost = made, LARGEST
        self._outermost = min(before, self._outermost)
        return made

    def _described(self, value: Any, path: str) -> Iterable[str]:
        if describe := EXACT.get(type(value)):
            return describe(self, value, path)
        if (declared := _declared_id(value)) is not None:
            return ["declared", declared]
        return next((describe(self, value, path) for kind, describe in KINDS if isinstance(value, kind)), None) or (
            self._instance(value, path)
        )

    # -- collections -------------------------------------------------------------------------------

    def _items(self, values: Iterable[Any], path: str) -> list[str]:
        return [self.of(item, f"{path}[{i}]") for i, item in enumerate(values)]

    def _sequence(self, value: Any, path: str) -> Iterable[str]:
        return [type(value).__name__, *self._items(value, path)]

    def _set(self, value: Any, path: str) -> Iterable[str]:
        return [type(value).__name__, *sorted(self.of(item, f"{path}{{}}") for item in value)]

    def _mapping(self, value: Mapping[Any, Any], path: str) -> Iterable[str]:
        """Describe a mapping in its order, since it may hold rules that are applied one after the other."""
        pairs = (self.of(part, f"{path}[{reprlib.repr(key)}]") for key, item in value.items() for part in (key, item))
        return [type(value).__name__, *pairs]

    def _named(self, values: Mapping[str, Any], path: str, skip: bool = False) -> Iterator[str]:
        """Yield names and values, sorted by name; with `skip`, leave out values that have no identity."""
        for name in sorted(values):
            try:
                made = self.of(values[name], f"{path}.{name}".removeprefix("."))
            except IdentityError:
                if skip:
                    continue
                raise
            yield from (text_hash(name), made)

    # -- code --------------------------------------------------------------------------------------

    def _module(self, value: types.ModuleType, path: str) -> Iterable[str]:
        return ["module", self._code_of(value.__name__), value.__name__]

    def _code_of(self, module: str) -> str:
        """Return a hash of the code of a module; "" for code that counts by its name, or has no source."""
        match origin(module):
            case Origin.OWN:
                if module not in self._sources:
                    self._sources[module] = source_hash(module)
                return self._sources[module]
            case Origin.INSTALLED:
                return package_hash(module.partition(".")[0])
        return ""

    def _class(self, value: type, path: str) -> Iterable[str]:
        return ["class", *(part for base in value.__mro__ for part in self._own_class(base, path))]

    def _own_class(self, cls: type, path: str) -> Iterator[str]:
        """Describe a class without its bases."""
        if declared := _constant_of(cls):
            yield from ("declared", declared, self.of(vars(cls).get("version"), f"{path}.version"))
            return
        yield name_of(cls)
        known = origin(cls.__module__)
        if known is Origin.SHIPPED:
            yield self.of(vars(cls).get("version"), f"{path}.version")
        if _at_top_level(cls, cls.__module__) and known is not Origin.UNKNOWN:
            yield self._code_of(cls.__module__)
            settings = {} if known is not Origin.OWN else {k: v for k, v in vars(cls).items() if _is_setting(k, v)}
            yield from self._named(settings, path, skip=True)
        elif known not in {Origin.SHIPPED, Origin.STANDARD}:
            self._note(cls)
            yield self._code_of(cls.__module__)
            yield from self._named({k: v for k, v in vars(cls).items() if _is_member(k, v)}, path)

    def _function(self, value: types.FunctionType, path: str) -> Iterable[str]:
        settings = {name: item for name, item in vars(value).items() if _is_setting(name, item)}
        if _at_top_level(value, value.__module__ or "") and origin(value.__module__) is not Origin.UNKNOWN:
            return [
                "function",
                name_of(value),
                self._code_of(value.__module__),
                *self._named(settings, path, skip=True),
            ]
        self._note(value)
        defaults = {"defaults": value.__defaults__, "keywords": value.__kwdefaults__}
        around = dict(zip(value.__code__.co_freevars, map(_content, value.__closure__ or ()), strict=True))
        return [
            "function",
            code_hash(value.__code__),
            *self._named(defaults | settings, path),
            *self._named(around, path),
            *self._around(value, path),
        ]

    def _around(self, value: types.FunctionType, path: str) -> Iterator[str]:
        """Describe the module of a function by its source, or else the values of the globals that it reads."""
        module = str(value.__globals__.get("__name__"))
        if origin(module) is not Origin.UNKNOWN and is_file_of(value.__code__.co_filename, module):
            yield self._code_of(module)
        else:
            names = _globals_read(value.__code__) & value.__globals__.keys()
            yield from self._named({name: value.__globals__[name] for name in names}, path)

    def _note(self, code: Any) -> None:
        module = str(getattr(code, "__module__", None))
        if "<" in code.__qualname__:
            self.compiled.append(f"{module}.{code.__qualname__}")

    def _method(self, value: types.MethodType, path: str) -> Iterable[str]:
        return ["method", self.of(value.__func__, path), self.of(value.__self__, path)]

    def _builtin(self, value: Any, path: str) -> Iterable[str]:
        """Describe a function without source by its name and the object that it is bound to."""
        owner = getattr(value, "__self__", getattr(value, "__objclass__", None))
        of = None if isinstance(owner, types.ModuleType) else owner
        name = name_of(value)
        return ["builtin", name, self._code_of(name.rpartition(".")[0]), self.of(of, path)]

    def _wrapper(self, value: Any, path: str) -> Iterable[str]:
        return [_type_name(value), *(self.of(part, path) for part in _wrapped(value))]

    def _partial(self, value: functools.partial[Any], path: str) -> Iterable[str]:
        keywords = {f"keywords[{name!r}]": item for name, item in value.keywords.items()}
        return [
            self.of(type(value), path),
            self.of(value.func, f"{path}.func".removeprefix(".")),
            *self._items(value.args, f"{path}.args".removeprefix(".")),
            *self._named(keywords | vars(value), path),
        ]

    # -- objects -----------------------------------------------------------------------------------

    def _enum(self, value: Enum, path: str) -> Iterable[str]:
        member = [] if type(value.value) is object else [self.of(value.value, path)]
        return ["enum", self.of(type(value), path), str(value.name), *member]

    def _path(self, value: PurePath, path: str) -> Iterable[str]:
        return ["path", type(value).__name__, text_hash(str(value))]

    def _instance(self, value: Any, path: str) -> Iterable[str]:
        """Describe an object by the class, arguments and state that it provides for copying or pickling."""
        if type(value) is object or isinstance(value, Iterator) or inspect.isawaitable(value):
            _refuse(value, path)
        make, arguments, state, items, pairs, setter = _reduced(value, path)
        yield from (self.of(type(value), path), self.of(_version(value), path))
        new = make is copyreg.__newobj__  # type: ignore[attr-defined]  # missing in typeshed
        yield "" if new else self.of(make, path)
        yield from self._items(arguments[1:] if new else arguments, path)
        yield from self._state(value, state, path)
        yield from self._mapping(dict(pairs or ()), path)
        yield from self._items([*(items or ()), setter], path)

    def _state(self, value: Any, state: Any, path: str) -> Iterable[str]:
        """Describe the attributes of an object, or any other state that its class defines."""
        attributes = _attributes(value, state)
        if attributes is None:
            return ["state", self.of(state, path)]
        if isinstance(inner := attributes.get("__dict__"), dict):  # as pydantic has it
            attributes["__dict__"] = _counted(value, inner)
        declares = _constant_of(type(value)) or any(isinstance(attributes.get(name), str) for name in DECLARED)
        return self._named(_counted(value, attributes), path, skip=bool(declares))


def _at(path: str) -> str:
    return f"attribute `{path}`" if path else "it"


def _refuse(value: Any, path: str) -> NoReturn:
    what = f"attribute `{path}` (a {_type_name(value)})" if path else f"a {_type_name(value)}"
    raise IdentityError(f"{what} has no value that an id could be made of")


def _reduced(value: Any, path: str) -> tuple[Any, ...]:
    """Return the six items of `object.__reduce__`: a callable that recreates an object, and five values, or None."""
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        reduced: Any = reduce(value) if reduce else value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001  # third-party classes may raise anything
        _refuse(value, path)
    if isinstance(reduced, str):  # the name of a singleton
        return getattr, (value.__module__, reduced), None, None, None, None
    return (*reduced, *[None] * (6 - len(reduced)))


def _version(value: Any) -> Any:
    """Return the `version` attribute of an object if it is a plain value, else None."""
    with contextlib.suppress(Exception):  # third-party properties may raise anything
        if type(version := value.version) in ATOMS:
            return version
    return None


def _attributes(value: Any, state: Any) -> dict[str, Any] | None:
    """Return the attributes of an object, including slots; None if its state has another form."""
    if state is None:
        return {}
    if isinstance(state, dict):
        return {str(name): item for name, item in state.items()} if all(isinstance(n, str) for n in state) else None
    if (
        isinstance(state, tuple)
        and len(state) == 2
        and isinstance(state[1], dict)
        and isinstance(state[0], dict | None)
    ):
        return {**(state[0] or {}), **state[1]}
    if dataclasses.is_dataclass(value) and isinstance(state, list):  # one that is frozen and has slots
        return dict(zip((f.name for f in dataclasses.fields(value)), state, strict=False))
    return None


def _counted(value: Any, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes without those that are filled during use."""
    return {
        name: item
        for name, item in attributes.items()
        if not name.startswith(LAZY)
        and not isinstance(inspect.getattr_static(type(value), name, None), functools.cached_property)
    }


def _is_setting(name: str, value: Any) -> bool:
    """Check whether an attribute of a class or a function is a setting, and not filled during use."""
    if name.startswith(("__", LAZY)):
        return False
    mutable = isinstance(value, list | dict | set)
    return not (mutable and name.startswith("_")) and (type(value) in ATOMS or isinstance(value, SETTINGS))


def _is_member(name: str, value: Any) -> bool:
    """Check whether an entry of a class's namespace affects the behaviour of its objects."""
    if name.startswith(LAZY) or name in {"_abc_impl", "__dict__", "__weakref__", "__getstate__", "__setstate__"}:
        return False
    if isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType):
        return False
    if isinstance(function := inspect.unwrap(value), types.FunctionType):
        return name not in GENERATED or function.__code__.co_filename != "<string>"
    return not (name.startswith("__") or (name.startswith("_") and name.endswith("_")))


def _wrapped(value: Any) -> Iterator[Any]:
    names = ("__wrapped__", "__func__", "func", "fget", "fset")
    yield from (getattr(value, name) for name in names if getattr(value, name, None) is not None)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _globals_read(code: types.CodeType) -> set[str]:
    read = {i.argval for i in dis.get_instructions(code) if i.opname in {"LOAD_GLOBAL", "LOAD_NAME"}}
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return read.union(*map(_globals_read, inner))


_Describe = Callable[[_Fingerprinter, Any, str], Iterable[str]]

EXACT: Mapping[type, _Describe] = {
    list: _Fingerprinter._sequence,
    tuple: _Fingerprinter._sequence,
    set: _Fingerprinter._set,
    frozenset: _Fingerprinter._set,
    dict: _Fingerprinter._mapping,
    types.MappingProxyType: _Fingerprinter._mapping,
}
"""Exact types of collections that are described by their items; for a subclass, its class counts too."""

_CACHED = type(functools.lru_cache(str))

KINDS: tuple[tuple[Any, _Describe], ...] = (
    (type, _Fingerprinter._class),
    (types.ModuleType, _Fingerprinter._module),
    (types.FunctionType, _Fingerprinter._function),
    (types.MethodType, _Fingerprinter._method),
    (functools.partial, _Fingerprinter._partial),
    (_CACHED | property | staticmethod | classmethod | functools.cached_property, _Fingerprinter._wrapper),
    (
        types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType
        | types.MethodWrapperType | types.ClassMethodDescriptorType,
        _Fingerprinter._builtin,
    ),
    (Enum, _Fingerprinter._enum),
    (PurePath, _Fingerprinter._path),
)  # fmt: skip
