"""Redaction: removal of the words of claims from synopses, summaries and cached calls.

The decision that redacts a claim carries its traces: the ids, keys and hashes of the rows that repeat its words.
`complete` removes those rows and then closes the decision. Each step can be repeated, so the next run or purge
completes a redaction whose process was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

import orjson
import pyarrow as pa

from findingaid.claims.decisions import Decision, DecisionLog
from findingaid.claims.forms import extraction_of
from findingaid.claims.model import Action, Claim, claim_id, normalise_claim
from findingaid.corpus import Corpus
from findingaid.identity.hashes import content_hash, to_json
from findingaid.model import Stage
from findingaid.store import Lease, Ledger, Store, schemas
from findingaid.store.sql import equals, one_of

Row = Mapping[str, Any]

TEXTS = ("text", "summary", "state", "payload", "metadata")
"""Columns that hold words, in the tables read here; some of them are JSON."""

AT_ONCE = 1_000

Words = Mapping[str, Sequence[str]]
"""Claim id -> its statements, normalised."""


@dataclass(slots=True)
class Traces:
    """Rows that repeat the words of one claim: artifact id -> hashes of its synopses, and keys of cached calls."""

    synopses: dict[str, list[str]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)


def redacted_claims(decisions: Iterable[Decision]) -> dict[str, str]:
    """Return the corpus of each redacted claim, by claim id."""
    return {d.claim_id: d.corpus for d in decisions if d.action is Action.REDACT}


def extractors(corpora: Iterable[Corpus]) -> set[str]:
    """Return the ids of the claim extractors of these corpora."""
    return {of.claims.extractor.id for of in corpora if of.claims}


# -- finding -------------------------------------------------------------------------------------------


def traces(
    store: Store, claims: Mapping[str, Sequence[Claim]], answering: Collection[str]
) -> dict[str, Mapping[str, Any]]:
    """Find the rows that repeat the words of claims, for the decisions that redact them; `claims` are by claim id.

    A synopsis may repeat words that its own artifact says. Cached calls of the extractors `answering` are left to
    `scrub`.
    """
    found = {i: Traces() for i in claims}
    synopses = store.rows("synopses", schemas.SYNOPSES.names)
    words = {i: [word for c in each if (word := normalise_claim(c.text))] for i, each in claims.items()}
    for corpus in {each[0].corpus for each in claims.values()}:
        summaries = store.rows("summaries", schemas.SUMMARIES.names, equals("corpus", corpus))
        own = {i: said for i, said in words.items() if claims[i][0].corpus == corpus}
        here = (row for row in chain(_rows(synopses), _rows(summaries)) if row["corpus"] == corpus)
        for row, claim in _repeating_alone(store, corpus, own, here):
            found[claim].synopses.setdefault(row["artifact_id"], []).append(_hash(row))
    for row in _rows(store.rows("calls", schemas.CALLS.names)):
        for claim in _repeated(words, row) if row["producer_id"] not in answering else ():
            found[claim].calls.append(row["key"])
    writing = synopses.select(["corpus", "artifact_id", "key"]).to_pylist()
    for i, of in found.items():
        of.calls = sorted(set(of.calls) - _kept(writing, claims[i][0].corpus, of))
    return {i: asdict(of) for i, of in found.items()}


def _rows(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table, converting few of them to Python objects at once."""
    for batch in table.to_batches(max_chunksize=AT_ONCE):
        yield from batch.to_pylist()


def _repeating_alone(store: Store, corpus: str, words: Words, rows: Iterable[Row]) -> Iterator[tuple[Row, str]]:
    """Yield each row with each claim whose words it repeats although its artifact does not say them."""
    hits = [(row, repeated) for row in rows if (repeated := _repeated(words, row))]
    ids = sorted({row["artifact_id"] for row, _ in hits})
    columns = ("artifact_id", "payload", "metadata")
    artifacts = store.lookup("artifacts", "artifact_id", ids, columns, equals("corpus", corpus)).to_pylist()
    own = {row["artifact_id"]: _repeated(words, row) for row in artifacts}
    yield from ((row, claim) for row, repeated in hits for claim in repeated - own.get(row["artifact_id"], set()))


def _kept(synopses: Iterable[Row], corpus: str, of: Traces) -> set[str]:
    """Return the keys of the calls that wrote the synopses that stay."""
    stay = {row["key"] for row in synopses if row["corpus"] != corpus or row["artifact_id"] not in of.synopses}
    return stay - {row["key"] for row in synopses if row["corpus"] == corpus and row["artifact_id"] in of.synopses}


def _repeated(words: Words, row: Row) -> set[str]:
    """Return the claims whose words a row repeats in any of its texts."""
    said = [normalise_claim(text) for name in TEXTS if row.get(name) for text in _strings(row[name])]
    return {claim for claim, of in words.items() if any(word in text for word in of for text in said)}


