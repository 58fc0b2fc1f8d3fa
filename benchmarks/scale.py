"""Benchmark of growth: the same work over more and more small files, each piece in a process of its own.

`python -m benchmarks.scale 1000 10000 100000` writes its table in RESULTS.md. 100,000 files take three minutes
on two cores. Seconds are of the work alone, without starting Python and importing; memory is the peak of the process.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import findingaid
from benchmarks import corpus
from benchmarks.dagster_storage import OURS, instance
from benchmarks.figures import machine, settle, timed, write_table

WORDS_A_FILE = 60
IN_A_FOLDER = 1000
SEARCHES = 20
MEGABYTE = 1_000_000


def note(number: int, edition: int = 0) -> str:
    """Return a note of some 350 characters, which gives one record."""
    rng = random.Random(f"{number}/{edition}")
    return f"# Note {number}\n\n{' '.join(rng.choices(corpus.WORDS, k=WORDS_A_FILE)).capitalize()}.\n"


def path_of(root: Path, number: int) -> Path:
    return root / f"{number // IN_A_FOLDER:04d}" / f"{number:07d}.md"


def write(root: Path, numbers: Sequence[int], edition: int = 0) -> None:
    for number in numbers:
        path = path_of(root, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(note(number, edition))


# -- pieces of work, each run in a process of its own --------------------------------------------------------


def index(folder: Path) -> dict[str, float]:
    aid = findingaid.open(folder / "findingaid.yaml")
    seconds, report = timed(aid.index)
    assert not list(report.problems())
    return {"seconds": seconds}


def plan(folder: Path) -> dict[str, float]:
    aid = findingaid.open(folder / "findingaid.yaml")
    return {"seconds": timed(aid.plan)[0]}


def search(folder: Path) -> dict[str, float]:
    """Time hybrid searches for different words, after two that load the vectors."""
    aid = findingaid.open(folder / "findingaid.yaml")
    rng = random.Random(1)
    queries = [" ".join(rng.choices(corpus.WORDS, k=3)) for _ in range(SEARCHES + 2)]
    times = [timed(lambda query=query: aid.search(query))[0] for query in queries]  # type: ignore[misc]  # bound now
    return {"seconds": statistics.median(times[2:])}


def dagster(folder: Path) -> dict[str, float]:
    """Run the job twice over an index that is up to date, on a new instance; `again` is the second time."""
    from findingaid_dagster.pipelines.code_location import build_definitions

    job = build_definitions(folder / "findingaid.yaml").resolve_job_def("index")
    with instance(folder / "home", OURS.read_text()) as opened:
        seconds, result = timed(lambda: job.execute_in_process(instance=opened))
        again, _ = timed(lambda: job.execute_in_process(instance=opened))
    assert result.success
    return {"seconds": seconds, "again": again, "disk": size_of(folder / "home")}


WORK: dict[str, Callable[[Path], dict[str, float]]] = {
    "index": index,
    "plan": plan,
    "search": search,
    "dagster": dagster,
}


def size_of(folder: Path) -> float:
    """Return the megabytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / MEGABYTE


def run(work: str, folder: Path) -> dict[str, float]:
    """Return what a piece of work measured in a process of its own, with the peak of its memory in megabytes."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", "--do", work, str(folder)], stdout=subprocess.PIPE, check=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


# -- the table ---------------------------------------------------------------------------------------------------


def measure(count: int, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the figures for so many files, as (what, measured, goal)."""
    root = folder / "files"
    write(root, range(count))
    corpus.config(folder, root)
    settle()
    cold = run("index", folder)
    yield "cold run", f"{cold['seconds']:.1f} s, {cold['memory']:,.0f} MB", ""
    idle = run("index", folder)
    yield "nothing changed", f"{idle['seconds']:.2f} s, {idle['memory']:,.0f} MB", ""
    write(root, [count // 2], edition=1)
    yield "one file edited", f"{run('index', folder)['seconds']:.2f} s", ""
    write(root, range(0, count, 100), edition=2)
    settle()
    edited = run("index", folder)
    yield "1 % of the files edited", f"{edited['seconds']:.1f} s, {edited['memory']:,.0f} MB", ""
    planned = run("plan", folder)
    yield "`plan`, nothing changed", f"{planned['seconds']:.2f} s, {planned['memory']:,.0f} MB", ""
    found = run("search", folder)
    yield "search, hybrid, median", f"{found['seconds'] * 1000:.1f} ms, {found['memory']:,.0f} MB", ""
    idle = run("index", folder)
    told = run("dagster", folder)
    yield "Dagster brought up to date", f"{told['seconds'] - idle['seconds']:.1f} s over the library", "≤ 15 s"
    yield "Dagster, nothing changed", f"{told['again'] - idle['seconds']:.1f} s over the library", "≤ 3 s"
    yield "Dagster's instance", f"{told['disk']:,.0f} MB", "≤ 60 MB"
    yield "memory of both Dagster runs", f"{told['memory']:,.0f} MB", ""
    yield "the store", f"{size_of(folder / 'index'):,.0f} MB", ""


def main(counts: Sequence[int]) -> None:
    columns = []
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            columns.append(list(measure(count, Path(folder))))
            for what, measured, _ in columns[-1]:
                print(f"{count:,}: {what}: {measured}", flush=True)
    heads = "".join(f" {count:,} |" for count in counts)
    lines = [machine(), "", f"| figure |{heads} goal at 100,000 |", f"| --- |{' --- |' * len(counts)} --- |"]
    lines += [
        f"| {row[0][0]} | {' | '.join(measured for _, measured, _ in row)} | {row[0][2]} |"
        for row in zip(*columns, strict=True)
    ]
    write_table("growth", lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--do"]:
        os.environ.setdefault("PYTHONWARNINGS", "ignore")
        measured = WORK[sys.argv[2]](Path(sys.argv[3]))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        print(json.dumps({**measured, "memory": peak}))
    else:
        main([int(count) for count in sys.argv[1:]] or [1000, 10_000, 100_000])
