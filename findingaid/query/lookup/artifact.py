"""Published artifacts, and their anchored summaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from findingaid.claims.eligible import Eligible
from findingaid.errors import NotFoundError, QueryError, TornError, brief
from findingaid.model import Fresh, Note
from findingaid.query.search.hits import RecordView, build_record
from findingaid.store import Ledger, Publisher, SkippedArtifacts, Store
from findingaid.store.histories import published_history
from findingaid.store.sql import any_of, equals, of_artifacts, one_of
from findingaid.synthesis.anchored_summary import AnchoredSummary

if TYPE_CHECKING:
    from lance import LanceDataset

    from findingaid.query.search.reader import Reader

VIEW_COLUMNS = (
    "record_id", "corpus", "artifact_id", "surface_kind", "surface_index", "title", "text", "shown",
    "span_start", "span_end", "metadata", "artifact_version", "producer_id", "claim_id", "evidence", "embedder_id",
)  # fmt: skip


SHORT_VERSION = 8
"""Characters of a version that printed places and messages show."""


@dataclass(frozen=True, slots=True)
class ArtifactView:
    """Artifact with its records in plan order, and the content version they were made from."""

    corpus: str
    artifact_id: str
    title: str
    artifact_version: str
    embedder_id: str
    records: Sequence[RecordView]
    fresh: Fresh | None = None
    fresh_note: str = ""
    notes: Sequence[Note] = ()
    """What the source guessed or left out when it read the artifact."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class AnchoredSummaryView:
    """One of the anchored summaries that an artifact has had, as published."""

    iteration: int
    segments: int
    producer_id: str
    at: str
    summary: AnchoredSummary

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("iteration", "segments", "producer_id", "at")} | {
            "summary": self.summary.model_dump()
        }


def read_artifact(
    reader: Reader, wanted: str, corpora: Sequence[str] | None = None, eligible: Eligible | None = None
) -> ArtifactView:
    """Return the artifact that a record with this id belongs to, or the one with this id.

    A record goes first: its id is a hash, which nobody can choose as they can choose the name of a file. `corpora`
    limits the lookup to these corpora. Claims and summary nodes are included if they are `eligible`; without `eligible`
    there are none.

    Raises QueryError for an id that is unknown or in several corpora, TornError for an artifact that has lost records.
    """

    def find(where: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = reader.records.to_table(columns=list(VIEW_COLUMNS), filter=where).to_pylist()
        return found

    within = "" if corpora is None else f" AND {one_of('corpus', corpora)}"
    rows = find(any_of(equals("artifact_id", wanted), equals("record_id", wanted)) + within)
    if record := next((row for row in rows if row["record_id"] == wanted), None):
        rows = find(of_artifacts([(record["corpus"], record["artifact_id"])]))
    if not rows:
        unknown = f"no published artifact or record {brief(wanted)}: `findingaid search` shows ids"
        raise NotFoundError(why_absent(reader.store, wanted, corpora) or unknown)
    if len(found := {row["corpus"] for row in rows}) > 1:
        raise QueryError(f"{wanted!r} is in several corpora, {', '.join(sorted(found))}: name one by --corpus")
    first = rows[0]
    _refuse_torn(reader.store, int(reader.records.version), rows)
    return ArtifactView(
        corpus=first["corpus"],
        artifact_id=first["artifact_id"],
        title=first["title"],
        artifact_version=first["artifact_version"],
        embedder_id=first["embedder_id"],
        records=[build_record(row) for row in _visible_rows(rows, eligible)],
        notes=Ledger(reader.store).notes(first["corpus"], first["artifact_id"]),
    )


def why_absent(store: Store, artifact_id: str, corpora: Sequence[str] | None) -> str:
    """Return a line on the artifact of this id, or `CORPUS/ID`, if it is skipped or failed in one of these corpora."""
    corpus, _, printed = artifact_id.partition("/")
    for wanted, within in ((artifact_id, corpora), (printed, [name for name in corpora or () if name == corpus])):
        rows = (Ledger(store).rows(name, [wanted]).get(wanted) for name in within or ())
        failed = (f"failed: {row.corpus}/{row.failure}" for row in rows if row and row.failure)
        if why := SkippedArtifacts(store).why(wanted, within) or next(failed, ""):
            return why
    return ""


def refuse_other_version(key: tuple[str, str], published: str, wanted: str | None) -> None:
    """Raise NotFoundError if an artifact is not published in the wanted version, or one that begins so.

    A place in one version holds other words in the next. None stands for any version.
    """
    if wanted is not None and not published.startswith(wanted):
        raise NotFoundError(
            f"{'/'.join(key)}: changed since version {wanted[:SHORT_VERSION]!r}, now {published[:SHORT_VERSION]!r}:"
            " search again for the place"
        )


def _visible_rows(rows: Sequence[Mapping[str, Any]], eligible: Eligible | None) -> list[Mapping[str, Any]]:
    """Return the records of an artifact that may be shown, in plan order."""
    ordered = sorted(rows, key=lambda row: row["surface_index"])
    return [row for row in ordered if not row["claim_id"] or (eligible is not None and eligible.allows_record(row))]


def read_titles(records: LanceDataset, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Map the (corpus, artifact id) of each of these artifacts to its title in the published records."""
    if not (named := sorted(set(keys))):
        return {}
    rows = records.to_table(columns=["corpus", "artifact_id", "title"], filter=of_artifacts(named)).to_pylist()
    return {(row["corpus"], row["artifact_id"]): row["title"] for row in rows}


def read_anchored_summaries(
    reader: Reader, wanted: str, corpora: Sequence[str] | None = None
) -> list[AnchoredSummaryView]:
    """Return the anchored summaries of a published artifact, oldest first."""
    artifact = read_artifact(reader, wanted, corpora)
    rows = published_history(reader.store, reader.beside("summaries"), artifact.corpus, artifact.artifact_id)
    return [
        AnchoredSummaryView(
            row.iteration,
            row.segments,
            row.producer_id,
            row.at.isoformat(timespec="seconds"),
            AnchoredSummary.model_validate_json(row.summary),
        )
        for row in rows
    ]


def _refuse_torn(store: Store, version: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise TornError if records of an artifact are missing, by their positions or by the ledger's count.

    The ledger counts the records of the newest version, so its count is used only if `version` still is the newest.
    """
    corpus, artifact_id = rows[0]["corpus"], rows[0]["artifact_id"]
    places = sorted(row["surface_index"] for row in rows)
    torn = places[0] > 1 or places != list(range(places[0], places[0] + len(places)))
    known = None if torn else Ledger(store).rows(corpus, [artifact_id]).get(artifact_id)
    if known and known.records is not None and known.n_records != len(rows):
        torn = version == Publisher(store).newest()
    if torn:
        raise TornError(f"{corpus}/{artifact_id}: some of its records are lost: run `findingaid index`")
