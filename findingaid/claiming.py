"""Stages CLAIMS and SUMMARY_NODES: what an artifact states, and a summary over what of that is held.

Extractors and producers are asked as synthesizers are, from the same budget and cache, unless they are free. What is
taken of an extraction is decided anew each time: whether its quotes are there, what repeats, what people decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import pyarrow as pa

from findingaid.claims.decisions import claim_of
from findingaid.claims.extraction import Origin, redated, taken, without_repeats
from findingaid.claims.forms import Extracting, Summarizing, draft_of, extraction_of, members_text
from findingaid.claims.model import Claim, Claimed, Decided, Evidence, Noded, SummaryNode
from findingaid.errors import ArtifactError, one_line
from findingaid.identity import content_hash, text_hash, to_json
from findingaid.model import (
    CLAIM,
    SUMMARY,
    ClaimExtractor,
    Claiming,
    Draft,
    Free,
    Member,
    NodeProducer,
    Outcome,
    Shown,
    Stage,
    Surface,
    Synopsis,
    Synthesizer,
    Vectors,
)
from findingaid.spending import Spending
from findingaid.store import Store, schemas
from findingaid.store.sql import equals
from findingaid.synthesizing import Asked, Progress, ask_writer, synopsis_key, written


@dataclass(frozen=True)
class Asking:
    """Who is asked for the claims of a corpus, and from which account."""

    of: Claiming
    corpus: str
    spending: Spending
    decided: Decided
    progress: Progress | None = None

    # -- claims ----------------------------------------------------------------------------------------

    def claims(
        self, shown: Mapping[str, Shown], versions: Mapping[str, str], pay: bool
    ) -> tuple[dict[str, Claimed], Asked]:
        """What becomes of the claims of artifacts, near repeats still among them; see `settled`.

        With `pay` false only what is free or kept is there.
        """
        extractor = self.of.extractor
        writer = extractor if isinstance(extractor, Synthesizer) else Extracting(extractor)
        asked = self._ask(writer, isinstance(extractor, Free), shown, Stage.CLAIMS, pay)
        before = self._before([i for i, made in asked.synopses.items() if not made.outcome.settled])
        return {
            i: self._claimed(
                self._origin(shown[i], versions[i]), made, self._key(extractor, shown[i]), before.get(i, [])
            )
            for i, made in asked.synopses.items()
        }, asked

    def _claimed(self, of: Origin, made: Synopsis, key: str, before: Sequence[Claim]) -> Claimed:
        """The claims of one artifact. Where they could not be had those of before stand in, while their quotes hold."""
        if not made.outcome.settled:
            standing = [claim for known in before if (claim := redated(known, of))]
            return Claimed(made.outcome, self._allowed(of, standing), (), made.kind, made.message)
        try:
            extraction = extraction_of(made.text)
        except ValueError as error:
            why = f"{of.producer_id} gave no statements: {one_line(error)}"
            return Claimed(Outcome.FAILED, self._allowed(of, ()), (), "parse", why)
        found, refused = taken(extraction.statements, of)
        claims = self._allowed(of, found)
        refused = [*(f"{of.artifact_id}: {line}" for line in extraction.refused), *refused]
        return Claimed(Outcome.OK if claims else Outcome.EMPTY, claims, tuple(refused), key=key)

    def _allowed(self, of: Origin, found: Sequence[Claim]) -> tuple[Claim, ...]:
        """What was found and what people say beside it, each once, without what they had removed."""
        once = {claim.claim_id: claim for claim in reversed([*found, *self._proposed(of)])}
        return tuple(claim for i, claim in reversed(once.items()) if i not in self.decided.redacted)

    def _proposed(self, of: Origin) -> Iterator[Claim]:
        """What people say that the artifact states, whether it does or not."""
        for proposal in self.decided.proposals.get(of.artifact_id, ()):
            claims, _ = taken([proposal.statement], replace(of, producer_id=proposal.producer_id), refuses=False)
            yield from (c for c in claims if c.evidence is Evidence.VERIFIED or not proposal.while_quoted)

    def settled(self, claimed: Claimed, vectors: Mapping[str, Vectors]) -> Claimed:
        """The same without near repeats of what the extractor found; `vectors` are by the hashes of texts."""
        if self.of.near is None:
            return claimed
        kept = without_repeats(claimed.claims, self._repeats, lambda c: vectors.get(text_hash(c.text)), self.of.near)
        return replace(claimed, claims=tuple(kept))

    def _repeats(self, claim: Claim) -> bool:
        """Whether a claim may be dropped: never one of which people said something."""
        return claim.producer_id == self.of.extractor.id and claim.claim_id not in self.decided.reviewed

    def _origin(self, shown: Shown, version: str) -> Origin:
        return Origin(self.corpus, shown.artifact_id, version, shown.text, self.of.extractor.id)

    def _before(self, artifact_ids: Sequence[str]) -> dict[str, list[Claim]]:
        """The claims that artifacts have."""
        found: dict[str, list[Claim]] = {}
        for claim in stored_claims(self.spending.store, self.corpus, artifact_ids) if artifact_ids else ():
            found.setdefault(claim.artifact_id, []).append(claim)
        return found

    # -- summary nodes ---------------------------------------------------------------------------------

    def nodes(self, claimed: Mapping[str, Claimed], pay: bool, again: bool = False) -> tuple[dict[str, Noded], Asked]:
        """What becomes of the summary nodes of artifacts whose claims are these; with `pay` false as of `claims`.

        Those whose claims are still to come have to wait. `again` asks for what is kept, too.
        """
        producer = self.of.nodes
        if producer is None:
            return {}, Asked()
        writer = producer if isinstance(producer, Synthesizer) else Summarizing(producer)
        members = {i: self._members(of) for i, of in claimed.items() if of.outcome.settled}
        shown = {i: Shown(i, members_text(held)) for i, held in members.items() if len(held) >= self.of.at_least}
        if again:
            self._forget(producer, shown)
        asked = self._ask(writer, isinstance(producer, Free), shown, Stage.SUMMARY_NODES, pay)
        made = {
            i: self._noded(i, members[i], synopsis, self._key(producer, shown[i]))
            for i, synopsis in asked.synopses.items()
        }
        return made | {i: Noded(Outcome.SKIPPED) for i in members if i not in shown}, asked

    def _members(self, claimed: Claimed) -> list[Member]:
        """The claims that are held, none of which quotes what is not there."""
        return [
            Member(claim.claim_id, claim.text, claim.type, claim.confidence, tuple(claim.entities))
            for claim in claimed.claims
            if claim.claim_id not in self.decided.retracted and claim.evidence is not Evidence.FORGED
        ]

    def _noded(self, artifact_id: str, members: Sequence[Member], made: Synopsis, key: str) -> Noded:
        of = tuple((member.claim_id, member.text) for member in members)
        if not made.outcome.settled:
            return Noded(made.outcome, None, of, (), made.kind, made.message)
        try:
            draft = draft_of(made.text)
            node = self._node(artifact_id, members, draft) if draft else None
        except (ArtifactError, ValueError) as error:
            return Noded(Outcome.FAILED, None, of, (), "parse", one_line(error))
        refused = tuple(f"{artifact_id}: {line}" for line in draft.refused) if draft else ()
        return Noded(Outcome.OK if node else Outcome.EMPTY, node, of, refused, key=key)

    def _node(self, artifact_id: str, members: Sequence[Member], draft: Draft) -> SummaryNode:
        """A draft as a node. Raises ArtifactError for one that cites what it was not shown, or nothing."""
        ids = tuple(member.claim_id for member in members)
        producer = self.of.nodes.id if self.of.nodes else ""
        if not draft.bullets or not all(b.members and set(b.members) <= set(ids) for b in draft.bullets):
            raise ArtifactError(f"{producer} wrote what cites no claim, or one that it was not shown", "parse")
        node_id = content_hash("summary", self.corpus, artifact_id, sorted(ids), producer)
        return SummaryNode(
            node_id, self.corpus, artifact_id, draft.bullets, draft.themes, draft.confidence, ids, producer
        )

    # -- asking ----------------------------------------------------------------------------------------

    def _ask(self, writer: Synthesizer, free: bool, shown: Mapping[str, Shown], stage: Stage, pay: bool) -> Asked:
        said = {i: what for i, what in shown.items() if what.text.strip()}
        blank = dict.fromkeys(shown.keys() - said.keys(), Synopsis(Outcome.EMPTY))
        if free:
            asked = Asked({i: written(writer, what) for i, what in said.items()}, calls=len(said))
        else:
            asked = ask_writer(writer, said, self.spending, self.corpus, stage, pay, self.progress)
        return replace(asked, synopses={**asked.synopses, **blank})

    def _key(self, of: ClaimExtractor | NodeProducer, shown: Shown) -> str:
        return "" if isinstance(of, Free) else synopsis_key(of.id, shown)

    def forget(self, shown: Mapping[str, Shown]) -> None:
        """Have the extractor asked again for these."""
        self._forget(self.of.extractor, shown)

    def _forget(self, of: ClaimExtractor | NodeProducer, shown: Mapping[str, Shown]) -> None:
        keys = [key for what in shown.values() if (key := self._key(of, what))]
        self.spending.store.drop("calls", "key", keys)


def claims_version(claimed: Claimed | None) -> str | None:
    """The version of an artifact's claims: a hash of all of them. None while some are to come and none stands in."""
    if claimed is None or not (claimed.outcome.settled or claimed.claims):
        return None
    return content_hash([asdict(claim) for claim in claimed.claims])


