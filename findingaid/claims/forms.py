"""Serialization of claims and summary nodes as text, because the call cache stores texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import orjson
from pydantic import TypeAdapter

from findingaid.identity.hashes import to_json
from findingaid.model import Synopsis, SynthesizerInput, Usage
from findingaid.protocols import ClaimExtractor, Draft, Extraction, Member, ModelProducer, NodeProducer

Input = TypeVar("Input")
Made = TypeVar("Made")

SHOWN_OF_REFUSED = 80
"""Characters of a refused statement that a message shows."""


@cache
def _parser(of: Any) -> TypeAdapter[Any]:
    """Return the parser of a type, which takes 10 ms to build: most runs parse no claims."""
    return TypeAdapter(of)


def extraction_text(extraction: Extraction) -> str:
    """Serialize an extraction as JSON; return "" if it found nothing and refused nothing."""
    return to_json(asdict(extraction)) if extraction.statements or extraction.refused else ""


def extraction_of(text: str) -> Extraction:
    """Parse the text that `extraction_text` returned."""
    found: Extraction = _parser(Extraction).validate_json(text) if text else Extraction()
    return found


def draft_text(draft: Draft | None) -> str:
    """Serialize a draft as JSON; return "" for None."""
    return to_json(asdict(draft)) if draft else ""


def draft_of(text: str) -> Draft | None:
    """Parse the text that `draft_text` returned."""
    draft: Draft | None = _parser(Draft).validate_json(text) if text else None
    return draft


def members_text(members: Sequence[Member]) -> str:
    """Serialize members as JSON, the input of the calls of a producer."""
    return orjson.dumps([asdict(member) for member in members]).decode()


def members_of(text: str) -> list[Member]:
    """Parse the text that `members_text` returned."""
    members: list[Member] = _parser(list[Member]).validate_json(text)
    return members


@dataclass(frozen=True)
class TextCalls(Generic[Input, Made]):
    """Calls of a producer as a Synthesizer makes them, from text to text, for the call cache."""

    id: str
    input_of: Callable[[str], Input]
    text_of: Callable[[Made], str]
    call: Callable[[Input, Mapping[str, Any]], Made]

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        return self.text_of(self.call(self.input_of(text), metadata))


@dataclass(frozen=True)
class ModelTextCalls(TextCalls[Input, Made]):
    """Calls of a producer that asks a model, as a ConcurrentSynthesizer makes them."""

    producer: ModelProducer[Input, Made]

    @property
    def model(self) -> str:
        return self.producer.model

    def estimate(self, text: str) -> Usage:
        return self.producer.estimate(self.input_of(text))

    def most(self, text: str) -> Usage | None:
        return self.producer.most(self.input_of(text))

    def synthesize_all(self, shown: Iterable[SynthesizerInput]) -> Iterator[tuple[int, Synopsis]]:
        with closing(self.producer.call_all(self.input_of(one.text) for one in shown)) as results:
            for index, result in results:
                yield index, result.map(self.text_of).to_synopsis()


def extraction_calls(extractor: ClaimExtractor) -> TextCalls[str, Extraction]:
    """Return the calls of an extractor, whose results `extraction_of` parses."""
    parts = extractor.id, str, extraction_text, extractor.extract
    return ModelTextCalls(*parts, extractor) if isinstance(extractor, ModelProducer) else TextCalls(*parts)


def draft_calls(producer: NodeProducer) -> TextCalls[list[Member], Draft | None]:
    """Return the calls of a producer of summary nodes, whose results `draft_of` parses."""
    parts = producer.id, members_of, draft_text, lambda members, _: producer.summarize(members)
    return ModelTextCalls(*parts, producer) if isinstance(producer, ModelProducer) else TextCalls(*parts)
