"""Freshness of what was found, decided by the source at the moment of the question."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest

from findingaid import Corpus, FindingAid
from findingaid.embedding.hashing import HashEmbedder
from findingaid.errors import QueryError
from findingaid.model import Artifact, Discovery
from findingaid.query.lookup.freshness import NO_STAMPS, NOT_IN_TIME, OUT_OF_REACH, RACY
from findingaid.request_limits import within
from findingaid.sources.files import Files
from findingaid.sources.records import RecordFile
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import MemorySource
from tests.conftest import Cli, ReadyMade, text_about
from tests.support.listings import listing_by_time

EARLIER = time.time() - 60
"""Time of files that are settled: an equal stamp means an equal payload."""

STAYS = "Ledgers are never rewritten after they were closed."


class CountingFiles(Files):
    """Files that record which artifacts are read."""

    reads: list[str] = []  # noqa: RUF012  # shared on purpose: the class is frozen

    def read(self, artifact_id: str) -> Artifact:
        self.reads.append(artifact_id)
        return super().read(artifact_id)

    def discover(self) -> Discovery:
        raise AssertionError("a check of freshness lists nothing")


def put(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, (EARLIER, EARLIER))


@pytest.fixture
def aid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ready_made: ReadyMade) -> FindingAid:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("ledger", "vector", "reader"):
        put(docs / f"{name}.md", text_about(name))
    rows = [{"id": name, "text": text_about(name)} for name in ("writer", "index")]
    (tmp_path / "rows.jsonl").write_text("".join(map("{}\n".format, map(json.dumps, rows))))
    monkeypatch.setattr("findingaid.sources.files.RACY_NANOSECONDS", 0)  # what is written here counts as settled
    monkeypatch.setattr("findingaid.sources.files._listing", listing_by_time)
    corpora = {
        "docs": Corpus("docs", Files(docs), Chunked()),
        "rows": Corpus("rows", RecordFile(tmp_path / "rows.jsonl", text="text"), Chunked()),
        "memory": Corpus("memory", MemorySource({"m.md": text_about("memory")}), Chunked()),
    }
    store = str(tmp_path / "index")
    ready_made("freshness", lambda: FindingAid(Store(store), HashEmbedder(), corpora, retain=2).index())
    return FindingAid(Store(store), HashEmbedder(), corpora, retain=2)


def hits(aid: FindingAid, fresh: object = True) -> dict[str, tuple[str | None, str]]:
    found = aid.search("ledger vector reader writer", 20, corpora=["docs", "rows"], fresh=fresh)  # type: ignore[arg-type]
    return {hit.artifact_id: (hit.fresh, hit.fresh_note) for hit in found}


def test_a_hit_says_nothing_of_freshness_unless_asked(aid: FindingAid) -> None:
    assert set(hits(aid, False).values()) == {(None, "")}
    assert aid.search("ledger").fresh_seconds is None


def test_hits_of_an_unchanged_source_are_current(aid: FindingAid) -> None:
    assert set(hits(aid).values()) == {("current", "")}


def test_a_changed_file_is_changed_since_its_last_write_and_a_deleted_one_gone(aid: FindingAid, tmp_path: Path) -> None:
    (tmp_path / "docs" / "ledger.md").write_text("# Another\n")
    (tmp_path / "docs" / "vector.md").unlink()

    found = hits(aid)
    assert found["ledger.md"][0] == "changed"
    assert re.fullmatch(r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", found["ledger.md"][1])
    assert found["vector.md"] == ("gone", "")
    assert found["reader.md"] == found["writer"] == ("current", "")


def test_an_edit_that_is_indexed_is_current_again(aid: FindingAid, tmp_path: Path) -> None:
    put(tmp_path / "docs" / "ledger.md", text_about("ledger", "writer"))
    assert hits(aid)["ledger.md"][0] == "changed"
    aid.index()
    assert hits(aid)["ledger.md"] == ("current", "")


def test_after_a_rollback_what_was_indexed_since_is_changed(aid: FindingAid, tmp_path: Path) -> None:
    put(tmp_path / "docs" / "ledger.md", "# Another\n")
    aid.index()
    aid.rollback()

    assert hits(aid)["ledger.md"][0] == "changed"
    assert hits(aid, "verify")["ledger.md"][1].endswith("; its text is no longer there")
    assert hits(aid)["reader.md"][0] == "current"


def test_a_row_of_a_file_is_compared_by_its_values(aid: FindingAid, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": "writer", "text": "Another."}) + "\n")

    check = aid.freshness([("rows", "writer"), ("rows", "index")])
    assert check.found["rows", "writer"].fresh == "changed"
    assert check.found["rows", "writer"].note.startswith("after ")
    assert check.found["rows", "index"].fresh == "gone"


def test_the_check_reads_and_lists_nothing_and_verify_reads_exactly_what_was_found(
    aid: FindingAid, tmp_path: Path
) -> None:
    counting = CountingFiles(tmp_path / "docs")
    counting.reads.clear()
    corpora = {"docs": Corpus("docs", counting, Chunked())}
    aid = FindingAid(aid.store, aid.embedder, corpora)

    (hit,) = aid.search("ledger", 1, mode="lexical", fresh=True)
    assert (hit.fresh, counting.reads) == ("current", [])
    (hit,) = aid.search("ledger", 1, mode="lexical", fresh="verify")
    assert (hit.fresh, counting.reads) == ("current", ["ledger.md"])


def test_verify_says_whether_the_text_is_still_there(aid: FindingAid, tmp_path: Path) -> None:
    (tmp_path / "docs" / "ledger.md").write_text("Put before.\n\n" + text_about("ledger"))
    (tmp_path / "docs" / "vector.md").write_text("# Another\n")

    found = hits(aid, "verify")
    assert found["ledger.md"][1].endswith(" UTC; its text is still there")
    assert found["vector.md"][1].endswith(" UTC; its text is no longer there")
    assert found["reader.md"] == ("current", "")


def test_after_the_deadline_of_the_request_nothing_is_read(aid: FindingAid) -> None:
    with within(0):
        assert set(hits(aid, "verify").values()) == {("unknown", NOT_IN_TIME)}
    with within(60):
        assert set(hits(aid, "verify").values()) == {("current", "")}


def test_a_file_that_was_only_touched_is_current_when_verified(aid: FindingAid, tmp_path: Path) -> None:
    os.utime(tmp_path / "docs" / "ledger.md")

    assert hits(aid)["ledger.md"][0] == "changed"
    assert hits(aid, "verify")["ledger.md"] == ("current", "")


def test_a_source_out_of_reach_makes_nothing_gone(aid: FindingAid, tmp_path: Path) -> None:
    shutil.move(tmp_path / "docs", tmp_path / "unmounted")

    assert hits(aid)["ledger.md"] == ("unknown", OUT_OF_REACH)
    assert hits(aid)["writer"][0] == "current"


def test_a_source_without_stamps_of_single_artifacts_is_unknown_until_it_is_read(aid: FindingAid) -> None:
    key = ("memory", "m.md")
    assert (aid.freshness([key]).found[key].fresh, aid.freshness([key]).found[key].note) == ("unknown", NO_STAMPS)
    assert aid.freshness([key], "verify").found[key].fresh == "current"


def test_a_file_that_was_indexed_as_it_was_written_is_unknown(
    aid: FindingAid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("findingaid.sources.files.RACY_NANOSECONDS", 60_000_000_000)
    (tmp_path / "docs" / "ledger.md").write_text(text_about("ledger", "writer"))
    aid.index()

    assert hits(aid)["ledger.md"] == ("unknown", RACY)
    assert hits(aid, "verify")["ledger.md"] == ("current", "")


def test_another_word_than_verify_is_an_error(aid: FindingAid) -> None:
    with pytest.raises(QueryError, match="fresh: expected true, false or 'verify', got 'yes'"):
        aid.search("ledger", fresh="yes")  # type: ignore[arg-type]


def test_what_is_shown_says_whether_it_is_current(aid: FindingAid, tmp_path: Path) -> None:
    (tmp_path / "docs" / "ledger.md").write_text("# Another\n")

    assert aid.show("ledger.md", "docs", fresh=True).fresh == "changed"
    assert aid.read("reader.md", "docs", fresh=True).fresh == "current"
    assert aid.disclose("ledger.md", "body", "docs", fresh="verify").fresh == "changed"
    assert "fresh" not in aid.disclose("ledger.md", "body", "docs").to_dict()


def test_a_pack_marks_the_pieces_whose_source_changed_within_its_budget(aid: FindingAid, tmp_path: Path) -> None:
    (tmp_path / "docs" / "ledger.md").write_text("# Another\n")

    pack = aid.context("ledger reader", 400, corpora=["docs"], fresh=True)
    assert pack.fresh_seconds is not None
    assert pack.tokens <= 400
    marks = dict(re.findall(r"^\[docs/(\w+)\.md \d+:\d+( \(changed\))?\]$", str(pack.rendered), re.MULTILINE))
    assert marks["ledger"] == " (changed)"
    assert marks["reader"] == ""


@pytest.fixture
def claiming(cli: Cli) -> Cli:
    cli.settings["corpora"]["docs"]["claims"] = True
    cli.write("ledger.md", f"# Ledger\n\n{STAYS}\n")
    os.utime(cli.docs / "ledger.md", (EARLIER, EARLIER))
    done = cli.run("index")
    assert done.exit_code == 0, done.output
    return cli


def test_an_answer_whose_evidence_changed_says_so_behind_the_sentence(claiming: Cli) -> None:
    question = ("answer", "are ledgers rewritten after they were closed")
    assert "(source" not in claiming.run(*question, "--fresh").stdout
    claiming.write("ledger.md", f"# Ledger\n\nNew words before. {STAYS}\n")

    said = claiming.run(*question, "--fresh=verify").stdout
    assert re.search(r"closed \[1\]\. \(source changed since [^;]+ UTC; its text is still there\)$", said, re.MULTILINE)
    assert re.search(r"^sources checked in \d+ ms$", said, re.MULTILINE)
    place = claiming.json(*question, "--fresh")["claims"][0]["places"][0]
    assert place["fresh"] == "changed"
    assert "(source" not in claiming.run(*question).stdout


def test_the_command_line_marks_hits_and_artifacts(cli: Cli) -> None:
    put(cli.write("ledger.md", ""), text_about("ledger"))
    cli.run("index")
    cli.write("ledger.md", "# Another\n")

    found = cli.run("search", "ledger", "--fresh")
    assert "  changed since " in found.stdout
    assert re.fullmatch(r"sources checked in \d+ ms\n", found.stderr)
    assert "  changed since " in cli.run("show", "ledger.md", "--fresh").stdout
    (hit,) = cli.json("search", "ledger", "--fresh=verify", "-k", "1")
    assert (hit["fresh"], "its text is no longer there" in hit["fresh_note"]) == ("changed", True)
    refused = cli.run("search", "--fresh", "ledger")
    assert refused.exit_code == 2
    assert "--fresh takes nothing or verify, got 'ledger': write --fresh after the arguments" in refused.stderr