def nodes_version(noded: Noded | None) -> str | None:
    """The version of an artifact's summary node: a hash of it and of its members."""
    if noded is None or not noded.outcome.settled:
        return None
    return content_hash(noded.members, asdict(noded.node) if noded.node else noded.outcome.value)


# -- rows and records --------------------------------------------------------------------------------


def claim_surfaces(claimed: Claimed) -> Iterator[tuple[str, Surface, str]]:
    """(place in the record's id, surface, who wrote its text, "" where that is the artifact's own) of each claim."""
    for claim in claimed.claims:
        about = {
            "claim_id": claim.claim_id,
            "type": claim.type,
            "confidence": claim.confidence,
            "entities": list(claim.entities),
            "evidence": claim.evidence.value,
            "verbatim": claim.verbatim,
            "quote": claim.quote,
        }
        producer = "" if claim.verbatim else claim.producer_id
        yield claim.claim_id, Surface(CLAIM, claim.text, CLAIM, about, claim.span), producer


def node_surfaces(noded: Noded | None) -> Iterator[tuple[str, Surface, str]]:
    """As above, of a summary node, if there is one."""
    if noded is None or noded.node is None:
        return
    node = noded.node
    about = {
        "node_id": node.node_id,
        "bullets": [[bullet.text, list(bullet.members)] for bullet in node.bullets],
        "members": list(node.members),
        "themes": list(node.themes),
        "confidence": node.confidence,
    }
    text = "\n".join(bullet.text for bullet in node.bullets)
    yield node.node_id, Surface(SUMMARY, text, SUMMARY, about), node.producer_id


