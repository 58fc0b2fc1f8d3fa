"""What people decided of claims: a log that is only ever added to, each decision standing on the one before.

A decision is one row, also where it links two claims, so there are never half of its links. Its hash covers the hash
of the decision before, and of what may be redacted digests alone: a statement can be taken out for good, and the
chain still shows that nothing else was altered, left out or put in between. It does not show that the last ones were
cut off: whoever must rule that out keeps the last hash elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa

from findingaid.claims.model import Action, Claim, Evidence, Truth
from findingaid.errors import StoreError
from findingaid.identity import content_hash, text_hash, to_json
from findingaid.store import Store, schemas
from findingaid.store.store import NOT_THERE

TABLE = "decisions"

ERASED = ("reason", "text", "quote", "details")
"""What redaction takes out of the decisions of a claim; the chain covers digests of it."""


UNSAID = {
    "type": "", "confidence": 0.0, "entities": (), "span": None, "evidence": "none", "verbatim": False,
    "producer_id": "", "artifact_version": "",
}  # fmt: skip
"""What is left of a claim that was redacted."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision that is not in the log yet; `other_id` contests or supersedes the claim.

    `text`, `quote` and `details` are the claim as it was, and in `details` also the other one, so that both can be
    shown when no artifact says them any more.
    """

    action: Action
    corpus: str
    claim_id: str
    artifact_id: str
    other_id: str = ""
    truth: Truth | None = None
    text: str = ""
    quote: str = ""
    details: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A row of the log."""

    seq: int
    at: datetime
    actor: str
    action: Action
    corpus: str
    claim_id: str
    other_id: str
    artifact_id: str
    truth: str
    reason: str | None
    text: str | None
    quote: str | None
    details: str | None
    digests: str
    previous: str
    hash: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Decision:
        return cls(**{**row, "action": Action(row["action"])})

    @property
    def said(self) -> dict[str, Any]:
        """What else is known of the claim, as it was."""
        found: dict[str, Any] = orjson.loads(self.details or "{}")
        return found

    def to_dict(self) -> dict[str, Any]:
        """What a program is told of it."""
        told = {name: getattr(self, name) for name in schemas.DECISIONS.names if name not in {"digests", "details"}}
        return told | {"at": self.at.isoformat(timespec="seconds"), "details": self.said}


Decide = Callable[[Sequence[Decision]], Sequence[Verdict]]
"""Given all decisions so far, what is to follow them; raises where that may not be."""


