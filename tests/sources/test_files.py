"""Files source: listing, refusals, and detection of changes."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import findingaid
from findingaid import SourceError
from findingaid.errors import ConfigError, ReadError, SkippedError
from findingaid.sources import files
from findingaid.sources.files import Files
from tests.conftest import Cli

OLD = 1_600_000_000

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "4d7a" * 16 + "\nsize 12345\n"


def listed(files: Files) -> list[str]:
    return [listing.artifact_id for listing in files.discover().listings]


def failed(files: Files) -> dict[str, str]:
    return {failure.artifact_id: failure.kind for failure in files.discover().failures}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def put(root: Path, name: str, content: str | bytes = "text") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_patterns_are_those_of_gitignore(root: Path) -> None:
    for name in ("a.md", "b.txt", "sub/c.md", "sub/deep/d.md", "drafts/e.md"):
        put(root, name)

    assert listed(Files(root, ("**/*.md",))) == ["a.md", "drafts/e.md", "sub/c.md", "sub/deep/d.md"]
    assert listed(Files(root, ("/*.md",))) == ["a.md"]
    assert listed(Files(root, ("**/*.md",), ("drafts/", "**/deep/**"))) == ["a.md", "sub/c.md"]


def test_hidden_files_are_left_out_unless_asked_for(root: Path) -> None:
    put(root, ".git/x.md")
    put(root, ".hidden.md")

    assert listed(Files(root)) == []
    assert listed(Files(root, hidden=True)) == [".git/x.md", ".hidden.md"]


@pytest.mark.parametrize(
    ("payload", "text", "encoding"),
    [
        ("naïve".encode(), "naïve", "utf-8"),
        (b"\xef\xbb\xbfwith a mark", "with a mark", "utf-8"),
        ("Größe, naïve façade à Besançon".encode("latin-1"), "Größe, naïve façade à Besançon", "cp1252"),
        ("café".encode("latin-1"), "café", "cp1252"),
        ("“quoted” — 5 €".encode("cp1252"), "“quoted” — 5 €", "cp1252"),
        ("Zażółć gęślą jaźń, wszystko po polsku".encode("cp1250"), "Zażółć gęślą jaźń, wszystko po polsku", "cp1250"),
        ("Привет, это текст на русском языке".encode("cp1251"), "Привет, это текст на русском языке", "cp1251"),
        ("これは日本語のテキストです。".encode("shift_jis"), "これは日本語のテキストです。", "cp932"),
        ("Größe, 長さ".encode("utf-16"), "Größe, 長さ", "utf-16"),
        (b"line\r\nends", "line\r\nends", "utf-8"),
        (b"", "", "utf-8"),
    ],
)
def test_text_is_decoded_whatever_its_encoding(root: Path, payload: bytes, text: str, encoding: str | None) -> None:
    put(root, "a.txt", payload)

    artifact = Files(root).read("a.txt")

    assert artifact.raw == text
    assert encoding is None or artifact.metadata["encoding"] == encoding


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.rst", "Guide\n=====\n\nWords.\n", "Guide"),
        ("a.adoc", "Words.\n\n= Guide\n", "Guide"),
        ("a.asciidoc", "Guide\n-----\n", "Guide"),
        ("a.org", "* \n#+title: Guide\n", "Guide"),
        ("a.tex", "\\section{}\\section{Guide}\n", "Guide"),
        ("a.txt", "Guide\n=====\n", "a.txt"),
        ("b.rst", "Words.\n", "b.rst"),
    ],
)
def test_the_title_of_a_text_is_its_first_heading(root: Path, name: str, text: str, title: str) -> None:
    put(root, name, text)

    assert Files(root).read(name).metadata["title"] == title


def test_a_binary_file_is_a_failed_artifact_if_the_source_says_so(root: Path) -> None:
    put(root, "a.md", b"\x7fELF\x00\x01\x02\x00")

    with pytest.raises(ReadError, match="binary") as raised:
        Files(root, unreadable="fail").read("a.md")
    assert raised.value.kind == "binary"


def test_a_file_over_the_limit_is_a_failed_artifact_that_names_the_setting(root: Path) -> None:
    put(root, "a.md", "x" * 100)

    with pytest.raises(ReadError, match="max_bytes"):
        Files(root, max_bytes=99).read("a.md")


def test_a_link_out_of_the_root_is_refused(root: Path, tmp_path: Path) -> None:
    outside = put(tmp_path, "secret.md")
    (root / "link.md").symlink_to(outside)
    (root / "folder").symlink_to(tmp_path)

    assert listed(Files(root)) == []
    assert failed(Files(root)) == {"link.md": "outside_root", "folder/": "outside_root"}
    with pytest.raises(ReadError, match="outside the root"):
        Files(root).read("link.md")


def test_patterns_match_below_folders_whose_names_hold_line_ends(root: Path) -> None:
    put(root, "new\nline/sub/a.md")
    put(root, "new\nline/drafts/b.md")

    assert listed(Files(root)) == ["new\nline/drafts/b.md", "new\nline/sub/a.md"]
    assert listed(Files(root, ("**/*.md",), ("**/drafts/",))) == ["new\nline/sub/a.md"]


@pytest.mark.parametrize("escape", ["../secret.md", "sub/../../secret.md"])
def test_an_id_cannot_climb_out_of_the_root(root: Path, tmp_path: Path, escape: str) -> None:
    put(tmp_path, "secret.md")
    (root / "sub").mkdir()

    with pytest.raises(ReadError, match="outside the root"):
        Files(root).read(escape)


def test_a_link_that_loops_is_refused_and_the_rest_is_listed(root: Path) -> None:
    put(root, "sub/a.md")
    (root / "sub" / "loop").symlink_to(root)

    assert listed(Files(root)) == ["sub/a.md"]
    assert failed(Files(root)) == {"sub/loop/": "outside_root"}


def test_a_link_within_the_root_is_followed(root: Path) -> None:
    put(root, "sub/a.md")
    (root / "link.md").symlink_to(root / "sub" / "a.md")

    assert listed(Files(root)) == ["link.md", "sub/a.md"]


def test_a_dangling_link_is_a_failed_artifact(root: Path) -> None:
    (root / "gone.md").symlink_to(root / "nowhere.md")

    assert failed(Files(root)) == {"gone.md": "unreadable"}


def gone(root: Path) -> None:
    (root / ".disk").rename(root.parent / "away")


def outside(root: Path) -> None:
    (root / "data").unlink()
    gone(root)
    (root / "data").symlink_to(root.parent / "away")


def circle(root: Path) -> None:
    (root / "data").unlink()
    (root / "data").symlink_to("data")


@pytest.mark.parametrize("change", [gone, outside, circle])
@pytest.mark.parametrize(
    "source", [{}, {"include": ["**/*.md"]}, {"kind": "skills"}, {"kind": "sessions"}, {"kind": "packages"}]
)
def test_what_is_below_a_link_that_leads_nowhere_for_now_is_not_taken_for_deleted(
    cli: Cli, source: Mapping[str, Any], change: Callable[[Path], None]
) -> None:
    kind = source.get("kind", "files")
    line = json.dumps({"type": "user", "message": {"content": "Fix the basket."}})
    skill = "---\nname: till\ndescription: Counts money.\n---\nIt counts."
    one = {
        "files": ("a.md", "A text."),
        "skills": ("SKILL.md", skill),
        "sessions": ("a.jsonl", line),
        "packages": ("pyproject.toml", '[project]\nname = "till"\ndescription = "Counts money."'),
    }
    name, text = one[kind]
    for folder in ("here", "there", ".disk"):
        put(cli.docs, f"{folder}/{name}", text)
    (cli.docs / "data").symlink_to(".disk")
    root: Mapping[str, Any] = {"roots": ["docs"]} if kind == "skills" else {"root": "docs"}
    cli.settings["corpora"] = {"docs": {"source": {"kind": kind, **root, **source}}}
    cli.configure()
    assert cli.json("index")["corpora"]["docs"]["new"] == 3

    change(cli.docs)
    report = json.loads(cli.run("index", "--json").output)["corpora"]["docs"]

    assert report["deleted"] == 0
    assert report["failed"] or any("are not listed stay" in note for note in report["waits"])
    (cli.docs / "data").unlink()
    after = cli.json("index")["corpora"]["docs"]
    assert (after["artifacts"], after["failed"]) == (2, [])


def test_an_excluded_link_that_leads_nowhere_keeps_nothing(root: Path) -> None:
    (root / "data").symlink_to("nowhere")

    assert Files(root, exclude=("data",)).discover().unknown == []


def test_artifacts_below_a_folder_without_permission_are_unknown_not_gone(unprivileged: Path) -> None:
    uid = os.geteuid()
    os.seteuid(os.getuid())
    put(unprivileged, "sub/a.md")
    (unprivileged / "sub").chmod(0)
    os.seteuid(uid)

    discovery = Files(unprivileged).discover()

    assert discovery.unknown == ["sub/"]
    assert [failure.kind for failure in discovery.failures] == ["unreadable"]


def test_a_name_that_is_not_utf8_is_a_failed_artifact(root: Path) -> None:
    (Path(os.fsdecode(os.fsencode(root) + b"/\xff.md"))).write_text("x")

    assert failed(Files(root)) == {"\\xff.md": "encoding"}


def test_a_missing_root_is_named(root: Path) -> None:
    with pytest.raises(SourceError, match="no such directory"):
        Files(root / "nowhere").discover()


def test_a_file_that_was_just_written_has_no_stamp_to_trust(root: Path) -> None:
    path = put(root, "a.md", "one")
    os.utime(path, (OLD, OLD))  # the entry's own time cannot be set back

    assert not Files(root).discover().listings[0].settled


def test_a_stamp_stays_with_the_file_and_changes_with_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "RACY_NANOSECONDS", 50_000_000)
    path = put(root, "a.md", "one")
    time.sleep(0.06)

    first, second = (Files(root).discover().listings[0] for _ in range(2))
    path.write_text("two")
    time.sleep(0.06)

    assert first == second
    assert first.settled
    assert Files(root).discover().listings[0].stamp != first.stamp


def test_odd_names_go_all_the_way(cli: Cli) -> None:
    names = {"new\nline.md", "quote'\".md", "emoji 🗂.md", "dots...md", "back\\slash.md", "per%cent.md"}
    for name in names:
        cli.write(name, f"A text about {name.encode('unicode_escape').decode()} that is found.")

    assert cli.run("index").exit_code == 0
    assert {hit["artifact_id"] for hit in cli.json("search", "text that is found", "-k", "10")} == names
    assert {cli.json("show", name)["artifact_id"] for name in names} == names
    assert cli.json("verify")["ok"]


def test_touching_a_file_costs_nothing(cli: Cli) -> None:
    path = cli.write("a.md", "A text that stays as it is.")
    cli.run("index")
    os.utime(path, (OLD, OLD))

    report = cli.json("index")["corpora"]["docs"]

    assert (report["unchanged"], report["changed"], report["calls"]["embed"]) == (1, 0, 0)


def test_files_that_cannot_be_read_fail_alone_and_the_exit_status_says_so(cli: Cli) -> None:
    cli.write("good.md", "A text that is fine.")
    cli.write("bad.md", b"\x00\x01\x02\x00binary")

    result = cli.run("index")

    assert result.exit_code == 1
    assert "bad.md: binary" in result.stderr
    assert [hit["artifact_id"] for hit in cli.json("search", "fine")] == ["good.md"]
    assert cli.json("status")[0]["failed"][0]["artifact_id"] == "bad.md"


def test_a_source_that_was_not_listed_in_the_last_run_is_named_until_it_is(cli: Cli) -> None:
    cli.settings["corpora"]["other"] = {"source": {"kind": "files", "root": "other"}}
    cli.write("a.md", "A text.")
    (cli.folder / "other").mkdir()
    (cli.folder / "other/b.md").write_text("Another text.")
    cli.configure()
    assert cli.run("index").exit_code == 0

    (cli.folder / "other").rename(cli.folder / "away")
    for _ in range(2):
        assert cli.run("index").exit_code == 1
        docs, other = cli.json("status")
        assert (docs["failed"], other["artifacts"]) == ([], 1)
        (failed,) = other["failed"]
        assert failed["message"].startswith("corpora.other.source.root: no such directory")
    assert "other: (source): corpora.other.source.root: no such directory" in cli.run("status", "--failed").stdout
    assert "other was not listed in the last run: corpora.other.source.root" in cli.run("why", "other/").stderr
    assert findingaid.open(cli.config).as_caller("user:ann").status()[1].failed == []
    assert cli.run("plan").exit_code == 1
    (cli.folder / "away").rename(cli.folder / "other")
    assert cli.run("plan").exit_code == 0
    assert len(cli.json("status")[1]["failed"]) == 1

    assert cli.run("index").exit_code == 0
    assert cli.json("status")[1]["failed"] == []


@pytest.mark.parametrize("swapped", ["docs/sub", "docs"])
def test_a_folder_that_becomes_a_link_after_it_was_listed_is_not_read_through(tmp_path: Path, swapped: str) -> None:
    """Of a root, too: a link in its place may be meant, but only the next discovery reads there."""
    for folder in ("docs/sub", "secret/sub"):
        for name in ("a.md", "b.md"):
            put(tmp_path, f"{folder}/{name}", folder)
    put(tmp_path, "secret/b.md", "secret")
    source = Files(tmp_path / "docs")
    source.discover()
    source.read("sub/a.md")
    (tmp_path / swapped).rename(tmp_path / "old")
    (tmp_path / swapped).symlink_to(tmp_path / "secret")

    with pytest.raises(ReadError, match="outside the root") as raised:
        source.read("sub/b.md")
    assert raised.value.kind == "outside_root"
    if swapped == "docs/sub":
        with pytest.raises(SourceError, match="outside the root"):
            source.listing("sub/b.md")
        assert failed(source) == {"sub/": "outside_root"}
    else:
        assert source.discover().listings
        assert source.read("sub/b.md").raw == "secret/sub"


def test_a_file_that_becomes_a_link_or_moves_out_of_the_root_is_not_read(root: Path, tmp_path: Path) -> None:
    put(root, "a.md")
    put(root, "sub/b.md")
    source = Files(root)
    source.discover()
    (root / "a.md").unlink()
    (root / "a.md").symlink_to(put(tmp_path, "secret.md", "secret"))
    (root / "sub").rename(tmp_path / "elsewhere")

    for artifact_id in ("a.md", "sub/b.md", "sub/../a.md", "/etc/passwd", "sub//b.md"):
        with pytest.raises(ReadError):
            source.read(artifact_id)


def test_where_the_system_does_not_say_which_file_is_open_its_path_is_compared(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readlink = os.readlink

    def no_proc(path: str, **more: int) -> str:
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(path)
        return readlink(path, **more)

    put(tmp_path, "secret/b.md", "secret")
    put(root, "sub/a.md", "within")
    (root / "here.md").symlink_to(root / "sub" / "a.md")
    (root / "out").symlink_to(tmp_path / "secret")
    monkeypatch.setattr("findingaid.sources.local.os.readlink", no_proc)

    assert Files(root).read("sub/a.md").raw == "within"
    with pytest.raises(ReadError, match="outside the root"):
        Files(root).read("out/b.md")


def test_a_root_that_is_a_link_is_followed_anew_by_each_discovery(tmp_path: Path) -> None:
    for name in ("one", "two"):
        put(tmp_path, f"{name}/{name}.md", name)
        put(tmp_path, f"{name}/same.md", name)
    link = tmp_path / "current"
    link.symlink_to("one")
    source = Files(link)
    assert listed(source) == ["one.md", "same.md"]
    before = source.discover()
    link.unlink()
    link.symlink_to("two")

    assert source.read("same.md").raw == "one", "a run reads what it has listed"
    assert source.listing("one.md") is None
    assert source.read("same.md").raw == "two"
    assert listed(source) == ["same.md", "two.md"]
    assert {x.stamp for x in before.listings}.isdisjoint({x.stamp for x in source.discover().listings})


def test_a_file_that_grows_beyond_the_limit_while_it_is_read_is_not_held_whole(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(root, "a.md", "x" * 50)
    fstat = os.fstat

    def written_to(descriptor: int) -> os.stat_result:
        found = fstat(descriptor)
        path.write_text("x" * 500)
        return found

    monkeypatch.setattr("findingaid.sources.local.os.fstat", written_to)

    with pytest.raises(ReadError, match="max_bytes"):
        Files(root, max_bytes=99).read("a.md")


TEMPORARY_NAMES = (
    "~$report.docx",
    ".~lock.a.odt#",
    "~WRL0001.tmp",
    "sub/a.md.swp",
    ".b.md.swp",
    ".#c.md",
    "#d.md#",
    "._e.pdf",
)


def test_lock_and_temporary_files_of_programs_are_skipped_by_their_names(root: Path) -> None:
    for name in (*TEMPORARY_NAMES, "a~b.md", "#e.md", "~f.md", "swp"):
        put(root, name, "a text")
    (root / ".#c.md").unlink()
    (root / ".#c.md").symlink_to("ada@host.1234:1700000000")  # as Emacs does
    source = Files(root, hidden=True)

    found = source.discover()
    assert found.failures == []
    assert {x.artifact_id for x in found.listings} == {*TEMPORARY_NAMES, "a~b.md", "#e.md", "~f.md", "swp"}
    for name in TEMPORARY_NAMES:
        with pytest.raises(SkippedError, match="lock or temporary file"):
            source.read(name)
    assert source.read("#e.md").raw == "a text"
    before = {x.artifact_id: x.stamp for x in found.listings}
    put(root, "~$report.docx", "written again")
    assert {x.artifact_id: x.stamp for x in source.discover().listings}["~$report.docx"] == before["~$report.docx"]


@pytest.mark.parametrize("name", ["guide.md", "picture.png", "book.pdf", "no suffix"])
def test_a_pointer_of_git_lfs_is_skipped_and_a_text_about_one_is_not(root: Path, name: str) -> None:
    put(root, name, LFS)
    put(root, "about.md", f"A pointer looks like this:\n{LFS}")
    put(root, "more.md", f"{LFS}and more")

    with pytest.raises(SkippedError, match="git lfs pull"):
        Files(root).read(name)
    assert Files(root).read("about.md").raw
    assert Files(root).read("more.md").raw


def test_lock_files_and_pointers_are_counted_and_fail_no_run(cli: Cli) -> None:
    cli.write("a.md", "A text that is fine.")
    cli.write("~$a.md", b"\x05Ada" + bytes(158))
    cli.write("b.md", LFS)

    done = cli.run("index")

    assert done.exit_code == 0
    assert "docs: skipped 1 .md: a lock or temporary file" in done.stdout
    assert "docs: skipped 1 .md: a pointer of Git LFS, not the file itself: run `git lfs pull`" in done.stdout
    assert cli.json("status")[0]["artifacts"] == 1


STORES = {
    "below the root": ("docs/index", "docs"),
    "in the root itself": ("docs", "docs"),
    "above the root": (".", "docs"),
    "hidden and deeper": ("docs/.findingaid/index", "docs"),
}


@pytest.mark.parametrize("where", STORES)
def test_the_program_never_indexes_its_own_files(cli: Cli, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the store, nor its configuration, whatever it is called, nor Dagster's home."""
    store, root = STORES[where]
    cli.write("a.md", "A text that stays as it is.")
    cli.write("sub/b.md", "Another text.")
    cli.settings["store"] = store
    cli.settings["corpora"] = {"docs": {"source": {"kind": "files", "root": root, "hidden": True}}}
    home = cli.docs / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("storage: {}")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    cli.config = cli.docs / "other name.yaml" if where == "below the root" else cli.config
    if where == "below the root":
        cli.settings |= {
            "store": "index",
            "corpora": {"docs": {"source": {"kind": "files", "root": ".", "hidden": True}}},
        }

    first = cli.json("index")["corpora"]["docs"]
    second = cli.json("index")["corpora"]["docs"]

    assert (first["new"], first["failed"], first["skipped"]) == (2, [], [])
    assert (second["unchanged"], second["new"], second["changed"], second["skipped"]) == (2, 0, 0, [])


