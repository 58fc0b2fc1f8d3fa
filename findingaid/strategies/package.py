"""Surfaces of a package: its description, its readme, and optionally its dependencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from pydantic import SkipValidation

from findingaid.errors import ConfigError, DecomposeError
from findingaid.model import Raw, Surface, SurfacePlan
from findingaid.protocols import Embedder
from findingaid.registry import checked
from findingaid.strategies.base import join_fields
from findingaid.strategies.chunked import Chunked, Overlap, Size

DEPS_TEMPLATE = "Depends on: {deps}"


@checked
@dataclass(frozen=True, kw_only=True)
class Package:
    """`description` (name and summary) first, then `readme` chunks, then `deps` with `embed_deps`.

    Filter fields: name, owner, deps, has_readme. The payload is a mapping of name, description, readme, readme_type,
    owner and deps; `deps_template` may use {name} and {deps}. Sizes and `titles` are as in Chunked; the name is the
    title.
    """

    max_tokens: Size = None
    chunk_size: Size = None
    overlap: Overlap = None
    embed_deps: bool = False
    titles: bool = False
    deps_template: str = DEPS_TEMPLATE
    tokenizer: SkipValidation[Embedder | None] = field(default=None, repr=False, metadata={"spec": False})
    version: ClassVar[int] = Chunked.version
    strategy_id: ClassVar[str] = "Package"

    def __post_init__(self) -> None:
        try:
            self.deps_template.format(name="", deps="")
        except (KeyError, IndexError, ValueError) as error:
            raise ConfigError(f"deps_template: {error!s} is not a field. Known: name, deps") from None
        self._readme()

    def for_embedder(self, embedder: Embedder) -> Self:
        bound = self._readme().for_embedder(embedder)
        return replace(self, max_tokens=bound.max_tokens, tokenizer=bound.tokenizer)

    def text(self, raw: Raw) -> str:
        """Return the text shown to a synthesizer, which never includes the dependencies."""
        fields = _fields(raw)
        return "\n\n".join(
            part for part in (join_fields(fields, "name", "description"), fields.get("readme") or "") if part
        )

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        fields = _fields(raw)
        readme = str(fields.get("readme") or "")
        deps: Sequence[str] = list(fields.get("deps") or ())
        description = join_fields(fields, "name", "description")
        surfaces = [Surface("description", description, "field")] if description.strip() else []
        name = str(fields.get("name") or artifact_id)
        chunks = self._readme().cut(readme, str(fields.get("readme_type", "")), title=name)
        surfaces += [replace(chunk, metadata={**chunk.metadata, "field": "readme"}) for chunk in chunks]
        if self.embed_deps and deps:
            text = self.deps_template.format(name=fields.get("name", artifact_id), deps=", ".join(deps))
            surfaces.append(Surface("deps", text, "field"))
        own = {
            "name": name,
            "owner": fields.get("owner") or "",
            "deps": deps,
            "has_readme": bool(readme.strip()),
        }
        return SurfacePlan({**metadata, **own}, surfaces)

    def _readme(self) -> Chunked:
        return Chunked(
            max_tokens=self.max_tokens,
            chunk_size=self.chunk_size,
            overlap=self.overlap,
            kind="readme",
            titles=self.titles,
            tokenizer=self.tokenizer,
        )


def _fields(raw: Raw) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise DecomposeError(
            "Package needs a mapping with name, description, readme: use it with a packages source", "parse"
        )
    return raw
