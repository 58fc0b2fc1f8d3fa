"""Names of artifacts: everything that findingaid prints is accepted wherever an id is, and nothing else is guessed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from findingaid import Corpus, FindingAid, NotFoundError, QueryError
from findingaid.edges import LinkEdges
from findingaid.embedding.hashing import HashEmbedder
from findingaid.query.lookup.resolve import NamedPlace, place_in, possible_places
from findingaid.sources.files import Files
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import MemorySource
from tests.conftest import Cli
from tests.support.serving import indexed

FILES = {
    "mine": {"py/secrets.py": "def key():\n    return 1\n", "a/notes.md": "# Notes of a\n", "odd:7": "A name.\n"},
    "theirs": {"b/notes.md": "# Notes of b\n\nSee [others](c.md).\n", "b/c.md": "# C\n", "README.md": "# Theirs\n"},
}


@pytest.fixture(scope="module")
def aid(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    """Two corpora of files."""
    folder = tmp_path_factory.mktemp("resolve")
    corpora = {}
    for name, files in FILES.items():
        for path, text in files.items():
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).write_text(text)
        corpora[name] = Corpus(name, Files(folder / name), Chunked(), edges=LinkEdges())
    aid = FindingAid(Store(str(folder / "index")), HashEmbedder(), corpora)
    assert aid.index().ok
    return aid


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a.md", NamedPlace("a.md")),
        ("docs/a.md:12", NamedPlace("docs/a.md", 12)),
        ("docs/a.md:12:5", NamedPlace("docs/a.md", 12)),
        ("docs/a.md [30:75]", NamedPlace("docs/a.md", None, (30, 75))),
        ("docs/a.md [30:75]@0a1b2c3d", NamedPlace("docs/a.md", None, (30, 75), "0a1b2c3d")),
        ("docs/a.md[30:75]", NamedPlace("docs/a.md", None, (30, 75))),
        ("docs/a.md:12  [30:75]", NamedPlace("docs/a.md", 12, (30, 75))),
        ("docs/a.md 30:75", NamedPlace("docs/a.md", None, (30, 75))),
        ("docs/a.md synopsis 0", NamedPlace("docs/a.md")),
        ("my file.md", NamedPlace("my file.md")),
        ("x" * 100_000 + ":1", NamedPlace("x" * 100_000, 1)),
    ],
)
def test_a_printed_place_is_split_into_name_line_and_span(text: str, place: NamedPlace) -> None:
    *_, shortest = possible_places(text)
    assert shortest == place


@pytest.mark.parametrize("name", ["GO:0008150", "talk 10:30", "part 2", "note [1:2]", "a.md:7", "trail "])
def test_a_name_that_ends_as_a_place_is_opened_at_a_place_behind_it(tmp_path: Path, name: str) -> None:
    """`search` prints the line, also of a row: `terms/GO:0008150:3`. "GO" is another artifact."""
    names = (name, name[:2], name[:4].strip(), name.rpartition(":")[0], name.strip())
    source = MemorySource({each: f"# About {each}\n\nIt is told here.\n" for each in names if each})
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": Corpus("docs", source, Chunked())})
    aid.index()
    version = aid.show(name, "docs").artifact_version
    for place in ("", ":3", ":3:5", " [0:7]", f" [0:7]@{version[:8]}", f":3 [0:7]@{version[:8]}", " 0:7", " chunk 0"):
        assert aid.read(f"docs/{name}{place}").artifact_id == name, place
    assert place_in(f"docs/{name}:3 [0:7]", ("docs", name)) == NamedPlace(f"docs/{name}", 3, (0, 7))


@pytest.mark.parametrize(
    "name",
    ["py/secrets.py", "mine/py/secrets.py", "secrets.py", "./py/secrets.py", "secrets.py:2", "mine/py/secrets.py:2:1",
     "mine/py/secrets.py [4:7]", "mine/py/secrets.py 4:7", "mine/py/secrets.py chunk 1"],
)  # fmt: skip
def test_an_artifact_is_found_by_every_form_of_its_name(aid: FindingAid, name: str) -> None:
    assert aid.resolve(name) == ("mine", "py/secrets.py")
    assert aid.show(name).artifact_id == "py/secrets.py"
    assert aid.impact(name).artifact_id == "py/secrets.py"
    assert aid.disclose(name, "body").body == FILES["mine"]["py/secrets.py"]
    assert aid.read(name).text == FILES["mine"]["py/secrets.py"]
    assert aid.history(name) == []
    assert [link.id for link in aid.why(name)] == ["mine/py/secrets.py"]


def test_neighbours_are_those_of_the_named_artifact(aid: FindingAid) -> None:
    assert [n.artifact_id for n in aid.neighbours("theirs/b/notes.md:3")] == ["b/c.md"]
    assert [n.artifact_id for n in aid.neighbours("c.md", reverse=True)] == ["b/notes.md"]


def test_an_id_that_looks_like_a_place_is_an_id(aid: FindingAid) -> None:
    assert aid.show("odd:7").artifact_id == "odd:7"


def test_a_name_of_several_artifacts_lists_them_and_a_corpus_decides(aid: FindingAid) -> None:
    with pytest.raises(
        QueryError, match=r"^'notes\.md' may be mine/a/notes\.md or theirs/b/notes\.md: name one of them$"
    ):
        aid.show("notes.md")
    assert aid.show("notes.md", "theirs").artifact_id == "b/notes.md"


@pytest.mark.parametrize("place", ["", ":1", " [0:5]"])
def test_a_printed_place_that_is_also_the_id_of_another_artifact_is_refused_unless_its_corpus_is_named(
    place: str, tmp_path: Path
) -> None:
    source = MemorySource({"a.md": "The outer page.", "docs/a.md": "The inner page."})
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": Corpus("docs", source, Chunked())})
    aid.index()
    for look_up in (aid.show, aid.read, aid.disclose, aid.why, aid.impact, aid.neighbours, aid.history, aid.resolve):
        with pytest.raises(QueryError, match=r"may be docs/(docs/)?a\.md or docs/(docs/)?a\.md: give its id and its"):
            look_up(f"docs/a.md{place}")

    assert aid.read("docs/a.md", "docs").text == "The inner page."
    assert aid.read("a.md", "docs").text == "The outer page."
    assert aid.read(f"docs/docs/a.md{place}").text == "The inner page."


def test_the_space_before_a_span_is_not_taken_for_the_end_of_a_name(tmp_path: Path) -> None:
    source = MemorySource({"a.md": "The page.", "a.md ": "The page of a name that ends with a space."})
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": Corpus("docs", source, Chunked())})
    aid.index()

    assert aid.read("docs/a.md [0:5]").artifact_id == "a.md"
    assert aid.read("docs/a.md  [0:5]").artifact_id == "a.md "


@pytest.mark.parametrize(
    "name", ["", "/", "md", "otes.md", "theirs/py/secrets.py", "nowhere/secrets.py", "p/secrets.py"]
)
def test_a_name_is_the_end_of_an_id_from_a_slash_on_and_no_other_part(aid: FindingAid, name: str) -> None:
    assert aid.resolve(name) is None


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("secret.py", "; did you mean mine/py/secrets.py?"),
        ("SECRETS.PY", "; did you mean mine/py/secrets.py?"),
        ("docs/readme.md:4", "; did you mean theirs/README.md?"),
        ("notes", "; did you mean mine/a/notes.md or theirs/b/notes.md?"),
        ("zzz", "search` shows ids"),
    ],
)
def test_an_error_suggests_artifacts_of_a_similar_name(aid: FindingAid, name: str, suggested: str) -> None:
    with pytest.raises(NotFoundError) as raised:
        aid.show(name)
    assert str(raised.value).endswith(suggested)


@pytest.mark.parametrize(
    "look_up", [FindingAid.show, FindingAid.read, FindingAid.neighbours, FindingAid.why, FindingAid.impact]
)
@pytest.mark.parametrize("name", ["mine/py/secrets.py", "secrets.py", "secret.py", "py/secrets.py:1"])
def test_a_limited_caller_finds_and_is_suggested_nothing_of_other_corpora(
    aid: FindingAid, look_up: Callable[..., Any], name: str
) -> None:
    with pytest.raises(NotFoundError) as raised:
        look_up(aid.within(["theirs"]), name)
    assert "mine" not in str(raised.value).replace(name, "")
    assert "did you mean" not in str(raised.value)


def test_an_artifact_called_like_the_beginning_of_a_claim_id_is_found_by_its_id(tmp_path: Path) -> None:
    aid = indexed(tmp_path, "open")
    claim = aid.claims.list()[0].claim_id
    source = aid.corpora["open"].source
    assert isinstance(source, MemorySource)
    source.payloads[claim[:8]] = "# Facade\n\nThis is a document, and no claim."
    aid.index()

    assert aid.passages(claim[:8]) is None
    assert aid.show(claim[:8]).artifact_id == claim[:8]
    assert [link.what for link in aid.why(claim[:8])] == ["artifact"]
    for named in (claim, claim[:9]):
        passages = aid.passages(named)
        assert passages
        assert passages.claim_id == claim
        assert [link.what for link in aid.why(named)] == ["claim"]


def test_the_path_of_a_file_names_its_artifact(aid: FindingAid, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(str(aid.store.uri)).parent
    monkeypatch.chdir(folder / "mine" / "py")

    assert aid.artifact_of_file("secrets.py:2") == "mine/py/secrets.py:2"
    assert aid.artifact_of_file("../../theirs/README.md") == "theirs/README.md"
    assert aid.artifact_of_file(str(folder / "theirs" / "b" / "c.md") + ":1") == "theirs/b/c.md:1"
    assert aid.artifact_of_file("nothing.md") == "nothing.md"
    assert aid.artifact_of_file(__file__) == __file__


def test_a_file_below_two_roots_belongs_to_the_deeper_one_unless_a_corpus_is_named(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.md").write_text("Text.")
    corpora = {
        "all": Corpus("all", Files(tmp_path), Chunked()),
        "deep": Corpus("deep", Files(tmp_path / "deep"), Chunked()),
    }
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), corpora)

    assert aid.artifact_of_file(f"{tmp_path}/deep/a.md:1") == "deep/a.md:1"
    assert aid.artifact_of_file(f"{tmp_path}/deep/a.md:1", "all") == "all/deep/a.md:1"


def test_every_command_that_takes_an_artifact_takes_what_search_prints(cli: Cli) -> None:
    cli.write("py/secrets.md", "# Secrets\n\nThe secret key opens the vault, and is kept by the keeper of the house.\n")
    cli.settings["corpora"]["docs"]["claims"] = True
    assert cli.run("index").exit_code == 0

    printed = cli.run("search", "secret key", "-k", "1").stdout.split()[1]
    assert printed.endswith("docs/py/secrets.md:1")
    for name in (printed, "secrets.md"):
        for command in ("show", "why", "neighbours", "impact", "summary"):
            result = cli.run(command, name)
            assert result.exit_code == 0 or "has no summary node" in result.stderr, (command, result.stderr)
        listed = cli.json("claims", "list", "--artifact", name)
        assert {claim["evidences"][0]["artifact_id"] for claim in listed} == {"py/secrets.md"}
        proposed = cli.run("claims", "propose", name, f"It is named {name}.", "--actor", "ann")
        assert proposed.exit_code == 0, proposed.stderr


@pytest.mark.parametrize("name", ["talk 10:30", "talk part 2", "talk:7", "talk [0:4]", "talk [0:4]@0a1b2c3d", "talk "])
def test_a_name_that_ends_as_a_place_does_opens_its_own_artifact_as_it_is_printed(cli: Cli, name: str) -> None:
    cli.settings["corpora"]["docs"]["source"]["include"] = ["*"]
    cli.write("talk", "Words of the other talk, and more of them.")
    cli.write(name, "Words of its own, and more of them.")
    assert cli.run("index").exit_code == 0

    for printed in (name, f"docs/{name}"):
        shown = cli.run("show", printed).stdout
        assert "Words of its own, and" in shown
        assert ">>" not in shown
