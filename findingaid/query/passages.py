"""A claim where it stands: the passage of each artifact that says it, with the quote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from findingaid.claims.model import Circulation, Claim, Evidence, Standing, Tier
from findingaid.errors import DecomposeError, NotFoundError, QueryError
from findingaid.model import Artifact, Corpus
from findingaid.query.offers import best_tier, claim_of, records_of
from findingaid.stages import stored
from findingaid.store import Store
from findingaid.store.sql import both, one_of, quoted
from findingaid.synopses import quoted_text

if TYPE_CHECKING:
    from findingaid.claims.decisions import Decision
    from findingaid.claims.eligible import Eligible

Key = tuple[str, str]
"""Corpus and artifact id."""

ID = re.compile(r"[0-9a-f]{6,32}")
"""A claim's id, which may be cut short."""

AROUND = 300
"""Characters of a passage on either side of the quote, at most."""

CHANGED = "the artifact has changed since, and its text is no longer there: run `findingaid index`"


@dataclass(frozen=True, slots=True)
class Kept:
    """An artifact as it was last indexed, and its text where its strategy knows one."""

    artifact: Artifact
    version: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Passage:
    """The text around the evidence of a claim; `broken` says why it is not there, where it is not."""

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


@dataclass(frozen=True, slots=True)
class ClaimPassages:
    """A claim with the passages that it stands on, and where it stands itself."""

    claim_id: str
    corpus: str
    text: str
    type: str
    tier: Tier
    standing: Standing
    passages: Sequence[Passage]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def passages(
    store: Store,
    corpora: Mapping[str, Corpus],
    claim_id: str,
    eligible: Eligible,
    decisions: Iterable[Decision],
    within: Sequence[str],
) -> ClaimPassages | None:
    """A claim of these corpora that may be shown, of any tier; None for an id that is no claim's. It may be cut short.

    Raises QueryError for one that may not, which names where it stands and nothing that it says.
    """
    rows = store.retried(lambda: rows_of(store, claim_id, eligible, within))
    if not rows:
        require_shown(claim_id, eligible, decisions, within)
        return None
    claims = [claim_of(row) for row in rows]
    kept = kept_of(store, corpora, [(claim.corpus, claim.artifact_id) for claim in claims])
    first = claims[0]
    tier = best_tier(eligible, claims)
    shown = [passage(claim, kept.get((claim.corpus, claim.artifact_id))) for claim in claims]
    standing = eligible.standing(first.claim_id)
    return ClaimPassages(first.claim_id, first.corpus, first.text, first.type, tier, standing, shown)


def rows_of(store: Store, claim_id: str, eligible: Eligible, within: Sequence[str]) -> list[dict[str, Any]]:
    """The published records of a claim, of those that may be shown. Raises QueryError for what begins several ids."""
    if not ID.fullmatch(claim_id):
        return []
    named = f"starts_with(claim_id, {quoted(claim_id)})"
    rows = records_of(store.published(), both(named, eligible.claims(tuple(Tier)), one_of("corpus", within)))
    if len(ids := {row["claim_id"] for row in rows}) > 1:
        raise QueryError(f"{claim_id!r} begins the ids of {len(ids)} claims: give more of it")
    return rows


def require_shown(wanted: str, eligible: Eligible, decisions: Iterable[Decision], within: Sequence[str]) -> None:
    """Raises QueryError for a claim of these corpora of which something was decided; no record of it may be shown."""
    decided = {i for d in decisions if d.corpus in within for i in (d.claim_id, d.other_id)} & eligible.decided.keys()
    claim_id = next((i for i in sorted(decided) if ID.fullmatch(wanted) and i.startswith(wanted)), None)
    if claim_id is None:
        return
    standing = eligible.standing(claim_id)
    where = standing.review if standing.circulation is Circulation.LIVE else standing.circulation
    why = f"is {where}" if standing.retracted else "is in no artifact that is published"
    raise NotFoundError(f"claim {claim_id} {why}: `findingaid claims show {claim_id}` has what was decided of it")


def kept_of(store: Store, corpora: Mapping[str, Corpus], keys: Iterable[Key]) -> dict[Key, Kept]:
    """Artifacts as they were last indexed; those that are gone are left out."""
    wanted = set(keys)
    found = stored(store, sorted({i for _, i in wanted}))
    return {key: _kept(*found[key], corpora.get(key[0])) for key in wanted if key in found}


def _kept(artifact: Artifact, version: str, corpus: Corpus | None) -> Kept:
    text = artifact.raw if isinstance(artifact.raw, str) else None
    if corpus:
        try:
            text = quoted_text(corpus.strategy, artifact.raw)
        except (DecomposeError, KeyError):
            text = None
    return Kept(artifact, version, text)


def passage(claim: Claim, kept: Kept | None, around: int = AROUND) -> Passage:
    """The text around the evidence of a claim, as far as it is there."""
    broken = missing(claim, kept)
    before = after = ""
    line = None
    if not broken and claim.span and kept and kept.text is not None:
        start, end = claim.span
        before = _end(kept.text[:start], around)
        after = _beginning(kept.text[end:], around)
        line = kept.text.count("\n", 0, start) + 1
    return Passage(
        claim.artifact_id, claim.artifact_version, claim.span, line, before, claim.quote, after, claim.evidence,
        claim.producer_id, broken,
    )  # fmt: skip


def missing(claim: Claim, kept: Kept | None) -> str:
    """Why the evidence of a claim is not where it is said to be, "" where it is."""
    if claim.evidence is Evidence.NONE:
        return "it quotes nothing"
    if kept is None:
        return "the artifact is no longer there: run `findingaid index`"
    if kept.text is None:
        return "the artifact has no text that its strategy knows"
    there = kept.text[slice(*claim.span)] == claim.quote if claim.span else claim.quote in kept.text
    if there:
        return ""
    return CHANGED if kept.version != claim.artifact_version else "the quote is not in the artifact: it is forged"


def _end(text: str, most: int) -> str:
    """The last characters of a text, from a word on; a paragraph's at least, where it is no longer."""
    if len(text) <= most:
        return text.lstrip()
    cut = text[-most:]
    return (cut[cut.find("\n\n") + 2 :] if "\n\n" in cut[: most // 2] else "… " + cut.partition(" ")[2]).lstrip("\n")


def _beginning(text: str, most: int) -> str:
    if len(text) <= most:
        return text.rstrip()
    cut = text[:most]
    return (cut[: cut.rfind("\n\n")] if "\n\n" in cut[most // 2 :] else cut.rpartition(" ")[0] + " …").rstrip("\n")
