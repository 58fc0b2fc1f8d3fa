"""Claims and summary nodes written into a store as by the pipeline, for tests of later steps."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pyarrow as pa

from findingaid import FindingAid
from findingaid.access import PUBLIC
from findingaid.claims.model import Claim, Evidence, claim_id
from findingaid.identity.hashes import record_id, to_json
from findingaid.model import CLAIM, SUMMARY
from findingaid.store import schemas
from findingaid.store.sql import equals


def claim(
    text: str,
    artifact_id: str = "ledger.md",
    *,
    corpus: str = "docs",
    quote: str | None = None,
    evidence: Evidence = Evidence.VERIFIED,
    verbatim: bool = True,
    producer_id: str = "",
) -> Claim:
    """Create a claim of an artifact, by default verbatim and verified."""
    known = quote if quote is not None else text if verbatim else ""
    span = (0, len(known)) if known else None
    return Claim(
        claim_id(corpus, text), corpus, artifact_id, text, "fact", 1.0, ("ledger",), known, span, evidence, verbatim,
        producer_id or ("" if verbatim else "model"), "v1",
    )  # fmt: skip


def write(aid: FindingAid, claims: Sequence[Claim], members: Sequence[str] | None = None) -> None:
    """Write the claims and their records, with a summary node over `members`, all of one artifact, and publish."""
    aid.open_run().prepare()
    aid.store.append("claims", claim_rows(claims))
    records = [_claim_record(c) for c in claims]
    if members is not None:
        records.append(_node_record(claims[0], members))
    texts = [str(record["text"]) for record in records]
    vectors = aid.embedder.embed(texts).astype("float16")
    schema = schemas.records(aid.embedder.dim)
    at = claims[0].artifact_id
    before = aid.store.count("records", equals("artifact_id", at))
    rows = [
        {**record, "surface_index": before + i, "title": record["artifact_id"], "shown": None,
         "readers": PUBLIC, "lexical": texts[i],
         "embedder_id": aid.embedder.id, "artifact_version": "v1", "vector": vectors[i]}
        for i, record in enumerate(records)
    ]  # fmt: skip
    aid.store.replace("records", "docs", ["no such artifact"], pa.Table.from_pylist(rows, schema=schema))
    ledger = aid.store.rows("ledger", schemas.LEDGER.names, equals("artifact_id", at)).to_pylist()
    counted = [row | {"n_records": before + len(rows)} for row in ledger]
    aid.store.replace("ledger", "docs", [at], pa.Table.from_pylist(counted, schema=schemas.LEDGER))
    aid.publisher.publish()


def claim_rows(claims: Sequence[Claim]) -> pa.Table:
    rows = [
        {name: value for name, value in c.to_dict().items() if name != "span"}
        | {"readers": PUBLIC, "position": i, "span_start": c.span and c.span[0], "span_end": c.span and c.span[1]}
        for i, c in enumerate(claims)
    ]
    return pa.Table.from_pylist(rows, schema=schemas.CLAIMS)


def _claim_record(c: Claim) -> dict[str, object]:
    return {
        "record_id": c.record_id, "corpus": c.corpus, "artifact_id": c.artifact_id, "surface_kind": CLAIM,
        "granularity": CLAIM, "text": c.text, "span_start": c.span and c.span[0], "span_end": c.span and c.span[1],
        "metadata": to_json({"claim_id": c.claim_id}), "producer_id": "" if c.verbatim else c.producer_id,
        "claim_id": c.claim_id, "evidence": c.evidence.value,
    }  # fmt: skip


def _node_record(c: Claim, members: Sequence[str]) -> dict[str, object]:
    return {
        "record_id": record_id(c.corpus, c.artifact_id, SUMMARY, "node"), "corpus": c.corpus,
        "artifact_id": c.artifact_id, "surface_kind": SUMMARY, "granularity": SUMMARY, "text": "a summary of ledger",
        "metadata": orjson.dumps({"members": list(members)}).decode(), "producer_id": "model", "claim_id": "node",
        "evidence": "",
    }  # fmt: skip
