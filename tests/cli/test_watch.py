"""`findingaid watch` and `serve --watch`: what changes is found soon, whatever happens to files and processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import findingaid
from findingaid import Corpus
from findingaid.errors import FindingAidError
from findingaid.indexing.watching import Watch
from findingaid.sources.files import Files
from findingaid.sources.records import RecordFile
from findingaid.store import Store
from findingaid.strategies.whole_text import WholeText
from findingaid.testing import MemorySource
from tests.conftest import Cli, text_about

SOON = 90
"""Seconds within which a change must be found: ample, since other tests share the machine."""


def eventually(check: Callable[[], object]) -> None:
    """Wait until a check holds."""
    until = time.monotonic() + SOON
    while not check():
        assert time.monotonic() < until
        time.sleep(0.05)


@contextmanager
def running(cli: Cli, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command of findingaid as a process; it is killed at the end if it is still there."""
    cli.configure()
    command = [sys.executable, "-m", "findingaid", *arguments, "--config", str(cli.config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def served(cli: Cli) -> set[str]:
    """Artifacts that readers see; none before the first publish."""
    try:
        rows = findingaid.open(cli.config).store.published().to_table(columns=["artifact_id"])
    except FindingAidError:
        return set()
    return set(rows["artifact_id"].to_pylist())


def texts(cli: Cli) -> str:
    try:
        return " ".join(findingaid.open(cli.config).store.published().to_table(columns=["text"])["text"].to_pylist())
    except FindingAidError:
        return ""


def stopped(process: subprocess.Popen[str], how: signal.Signals) -> str:
    """End a process by a signal, and return what it said. It must end cleanly."""
    process.send_signal(how)
    said, _ = process.communicate(timeout=SOON)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    return said


def until_said(process: subprocess.Popen[str], words: str) -> str:
    """Return the lines up to the first one with these words."""
    said = ""
    while words not in said:
        line = process.stdout.readline() if process.stdout else ""
        assert line, said
        said += line
    return said


@pytest.mark.slow
def test_what_editors_and_git_do_to_files_is_found_without_a_command(cli: Cli) -> None:
    cli.write("a.md", text_about("alpha"))
    with running(cli, "watch", "--every", "3600") as watch:
        eventually(lambda: served(cli) == {"a.md"})
        cli.write("deep/b.md", text_about("beta"))  # a folder that is new, too
        eventually(lambda: served(cli) == {"a.md", "deep/b.md"})
        cli.write(".a.md.swp", text_about("gamma")).rename(cli.docs / "a.md")
        eventually(lambda: "gamma" in texts(cli) and "alpha" not in texts(cli))
        (cli.docs / "deep" / "b.md").unlink()
        eventually(lambda: served(cli) == {"a.md"})
        burst = {f"{number:04}.md" for number in range(1_000)}
        for name in burst:
            cli.write(name, name)
        eventually(lambda: served(cli) == {"a.md", *burst})

        said = stopped(watch, signal.SIGINT)

    assert said.splitlines()[-1] == "stopped"
    assert len(said.splitlines()) < 100  # not a run for each of the files
    assert cli.run("verify").exit_code == 0
    assert cli.json("plan")["corpora"]["docs"]["calls"]["embed"] == 0


@pytest.mark.slow
def test_a_folder_that_vanishes_keeps_its_records_and_is_watched_again_when_it_is_back(cli: Cli) -> None:
    cli.write("a.md", text_about("alpha"))
    with running(cli, "watch", "--every", "3600") as watch:
        eventually(lambda: served(cli) == {"a.md"})
        away = cli.docs.rename(cli.folder / "away")
        line = watch.stdout.readline() if watch.stdout else ""
        while "no such directory" not in line:
            line = watch.stdout.readline() if watch.stdout else ""
        assert served(cli) == {"a.md"}
        away.rename(cli.docs)
        cli.write("b.md", text_about("beta"))
        eventually(lambda: served(cli) == {"a.md", "b.md"})
        cli.write("b.md", text_about("gamma"))
        eventually(lambda: "gamma" in texts(cli))

        assert stopped(watch, signal.SIGTERM).count("no such directory") <= 1


@pytest.mark.slow
def test_a_changed_configuration_is_read_anew_and_what_it_indexed_is_not_taken_back(cli: Cli) -> None:
    cli.write("a.md", text_about("alpha", "beta"))
    (cli.folder / "notes").mkdir()
    (cli.folder / "notes" / "n.md").write_text(text_about("notes"))
    with running(cli, "watch", "--every", "1") as watch:
        eventually(lambda: served(cli) == {"a.md"})
        valid = cli.config.read_text()
        cli.config.write_text("corpora: [")
        cli.write("b.md", text_about("gamma"))
        before = until_said(watch, "Error: ")
        cli.config.write_text(valid)
        eventually(lambda: served(cli) == {"a.md", "b.md"})
        cli.settings["corpora"]["notes"] = {"source": {"kind": "files", "root": "notes"}}
        cli.settings["embedder"] = {"kind": "hash", "dim": 32}
        assert cli.run("index").exit_code == 0
        cli.write("c.md", text_about("delta"))
        eventually(lambda: served(cli) == {"a.md", "b.md", "c.md", "n.md"})

        said = before + stopped(watch, signal.SIGINT)

    assert cli.run("search", "delta").exit_code == 0
    assert {of["changed"] for of in cli.json("plan")["corpora"].values()} == {0}
    assert said.count("has changed and is read anew") == 2
    assert said.count("Error: findingaid.yaml") + said.count(f"Error: {cli.config}") == 1


DEAF = """
import pathlib, time

from findingaid import Surface, SurfacePlan


class Deaf:
    id = "deaf-1"

    def decompose(self, artifact_id, raw, metadata):
        pathlib.Path("heard").write_text("")
        try:
            for _ in range(600):  # another thread may get the signal, and wakes no long sleep
                time.sleep(0.1)
        except KeyboardInterrupt:
            pass
        return SurfacePlan({}, [Surface("line", raw)])
"""


@pytest.mark.slow
def test_it_stops_though_a_component_takes_the_interrupt_for_its_own(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(cli.folder), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.chdir(cli.folder)
    (cli.folder / "deaf.py").write_text(DEAF)
    cli.settings["corpora"]["docs"]["strategy"] = {"name": "deaf:Deaf"}
    cli.write("a.md", "alpha")
    with running(cli, "watch", "--every", "3600") as watch:
        eventually((cli.folder / "heard").exists)

        said = stopped(watch, signal.SIGINT)

    assert "stopped" in said
    assert "1 new" in said  # what was under way is whole


LINES = """
from findingaid import Surface, SurfacePlan
from helper import MARK

class Lines:
    def decompose(self, artifact_id, raw, metadata):
        return SurfacePlan(metadata, [Surface("line", f"{MARK} {raw}", "line")])
"""


@pytest.mark.slow
def test_edited_code_is_read_anew_and_what_it_indexed_is_not_taken_back(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that a component imports counts too, and a broken one ends nothing."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(cli.folder), os.environ.get("PYTHONPATH", "")]))
    (cli.folder / "lines.py").write_text(LINES)
    helper = cli.folder / "helper.py"
    helper.write_text("MARK = 'first'\n")
    cli.settings["corpora"]["docs"]["strategy"] = {"name": "lines:Lines"}
    cli.write("a.md", "alpha")

    def lines() -> set[str]:
        try:
            rows = Store(str(cli.folder / "index")).published().to_table(columns=["text"])
        except FindingAidError:
            return set()
        return set(rows["text"].to_pylist())

    with running(cli, "watch", "--every", "1") as watch:
        eventually(lambda: lines() == {"first alpha"})
        helper.write_text("MARK = 'second'\n")
        eventually(lambda: lines() == {"second alpha"})
        saved = helper.stat().st_mtime_ns
        helper.write_text("MARK = 'SECOND'\n")
        # At another moment of the same second.
        os.utime(helper, ns=(saved, saved // 10**9 * 10**9 + (saved + 1) % 10**9))
        eventually(lambda: lines() == {"SECOND alpha"})
        helper.write_text("MARK = (")
        until_said(watch, "SyntaxError")
        helper.write_text("MARK = 'third'\n")
        cli.write("b.md", "beta")
        eventually(lambda: lines() == {"third alpha", "third beta"})

        stopped(watch, signal.SIGINT)


@pytest.mark.slow
def test_other_runs_and_a_killed_watcher_lose_and_double_nothing(cli: Cli) -> None:
    cli.write("a.md", text_about("alpha"))
    with running(cli, "watch") as first:
        eventually(lambda: served(cli) == {"a.md"})
        with running(cli, "watch") as second:
            for number in range(30):
                cli.write(f"{number}.md", text_about(f"number {number}"))
                if number == 10:
                    first.kill()
                if number == 20:
                    assert cli.run("index").exit_code == 0
            eventually(lambda: len(served(cli)) == 31)
            stopped(second, signal.SIGTERM)

    assert cli.run("verify").exit_code == 0


@pytest.mark.slow
def test_a_server_that_watches_answers_with_what_was_just_saved_and_takes_its_watcher_with_it(cli: Cli) -> None:
    cli.write("a.md", text_about("alpha"))
    cli.run("index")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/v1/search"

    def found(query: str) -> str:
        request = urllib.request.Request(
            address, json.dumps({"query": query}).encode(), {"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return str(response.read())
        except OSError:
            return ""

    with running(cli, "serve", "http", "--port", str(port), "--watch") as server:
        eventually(lambda: "a.md" in found("alpha"))
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        cli.write("b.md", text_about("beta"))
        eventually(lambda: "b.md" in found("beta"))

        server.kill()
        server.wait(SOON)
        eventually(lambda: not any(os.path.exists(f"/proc/{child}/exe") for child in children))

    assert children


@pytest.mark.slow
def test_a_server_says_that_its_watcher_has_ended_and_goes_on(cli: Cli) -> None:
    cli.write("a.md", text_about("alpha"))
    cli.run("index")
    with running(cli, "serve", "http", "--port", "0", "--watch") as server:
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
        eventually(children.read_text)
        os.kill(int(children.read_text().split()[0]), signal.SIGKILL)

        line = server.stdout.readline() if server.stdout else ""
        while "no change is indexed any more" not in line:
            assert server.poll() is None, line
            line = server.stdout.readline() if server.stdout else ""

    assert "the process that watches has ended with status -9" in line


def test_a_source_that_is_not_local_changes_by_interval() -> None:
    corpora = {"docs": Corpus("docs", MemorySource({"a": "text"}), WholeText())}
    yielded = []
    stop = threading.Event()
    for names in Watch(corpora, 0.01).changed(stop):
        yielded.append(names)
        if len(yielded) == 3:
            stop.set()

    assert yielded == [["docs"]] * 3


def test_only_the_corpus_that_a_file_is_in_changes_and_the_index_itself_never(tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    roots = {name: tmp_path / name for name in ("docs", "notes")}
    store = tmp_path / "docs" / "index"
    for folder in (*roots.values(), store):
        folder.mkdir(parents=True, exist_ok=True)
    corpora = {name: Corpus(name, Files(str(root)), WholeText()) for name, root in roots.items()}
    stop = threading.Event()
    yielded = []

    for names in Watch(corpora, 3600, [store]).changed(stop):
        yielded.append(names)
        if len(yielded) == 2:  # both were looked at twice, and are watched now
            (store / "table").write_text("rows")
            (roots["notes"] / "a.md").write_text("text")
        if len(yielded) == 3:
            stop.set()

    assert yielded == [["docs", "notes"], ["docs", "notes"], ["notes"]]


def until(watch: Watch, stop: threading.Event, steps: list[Callable[[], object]]) -> list[list[str]]:
    """Take a step after each time that corpora are yielded, and return them all."""
    yielded = []
    for names in watch.changed(stop):
        yielded.append(names)
        if len(yielded) > len(steps):
            stop.set()
        else:
            steps[len(yielded) - 1]()
    return yielded


def test_a_change_below_a_root_that_is_reached_by_a_link_is_found(tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    (tmp_path / "real" / "docs").mkdir(parents=True)
    (tmp_path / "within").symlink_to("real")
    corpora = {"docs": Corpus("docs", Files(tmp_path / "within" / "docs"), WholeText())}
    write = (tmp_path / "real" / "docs" / "a.md").write_text

    found = until(Watch(corpora, 3600), threading.Event(), [lambda: None, lambda: write("text")])

    assert found == [["docs"]] * 3


def test_a_root_that_is_a_link_is_watched_where_it_leads_when_it_is_moved(tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    link = tmp_path / "current"
    link.symlink_to("one")
    source = Files(link)

    def move() -> None:
        link.unlink()
        link.symlink_to("two")

    def write() -> None:
        assert source.discover().listings == []
        (tmp_path / "two" / "a.md").write_text("text")

    watch = Watch({"docs": Corpus("docs", source, WholeText())}, 3600)
    found = until(watch, threading.Event(), [lambda: None, move, lambda: None, write])

    assert found == [["docs"]] * 5
    assert [x.artifact_id for x in source.discover().listings] == ["a.md"]


def test_a_file_of_records_that_is_a_link_is_watched_where_it_is(tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    (tmp_path / "real").mkdir()
    (tmp_path / "here").mkdir()
    path = tmp_path / "real" / "rows.jsonl"
    path.write_text("")
    (tmp_path / "here" / "rows.jsonl").symlink_to(path)
    corpora = {"rows": Corpus("rows", RecordFile(tmp_path / "here" / "rows.jsonl"), WholeText())}

    found = until(Watch(corpora, 3600), threading.Event(), [lambda: None, lambda: path.write_text('{"id": 1}\n')])

    assert found == [["rows"]] * 3


LIMITED = """
import sys, threading
from pathlib import Path
from findingaid import Corpus
from findingaid.indexing.watching import Watch
from findingaid.sources.files import Files
from findingaid.sources.records import RecordFile
from findingaid.store import Store
from findingaid.strategies.whole_text import WholeText
for number in range(30):
    Path(f"docs/{number}").mkdir(parents=True)
times = 0
for names in Watch({"docs": Corpus("docs", Files(Path("docs")), WholeText())}, 0.3).changed(threading.Event()):
    times += 1
    if times == 6:
        print(names)
        break
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["watches", "instances"])
def test_the_limit_of_watched_folders_is_named_once_and_the_interval_goes_on(tmp_path: Path, limit: str) -> None:
    """With a limit of its own, in a namespace of its own, since other programs need theirs."""
    count = 8 if limit == "watches" else 0
    set_limit = f'echo {count} > /proc/sys/user/max_inotify_{limit} && exec "$0" "$@"'
    alone = ["unshare", "-U", "-r", "sh", "-c", set_limit]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a user namespace with limits of its own")

    done = subprocess.run(
        [*alone, sys.executable, "-c", LIMITED], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout == "['docs']\n"
    assert done.stderr.count("not every change of a file is reported by the operating system") == 1
    assert f"all sources are looked at every 0.3 s; raise the limit with `sudo sysctl fs.inotify.max_user_{limit}" in (
        done.stderr
    )


def test_the_library_that_is_missing_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)

    done = cli.run("watch")

    assert done.exit_code == 1
    assert "watchfiles is not installed: pip install 'findingaid[watch]'" in done.stderr
