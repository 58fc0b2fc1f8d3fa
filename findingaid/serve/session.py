"""Session of a server: the one place that limits clients to certain corpora and to read-only use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import ValidationError

from findingaid.access import Caller
from findingaid.errors import FindingAidError, brief
from findingaid.serve.capabilities import CAPABILITIES, Capability, unused_inputs
from findingaid.serve.errors import UnknownCapabilityError, input_error
from findingaid.serve.inputs import without_unused
from findingaid.serve.request_context import ASKING
from findingaid.serve.truncation import truncate, without_empty
from findingaid.serve.view import View

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.query.search.filters.fields import Field
    from findingaid.query.search.reader import Key


@dataclass(frozen=True)
class Session(View):
    """View of a finding aid through which clients call capabilities: validates inputs and cleans errors.

    `served` are the capabilities that clients can call. With `compact`, results have no empty fields, which would only
    take room in a model's context. `caller` is whoever asks without a token of their own; None is the public.
    """

    served: Sequence[Capability] = CAPABILITIES
    compact: bool = False
    caller: Caller | None = None

    @classmethod
    def of(
        cls,
        aid: FindingAid,
        corpora: Sequence[str] | None = None,
        actor: str | None = None,
        dagster: str | None = None,
    ) -> Session:
        """Create a session for these corpora, by default all.

        Raises ConfigError when a corpus is unknown or the list is empty.
        """
        return cls(aid.within(list(aid.corpora) if corpora is None else corpora), actor, dagster)

    @property
    def asking(self) -> Caller | None:
        """Whoever makes the request that is answered; None if everybody may read all corpora of this session."""
        if all(corpus.access is None for corpus in self.aid.corpora.values()):
            return None
        return ASKING.get() or self.caller or Caller.of()

    @property
    def readable(self) -> FindingAid:
        """The finding aid as whoever asks may read it."""
        return self.aid.for_caller(asking) if (asking := self.asking) else self.aid

    @cached_property
    def capabilities(self) -> Mapping[str, Capability]:
        """Capabilities of this session by name; without an actor, only those that read.

        Their schemas offer the inputs that have a use under the configuration.
        """
        unused = unused_inputs(self.aid)
        return {c.name: replace(c, unused=unused) for c in self.served if c.read_only or self.actor is not None}

    def call(self, name: str, given: object, *, texts: bool = False) -> dict[str, Any]:
        """Call a capability and return its result as JSON values.

        With `texts`, all given values are strings, as in a URL, and are converted. Optional inputs that are empty count
        as not given. Raises InputError when the input does not match the schema, UnknownCapabilityError when no such
        capability is served, and the errors of the library.
        """
        capability = self.capabilities.get(name)
        if capability is None:
            known = ", ".join(self.capabilities)
            raise UnknownCapabilityError(f"unknown capability {brief(name)}. Known: {known}{self._way_to(name)}")
        if isinstance(given, Mapping):
            given = {**capability.defaults, **without_unused(given, capability.input)}
        try:
            asked = capability.input.model_validate(given, strict=not texts)
        except ValidationError as error:
            raise input_error(name, error, capability.input_schema()["properties"]) from None
        view = replace(self, aid=self.readable.pinned())
        with self._discreet():
            if where := getattr(asked, "where", None):
                from findingaid.query.search.filters.syntax import restrict_filter

                fields = partial(view._fields, getattr(asked, "corpora", None))
                asked = asked.model_copy(update={"where": restrict_filter(where, fields)})
            plain: dict[str, Any] = orjson.loads(orjson.dumps(capability.call(view, asked)))
        if max_tokens := getattr(asked, "max_tokens", None):
            plain = truncate(plain, max_tokens)
        return without_empty(plain) if self.compact and not capability.keep_empty else plain

    def _way_to(self, name: str) -> str:
        """Return how to have a capability served that this session lacks; "" if there is none of this name."""
        lacking = next((capability for capability in CAPABILITIES if capability.name == name), None)
        if lacking is None:
            return ""
        if self.actor is None and not lacking.read_only:
            return "; this server only reads: `--write` lets callers propose claims"
        return "; `findingaid serve mcp --profile full` serves it"

    def artifacts(self) -> Sequence[tuple[Key, str]]:
        """Return the (corpus, artifact id) key and the title of every published artifact. Raises StoreError."""
        with self._discreet():
            return self.readable.artifacts()

    def _fields(self, corpora: Sequence[str] | None) -> Iterable[Field]:
        return chain.from_iterable(self.aid.fields(corpora).values())

    def warm(self, model: bool = True) -> None:
        """Open the published index and load its vectors, so that the first query is fast; with `model`, the model too.

        Loading the embedder embeds a query, which may cost money at an endpoint.
        """
        with self._discreet():
            reader = self.aid.searcher.reader()
            reader.require_embedder()
            if reader.memory:
                reader.memory.load()
            if model:
                reader.embed("ready")

    @contextmanager
    def _discreet(self) -> Iterator[None]:
        """Remove the address of the tables from error messages when clients may be on other machines."""
        try:
            yield
        except FindingAidError as error:
            if self.elsewhere:
                error.args = (str(error).replace(self.aid.store.uri, "the index"),)
            raise
