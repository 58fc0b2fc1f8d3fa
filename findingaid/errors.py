"""Every error findingaid raises on purpose.

FindingAidError
├── ConfigError            findingaid.yaml, an override or a flag is wrong
│   └── UnknownCorpusError a corpus is named that is not there
├── SourceError            a whole source cannot be listed
│   └── SourceShrunkError  it lists suspiciously less than before
├── ArtifactError          one artifact cannot be taken through one stage
│   ├── ReadError
│   ├── DecomposeError
│   ├── SynthesisError
│   └── EmbedError
├── StoreError             a table is missing, damaged or of another kind
│   └── TornError          records of an artifact are lost
├── CasesError             cases or a set for an evaluation are wrong
├── ModelError             a model that a question asks for fails, or is not there
├── UnreachableError       the object storage of the tables does not answer, or refuses
└── QueryError             a question cannot be asked as put
    └── NotFoundError      it is about something that is not there

The message is one line and says what was wrong, where, and what to do.
"""

from __future__ import annotations

PAGE = "docs/reference/errors.md"
"""Has a place for every class below."""


class FindingAidError(Exception):
    """Base of all errors that carry a message meant for the user."""


class ConfigError(FindingAidError):
    """The configuration does not say what it must."""


class UnknownCorpusError(ConfigError):
    """No corpus has this name, or none that may be asked."""


class SourceError(FindingAidError):
    """A source cannot be listed at all, so nothing is known of its artifacts."""


class SourceShrunkError(SourceError):
    """A source lists so much less than the ledger that deleting the rest needs a word from the user."""


class ArtifactError(FindingAidError):
    """One artifact failed at one stage; the others go on.

    `kind` is stable and machine-readable: timeout, transport, parse, refused, budget, missing, other,
    or for reading: binary, encoding, too_large, outside_root, unreadable, duplicate, changed, no_converter,
    encrypted, no_text.
    """

    stage = ""

    def __init__(self, message: str, kind: str = "other") -> None:
        super().__init__(message)
        self.kind = kind


class ReadError(ArtifactError):
    """The artifact cannot be read from its source."""

    stage = "artifacts"


class DecomposeError(ArtifactError):
    """The strategy cannot cut the artifact."""

    stage = "surfaces"


class SynthesisError(ArtifactError):
    """The synthesizer cannot write the artifact's synopsis."""

    stage = "synopses"


class EmbedError(ArtifactError):
    """The embedder cannot embed one of the artifact's texts."""

    stage = "embeddings"


class StoreError(FindingAidError):
    """A table cannot be used as it is."""


class TornError(StoreError):
    """Some records of an artifact are there and others are not; the next run makes them again."""


class CasesError(FindingAidError):
    """A file of cases, or a set, does not say what an evaluation needs; the message names the line."""


class UnreachableError(FindingAidError):
    """The storage that holds the tables cannot be used now; nothing is known of the tables, and nothing was lost.

    The message holds no value of `storage_options`.
    """


class ModelError(FindingAidError):
    """A reranker, selector or rewriter that a search asks for fails; it is never left out in silence.

    `kind` is one of those of ArtifactError, or auth, unavailable or truncated.
    """

    def __init__(self, message: str, kind: str = "other") -> None:
        super().__init__(message)
        self.kind = kind


class QueryError(FindingAidError):
    """The query cannot be answered as it was put."""


class NotFoundError(QueryError):
    """No artifact, record, claim or file has this id, or none that may be shown."""


def page_of(error: FindingAidError) -> str:
    """Where the documentation says what an error means and what to do: a page of this project, and the place in it."""
    known = next(kind for kind in type(error).__mro__ if kind.__module__.startswith("findingaid."))
    return f"{PAGE}#{known.__name__.lower()}"


def failure_kind(error: BaseException) -> str:
    """The stable kind of any error that a source, strategy, synthesizer or embedder raised."""
    match error:
        case ArtifactError():
            return error.kind
        case TimeoutError():
            return "timeout"
        case ConnectionError():
            return "transport"
        case _:
            return "other"


def one_line(error: BaseException) -> str:
    """What an error says, led by its type where findingaid did not raise it."""
    text = " ".join(str(error).encode("utf-8", "backslashreplace").decode().split()) or type(error).__name__
    return text if isinstance(error, ArtifactError) else f"{type(error).__name__}: {text}"


def brief(text: str, most: int = 80) -> str:
    """A text in an error, in quotes; of a long one its beginning."""
    return repr(text if len(text) <= most else f"{text[:most]}…")
