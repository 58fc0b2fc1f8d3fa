"""Explanation of who may read an artifact: the readers that it was published with, and the rules that decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from findingaid.access import NOBODY
from findingaid.claims.revocations import Revoked
from findingaid.corpus import Corpus
from findingaid.protocols import AccessSource
from findingaid.query.lookup.artifact import read_artifact
from findingaid.query.search.reader import Reader
from findingaid.store.permitted import READERS
from findingaid.store.sql import of_artifacts


@dataclass(frozen=True, slots=True)
class AccessView:
    """Who may read a published artifact.

    `readers` are as in `findingaid.access.readers_text`. `rules` are lines on the rules that match it as they are now.
    `notes` say why nobody may read it, if so, and name its revoked readers.
    """

    corpus: str
    artifact_id: str
    readers: str
    rules: Sequence[str]
    notes: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_access(
    reader: Reader, corpora: Mapping[str, Corpus], revoked: Revoked, wanted: str, within: Sequence[str]
) -> AccessView:
    """Return who may read an artifact, named by its id or by that of a record. Raises QueryError for an unknown id."""
    view = read_artifact(reader, wanted, within)
    of = of_artifacts([(view.corpus, view.artifact_id)])
    readers: str = reader.beside("artifacts").to_table(columns=[READERS], filter=of)[READERS][0].as_py()
    corpus = corpora[view.corpus]
    by_source = corpus.source.explain_access(view.artifact_id) if isinstance(corpus.source, AccessSource) else []
    rules = corpus.access.explain(view.artifact_id, by_source) if corpus.access else ()
    notes = [str(note) for note in view.notes if note.kind == "access"]
    notes += [f"{principal} is revoked" for principal in readers.split() if principal in revoked.principals]
    if (view.corpus, view.artifact_id) in revoked.artifacts:
        readers = NOBODY
        notes.append("it is revoked")
    return AccessView(view.corpus, view.artifact_id, readers, list(rules), notes)
