"""User-supplied functions as synthesizers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from findingaid.errors import ConfigError
from findingaid.identity.fingerprints import SYNTHESIZER, check_id, producer_id
from findingaid.llm.background import BackgroundLoop
from findingaid.model import Artifact
from findingaid.registry import Importable, checked


@checked
@dataclass(frozen=True)
class Custom:
    """Calls `function(text, metadata)`, which may be async, for each synopsis.

    The result "" means that there is nothing to say; an exception is a failure. A function with a parameter `artifact`
    is given the artifact too, see `ArtifactSynthesizer`.

    In a configuration the function is an import path, "module:function". The id is the `name` given here, or else the
    function's own attribute `synthesizer_id`, or else its qualified name with a hash of its code and of the values that
    it holds. Raises ConfigError for a function with other parameters, and IdentityError if the function holds something
    without a stable value, such as an open connection.
    """

    function: Importable
    name: str | None = None

    def __post_init__(self) -> None:
        check_function(self.function, self.name, SYNTHESIZER, ("artifact",))

    @cached_property
    def id(self) -> str:
        return self.name or producer_id(self.function, SYNTHESIZER)

    @cached_property
    def reads_artifact(self) -> bool:
        return "artifact" in _parameters(self.function)

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        written: str = call_function(self.function, text, metadata)
        return written

    def synthesize_artifact(self, text: str, metadata: Mapping[str, Any], artifact: Artifact) -> str:
        written: str = call_function(self.function, text, metadata, artifact=artifact)
        return written


def check_function(function: Callable[..., Any], name: str | None, role: str, more: tuple[str, ...] = ()) -> None:
    """Check that a function has an id, or a name instead, and takes (text, metadata) and what of `more` it names.

    Raises ConfigError.
    """
    if name is None:
        check_id(function, role)
    elif not name.strip():
        raise ConfigError("name: is blank: leave it out, or name the function")
    known = _parameters(function)
    try:
        inspect.Signature(list(known.values())).bind("", {}, **{each: None for each in more if each in known})
    except TypeError:
        taken = ", ".join(map(str, known.values()))
        also = "".join(f" or (text, metadata, {each})" for each in more)
        called = getattr(function, "__name__", type(function).__name__)
        raise ConfigError(f"function: {called} takes ({taken}), expected (text, metadata){also}") from None


def call_function(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a function, and wait for its result if it is async. All async ones run on the same event loop."""
    result = function(*arguments, **named)
    return _loop().submit(_wait(result)).result() if inspect.isawaitable(result) else result


async def _wait(result: Awaitable[Any]) -> Any:
    return await result


@cache
def _loop() -> BackgroundLoop:
    return BackgroundLoop()


ANY = inspect.signature(lambda *arguments, **named: None).parameters
"""Parameters of a built-in function that does not declare its own."""


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ANY
