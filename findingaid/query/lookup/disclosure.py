"""Progressive disclosure of an artifact: its metadata, its body, and the files that come with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from findingaid.corpus import Corpus
from findingaid.errors import DecomposeError, NotFoundError, QueryError, ReadError, SourceError, StoreError
from findingaid.model import SYNOPSIS, Artifact, Fresh, Raw
from findingaid.protocols import BundledFile, BundlingSource
from findingaid.query.lookup.artifact import ArtifactView, read_artifact
from findingaid.query.search.reader import Reader
from findingaid.store.sql import equals
from findingaid.strategies.with_synopsis import quoted_text
from findingaid.text.structure import LAYOUT

Level = Literal["metadata", "body", "files"]


@dataclass(frozen=True, slots=True)
class Disclosure:
    """Requested parts of an artifact; the others are None.

    `artifact_version` is the published version, of which the body is. `left_out` has a reason for each file that exists
    and cannot be returned.
    """

    corpus: str
    artifact_id: str
    title: str
    artifact_version: str
    description: str
    metadata: Mapping[str, Any]
    body: str | None = None
    files: Sequence[BundledFile] | None = None
    left_out: Sequence[str] = ()
    file: str | None = None
    text: str | None = None
    fresh: Fresh | None = None
    fresh_note: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


def disclose_artifact(
    reader: Reader,
    corpora: Mapping[str, Corpus],
    wanted: str,
    level: Level = "metadata",
    within: Sequence[str] | None = None,
    file: str | None = None,
) -> Disclosure:
    """Return an artifact up to a level, or one of its files; `wanted` is its id or that of one of its records.

    Metadata and body are as published; files are read from the source now. `within` names the corpora that may be
    searched; None means all. Raises QueryError, and StoreError if the published artifact is lost.
    """
    if level not in get_args(Level):
        raise QueryError(f"unknown level {level!r}. Known: {', '.join(get_args(Level))}")
    view = read_artifact(reader, wanted, within)
    artifact = _read_stored(reader, view)
    known = (
        view.corpus,
        view.artifact_id,
        view.title,
        view.artifact_version,
        _description(view, artifact.raw),
        {name: value for name, value in artifact.metadata.items() if name != LAYOUT},
    )
    if file is not None:
        source = _source(corpora, view)
        return Disclosure(
            *known, file=file, text=_read_files(view, lambda: source.bundled_text(view.artifact_id, file))
        )
    if level == "metadata":
        return Disclosure(*known)
    body = _body(corpora, view, artifact)
    if level == "body":
        return Disclosure(*known, body=body)
    source = _source(corpora, view)
    files, left_out = _read_files(view, lambda: source.bundled(view.artifact_id))
    return Disclosure(*known, body=body, files=files, left_out=left_out)


def _read_stored(reader: Reader, view: ArtifactView) -> Artifact:
    """Return the artifact that the records of a view were made from. Raises StoreError if it is not there."""
    key = view.corpus, view.artifact_id
    found = reader.artifacts([view.artifact_id], equals("corpus", view.corpus)).get(key)
    if found is None:
        raise StoreError(f"{'/'.join(key)}: is no longer in the table artifacts: run `findingaid index`")
    artifact, version = found
    if version != view.artifact_version:
        raise StoreError(f"{'/'.join(key)}: was indexed again, but not to its end: run `findingaid index`")
    return artifact


def _description(view: ArtifactView, raw: Raw) -> str:
    """Return the description that the artifact gives of itself, else its synopsis."""
    own = raw.get("description") if isinstance(raw, Mapping) else None
    synopses = (record.text for record in view.records if record.surface_kind == SYNOPSIS)
    return str(own) if own else next(synopses, "")


def _body(corpora: Mapping[str, Corpus], view: ArtifactView, artifact: Artifact) -> str:
    raw = artifact.raw
    if isinstance(raw, str):
        return raw
    if isinstance(raw.get("body"), str):
        return str(raw["body"])
    try:
        return quoted_text(corpora[view.corpus].strategy, artifact)
    except (DecomposeError, KeyError) as error:
        raise QueryError(f"{view.corpus}/{view.artifact_id}: has no body: {error}") from None


def _source(corpora: Mapping[str, Corpus], view: ArtifactView) -> BundlingSource:
    source = corpora[view.corpus].source if view.corpus in corpora else None
    if not isinstance(source, BundlingSource):
        raise NotFoundError(f"{view.corpus}/{view.artifact_id}: has no bundled files, as skills have")
    return source


def _read_files(view: ArtifactView, ask: Any) -> Any:
    try:
        return ask()
    except (ReadError, SourceError) as error:
        raise NotFoundError(f"{view.corpus}/{view.artifact_id}: {error}") from None
