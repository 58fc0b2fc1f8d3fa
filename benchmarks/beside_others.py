"""Comparison of incremental indexing with CocoIndex, LlamaIndex, LangChain and ir.

All index the same files with the same chunks and an embedder that costs almost nothing. The other tools are not
dependencies of this project. Install them in a separate environment:

    python -m venv OTHERS
    OTHERS/bin/pip install cocoindex==1.0.26 langchain==1.4.7 langchain-community==0.4.2 llama-index-core==0.14.25 \
        llama-index-vector-stores-lancedb==0.6.0 lancedb==0.40.0 pandas semantic-text-splitter
    OTHERS/bin/pip install --no-deps ir==0.1.61 cw dol ef i2 vd
    python -m benchmarks.beside_others OTHERS/bin/python
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import findingaid
from benchmarks import corpus, floor
from benchmarks.others import FILES, NAMES, OVERLAP, measured, wanted

DIMS = {"first": 384, "second": 256}


def ours(folder: Path) -> dict[str, tuple[float, int, int]]:
    root = corpus.write(folder, FILES)
    config = corpus.config(folder, root)

    def set_to(size: int, embedder: str) -> dict[str, object]:
        cut = {"name": "Chunked", "chunk_size": size, "overlap": OVERLAP}
        return {"corpora.docs.strategy": cut, "embedder": {"kind": "hash", "dim": DIMS[embedder]}}

    def run(size: int, embedder: str) -> None:
        assert findingaid.open(config, set_to(size, embedder)).index().ok

    def stale(size: int, embedder: str) -> tuple[int, int]:
        records = findingaid.open(config, set_to(size, embedder)).store.published()
        rows, texts = records.to_table(columns=["text", "embedder_id"]).to_pylist(), wanted(root, size)
        made_by = f"hash-{DIMS[embedder]}"
        return len(rows), sum(row["text"] not in texts or row["embedder_id"] != made_by for row in rows)

    return measured(run, root, stale)


def the_floor(folder: Path) -> dict[str, tuple[float, int, int]]:
    """Measure the floor. It has no settings, so only the runs before the changes of settings are meaningful."""
    root = corpus.write(folder, FILES)
    return measured(lambda *_: floor.index(root, folder / "floor"), root, lambda *_: (0, 0))


def theirs(python: str, name: str, folder: Path) -> dict[str, tuple[float, int, int]]:
    done = subprocess.run(
        [python, "-W", "ignore", "-m", "benchmarks.others", name, folder],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "COCOINDEX_DISABLE_USAGE_TRACKING": "1"},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, tuple[float, int, int]] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    others = {name: partial(theirs, sys.argv[1], name) for name in NAMES}
    for name, measure in {"floor": the_floor, "findingaid": ours, **others}.items():
        with TemporaryDirectory() as folder:
            for what, (seconds, rows, stale) in measure(Path(folder)).items():
                print(f"{name}, {what}: {seconds:.2f} s, {stale:,} of {rows:,} rows stale", flush=True)
