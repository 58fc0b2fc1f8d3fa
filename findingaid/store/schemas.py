"""The tables, column by column. A changed schema raises its version, and the next run rebuilds that table."""

from __future__ import annotations

import pyarrow as pa

VERSION_KEY = b"findingaid.schema"
DESCRIPTION_KEY = b"description"

RECORDS_VERSION = "records-4"
"""Part of every records version: raise it and all records are assembled again, without a model call."""


def description(field: pa.Field) -> str:
    """What a column holds."""
    return str((field.metadata or {}).get(DESCRIPTION_KEY, b""), "utf-8")


def _schema(version: str, *fields: pa.Field) -> pa.Schema:
    return pa.schema(fields, metadata={VERSION_KEY: version.encode()})


def _column(name: str, kind: pa.DataType, about: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable, metadata={DESCRIPTION_KEY: about.encode()})


def _text(name: str, about: str, nullable: bool = False) -> pa.Field:
    return _column(name, pa.string(), about, nullable)


def _int(name: str, about: str, nullable: bool = False) -> pa.Field:
    return _column(name, pa.int32(), about, nullable)


CORPUS = _text("corpus", "the corpus, as named in the configuration")
ARTIFACT_ID = _text("artifact_id", "the artifact's id within its corpus")
SPAN = (
    _int("span_start", "first character of the text in its artifact; null where the text is composed", True),
    _int("span_end", "the character after the last", True),
)
STATE = _text(
    "state", "JSON: what its synthesizer goes on from when the artifact grows; null for those that never do", True
)

ARTIFACTS = _schema(
    "artifacts-1",
    CORPUS,
    ARTIFACT_ID,
    _text("version", "hash of payload and metadata"),
    _column("payload", pa.large_string(), "the text itself, or a mapping as JSON"),
    _column("is_text", pa.bool_(), "whether the payload is text"),
    _text("metadata", "JSON: what may become filter fields"),
)

SURFACES = _schema(
    "surfaces-1",
    CORPUS,
    ARTIFACT_ID,
    _int("position", "place in the strategy's own plan, a synopsis apart"),
    _text("kind", "what of the artifact it is, such as chunk or description"),
    _text("granularity", "how much of the artifact it stands for"),
    _text("text", "what is embedded and searched"),
    _text("text_hash", "hash of the text, under which its vector is kept"),
    *SPAN,
    _text("metadata", "JSON: the surface's own"),
)

EDGES = _schema(
    "edges-1",
    CORPUS,
    ARTIFACT_ID,
    _int("position", "place among the artifact's edges"),
    _text("kind", "what the edge says: REF, PARENT, LINK or what an extractor calls it"),
    _text("target_corpus", "the corpus of the artifact that is referred to"),
    _text("target_id", "its id, whether or not there is such an artifact"),
    _text("section", 'the anchor of one of its headings, "" for all of it'),
    _int("span_start", "first character of where the artifact says so; null where no place of its text does", True),
    _int("span_end", "the character after the last", True),
)

CLAIMS = _schema(
    "claims-1",
    CORPUS,
    ARTIFACT_ID,
    _int("position", "place among the artifact's claims"),
    _text("claim_id", "hash of corpus and the statement's words"),
    _text("text", "the statement"),
    _text("type", "what kind of statement: fact, decision, requirement, ..."),
    _column("confidence", pa.float32(), "its extractor's, from 0 to 1"),
    _column("entities", pa.list_(pa.string()), "what it is about"),
    _text("quote", "the passage that says so, as the artifact has it"),
    *SPAN,
    _text("evidence", "verified, forged where the quote is not in the artifact, or none"),
    _column("verbatim", pa.bool_(), "whether the statement is the quote, word for word"),
    _text("artifact_version", "the version of the artifact that was quoted"),
    _text("producer_id", "the extractor that found it, or the person who proposed it"),
)

SUMMARY_NODES = _schema(
    "summary_nodes-1",
    CORPUS,
    ARTIFACT_ID,
    _text("node_id", "hash of the artifact, the members and the producer"),
    _text("bullets", "JSON: [text, ids of the claims it stands on] each"),
    _column("themes", pa.list_(pa.string()), "what it is about"),
    _column("confidence", pa.float32(), "from 0 to 1"),
    _column("members", pa.list_(pa.string()), "ids of all claims that it is a summary of"),
    _text("producer_id", "who wrote it"),
)

