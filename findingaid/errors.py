"""Exceptions that findingaid raises on purpose.

FindingAidError
├── ConfigError            findingaid.yaml, an override or a flag is invalid
│   ├── UnknownCorpusError the named corpus does not exist
│   └── IdentityError      no id can be made of a part
├── SourceError            a source cannot be listed
│   └── SourceShrunkError  it lists suspiciously fewer artifacts than before
├── ArtifactError          one artifact fails at one stage
│   ├── ReadError
│   │   └── SkippedError   the source does not want it: counted, and not a failure
│   ├── DecomposeError
│   ├── SynthesisError
│   └── EmbedError
├── StoreError             a table is missing, damaged or not usable as it is
│   └── TornError          some records of an artifact are lost
├── CasesError             the cases or the document set of an evaluation are invalid
├── ModelError             a model that a query uses fails or is not available
├── UnreachableError       the object storage of the tables does not answer, or refuses access
└── QueryError             a query is invalid
    └── NotFoundError      it names something that does not exist

Every message is one line: the problem, its place, and the remedy.
"""

from __future__ import annotations

import re

UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
"""Control characters except tab and line feed, characters that hide or reverse text, and unpaired surrogates."""


class FindingAidError(Exception):
    """Base of all errors whose message is meant for the user."""


class ConfigError(FindingAidError):
    """The configuration is invalid or incomplete."""


class UnknownCorpusError(ConfigError):
    """No corpus that the caller may query has this name."""


class IdentityError(ConfigError):
    """A strategy, a synthesizer or another part has a value from which no id can be made."""


class SourceError(FindingAidError):
    """A source cannot be listed at all, so nothing is known about its artifacts."""


class SourceShrunkError(SourceError):
    """A source lists so many fewer artifacts than the ledger that deleting the rest needs the user's consent."""


class ArtifactError(FindingAidError):
    """One artifact failed at one stage; the other artifacts go on.

    `kind` is stable and machine-readable: timeout, transport, parse, refused, budget, missing, memory,
    too_large, other, or for reading: binary, encoding, outside_root, unreadable, duplicate, changed, no_converter,
    encrypted, no_text, crash.
    """

    stage = ""

    def __init__(self, message: str, kind: str = "other") -> None:
        super().__init__(message)
        self.kind = kind


class ReadError(ArtifactError):
    """The artifact cannot be read from its source."""

    stage = "artifacts"


class SkippedError(ReadError):
    """The artifact is not for this corpus, such as a picture among texts. The run counts it and goes on."""


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
    """A table cannot be used in its current state."""


class TornError(StoreError):
    """Some records of an artifact are missing; the next run rebuilds them."""


class CasesError(FindingAidError):
    """A case file, or a document set, lacks something that an evaluation needs; the message names the line."""


class UnreachableError(FindingAidError):
    """The storage that holds the tables cannot be used now. Nothing is known about the tables, and nothing was lost.

    The message contains no value of `storage_options`.
    """


class ModelError(FindingAidError):
    """A reranker, selector, rewriter or answerer that the caller requested fails; it is never silently skipped.

    `kind` is one of the kinds of ArtifactError, or auth, unavailable or truncated.
    """

    def __init__(self, message: str, kind: str = "other") -> None:
        super().__init__(message)
        self.kind = kind


class QueryError(FindingAidError):
    """The query is invalid and cannot be answered."""


class NotFoundError(QueryError):
    """No artifact, record, claim or file that may be shown has this id."""


def help_on(error: FindingAidError) -> str:
    """Return the command that explains an error and its remedy."""
    known = next(kind for kind in type(error).__mro__ if kind.__module__.startswith("findingaid."))
    return f"findingaid help {known.__name__}"


RAISED = (Exception, SystemExit)
"""Exceptions of a component that fail one artifact alone: some libraries even end the program, as argparse does."""


def failure_kind(error: BaseException) -> str:
    """Return the stable kind of any error that a source, strategy, synthesizer or embedder raised."""
    match error:
        case ArtifactError():
            return error.kind
        case TimeoutError():
            return "timeout"
        case ConnectionError():
            return "transport"
        case MemoryError():
            return "memory"
        case _:
            return "other"


def one_line(error: BaseException) -> str:
    """Return an error's message on one line, prefixed with the type unless it is an ArtifactError."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001  # an exception may raise anything when it is asked for its message
        said = ""
    if isinstance(error, BaseExceptionGroup):
        said = f"{said}: {'; '.join(map(one_line, error.exceptions))}"
    text = " ".join(said.encode("utf-8", "backslashreplace").decode().split()) or type(error).__name__
    return text if isinstance(error, ArtifactError) else f"{type(error).__name__}: {text}"


def visible(text: str) -> str:
    """Return a text with terminal control and invisible characters as escapes, such as \\x1b, and line ends as \\n."""
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def visible_line(text: str) -> str:
    """Return a text as one line: as `visible`, with tabs and line ends as escapes too. An id may contain them."""
    return visible(text.replace("\r", "\\r")).replace("\n", "\\n").replace("\t", "\\t")


def brief(text: str, most: int = 80) -> str:
    """Quote a text for an error message, cut after `most` characters."""
    return repr(text if len(text) <= most else f"{text[:most]}…")
