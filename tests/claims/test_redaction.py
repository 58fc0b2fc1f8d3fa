"""A redaction is complete or reported, for any texts in the tables and wherever its process is killed."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from findingaid import Corpus, FindingAid, StoreError, Synthesizer
from findingaid.claims.model import claim_id
from findingaid.claims.redaction import traces
from findingaid.corpus import Claiming
from findingaid.store import Store, schemas
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.testing import CountingEmbedder, MemorySource
from tests.claims.test_review_end_to_end import SECRET, Gossips, Says, says
from tests.conftest import Cli, ReadyMade, text_about
from tests.support.claims import claim
from tests.support.programs import run_program

CLAIM = claim_id("docs", SECRET)


# Redacts in a process of its own, which dies right after the Nth of its commits.
CHILD = """
import os, signal
from findingaid.store import Store
from tests.claims.test_redaction import CLAIM, aid_of

steps = 0

def dying(method):
    def call(store, table, *arguments, **named):
        global steps
        result = method(store, table, *arguments, **named)
        if table != "leases":
            steps += 1
            if steps == {die_after}:
                os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call

Store.change = dying(Store.change)
aid_of({store!r}).claims.redact(CLAIM, actor="ann", reason="names a person")
print(steps)
"""


def aid_of(store: str, secret: str = SECRET, synthesizer: Synthesizer | None = None) -> FindingAid:
    """Two artifacts, a claim of one of them, and a synopsis that repeats it."""
    texts = {f"{topic}.md": text_about(topic) for topic in ("ledger", "reader")}
    strategy = with_synopsis(Chunked(chunk_size=200, overlap=0), synthesizer or Gossips(secret), context=True)
    extractor = Says([says("ledger", SECRET), says("reader", "Readers are many.")])
    corpus = Corpus("docs", MemorySource(texts), strategy, claims=Claiming(extractor))
    return FindingAid(Store(store), CountingEmbedder(), {"docs": corpus})


@pytest.fixture
def built(tmp_path: Path, ready_made: ReadyMade) -> FindingAid:
    """An index in which the words are also in a cached call of an earlier text, and in an earlier summary."""
    aid = aid_of(str(tmp_path / "index"))
    ready_made("words to redact", lambda: build(aid))
    return aid


def build(aid: FindingAid) -> None:
    aid.index()
    remember_call(aid.store, "earlier", json.dumps({"points": [f"It is known: {SECRET.upper()}"]}))
    summary = {
        "corpus": "docs", "artifact_id": "reader.md", "iteration": 1, "segments": 1, "covers": "",
        "summary": json.dumps([SECRET]), "producer_id": "gossips", "at": datetime.now(UTC),
    }  # fmt: skip
    aid.store.append("summaries", pa.Table.from_pylist([summary], schema=schemas.SUMMARIES))


def remember_call(store: Store, key: str, text: str, producer: str = "gossips", state: str | None = None) -> None:
    row = {"key": key, "producer_id": producer, "outcome": "ok", "text": text, "state": state}
    store.append("calls", pa.Table.from_pylist([row], schema=schemas.CALLS))


def redact_and_die(store: Path, after: int) -> subprocess.CompletedProcess[str]:
    return run_program(CHILD.format(die_after=after, store=str(store)))


def tables_with(store: Store, words: str) -> set[str]:
    """The tables whose newest version has the words in any text."""
    names = ("synopses", "summaries", "calls", "claims", "records", "decisions", "summary_nodes")
    return {name for name in names if words in str(store.rows(name, store.dataset(name).schema.names).to_pylist())}


def files_with(folder: Path, word: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


def assert_completed_by_the_next_run(store: Path) -> None:
    """The next run leaves the words nowhere, a purge takes them from disk, and no extractor is paid again."""
    aid = aid_of(str(store), secret="")
    aid.index()
    after = tables_with(aid.store, "Zebedee"), aid.verify()
    aid.purge()

    extractor = aid.corpora["docs"].claims.extractor  # type: ignore[union-attr]
    assert after == (set(), [])
    assert files_with(store, "Zebedee") + files_with(store, "ZEBEDEE") == []
    assert extractor.asked == []  # type: ignore[attr-defined]
    assert aid.verify() == []
    assert [d.action for d in aid.claims.history()] == ["redact"]


def test_a_redaction_that_was_killed_is_named_by_verify_and_completed_by_the_next_run(
    built: FindingAid, tmp_path: Path
) -> None:
    """Its decision holds no word of what it redacts, and the chain holds before and after."""
    died = redact_and_die(tmp_path / "index", after=1)

    aid = aid_of(str(tmp_path / "index"), secret="")
    assert died.returncode == -signal.SIGKILL
    assert tables_with(aid.store, "Zebedee") >= {"synopses", "calls", "claims", "records"}
    problems = aid.verify()
    assert f"the redaction of claim {CLAIM} was interrupted: run `findingaid index`" in problems
    assert [line for line in problems if "decision" in line] == []
    (begun,) = aid.claims.history()
    assert begun.said.keys() == {"synopses", "calls"}
    assert "zebedee" not in str(begun).lower()

    assert_completed_by_the_next_run(tmp_path / "index")
    (done,) = aid.claims.history()
    assert (done.details, done.hash) == (None, begun.hash)


def test_a_redaction_removes_the_words_at_once_from_all_that_no_run_writes_again(
    built: FindingAid, tmp_path: Path
) -> None:
    """Also from cached calls of earlier texts, and from earlier summaries; the rest is named until it is written."""
    aid = built

    aid.claims.redact(CLAIM, reason="names a person")

    assert tables_with(aid.store, "Zebedee") == {"claims", "records"}
    assert "1 redacted claims are still indexed: run `findingaid index`" in aid.verify()
    with pytest.raises(StoreError, match="not purged: 1 redacted claims are still indexed"):
        aid.purge()
    assert aid.claims.history()[0].to_dict()["details"] == {}
    assert_completed_by_the_next_run(tmp_path / "index")


def test_an_imported_redaction_removes_the_words_that_this_store_has_too(built: FindingAid, tmp_path: Path) -> None:
    """Also a redaction that the other store has completed, whose decision does not say what to remove."""
    shutil.copytree(tmp_path / "index", tmp_path / "other")
    other = aid_of(str(tmp_path / "other"))
    other.claims.approve(CLAIM, actor="ann", reason="Zebedee said so")
    assert built.claims.import_log(other.claims.history()) == 1
    other.claims.redact(CLAIM, reason="names a person")

    assert built.claims.import_log(other.claims.history()) == 1

    assert tables_with(built.store, "Zebedee") == {"claims", "records"}
    aid = aid_of(str(tmp_path / "index"), secret="")
    aid.index()
    aid.purge()
    assert files_with(tmp_path / "index", "Zebedee") == []
    assert (aid.verify(), aid.claims.import_log(other.claims.history())) == ([], 0)


def test_a_purge_waits_for_the_run_that_writes_the_synopsis_anew(tmp_path: Path) -> None:
    """Also where the claim itself was never indexed, so that its words are in records of a synopsis alone."""
    aid = aid_of(str(tmp_path / "index"))
    aid.index()
    aid.claims.redact(CLAIM, reason="names a person")
    aid.store.replace("claims", "docs", ["ledger.md"], schemas.CLAIMS.empty_table())
    ledger = aid.indexer("docs").ledger
    row = ledger.rows("docs", ["ledger.md"])["ledger.md"]
    ledger.put("docs", [type(row)(**{**{n: getattr(row, n) for n in row.__slots__}, "n_claims": 0})])

    with pytest.raises(StoreError, match=r"1 artifacts whose records are not rewritten: docs/ledger.md: run"):
        aid.purge()


def test_a_synopsis_may_say_what_its_artifact_says_itself(tmp_path: Path) -> None:
    own = "The reader is described here in a sentence that is long enough to stand for itself."
    aid = aid_of(str(tmp_path / "index"), secret="")
    aid.corpora["docs"].strategy.synthesizer.secret = own  # type: ignore[attr-defined]
    aid.index()

    found = traces(aid.store, {"c": [claim(own, "reader.md")]}, {"says"})

    assert set(found["c"]["synopses"]) == {"ledger.md"}


STATEMENTS = "The API answers with a list of sentences like this one, which is long enough to be said."


def test_a_document_that_looks_like_an_answer_of_an_extractor_breaks_nothing(cli: Cli) -> None:
    """Its synopsis is JSON with statements, which are texts where an extractor's are mappings."""
    cli.settings["corpora"]["docs"] |= {"claims": True, "synopsis": True}
    cli.write("api.md", json.dumps({"statements": [STATEMENTS]}))
    cli.write("ledger.md", text_about("ledger"))
    cli.run("index")
    wanted = next(c["claim_id"] for c in cli.json("claims", "list"))

    runs = [cli.run("claims", "redact", wanted, "--reason", "n"), cli.run("index")]
    (cli.docs / "api.md").unlink()
    runs += [cli.run("index", "--allow-loss"), cli.run("purge"), cli.run("verify")]

    assert [(run.exit_code, run.exception) for run in runs] == [(0, None)] * 5