NODE_EVENTS = _schema(
    "node_events-1",
    CORPUS,
    ARTIFACT_ID,
    _text("event", "SUMMARY_CREATED or SUMMARY_SUPERSEDED"),
    _text("node_id", "the summary node"),
    _text("by", 'what superseded it; "" where nothing stands in its place, and of one that was created'),
    _column("members", pa.list_(pa.string()), "ids of the claims that it was a summary of"),
    _text("producer_id", "who wrote it"),
    _column("at", pa.timestamp("ms", "UTC"), "when"),
)

DECISIONS = _schema(
    "decisions-1",
    _column("seq", pa.int64(), "place in the log, from 1"),
    _column("at", pa.timestamp("ms", "UTC"), "when"),
    _text("actor", "who decided"),
    _text("action", "propose, approve, reject, contest, supersede, archive or redact"),
    CORPUS,
    _text("claim_id", "the claim"),
    _text("other_id", 'what contests or supersedes it, ""'),
    ARTIFACT_ID,
    _text("truth", "how far an approved claim can be relied on, otherwise empty"),
    _text("reason", "why, in the actor's words; null once it was redacted", True),
    _text("text", "the statement as it was then; null once it was redacted", True),
    _text("quote", "the passage it quoted; as above", True),
    _text("details", "JSON: what else the claim was, and of a link the other claim; as above", True),
    _text("digests", "JSON: hashes of what may be redacted, which the chain stands on"),
    _text("previous", "hash of the decision before"),
    _text("hash", "of all the above but what may be redacted"),
)

SYNOPSES = _schema(
    "synopses-2",
    CORPUS,
    ARTIFACT_ID,
    _text("key", "of the call in the call cache, so that purge knows which are in use"),
    _text("outcome", "ok, empty where there was nothing to say, or failed or pending with the text of a fallback"),
    _text("text", "the synopsis"),
    _text("producer_id", "the synthesizer that wrote it"),
    STATE,
)

CALLS = _schema(
    "calls-2",
    _text("key", "hash of producer id and input"),
    _text("producer_id", "the synthesizer that was called"),
    _text("outcome", "ok or empty; failures are not kept"),
    _text("text", "what it wrote"),
    STATE,
)

SUMMARIES = _schema(
    "summaries-1",
    CORPUS,
    ARTIFACT_ID,
    _int("iteration", "how often the summary had been written on"),
    _int("segments", "how many turns, or parts of long ones, it covers"),
    _text("covers", "hash of these, so that purge knows whether they are still there"),
    _text("summary", "JSON: its sections, with the turns that each point cites"),
    _text("producer_id", "the synthesizer that wrote it"),
    _column("at", pa.timestamp("ms", "UTC"), "when it became the synopsis"),
)

USAGE = _schema(
    "usage-1",
    _text("run", "the run that paid"),
    CORPUS,
    _text("model", "the model as it is priced, or the synthesizer's id"),
    _text("producer_id", "the synthesizer"),
    _int("calls", "requests that were answered"),
    _column("input_tokens", pa.int64(), "as the endpoint counts them"),
    _column("output_tokens", pa.int64(), "as above"),
    _column("cost", pa.float64(), "by the prices of then; null where the model had none", True),
    _text("stopped", "why the synthesizer is not asked any more in this run; null in a row of what it used", True),
    _column("at", pa.timestamp("ms", "UTC"), "when this was used, or sent as a batch"),
)

EMBEDDINGS = _schema(
    "embeddings-1",
    _text("key", "hash of embedder id and text"),
    _text("producer_id", "the embedder"),
    _column("vector", pa.list_(pa.float16()), "of any length: models of several widths share the cache"),
)

BATCHES = _schema(
    "batches-1",
    _text("tag", "hash of the keys, by which the endpoint is asked whether it has the batch"),
    _text("batch_id", 'the endpoint\'s id; "" before it is sent, with a second row after'),
    CORPUS,
    _text("producer_id", "the synthesizer that is asked"),
    _text("run", "the run that sent it, from whose budget it is paid"),
    _column("keys", pa.list_(pa.string()), "of the call cache, that wait for it"),
    _int("calls", "requests in it"),
    _column("input_tokens", pa.int64(), "what it will take, estimated"),
    _column("output_tokens", pa.int64(), "as above"),
    _column("cost", pa.float64(), "of that; null where the model has no price", True),
    _column("at", pa.timestamp("ms", "UTC"), "when it was sent"),
)

