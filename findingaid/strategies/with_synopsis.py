"""Synopses as surfaces (`with_synopsis`): which artifacts get one, which synthesizer writes it, and from which text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, InstanceOf, StringConstraints, ValidationInfo

from findingaid.errors import ConfigError
from findingaid.identity.fingerprints import GATE, SYNTHESIZER, check_id, producer_id
from findingaid.identity.hashes import content_hash
from findingaid.model import SYNOPSIS, Artifact, Raw, Segment, Surface, SurfacePlan, SynthesizerInput, Vectors
from findingaid.protocols import (
    ArtifactSynthesizer,
    ChunkPlacing,
    Embedder,
    ResumableSynthesizer,
    Strategy,
    Synthesizer,
)
from findingaid.registry import Importable, checked
from findingaid.strategies.base import CONTEXT_SHARE, SurfaceKind, first_words, heading_path, shown_segments, shown_text
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.registry import NestedStrategy, bound
from findingaid.synthesis import SYNTHESIZERS
from findingaid.synthesis.anchored import run_to_completion
from findingaid.synthesis.custom import Custom
from findingaid.synthesis.extractive import Extractive

Gate = Callable[[SurfacePlan], bool]
"""Function that decides whether an artifact with these surfaces gets a synopsis."""

HINTS = ("media_type", "readme_type")
"""Metadata that says how to read a text; always shown beside it."""

THIN_CHARACTERS = 80
"""Length of an artifact's description of itself, about a sentence, below which the artifact is thin."""


def always(plan: SurfacePlan) -> bool:
    """Return True for every artifact."""
    return True


def thin(plan: SurfacePlan) -> bool:
    """Return whether an artifact has several surfaces, but fewer than THIN_CHARACTERS outside its chunks."""
    own = sum(len(surface.text) for surface in plan.surfaces if surface.granularity != "chunk")
    return own < THIN_CHARACTERS and len(plan.surfaces) > 1


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
"""Type of a parameter that is a synthesizer, given as a spec in a configuration."""


@checked
@dataclass(frozen=True)
class WithSynopsis:
    """The surfaces of `inner`, and before them a synopsis of the artifact, at position 0, marked with its producer.

    The synthesizer is shown the text that `inner` indexes, preceded by the metadata named by `fields`. `when` is
    "always", "thin" (artifacts that say little about themselves) or a function of the surfaces, "module:function". If
    the synthesizer fails, `fallback` writes the synopsis, until the synthesizer succeeds. With `context`, the synopsis,
    or else the title and headings, is put before every chunk when it is embedded and searched, but not when it is
    shown. With `context` "chunk" it is a sentence that the model of the synthesizer writes about each chunk.
    """

    inner: NestedStrategy = field(default_factory=Chunked)
    synthesizer: NestedSynthesizer = field(default_factory=Extractive)
    when: Annotated[Importable, BeforeValidator(_named_gate)] = always
    when_id: str | None = None
    kind: Annotated[SurfaceKind, StringConstraints(min_length=1)] = SYNOPSIS
    fields: tuple[str, ...] = ()
    fallback: NestedSynthesizer | None = None
    context: bool | Literal["chunk"] = False
    strategy_id: ClassVar[str] = "WithSynopsis"

    def __post_init__(self) -> None:
        if isinstance(self.inner, WithSynopsis):
            raise ConfigError("inner: already has a synopsis: an artifact can have only one")
        if self.when_id is None and self.when not in GATES.values():
            check_id(self.when, GATE)
        for synthesizer in filter(None, (self.synthesizer, self.fallback)):
            check_id(synthesizer, SYNTHESIZER)
        if _reads_artifact(self.fallback):
            raise ConfigError("fallback: reads the artifact, which only the synthesizer is shown")
        if self.context == "chunk" and not isinstance(self.synthesizer, ChunkPlacing):
            raise ConfigError("context: chunk needs a synthesizer that asks a model: {kind: openai, model: ...}")

    def for_embedder(self, embedder: Embedder) -> Self:
        """Return a copy with an inner strategy that counts as `embedder` does and leaves room for a context."""
        return replace(self, inner=bound(self.inner, _Narrowed(embedder) if self.context else embedder))

    @property
    def id(self) -> str:
        """Id of everything that decides whether a synopsis is written, and which text."""
        if self.when is always and not self.fields and self.fallback is None:
            return self.synthesizer.id
        shipped = next((name for name, gate in GATES.items() if gate is self.when), None)
        gate = self.when_id or shipped or producer_id(self.when, GATE)
        fallback = self.fallback.id if self.fallback else None
        return f"{self.synthesizer.id}-{content_hash(gate, self.fields, fallback)[:12]}"

    @property
    def chunk_contexts(self) -> Any:
        """Writer of the contexts of chunks, if `context` is "chunk"."""
        return self.synthesizer.chunk_contexts if isinstance(self.synthesizer, ChunkPlacing) else None

    @cached_property
    def _resuming(self) -> bool:
        return isinstance(self.synthesizer, ResumableSynthesizer)  # too slow to repeat for each artifact

    def shown(self, artifact: Artifact, plan: SurfacePlan) -> SynthesizerInput:
        """Return the input of the synthesizer for an artifact. It contains the path only if `fields` names it."""
        metadata = artifact.metadata
        said = [f"{name}: {_said(metadata[name])}" for name in self.fields if metadata.get(name)]
        text = "\n\n".join(filter(None, ["\n".join(said), shown_text(self.inner, artifact, plan)]))
        hints = (*HINTS, "grammar") if getattr(self.synthesizer, "free", False) else HINTS  # an upgrade costs no calls
        shown = SynthesizerInput(
            artifact.artifact_id, text, {name: metadata[name] for name in hints if metadata.get(name)}
        )
        if _reads_artifact(self.synthesizer):
            fields = {**metadata, **plan.filter_fields}
            return replace(shown, artifact=Artifact(artifact.artifact_id, artifact.raw, fields))
        if not self._resuming:
            return shown
        first, *rest = shown_segments(self.inner, artifact, plan) or [Segment(0, "", "")]
        first = replace(first, request="\n\n".join(filter(None, ["\n".join(said), first.request])))
        return replace(shown, segments=[first, *rest])

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        """Return the whole plan at once, including a call of the synthesizer.

        An index does the two steps separately, and calls the synthesizer once per content.
        """
        plan = self.inner.decompose(artifact_id, raw, metadata)
        shown = self.shown(Artifact(artifact_id, raw, metadata), plan)
        if not (shown.text.strip() or shown.artifact) or not self.when(plan):
            return plan
        if isinstance(self.synthesizer, ResumableSynthesizer):
            text = run_to_completion(self.synthesizer, shown).text
        elif shown.artifact and isinstance(self.synthesizer, ArtifactSynthesizer):
            text = self.synthesizer.synthesize_artifact(shown.text, shown.metadata, shown.artifact)
        else:
            text = self.synthesizer.synthesize(shown.text, shown.metadata)
        if not isinstance(text, str) or not text.strip():
            return plan
        stamp = {"synthesizer_id": self.synthesizer.id}
        return replace(plan, surfaces=[Surface(self.kind, text.strip(), "document", stamp), *plan.surfaces])


