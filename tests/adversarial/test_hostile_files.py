"""A hostile entry of a source is reported by name, and all other entries are indexed."""

from __future__ import annotations

import io
import os
import random
import socket
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from findingaid.errors import ConfigError, ReadError
from findingaid.sources.files import Files
from findingaid.sources.packages import Packages
from findingaid.sources.records import RecordFile
from findingaid.sources.sessions import Sessions
from findingaid.sources.skills import Skills

CONFIG = "store: store\nembedder: {kind: hash}\ncorpora:\n"


def _self_link(path: Path) -> None:
    path.symlink_to(path.name)


def _loop(path: Path) -> None:
    path.symlink_to(".")


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def _deep(path: Path) -> None:
    here = Path.cwd()
    path.mkdir()
    os.chdir(path)
    try:
        for _ in range(300):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.chdir(here)


HOSTILE: dict[str, Callable[[Path], None]] = {
    "self": _self_link,
    "loop": _loop,
    "dangling": _dangling,
    "fifo": os.mkfifo,
    "socket": _socket,
    "deep": _deep,
}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".md", ".jsonl", "/SKILL.md"])
def test_whatever_one_entry_is_the_others_are_listed_and_it_is_named(suffix: str, tmp_path: Path, seed: int) -> None:
    names = list(HOSTILE)
    random.Random(seed).shuffle(names)
    for name in names:
        place = tmp_path / f"{name}{suffix}"
        place.parent.mkdir(exist_ok=True)
        HOSTILE[name](place)
    good = tmp_path / f"good{suffix}"
    good.parent.mkdir(exist_ok=True)
    good.write_text("---\nname: good\ndescription: d\n---\n")
    (tmp_path / os.fsdecode(b"bad\xff.md")).mkdir()
    sources = {".md": Files(tmp_path), ".jsonl": Sessions(tmp_path), "/SKILL.md": Skills((tmp_path,))}

    found = sources[suffix].discover()

    assert [x.artifact_id for x in found.listings] == ["good.md" if suffix == ".md" else "good"]
    told = " ".join(f"{x.artifact_id} {x.message}" for x in found.failures)
    assert all(name in told for name in HOSTILE), told
    told.encode()


@pytest.mark.slow
def test_links_that_fork_at_every_level_end(tmp_path: Path) -> None:
    for level in range(25):
        folder = tmp_path / f"d{level}"
        folder.mkdir()
        (folder / "a.md").write_text("a")
        for name in ("x", "y"):
            (folder / name).symlink_to(f"../d{level + 1}")
    (tmp_path / "d25").mkdir()
    code = "from pathlib import Path; from findingaid.sources.files import Files; Files(Path()).discover()"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)


@pytest.mark.slow
def test_a_file_that_became_a_pipe_since_it_was_listed_fails_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.md")
    os.mkfifo(tmp_path / "r.jsonl")
    for code in (
        "from findingaid.sources.files import Files as S; S(Path('.')).read('a.md')",
        "from findingaid.sources.records import RecordFile as S; S(Path('r.jsonl')).discover()",
    ):
        done = subprocess.run(
            [sys.executable, "-c", f"from pathlib import Path; {code}"],
            cwd=tmp_path, timeout=60, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "not a regular file" in done.stderr


@pytest.mark.slow
def test_a_link_to_itself_and_a_source_that_raises_end_no_other_corpus(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "loop.md").symlink_to("loop.md")
    (tmp_path / "docs" / "a\x1b[31m.md").write_text("# A\n\nText that is indexed.\n")
    (tmp_path / "broken.py").write_text(
        "class S:\n    def discover(self): raise RuntimeError('\\x1b]0;x')\n    def read(self, artifact_id): ...\n"
    )
    (tmp_path / "findingaid.yaml").write_text(
        CONFIG + "  broken: {source: {kind: 'broken:S'}}\n  docs: {source: {kind: files, root: docs}}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "findingaid", "index"], cwd=tmp_path, timeout=120, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "loop.md" in done.stderr
    assert "broken" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    found = subprocess.run(
        [sys.executable, "-m", "findingaid", "search", "text"], cwd=tmp_path, timeout=120, capture_output=True,
        text=True, env=os.environ | {"PYTHONPATH": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert "a\\x1b[31m.md" in found.stdout
    assert "\x1b" not in found.stdout


@pytest.mark.parametrize("pattern", ["[z-a]", "!", "\\"])
def test_a_pattern_that_is_none_is_an_error_that_shows_it(pattern: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"include: .* is not a pattern"):
        Files(tmp_path, include=(pattern,))


def test_names_that_lead_out_of_a_zip_and_links_in_it_are_named_and_not_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "docs.zip", "w") as made:
        link = zipfile.ZipInfo("link.md")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        made.writestr(link, "/etc/passwd")
        for name in ("../../evil.md", "/abs.md", "sub/ok.md"):
            made.writestr(name, "# text\n")

    found = Files(tmp_path / "docs.zip").discover()

    assert [x.artifact_id for x in found.listings] == ["sub/ok.md"]
    assert {x.artifact_id for x in found.failures} == {"link.md", "../../evil.md", "/abs.md"}


def test_members_of_a_tar_that_are_no_files_or_lead_outside_fail_by_name(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "docs.tar", "w") as made:
        for name in ("../../evil.md", "/abs.md", "ok.md"):
            text = tarfile.TarInfo(name)
            text.size = 7
            made.addfile(text, io.BytesIO(b"# text\n"))
        for name, kind in (("link.md", tarfile.SYMTYPE), ("hard.md", tarfile.LNKTYPE), ("pipe.md", tarfile.FIFOTYPE)):
            other = tarfile.TarInfo(name)
            other.type, other.linkname = kind, "/etc/passwd"
            made.addfile(other)
    source = Files(tmp_path / "docs.tar")
    found = source.discover()

    readable, failed = [], {x.artifact_id for x in found.failures}
    for listing in found.listings:
        try:
            readable.append(source.read(listing.artifact_id).raw)
        except ReadError:
            failed.add(listing.artifact_id)

    assert readable == ["# text\n"]
    assert failed == {"../../evil.md", "/abs.md", "link.md", "hard.md", "pipe.md"}


def test_a_distribution_whose_metadata_is_no_text_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bad-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_bytes(b"Name: bad\xff\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    found = Packages().discover()

    assert any(x.artifact_id == "findingaid" or x.artifact_id == "pytest" for x in found.listings)
    assert any(x.artifact_id == "bad" for x in found.failures)


def test_a_file_of_records_that_is_a_folder_is_one_error(tmp_path: Path) -> None:
    from findingaid.errors import SourceError

    (tmp_path / "r.jsonl").mkdir()
    with pytest.raises(SourceError, match="not a regular file"):
        RecordFile(tmp_path / "r.jsonl").discover()


@pytest.mark.parametrize("uri", ["s3://KEY:SECRET@bucket/x", "s3://KEY:SEC/RET@bucket", "https://u:SECRET@h/x"])
def test_credentials_in_the_uri_of_a_store_are_refused_and_not_shown(uri: str, tmp_path: Path) -> None:
    from findingaid.config.loading import load

    corpora = "corpora: {a: {source: {kind: files, root: .}}}"
    (tmp_path / "findingaid.yaml").write_text(f"store: {uri}\n{corpora}\n")
    with pytest.raises(ConfigError, match="holds credentials") as error:
        load(tmp_path / "findingaid.yaml")
    assert "SEC" not in str(error.value)
    assert "RET" not in str(error.value)
