"""Schemas of the tables.

Raise the version of a schema when it changes. Readers refuse records of another version by name, and the next run makes
such a table anew. What that costs differs:

- Rows of PER_ARTIFACT, `ledger` and `skipped` are written again from the sources and the caches, without a paid call.
- CACHES, `summaries` and `batches` hold what was paid for: a change pays again, and the changelog has to say so.
- `usage` and `node_events` lose their history.
- A table of IRREPLACEABLE is refused. Its change has to come with code that reads the rows of before.

`tests/data/stores` has a store of each release; `tests/store/test_releases.py` opens them all with the code of now.
"""

from __future__ import annotations

import pyarrow as pa

from findingaid._version import __version__
from findingaid.identity.hashes import content_hash

VERSION_KEY = b"findingaid.schema"
DESCRIPTION_KEY = b"description"

WRITER_KEY = "findingaid.version"
"""Key of the version of findingaid that made a table; of the ledger, of the one that last ran."""

RECORDS_VERSION = "records-9"
"""Part of every records version. Raising it assembles all records again, without a model call."""


def description(field: pa.Field) -> str:
    """Return the description of a column."""
    return str((field.metadata or {}).get(DESCRIPTION_KEY, b""), "utf-8")


def _schema(version: str, *fields: pa.Field) -> pa.Schema:
    return pa.schema(fields, metadata={VERSION_KEY: version.encode(), WRITER_KEY.encode(): __version__.encode()})


def _column(name: str, kind: pa.DataType, about: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable, metadata={DESCRIPTION_KEY: about.encode()})


def _text(name: str, about: str, nullable: bool = False) -> pa.Field:
    return _column(name, pa.string(), about, nullable)


def _int(name: str, about: str, nullable: bool = False) -> pa.Field:
    return _column(name, pa.int32(), about, nullable)


CORPUS = _text("corpus", "corpus, as named in the configuration")
ARTIFACT_ID = _text("artifact_id", "id of the artifact within its corpus")
SPAN = (
    _int("span_start", "first character of the text in its artifact; null if the text is composed", True),
    _int("span_end", "character after the last", True),
)
READERS = _text("readers", "who may read its artifact, see `findingaid.access`")
STATE = _text(
    "state",
    "JSON: state from which the synthesizer continues when the artifact grows; null if it does not continue",
    True,
)

ARTIFACTS = _schema(
    "artifacts-2",
    CORPUS,
    ARTIFACT_ID,
    READERS,
    _text("version", "hash of payload and metadata"),
    _column("payload", pa.large_string(), "text, or a mapping as JSON"),
    _column("is_text", pa.bool_(), "whether the payload is text"),
    _text("metadata", "JSON: values that can become filter fields"),
)

SURFACES = _schema(
    "surfaces-1",
    CORPUS,
    ARTIFACT_ID,
    _int("position", "position in the strategy's plan, not counting a synopsis"),
    _text("kind", "kind of surface, such as chunk or description"),
    _text("granularity", "extent of the artifact that it covers, such as chunk"),
    _text("text", "text as it is in the artifact"),
    _text("text_hash", "hash of the text"),
    *SPAN,
    _text("metadata", "JSON: metadata of the surface"),
)

EDGES = _schema(
    "edges-2",
    CORPUS,
    ARTIFACT_ID,
    READERS,
    _int("position", "position among the artifact's edges"),
    _text("kind", "kind of edge: REF, PARENT, LINK or a kind that an extractor defines"),
    _text("target_corpus", "corpus of the referenced artifact"),
    _text("target_id", "id of the referenced artifact, which may not exist"),
    _text("section", 'anchor of one of its headings; "" for the whole artifact'),
    _int("span_start", "first character of the reference in the text; null if the reference is not in the text", True),
    _int("span_end", "character after the last", True),
)

