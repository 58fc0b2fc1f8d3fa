"""Documents of real loaders of LangChain and readers of LlamaIndex as artifacts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import findingaid
from findingaid.errors import ConfigError, ReadError, SourceError
from findingaid.sources.loaders import Loader
from tests.conftest import Cli
from tests.paths import ROOT
from tests.support.web import on_loopback

INSTALLED = ROOT / "build" / "loaders"

real = pytest.mark.skipif(not os.environ.get("CI") and not INSTALLED.is_dir(), reason="needs `make build/loaders`")


@dataclass
class Document:
    """As the frameworks have them."""

    page_content: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None


DOCUMENTS: list[Document | Exception] = []


class Own:
    """A loader of a team: it prints, and may raise after some documents."""

    def __init__(self, token: str = "") -> None:
        self.token = token

    def lazy_load(self, folder: str = "") -> Iterator[Document]:
        print("loading", folder)
        for document in DOCUMENTS:
            if isinstance(document, Exception):
                raise document
            yield document


def own_loader(token: str) -> Own:
    return Own(token)


OWN = f"{__name__}:Own"


@pytest.fixture(autouse=True)
def _frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have them behind all that is installed, so that they change no other test."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(INSTALLED)])
    monkeypatch.setenv("USER_AGENT", "findingaid")
    DOCUMENTS.clear()


def texts(source: Loader) -> dict[str, object]:
    return {listing.artifact_id: source.read(listing.artifact_id).raw for listing in source.discover().listings}


@real
@pytest.mark.slow
def test_rows_and_a_page_by_langchain(tmp_path: Path) -> None:
    (tmp_path / "team.csv").write_text("name,role\nAda,keeper\nBert,reader\n")
    (tmp_path / "page.html").write_text("<html><title>Ferries</title><body><p>They leave at nine.</p></body></html>")
    with on_loopback(SimpleHTTPRequestHandler, directory=str(tmp_path)) as site:
        address = f"{site}/page.html"
        page = Loader("langchain_community.document_loaders:WebBaseLoader", {"web_path": address})
        found = texts(page)
        title = page.read(address).metadata["title"]
    rows = Loader("langchain_community.document_loaders:CSVLoader", {"file_path": str(tmp_path / "team.csv")})

    assert {i: str(text).strip() for i, text in found.items()} == {address: "FerriesThey leave at nine."}
    assert title == "Ferries"
    assert texts(rows) == {
        f"{tmp_path}/team.csv#row=0": "name: Ada\nrole: keeper",
        f"{tmp_path}/team.csv#row=1": "name: Bert\nrole: reader",
    }


@real
@pytest.mark.slow
def test_a_folder_and_a_file_by_llama_index(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Ferries\n\nThey leave at nine.\n\n# Trains\n\nThey are late.\n")
    (tmp_path / "b.txt").write_text("Another text.")
    folder = Loader("llama_index.core:SimpleDirectoryReader", {"input_dir": str(tmp_path), "raise_on_error": True})
    sections = Loader("llama_index.readers.file:MarkdownReader", {"file": str(tmp_path / "a.md")})

    assert {i.removeprefix(f"{tmp_path}/"): str(text)[:9] for i, text in texts(folder).items()} == {
        "a.md": "# Ferries",
        "b.txt": "Another t",
    }
    assert len(texts(sections)) == 2
    assert [*texts(sections)] == [*texts(sections)]  # ids by content, not at random


def test_a_corpus_follows_a_loader_and_pays_for_what_changed(cli: Cli) -> None:
    DOCUMENTS[:] = [
        Document("The boiler is cold.", {"source": "a", "page": 1}),
        Document("The roof leaks.", {"source": "a", "page": 2}),
        Document("Nobody is at home.", {}),
    ]
    cli.settings["corpora"] = {"own": {"source": {"kind": "loader", "loader": OWN, "args": {"folder": "x"}}}}
    first = cli.run("index", "--json")
    DOCUMENTS[0] = Document("The boiler was repaired.", {"source": "a", "page": 1})
    del DOCUMENTS[1]
    second = cli.json("index")["corpora"]["own"]
    DOCUMENTS.append(ConnectionError("the service is away"))
    third = cli.run("index")

    assert first.stdout.startswith("{")  # what the loader prints is elsewhere
    assert [second[name] for name in ("new", "changed", "deleted")] == [0, 1, 1]
    assert second["calls"]["embed"] == 1
    assert third.exit_code == 1
    assert f"own: corpora.own.source.loader: {OWN}: ConnectionError: the service is away\n" in third.output
    (hit,) = cli.json("search", "boiler", "-k", "1")
    assert (hit["artifact_id"], hit["text"]) == ("a#page=1", "The boiler was repaired.")


def test_documents_with_one_id_are_told_apart_by_their_text() -> None:
    DOCUMENTS[:] = [Document("one", {"url": "u"}), Document("two", {"url": "u"}), Document("one", {"url": "u"})]
    source = Loader(OWN)

    found = texts(source)

    assert sorted(map(str, found.values())) == ["one", "two"]
    assert all(artifact_id.startswith("u#") for artifact_id in found)
    DOCUMENTS.reverse()
    assert texts(source) == found


def test_an_id_that_reads_as_one_told_apart_takes_no_other_documents_place() -> None:
    DOCUMENTS[:] = [Document("one", {"url": "u"}), Document("two", {"url": "u"})]
    (told_apart, *_) = texts(Loader(OWN))
    DOCUMENTS.append(Document("three", {"url": told_apart}))

    assert sorted(map(str, texts(Loader(OWN)).values())) == ["one", "three", "two"]


def test_ids_are_declared_or_the_documents_own_but_never_random() -> None:
    random = "c512fa22-24d0-4b6f-9a3e-0a2b908f2da9"
    DOCUMENTS[:] = [Document("one", {"team": "x", "nr": 7}, "own"), Document("two", {"team": "y", "nr": 7}, random)]

    assert [*texts(Loader(OWN, id=("team", "nr")))] == ["x#7", "y#7"]
    assert "own" in texts(Loader(OWN))
    assert random not in texts(Loader(OWN))


def test_a_document_without_text_fails_alone_and_metadata_is_plain() -> None:
    DOCUMENTS[:] = [
        Document(None, {"source": "a"}),
        Document("text", {"source": "b", "at": Path("x"), "n": 1, "tags": {"y", "x"}}),
    ]
    source = Loader(OWN)

    found = source.discover()

    assert [(f.artifact_id, f.message) for f in found.failures] == [("a", "no text, but Document")]
    assert source.read("b").metadata == {"source": "b", "at": "x", "n": 1, "tags": ["x", "y"]}
    with pytest.raises(ReadError, match="does not return it any more"):
        source.read("c")


def test_a_document_that_cannot_be_stored_fails_alone_and_keeps_what_was_indexed() -> None:
    DOCUMENTS[:] = [
        Document("half \ud83d", {"source": "a"}),
        Document("text", {"source": "b", "title": "\ud83d"}),
        Document("text", {"source": ["c", "d"]}),
        Document("whole", {"source": "e"}),
    ]
    found = Loader(OWN).discover()

    assert [listing.artifact_id for listing in found.listings] == ["['c', 'd']", "e"]
    assert [(failure.artifact_id, failure.kind) for failure in found.failures] == [("a", "encoding"), ("b", "encoding")]
    assert not found.unknown
    DOCUMENTS[:] = [Document("half \ud83d"), Document("whole", {"source": "e"})]
    assert Loader(OWN).discover().unknown == ("",)


def test_documents_that_differ_in_their_metadata_alone_are_all_kept() -> None:
    DOCUMENTS[:] = [Document("alike", {"url": "u", "author": "Ada"}), Document("alike", {"url": "u", "author": "Bob"})]
    source = Loader(OWN)

    assert {source.read(each).metadata["author"] for each in texts(source)} == {"Ada", "Bob"}


def test_a_check_of_freshness_loads_the_documents_anew(cli: Cli) -> None:
    """In a process that goes on, such as a server, which has the documents of the last run."""
    DOCUMENTS[:] = [Document("The boiler is cold.", {"source": "a"})]
    cli.settings["corpora"] = {"own": {"source": {"kind": "loader", "loader": OWN}}}
    cli.configure()
    aid = findingaid.open(cli.config)
    aid.index()
    before = [hit.fresh for hit in aid.search("boiler", fresh="verify")]
    DOCUMENTS[:] = [Document("The boiler was repaired.", {"source": "a"})]
    after = [hit.fresh for hit in aid.search("boiler", fresh="verify")]

    assert (before, after) == (["current"], ["changed"])
    assert "its content has changed since" in str(aid.why("a"))


def test_a_document_without_its_declared_id_is_named() -> None:
    DOCUMENTS[:] = [Document("one", {"nr": 1}), Document("two", {"number": 2})]
    found = Loader(OWN, id="nr").discover()

    assert [listing.artifact_id for listing in found.listings] == ["1"]
    assert [failure.artifact_id for failure in found.failures] == ["document 2"]
    assert found.failures[0].message.startswith("no nr in its metadata; nothing is deleted")


def test_a_secret_in_the_address_of_an_error_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "hunter/22+x")
    DOCUMENTS[:] = [PermissionError("https://example.org/?token=hunter%2F22%2Bx is refused")]

    with pytest.raises(SourceError, match=r"token=\*\*\* is refused"):
        Loader(f"{__name__}:own_loader", {"token": {"env": "SERVICE_TOKEN"}}).discover()


def test_a_secret_comes_from_the_environment_and_is_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "hunter22")
    DOCUMENTS[:] = [PermissionError("token hunter22 is refused")]
    source = Loader(f"{__name__}:own_loader", {"token": {"env": "SERVICE_TOKEN"}})

    with pytest.raises(SourceError, match=r"token \*\*\* is refused"):
        source.discover()
    monkeypatch.delenv("SERVICE_TOKEN")
    with pytest.raises(SourceError, match=r"source.args: the environment variable SERVICE_TOKEN is not set"):
        source.discover()
    assert "hunter22" not in repr(source)


class Endless:
    """A loader that asks for the same page again and again, or whose service has ever more."""

    def __init__(self, new: bool) -> None:
        self.new = new

    def lazy_load(self) -> Iterator[Document]:
        return (Document(f"text {i if self.new else i % 3}") for i in count())


@pytest.mark.parametrize(
    ("new", "told"),
    [(False, "50 documents came again: does it ask for the same page"), (True, "more than 80 documents")],
)
def test_a_loader_without_end_is_left_at_a_limit(monkeypatch: pytest.MonkeyPatch, new: bool, told: str) -> None:
    monkeypatch.setattr("findingaid.sources.loaders.REPEATS", 50)
    monkeypatch.setattr("findingaid.sources.loaders.ENTRIES", 80)

    with pytest.raises(SourceError, match=f"Endless: {told}"):
        Loader(f"{__name__}:Endless", {"new": new}).discover()


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        ("no.such:Loader", "source.loader: 'no.such:Loader' cannot be imported"),
        ("pathlib:Path", "source.loader: Path has none of the methods lazy_load"),
        (OWN, "unexpected keyword argument 'depth'"),
    ],
)
def test_a_loader_that_does_not_fit_is_named(loader: str, message: str) -> None:
    with pytest.raises(SourceError) as raised:
        Loader(loader, {"depth": 3}).discover()

    assert message in str(raised.value)
    with pytest.raises(ConfigError, match="expected an import path"):
        Loader("WebBaseLoader")