def test_the_tables_of_another_store_below_the_root_are_left_out(cli: Cli) -> None:
    cli.write("a.md", "A text that stays as it is.")
    cli.settings["store"] = "docs/one"
    cli.configure()
    cli.json("index")
    cli.settings["store"] = "docs/two"
    cli.configure()

    report = cli.json("index")["corpora"]["docs"]

    assert (report["artifacts"], report["failed"], report["skipped"]) == (1, [], [])


def test_a_store_that_is_reached_by_a_link_is_left_out_too(cli: Cli) -> None:
    cli.write("a.md", "A text that stays as it is.")
    (cli.folder / "elsewhere").mkdir()
    (cli.docs / "index").symlink_to(cli.folder / "elsewhere")
    (cli.docs / "settings.yaml").symlink_to(cli.config)
    (cli.docs / "calls").symlink_to(cli.folder / "elsewhere" / "calls.lance")
    cli.settings["store"] = "docs/index"
    cli.configure()
    os.link(cli.config, cli.docs / "settings.md")  # the same file by another path, as below a second mount

    for _ in range(2):
        report = cli.json("index")["corpora"]["docs"]
        assert (report["artifacts"], report["failed"], report["skipped"]) == (1, [], [])


class TestPatterns:
    """Patterns that people write; those that cannot match are refused, and those that matched nothing are named."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = tmp_path / "docs"
        for name in ("a.md", "b.mdx", "c.txt", "sub/private.md", "sub/x.md", ".hidden/y.md", "Cafe\u0301/z.md"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("text")
        return root

    @staticmethod
    def found(root: Path, **settings: Any) -> tuple[list[str], list[str]]:
        found = Files(root, **settings).discover()
        return [listing.artifact_id for listing in found.listings], [*found.notes]

    @pytest.mark.parametrize(
        ("include", "ids"),
        [
            ("*.{mdx,txt}", ["b.mdx", "c.txt"]),
            ("{a,sub/{x,y}}.md", ["a.md", "sub/x.md"]),
            ("./sub/*.md", ["sub/private.md", "sub/x.md"]),
            ("././/a.md", ["a.md"]),
            ("Caf\u00e9/", ["Cafe\u0301/z.md"]),
            (r"\a.md".replace("\\a", "[a]"), ["a.md"]),
        ],
    )
    def test_braces_a_leading_dot_and_both_forms_of_letters_match(
        self, root: Path, include: str, ids: list[str]
    ) -> None:
        assert self.found(root, include=(include,)) == (ids, [])

    @pytest.mark.parametrize("exclude", ["./sub/", "sub/{private,x}.md", "{sub,other}/"])
    def test_an_exclude_of_these_forms_keeps_files_out(self, root: Path, exclude: str) -> None:
        ids, notes = self.found(root, exclude=(exclude,))

        assert not [i for i in ids if i.startswith("sub/")]
        assert notes == []

    @pytest.mark.parametrize(
        ("pattern", "said"),
        [(r"sub\x.md", "write 'sub/x.md'"), ("../other/*.md", "out of the root"), ("{a,b}" * 12, "not a pattern")],
    )
    @pytest.mark.parametrize("key", ["include", "exclude"])
    def test_a_pattern_that_cannot_match_is_refused(self, root: Path, key: str, pattern: str, said: str) -> None:
        with pytest.raises(ConfigError, match=re.escape(said)):
            Files(root, **{key: (pattern,)})

    def test_a_pattern_that_matched_nothing_is_named(self, root: Path) -> None:
        ids, notes = self.found(root, include=("*.md", "*.pdf"), exclude=("docs/sub/", "#sub/", ".hidden/", "*.mdx"))

        assert "sub/private.md" in ids
        assert notes == [
            "source.include: matched nothing: *.pdf",
            "source.exclude: matched nothing: docs/sub/, #sub/; paths begin below the root, without its own name docs/",
        ]

    def test_a_root_in_which_no_file_is_listed_says_why(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()

        _, notes = self.found(root, include=("*.md",), exclude=("*",))
        _, empty = self.found(tmp_path / "empty")

        assert notes[-1] == (
            "no file is listed: 1 hidden (source.hidden), 5 left out by source.include or source.exclude"
        )
        assert empty == ["no file is listed: the root is empty"]


def test_members_of_archives_have_plain_names(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as tar:
        for name in ("./a.md", "./s/b.md", "./.hidden.md", "s//c.md"):
            member = tarfile.TarInfo(name)
            member.size = 4
            tar.addfile(member, io.BytesIO(b"text"))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("./a.md", "s//b.md", "s/./c.md", "../out.md"):
            archive.writestr(zipfile.ZipInfo(name), "text")
        windows = zipfile.ZipInfo("x")
        windows.filename, windows.create_system = "w\\d.md", 0
        archive.writestr(windows, "text")

    of_tar, of_zip = Files(tmp_path / "a.tgz"), Files(tmp_path / "a.zip")

    assert [listing.artifact_id for listing in of_tar.discover().listings] == ["a.md", "s/b.md", "s/c.md"]
    assert [listing.artifact_id for listing in of_zip.discover().listings] == ["a.md", "s/b.md", "s/c.md", "w/d.md"]
    assert [failure.artifact_id for failure in of_zip.discover().failures] == ["../out.md"]
    assert {str(of_zip.read(i).raw) for i in ("a.md", "s/b.md", "s/c.md", "w/d.md")} == {"text"}
    assert str(of_tar.read("a.md").raw) == "text"
