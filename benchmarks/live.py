"""Benchmark of `serve http --watch`: the time from saving a file to finding it over HTTP, with the default model.

`python -m benchmarks.live` runs only this benchmark.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles

import yaml

from benchmarks.figures import Row

FILES = 10_000
SAVED = 40
IDLE_SECONDS = 30
PORT = 18077
SETTINGS = {"store": "index", "corpora": {"notes": {"source": {"kind": "files", "root": "notes"}}}}


def watching(folder: Path) -> Iterator[Row]:
    """Save files one after the other, each once the one before is found, and ask until the new text is found."""
    notes = folder / "notes"
    notes.mkdir()
    for number in range(FILES):
        (notes / f"{number}.md").write_text(f"Note {number}.")
    (folder / "findingaid.yaml").write_text(yaml.safe_dump(SETTINGS))
    findingaid = [sys.executable, "-m", "findingaid"]
    subprocess.run([*findingaid, "index"], cwd=folder, check=True, capture_output=True)
    command = [*findingaid, "serve", "http", "--port", str(PORT), "--watch"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _found("Note 1.", "1.md")
            (watcher,) = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
            took = [_saved(notes / "new.md", f"Edition {number} of the plan.") for number in range(SAVED + 5)][5:]
            before = _cpu_seconds(watcher)
            time.sleep(IDLE_SECONDS)
            idle = (_cpu_seconds(watcher) - before) / IDLE_SECONDS
            peak = max(map(_peak_megabytes, (watcher, str(server.pid))))
        finally:
            server.terminate()
    percentiles = quantiles(took, n=20)
    p50, p95 = percentiles[9], percentiles[18]
    shown = f"p50 {p50:.2f} s, p95 {p95:.2f} s"
    yield Row(f"saved and found over HTTP, {FILES:,} files", shown, "≤ 0.5 s, ≤ 1 s", p50 <= 0.5 and p95 <= 1)
    yield Row("… the watcher, idle", f"{idle:.2%} of a core; peak memory {peak:.0f} MB", "≤ 1 %", idle <= 0.01)


def _saved(path: Path, text: str) -> float:
    started = time.perf_counter()
    path.write_text(text)
    _found(text, path.name)
    return time.perf_counter() - started


def _found(text: str, name: str) -> None:
    """Ask until the best hit is this text of this file."""
    asked = json.dumps({"query": text, "k": 1, "mode": "lexical"})
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", PORT)
            connection.request("POST", "/v1/search", asked, {"Content-Type": "application/json"})
            hits = json.loads(connection.getresponse().read()).get("hits", [])
        except OSError:
            hits = []
        if any(hit["artifact_id"] == name and text in hit["text"] for hit in hits):
            return
        time.sleep(0.01)
    raise TimeoutError(f"{name} is not found")


def _cpu_seconds(process: str) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_megabytes(process: str) -> float:
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return int(kilobytes) / 1000


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="findingaid-bench-") as made:
        for row in watching(Path(made)):
            print(row.what, row.measured, row.met, sep=" | ")
