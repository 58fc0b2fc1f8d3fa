"""What changes, failures and readers leave behind: the same probes on findingaid and the tools of `benchmarks.others`.

    python -m benchmarks.probes OTHERS/bin/python

runs them all, each in a process and a folder of its own, and writes the table of `RESULTS.md`. That module says
how to install the others. `embedded` counts the texts that were embedded: in practice each takes money or time.
"""

# mypy: ignore-errors
# The tools are not installed where types are checked.

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import lance
import numpy as np

from benchmarks import corpus, others

FILES = 200
SIZE = 1_200
ONE, TWO = Path("000/00001.md"), Path("000/00002.md")


def findingaid(root: Path, state: Path) -> others.Run:
    """Set up findingaid, with the embedder of the others."""
    from findingaid import Corpus, FindingAid
    from findingaid.sources.files import Files
    from findingaid.store import Store
    from findingaid.strategies.chunked import Chunked

    @dataclass
    class Counted:
        name: str
        dim: int = others.DIM
        max_tokens: None = None

        @property
        def id(self) -> str:
            return f"counted-{self.name}"

        def count_tokens(self, text: str) -> int:
            return text.count(" ") + 1

        def embed(self, texts: Sequence[str]) -> np.ndarray:
            return np.array([others.vector(text, self.name) for text in texts], np.float32)

        def embed_query(self, text: str) -> np.ndarray:
            return np.array(others.numbers(text, self.name), np.float32)

    def run(size: int, embedder: str) -> None:
        docs = Corpus("docs", Files(root), Chunked(chunk_size=size, overlap=others.OVERLAP))
        report = FindingAid(Store(str(state / "index")), Counted(embedder), {"docs": docs}).index()
        if not report.ok:
            raise RuntimeError("; ".join(map(str, report.problems())))

    return run


def rows_of_findingaid(state: Path) -> list[tuple[str, float]]:
    from findingaid.store import Store

    rows = Store(str(state / "index")).published().to_table(columns=["text", "embedder_id"])
    first = {f"counted-{name}": name for name in ("first", "second")}
    pairs = zip(rows["text"].to_pylist(), rows["embedder_id"].to_pylist(), strict=True)
    return [(text, others.numbers(text, first[made_by])[0]) for text, made_by in pairs]


@dataclass
class Probed:
    """Tool with its files and its state."""

    name: str
    root: Path
    state: Path

    def __post_init__(self) -> None:
        self.build = (findingaid if self.name == "findingaid" else others.NAMES[self.name])(self.root, self.state)

    def run(self, size: int = SIZE, embedder: str = "first") -> int:
        """Bring the index up to date, and return the number of texts that were embedded for it."""
        before = len(others.embedded)
        self.build(size, embedder)
        return len(others.embedded) - before

    def rows(self) -> list[tuple[str, float]]:
        if self.name == "findingaid":
            return rows_of_findingaid(self.state)
        return others.rows_of_ir(self.state) if self.name == "ir" else others.rows_of_table(self.state)

    def left(self, size: int = SIZE, embedder: str = "first", besides: Path | None = None) -> str:
        """Say what differs from the rows of a clean build, but for those of the file `besides`."""
        rows = self.rows()
        files = [path for path in self.root.rglob("*.md") if path != besides]
        wanted = {text for path in files for text in others.chunks(path.read_text(), size)}
        texts = [text for text, _ in rows]
        stale = sum(text not in wanted or abs(others.numbers(text, embedder)[0] - n) > 1e-6 for text, n in rows)
        facts = {"missing": len(wanted - set(texts)), "stale": stale, "double": len(texts) - len(set(texts))}
        return ", ".join(f"{count} {what}" for what, count in facts.items() if count) or "as a clean build"

    def edit(self, path: Path, edition: int) -> None:
        (self.root / path).write_text(corpus.document(int(path.stem), edition))


def one_sentence(tool: Probed) -> str:
    tool.run()
    path = tool.root / ONE
    path.write_text(path.read_text().rstrip() + " One more sentence.\n")
    return f"{tool.run()} embedded; {tool.left()}"


def renamed(tool: Probed) -> str:
    tool.run()
    (tool.root / ONE).rename(tool.root / "000" / "renamed.md")
    return f"{tool.run()} embedded; {tool.left()}"


def reverted(tool: Probed) -> str:
    tool.run()
    before = (tool.root / ONE).read_text()
    tool.edit(ONE, 1)
    tool.run()
    (tool.root / ONE).write_text(before)
    return f"{tool.run()} embedded; {tool.left()}"


def deleted(tool: Probed) -> str:
    tool.run()
    (tool.root / ONE).unlink()
    tool.run()
    return tool.left()


def cut_otherwise(tool: Probed) -> str:
    tool.run()
    tool.run(600)
    return tool.left(600)


