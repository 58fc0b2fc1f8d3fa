"""Who asks, and what of: the one place where a server is limited to some corpora and to reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import ValidationError

from findingaid.errors import FindingAidError, brief
from findingaid.query.harmless import harmless
from findingaid.serve.capabilities import CAPABILITIES, Capability
from findingaid.serve.problems import UnknownCapabilityError, misshapen

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.query.fields import Field
    from findingaid.query.reader import Key


@dataclass(frozen=True)
class Session:
    """A finding aid as callers from outside have it.

    `aid` knows the corpora that may be asked, and no others. `actor` is who proposes claims; without one nothing can
    be written. `dagster` is where its UI is, for those who look at the index's state. Callers who are `elsewhere` are
    told of no place on this machine.
    """

    aid: FindingAid
    actor: str | None = None
    dagster: str | None = None
    elsewhere: bool = False

    @classmethod
    def of(
        cls,
        aid: FindingAid,
        corpora: Sequence[str] | None = None,
        actor: str | None = None,
        dagster: str | None = None,
    ) -> Session:
        """The session of these corpora, by default of all. Raises ConfigError for an unknown one, and for none."""
        return cls(aid.within(list(aid.corpora) if corpora is None else corpora), actor, dagster)

    @property
    def capabilities(self) -> Mapping[str, Capability]:
        """What can be asked, by name."""
        return {c.name: c for c in CAPABILITIES if c.read_only or self.actor is not None}

    def call(self, name: str, given: object, *, texts: bool = False) -> dict[str, Any]:
        """What a capability answers, as JSON has it; with `texts` all values given are texts, as in an address.

        Raises what the library does, InputError, and UnknownCapabilityError.
        """
        capability = self.capabilities.get(name)
        if capability is None:
            raise UnknownCapabilityError(
                f"nothing named {brief(name)} is served. Known: {', '.join(self.capabilities)}"
            )
        try:
            asked = capability.input.model_validate(given, strict=not texts)
        except ValidationError as error:
            raise misshapen(name, error) from None
        with self._discreet():
            if where := getattr(asked, "where", None):
                fields = partial(self._fields, getattr(asked, "corpora", None))
                asked = asked.model_copy(update={"where": harmless(where, fields)})
            plain: dict[str, Any] = orjson.loads(orjson.dumps(capability.call(self, asked)))
        return plain

    def artifacts(self) -> Sequence[tuple[Key, str]]:
        """(corpus, artifact id) of all that can be opened, with their titles. Raises StoreError."""
        with self._discreet():
            return self.aid.artifacts()

    def _fields(self, corpora: Sequence[str] | None) -> Iterable[Field]:
        return chain.from_iterable(self.aid.fields(corpora).values())

    def warm(self) -> None:
        """Open the published index and load the model, so that the first question does not wait for them."""
        with self._discreet():
            self.aid.searcher.reader().embed("ready")

    @contextmanager
    def _discreet(self) -> Iterator[None]:
        """Errors without the address of the tables, for callers who are elsewhere."""
        try:
            yield
        except FindingAidError as error:
            if self.elsewhere:
                error.args = (str(error).replace(self.aid.store.uri, "the index"),)
            raise