def _strings(text: str) -> Iterator[str]:
    """Yield a text and, if it is JSON of any shape, every string within it."""
    yield text
    try:
        left: list[Any] = [orjson.loads(text)]
    except ValueError:
        return
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            left += [*value, *value.values()]


def _hash(row: Row) -> str:
    return content_hash([row.get(name) for name in TEXTS])


# -- removing ------------------------------------------------------------------------------------------


def complete(store: Store, log: DecisionLog, answering: Collection[str], lease: Lease) -> None:
    """Remove the traces of every redaction that is not complete, and close it.

    Takes the lease on each corpus that has any, after waiting for the run that works on it.
    """
    decisions = log.all()
    if not (begun := _begun(decisions)):
        return
    scrub(store, decisions, answering)
    for decision in begun:
        remove(store, decision.corpus, decision.said, lease)
    log.close({decision.claim_id for decision in begun})


def remove(store: Store, corpus: str, found: Mapping[str, Any], lease: Lease) -> None:
    """Remove the traces of a claim, after waiting for the run that works on its corpus, if that has any."""
    of = Traces(**found)
    store.drop("calls", "key", of.calls)
    if of.synopses:
        with lease.on(corpus):
            _forget(store, corpus, of.synopses, lease)


def incomplete(store: Store, decisions: Sequence[Decision]) -> Iterator[str]:
    """Yield a line for each redaction that is not complete, and one if redacted claims are still indexed."""
    for decision in _begun(decisions):
        yield f"the redaction of claim {decision.claim_id} was interrupted: run `findingaid index`"
    gone = sorted(redacted_claims(decisions))
    if gone and (count := store.count("claims", one_of("claim_id", gone))):
        yield f"{count} redacted claims are still indexed: run `findingaid index`"


def _begun(decisions: Iterable[Decision]) -> list[Decision]:
    return [d for d in decisions if d.action is Action.REDACT and d.said]


def scrub(store: Store, decisions: Iterable[Decision], answering: Collection[str]) -> None:
    """Remove redacted claims from the cached answers of extractors, so that the calls are not paid again.

    This has to be repeated whenever an extractor may have been called since.
    """
    gone = redacted_claims(decisions)
    if not gone or not answering:
        return
    rows = store.rows("calls", schemas.CALLS.names, one_of("producer_id", sorted(answering))).to_pylist()
    cleaned = {row["key"]: row | {"text": text} for row in rows if (text := _without(row["text"], gone)) != row["text"]}
    store.update("calls", "key", pa.Table.from_pylist(list(cleaned.values()), schema=schemas.CALLS))


def _without(text: str, gone: Mapping[str, str]) -> str:
    """Return an extractor's answer without redacted claims; unchanged if it has none or is not an extraction."""
    try:
        said = extraction_of(text)
    except ValueError:
        return text
    corpora = set(gone.values())
    kept = [s for s in said.statements if not any(claim_id(corpus, s.text) in gone for corpus in corpora)]
    return text if len(kept) == len(said.statements) else to_json(asdict(replace(said, statements=kept)))


def _forget(store: Store, corpus: str, hashes: Mapping[str, Collection[str]], lease: Lease) -> None:
    """Remove the synopses with these hashes, by artifact id; the next run writes them again."""

    def traced(row: Row) -> bool:
        return _hash(row) in hashes[row["artifact_id"]]

    where = equals("corpus", corpus)
    rows = store.lookup("synopses", "artifact_id", sorted(hashes), schemas.SYNOPSES.names, where).to_pylist()
    blank = [row | {"key": "", "text": "", "state": None} for row in rows if traced(row)]
    ids = [row["artifact_id"] for row in blank]
    lease.check()
    if ids:
        marked = Ledger(store).rows(corpus, ids).values()
        Ledger(store).put(corpus, [row.writing([Stage.SYNOPSES, Stage.RECORDS]) for row in marked])
        store.replace("synopses", corpus, ids, pa.Table.from_pylist(blank, schema=schemas.SYNOPSES))
    _forget_summaries(store, corpus, sorted(hashes), traced)


def _forget_summaries(store: Store, corpus: str, artifact_ids: Sequence[str], traced: Callable[[Row], bool]) -> None:
    """Remove the earlier anchored summaries that are traced."""
    columns = schemas.SUMMARIES.names
    rows = store.lookup("summaries", "artifact_id", artifact_ids, columns, equals("corpus", corpus)).to_pylist()
    changed = {row["artifact_id"] for row in rows if traced(row)}
    if changed:
        kept = [row for row in rows if row["artifact_id"] in changed and not traced(row)]
        store.replace("summaries", corpus, sorted(changed), pa.Table.from_pylist(kept, schema=schemas.SUMMARIES))