SHAPES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.just(SECRET),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["statements", "text", "refused", "covered", "points", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
TEXTS = st.one_of(
    SHAPES.map(json.dumps), st.text(), st.sampled_from(["[" * 20_000, '{"statements":' * 5_000, "NaN", "1" * 5_000])
)


@dataclass
class Repeats:
    """Writes the same synopsis for every artifact."""

    text: str
    id: str = "repeats"

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        return self.text


def storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@pytest.mark.slow
def test_no_text_of_any_shape_breaks_a_redaction_a_run_or_a_purge(tmp_path: Path) -> None:
    """In synopses, their states, cached calls of every producer, and earlier summaries."""
    place = iter(range(10_000))

    @given(st.lists(TEXTS.filter(storable), min_size=4, max_size=4))
    @settings(max_examples=12, derandomize=True)
    def breaks_nothing(texts: list[str]) -> None:
        store = tmp_path / f"index{next(place)}"
        aid = aid_of(str(store), synthesizer=Repeats(texts[0]))
        aid.index()
        synopsis = aid.store.rows("synopses", schemas.SYNOPSES.names).to_pylist()
        spoilt = [row | {"state": texts[1]} for row in synopsis]
        aid.store.replace(
            "synopses", "docs", ["ledger.md", "reader.md"], pa.Table.from_pylist(spoilt, schema=schemas.SYNOPSES)
        )
        remember_call(aid.store, "one", texts[2], "says", texts[1])
        remember_call(aid.store, "other", texts[2], "gossips", texts[3])
        summary: dict[str, Any] = {
            "corpus": "docs", "artifact_id": "ledger.md", "iteration": 1, "segments": 1, "covers": "",
            "summary": texts[3], "producer_id": "gossips", "at": datetime.now(UTC),
        }  # fmt: skip
        aid.store.append("summaries", pa.Table.from_pylist([summary], schema=schemas.SUMMARIES))

        aid.claims.redact(CLAIM, reason="names a person")
        aid = aid_of(str(store), synthesizer=Repeats(texts[0]))
        aid.index()
        aid.purge()

        assert aid.verify() == []
        assert files_with(store, "Zebedee") == []

    breaks_nothing()