LEDGER = _schema(
    "ledger-4",
    CORPUS,
    ARTIFACT_ID,
    _text("stamp", "the source's change marker when the artifact was last read"),
    _text("recipe", 'what all stages were done with; "" unless all are done, so equal means current'),
    _text("artifacts", "version this stage last wrote; null while it is written, and where it failed", True),
    _text("surfaces", "as above", True),
    _text("synopses", "as above", True),
    _text("claims", 'hash of its claims; "" where none are wanted, null while they are written', True),
    _text("summary_nodes", "hash of its summary node; as above", True),
    _text("embeddings", "as above", True),
    _text("records", "as above", True),
    _text("edges", "hash of its edges; null while they are written", True),
    _text("synopsis_outcome", "ok, empty, failed, skipped by the gate or pending; empty where none is wanted"),
    _text("claims_outcome", "ok, empty where nothing is stated, failed or pending; empty where none are wanted"),
    _text("summary_nodes_outcome", "ok, empty, failed, skipped for too few claims or pending; as above"),
    _text("claims_key", 'of the call in the call cache, so that purge knows which are in use; "" without one'),
    _text("summary_nodes_key", "as above"),
    _int("refused", "claims that were found and not taken when it was last read for claims"),
    _text("decisions", 'hash of the decisions that its claims and summary node were built from; "" for none'),
    _column("bytes", pa.int64(), "size of the payload"),
    _int("n_artifacts", "rows in the table artifacts, against which losses are noticed"),
    _int("n_surfaces", "rows in the table surfaces"),
    _int("n_edges", "rows in the table edges"),
    _int("n_synopses", "rows in the table synopses"),
    _int("n_claims", "rows in the table claims"),
    _int("n_summary_nodes", "rows in the table summary_nodes"),
    _int("n_records", "rows in the table records"),
    _text("failed_stage", 'the stage that failed last, "" where none did'),
    _text("failed_kind", "the kind of failure: timeout, parse, encoding, ..."),
    _text("failed_message", "why, in one line; also why a synopsis is pending"),
    _int("failed_runs", "runs in a row in which it failed"),
    _column("updated", pa.timestamp("ms", "UTC"), "when this row was written"),
)

LEASES = _schema(
    "leases-1",
    _text("owner", "unique a lease"),
    _text("host", "the machine or container that its process is on"),
    _int("pid", "the process"),
    CORPUS,
    _column("artifact_ids", pa.list_(pa.string()), "what nobody else works on"),
    _column("expires", pa.timestamp("ms", "UTC"), "when it is dead unless it is renewed"),
)

FIXED = {
    "artifacts": ARTIFACTS,
    "surfaces": SURFACES,
    "edges": EDGES,
    "synopses": SYNOPSES,
    "claims": CLAIMS,
    "summary_nodes": SUMMARY_NODES,
    "calls": CALLS,
    "summaries": SUMMARIES,
    "embeddings": EMBEDDINGS,
    "usage": USAGE,
    "batches": BATCHES,
    "ledger": LEDGER,
    "leases": LEASES,
    "node_events": NODE_EVENTS,
    "decisions": DECISIONS,
}
"""Every table but `records`, whose vector column is as wide as the embedder's."""

IRREPLACEABLE = ("decisions",)
"""The tables that nothing can write again: they are never made anew unless somebody says so."""

PER_ARTIFACT = ("artifacts", "surfaces", "edges", "synopses", "claims", "summary_nodes", "records")
"""The tables whose rows belong to one artifact, and are counted in its ledger row."""

CACHES = ("calls", "embeddings")
"""The tables that keep what was paid for, by content."""


def records(dim: int) -> pa.Schema:
    """What the published table always has, before a column for each filter field that it ever held.

    Its vectors are of `dim` float16 numbers: half the space, and the same ranking.
    """
    return _schema(
        RECORDS_VERSION,
        _text("record_id", "hash of corpus, artifact, kind and index: the same as long as they are"),
        CORPUS,
        ARTIFACT_ID,
        _text("surface_kind", "what of the artifact it is, such as chunk, description or synopsis"),
        _int("surface_index", "place among all surfaces of the artifact; a synopsis stands at 0"),
        _text("granularity", "how much of the artifact it stands for"),
        _text("title", "the artifact's title, else its id"),
        _text("text", "what is embedded and searched"),
        _int("text_start", "where in it the surface's own text begins; what stands before is its context"),
        *SPAN,
        _text("metadata", "JSON: the surface's own, and the artifact's filter fields"),
        _text("artifact_version", "the version of the artifact that it was made from"),
        _text("producer_id", 'who wrote the text where it was generated, else ""'),
        _text("claim_id", 'what decisions know it by: of a claim or a summary node, otherwise ""'),
        _text("evidence", 'of a claim: verified, forged or none; otherwise ""'),
        _text("embedder_id", "who made the vector"),
        _column("vector", pa.list_(pa.float16(), dim), "of length 1"),
    )


RECORD_COLUMNS = frozenset(records(1).names)
"""The columns that every record has; a filter field of such a name gets none of its own."""
