"""Append-only log of review decisions, in which each decision includes the hash of the one before.

A decision is one row, even if it links two claims, so that a link is never half written. Its hash covers the hash of
the decision before. Of the fields that may be redacted, it covers digests only: a statement can be removed for good,
and the chain still shows that nothing else was altered, left out or inserted. The chain does not show that the last
decisions were cut off. To rule that out, keep the last hash elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson
import pyarrow as pa

from findingaid.claims.model import Action, Claim, Evidence, Truth
from findingaid.errors import QueryError, StoreError, brief, one_line
from findingaid.identity.hashes import content_hash, text_hash, to_json
from findingaid.store import Lease, Leases, Store, schemas
from findingaid.store.tables import NOT_THERE, identity

TABLE = "decisions"

ERASED = ("reason", "text", "quote", "details")
"""Fields that redaction erases from the decisions of a claim; the chain covers digests of them."""


UNSAID = {
    "type": "", "confidence": 0.0, "entities": (), "span": None, "evidence": "none", "verbatim": False,
    "producer_id": "", "artifact_version": "",
}  # fmt: skip
"""Values of the fields that are not known of a redacted claim."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision that is not in the log yet; `other_id` is the claim that contests or supersedes this one.

    `text`, `quote` and `details` are a snapshot of the claim. `details` also holds a snapshot of the other claim, so
    that both can be shown when no artifact states them any more.
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
    """Row of the log."""

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
        """Return the decision in a row. Raises StoreError if the row's action is unknown."""
        try:
            return cls(**{**row, "action": Action(row["action"])})
        except ValueError:
            raise StoreError(
                f"decisions: decision {row['seq']} was altered: it has the unknown action {brief(str(row['action']))}:"
                " restore the table from a backup"
            ) from None

    @classmethod
    def parse(cls, line: str) -> Decision:
        """Return the decision in a line of an exported log. Raises QueryError for a line that is none."""
        try:
            row = orjson.loads(line)
            found = cls(**{**row, "at": datetime.fromisoformat(row["at"]), "action": Action(row["action"])})
            _table([found])  # raises for a value of another type
        except (ValueError, TypeError, KeyError, AttributeError, pa.ArrowException) as error:
            said = f"no {error}" if isinstance(error, KeyError) else one_line(error)
            raise QueryError(f"not a decision as `findingaid claims export` writes it: {said}") from None
        return found

    def to_line(self) -> str:
        """Return the whole decision as a line of JSON, from which its hash can be computed again."""
        row = {name: getattr(self, name) for name in schemas.DECISIONS.names}
        return orjson.dumps(row | {"at": self.at.isoformat()}).decode()

    @property
    def undoes(self) -> int | None:
        """Number of the decision that an undo takes back; None for other actions, and after a redaction."""
        number = self.said.get("undoes") if self.action is Action.UNDO else None
        return number if isinstance(number, int) else None

    @property
    def said(self) -> dict[str, Any]:
        """Other fields of the claim's snapshot; for a redaction that is not complete, the traces it has to remove.

        Raises StoreError if the details are not a JSON object.
        """
        found = _mapping(self.details or "{}")
        if found is None:
            raise StoreError(f"decisions: the details of decision {self.seq} were altered: run `findingaid verify`")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as a dictionary, for programs; the details of a redaction are left out."""
        told = {name: getattr(self, name) for name in schemas.DECISIONS.names if name not in {"digests", "details"}}
        said = {} if self.action is Action.REDACT else self.said
        return told | {"at": self.at.isoformat(timespec="seconds"), "details": said}


NOT_OF_CLAIMS = frozenset({Action.UNDO, Action.REVOKE, Action.ADMIT})
"""Actions that do not change a claim themselves."""

Decide = Callable[[Sequence[Decision]], Sequence[Verdict]]
"""Function from all decisions so far to the verdicts that follow them; raises if they are not allowed."""


class DecisionLog:
    """Decisions of a store, oldest first. Two concurrent writers never append to the same decision."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._read: tuple[str, Sequence[Decision]] = ("", ())
        self._lock = threading.Lock()

    def all(self) -> Sequence[Decision]:
        """Return every decision; the table is read again only if it changed."""
        try:
            dataset = self.store.dataset(TABLE)
        except StoreError as error:
            if NOT_THERE in str(error) and not self.store.exists():
                return ()
            raise  # the table is lost: rejected claims must not come back as undecided
        with self._lock:
            if (now := identity(dataset)) != self._read[0]:
                columns = schemas.DECISIONS.names
                # Not `Store.rows`, for which a table that was found damaged is empty.
                rows = self.store.retried(lambda: self.store.dataset(TABLE).to_table(columns=columns))
                self._read = now, _parsed(rows)
            return self._read[1]

    def close(self, claims: Collection[str]) -> None:
        """Close the redactions of these claims: erase the lists of what they had to remove."""

        def edit(table: pa.Table) -> pa.Table:
            return _table(
                [_closed(decision) if decision.claim_id in claims else decision for decision in _parsed(table)]
            )

        self.store.revise(TABLE, edit)

    def decide(self, decide: Decide, actor: str, reason: str = "") -> Sequence[Decision]:
        """Append the verdicts that `decide` returns for all earlier decisions: all of them or none.

        `decide` is called with the newest decisions. Raises StoreError if nothing is indexed yet.
        """
        return self._append(lambda before: chained(before, decide(before), actor, reason))

    def restore(self, exported: Sequence[Decision]) -> int:
        """Append the decisions of an exported log that are not in this one; return how many there were.

        Raises StoreError as `missing` does.
        """
        return len(self._append(lambda before: missing(before, exported)))

    def _append(self, following: Callable[[Sequence[Decision]], Sequence[Decision]]) -> Sequence[Decision]:
        """Append the decisions that `following` returns for all earlier ones; erase the words of redacted claims."""
        added: list[Decision] = []

        def edit(lease: Lease, table: pa.Table) -> pa.Table:
            lease.check()
            before = _parsed(table)
            added[:] = following(before)
            erased = {decision.claim_id for decision in added if decision.action is Action.REDACT}
            kept = table if not erased else _table(without(before, erased))
            return pa.concat_tables([kept, _table(added)])

        with self.store.require_index(), Leases(self.store).visit() as lease:
            self.store.revise(TABLE, partial(edit, lease))
        return added