class DecisionLog:
    """The decisions of a store, oldest first. Two that decide at once never follow the same decision."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._read: tuple[int, Sequence[Decision]] = (0, ())
        self._lock = threading.Lock()

    def all(self) -> Sequence[Decision]:
        """Every decision as it is now; read again only where there are others."""
        try:
            dataset = self.store.dataset(TABLE)
        except StoreError as error:
            if NOT_THERE in str(error) and not self.store.exists():
                return ()
            raise  # lost: what was rejected must not come back as if nobody had decided anything
        with self._lock:
            if dataset.version != self._read[0]:
                rows = self.store.rows(TABLE, schemas.DECISIONS.names)
                self._read = dataset.version, _parsed(rows)
            return self._read[1]

    def decide(self, decide: Decide, actor: str, reason: str = "") -> Sequence[Decision]:
        """Add what `decide` makes of all decisions before, all of it or nothing; it is asked with the newest.

        Raises StoreError where nothing was indexed yet.
        """
        added: list[Decision] = []

        def edit(table: pa.Table) -> pa.Table:
            before = _parsed(table)
            added[:] = _chained(before, decide(before), actor, reason)
            erased = {decision.claim_id for decision in added if decision.action is Action.REDACT}
            kept = table if not erased else _table(without(before, erased))
            return pa.concat_tables([kept, _table(added)])

        try:
            self.store.revise(TABLE, edit)
        except StoreError as error:
            if NOT_THERE in str(error):
                raise StoreError(f"nothing is indexed in {self.store.uri} yet: run `findingaid index`") from None
            raise
        return added


def without(decisions: Iterable[Decision], claims: set[str]) -> list[Decision]:
    """Decisions without what they say of these claims; what links others with them goes, too, but for the link."""
    return [_erased(decision, claims) for decision in decisions]


def _erased(decision: Decision, claims: set[str]) -> Decision:
    if decision.action is Action.REDACT:
        return decision
    if decision.claim_id in claims:
        return replace(decision, reason=None, text=None, quote=None, details=None)
    return replace(decision, reason=None, details=None) if decision.other_id in claims else decision


def broken(decisions: Sequence[Decision]) -> Iterator[str]:
    """What is wrong with the chain, a line each; the first link that does not hold is named, and all that was erased.

    Behind a broken link every hash may be as its writer pleased, so nothing more is said of those.
    """
    redacted = {d.claim_id for d in decisions if d.action is Action.REDACT}
    previous = ""
    for place, decision in enumerate(decisions, 1):
        if reason := _unsound(decision, place, previous, redacted):
            yield f"decisions: the chain is broken at {_named(decision)}: {reason}"
            return
        previous = decision.hash


def _unsound(decision: Decision, place: int, previous: str, redacted: set[str]) -> str | None:
    digests = orjson.loads(decision.digests)
    if decision.seq != place:
        return f"it stands at place {place}, so others are missing or were added"
    if decision.previous != previous:
        return "it does not follow the one before"
    if decision.hash != hash_of(decision):
        return "it was altered"
    for name in ERASED:
        value = getattr(decision, name)
        if value is None and not {decision.claim_id, decision.other_id} & redacted:
            return f"its {name} is gone, and nobody redacted it"
        if value is not None and text_hash(value) != digests.get(name):
            return f"its {name} was altered"
    return None


def _named(decision: Decision) -> str:
    return (
        f"decision {decision.seq} ({decision.action} {decision.claim_id} by {decision.actor}, {decision.at:%Y-%m-%d})"
    )


def _chained(before: Sequence[Decision], verdicts: Iterable[Verdict], actor: str, reason: str) -> list[Decision]:
    added: list[Decision] = []
    at = _now()
    for verdict in verdicts:
        last = added[-1] if added else before[-1] if before else None
        erasable = {
            "reason": reason,
            "text": verdict.text,
            "quote": verdict.quote,
            "details": to_json(verdict.details or {}),
        }
        decision = Decision(
            seq=last.seq + 1 if last else 1,
            at=at,
            actor=actor,
            action=verdict.action,
            corpus=verdict.corpus,
            claim_id=verdict.claim_id,
            other_id=verdict.other_id,
            artifact_id=verdict.artifact_id,
            truth=verdict.truth or "",
            **erasable,
            digests=to_json({name: text_hash(value) for name, value in erasable.items()}),
            previous=last.hash if last else "",
            hash="",
        )
        added.append(replace(decision, hash=hash_of(decision)))
    return added


def hash_of(decision: Decision) -> str:
    """What the next decision stands on: all of this one, and of what may be erased the digests."""
    fixed = [name for name in schemas.DECISIONS.names if name not in {*ERASED, "hash", "at"}]
    return content_hash("decision", decision.at.isoformat(), *(str(getattr(decision, name)) for name in fixed))


def _now() -> datetime:
    """As the table keeps it, to the millisecond."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def _parsed(table: pa.Table) -> list[Decision]:
    return sorted(map(Decision.of, table.to_pylist()), key=lambda decision: decision.seq)


def _table(decisions: Sequence[Decision]) -> pa.Table:
    columns = {name: [getattr(d, name) for d in decisions] for name in schemas.DECISIONS.names}
    return pa.table(columns, schema=schemas.DECISIONS)


def snapshots(decision: Decision) -> Iterator[Claim]:
    """The claims that a decision names, as they were; of what was redacted hardly more than its id."""
    said = decision.said
    if other := said.pop("other", None):
        yield claim_of(other)
    of = {"corpus": decision.corpus, "claim_id": decision.claim_id, "artifact_id": decision.artifact_id}
    yield claim_of({**UNSAID, **of, **said, "text": decision.text or "", "quote": decision.quote or ""})


def claim_of(said: Mapping[str, Any]) -> Claim:
    """A claim of its row in the table, or of what a decision keeps of it."""
    named = {name: said[name] for name in Claim.__slots__ if name in said}
    span = said["span"] if "span" in said else (said["span_start"], said["span_end"])
    whole = span and span[0] is not None
    return Claim(**named | {
        "span": tuple(span) if whole else None,
        "evidence": Evidence(said["evidence"]),
        "entities": tuple(said["entities"]),
    })  # fmt: skip
