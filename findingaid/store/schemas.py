"""The tables, column by column. A changed schema raises its version, and the next run rebuilds that table."""

from __future__ import annotations

import pyarrow as pa

VERSION_KEY = b"findingaid.schema"

RECORDS_VERSION = "records-1"
"""Part of every records version: raise it and all records are assembled again, without a model call."""


def _schema(version: str, *fields: pa.Field) -> pa.Schema:
    return pa.schema(fields, metadata={VERSION_KEY: version.encode()})


def _text(name: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, pa.string(), nullable)


def _int(name: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, pa.int32(), nullable)


ARTIFACTS = _schema(
    "artifacts-1",
    _text("corpus"),
    _text("artifact_id"),
    _text("version"),
    pa.field("payload", pa.large_string(), False),  # the text itself, or a mapping as JSON
    pa.field("is_text", pa.bool_(), False),
    _text("metadata"),  # JSON
)

SURFACES = _schema(
    "surfaces-1",
    _text("corpus"),
    _text("artifact_id"),
    _int("position"),  # in the strategy's own plan, a synopsis apart
    _text("kind"),
    _text("granularity"),
    _text("text"),
    _text("text_hash"),
    _int("span_start", True),
    _int("span_end", True),
    _text("metadata"),  # JSON
)

SYNOPSES = _schema(
    "synopses-1",
    _text("corpus"),
    _text("artifact_id"),
    _text("key"),  # of the call, so that purge knows which are in use
    _text("outcome"),
    _text("text"),
    _text("producer_id"),
)

CALLS = _schema(
    "calls-1",
    _text("key"),  # hash of producer id and input
    _text("producer_id"),
    _text("outcome"),
    _text("text"),
)

EMBEDDINGS = _schema(
    "embeddings-1",
    _text("key"),  # hash of embedder id and text
    _text("producer_id"),
    pa.field("vector", pa.list_(pa.float16()), False),  # any length: models of several widths share the cache
)

LEDGER = _schema(
    "ledger-1",
    _text("corpus"),
    _text("artifact_id"),
    _text("stamp"),
    _text("recipe"),  # what all stages were done with; "" unless all are done, so equal means current
    # The version each stage last wrote; null while it is being written, and for a stage that failed.
    _text("artifacts", True),
    _text("surfaces", True),
    _text("synopses", True),
    _text("embeddings", True),
    _text("records", True),
    _text("synopsis_outcome"),
    # Rows that the artifact has in each table, against which losses are noticed.
    _int("n_artifacts"),
    _int("n_surfaces"),
    _int("n_synopses"),
    _int("n_records"),
    _text("failed_stage"),
    _text("failed_kind"),
    _text("failed_message"),
    pa.field("updated", pa.timestamp("ms", "UTC"), False),
)

LEASES = _schema(
    "leases-1",
    _text("owner"),  # unique a lease
    _text("host"),
    _int("pid"),
    _text("corpus"),
    pa.field("artifact_ids", pa.list_(pa.string()), False),
    pa.field("expires", pa.timestamp("ms", "UTC"), False),
)

FIXED = {
    "artifacts": ARTIFACTS,
    "surfaces": SURFACES,
    "synopses": SYNOPSES,
    "calls": CALLS,
    "embeddings": EMBEDDINGS,
    "ledger": LEDGER,
    "leases": LEASES,
}
"""Every table but `records`, whose vector column is as wide as the embedder's."""

PER_ARTIFACT = ("artifacts", "surfaces", "synopses", "records")
"""The tables whose rows belong to one artifact, and are counted in its ledger row."""

CACHES = ("calls", "embeddings")
"""The tables that keep what was paid for, by content."""


def records(dim: int) -> pa.Schema:
    """The published table, for vectors of `dim` float16 numbers: half the space, and the same ranking."""
    return _schema(
        RECORDS_VERSION,
        _text("record_id"),
        _text("corpus"),
        _text("artifact_id"),
        _text("surface_kind"),
        _int("surface_index"),
        _text("granularity"),
        _text("title"),
        _text("text"),
        _int("span_start", True),
        _int("span_end", True),
        _text("metadata"),  # JSON: the surface's own, and the artifact's filter fields
        _text("artifact_version"),
        _text("producer_id"),  # who wrote the text where it was generated, else ""
        _text("embedder_id"),
        pa.field("vector", pa.list_(pa.float16(), dim), False),
    )
