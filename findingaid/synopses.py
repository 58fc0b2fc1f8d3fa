"""Which artifacts of a corpus get a synopsis, who writes it, and what they are shown: `with_synopsis`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, InstanceOf, StringConstraints, ValidationInfo

from findingaid.errors import ConfigError
from findingaid.identity import content_hash, describe
from findingaid.model import (
    SYNOPSIS,
    Embedder,
    Raw,
    Resuming,
    Segment,
    Shown,
    Strategy,
    Surface,
    SurfacePlan,
    Synthesizer,
    Vectors,
)
from findingaid.registry import STRICT, Importable
from findingaid.strategies import NestedStrategy, bound
from findingaid.strategies.base import shown_segments, shown_text
from findingaid.strategies.chunked import Chunked
from findingaid.synthesis import SYNTHESIZERS
from findingaid.synthesis.anchored import whole
from findingaid.synthesis.custom import Custom
from findingaid.synthesis.extractive import Extractive

Gate = Callable[[SurfacePlan], bool]
"""Whether an artifact with these surfaces gets a synopsis."""

HINTS = ("media_type", "readme_type")
"""Metadata that tells how to read a text; shown beside it, always."""

THIN_CHARACTERS = 80
"""An artifact that says less than this about itself, about a sentence, is thin."""


def always(plan: SurfacePlan) -> bool:
    """Every artifact."""
    return True


def thin(plan: SurfacePlan) -> bool:
    """An artifact of more than one chunk that says nothing, or little, about itself: no description to speak of."""
    own = sum(len(surface.text) for surface in plan.surfaces if surface.granularity != "chunk")
    return own < THIN_CHARACTERS and len(plan.surfaces) > 1


CONTEXT_SHARE = 4
"""A context takes at most a quarter of what the embedder sees, and chunks leave that free."""

GATES: Mapping[str, Gate] = {"always": always, "thin": thin}


def _named_gate(value: Any) -> Any:
    if not isinstance(value, str) or ":" in value:
        return value
    if value not in GATES:
        raise ValueError(f"unknown gate {value!r}. Known: {', '.join(GATES)}, or module:function")
    return GATES[value]


def _synthesizer(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, Mapping):
        return value
    context = info.context or {}
    return SYNTHESIZERS.create(value, f"{context.get('where', 'synopsis')}.{info.field_name}", context.get("base"))


NestedSynthesizer = Annotated[Synthesizer, InstanceOf(), BeforeValidator(_synthesizer)]
"""The type of a parameter that is a synthesizer, given as a spec in a configuration."""


@dataclass(frozen=True)
class WithSynopsis:
    """What `inner` cuts, and before that a synopsis of the artifact, at position 0, marked with its producer.

    The synthesizer is shown the text that `inner` indexes, led by the metadata `fields` named. `when` is "always",
    "thin" (artifacts that say little about themselves) or a function of the surfaces, "module:function". `fallback`
    writes where the synthesizer fails, until it answers. With `context` every other surface is embedded and searched
    with the synopsis before it, or else the title and headings, though it is shown without.
    """

    inner: NestedStrategy = field(default_factory=Chunked)
    synthesizer: NestedSynthesizer = field(default_factory=Extractive)
    when: Annotated[Importable, BeforeValidator(_named_gate)] = always
    when_id: str | None = None
    kind: Annotated[str, StringConstraints(min_length=1)] = SYNOPSIS
    fields: tuple[str, ...] = ()
    fallback: NestedSynthesizer | None = None
    context: bool = False
    __pydantic_config__: ClassVar = STRICT

    def __post_init__(self) -> None:
        if isinstance(self.inner, WithSynopsis):
            raise ConfigError("inner: has a synopsis already: an artifact has one")

    def for_embedder(self, embedder: Embedder) -> Self:
        """The same, with an inner strategy that counts as `embedder` does and leaves room for a context."""
        return replace(self, inner=bound(self.inner, _Narrowed(embedder) if self.context else embedder))

    @property
    def id(self) -> str:
        """Of everything that decides whether a synopsis is written and what it says."""
        if self.when is always and not self.fields and self.fallback is None:
            return self.synthesizer.id
        gate = self.when_id or describe(self.when)
        fallback = self.fallback.id if self.fallback else None
        return f"{self.synthesizer.id}-{content_hash(gate, self.fields, fallback)[:8]}"

    @cached_property
    def _resuming(self) -> bool:
        return isinstance(self.synthesizer, Resuming)  # takes long enough to be asked once, not for each artifact

    def shown(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> Shown:
        """What the synthesizer is shown of an artifact: never its path, unless `fields` names it."""
        said = [f"{name}: {_said(metadata[name])}" for name in self.fields if metadata.get(name)]
        text = "\n\n".join(filter(None, ["\n".join(said), shown_text(self.inner, raw)]))
        shown = Shown(artifact_id, text, {name: metadata[name] for name in HINTS if metadata.get(name)})
        if not self._resuming:
            return shown
        first, *rest = shown_segments(self.inner, raw) or [Segment(0, "", "")]
        first = replace(first, request="\n\n".join(filter(None, ["\n".join(said), first.request])))
        return replace(shown, segments=[first, *rest])

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        """The whole plan at once, calling the synthesizer; an index takes the two apart, and calls once a content."""
        plan = self.inner.decompose(artifact_id, raw, metadata)
        shown = self.shown(artifact_id, raw, metadata)
        if not shown.text.strip() or not self.when(plan):
            return plan
        if isinstance(self.synthesizer, Resuming):
            text = whole(self.synthesizer, shown).text
        else:
            text = self.synthesizer.synthesize(shown.text, shown.metadata)
        if not isinstance(text, str) or not text.strip():
            return plan
        stamp = {"synthesizer_id": self.synthesizer.id}
        return replace(plan, surfaces=[Surface(self.kind, text.strip(), "document", stamp), *plan.surfaces])


def with_synopsis(
    strategy: Strategy,
    synthesize: Synthesizer | Callable[[str, Mapping[str, Any]], str] | None = None,
    synthesizer_id: str | None = None,
    synopsis_kind: str = SYNOPSIS,
    *,
    when: str | Gate = "always",
    when_id: str | None = None,
    fields: Sequence[str] = (),
    fallback: Synthesizer | None = None,
    context: bool = False,
) -> WithSynopsis:
    """`strategy`, and a synopsis of each artifact by `synthesize`: a synthesizer, or a function of text and metadata.

    Without one sentences of the text itself are taken. A function's id is `synthesizer_id`, else the attribute of
    that name that it bears, else its qualified name with its code; a lambda warns (UserWarning).
    """
    if synthesize is None:
        synthesize = Extractive()
    if not isinstance(synthesize, Synthesizer):
        synthesize = Custom(synthesize, synthesizer_id)
    elif synthesizer_id:
        synthesize = Custom(synthesize.synthesize, synthesizer_id)
    if isinstance(when, str) and when not in GATES:
        raise ConfigError(f"when: unknown gate {when!r}. Known: {', '.join(GATES)}, or a function")
    gate = GATES[when] if isinstance(when, str) else when
    return WithSynopsis(strategy, synthesize, gate, when_id, synopsis_kind, tuple(fields), fallback, context)


def taken_apart(strategy: Strategy) -> tuple[Strategy, WithSynopsis | None]:
    """What cuts, and what is said of synopses, if any are wanted."""
    return (strategy.inner, strategy) if isinstance(strategy, WithSynopsis) else (strategy, None)


def quoted_text(strategy: Strategy, raw: Raw) -> str:
    """The text of a payload that spans and quotes are of: without the fields that a synopsis is shown beside it.

    Raises DecomposeError.
    """
    return shown_text(taken_apart(strategy)[0], raw)


@dataclass(frozen=True)
class _Narrowed:
    """An embedder that sees less of a text, since a context stands before it."""

    of: Embedder

    @property
    def id(self) -> str:
        return self.of.id

    @property
    def dim(self) -> int:
        return self.of.dim

    @property
    def max_tokens(self) -> int | None:
        seen = self.of.max_tokens
        return None if seen is None else seen - seen // CONTEXT_SHARE

    def count_tokens(self, text: str) -> int:
        return self.of.count_tokens(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self.of.embed(texts)

    def embed_query(self, text: str) -> Vectors:
        return self.of.embed_query(text)


def contexts(surfaces: Sequence[Surface], synopsis: str, title: str, embedder: Embedder) -> list[str]:
    """What each surface is embedded and searched with: the synopsis, or else the title and the headings above it.

    Chunks alone have one. It takes no more than a share of what the embedder sees; a longer one ends at a word.
    """
    share = None if embedder.max_tokens is None else embedder.max_tokens // CONTEXT_SHARE
    shared = _shortened(synopsis, share, embedder) if synopsis else None
    made = []
    for surface in surfaces:
        context = ""
        if surface.granularity == "chunk":
            path = dict.fromkeys(filter(None, [title, *surface.metadata.get("headings", ())]))
            context = _shortened(" > ".join(path), share, embedder) if shared is None else shared
        made.append(f"{context}\n\n" if context else "")
    return made


def _shortened(text: str, tokens: int | None, embedder: Embedder) -> str:
    """As many words of a text, from the first on, as make no more than so many tokens."""
    if tokens is None or embedder.count_tokens(text) <= tokens:
        return text
    words = text.split()
    count = bisect_right(range(1, len(words) + 1), tokens, key=lambda n: embedder.count_tokens(" ".join(words[:n])))
    return " ".join(words[:count])


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