def claim_rows(claimed: Mapping[str, Claimed], artifact_ids: Sequence[str]) -> pa.Table:
    """Rows of the claims table."""
    placed = [(place, c) for i in artifact_ids if i in claimed for place, c in enumerate(claimed[i].claims)]
    rows = [
        asdict(claim)
        | {
            "position": place,
            "entities": list(claim.entities),
            "evidence": claim.evidence.value,
            "span_start": claim.span and claim.span[0],
            "span_end": claim.span and claim.span[1],
        }
        for place, claim in placed
    ]
    return pa.Table.from_pylist(rows, schema=schemas.CLAIMS)


def node_rows(noded: Mapping[str, Noded], artifact_ids: Sequence[str]) -> pa.Table:
    """Rows of the table of summary nodes."""
    nodes = [noded[i].node for i in artifact_ids if i in noded]
    rows = [
        asdict(node)
        | {
            "bullets": to_json([[bullet.text, bullet.members] for bullet in node.bullets]),
            "themes": list(node.themes),
            "members": list(node.members),
        }
        for node in nodes
        if node
    ]
    return pa.Table.from_pylist(rows, schema=schemas.SUMMARY_NODES)


def stored_claims(store: Store, corpus: str, artifact_ids: Sequence[str]) -> list[Claim]:
    """The claims that the table has of some artifacts, in their order."""
    columns = [name for name in schemas.CLAIMS.names if name != "corpus"]
    found = store.lookup("claims", "artifact_id", artifact_ids, columns, equals("corpus", corpus)).to_pylist()
    return [claim_of(row | {"corpus": corpus}) for row in sorted(found, key=lambda row: row["position"])]


def changed_by_decisions(
    store: Store, corpus: str, decided: Decided, nodes: bool, known: Mapping[str, str]
) -> set[str]:
    """The artifacts whose claims, or summary nodes, people decided of since they were built.

    `known` are artifact id -> what of decisions it was built from, by the ledger.
    """
    against = sorted(decided.redacted | decided.retracted if nodes else decided.redacted)
    held: dict[str, list[str]] = {}
    rows = store.lookup("claims", "claim_id", against, ("artifact_id", "claim_id"), equals("corpus", corpus))
    for artifact_id, claim_id in zip(rows["artifact_id"].to_pylist(), rows["claim_id"].to_pylist(), strict=True):
        held.setdefault(artifact_id, []).append(claim_id)
    return {i for i, built in known.items() if decided.touching(i, held.get(i, ()), nodes) != built}
