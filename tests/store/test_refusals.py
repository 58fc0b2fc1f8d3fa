"""System errors of a local store, such as missing permission, give one line and never count as damage."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import filelock  # noqa: F401  # before the tests give up their rights, with which no module could be read
import lance.file
import pytest
import yaml

from findingaid import Corpus, FindingAid, UnreachableError
from findingaid.store import Store, repair
from findingaid.store.objects import refusal
from findingaid.strategies.chunked import Chunked
from findingaid.testing import CountingEmbedder, MemorySource
from tests.conftest import Cli, error_of, text_about


def aid_in(folder: Path, *topics: str) -> FindingAid:
    source = MemorySource({f"{topic}.md": text_about(topic) for topic in topics})
    return FindingAid(Store(str(folder / "index")), CountingEmbedder(), {"docs": Corpus("docs", source, Chunked())})


@pytest.fixture
def mine(unprivileged: Path) -> Path:
    """A folder of the user that the test runs as, below which permissions hold."""
    if (user := os.geteuid()) != os.getuid():
        os.seteuid(os.getuid())
        os.chown(unprivileged, user, -1)
        os.seteuid(user)
    return unprivileged


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of every readable file except the leases, which runs take and give back."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "leases.json")
    return {str(path): path.read_bytes() for path in files if os.access(path, os.R_OK, effective_ids=True)}


PLACES = (
    "",
    "surfaces.lance/_versions",
    "embeddings.lance/data",
    "ledger.lance/data/*.lance",
    ".locks",
    "records.lance/_refs/tags/published.json",
)
"""What a user may lack permission for, as patterns below a store. The tag is last: a run gets as far as reading it."""


def test_a_store_without_permission_is_named_and_left_alone(mine: Path) -> None:
    aid_in(mine, "ledger", "vector").index()

    for place in PLACES:
        locked = min((mine / "index").glob(place)) if place else mine / "index"
        mode = locked.stat().st_mode
        locked.chmod(0)
        before = contents(mine)

        with pytest.raises(UnreachableError, match=r"Permission denied: let this user .*; nothing was lost$") as raised:
            aid_in(mine, "ledger", "vector", "reader").index()

        assert "\n" not in str(raised.value)
        # A tag is read at the end of a run, which has added files by then; readers keep their version.
        assert contents(mine) == before or (place == PLACES[-1] and before.keys() <= contents(mine).keys()), place
        locked.chmod(mode)
    assert not list((mine / "index").glob("*damaged*"))
    again = aid_in(mine, "ledger", "vector")
    assert again.index().repaired == []
    assert again.verify() == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 400 kB."""
    folder = tmp_path / "index"
    folder.mkdir()
    mounted = os.geteuid() == 0 and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)], capture_output=True
    ).returncode  # fmt: skip
    if not mounted:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_with_more_room_the_run_goes_on(cli: Cli, small_disk: Path) -> None:
    for i in range(40):
        cli.write(f"{i}.md", text_about(*(f"topic {i} {j}" for j in range(8))))

    line = error_of(limited(cli, "n", 1_024, "index"))  # its leases, which it cannot release, end with its process

    assert re.search(r"No space left on device: make room on the disk|is the disk full", line)
    subprocess.run(["mount", "-o", "remount,size=50m", str(small_disk)], check=True)
    done = cli.run("index")
    assert done.exit_code == 0, done.output
    assert not list(small_disk.glob("*damaged*"))
    assert cli.json("verify")["ok"]


def limited(cli: Cli, what: str, most: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process with a limit."""
    cli.config.write_text(yaml.safe_dump(cli.settings))
    command = f"ulimit -{what} {most}; exec {sys.executable} -m findingaid {' '.join(arguments)} --config {cli.config}"
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
def test_too_few_open_files_are_one_line_and_nothing_is_set_aside(cli: Cli, tmp_path: Path) -> None:
    cli.write("a.md", text_about("ledger"))
    assert cli.run("index").exit_code == 0
    refused = []
    for files in (24, 20, 16, 14, 12, 10):  # how many a run needs depends on how its threads meet
        cli.write(f"{files}.md", text_about(f"vector {files}"))
        done = limited(cli, "n", files, "index")
        refused += [] if done.returncode == 0 else [error_of(done)]

    assert refused
    assert all("Too many open files: raise the limit of open files (ulimit -n)" in line for line in refused)
    assert not list((tmp_path / "index").glob("*damaged*"))
    assert cli.run("index").exit_code == 0
    assert cli.json("verify")["ok"]


def test_a_file_that_is_cut_off_as_it_is_written_becomes_no_part_of_a_table(cli: Cli, tmp_path: Path) -> None:
    """Lance does not tell when the last write to a file fails: the commit would have made a damaged table."""
    cli.write("a.md", text_about("ledger"))
    assert cli.run("index").exit_code == 0
    cli.write("b.md", text_about(*(f"vector {i}" for i in range(60))))

    assert "ulimit -f" in error_of(limited(cli, "f", 5, "index"))

    assert cli.run("index").exit_code == 0
    assert not list((tmp_path / "index").glob("*damaged*"))
    assert cli.json("verify")["ok"]


def test_a_commit_never_names_a_file_of_fewer_bytes_than_were_written(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "index"))
    repair.prepare(store, 8)
    row = {"key": "x" * 400, "producer_id": "p", "outcome": "ok", "text": "a" * 200, "state": None}
    rows = lance.file.pa.Table.from_pylist([row], schema=store.dataset("calls").schema)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    refused = 0
    try:
        for most in range(1_000, 3_000, 50):
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
            try:
                store.append("calls", rows)
            except UnreachableError:
                refused += 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)

    assert refused
    assert repair.problem(store, "calls") is None


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE, errno.ENOSPC, errno.ESTALE, errno.EROFS])
def test_errors_of_the_system_are_refusals_as_python_and_as_lance_words_them(number: int) -> None:
    words = os.strerror(number)
    lance_says = ValueError(
        f"LanceError(IO): Unable to open file /a b/x.lance/data/1.lance: {words} (os error {number})"
    )

    assert str(refusal(lance_says, "/a b")).startswith(f"x.lance/data/1.lance: {words}: ")
    assert str(refusal(OSError(number, words, "/a b/.locks/store"), "/a b")).startswith(f".locks/store: {words}: ")


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EINVAL])
def test_errors_about_what_is_in_the_folder_are_not_refusals(number: int) -> None:
    assert refusal(ValueError(f"LanceError(IO): {os.strerror(number)} (os error {number})"), "/a") is None
    assert refusal(ValueError("LanceError(IO): file size is too small"), "/a") is None
