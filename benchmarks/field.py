"""Situations, half of them reported by users of such programs, on findingaid and the tools of `benchmarks.others`.

    python -m benchmarks.field OTHERS/bin/python

runs them all, each in a process and a folder of its own, and writes the table of `RESULTS.md`. That module says how to
install the others. A situation came out right if the index is then that of a clean build, or says by name what it
lacks, and no text was embedded again that had not changed: in practice each takes money or time.
"""

# mypy: ignore-errors
# The tools are not installed where types are checked.

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import lance
import numpy as np

from benchmarks import corpus, others

FILES = 60
MANY = 200
"""Files of which more than one batch is made."""

SIZE = 1_200
ONE, TWO = Path("000/00001.md"), Path("000/00002.md")

Outcome = tuple[bool, str]
"""Whether it came out right, and what was left."""

CLEAN = "as a clean build"


def findingaid(root: Path, state: Path) -> others.Run:
    """Set up findingaid, with the embedder of the others."""
    from findingaid import Corpus, FindingAid, Surface, SurfacePlan
    from findingaid.sources.files import Files
    from findingaid.store import Store

    @dataclass
    class Cut:
        size: int
        strategy_id = "benchmark"

        def decompose(self, artifact_id: str, raw: str, metadata: Mapping[str, str]) -> SurfacePlan:
            cut = others.chunks(raw, self.size)
            return SurfacePlan({}, [Surface("chunk", text, "chunk", {"n": n}) for n, text in enumerate(cut)])

    @dataclass
    class Counted:
        name: str
        max_tokens: None = None

        @property
        def dim(self) -> int:
            return len(others.numbers("", self.name))

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
        docs = Corpus("docs", Files(root), Cut(size))
        report = FindingAid(Store(str(state / "index")), Counted(embedder), {"docs": docs}).index()
        if not report.ok:
            raise RuntimeError("; ".join(map(str, report.problems())))

    return run


def rows_of_findingaid(state: Path) -> list[tuple[str, float]]:
    from findingaid.store import Store

    rows = Store(str(state / "index")).published().to_table(columns=["text", "embedder_id"])
    first = {f"counted-{name}": name for name in ("first", "second", "half")}
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
        rows = {"findingaid": rows_of_findingaid, **others.ROWS}
        return rows.get(self.name, others.rows_of_table)(self.state)

    def fails(self, **how: str) -> str:
        """Try to bring the index up to date, and return the error; "" if it ends as if all were well."""
        try:
            self.run(**how)
        except Exception as error:  # noqa: BLE001  # each tool raises its own
            return str(error) or type(error).__name__
        return ""

    def left(self, size: int = SIZE, embedder: str = "first", besides: Path | None = None) -> str:
        """Say what differs from the rows of a clean build, but for those of the file `besides`."""
        try:
            rows = self.rows()
        except Exception:  # noqa: BLE001  # no table was made
            return "nothing indexed"
        files = [path for path in self.root.rglob("*.md") if path != besides]
        wanted = {text for path in files for text in others.chunks(path.read_text(), size)}
        texts = [text for text, _ in rows]
        stale = sum(text not in wanted or abs(others.numbers(text, embedder)[0] - n) > 1e-6 for text, n in rows)
        facts = {"missing": len(wanted - set(texts)), "stale": stale, "double": len(texts) - len(set(texts))}
        return ", ".join(f"{count} {what}" for what, count in facts.items() if count) or CLEAN

    @property
    def texts(self) -> int:
        """Number of chunks of all files."""
        return sum(len(others.chunks(path.read_text(), SIZE)) for path in self.root.rglob("*.md"))

    def once(self, **more: str) -> subprocess.Popen:
        """Start bringing the index up to date in a process of its own."""
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.field", self.name, "once", self.root, self.state]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=os.environ | more, **pipes)

    def after(self, at_most: int | None = None, besides: Path | None = None, **how: str | int) -> Outcome:
        """Bring the index up to date, and say what it cost and what is left; `at_most` bounds the cost."""
        cost, left = self.run(**how), self.left(besides=besides, **how)
        return left == CLEAN and (at_most is None or cost <= at_most), f"{cost} embedded; {left}"

    @property
    def table(self) -> Path | None:
        """Folder of the table in Lance, or None if the tool keeps none."""
        if self.name in others.ROWS:
            return None
        return self.state / "index/records.lance" if self.name == "findingaid" else others.table_of(self.state)

    def edit(self, path: Path, edition: int) -> None:
        (self.root / path).write_text(corpus.document(int(path.stem), edition))


# -- changes ---------------------------------------------------------------------------------------------