def another_embedder(tool: Probed) -> str:
    tool.run()
    tool.run(embedder="second")
    return tool.left(embedder="second")


def killed(tool: Probed) -> str:
    chunks = sum(len(others.chunks(path.read_text(), SIZE)) for path in tool.root.rglob("*.md"))
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.probes", tool.name, "once", tool.root, tool.state]
    done = subprocess.run(command, env=os.environ | {"BENCHMARK_KILLED_AT": str(chunks // 2)}, capture_output=True)
    assert done.returncode == -9, done.stderr.decode()[-500:]
    return f"{tool.run()} of {chunks} embedded by the next run; {tool.left()}"


def poisoned(tool: Probed) -> str:
    path = tool.root / "000" / "poisoned.md"
    path.write_text(f"# Poisoned\n\n{others.POISON}\n")
    try:
        tool.run()
        told = "ends as if all were well"
    except Exception as error:  # noqa: BLE001  # each tool raises its own
        told = f"error {'names' if 'poisoned.md' in str(error) else 'does not name'} the file"
    try:
        others_left = tool.left(besides=path)
    except Exception:  # noqa: BLE001  # no table was made
        others_left = "nothing indexed"
    path.write_text("# Cured\n\nThis sentence can be embedded.\n")
    try:
        tool.run()
        cured = tool.left()
    except Exception as error:  # noqa: BLE001  # as above
        cured = f"error: {str(error)[:60]}"
    return f"{told}; the others: {others_left}; after a cure: {cured}"


def lost(tool: Probed) -> str:
    tool.run()
    if tool.name == "ir":
        return "not tried: it keeps files of its own"
    table = tool.state / "index/records.lance" if tool.name == "findingaid" else others.table_of(tool.state)
    lance.dataset(table).delete("text LIKE '%document 1%'")
    tool.run()
    return tool.left()


def read_during_a_build(tool: Probed) -> str:
    tool.run()
    old = {text for text, _ in tool.rows()}
    for path in tool.root.rglob("*.md"):
        tool.edit(path.relative_to(tool.root), 1)
    new = {text for path in tool.root.rglob("*.md") for text in others.chunks(path.read_text(), SIZE)}
    seen: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            with suppress(Exception):  # a table that is being replaced
                texts = {text for text, _ in tool.rows()}
                seen.append("old" if texts == old else "new" if texts == new else "partial")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        tool.run()
    finally:
        done.set()
        reader.join()
    return ", ".join(f"{seen.count(what)} {what}" for what in ("old", "partial", "new") if what in seen) or "no reads"


PROBES: dict[str, Callable[[Probed], str]] = {
    "one sentence added to a file": one_sentence,
    "file renamed": renamed,
    "edit taken back": reverted,
    "file deleted": deleted,
    "other chunk size": cut_otherwise,
    "another embedder": another_embedder,
    "kill -9 half-way, run again": killed,
    "a document that cannot be embedded": poisoned,
    "rows lost from the table": lost,
    "reads while every file changes": read_during_a_build,
}


def probed(python: str, name: str, probe: str) -> str:
    """Run a probe in a process of its own, and return what it found."""
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, "-W", "ignore", "-m", "benchmarks.probes", name, probe, folder],
            env=os.environ
            | {
                "PYTHONPATH": str(Path(__file__).parent.parent),
                "COCOINDEX_DISABLE_USAGE_TRACKING": "1",
                "RUNTIME__DLTHUB_TELEMETRY": "false",
            },
            capture_output=True,
            text=True,
        )
    if done.returncode:
        return f"error: {done.stderr.strip().splitlines()[-1][:100]}"
    return json.loads(done.stdout.splitlines()[-1])


def table(python: str) -> Iterator[str]:
    from benchmarks.figures import machine  # it needs findingaid, which the environment of the others lacks

    tools = {"findingaid": sys.executable} | dict.fromkeys(others.NAMES, python)
    versions = others.versions(python)
    yield f"{FILES} files, {machine()}.\n"
    yield f"| | {' | '.join(f'{name} {versions[name]}' for name in tools)} |"
    yield f"| --- |{' --- |' * len(tools)}"
    for probe in PROBES:
        found = [probed(python, name, probe) for name, python in tools.items()]
        print(probe, found, file=sys.stderr, flush=True)
        yield f"| {probe} | {' | '.join(found)} |"


if __name__ == "__main__":
    if len(sys.argv) == 2:
        from benchmarks.figures import write_table  # as in `table`

        write_table("probes", table(sys.argv[1]))
    elif sys.argv[2] == "once":
        Probed(sys.argv[1], Path(sys.argv[3]), Path(sys.argv[4])).run()
    else:
        folder = Path(sys.argv[3])
        (folder / "state").mkdir()
        print(json.dumps(PROBES[sys.argv[2]](Probed(sys.argv[1], corpus.write(folder, FILES), folder / "state"))))
