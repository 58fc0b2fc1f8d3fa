"""What was removed is really gone from disk, and everything else is as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from findingaid import FindingAid
from findingaid.embedding.hashing import HashEmbedder
from findingaid.model import NO_CALLS
from findingaid.testing import CountingEmbedder, MemorySource
from tests.conftest import Cli, text_about
from tests.test_incremental import docs, records

SECRET = "xylophonequartz"


def files_with(folder: Path, word: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


def test_a_removed_text_is_in_no_file(
    make_aid: Callable[..., FindingAid], source: MemorySource, tmp_path: Path
) -> None:
    aid = replace(make_aid(), retain=3)
    source.payloads["secret.md"] = text_about(SECRET)
    aid.index()
    assert files_with(tmp_path, SECRET)
    del source.payloads["secret.md"]
    aid.index()
    before = records(aid)

    done = aid.purge()

    assert (done.rows, done.vectors, done.calls) == (0, 2, 1)
    assert done.bytes > 0
    assert files_with(tmp_path, SECRET) == []
    assert records(aid) == before
    assert len(aid.versions()) == 1
    assert aid.verify() == []


def test_what_is_in_use_is_not_paid_again_after_a_purge(make_aid: Callable[..., FindingAid]) -> None:
    make_aid().index()
    make_aid(embedder=CountingEmbedder(HashEmbedder(16), "other")).index()
    make_aid().index()

    done = make_aid().purge()

    assert done.vectors == 9
    assert docs(make_aid().index(force=True)).calls == NO_CALLS
    assert len(make_aid().search("ledger", 50)) == 9


def test_a_corpus_that_is_no_longer_configured_goes(cli: Cli) -> None:
    cli.write("a.md", text_about("ledger"))
    cli.settings["corpora"]["old"] = cli.settings["corpora"]["docs"]
    cli.run("index")
    del cli.settings["corpora"]["old"]

    done = cli.json("purge")

    assert done["rows"] == 4
    assert cli.json("verify")["ok"]
    assert cli.json("search", "ledger")