CLAIMS = _schema(
    "claims-2",
    CORPUS,
    ARTIFACT_ID,
    READERS,
    _int("position", "position among the artifact's claims"),
    _text("claim_id", "hash of the corpus and the words of the statement"),
    _text("text", "statement"),
    _text("type", "kind of statement: fact, decision, requirement, ..."),
    _column("confidence", pa.float32(), "confidence of the extractor, from 0 to 1"),
    _column("entities", pa.list_(pa.string()), "people, things and topics that it is about"),
    _text("quote", "passage that supports it, as in the artifact"),
    *SPAN,
    _text("evidence", "verified, forged if the quote is not in the artifact, or none"),
    _column("verbatim", pa.bool_(), "whether the statement repeats the quote word for word"),
    _text("artifact_version", "version of the quoted artifact"),
    _text("producer_id", "extractor that found it, or person who proposed it"),
)

SUMMARY_NODES = _schema(
    "summary_nodes-2",
    CORPUS,
    ARTIFACT_ID,
    READERS,
    _text("node_id", "hash of the artifact, the members and the producer"),
    _text("bullets", "JSON: list of [text, ids of the supporting claims]"),
    _column("themes", pa.list_(pa.string()), "topics of the artifact"),
    _column("confidence", pa.float32(), "confidence of the producer, from 0 to 1"),
    _column("members", pa.list_(pa.string()), "ids of all claims that it summarizes"),
    _text("producer_id", "producer that wrote it"),
)

NODE_EVENTS = _schema(
    "node_events-1",
    CORPUS,
    ARTIFACT_ID,
    _text("event", "SUMMARY_CREATED or SUMMARY_SUPERSEDED"),
    _text("node_id", "id of the summary node"),
    _text("by", 'id of the node that superseded it; "" if none did, and for a created node'),
    _column("members", pa.list_(pa.string()), "ids of the claims that it summarized"),
    _text("producer_id", "producer that wrote it"),
    _column("at", pa.timestamp("ms", "UTC"), "when"),
)

DECISIONS = _schema(
    "decisions-1",
    _column("seq", pa.int64(), "position in the log, from 1"),
    _column("at", pa.timestamp("ms", "UTC"), "time of the decision"),
    _text("actor", "person or program that decided"),
    _text("action", "propose, approve, reject, contest, supersede, archive, restore, redact or undo"),
    CORPUS,
    _text("claim_id", "id of the claim"),
    _text("other_id", 'id of the claim that contests or supersedes it, else ""'),
    ARTIFACT_ID,
    _text("truth", "truth level of an approved claim, else empty"),
    _text("reason", "reason, in the actor's words; null after a redaction", True),
    _text("text", "statement at the time of the decision; null after a redaction", True),
    _text("quote", "passage that it quoted; null after a redaction", True),
    _text(
        "details",
        "JSON: other properties of the claim, and for a link the other claim; null after a redaction. For an undo, the"
        " number of the decision. For a redaction, the data to remove; null when it is complete",
        True,
    ),
    _text("digests", "JSON: hashes of the columns that can be redacted, which the chain includes"),
    _text("previous", "hash of the previous decision"),
    _text("hash", "hash of all columns above except those that can be redacted"),
)

SYNOPSES = _schema(
    "synopses-2",
    CORPUS,
    ARTIFACT_ID,
    _text("key", "key of the call in the call cache, so that purge knows which are in use"),
    _text("outcome", "ok, empty if there is nothing to say, or failed or pending with the text of a fallback"),
    _text("text", "text of the synopsis"),
    _text("producer_id", "synthesizer that wrote it"),
    STATE,
)

CALLS = _schema(
    "calls-2",
    _text("key", "hash of producer id and input"),
    _text("producer_id", "synthesizer that was called"),
    _text("outcome", "ok or empty; failures are not cached"),
    _text("text", "text that it wrote"),
    STATE,
)

SUMMARIES = _schema(
    "summaries-1",
    CORPUS,
    ARTIFACT_ID,
    _int("iteration", "number of times that the summary was extended"),
    _int("segments", "number of turns, or parts of long turns, that it covers"),
    _text("covers", "hash of the turns, so that purge knows whether they still exist"),
    _text("summary", "JSON: its sections, with the turns that each point cites"),
    _text("producer_id", "synthesizer that wrote it"),
    _column("at", pa.timestamp("ms", "UTC"), "time at which it became the synopsis"),
)