def missing(before: Sequence[Decision], exported: Sequence[Decision]) -> Sequence[Decision]:
    """Return the decisions of an exported log that follow those of a log.

    Raises StoreError if their chain is broken, or if they do not continue this log.
    """
    if problem := next(broken(exported), None):
        raise StoreError(f"nothing was imported: {problem}")
    for mine, theirs in zip(before, exported, strict=False):
        if mine.hash != theirs.hash:
            raise StoreError(f"nothing was imported: {_named(mine)} of this store is another one in the export")
    return exported[len(before) :]


def without(decisions: Iterable[Decision], claims: set[str]) -> list[Decision]:
    """Return the decisions without the words of these claims.

    A decision of another claim that links to one of them loses its reason and details, and keeps the link.
    """
    return [_erased(decision, claims) for decision in decisions]


def _closed(decision: Decision) -> Decision:
    return replace(decision, details=None) if decision.action is Action.REDACT else decision


def _erased(decision: Decision, claims: set[str]) -> Decision:
    if decision.action is Action.REDACT:
        return decision
    if decision.claim_id in claims:
        return replace(decision, reason=None, text=None, quote=None, details=None)
    return replace(decision, reason=None, details=None) if decision.other_id in claims else decision


def broken(decisions: Sequence[Decision]) -> Iterator[str]:
    """Yield a line that names the first broken link of the chain, if there is one.

    A field that was erased without a redaction breaks the chain too. After a broken link, every hash may have been
    chosen by the writer, so nothing is reported about later decisions.
    """
    redacted = {d.claim_id for d in decisions if d.action is Action.REDACT}
    previous = ""
    for place, decision in enumerate(decisions, 1):
        if reason := _unsound(decision, place, previous, redacted):
            yield f"decisions: the chain is broken at {_named(decision)}: {reason}"
            return
        previous = decision.hash


