"""Shared fixtures: a small in-memory corpus, and the CLI run in this process."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import settings

from findingaid import Corpus, FindingAid
from findingaid.cli import main
from findingaid.indexing import watchdog
from findingaid.model import Stage
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.testing import CountingEmbedder, MemorySource, OpenAIServer, ScriptedSynthesizer
from tests.support.buckets import bucket, endpoint

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs the tests in the background ignores SIGINT, and so would the processes that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "untimed", settings.default, deadline=None, max_examples=50
)  # on a busy machine any example may take long
settings.load_profile("untimed")

ReadyMade = Callable[[str, Callable[[], object]], None]
"""Function that fills the store of a test, see `ready_made`."""

__all__ = ["bucket", "endpoint"]

PLAIN = [stage for stage in Stage if stage not in {Stage.CLAIMS, Stage.SUMMARY_NODES}]
"""Stages of a corpus without claims."""

PARAGRAPH = "The {topic} is described here in a sentence that is long enough to stand for itself. "


def text_about(*topics: str) -> str:
    """Return a Markdown text with one section per topic, each its own chunk at a chunk size of 200 characters."""
    return "\n\n".join(f"# {topic}\n\n{PARAGRAPH.format(topic=topic)}" for topic in topics)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage while tests are collected: it takes a seventh of that time, and almost all is kept."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep what is loaded by now out of the garbage collections of the tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FINDINGAID_CONFIG", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _no_warning_of_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let artifacts take their time: output that is compared must not depend on what else the machine does."""
    monkeypatch.setattr(watchdog, "HELD_UP_SECONDS", 3600.0)


@pytest.fixture(autouse=True)
def _no_modules_of_other_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Unload what a test imported from its folder: ids count a loaded module, and tests run in any order."""
    last, folder = next(reversed(sys.modules)), str(tmp_path_factory.getbasetemp())
    yield
    for name in [*takewhile(lambda name: name != last, reversed(sys.modules))]:  # they are in the order of loading
        if str(getattr(sys.modules[name], "__file__", None)).startswith(folder):
            del sys.modules[name]


def three_documents() -> MemorySource:
    return MemorySource({f"{name}.md": text_about(name, f"{name} again") for name in ("ledger", "vector", "reader")})


@pytest.fixture
def source() -> MemorySource:
    return three_documents()


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def synthesizer() -> ScriptedSynthesizer:
    return ScriptedSynthesizer()


@pytest.fixture
def make_aid(
    tmp_path: Path, source: MemorySource, embedder: CountingEmbedder, synthesizer: ScriptedSynthesizer
) -> Callable[..., FindingAid]:
    """Return a function that builds the aid anew, as another process would, on the same store."""

    def make(**changed: Any) -> FindingAid:
        given = {"source": source, "strategy": Chunked(chunk_size=200, overlap=0)} | changed
        writer = given.pop("synthesizer", synthesizer)
        synopsis = given.pop("synopsis", {})
        if writer is not None:
            given["strategy"] = with_synopsis(given["strategy"], writer, **synopsis)
        writes = given.pop("embedder", embedder)
        of_aid = {name: given.pop(name) for name in ("budget", "prices", "retain", "review") if name in given}
        corpora = {"docs": Corpus("docs", given.pop("source"), given.pop("strategy"), **given)}
        return FindingAid(Store(str(tmp_path / "index")), writes, corpora, **of_aid)

    return make


@pytest.fixture
def aid(make_aid: Callable[..., FindingAid]) -> FindingAid:
    return make_aid()


@pytest.fixture(scope="session")
def kept_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the stores that `ready_made` copies."""
    return tmp_path_factory.mktemp("stores")


@pytest.fixture
def ready_made(tmp_path: Path, kept_stores: Path) -> ReadyMade:
    """Return a function that fills this test's store with a copy of the store of a name, which `build` writes once.

    A copy takes a twentieth of the time of a run. `build` must use no component whose calls a test counts.
    """

    def fill(name: str, build: Callable[[], object]) -> None:
        store, kept = tmp_path / "index", kept_stores / name
        if not kept.exists():
            build()
            store.rename(kept)
        shutil.copytree(kept, store)

    return fill


@pytest.fixture
def indexed(make_aid: Callable[..., FindingAid], ready_made: ReadyMade) -> FindingAid:
    """The aid over a store that has the three documents, for tests of what comes after the first run."""
    others = {"source": three_documents(), "embedder": CountingEmbedder(), "synthesizer": ScriptedSynthesizer()}
    ready_made("indexed", lambda: make_aid(**others).index())
    return make_aid()


class Cli:
    """CLI runner for a folder with a findingaid.yaml and a docs folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.docs = folder / "docs"
        self.docs.mkdir()
        self.config = folder / "findingaid.yaml"
        self.settings: dict[str, Any] = {
            "store": "index",
            "embedder": {"kind": "hash"},
            # A binary file is the artifact that fails in many tests.
            "corpora": {
                "docs": {
                    "source": {"kind": "files", "root": "docs", "include": ["**/*.md"], "unreadable": "fail"},
                }
            },
        }

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def configure(self) -> None:
        """Write the configuration, as the next command would."""
        self.config.write_text(yaml.safe_dump(self.settings))

    def run(self, *arguments: str) -> Result:
        self.configure()
        return CliRunner().invoke(main, [*arguments, "--config", str(self.config)])

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)


def error_of(done: Result | subprocess.CompletedProcess[str]) -> str:
    """Return the one-line error message of a command, and check that a link to the documentation follows it."""
    line, see = done.stderr.splitlines()
    assert re.fullmatch(r"See: findingaid help [\w ]+", see)
    assert line.startswith("Error: ")
    return line.removeprefix("Error: ")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def openai(server: OpenAIServer, **parameters: Any) -> dict[str, Any]:
    """Return the settings of a synthesizer that calls this server."""
    return {"kind": "openai", "model": "small", "base_url": server.base_url, "retries": 0, **parameters}


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """Yield a folder in which file permissions are enforced, even if the tests run as root."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    shutil.rmtree(folder)
