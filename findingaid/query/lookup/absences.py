"""Absences explained: why an artifact has no claims, no summary node, no synopsis or no references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from findingaid.claims.extraction import HINTS, ClaimOrigin, claims_from, why_no_claims
from findingaid.claims.forms import draft_of, extraction_of
from findingaid.claims.model import Evidence
from findingaid.claims.nodes import why_unfit
from findingaid.corpus import Claiming, Corpus
from findingaid.errors import brief
from findingaid.model import WRITTEN, Outcome, Stage
from findingaid.protocols import CostsNothing, ExplainingExtractor, LeftOut, Member
from findingaid.query.lookup.passages import StoredArtifact, read_stored_artifacts
from findingaid.reports import Unclaimed
from findingaid.store import Ledger, LedgerRow, Store
from findingaid.store.artifacts import stored
from findingaid.store.sql import both, equals
from findingaid.strategies.with_synopsis import split_synopsis

if TYPE_CHECKING:
    from findingaid.claims.eligible import Eligible
    from findingaid.query.search.reader import Key, Reader

NAMED = 3
"""Number of sentences that were not taken, or were refused, which a reason quotes."""

ALL_REFUSED = "all refused"
"""Reason of an artifact in which claims were found, none of them accepted."""

READ = 1_000
"""Maximum number of artifacts without claims that are read to say why."""


@dataclass(frozen=True, slots=True)
class Absence:
    """Thing that an artifact does not have, and the reason."""

    what: str
    reason: str


@dataclass(frozen=True)
class _Case:
    """Artifact as the ledger and the store have it."""

    reader: Reader
    corpus: Corpus
    row: LedgerRow
    kept: StoredArtifact | None
    eligible: Eligible

    def why_no(self, stage: Stage, none: str) -> str:
        """Return the reason by the outcome of a stage: failed, left to the next run, not run yet, or `none`."""
        outcome = self.row.outcome(stage)
        if outcome == Outcome.FAILED:
            return f"it failed: {self.row.failed_message}"
        if outcome == Outcome.PENDING:
            return (
                f"left to the next run: {self.row.failed_message}"
                if self.row.failed_message
                else "left to the next run"
            )
        return none if outcome else "not made yet: run `findingaid index`"

    def cached(self, key: str) -> str:
        """Return the cached answer of a model; "" if it is not in the cache."""
        found: list[str] = self.reader.store.lookup("calls", "key", [key], ["text"])["text"].to_pylist()
        return found[0] if found else ""


def find_absences(reader: Reader, corpora: Mapping[str, Corpus], key: Key, eligible: Eligible) -> list[Absence]:
    """Return what an indexed artifact does not have although its corpus is configured for it, with the reasons."""
    corpus, row = corpora.get(key[0]), Ledger(reader.store).rows(key[0], [key[1]]).get(key[1])
    if corpus is None or row is None:
        return []
    kept = read_stored_artifacts(reader.artifacts, corpora, [key]).get(key)
    case = _Case(reader, corpus, row, kept, eligible)
    if kept and kept.version != row.artifacts:  # the ledger tells of a version that is not published
        return [*_newest(case)]
    return [*_newest(case), *_claims(case), *_summary_node(case), *_synopsis(case), *_references(case)]


def explain_missing_node(
    reader: Reader, corpora: Mapping[str, Corpus], wanted: str, within: Sequence[str], eligible: Eligible
) -> str:
    """Return why an indexed artifact of these corpora has no summary node; "" if none is called `wanted`."""
    for name in within:
        if wanted not in Ledger(reader.store).rows(name, [wanted]):
            continue
        claiming = corpora[name].claims
        if claiming is None or claiming.nodes is None:
            key = "claims" if claiming is None else "summary_nodes"
            return f"{name}/{wanted} has no summary node: set corpora.{name}.{key} and run `findingaid index`"
        found = {absence.what: absence.reason for absence in find_absences(reader, corpora, (name, wanted), eligible)}
        if reason := found.get("summary node"):
            return f"{name}/{wanted} has no summary node: {reason}"
        if reason := found.get("claims"):
            return f"{name}/{wanted} has no summary node, because it has no claims: {reason}"
        return f"{name}/{wanted} has no summary node now: it cites a retracted claim, and the next run writes another"
    return ""


def _newest(case: _Case) -> Iterator[Absence]:
    if case.row.failure and case.row.failed_stage not in WRITTEN:
        yield Absence("newest version", f"failed: {case.row.failure}")


def _claims(case: _Case) -> Iterator[Absence]:
    claiming, row = case.corpus.claims, case.row
    if claiming is None:
        return
    if not row.n_claims:
        none = f"{_why_none(case)}{_not_taken(case)}"
        yield Absence("claims", case.why_no(Stage.CLAIMS, none))
    elif not _members(case):
        yield Absence("claims", f"{_number(row.n_claims, 'claim')}, none of them in use")


def _summary_node(case: _Case) -> Iterator[Absence]:
    claiming, row = case.corpus.claims, case.row
    if claiming is None or claiming.nodes is None or not row.n_claims:
        return
    members = _members(case)
    if (counted := len(members)) < claiming.at_least:
        retracted = f", {row.n_claims - counted} not in use" if counted < row.n_claims else ""
        enough = f"{_number(row.n_claims, 'claim')}{retracted}, {claiming.at_least} needed"
        yield Absence("summary node", f"{enough}{_not_taken(case)}")
    elif not row.n_summary_nodes:
        yield Absence("summary node", case.why_no(Stage.SUMMARY_NODES, _why_no_node(case, claiming, members)))


def _why_no_node(case: _Case, claiming: Claiming, members: Sequence[Member]) -> str:
    """Return why the producer's summary of these claims is not there; a free producer writes it again."""
    producer, empty = claiming.nodes, case.row.outcome(Stage.SUMMARY_NODES) == Outcome.EMPTY
    again = producer.summarize if producer and empty and isinstance(producer, CostsNothing) else None
    draft = again(members) if again else draft_of(case.cached(case.row.summary_nodes_key))
    if draft is None:
        return "its producer had nothing to say"
    return f"its summary {why_unfit(draft, len(members), claiming.min_node_confidence) or 'was refused'}"