USAGE = _schema(
    "usage-1",
    _text("run", "run that paid for it"),
    CORPUS,
    _text("model", "model as named in prices, or id of the synthesizer"),
    _text("producer_id", "synthesizer"),
    _int("calls", "answered requests"),
    _column("input_tokens", pa.int64(), "tokens, as counted by the endpoint"),
    _column("output_tokens", pa.int64(), "as above"),
    _column("cost", pa.float64(), "cost at the prices of that time; null if the model had no price", True),
    _text(
        "stopped", "reason why the synthesizer is not called again in this run; null in rows that record usage", True
    ),
    _column("at", pa.timestamp("ms", "UTC"), "time of use, or of sending the batch"),
)

EMBEDDINGS = _schema(
    "embeddings-1",
    _text("key", "hash of embedder id and text"),
    _text("producer_id", "embedder"),
    _column(
        "vector", pa.list_(pa.float16()), "vector of any length, since models of several dimensions share the cache"
    ),
)

KNOWN_TEXT = "The ferry to the island leaves at nine."
"""Text of which the cache keeps a vector for each embedder at an endpoint, to notice another model there."""

BATCHES = _schema(
    "batches-1",
    _text("tag", "hash of the keys, by which the batch is found at the endpoint"),
    _text("batch_id", 'id at the endpoint; "" before it is sent, and a second row after'),
    CORPUS,
    _text("producer_id", "synthesizer that is called"),
    _text("run", "run that sent it, whose budget pays for it"),
    _column("keys", pa.list_(pa.string()), "keys of the call cache that wait for it"),
    _int("calls", "number of requests"),
    _column("input_tokens", pa.int64(), "estimated tokens"),
    _column("output_tokens", pa.int64(), "as above"),
    _column("cost", pa.float64(), "estimated cost; null if the model has no price", True),
    _column("at", pa.timestamp("ms", "UTC"), "time at which it was sent"),
)

PER_ARTIFACT = ("artifacts", "surfaces", "edges", "synopses", "claims", "summary_nodes", "records")
"""Tables whose rows belong to one artifact each, and are counted in its ledger row."""

LEDGER = _schema(
    "ledger-8",
    CORPUS,
    ARTIFACT_ID,
    READERS,
    _text("access", 'access rules by which these are its readers; "" without any'),
    _text("stamp", "change marker of the source when the artifact was last read"),
    _column(
        "changed",
        pa.timestamp("ms", "UTC"),
        "time of its last change, as its source tells it, else when a run first read this version; null before that",
        True,
    ),
    _text(
        "recipe", 'recipe with which all stages were finished, so that an equal one means current; "" unless all are'
    ),
    _text("artifacts", "version that this stage last wrote; null while writing, and after a failure", True),
    _text("surfaces", "as above", True),
    _text("synopses", "as above", True),
    _text("claims", 'hash of its claims; "" if the corpus has none, null while writing', True),
    _text("summary_nodes", 'hash of its summary node; "" if the corpus has none, null while writing', True),
    _text("embeddings", "as above", True),
    _text("records", "as above", True),
    _text("edges", "hash of its edges; null while writing", True),
    _text("synopsis_outcome", "ok, empty, failed, skipped by the gate or pending; blank if the corpus has no synopses"),
    _text("claims_outcome", "ok, empty if nothing is stated, failed or pending; blank if the corpus has no claims"),
    _text(
        "summary_nodes_outcome",
        "ok, empty, failed, skipped for too few claims or pending; blank if the corpus has no nodes",
    ),
    _text("claims_key", 'key of the call in the call cache, so that purge knows which are in use; "" without one'),
    _text("summary_nodes_key", "as above"),
    _int("refused", "number of claims refused at the last extraction"),
    _text("decisions", 'hash of the decisions that its claims and summary node were built from; "" for none'),
    _column("bytes", pa.int64(), "size of the payload"),
    *(_int(f"n_{table}", f"rows in the table {table}, by which losses are noticed") for table in PER_ARTIFACT),
    *(
        _column(
            f"v_{table}", pa.int64(), f"version of the table {table} with its rows, by which an older copy is noticed"
        )
        for table in PER_ARTIFACT
    ),
    _text("failed_stage", 'stage that failed last; "" if none did'),
    _text("failed_kind", "kind of failure: timeout, parse, encoding, ..."),
    _text("failed_message", "reason in one line; also the reason why a synopsis is pending"),
    _int("failed_runs", "number of consecutive tries that failed"),
    _text("failed_key", "hash of what the failure, or the waiting, depends on: stamp, settings and versions"),
    _int("retry_in", "runs until the next try with the same failed_key; 0 for none"),
    _text("notes", "JSON: what the source guessed or left out, see `Note`"),
    _column("updated", pa.timestamp("ms", "UTC"), "time at which this row was written"),
)

