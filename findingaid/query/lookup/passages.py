"""Passages of a claim: the text of each artifact that states it, with the quote."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from findingaid.claims.model import Circulation, Claim, ClaimStatus, Evidence, Tier
from findingaid.corpus import Corpus
from findingaid.errors import DecomposeError, NotFoundError, QueryError
from findingaid.model import Artifact, Fresh
from findingaid.query.answers.evidence import best_tier, claim_from_row, read_claim_records
from findingaid.query.lookup.artifact import read_titles
from findingaid.query.search.reader import Key, Reader
from findingaid.store.sql import both, one_of, quoted
from findingaid.strategies.with_synopsis import quoted_text

if TYPE_CHECKING:
    from findingaid.claims.decisions import Decision
    from findingaid.claims.eligible import Eligible

CLAIM_ID_CHARS = 32

ID = re.compile(rf"[0-9a-f]{{6,{CLAIM_ID_CHARS}}}")
"""Claim id, possibly abbreviated."""

AROUND = 300
"""Maximum characters of a passage on either side of the quote."""

CHANGED = "the artifact has changed since, and its text is no longer there: run `findingaid index`"


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """Artifact as published, and its text if its strategy has one."""

    artifact: Artifact
    version: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Passage:
    """Text around the evidence of a claim; if it is not there, `broken` says why."""

    artifact_id: str
    artifact_version: str
    span: tuple[int, int] | None
    line: int | None
    before: str
    quote: str
    after: str
    evidence: Evidence
    producer_id: str
    broken: str = ""
    fresh: Fresh | None = None
    fresh_note: str = ""


@dataclass(frozen=True, slots=True)
class ClaimPassages:
    """Claim with its status and the passages that state it."""

    claim_id: str
    corpus: str
    text: str
    type: str
    tier: Tier
    standing: ClaimStatus
    passages: Sequence[Passage]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def find_passages(
    reader: Reader,
    corpora: Mapping[str, Corpus],
    claim_id: str,
    eligible: Eligible,
    decisions: Iterable[Decision],
    within: Sequence[str],
) -> ClaimPassages | None:
    """Return a claim that may be shown, of any tier; None if no claim has this id.

    The id may be abbreviated. `within` names the corpora that may be searched. Raises QueryError for a claim that may
    not be shown; the error names its status, and nothing that the claim says.
    """
    if names_artifact(reader, claim_id, within):
        return None
    rows = read_claim_rows(reader, claim_id, eligible, within)
    if not rows:
        require_shown(claim_id, eligible, decisions, within)
        return None
    claims = [claim_from_row(row) for row in rows]
    kept = read_stored_artifacts(reader.artifacts, corpora, [(claim.corpus, claim.artifact_id) for claim in claims])
    first = claims[0]
    tier = best_tier(eligible, claims)
    shown = [build_passage(claim, kept.get((claim.corpus, claim.artifact_id))) for claim in claims]
    standing = eligible.standing(first.claim_id)
    return ClaimPassages(first.claim_id, first.corpus, first.text, first.type, tier, standing, shown)


def names_artifact(reader: Reader, wanted: str, within: Sequence[str]) -> bool:
    """Return whether an artifact has this id, which as an abbreviation could also be that of a claim."""
    if len(wanted) == CLAIM_ID_CHARS or not ID.fullmatch(wanted):
        return False
    return bool(read_titles(reader.records, [(corpus, wanted) for corpus in within]))


def read_claim_rows(reader: Reader, claim_id: str, eligible: Eligible, within: Sequence[str]) -> list[dict[str, Any]]:
    """Return the published records of a claim that may be shown. Raises QueryError if several ids match."""
    if not ID.fullmatch(claim_id):
        return []
    named = f"starts_with(claim_id, {quoted(claim_id)})"
    rows = read_claim_records(reader.records, both(named, eligible.claims(tuple(Tier)), one_of("corpus", within)))
    if len(ids := {row["claim_id"] for row in rows}) > 1:
        raise QueryError(f"{claim_id!r} matches the ids of {len(ids)} claims: give a longer part of the id")
    return rows


def require_shown(wanted: str, eligible: Eligible, decisions: Iterable[Decision], within: Sequence[str]) -> None:
    """Raise QueryError for a claim of these corpora that has decisions, but no record that may be shown.

    The caller has already looked for its records.
    """
    decided = {i for d in decisions if d.corpus in within for i in (d.claim_id, d.other_id)} & eligible.decided.keys()
    claim_id = next((i for i in sorted(decided) if ID.fullmatch(wanted) and i.startswith(wanted)), None)
    if claim_id is None:
        return
    standing = eligible.standing(claim_id)
    where = standing.review if standing.circulation is Circulation.LIVE else standing.circulation
    why = f"is {where}" if standing.retracted else "is in no artifact that is published"
    raise NotFoundError(f"claim {claim_id} {why}: `findingaid claims show {claim_id}` shows the decisions on it")


def read_stored_artifacts(
    read: Callable[[Iterable[str]], Mapping[Key, tuple[Artifact, str]]],
    corpora: Mapping[str, Corpus],
    keys: Iterable[Key],
) -> dict[Key, StoredArtifact]:
    """Return artifacts by key, without those that are gone; `read` reads them by their ids, as `Reader.artifacts`."""
    wanted = set(keys)
    found = read({i for _, i in wanted})
    return {key: _build_stored(*found[key], corpora.get(key[0])) for key in wanted if key in found}


def _build_stored(artifact: Artifact, version: str, corpus: Corpus | None) -> StoredArtifact:
    text = artifact.raw if isinstance(artifact.raw, str) else None
    if corpus:
        try:
            text = quoted_text(corpus.strategy, artifact)
        except (DecomposeError, KeyError):
            text = None
    return StoredArtifact(artifact, version, text)


def build_passage(claim: Claim, kept: StoredArtifact | None, around: int = AROUND) -> Passage:
    """Return the text around the evidence of a claim, as far as it is there."""
    broken = missing_reason(claim, kept)
    before = after = ""
    line = None
    if not broken and claim.span and kept and kept.text is not None:
        start, end = claim.span
        before = _cut_before(kept.text[:start], around)
        after = _cut_after(kept.text[end:], around)
        line = kept.text.count("\n", 0, start) + 1
    return Passage(
        claim.artifact_id, claim.artifact_version, claim.span, line, before, claim.quote, after, claim.evidence,
        claim.producer_id, broken,
    )  # fmt: skip


def missing_reason(claim: Claim, kept: StoredArtifact | None) -> str:
    """Return why the evidence of a claim is not at its recorded place; "" if it is there."""
    if claim.evidence is Evidence.NONE:
        return "it has no quote"
    if kept is None:
        return "the artifact is no longer indexed: run `findingaid index`"
    if kept.text is None:
        return "the artifact's strategy finds no text in it"
    there = kept.text[slice(*claim.span)] == claim.quote if claim.span else claim.quote in kept.text
    if there:
        return ""
    return CHANGED if kept.version != claim.artifact_version else "the quote is not in the artifact: it is forged"


def _cut_before(text: str, most: int) -> str:
    """Return the last `most` characters of a text, cut at the start of a paragraph or of a word.

    A paragraph is preferred if it starts in the first half of these characters.
    """
    if len(text) <= most:
        return text.lstrip()
    cut = text[-most:]
    return (cut[cut.find("\n\n") + 2 :] if "\n\n" in cut[: most // 2] else "… " + cut.partition(" ")[2]).lstrip("\n")


def _cut_after(text: str, most: int) -> str:
    if len(text) <= most:
        return text.rstrip()
    cut = text[:most]
    return (cut[: cut.rfind("\n\n")] if "\n\n" in cut[most // 2 :] else cut.rpartition(" ")[0] + " …").rstrip("\n")
