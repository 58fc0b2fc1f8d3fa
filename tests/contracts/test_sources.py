"""Contract of every source: it lists each id once and in order, and can read every artifact that it lists."""

from __future__ import annotations

import json
import sqlite3
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from findingaid import Source
from findingaid.errors import ReadError
from findingaid.protocols import StatSource
from findingaid.sources import SOURCES
from findingaid.sources.databases import Database
from findingaid.sources.files import Files
from findingaid.sources.loaders import Loader
from findingaid.sources.mcp_servers import Server
from findingaid.sources.mcp_tools import Tools
from findingaid.sources.packages import Packages
from findingaid.sources.records import RecordFile, Records
from findingaid.sources.repositories import normalise_package_name
from findingaid.sources.sessions import Sessions
from findingaid.sources.sites import Site
from findingaid.sources.skills import Skills
from findingaid.testing import MemorySource
from tests.paths import TESTS

NOTEBOOK = '{"cells": [{"cell_type": "raw", "source": ["A"]}]}'


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


def zipped(at: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(at / "files.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return at / "files.zip"


SKILL = "---\ndescription: What it is for.\n---\n"
PROJECT = "[project]\nname = 'x'\n"
PROMPT = '{"type": "user", "message": {"content": "Why?"}}\n'


def served(folder: Path, *names: str) -> Server:
    """Return the settings of an MCP server with tools of these names."""
    file = folder / f"{'-'.join(names)}.json"
    file.write_text(json.dumps([{"name": name, "inputSchema": {"type": "object"}} for name in names]))
    script = TESTS / "servers" / "scripted.py"
    return Server.model_validate({"command": sys.executable, "args": [str(script), str(file)]})


def with_rows(file: Path) -> str:
    """Make an SQLite database of two rows, and return its address."""
    with sqlite3.connect(file) as connection:
        connection.executescript("CREATE TABLE t (id TEXT, x TEXT); INSERT INTO t VALUES ('b', 'two'), ('a', 'one')")
    return f"sqlite:///{file}"


def on_loopback(folder: Path) -> str:
    """Serve the files of a folder until the tests end; return the address of the first page."""
    web = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder)))
    Thread(target=web.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{web.server_address[1]}/a.html"


@dataclass
class Document:
    page_content: str
    metadata: dict[str, str]


class Rows:
    """A loader of two documents."""

    def load(self) -> list[Document]:
        return [Document("two", {"source": "b"}), Document("one", {"source": "a"})]


MADE: dict[str, Callable[[Path], Source]] = {
    "files": lambda at: Files(put(at, {"b.md": "# B\n\nText.", "a.md": "# A", "sub/c.md": "# C"})),
    "documents": lambda at: Files(put(at, {"b.html": "<h1>B</h1>", "a.ipynb": NOTEBOOK})),
    "archive": lambda at: Files(zipped(at, {"b.md": "# B\n\nText.", "a.md": "# A", "sub/c.md": "# C"})),
    "packages": lambda at: Packages(),
    "repositories": lambda at: Packages(put(at, {"b/pyproject.toml": PROJECT, "a/pyproject.toml": PROJECT})),
    "mcp": lambda at: Tools({"a": served(at, "y", "x"), "a-b": served(at, "x")}),
    "loader": lambda at: Loader(f"{__name__}:Rows"),
    "memory": lambda at: MemorySource({"b": "text", "a": {"text": "mapped"}}),
    "records": lambda at: RecordFile(put(at, {"rows.csv": "id,text\nb,two\na,one\n"}) / "rows.csv", text="text"),
    "rows": lambda at: Records([{"id": "b"}, {"id": "a"}]),
    "sessions": lambda at: Sessions(put(at, {"b.jsonl": PROMPT, "a.jsonl": PROMPT, "a-b.jsonl": PROMPT})),
    "sql": lambda at: Database(url=with_rows(at / "rows.db"), table="t", text="x"),
    "web": lambda at: Site(
        on_loopback(put(at, {"b.html": "<p>Two", "a.html": "<p>One <a href='b.html'>more</a>"})), delay=0
    ),
    "skills": lambda at: Skills((put(at, {"b/SKILL.md": SKILL, "a/SKILL.md": SKILL}),)),
}


@pytest.fixture(params=MADE)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    return MADE[request.param](tmp_path)


def test_every_kind_is_held_to_the_contract() -> None:
    assert set(SOURCES.known()) <= set(MADE)


def test_ids_are_unique_and_sorted_and_stamps_stand_still(source: Source) -> None:
    first, second = source.discover(), source.discover()
    ids = [listing.artifact_id for listing in first.listings]

    assert ids == sorted(set(ids))
    assert first.listings == second.listings
    assert ids


def test_what_is_listed_can_be_read_and_is_the_same_twice(source: Source) -> None:
    for listing in source.discover().listings[:20]:
        artifact = source.read(listing.artifact_id)

        assert artifact.artifact_id == listing.artifact_id
        assert artifact == source.read(listing.artifact_id)


def test_what_is_gone_is_a_read_error(source: Source) -> None:
    with pytest.raises((ReadError, KeyError)):
        source.read("no-such-artifact")


WITHOUT_STAT = {"loader", "mcp", "memory", "rows", "web"}
"""Sources of which only a whole listing tells what they have."""


@pytest.mark.parametrize("kind", sorted(MADE.keys() - WITHOUT_STAT - {"archive"}))
def test_a_single_artifact_is_listed_as_among_all_and_one_that_is_gone_is_none(kind: str, tmp_path: Path) -> None:
    source = MADE[kind](tmp_path)
    assert isinstance(source, StatSource)

    assert source.listing("no-such-artifact") is None
    for listing in source.discover().listings[:20]:
        assert source.listing(listing.artifact_id) == listing


def test_an_archive_cannot_be_asked_for_a_single_file(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match="cannot be asked for a single file"):
        Files(zipped(tmp_path, {"a.md": "# A"})).listing("a.md")


@pytest.mark.parametrize("kind", sorted(WITHOUT_STAT))
def test_the_others_do_not_claim_to_know_single_artifacts(kind: str, tmp_path: Path) -> None:
    assert not isinstance(MADE[kind](tmp_path), StatSource)


def test_installed_packages_have_name_description_and_readme() -> None:
    artifact = Packages().read("dagster")

    assert isinstance(artifact.raw, dict)
    assert artifact.raw["name"] == "dagster"
    assert "data" in artifact.raw["description"]
    assert "click" in artifact.raw["deps"]
    assert artifact.metadata["version"]


def test_names_are_compared_as_indexes_do() -> None:
    assert normalise_package_name("Zope.Interface_x--y") == "zope-interface-x-y"