SKIPPED = _schema(
    "skipped-1",
    CORPUS,
    ARTIFACT_ID,
    _text("stamp", "change marker of the source when the artifact was last read"),
    _text("reason", "why the source skips it, such as: not text"),
)

LEASES = _schema(
    "leases-2",
    _text("owner", "unique id of the lease"),
    _text("host", "machine or container of its process"),
    _int("pid", "process id"),
    _text("name", "corpus that no other run works on, or the name of a lock, which starts with an asterisk"),
    _text("run", "run whose other processes may work on the corpus too; empty if it has none"),
    _text("part", "first artifact of the part of the corpus that this process works on; empty for all of it"),
    _text("made_with", "embedder and table schemas of the run"),
    _column("expires", pa.timestamp("ms", "UTC"), "time at which it expires unless it is renewed"),
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
    "skipped": SKIPPED,
    "leases": LEASES,
    "node_events": NODE_EVENTS,
    "decisions": DECISIONS,
}
"""Every table but `records`, whose schema depends on the dimension of the embedder."""

IRREPLACEABLE = ("decisions",)
"""Tables that no run can write again: they are never recreated unless the user allows it."""

WITH_READERS = ("artifacts", "edges", "claims", "summary_nodes", "records")
"""Those of PER_ARTIFACT whose rows name the readers of their artifact."""

OF_ARTIFACTS = ("ledger", "skipped", "summaries", "node_events")
"""Other tables that a run writes while it holds the lease of a corpus."""

OF_RECORDS = ("artifacts", "edges", "claims", "summary_nodes", "summaries", "node_events")
"""Tables that readers open beside the records, each in the version that belongs to the published records."""

CACHES = ("calls", "embeddings")
"""Tables that cache paid results by content."""


def records(dim: int) -> pa.Schema:
    """Return the fixed columns of the published table; columns for filter fields follow them.

    Vectors have `dim` float16 numbers, which take half the space of float32 and rank the same.
    """
    return _schema(
        RECORDS_VERSION,
        _text("record_id", "hash of corpus, artifact, kind and index"),
        CORPUS,
        ARTIFACT_ID,
        READERS,
        _text("surface_kind", "kind of surface, such as chunk, description or synopsis"),
        _int("surface_index", "position among all surfaces of the artifact; a synopsis has position 0"),
        _text("granularity", "extent of the artifact that it covers, such as chunk"),
        _text("title", "title of the artifact, else its id"),
        _text("text", "text that is embedded and searched: with its context, and without noise"),
        _text("lexical", "words of `text` in one form, and other forms of them, for the full-text index"),
        _text("shown", "text of the surface itself, which hits show; null if it is `text`", True),
        *SPAN,
        _text("metadata", "JSON: metadata of the surface, and filter fields of the artifact"),
        _text("artifact_version", "version of the artifact that it was made from"),
        _text("producer_id", 'producer of a generated text, else ""'),
        _text("claim_id", 'id of the claim or summary node, to which decisions refer; else ""'),
        _text("evidence", 'evidence of a claim: verified, forged or none; else ""'),
        _text("embedder_id", "embedder that made the vector"),
        _column("vector", pa.list_(pa.float16(), dim), "vector of length 1"),
    )


def records_problem(schema: pa.Schema) -> str:
    """Return why records with this schema cannot be read; "" if they can."""
    made = (schema.metadata or {}).get(VERSION_KEY, b"none").decode()
    if made == RECORDS_VERSION:
        return ""
    return f"records of schema {made}, this version of findingaid reads {RECORDS_VERSION}"


EDITION = content_hash(RECORDS_VERSION, *(schema.metadata[VERSION_KEY].decode() for schema in FIXED.values()))[:8]
"""Id of the schemas of all tables, which tells apart versions of findingaid with different tables."""

RECORD_COLUMNS = frozenset(records(1).names)
"""Columns that every record has; a filter field with such a name gets no column."""