def _unsound(decision: Decision, place: int, previous: str, redacted: set[str]) -> str | None:
    if decision.seq != place:
        return f"it is at position {place}, so decisions are missing or were added"
    if decision.previous != previous:
        return "it does not follow the previous decision"
    if decision.hash != hash_of(decision):
        return "it was altered"
    digests = _mapping(decision.digests)
    if digests is None:
        return "its digests were altered"
    for name in ERASED:
        value = getattr(decision, name)
        if value is None and not {decision.claim_id, decision.other_id} & redacted:
            return f"its {name} is missing without a redaction"
        if value is not None and text_hash(value) != digests.get(name):
            return f"its {name} was altered"
    return None


def _mapping(text: str) -> dict[str, Any] | None:
    """Parse a JSON object; return None if the text is not one."""
    try:
        found = orjson.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _named(decision: Decision) -> str:
    return (
        f"decision {decision.seq} ({decision.action} {decision.claim_id} by {decision.actor}, {decision.at:%Y-%m-%d})"
    )


def undone_by(decisions: Sequence[Decision]) -> dict[int, int]:
    """Map the number of each decision that is undone to that of the undo. An undo may itself be undone."""
    found: dict[int, int] = {}
    for decision in reversed(decisions):
        if decision.undoes is not None and decision.seq not in found:
            found.setdefault(decision.undoes, decision.seq)
    return found


def in_effect(decisions: Iterable[Decision]) -> list[Decision]:
    """Return the decisions that are not undone, without the undos.

    A redaction erases which decision an undo took back. The status of claims does not change, because it no longer
    depends on decisions that name a redacted claim. Decisions about access are about no claim.
    """
    every = list(decisions)
    undone = undone_by(every)
    return [decision for decision in every if decision.seq not in undone and decision.action not in NOT_OF_CLAIMS]


def chained(before: Sequence[Decision], verdicts: Iterable[Verdict], actor: str, reason: str) -> list[Decision]:
    """Return the decisions that follow `before`, each with the hash of the one before it."""
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
    """Return the hash that the next decision includes; it covers digests of the fields that may be erased."""
    fixed = [name for name in schemas.DECISIONS.names if name not in {*ERASED, "hash", "at"}]
    return content_hash("decision", decision.at.isoformat(), *(str(getattr(decision, name)) for name in fixed))


def _now() -> datetime:
    """Return the current time to the millisecond, as the table stores it."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def _parsed(table: pa.Table) -> list[Decision]:
    return sorted(map(Decision.of, table.to_pylist()), key=lambda decision: decision.seq)


def _table(decisions: Sequence[Decision]) -> pa.Table:
    columns = {name: [getattr(d, name) for d in decisions] for name in schemas.DECISIONS.names}
    return pa.table(columns, schema=schemas.DECISIONS)


def snapshots(decision: Decision) -> Iterator[Claim]:
    """Yield the claims that a decision names, as they were; a redacted claim has little more than its id.

    An undo has no snapshot. The decision that it takes back has one.
    """
    if decision.action is Action.UNDO:
        return
    said = decision.said
    if other := said.pop("other", None):
        yield claim_of(other)
    of = {"corpus": decision.corpus, "claim_id": decision.claim_id, "artifact_id": decision.artifact_id}
    yield claim_of({**UNSAID, **of, **said, "text": decision.text or "", "quote": decision.quote or ""})


def claim_of(said: Mapping[str, Any]) -> Claim:
    """Return a claim from its row in the table, or from its snapshot in a decision."""
    named = {name: said[name] for name in Claim.__slots__ if name in said}
    span = said["span"] if "span" in said else (said["span_start"], said["span_end"])
    whole = span and span[0] is not None
    return Claim(**named | {
        "span": tuple(span) if whole else None,
        "evidence": Evidence(said["evidence"]),
        "entities": tuple(said["entities"]),
    })  # fmt: skip
