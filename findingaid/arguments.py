"""Check of the arguments of public methods against their annotations: a wrong one is an error of one line."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict  # typing does not know the TypedDict of typing_extensions

from findingaid.errors import QueryError, brief

C = TypeVar("C")

UNIONS = {Union, types.UnionType}

NAMES = {bool: "True or False", int: "a whole number", float: "a number", str: "a text", types.NoneType: "None"}
PLURALS = {**NAMES, int: "whole numbers", float: "numbers", str: "texts", Any: "anything"}
"""Names of plain types in errors."""


def check_arguments(cls: type[C]) -> type[C]:
    """Have the public methods of a class refuse arguments of another type than the annotated one.

    Plain values are checked, and collections of them. An object of another type is left to the code that uses it.
    """
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(cls, name, _checked(method))
    return cls


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return method(*args, **kwargs)  # its error has the name of the method
        hints = _hints(method)
        for name, value in given.items():
            kind = signature.parameters[name].kind
            each = value.items() if kind is inspect.Parameter.VAR_KEYWORD else [(name, value)]
            for option, argument in each:
                hint: Any = hints.get(option, Any)
                if kind is inspect.Parameter.VAR_POSITIONAL:
                    hint = Sequence[hint]
                elif kind is inspect.Parameter.VAR_KEYWORD:
                    hint |= None  # which is the default of each option
                if not _fits(argument, hint):
                    raise QueryError(f"{option}: expected {_expected(hint)}, got {brief(repr(argument))[1:-1]}")
        return method(*args, **kwargs)

    return call


@cache
def _hints(method: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the annotation of each parameter of a method, and of each option that it takes as a keyword."""
    hints = get_type_hints(method)
    options = [each for hint in hints.values() for each in get_args(hint) if is_typeddict(each)]
    return {**hints, **{name: hint for of in options for name, hint in get_type_hints(of).items()}}


def _fits(value: Any, hint: Any) -> bool:
    """Check whether a value can be of this type; True for protocols, which are not checked."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in UNIONS:
        return any(_fits(value, arg) for arg in args)
    if origin is Literal:
        return any(_fits(value, type(arg)) for arg in args)
    if hint is int or hint is float:  # also those of numpy
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    if origin is None:
        checked = isinstance(hint, type) and hint is not Any and not getattr(hint, "_is_protocol", False)
        return not checked or isinstance(value, hint)
    if issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(_fits(k, args[0]) and _fits(v, args[1]) for k, v in value.items())
    if not issubclass(origin, Iterable):
        return callable(value)
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        return False
    if not isinstance(value, Collection):
        return True  # it could be read only once
    if origin is tuple and ... not in args:
        return len(value) == len(args) and all(map(_fits, value, args))
    return all(_fits(each, args[0]) for each in value)


def _expected(hint: Any, names: Mapping[Any, str] = NAMES) -> str:
    """Describe a type in plain words; `names` has those of plain types."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in UNIONS:
        return " or ".join(dict.fromkeys(_expected(arg, names) for arg in args))
    if origin is Literal:
        return " or ".join(map(repr, args))
    if origin is None:
        return names.get(hint) or f"a {hint.__name__}"
    if issubclass(origin, Mapping):
        return f"a mapping of {_expected(args[0], PLURALS)} to {_expected(args[1], PLURALS)}"
    if origin is tuple and ... not in args:
        return f"{len(args)} {_expected(args[0], PLURALS)}"
    return f"a list of {_expected(args[0], PLURALS)}" if issubclass(origin, Iterable) else "a function"
