"""Benchmarks of a thousand synopses over the network: time beyond that of the endpoint, and repeated calls."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import yaml

import findingaid
from benchmarks.figures import Row, timed
from findingaid import FindingAid
from findingaid.indexing.calls import GROUP
from findingaid.model import Outcome, SynthesizerInput
from findingaid.synthesis.openai_chat import OpenAISynthesizer

SYNOPSES, AT_ONCE, DELAY = 1_000, 32, 0.2
IDEAL = SYNOPSES / AT_ONCE * DELAY
ROUNDS = 3

SERVER = f"""
import sys
from findingaid.testing import OpenAIServer
with OpenAIServer(delay={DELAY}) as server:
    print(server.base_url, flush=True)
    for _ in sys.stdin:
        print(len(server.completions), flush=True)
"""


@dataclass
class Endpoint:
    """Model server in a separate process, like a real one."""

    process: subprocess.Popen[str]
    base_url: str

    @property
    def asked(self) -> int:
        """Number of chat completions requested so far."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield Endpoint(process, process.stdout.readline().strip())
        process.communicate("")


def text(number: int) -> str:
    return f"# Text {number}\n\n" + f"Text number {number} says what is kept in the ledger. " * 40


def synopses(_: Path) -> Iterator[Row]:
    """Measure the synthesizer alone."""
    shown = [SynthesizerInput(str(i), text(i)) for i in range(SYNOPSES)]
    with endpoint() as server:
        synthesizer = OpenAISynthesizer("m", server.base_url, concurrency=AT_ONCE, api_key="none")
        synthesizer.synthesize("Load the client.", {})
        took, work = [], []
        for _round in range(ROUNDS):
            before = time.process_time()
            seconds, made = timed(lambda: dict(synthesizer.synthesize_all(shown)))
            assert all(synopsis.outcome is Outcome.OK for synopsis in made.values())
            took.append(seconds)
            work.append((time.process_time() - before) / SYNOPSES)
    ratio = median(took) / IDEAL
    yield Row(
        f"{SYNOPSES:,} synopses, {AT_ONCE} at once, {DELAY * 1000:.0f} ms each",
        f"{median(took):.2f} s, {ratio:.2f} × ideal; {min(work) * 1000:.1f} ms of this machine's time each",
        "≤ 1.3 ×",
        ratio <= 1.3,
    )


def builds(folder: Path) -> Iterator[Row]:
    """Measure whole runs, from files to a published index."""
    docs = folder / "docs"
    docs.mkdir()
    for i in range(SYNOPSES):
        (docs / f"{i:04d}.md").write_text(text(i))
    (folder / "one").mkdir()
    (folder / "one" / "a.md").write_text("# A text\n\nto load what is imported when it is first used.")
    with endpoint() as server:
        config = folder / "findingaid.yaml"
        openai = {"kind": "openai", "model": "m", "base_url": server.base_url, "concurrency": AT_ONCE}
        corpus = {"source": {"kind": "files", "root": "docs"}, "synopsis": True}
        settings = {"embedder": {"kind": "hash"}, "synthesizer": openai, "corpora": {"docs": corpus}}
        config.write_text(yaml.safe_dump(settings))
        findingaid.open(config, {"store": "warm", "corpora.docs.source.root": "one"}).index()
        yield cold(config)
        yield killed(config, server)
        yield again(config, server)


def cold(config: Path) -> Row:
    took = []
    for number in range(ROUNDS):
        seconds, report = timed(findingaid.open(config, {"store": f"cold{number}"}).index)
        assert (report.ok, report.corpora["docs"].calls.synthesize) == (True, SYNOPSES)
        took.append(seconds)
    ratio = median(took) / IDEAL
    return Row(
        f"… and indexed, {SYNOPSES:,} files, cold",
        f"{median(took):.2f} s, {ratio:.2f} × ideal",
        "≤ 1.3 ×",
        ratio <= 1.3,
    )


def killed(config: Path, server: Endpoint) -> Row:
    """Kill a run after half of its calls, resume it, and count the calls that were made twice.

    Only calls in progress and those of one uncommitted group may be repeated.
    """
    before = server.asked
    index = [sys.executable, "-m", "findingaid", "index", "--config", str(config), "--set", "store=killed"]
    with subprocess.Popen(index, stdout=subprocess.DEVNULL) as run:
        while server.asked - before < SYNOPSES // 2:
            time.sleep(0.01)
        run.send_signal(signal.SIGKILL)
    subprocess.run(index, stdout=subprocess.DEVNULL, check=True)
    twice = server.asked - before - SYNOPSES
    bound = SYNOPSES // 100 + GROUP + AT_ONCE
    return Row(
        "… killed at half and resumed, asked twice",
        f"{twice}, of which {AT_ONCE} were under way",
        f"≤ 1 % + {GROUP} + {AT_ONCE}",
        twice <= bound,
    )


def again(config: Path, server: Endpoint) -> Row:
    """Count the calls after a rename, a reverted edit, a changed chunk size, and an unchanged run.

    It uses the store of a cold build.
    """
    folder = config.parent / "docs"
    first, second = folder / "0000.md", folder / "0001.md"

    def aid(**settings: object) -> FindingAid:
        return findingaid.open(config, {"store": "cold0", **{f"corpora.docs.{k}": v for k, v in settings.items()}})

    second.write_text("# An edit\n\nthat is taken back.")
    aid().index()
    before = server.asked
    first.rename(folder / "renamed.md")
    second.write_text(text(1))
    aid().index()
    aid(strategy={"name": "Chunked", "chunk_size": 300, "overlap": 0}).index()
    aid(strategy={"name": "Chunked", "chunk_size": 300, "overlap": 0}).index()
    asked = server.asked - before
    return Row("… renamed, reverted, other chunk size, unchanged: calls", str(asked), "0", asked == 0)
