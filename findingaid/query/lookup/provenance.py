"""Provenance of published data, link by link down to its source; and the reverse, all that depends on an artifact.

Every link is verified: its target exists and says what is expected, or the link is `broken`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from findingaid.claims.eligible import NEITHER
from findingaid.claims.model import Claim, Tier
from findingaid.corpus import Corpus
from findingaid.errors import FindingAidError, NotFoundError, one_line
from findingaid.model import CLAIM, SUMMARY
from findingaid.query.answers.evidence import best_tier, claim_from_row
from findingaid.query.lookup.absences import find_absences
from findingaid.query.lookup.artifact import read_artifact, why_absent
from findingaid.query.lookup.freshness import source_as_now
from findingaid.query.lookup.passages import (
    CHANGED,
    StoredArtifact,
    missing_reason,
    names_artifact,
    read_claim_rows,
    read_stored_artifacts,
    require_shown,
)
from findingaid.query.lookup.places import HasLocation
from findingaid.query.lookup.references import Neighbour, find_neighbours
from findingaid.query.search.hits import own_text, span_of
from findingaid.query.search.reader import Key, Reader
from findingaid.store import Ledger
from findingaid.store.artifacts import artifact_version
from findingaid.store.sql import any_of, both, equals, one_of
from findingaid.store.tables import select_rows

if TYPE_CHECKING:
    from findingaid.claims.decisions import Decision
    from findingaid.claims.eligible import Eligible

COLUMNS = (
    "record_id", "corpus", "artifact_id", "surface_kind", "surface_index", "text", "shown", "span_start",
    "span_end", "metadata", "artifact_version", "producer_id", "claim_id", "evidence",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Link:
    """One item, and the items it depends on; `broken` says why the item is lost or has changed, "" if it is intact."""

    what: str
    id: str
    said: str = ""
    broken: str = ""
    links: tuple[Link, ...] = ()

    def walk(self) -> Iterator[Link]:
        """Yield this link and all links below it."""
        yield self
        for link in self.links:
            yield from link.walk()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Impact:
    """Everything that depends on a published artifact.

    This covers the number of records by kind, the claims that may be shown, decisions about the artifact or its claims,
    summary nodes, and the artifacts that refer to it. `refers_to` are those it refers to itself.
    """

    corpus: str
    artifact_id: str
    version: str
    records: Mapping[str, int]
    claims: Sequence[Dependant]
    decisions: Sequence[Mapping[str, Any]]
    nodes: Sequence[Dependant]
    refers_to: Sequence[Neighbour]
    referred_by: Sequence[Neighbour]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Dependant:
    """Claim or summary node of an artifact.

    `also` are the other artifacts that state the claim, which therefore outlives this artifact.
    """

    id: str
    text: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Provenance:
    """Provenance as of the decisions at one moment."""

    reader: Reader
    corpora: Mapping[str, Corpus]
    eligible: Eligible
    decisions: Sequence[Decision]
    within: Sequence[str]
    """Corpora that may be searched."""

    places: bool = True
    """Whether to show where sources are on this machine."""

    # -- why -------------------------------------------------------------------------------------------

    def why(self, wanted: str) -> list[Link]:
        """Return the provenance of a claim, summary node, record or artifact. Raises QueryError for an unknown id.

        For an id that several artifacts have, there is one link for each.
        """
        if not names_artifact(self.reader, wanted, self.within):
            if rows := read_claim_rows(self.reader, wanted, self.eligible, self.within):
                return [self._claim(rows[0]["claim_id"], rows)]
            require_shown(wanted, self.eligible, self.decisions, self.within)
        named = both(f"NOT {NEITHER}", equals("claim_id", wanted))  # otherwise "" would match most records
        if rows := self._records(any_of(equals("record_id", wanted), named)):
            return [self._record(row) for row in rows]
        if rows := self._records(equals("artifact_id", wanted)):
            keys = {(row["corpus"], row["artifact_id"]): row["artifact_version"] for row in rows}
            return [self._with_absences(key, version) for key, version in sorted(keys.items())]
        absent = why_absent(self.reader.store, wanted, self.within)
        raise NotFoundError(absent or f"no claim, summary node, record or artifact {wanted!r} is published")

    def _records(self, condition: str) -> list[dict[str, Any]]:
        shown, scope = self._visible_condition(), one_of("corpus", self.within)
        found: list[dict[str, Any]] = self.reader.records.to_table(
            columns=list(COLUMNS), filter=both(condition, shown, scope)
        ).to_pylist()
        return sorted(found, key=lambda row: (row["corpus"], row["artifact_id"], row["surface_index"]))

    def _visible_condition(self) -> str:
        """Return the SQL condition for records that may be shown."""
        nodes = self.eligible.nodes(self.reader.node_members)
        return any_of(NEITHER, self.eligible.claims(tuple(Tier)), nodes)

    def _claim(self, claim_id: str, rows: Sequence[Mapping[str, Any]]) -> Link:
        claims = [claim_from_row(row) for row in rows]
        kept = self._kept(*((claim.corpus, claim.artifact_id) for claim in claims))
        evidence = [self._evidence(claim, kept.get((claim.corpus, claim.artifact_id))) for claim in claims]
        decided = [_decision(d) for d in self.decisions if claim_id in {d.claim_id, d.other_id}]
        tier = best_tier(self.eligible, claims)
        return Link("claim", claim_id, f"{claims[0].text} ({tier})", "", (*evidence, *decided))

    def _kept(self, *keys: Key) -> dict[Key, StoredArtifact]:
        return read_stored_artifacts(self.reader.artifacts, self.corpora, keys)

    def _evidence(self, claim: Claim, kept: StoredArtifact | None) -> Link:
        place = f"{claim.span[0]}:{claim.span[1]}" if claim.span else "no place"
        below = (
            _producer(claim.producer_id),
            self._artifact((claim.corpus, claim.artifact_id), claim.artifact_version),
        )
        return Link("evidence", place, claim.quote, missing_reason(claim, kept), below)

    def _record(self, row: Mapping[str, Any]) -> Link:
        if row["claim_id"]:
            return self._node(row) if row["surface_kind"] == SUMMARY else self._claim(row["claim_id"], [row])
        key = row["corpus"], row["artifact_id"]
        text = own_text(row)
        below = [self._artifact(key, row["artifact_version"])]
        if row["producer_id"]:
            below.insert(0, _producer(row["producer_id"]))
        broken = self._span_broken(row, text, self._kept(key).get(key))
        return Link(row["surface_kind"], row["record_id"], text, broken, tuple(below))

    def _span_broken(self, row: Mapping[str, Any], text: str, kept: StoredArtifact | None) -> str:
        span = span_of(row)
        if span is None or kept is None:
            return ""  # composed text has no span; the artifact's own link reports a missing artifact
        raw, name = kept.artifact.raw, orjson.loads(row["metadata"]).get("field")
        whole = raw[name] if isinstance(raw, Mapping) and isinstance(raw.get(name), str) else kept.text
        if whole is None or whole[slice(*span)] == text:
            return ""
        return CHANGED if kept.version != row["artifact_version"] else "its text is not at its recorded span"

    def _node(self, row: Mapping[str, Any]) -> Link:
        node_id = row["claim_id"]
        nodes = self.reader.beside("summary_nodes")
        found = select_rows(nodes, "node_id", [node_id], ("bullets", "members", "themes")).to_pylist()
        producer = _producer(row["producer_id"])
        if not found:
            return Link("summary node", node_id, row["text"], "it is no longer in the table summary_nodes", (producer,))
        bullets = [(text, tuple(members)) for text, members in orjson.loads(found[0]["bullets"])]
        cited = {claim_id for _, members in bullets for claim_id in members}
        rest = [self._member(row, claim_id) for claim_id in found[0]["members"] if claim_id not in cited]
        below = (producer, *(self._bullet(row, text, members) for text, members in bullets), *rest)
        return Link("summary node", node_id, ", ".join(found[0]["themes"]), "", below)

    def _bullet(self, row: Mapping[str, Any], text: str, members: Sequence[str]) -> Link:
        links = tuple(self._member(row, claim_id) for claim_id in members)
        return Link("bullet", "", text, "" if links else "it cites no claim", links)

    def _member(self, row: Mapping[str, Any], claim_id: str) -> Link:
        rows = read_claim_rows(self.reader, claim_id, self.eligible, [row["corpus"]])
        if rows:
            return self._claim(claim_id, rows)
        return Link("claim", claim_id, "", "the claim does not exist or may not be shown")

    def _with_absences(self, key: Key, version: str) -> Link:
        """Return the link of an artifact, with links for the notes on it, and for what it lacks, with the reasons."""
        link = self._artifact(key, version)
        missing = find_absences(self.reader, self.corpora, key, self.eligible)
        notes = (Link("note", "", str(note)) for note in Ledger(self.reader.store).notes(*key))
        return replace(link, links=(*link.links, *notes, *(Link(f"no {one.what}", "", one.reason) for one in missing)))

    def _artifact(self, key: Key, version: str) -> Link:
        kept = self._kept(key).get(key)
        name = "/".join(key)
        if kept is None:
            return Link("artifact", name, f"version {version}", "it is no longer in the table artifacts")
        broken = "" if kept.version == version else f"it was indexed again since, as version {kept.version}"
        return Link("artifact", name, f"version {version}", broken, (self._source(key, kept),))

    def _source(self, key: Key, kept: StoredArtifact) -> Link:
        corpus = self.corpora.get(key[0])
        if corpus is None:
            return Link("source", key[0], "", "the configuration has no such corpus")
        location = _location(corpus, kept, self.places)
        try:
            now = artifact_version(source_as_now(corpus.source).read(key[1]))
        except Exception as error:  # noqa: BLE001  # a source may raise anything
            said = str(error) if isinstance(error, FindingAidError) else one_line(error)
            return Link("source", location, "", said if self.places else "it cannot be read now")
        return Link("source", location, "", "" if now == kept.version else "its content has changed since")

    # -- impact ----------------------------------------------------------------------------------------

    def impact(self, artifact_id: str, corpora: Sequence[str]) -> Impact:
        """Return everything that depends on a published artifact of these corpora. Raises QueryError."""
        view = read_artifact(self.reader, artifact_id, corpora, self.eligible)
        key = view.corpus, view.artifact_id
        rows = self._records(both(equals("corpus", view.corpus), equals("artifact_id", view.artifact_id)))
        kinds = [row["surface_kind"] for row in rows]
        said = [row for row in rows if row["surface_kind"] == CLAIM]
        ids = {row["claim_id"] for row in said}
        return Impact(
            view.corpus,
            view.artifact_id,
            view.artifact_version,
            {kind: kinds.count(kind) for kind in sorted(set(kinds))},
            self._claims(key, said),
            [d.to_dict() for d in self.decisions if (d.corpus, d.artifact_id) == key or ids & {d.claim_id, d.other_id}],
            [
                Dependant(row["claim_id"], own_text(row))
                for row in rows
                if row["surface_kind"] == SUMMARY and row["claim_id"]
            ],
            find_neighbours(self.reader, view.artifact_id, [view.corpus], self.within),
            find_neighbours(self.reader, view.artifact_id, [view.corpus], self.within, reverse=True),
        )

    def _claims(self, key: Key, rows: Sequence[Mapping[str, Any]]) -> list[Dependant]:
        ids = sorted({row["claim_id"] for row in rows})
        condition = both(equals("corpus", key[0]), equals("surface_kind", CLAIM), one_of("claim_id", ids))
        others = [row for row in self._records(condition) if row["artifact_id"] != key[1]] if ids else []
        return [
            Dependant(
                row["claim_id"],
                own_text(row),
                tuple(sorted({o["artifact_id"] for o in others if o["claim_id"] == row["claim_id"]})),
            )
            for row in rows
        ]


def _producer(producer_id: str) -> Link:
    return Link("producer", producer_id or "the text itself")


def _decision(decision: Decision) -> Link:
    action = f"{decision.action} {decision.undoes}" if decision.undoes else decision.action
    about = f"{action} by {decision.actor}, {decision.at.isoformat(timespec='seconds')}"
    return Link("decision", str(decision.seq), f"{about}: {decision.reason}" if decision.reason else about)


def _location(corpus: Corpus, kept: StoredArtifact, places: bool) -> str:
    """Return where a source has an artifact: its URI, its place on this machine, or its path or id at the source."""
    metadata, artifact_id = kept.artifact.metadata, kept.artifact.artifact_id
    if address := metadata.get("uri"):
        return str(address)
    path = str(metadata.get("path") or artifact_id)
    if places and isinstance(corpus.source, HasLocation):
        return corpus.source.place(path)
    return f"{type(corpus.source).__name__} {path}"