def sentence_added(tool: Probed) -> Outcome:
    tool.run()
    path = tool.root / ONE
    path.write_text(path.read_text().rstrip() + " One more sentence.\n")
    return tool.after(at_most=len(others.chunks(path.read_text(), SIZE)))


def edited_unseen(tool: Probed) -> Outcome:
    """Edit a file so that its size and its time stay, as some programs that copy files leave them."""
    path = tool.root / ONE
    before = path.stat()
    tool.run()
    path.write_text(path.read_text().replace("Section", "Chapter"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return tool.after()


def touched(tool: Probed) -> Outcome:
    tool.run()
    for path in tool.root.rglob("*.md"):
        path.touch()
    return tool.after(at_most=0)


def long_unchanged(tool: Probed) -> Outcome:
    (tool.root / "long.md").write_text("".join(corpus.document(number) for number in range(1_000, 1_060)))
    tool.run()
    return tool.after(at_most=0)


def long_cut_down(tool: Probed) -> Outcome:
    long = tool.root / "long.md"
    long.write_text("".join(corpus.document(number) for number in range(1_000, 1_060)))
    tool.run()
    long.write_text("# Short\n\nOne sentence is left.\n")
    return tool.after()


def emptied(tool: Probed) -> Outcome:
    tool.run()
    (tool.root / ONE).write_text("")
    return tool.after()


def renamed(tool: Probed) -> Outcome:
    tool.run()
    (tool.root / ONE).rename(tool.root / "000" / "renamed.md")
    return tool.after()


def folder_renamed(tool: Probed) -> Outcome:
    tool.run()
    (tool.root / "000").rename(tool.root / "of 2026")
    return tool.after()


def swapped(tool: Probed) -> Outcome:
    tool.run()
    aside = tool.root / "aside"
    for old, new in ((ONE, aside), (TWO, tool.root / ONE), (aside, tool.root / TWO)):
        (tool.root / old).rename(new)
    return tool.after()


def reverted(tool: Probed) -> Outcome:
    tool.run()
    before = (tool.root / ONE).read_text()
    tool.edit(ONE, 1)
    tool.run()
    (tool.root / ONE).write_text(before)
    return tool.after()


def quoted(tool: Probed) -> Outcome:
    path = tool.root / 'ann\'s "own".md'
    path.write_text(corpus.document(7_000))
    tool.run()
    path.write_text(corpus.document(7_001))
    return tool.after()


# -- deletions -------------------------------------------------------------------------------------------


def deleted(tool: Probed) -> Outcome:
    tool.run()
    (tool.root / ONE).unlink()
    return tool.after()


def one_of_two_alike(tool: Probed) -> Outcome:
    """Delete one of two files with the same text: the text has to stay."""
    shutil.copy(tool.root / ONE, tool.root / "copy.md")
    tool.run()
    (tool.root / ONE).unlink()
    tool.run()
    texts = {text for text, _ in tool.rows()}
    missing = sum(text not in texts for text in others.chunks((tool.root / "copy.md").read_text(), SIZE))
    return not missing, f"{missing} of its texts missing" if missing else "its texts are there"


def both_alike(tool: Probed) -> Outcome:
    shutil.copy(tool.root / ONE, tool.root / "copy.md")
    tool.run()
    (tool.root / ONE).unlink()
    (tool.root / "copy.md").unlink()
    return tool.after()


def unmounted(tool: Probed) -> Outcome:
    """Empty the root for one run, as a disk that is not mounted: what was indexed has to stay, or the run to fail."""
    tool.run()
    before = len(tool.rows())
    aside = tool.root.rename(tool.root.parent / "aside")
    tool.root.mkdir()
    error = tool.fails()
    tool.root.rmdir()
    aside.rename(tool.root)
    kept = tool.left() == CLEAN
    return kept, f"{'error' if error else 'no error'}; {'all rows stay' if kept else f'{before} rows deleted'}"


# -- settings --------------------------------------------------------------------------------------------


def cut_otherwise(tool: Probed) -> Outcome:
    tool.run()
    return tool.after(size=600)


def cut_back(tool: Probed) -> Outcome:
    tool.run()
    tool.run(600)
    return tool.after()


def another_embedder(tool: Probed) -> Outcome:
    tool.run()
    return tool.after(embedder="second")


# -- an embedder that fails --------------------------------------------------------------------------------


def poisoned(tool: Probed) -> Outcome:
    path = tool.root / "000" / "poisoned.md"
    path.write_text(f"# Poisoned\n\n{others.POISON}\n")
    error, left = tool.fails(), tool.left(besides=path)
    told = ("error names the file" if "poisoned.md" in error else "error names no file") if error else "no error"
    return "poisoned.md" in error and left == CLEAN, f"{told}; the others: {left}"


def cured_by_an_edit(tool: Probed) -> Outcome:
    path = tool.root / "000" / "poisoned.md"
    path.write_text(f"# Poisoned\n\n{others.POISON}\n")
    tool.fails()
    path.write_text("# Cured\n\nThis sentence can be embedded.\n")
    return tool.after()


def cured_by_the_embedder(tool: Probed) -> Outcome:
    """Have the embedder take a text that it refused, without an edit."""
    (tool.root / "000" / "poisoned.md").write_text(f"# Poisoned\n\n{others.POISON}\n")
    tool.fails()
    others.Endpoint.cured = True
    return tool.after()


def away_at_an_edit(tool: Probed) -> Outcome:
    """Edit a file while the embedder is away: its old text has to be served."""
    tool.run()
    old = others.chunks((tool.root / ONE).read_text(), SIZE)
    tool.edit(ONE, 1)
    others.Endpoint.away = True
    error = tool.fails()
    texts = {text for text, _ in tool.rows()}
    served = sum(text in texts for text in old)
    told = "an error" if error else "no error"
    return bool(error) and served == len(old), f"{told}; {served} of {len(old)} old texts are served"


def back_after_an_edit(tool: Probed) -> Outcome:
    tool.run()
    tool.edit(ONE, 1)
    others.Endpoint.away = True
    tool.fails()
    others.Endpoint.away = False
    return tool.after()


def bad_vector(sentence: str, tool: Probed) -> Outcome:
    """Index a text for which the embedder gives a vector that nothing can be found by."""
    path = tool.root / "000" / "bad.md"
    path.write_text(f"# Bad\n\n{sentence}\n")
    error = tool.fails()
    try:
        kept = any(sentence in text for text, _ in tool.rows())
    except Exception:  # noqa: BLE001  # no table was made
        return False, "nothing indexed"
    told = ("error names the file" if "bad.md" in error else "error names no file") if error else "no error"
    left = tool.left(besides=path)
    stored = "the vector is stored" if kept else f"the others: {left}"
    return bool(error) and not kept and left == CLEAN, f"{told}; {stored}"


def other_dimensions(tool: Probed) -> Outcome:
    """Bring an index up to date with an embedder whose vectors have another length."""
    tool.run()
    error = tool.fails(embedder="half")
    left = tool.left(embedder="half")
    return left == CLEAN or bool(error), f"{'an error' if error else 'no error'}; {left}"


# -- failures ----------------------------------------------------------------------------------------------


def killed(tool: Probed) -> Outcome:
    corpus.write(tool.root.parent, MANY)
    chunks = tool.texts
    assert (process := tool.once(BENCHMARK_KILLED_AT=str(chunks // 2))).wait() == -9, process.stderr.read()[-500:]
    return tool.after(at_most=chunks * 2 // 3)


def killed_in_an_edit(tool: Probed) -> Outcome:
    """Kill a run over edited files: readers have to see each file whole, old or new; and then run again."""
    tool.run()
    for path in tool.root.rglob("*.md"):
        tool.edit(path.relative_to(tool.root), 1)
    assert (process := tool.once(BENCHMARK_KILLED_AT=str(tool.texts // 2))).wait() == -9, process.stderr.read()[-500:]
    return tool.after()


def two_at_once(tool: Probed) -> Outcome:
    both = [tool.once(BENCHMARK_KILLED_AT=str(10**9)) for _ in range(2)]
    failed = sum(process.wait() != 0 for process in both)
    left = tool.left()
    return left == CLEAN, f"{failed} of 2 failed; {left}"


def rows_lost(tool: Probed) -> Outcome:
    tool.run()
    if tool.table is None:
        return True, "not tried: it keeps no table"
    lance.dataset(tool.table).delete("text LIKE '%document 1%'")
    return tool.after()


def table_lost(tool: Probed) -> Outcome:
    tool.run()
    if tool.table is None:
        return True, "not tried: it keeps no table"
    shutil.rmtree(tool.table)
    failed, left = tool.once().wait(), tool.left()
    return left == CLEAN, f"{'an error' if failed else 'no error'}; {left}"


def read_during_a_build(tool: Probed) -> Outcome:
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
    counted = [f"{seen.count(what)} {what}" for what in ("old", "partial", "new") if what in seen]
    return "partial" not in seen, ", ".join(counted) or "no reads"


NAN, ZEROS, HALF = others.BAD

GITHUB = "https://github.com/"

SITUATIONS: dict[str, tuple[Callable[[Probed], Outcome], str]] = {
    "one sentence added to a file": (sentence_added, ""),
    "an edit that leaves size and time": (edited_unseen, ""),
    "all files touched": (touched, ""),
    "a long file, unchanged": (long_unchanged, "langchain-ai/langchain/issues/21028"),
    "a long file cut down to a sentence": (long_cut_down, "langchain-ai/langchain/issues/22135"),
    "a file emptied": (emptied, ""),
    "a file renamed": (renamed, ""),
    "a folder renamed": (folder_renamed, ""),
    "two files swap names": (swapped, ""),
    "an edit taken back": (reverted, "HKUDS/LightRAG/issues/3831"),
    "quotes in a file's name": (quoted, ""),
    "a file deleted": (deleted, "onyx-dot-app/onyx/issues/5013"),
    "one of two files with the same text deleted": (one_of_two_alike, "run-llama/llama_index/issues/23002"),
    "both files with the same text deleted": (both_alike, "run-llama/llama_index/issues/22706"),
    "the disk of the files not mounted": (unmounted, "SwiftList/SwiftList/issues/113"),
    "another chunk size": (cut_otherwise, ""),
    "the old chunk size again": (cut_back, ""),
    "another embedder": (another_embedder, ""),
    "a document that cannot be embedded": (poisoned, "langchain-ai/langchain/issues/40226"),
    "it is edited, and can be embedded": (cured_by_an_edit, "run-llama/llama_index/issues/22638"),
    "the embedder is repaired, without an edit": (cured_by_the_embedder, "run-llama/llama_index/issues/22638"),
    "an edit while the embedder is away": (away_at_an_edit, "run-llama/llama_index/issues/22639"),
    "the embedder is back after it": (back_after_an_edit, "run-llama/llama_index/issues/22639"),
    "a vector of NaN": (partial(bad_vector, NAN), "PromtEngineer/localGPT/pull/871"),
    "a vector of zeros": (partial(bad_vector, ZEROS), ""),
    "a vector of half the length": (partial(bad_vector, HALF), "nowledge-co/community/issues/351"),
    "an embedder of other dimensions": (other_dimensions, "continuedev/continue/issues/2026"),
    "kill -9 half-way, run again": (killed, ""),
    "kill -9 in a run over edits, run again": (killed_in_an_edit, ""),
    "two first runs at once": (two_at_once, ""),
    "rows lost from the table": (rows_lost, "langchain-ai/langchain/issues/39937"),
    "the table lost, the state kept": (table_lost, "cocoindex-io/cocoindex-code/issues/210"),
    "reads while every file changes": (read_during_a_build, ""),
}
"""Situations with what tries them, and the place where users of such a program reported it."""


def probed(python: str, name: str, situation: str) -> Outcome:
    """Try a situation in a process of its own, and return how it came out."""
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, "-W", "ignore", "-m", "benchmarks.field", name, situation, folder],
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
        errors = [line for line in done.stderr.splitlines() if re.match(r"[\w.]+(Error|Exception)", line)]
        return False, f"error: {errors[-1][:100] if errors else f'exit {done.returncode}'}"
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def table(python: str) -> Iterator[str]:
    from benchmarks.figures import machine  # it needs findingaid, which the environment of the others lacks

    tools = {"findingaid": sys.executable} | dict.fromkeys(others.NAMES, python)
    versions = others.versions(python)
    right = dict.fromkeys(tools, 0)
    yield f"{FILES} files, {machine()}.\n"
    yield f"| | {' | '.join(f'{name} {versions[name]}' for name in tools)} |"
    yield f"| --- |{' --- |' * len(tools)}"
    for what, (_, thread) in SITUATIONS.items():
        found = {name: probed(python, name, what) for name, python in tools.items()}
        print(what, found, file=sys.stderr, flush=True)
        for name, (well, _) in found.items():
            right[name] += well
        cells = [said if well else f"**NO**: {said}" for well, said in found.values()]
        said = f"{what} ([reported]({GITHUB}{thread}))" if thread else what
        yield f"| {said} | {' | '.join(cell.replace('|', '/') for cell in cells)} |"
    yield f"| came out right, of {len(SITUATIONS)} | {' | '.join(map(str, right.values()))} |"


if __name__ == "__main__":
    if len(sys.argv) == 2:
        from benchmarks.figures import write_table  # as in `table`

        write_table("field", table(sys.argv[1]))
    elif sys.argv[2] == "once":
        Probed(sys.argv[1], Path(sys.argv[3]), Path(sys.argv[4])).run()
    else:
        folder = Path(sys.argv[3])
        (folder / "state").mkdir()
        tried, _ = SITUATIONS[sys.argv[2]]
        print(json.dumps(tried(Probed(sys.argv[1], corpus.write(folder, FILES), folder / "state"))))
