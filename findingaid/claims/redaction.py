"""Taking the words of redacted claims out of what is kept beside the index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from findingaid.claims.decisions import Decision
from findingaid.claims.model import Action, claim_id, normalised
from findingaid.identity import to_json
from findingaid.model import Stage
from findingaid.store import Lease, Leases, Ledger, Store, schemas
from findingaid.store.sql import equals, one_of

STATED = "text LIKE '%\"statements\"%'"
"""The condition of what extractors of claims answered, among all that is kept of calls."""


def redacted(decisions: Iterable[Decision]) -> dict[str, str]:
    """Id of each redacted claim -> its corpus."""
    return {d.claim_id: d.corpus for d in decisions if d.action is Action.REDACT}


def scrub(store: Store, decisions: Iterable[Decision]) -> int:
    """Take redacted claims out of the answers of extractors that are kept, which are not paid again for that.

    Returns out of how many answers. To be done again whenever an extractor may have been asked since.
    """
    gone = redacted(decisions)
    if not gone:
        return 0
    rows = store.rows("calls", schemas.CALLS.names, STATED).to_pylist()
    cleaned = [row | {"text": text} for row in rows if (text := _without(row["text"], gone)) != row["text"]]
    store.drop("calls", "key", [row["key"] for row in cleaned])
    store.append("calls", pa.Table.from_pylist(cleaned, schema=schemas.CALLS))
    return len(cleaned)


def still_stated(store: Store, decisions: Iterable[Decision]) -> int:
    """How many redacted claims the index still has, since nothing was indexed since."""
    return store.count("claims", one_of("claim_id", sorted(redacted(decisions))))


def forget_synopses(store: Store, corpus: str, texts: Iterable[str]) -> list[str]:
    """Have synopses that repeat these texts written anew by the next run, which asks for them again.

    What an artifact says itself its synopsis may say. Returns the ids of the artifacts.
    """
    words = [word for text in texts if (word := normalised(text))]
    rows = store.rows("synopses", schemas.SYNOPSES.names, equals("corpus", corpus)).to_pylist()
    repeating = [row for row in rows if _repeats(words, row["text"], row["state"])]
    ids = [row["artifact_id"] for row in repeating]
    found = store.lookup("artifacts", "artifact_id", ids, ("artifact_id", "payload"), equals("corpus", corpus))
    own = dict(zip(found["artifact_id"].to_pylist(), found["payload"].to_pylist(), strict=True))
    anew = {row["artifact_id"]: row for row in repeating if not _repeats(words, own.get(row["artifact_id"]))}

    def forget(lease: Lease) -> None:
        mine = [anew[i] | {"key": "", "text": "", "state": None} for i in lease.artifact_ids]
        ledger = Ledger(store)
        marked = ledger.rows(corpus, lease.artifact_ids)
        ledger.put(corpus, [row.writing([Stage.SYNOPSES]) for row in marked.values()])
        store.replace("synopses", corpus, lease.artifact_ids, pa.Table.from_pylist(mine, schema=schemas.SYNOPSES))
        _forget_summaries(store, corpus, lease.artifact_ids, words)

    store.drop("calls", "key", [row["key"] for row in anew.values()])
    Leases(store).in_turn(corpus, sorted(anew), forget)
    return sorted(anew)


def _forget_summaries(store: Store, corpus: str, artifact_ids: Sequence[str], words: Sequence[str]) -> None:
    """Drop the earlier anchored summaries that repeat the words."""
    columns = schemas.SUMMARIES.names
    rows = store.lookup("summaries", "artifact_id", artifact_ids, columns, equals("corpus", corpus)).to_pylist()
    kept = [row for row in rows if not _repeats(words, row["summary"])]
    if len(kept) < len(rows):
        store.replace("summaries", corpus, artifact_ids, pa.Table.from_pylist(kept, schema=schemas.SUMMARIES))


def _repeats(words: Sequence[str], *texts: str | None) -> bool:
    said = [normalised(text) for text in texts if text]
    return any(word in text for word in words for text in said)


def _without(text: str, gone: Mapping[str, str]) -> str:
    try:
        said: Any = orjson.loads(text)
    except ValueError:
        return text
    if not isinstance(said, dict) or not isinstance(said.get("statements"), list):
        return text
    corpora = set(gone.values())
    kept = [s for s in said["statements"] if not any(claim_id(corpus, s["text"]) in gone for corpus in corpora)]
    return text if len(kept) == len(said["statements"]) else to_json(said | {"statements": kept})