def _synopsis(case: _Case) -> Iterator[Absence]:
    synopses = split_synopsis(case.corpus.strategy)[1]
    if synopses is None or case.row.n_synopses:
        return
    none = "its synthesizer had nothing to say"
    if case.row.outcome(Stage.SYNOPSES) == Outcome.SKIPPED:
        none = "`when` of the corpus's synopsis leaves it out"
    yield Absence("synopsis", case.why_no(Stage.SYNOPSES, none))


def _references(case: _Case) -> Iterator[Absence]:
    if case.corpus.edges is not None and not case.row.n_edges:
        yield Absence("references", "it names no other artifact, by a link or by a field")


def _why_none(case: _Case) -> str:
    claiming = case.corpus.claims
    if claiming is None or case.kept is None or case.kept.text is None:
        return "it has no text"
    if not case.row.refused:
        return why_no_claims(claiming.extractor, case.kept.text, _hints(case.kept))
    refused = _refused(case, claiming, case.kept.text, _hints(case.kept))[:NAMED]
    return ": ".join(filter(None, (ALL_REFUSED, ", ".join(refused))))


def _refused(case: _Case, claiming: Claiming, text: str, hints: Mapping[str, Any]) -> list[str]:
    """Return the statements that were refused, with the reasons; a free extractor extracts them again."""
    extractor, row = claiming.extractor, case.row
    free = isinstance(extractor, CostsNothing)
    extraction = extractor.extract(text, hints) if free else extraction_of(case.cached(row.claims_key))
    of = ClaimOrigin(row.corpus, row.artifact_id, row.artifacts or "", text, extractor.id)
    refused = claims_from(extraction.statements, of, min_confidence=claiming.min_confidence)[1]
    return [*extraction.refused, *(line.removeprefix(f"{row.artifact_id}: ") for line in refused)]


def _not_taken(case: _Case) -> str:
    """Return the first sentences that the extractor did not take, with the reasons, and how many there are more."""
    left = [one for one in _left_out(case) if one.text]
    if not left:
        return ""
    more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
    return "; not taken: " + ", ".join(f"{brief(one.text)} ({one.reason})" for one in left[:NAMED]) + more


def _left_out(case: _Case) -> Sequence[LeftOut]:
    extractor = case.corpus.claims and case.corpus.claims.extractor
    if case.kept is None or case.kept.text is None or not isinstance(extractor, ExplainingExtractor):
        return ()
    return extractor.left_out(case.kept.text, _hints(case.kept))


def _hints(kept: StoredArtifact) -> Mapping[str, Any]:
    return {name: kept.artifact.metadata[name] for name in HINTS if kept.artifact.metadata.get(name)}


def _members(case: _Case) -> list[Member]:
    """Return the claims of an artifact that count for a summary: those with evidence that are not retracted."""
    of = both(equals("corpus", case.row.corpus), equals("artifact_id", case.row.artifact_id))
    columns = [field.name for field in fields(Member)]
    rows = case.reader.beside("claims").to_table(columns=[*columns, "evidence", "position"], filter=of).to_pylist()
    counted = [r for r in rows if r["claim_id"] not in case.eligible.retracted and r["evidence"] != Evidence.FORGED]
    return [Member(*(r[name] for name in columns)) for r in sorted(counted, key=lambda r: r["position"])]


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def count_unclaimed(store: Store, corpora: Mapping[str, Corpus], within: Sequence[str]) -> dict[str, Unclaimed]:
    """Return, by corpus, the artifacts in which no claim was found, counted by the reason."""
    found: dict[str, Unclaimed] = {}
    for name in within:
        claiming = corpora[name].claims
        if claiming is None or not store.exists():
            continue
        without = both(equals("corpus", name), equals("claims_outcome", Outcome.EMPTY))
        empty = store.rows("ledger", ["artifact_id", "refused"], without).to_pylist()
        refused = {row["artifact_id"] for row in empty if row["refused"]}
        ids = sorted(row["artifact_id"] for row in empty)
        kept = read_stored_artifacts(partial(stored, store), {name: corpora[name]}, [(name, i) for i in ids[:READ]])
        reasons = {
            i: ALL_REFUSED if i in refused else why_no_claims(claiming.extractor, one.text or "", _hints(one))
            for (_, i), one in sorted(kept.items())
        }
        found[name] = Unclaimed.of(reasons) + Unclaimed.of(dict.fromkeys(ids[READ:], "not looked at here"))
    return found
