"""An artifact a little at a time: what it is, what it says, and the files that come with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from findingaid.errors import DecomposeError, NotFoundError, QueryError, ReadError, SourceError, StoreError
from findingaid.model import SYNOPSIS, Artifact, BundledFile, BundlingSource, Corpus, Raw
from findingaid.query.show import ArtifactView, show
from findingaid.stages import stored
from findingaid.store import Store
from findingaid.store.sql import equals
from findingaid.synopses import quoted_text

Level = Literal["metadata", "body", "files"]


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What was asked for of an artifact; the rest is None.

    `artifact_version` is that of the body, which may be later than what searches are answered from. `left_out` says
    of files that are there and cannot be had why.
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

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


def disclose(
    store: Store,
    corpora: Mapping[str, Corpus],
    wanted: str,
    level: Level = "metadata",
    within: Sequence[str] | None = None,
    file: str | None = None,
) -> Disclosure:
    """An artifact up to a level, or one of its files; `wanted` is its id or that of one of its records.

    Metadata and body are those last indexed, files those at the source now. `within` names the corpora that may be
    looked into, without it all. Raises QueryError.
    """
    if level not in get_args(Level):
        raise QueryError(f"unknown level {level!r}. Known: {', '.join(get_args(Level))}")
    view = show(store, wanted, within)
    artifact, version = _artifact(store, view)
    known = (view.corpus, view.artifact_id, view.title, version, _description(view, artifact.raw), artifact.metadata)
    if file is not None:
        source = _source(corpora, view)
        return Disclosure(*known, file=file, text=_of(view, lambda: source.bundled_text(view.artifact_id, file)))
    if level == "metadata":
        return Disclosure(*known)
    body = _body(corpora, view, artifact.raw)
    if level == "body":
        return Disclosure(*known, body=body)
    source = _source(corpora, view)
    files, left_out = _of(view, lambda: source.bundled(view.artifact_id))
    return Disclosure(*known, body=body, files=files, left_out=left_out)


def _artifact(store: Store, view: ArtifactView) -> tuple[Artifact, str]:
    """What was last indexed, and its version. Raises StoreError where that is lost."""
    found = stored(store, [view.artifact_id], equals("corpus", view.corpus))
    if not found:
        raise StoreError(
            f"{view.corpus}/{view.artifact_id}: is no longer in the table artifacts: run `findingaid index`"
        )
    return found[view.corpus, view.artifact_id]


def _description(view: ArtifactView, raw: Raw) -> str:
    """What the artifact says it is, else its synopsis."""
    own = raw.get("description") if isinstance(raw, Mapping) else None
    synopses = (record.text for record in view.records if record.surface_kind == SYNOPSIS)
    return str(own) if own else next(synopses, "")


def _body(corpora: Mapping[str, Corpus], view: ArtifactView, raw: Raw) -> str:
    if isinstance(raw, str):
        return raw
    if isinstance(raw.get("body"), str):
        return str(raw["body"])
    try:
        return quoted_text(corpora[view.corpus].strategy, raw)
    except (DecomposeError, KeyError) as error:
        raise QueryError(f"{view.corpus}/{view.artifact_id}: has no body: {error}") from None


def _source(corpora: Mapping[str, Corpus], view: ArtifactView) -> BundlingSource:
    source = corpora[view.corpus].source if view.corpus in corpora else None
    if not isinstance(source, BundlingSource):
        raise NotFoundError(f"{view.corpus}/{view.artifact_id}: no files come with it, as they do with skills")
    return source


def _of(view: ArtifactView, ask: Any) -> Any:
    try:
        return ask()
    except (ReadError, SourceError) as error:
        raise NotFoundError(f"{view.corpus}/{view.artifact_id}: {error}") from None
