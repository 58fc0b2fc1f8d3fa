"""Any function of yours as a synthesizer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from findingaid.identity import content_hash, describe
from findingaid.registry import STRICT, Importable

UNKNOWN = "custom"


@dataclass(frozen=True)
class Custom:
    """Asks `function(text, metadata)` for the synopsis; "" from it is nothing to say, an exception a failure.

    In a configuration the function is an import path, "module:function". The `name` given here, or the function's own
    attribute `synthesizer_id`, is the id; else its qualified name and a hash of its module's code.
    """

    function: Importable
    name: str | None = None
    __pydantic_config__: ClassVar = STRICT

    @cached_property
    def id(self) -> str:
        name = self.name or getattr(self.function, "synthesizer_id", None)
        if isinstance(name, str):
            return name
        path = _qualified(self.function)
        if "<lambda>" in path or "<locals>" in path:
            warnings.warn(
                f"{path} has no identity of its own, so that another in its place goes unnoticed: give it a"
                " synthesizer_id, or move it to the top level of a module",
                UserWarning,
                stacklevel=2,
            )
            return UNKNOWN
        return f"{path}-{content_hash(describe(self.function))[:12]}"

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        written: str = self.function(text, metadata)
        return written


def _qualified(function: object) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"