def with_synopsis(
    strategy: Strategy,
    synthesize: Synthesizer | Callable[..., Any] | None = None,
    synthesizer_id: str | None = None,
    synopsis_kind: str = SYNOPSIS,
    *,
    when: str | Gate = "always",
    when_id: str | None = None,
    fields: Sequence[str] = (),
    fallback: Synthesizer | None = None,
    context: bool | Literal["chunk"] = False,
) -> WithSynopsis:
    """Return `strategy` with a synopsis of each artifact by `synthesize`.

    That is a synthesizer, or a function as in `Custom`. Without it, sentences of the text itself are used. The id
    of a function is `synthesizer_id`, else its attribute of that name, else its qualified name with its code. A lambda
    emits a UserWarning.
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


def _reads_artifact(synthesizer: Synthesizer | None) -> bool:
    return bool(getattr(synthesizer, "reads_artifact", False))


def split_synopsis(strategy: Strategy) -> tuple[Strategy, WithSynopsis | None]:
    """Split a strategy into the strategy that cuts, and the synopsis settings, which are None without synopses."""
    return (strategy.inner, strategy) if isinstance(strategy, WithSynopsis) else (strategy, None)


def quoted_text(strategy: Strategy, artifact: Artifact) -> str:
    """Return the text of an artifact that spans and quotes refer to. Raises DecomposeError.

    It does not contain the metadata fields that are shown to a synthesizer.
    """
    return shown_text(split_synopsis(strategy)[0], artifact)


@dataclass(frozen=True)
class _Narrowed:
    """Embedder with a smaller token limit, which leaves room for a context before each text."""

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


def contexts(surfaces: Sequence[Surface], said: Mapping[int, str], title: str, embedder: Embedder) -> list[str]:
    """Return the context of each surface for embedding and search: what is said of it, else its title and headings.

    `said` is by position. Only chunks have a context. It takes at most a share of the tokens that the embedder reads; a
    longer one is cut after a word.
    """
    share = None if embedder.max_tokens is None else embedder.max_tokens // CONTEXT_SHARE
    fit = cache(lambda text: first_words(text, share, embedder.count_tokens))
    chunks = [surface.granularity == "chunk" for surface in surfaces]
    texts = [said.get(i) or heading_path(title, surface.metadata) for i, surface in enumerate(surfaces)]
    return [f"{fit(text)}\n\n" if text and chunk else "" for text, chunk in zip(texts, chunks, strict=True)]


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
