"""What is asked and answered of claims as text, since the call cache keeps texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from pydantic import TypeAdapter

from findingaid.identity import to_json
from findingaid.model import ClaimExtractor, Draft, Extraction, Member, NodeProducer

SHOWN_OF_REFUSED = 80
"""Characters that a line says of what was refused."""

EXTRACTION = TypeAdapter(Extraction)
DRAFT = TypeAdapter(Draft)
MEMBERS = TypeAdapter(list[Member])


def extraction_text(extraction: Extraction) -> str:
    """An extraction as JSON; "" for one that found nothing and refused nothing."""
    return to_json(asdict(extraction)) if extraction.statements or extraction.refused else ""


def extraction_of(text: str) -> Extraction:
    """What `extraction_text` was made of."""
    return EXTRACTION.validate_json(text) if text else Extraction()


def draft_text(draft: Draft | None) -> str:
    """A draft as JSON; "" for none."""
    return to_json(asdict(draft)) if draft else ""


def draft_of(text: str) -> Draft | None:
    """What `draft_text` was made of."""
    return DRAFT.validate_json(text) if text else None


def members_text(members: Sequence[Member]) -> str:
    """Members as JSON: what a producer that is a Synthesizer is shown."""
    return orjson.dumps([asdict(member) for member in members]).decode()


def members_of(text: str) -> list[Member]:
    """What `members_text` was made of."""
    return MEMBERS.validate_json(text)


@dataclass(frozen=True)
class Extracting:
    """An extractor as a Synthesizer, so that it is asked, paid and kept as those are."""

    extractor: ClaimExtractor

    @property
    def id(self) -> str:
        return self.extractor.id

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        return extraction_text(self.extractor.extract(text, metadata))


@dataclass(frozen=True)
class Summarizing:
    """A producer of summary nodes as a Synthesizer."""

    producer: NodeProducer

    @property
    def id(self) -> str:
        return self.producer.id

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        return draft_text(self.producer.summarize(members_of(text)))
