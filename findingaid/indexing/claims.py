"""Stages CLAIMS and SUMMARY_NODES: extract claims from artifacts, and summarize the claims that hold.

Claim extractors and node producers are called like synthesizers, with the same budget and cache, unless they are free.
The selection from an extraction is made anew each time: whether the quotes are in the text, which claims are
duplicates, and which decisions people took.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from findingaid.claims.decisions import claim_of
from findingaid.claims.extraction import (
    ClaimOrigin,
    carry_claim_over,
    claims_from,
    why_no_claims,
    without_repeats,
)
from findingaid.claims.forms import draft_calls, draft_of, extraction_calls, extraction_of, members_text
from findingaid.claims.model import Claim, ClaimsResult, Decided, Evidence, NodeResult, SummaryNode
from findingaid.claims.nodes import why_unfit
from findingaid.corpus import Claiming
from findingaid.errors import ArtifactError, one_line
from findingaid.identity.hashes import content_hash, text_hash
from findingaid.indexing.calls import CachedCalls, CallContext, CallResults, call_synthesizer, synopsis_key
from findingaid.model import CLAIM, SUMMARY, Outcome, Surface, Synopsis, SynthesizerInput, Vectors
from findingaid.protocols import ClaimExtractor, CostsNothing, Draft, Member, NodeProducer, Synthesizer
from findingaid.store import Store, schemas
from findingaid.store.sql import equals


@dataclass(frozen=True)
class ClaimBuilder:
    """Builder of the claims and summary nodes of one corpus."""

    of: Claiming
    corpus: str
    store: Store
    decided: Decided

    # -- claims ----------------------------------------------------------------------------------------

    def claims(
        self, shown: Mapping[str, SynthesizerInput], versions: Mapping[str, str], context: CallContext
    ) -> tuple[dict[str, ClaimsResult], CallResults]:
        """Extract the claims of artifacts, with near-duplicates still among them; see `drop_repeats`."""
        extractor = self.of.extractor
        asked = _call(extraction_calls(extractor), isinstance(extractor, CostsNothing), shown, context)
        before = self._before([i for i, made in asked.synopses.items() if not made.outcome.settled])
        return {
            i: self._claimed(self._origin(shown[i], versions[i]), made, shown[i], before.get(i, []))
            for i, made in asked.synopses.items()
        }, asked

    def _claimed(
        self, of: ClaimOrigin, made: Synopsis, shown: SynthesizerInput, before: Sequence[Claim]
    ) -> ClaimsResult:
        """Return the claims of one artifact.

        If the extraction failed or is pending, previous claims are kept as long as their quotes are still in the text.
        """
        if not made.outcome.settled:
            standing = [claim for known in before if (claim := carry_claim_over(known, of))]
            return ClaimsResult(made.outcome, self._allowed(of, standing), (), made.kind, made.message)
        try:
            extraction = extraction_of(made.text)
        except ValueError as error:
            why = f"{of.producer_id} returned no statements: {one_line(error)}"
            return ClaimsResult(Outcome.FAILED, self._allowed(of, ()), (), "parse", why)
        found, refused = claims_from(extraction.statements, of, min_confidence=self.of.min_confidence)
        claims = self._allowed(of, found)
        refused = [*(f"{of.artifact_id}: {line}" for line in extraction.refused), *refused]
        key = _key(self.of.extractor, shown)
        if claims:
            return ClaimsResult(Outcome.OK, claims, tuple(refused), key=key)
        absence = "all refused" if refused else why_no_claims(self.of.extractor, shown.text, shown.metadata)
        return ClaimsResult(Outcome.EMPTY, (), tuple(refused), key=key, absence=absence)

    def _allowed(self, of: ClaimOrigin, found: Sequence[Claim]) -> tuple[Claim, ...]:
        """Return extracted and proposed claims, each once, without redacted ones."""
        once = {claim.claim_id: claim for claim in reversed([*found, *self._proposed(of)])}
        return tuple(claim for i, claim in reversed(once.items()) if i not in self.decided.redacted)

    def _proposed(self, of: ClaimOrigin) -> Iterator[Claim]:
        """Yield the claims that decisions add to the artifact, whether or not its text states them.

        A proposal marked `while_quoted` counts only if its quote is in the text.
        """
        for proposal in self.decided.proposals.get(of.artifact_id, ()):
            claims, _ = claims_from([proposal.statement], replace(of, producer_id=proposal.producer_id), refuses=False)
            yield from (c for c in claims if c.evidence is Evidence.VERIFIED or not proposal.while_quoted)

    def drop_repeats(self, claimed: ClaimsResult, vectors: Mapping[str, Vectors]) -> ClaimsResult:
        """Return the claims without near-duplicates among those that the extractor found.

        `vectors` maps hashes of texts to vectors.
        """
        if self.of.near is None:
            return claimed
        kept = without_repeats(claimed.claims, self._repeats, lambda c: vectors.get(text_hash(c.text)), self.of.near)
        return replace(claimed, claims=tuple(kept))

    def _repeats(self, claim: Claim) -> bool:
        """Return whether a claim may be dropped as a duplicate: never one that has a decision."""
        return claim.producer_id == self.of.extractor.id and claim.claim_id not in self.decided.reviewed

    def _origin(self, shown: SynthesizerInput, version: str) -> ClaimOrigin:
        return ClaimOrigin(self.corpus, shown.artifact_id, version, shown.text, self.of.extractor.id)

    def _before(self, artifact_ids: Sequence[str]) -> dict[str, list[Claim]]:
        """Return the stored claims by artifact id."""
        found: dict[str, list[Claim]] = {}
        for claim in load_claims(self.store, self.corpus, artifact_ids) if artifact_ids else ():
            found.setdefault(claim.artifact_id, []).append(claim)
        return found

    # -- summary nodes ---------------------------------------------------------------------------------

    def nodes(
        self, claimed: Mapping[str, ClaimsResult], context: CallContext
    ) -> tuple[dict[str, NodeResult], CallResults]:
        """Produce summary nodes for artifacts with these claims, as far as the claims are settled."""
        producer = self.of.nodes
        if producer is None:
            return {}, CallResults()
        members = {i: self._members(of) for i, of in claimed.items() if of.outcome.settled}
        shown = {
            i: SynthesizerInput(i, members_text(held)) for i, held in members.items() if len(held) >= self.of.at_least
        }
        asked = _call(draft_calls(producer), isinstance(producer, CostsNothing), shown, context)
        made = {
            i: self._noded(i, members[i], synopsis, _key(producer, shown[i])) for i, synopsis in asked.synopses.items()
        }
        return made | {i: NodeResult(Outcome.SKIPPED) for i in members if i not in shown}, asked

    def _members(self, claimed: ClaimsResult) -> list[Member]:
        """Return the claims that count for a summary: neither retracted nor with a forged quote."""
        return [
            Member(claim.claim_id, claim.text, claim.type, claim.confidence, tuple(claim.entities))
            for claim in claimed.claims
            if claim.claim_id not in self.decided.retracted and claim.evidence is not Evidence.FORGED
        ]

    def _noded(self, artifact_id: str, members: Sequence[Member], made: Synopsis, key: str) -> NodeResult:
        of = tuple((member.claim_id, member.text) for member in members)
        if not made.outcome.settled:
            return NodeResult(made.outcome, None, of, (), made.kind, made.message)
        try:
            draft = draft_of(made.text)
            node = self._node(artifact_id, members, draft) if draft else None
        except (ArtifactError, ValueError) as error:
            return NodeResult(Outcome.FAILED, None, of, (), "parse", one_line(error))
        refused = tuple(f"{artifact_id}: {line}" for line in draft.refused) if draft else ()
        if draft and (why := why_unfit(draft, len(members), self.of.min_node_confidence)):
            return NodeResult(Outcome.EMPTY, None, of, (*refused, f"{artifact_id}: its summary {why}"), key=key)
        return NodeResult(Outcome.OK if node else Outcome.EMPTY, node, of, refused, key=key)

    def _node(self, artifact_id: str, members: Sequence[Member], draft: Draft) -> SummaryNode:
        """Convert a draft to a node.

        Raises ArtifactError if a bullet cites no claim, or one that the producer was not shown.
        """
        ids = tuple(member.claim_id for member in members)
        producer = self.of.nodes.id if self.of.nodes else ""
        if not draft.bullets or not all(b.members and set(b.members) <= set(ids) for b in draft.bullets):
            raise ArtifactError(
                f"{producer} wrote a point that cites no claim, or a claim that it was not given", "parse"
            )
        node_id = content_hash("summary", self.corpus, artifact_id, sorted(ids), producer)
        return SummaryNode(
            node_id, self.corpus, artifact_id, draft.bullets, draft.themes, draft.confidence, ids, producer
        )


def _call(writer: Synthesizer, free: bool, shown: Mapping[str, SynthesizerInput], context: CallContext) -> CallResults:
    said = {i: what for i, what in shown.items() if what.text.strip()}
    blank = dict.fromkeys(shown.keys() - said.keys(), Synopsis(Outcome.EMPTY))
    if free:
        asked = CallResults({i: call_synthesizer(writer, what) for i, what in said.items()}, calls=len(said))
    else:
        asked = CachedCalls(writer, context).results(said)
    return replace(asked, synopses={**asked.synopses, **blank})


def _key(of: ClaimExtractor | NodeProducer, shown: SynthesizerInput) -> str:
    return "" if isinstance(of, CostsNothing) else synopsis_key(of.id, shown)


def claims_version(claimed: ClaimsResult | None) -> str | None:
    """Return the version of an artifact's claims: a hash of all of them.

    None if the claims are not settled and no previous ones were kept.
    """
    if claimed is None or not (claimed.outcome.settled or claimed.claims):
        return None
    return content_hash([asdict(claim) for claim in claimed.claims])


def nodes_version(noded: NodeResult | None) -> str | None:
    """Return the version of an artifact's summary node: a hash of the node and its members.

    None if the node is not settled.
    """
    if noded is None or not noded.outcome.settled:
        return None
    return content_hash(noded.members, asdict(noded.node) if noded.node else noded.outcome.value)


# -- rows and records --------------------------------------------------------------------------------


def claim_surfaces(claimed: ClaimsResult) -> Iterator[tuple[str, Surface, str]]:
    """Yield (place in the record's id, surface, producer of its text) of each claim.

    The producer is "" if the text is the artifact's own.
    """
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


def node_surfaces(noded: NodeResult | None) -> Iterator[tuple[str, Surface, str]]:
    """Yield the same for a summary node, if there is one."""
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


def load_claims(store: Store, corpus: str, artifact_ids: Sequence[str]) -> list[Claim]:
    """Return the stored claims of these artifacts, ordered by position."""
    columns = [name for name in schemas.CLAIMS.names if name != "corpus"]
    found = store.lookup("claims", "artifact_id", artifact_ids, columns, equals("corpus", corpus)).to_pylist()
    return [claim_of(row | {"corpus": corpus}) for row in sorted(found, key=lambda row: row["position"])]


def find_changed_by_decisions(
    store: Store, corpus: str, decided: Decided, nodes: bool, known: Mapping[str, str]
) -> set[str]:
    """Return the artifacts whose claims or summary nodes have new decisions since they were built.

    `known` maps artifact id -> the hash, by the ledger, of the decisions that it was built from. `nodes` tells whether
    the corpus has summary nodes.
    """
    against = sorted(decided.redacted | decided.retracted if nodes else decided.redacted)
    held: dict[str, list[str]] = {}
    rows = store.lookup("claims", "claim_id", against, ("artifact_id", "claim_id"), equals("corpus", corpus))
    for artifact_id, claim_id in zip(rows["artifact_id"].to_pylist(), rows["claim_id"].to_pylist(), strict=True):
        held.setdefault(artifact_id, []).append(claim_id)
    return {i for i, built in known.items() if decided.touching(i, held.get(i, ()), nodes) != built}
