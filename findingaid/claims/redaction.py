"""Taking the words of redacted claims out of what is kept beside the index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import pyarrow as pa

from findingaid.claims.decisions import Decision
from findingaid.claims.model import Action, claim_id
from findingaid.identity import to_json
from findingaid.store import Store, schemas
from findingaid.store.sql import one_of

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
