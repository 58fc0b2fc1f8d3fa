"""Where something comes from, link by link down to its source; and what stands on an artifact, the other way.

Every link was looked at: what it leads to is there and says what it is said to, or the link is `broken`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import orjson

from findingaid.claims.eligible import NEITHER
from findingaid.claims.model import Claim, Tier
from findingaid.errors import FindingAidError, NotFoundError
from findingaid.model import CLAIM, SUMMARY, Corpus
from findingaid.query.edges import Neighbour, neighbours
from findingaid.query.hits import own_text, span_of
from findingaid.query.offers import best_tier, claim_of
from findingaid.query.passages import CHANGED, Kept, Key, kept_of, missing, require_shown, rows_of
from findingaid.query.reader import members_of
from findingaid.query.show import show
from findingaid.stages import artifact_version
from findingaid.store import Store
from findingaid.store.sql import any_of, both, equals, one_of

if TYPE_CHECKING:
    from findingaid.claims.decisions import Decision
    from findingaid.claims.eligible import Eligible

COLUMNS = (
    "record_id", "corpus", "artifact_id", "surface_kind", "surface_index", "text", "text_start", "span_start",
    "span_end", "metadata", "artifact_version", "producer_id", "claim_id", "evidence",
)  # fmt: skip


@runtime_checkable
class _Placing(Protocol):
    def place(self, path: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Link:
    """One thing, and what it stands on; `broken` says why it leads nowhere, "" where it does not."""

    what: str
    id: str
    said: str = ""
    broken: str = ""
    links: tuple[Link, ...] = ()

    def walk(self) -> Iterator[Link]:
        """This link, and all below it."""
        yield self
        for link in self.links:
            yield from link.walk()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Impact:
    """What stands on an artifact: records by kind, claims that may be shown, what was decided of those, summary nodes,
    and the artifacts that refer to it. `also` are other artifacts that say a claim, which so outlives this one."""

    corpus: str
    artifact_id: str
    version: str
    records: Mapping[str, int]
    claims: Sequence[StandingOn]
    decisions: Sequence[Mapping[str, Any]]
    nodes: Sequence[StandingOn]
    refers_to: Sequence[Neighbour]
    referred_by: Sequence[Neighbour]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StandingOn:
    """A claim or a summary node of an artifact."""

    id: str
    text: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Provenance:
    """Follows links as of one moment's decisions."""

    store: Store
    corpora: Mapping[str, Corpus]
    eligible: Eligible
    decisions: Sequence[Decision]
    within: Sequence[str]
    """The corpora that may be looked into."""

    places: bool = True
    """Whether it is told where sources are on this machine."""

    # -- why -------------------------------------------------------------------------------------------

    def why(self, wanted: str) -> list[Link]:
        """Where a claim, a summary node, a record or an artifact comes from. Raises QueryError for an unknown id.

        An id that several artifacts have gives a link each.
        """
        if rows := self.store.retried(lambda: rows_of(self.store, wanted, self.eligible, self.within)):
            return [self._claim(rows[0]["claim_id"], rows)]
        require_shown(wanted, self.eligible, self.decisions, self.within)
        named = both(f"NOT {NEITHER}", equals("claim_id", wanted))  # else "" is what most records have there
        if rows := self._records(any_of(equals("record_id", wanted), named)):
            return [self._record(row) for row in rows]
        if rows := self._records(equals("artifact_id", wanted)):
            keys = {(row["corpus"], row["artifact_id"]): row["artifact_version"] for row in rows}
            return [self._artifact(key, version) for key, version in sorted(keys.items())]
        raise NotFoundError(f"no claim, summary node, record or artifact {wanted!r} is published")

    def _records(self, condition: str) -> list[dict[str, Any]]:
        shown, scope = self._shown(), one_of("corpus", self.within)

        def read() -> list[dict[str, Any]]:
            records = self.store.published()
            found: list[dict[str, Any]] = records.to_table(
                columns=list(COLUMNS), filter=both(condition, shown, scope)
            ).to_pylist()
            return sorted(found, key=lambda row: (row["corpus"], row["artifact_id"], row["surface_index"]))

        return self.store.retried(read)

    def _shown(self) -> str:
        """The condition of what may be shown."""
        members = self.store.retried(lambda: members_of(self.store.published()))
        return any_of(NEITHER, self.eligible.claims(tuple(Tier)), self.eligible.nodes(members))

    def _claim(self, claim_id: str, rows: Sequence[Mapping[str, Any]]) -> Link:
        claims = [claim_of(row) for row in rows]
        kept = kept_of(self.store, self.corpora, [(claim.corpus, claim.artifact_id) for claim in claims])
        evidence = [self._evidence(claim, kept.get((claim.corpus, claim.artifact_id))) for claim in claims]
        decided = [_decision(d) for d in self.decisions if claim_id in {d.claim_id, d.other_id}]
        tier = best_tier(self.eligible, claims)
        return Link("claim", claim_id, f"{claims[0].text} ({tier})", "", (*evidence, *decided))

    def _evidence(self, claim: Claim, kept: Kept | None) -> Link:
        place = f"{claim.span[0]}:{claim.span[1]}" if claim.span else "no place"
        below = (
            _producer(claim.producer_id),
            self._artifact((claim.corpus, claim.artifact_id), claim.artifact_version),
        )
        return Link("evidence", place, claim.quote, missing(claim, kept), below)

    def _record(self, row: Mapping[str, Any]) -> Link:
        if row["claim_id"]:
            return self._node(row) if row["surface_kind"] == SUMMARY else self._claim(row["claim_id"], [row])
        key = row["corpus"], row["artifact_id"]
        text = own_text(row)
        below = [self._artifact(key, row["artifact_version"])]
        if row["producer_id"]:
            below.insert(0, _producer(row["producer_id"]))
        broken = self._span_broken(row, text, kept_of(self.store, self.corpora, [key]).get(key))
        return Link(row["surface_kind"], row["record_id"], text, broken, tuple(below))

    def _span_broken(self, row: Mapping[str, Any], text: str, kept: Kept | None) -> str:
        span = span_of(row)
        if span is None or kept is None:
            return ""  # composed; a missing artifact is named by its own link
        raw, name = kept.artifact.raw, orjson.loads(row["metadata"]).get("field")
        whole = raw[name] if isinstance(raw, Mapping) and isinstance(raw.get(name), str) else kept.text
        if whole is None or whole[slice(*span)] == text:
            return ""
        return CHANGED if kept.version != row["artifact_version"] else "its text is not where it is said to be"

    def _node(self, row: Mapping[str, Any]) -> Link:
        node_id = row["claim_id"]
        found = self.store.lookup("summary_nodes", "node_id", [node_id], ("bullets", "members", "themes")).to_pylist()
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
        rows = rows_of(self.store, claim_id, self.eligible, [row["corpus"]])
        if rows:
            return self._claim(claim_id, rows)
        return Link("claim", claim_id, "", "no such claim may be shown")

    def _artifact(self, key: Key, version: str) -> Link:
        kept = kept_of(self.store, self.corpora, [key]).get(key)
        name = "/".join(key)
        if kept is None:
            return Link("artifact", name, f"version {version}", "it is no longer in the table artifacts")
        broken = "" if kept.version == version else f"it was indexed again since, as version {kept.version}"
        return Link("artifact", name, f"version {version}", broken, (self._source(key, kept),))

    def _source(self, key: Key, kept: Kept) -> Link:
        corpus = self.corpora.get(key[0])
        if corpus is None:
            return Link("source", key[0], "", "the configuration has no such corpus")
        location = _location(corpus, kept, self.places)
        try:
            now = artifact_version(corpus.source.read(key[1]))
        except FindingAidError as error:
            return Link("source", location, "", str(error) if self.places else "it cannot be read now")
        return Link("source", location, "", "" if now == kept.version else "it says something else now")

    # -- impact ----------------------------------------------------------------------------------------

    def impact(self, artifact_id: str, corpus: str | None = None) -> Impact:
        """What stands on an artifact that is published. Raises QueryError."""
        view = show(self.store, artifact_id, [corpus] if corpus else self.within, self.eligible)
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
            [_node_on(row) for row in rows if row["surface_kind"] == SUMMARY and row["claim_id"]],
            neighbours(self.store, view.artifact_id, [view.corpus], self.within),
            neighbours(self.store, view.artifact_id, [view.corpus], self.within, reverse=True),
        )

    def _claims(self, key: Key, rows: Sequence[Mapping[str, Any]]) -> list[StandingOn]:
        ids = sorted({row["claim_id"] for row in rows})
        condition = both(equals("corpus", key[0]), equals("surface_kind", CLAIM), one_of("claim_id", ids))
        others = [row for row in self._records(condition) if row["artifact_id"] != key[1]] if ids else []
        return [
            StandingOn(
                row["claim_id"],
                own_text(row),
                tuple(sorted({o["artifact_id"] for o in others if o["claim_id"] == row["claim_id"]})),
            )
            for row in rows
        ]


def _node_on(row: Mapping[str, Any]) -> StandingOn:
    return StandingOn(row["claim_id"], own_text(row))


def _producer(producer_id: str) -> Link:
    return Link("producer", producer_id or "the text itself")


def _decision(decision: Decision) -> Link:
    about = f"{decision.action} by {decision.actor}, {decision.at.isoformat(timespec='seconds')}"
    return Link("decision", str(decision.seq), f"{about}: {decision.reason}" if decision.reason else about)


def _location(corpus: Corpus, kept: Kept, places: bool) -> str:
    """Where a source has an artifact: the address it gives, its place below a root, or its id there."""
    metadata, artifact_id = kept.artifact.metadata, kept.artifact.artifact_id
    if address := metadata.get("uri"):
        return str(address)
    path = str(metadata.get("path") or artifact_id)
    if places and isinstance(corpus.source, _Placing):
        return corpus.source.place(path)
    return f"{type(corpus.source).__name__} {path}"
