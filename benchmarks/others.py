"""Indexing with CocoIndex, LlamaIndex, LangChain, dlt, ir and llm, for the comparison in `benchmarks.beside_others`.

    python -m benchmarks.others NAME FOLDER
    python -m benchmarks.others NAME FOLDER MODEL

That module says how to install them. Prints JSON: for each kind of run the seconds, the rows after it, and the number
of rows that are stale for the current files and settings. Each tool is set up as in its documentation, in one process,
with findingaid's splitter and an embedder that costs almost nothing. All use LanceDB, except ir and llm, which
support only files of their own. With the folder of a model of sentence-transformers, LangChain and LlamaIndex embed
with it by their own packages for that, and the seconds alone are printed.
"""

# mypy: ignore-errors
# The tools are not installed where types are checked.

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lance
import lancedb
import numpy as np
import pyarrow as pa
from semantic_text_splitter import MarkdownSplitter

from benchmarks import corpus

FILES, MODEL_FILES = 1_000, 200
ROUNDS = 3
SIZE, OVERLAP = 1_200, 200
SETTLED = 2.5
"""Seconds until the times of files just written can be trusted: a file can change twice within one tick."""

DIM = 384

Run = Callable[[int, str], None]
"""Function of (chunk size in characters, embedder name) that brings the index up to date with the files."""


def chunks(text: str, size: int) -> list[str]:
    return MarkdownSplitter(size, OVERLAP).chunks(text)


embedded: list[str] = []
"""Texts that were embedded in this process."""

KILLED_AT = int(os.environ.get("BENCHMARK_KILLED_AT", "0"))
"""Number of embedded texts after which this process kills itself; 0 for never."""

ENDPOINT_SECONDS = 0.02
"""Time that each text takes then, as at an endpoint. A tool may keep what it has made every few seconds."""

POISON = "This sentence cannot be embedded."
"""Sentence at which the embedder fails."""

BAD: dict[str, list[float]] = {
    "This sentence gives no number.": [math.nan] * DIM,
    "This sentence gives nothing.": [0.0] * DIM,
    "This sentence gives half.": [1.0] * (DIM // 2),
}
"""Sentences for which the embedder returns a vector that nothing can be found by."""


class Endpoint:
    """Where the embedder is: `away` while it answers nothing, `cured` when it can embed `POISON` too."""

    away = cured = False


def vector(text: str, embedder: str) -> list[float]:
    """Embed a text, and note it. Raises ValueError for a text with `POISON`, and ConnectionError while it is away."""
    if Endpoint.away:
        raise ConnectionError("the endpoint does not answer")
    embedded.append(text)
    if KILLED_AT:
        time.sleep(ENDPOINT_SECONDS)
    if len(embedded) == KILLED_AT:
        os.kill(os.getpid(), signal.SIGKILL)
    if POISON in text and not Endpoint.cured:
        raise ValueError("a text cannot be embedded")
    bad = next((made for sentence, made in BAD.items() if sentence in text), None)
    return bad or numbers(text, embedder)


def numbers(text: str, embedder: str) -> list[float]:
    """Return a meaningless vector of length 1, the same for a text and an embedder; "half" gives shorter ones."""
    digest = hashlib.sha256((embedder + text).encode()).digest()
    times = DIM // len(digest) // (2 if embedder == "half" else 1)
    length = math.hypot(*digest) * math.sqrt(times)
    return [byte / length for byte in digest] * times


def measured(run: Run, root: Path, stale: Callable[[int, str], tuple[int, int]]) -> dict[str, tuple[float, int, int]]:
    """Measure each kind of run, the fastest of repeated ones.

    `stale` returns the number of rows and of stale rows. Returns kind of run -> (seconds, rows, stale rows).
    """

    def after(seconds: float, size: int = SIZE, embedder: str = "first") -> tuple[float, int, int]:
        return seconds, *stale(size, embedder)

    found = {kind: after(seconds) for kind, seconds in edits(partial(run, SIZE, "first"), root)}
    (root / "000" / "00001.md").unlink()
    found["one deleted"] = after(took(partial(run, SIZE, "first")))
    found["other chunk size"] = after(took(partial(run, 600, "first")), 600)
    found["another embedder"] = after(took(partial(run, 600, "second")), 600, "second")
    return found


def edits(run: Callable[[], None], root: Path) -> Iterator[tuple[str, float]]:
    """Yield (kind of run, seconds), the least of repeated ones, for a cold run, one without a change, and an edit."""
    time.sleep(SETTLED)
    yield "cold", took(run)
    yield "nothing changed", min(took(run) for _ in range(ROUNDS))
    seconds = []
    for edition in range(1, ROUNDS + 1):
        (root / "000" / "00000.md").write_text(corpus.document(0, edition))
        seconds.append(took(run))
    yield "one edited", min(seconds)


def took(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def versions(python: str) -> dict[str, str]:
    """Return the versions of findingaid here and of the tools in another environment."""
    from findingaid import __version__  # the environment of the others lacks it

    code = "import importlib.metadata as m, sys; print(*(m.version(name) for name in sys.argv[1:]))"
    names = {name: {"llamaindex": "llama-index-core"}.get(name, name) for name in NAMES}
    found = subprocess.check_output([python, "-c", code, *names.values()], text=True).split()
    return {"findingaid": __version__, **dict(zip(names, found, strict=True))}


def wanted(root: Path, size: int) -> set[str]:
    """Return the chunks of the current files."""
    return {text for path in root.rglob("*.md") for text in chunks(path.read_text(), size)}


Rows = Callable[[], list[tuple[str, float]]]
"""Function that returns the text of every row and the first number of its vector."""


def table_of(state: Path) -> Path:
    """Return the folder of the table of chunks. dlt gives it a name of its own."""
    return next(iter((state / "lance").glob("*/*made$chunks")), state / "lance" / "chunks.lance")


def rows_of_table(state: Path) -> list[tuple[str, float]]:
    rows = lance.dataset(table_of(state)).to_table(columns=["text", "vector"])
    return list(zip(rows["text"].to_pylist(), (each[0] for each in rows["vector"].to_pylist()), strict=True))


def stale_rows(root: Path, rows: Rows, size: int, embedder: str) -> tuple[int, int]:
    texts, found = wanted(root, size), rows()
    return len(found), sum(text not in texts or abs(numbers(text, embedder)[0] - first) > 1e-6 for text, first in found)


def langchain(root: Path, state: Path, model: str = "") -> Run:
    from langchain_classic.indexes import SQLRecordManager
    from langchain_community.vectorstores import LanceDB
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.indexing import index

    class Hashed(Embeddings):
        def __init__(self, name: str) -> None:
            self.name = name

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [vector(text, self.name) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return vector(text, self.name)

    loaded = None
    if model:
        from langchain_huggingface import HuggingFaceEmbeddings

        loaded = HuggingFaceEmbeddings(model_name=model)

    database = lancedb.connect(state / "lance")
    manager = SQLRecordManager("lance/chunks", db_url=f"sqlite:///{state}/records.db")
    manager.create_schema()

    def run(size: int, embedder: str) -> None:
        store = LanceDB(connection=database, embedding=loaded or Hashed(embedder), table_name="chunks", mode="append")
        cut = [
            Document(text, metadata={"source": str(path)})
            for path in sorted(root.rglob("*.md"))
            for text in chunks(path.read_text(), size)
        ]
        index(cut, manager, store, cleanup="full", source_id_key="source", batch_size=1_000, key_encoder="sha256")

    return run


def llamaindex(root: Path, state: Path, model: str = "") -> Run:
    from llama_index.core import Document
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
    from llama_index.core.node_parser import TextSplitter
    from llama_index.core.storage.docstore import SimpleDocumentStore
    from llama_index.vector_stores.lancedb import LanceDBVectorStore

    class Cut(TextSplitter):
        size: int

        def split_text(self, text: str) -> list[str]:
            return chunks(text, self.size)

    class Hashed(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return vector(text, self.model_name)

        def _get_query_embedding(self, query: str) -> list[float]:
            return vector(query, self.model_name)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return vector(query, self.model_name)

    class Table(LanceDBVectorStore):
        def delete(self, ref_doc_id: str, **_: Any) -> None:
            """Delete the rows of a document.

            The inherited method puts the id in double quotes, which this version of LanceDB takes for a column name.
            """
            self.table.delete("doc_id = '" + ref_doc_id.replace("'", "''") + "'")

    loaded = None
    if model:
        from llama_index.embeddings.huggingface import HuggingFaceEmbedding

        loaded = HuggingFaceEmbedding(model)
    kept = str(state / "documents.json")
    store = Table(uri=str(state / "lance"), table_name="chunks", mode="create")

    def run(size: int, embedder: str) -> None:
        known = Path(kept).exists()
        documents = SimpleDocumentStore.from_persist_path(kept) if known else SimpleDocumentStore()
        pipeline = IngestionPipeline(
            transformations=[Cut(size=size), loaded or Hashed(model_name=embedder)],
            docstore=documents,
            docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
            vector_store=store,
        )
        pipeline.run(documents=[Document(text=path.read_text(), id_=str(path)) for path in sorted(root.rglob("*.md"))])
        documents.persist(kept)

    return run


def cocoindex(root: Path, state: Path) -> Run:
    from dataclasses import dataclass
    from typing import Annotated

    import cocoindex as coco
    from cocoindex.connectors import lancedb as target
    from cocoindex.connectors import localfs
    from cocoindex.resources.file import FileLike, PatternFilePathMatcher
    from cocoindex.resources.id import IdGenerator
    from cocoindex.resources.schema import VectorSchema
    from numpy.typing import NDArray

    database = coco.ContextKey[Any]("database")
    wanted: dict[str, Any] = {}

    @dataclass
    class Row:
        id: int
        path: str
        text: str
        vector: Annotated[NDArray[np.float32], VectorSchema(dtype=np.dtype(np.float32), size=DIM)]

    @coco.lifespan
    async def lifespan(builder: coco.EnvironmentBuilder) -> Any:
        builder.settings.db_path = state / "cocoindex.db"
        builder.provide(database, await target.connect_async(str(state / "lance")))
        yield

    @coco.fn(memo=True)
    async def one(file: FileLike, table: Any, size: int, embedder: str) -> None:
        ids = IdGenerator()
        for text in chunks(await file.read_text(), size):
            made = np.array(vector(text, embedder), dtype=np.float32)
            table.declare_row(row=Row(await ids.next_id(text), str(file.file_path.path), text, made))

    @coco.fn
    async def everything() -> None:
        schema = await target.TableSchema.from_class(Row, primary_key=["id"])
        table = await target.mount_table_target(database, "chunks", schema)
        matcher = PatternFilePathMatcher(included_patterns=["**/*.md"])
        files = localfs.walk_dir(root, recursive=True, path_matcher=matcher)
        await coco.mount_each(one, files.items(), table, wanted["size"], wanted["embedder"])

    app = coco.App(coco.AppConfig(name="benchmark"), everything)

    def run(size: int, embedder: str) -> None:
        wanted.update(size=size, embedder=embedder)
        app.update_blocking()

    return run


def of_ir(root: Path, state: Path) -> Run:
    os.environ["IR_DATA_DIR"] = str(state / "ir")
    import ir

    class Cut:
        def __init__(self, size: int) -> None:
            self.size = size

        def decompose(self, artifact_id: str, raw: str, metadata: dict[str, Any]) -> ir.IndexPlan:
            cut = [ir.Surface(artifact_id, "chunk", text, "chunk") for text in chunks(raw, self.size)]
            return ir.IndexPlan(dict(metadata), cut)

    def run(size: int, embedder: str) -> None:
        def embed(texts: Any, **_: Any) -> Any:
            return np.array([vector(text, embedder) for text in texts], dtype=np.float32)

        embed._ir_id = embedder  # ir identifies embedding functions by this attribute
        ir.build(ir.CorpusSource.from_files(root, name="chunks", strategy=Cut(size), embedder=embed))

    return run


def dlt_to_lance(root: Path, state: Path) -> Run:
    """Set up dlt's source of files, which loads those that changed by their time, and its destination `lance`."""
    import dlt
    from dlt.destinations.adapters import lance_adapter
    from dlt.sources.filesystem import filesystem

    def run(size: int, embedder: str) -> None:
        newer = dlt.sources.incremental("modification_date")
        files = filesystem(bucket_url=root.as_uri(), file_glob="**/*.md", incremental=newer)

        @dlt.transformer(data_from=files, name="chunks")
        def cut(items: Any) -> Any:
            for item in items:
                texts = chunks(item.read_bytes().decode(), size)
                vectors = pa.array([vector(text, embedder) for text in texts], pa.list_(pa.float32(), DIM))
                path = item["relative_path"]
                ids = [f"{path}-{i}" for i in range(len(texts))]
                yield pa.table({"id": ids, "document": [path] * len(texts), "text": texts, "vector": vectors})

        upsert = {"disposition": "merge", "strategy": "upsert"}
        cut.apply_hints(write_disposition=upsert, primary_key="id")
        lance = dlt.destinations.lance(storage={"bucket_url": str(state / "lance")})
        pipeline = dlt.pipeline("chunks", destination=lance, dataset_name="made", pipelines_dir=str(state / "dlt"))
        pipeline.run(lance_adapter(cut, merge_key="document"))

    return run


def rows_of_ir(_: Path) -> list[tuple[str, float]]:
    import ir

    store = ir.open_corpus("chunks").store
    records = map(store.get_record, store.record_ids())
    return [(record.text, float(record.vector[0])) for record in records]


def of_llm(root: Path, state: Path) -> Run:
    """Set up the embeddings of `llm`, which keeps texts by an id and the hash of their content."""
    import llm
    import sqlite_utils

    class Hashed(llm.EmbeddingModel):
        batch_size = 100

        def __init__(self, name: str) -> None:
            self.model_id = name

        def embed_batch(self, items: Any) -> Any:
            return (vector(text, self.model_id) for text in items)

    database = sqlite_utils.Database(state / "llm.db")

    def run(size: int, embedder: str) -> None:
        collection = llm.Collection("chunks", database, model=Hashed(embedder))
        files = ((path, enumerate(chunks(path.read_text(), size))) for path in sorted(root.rglob("*.md")))
        collection.embed_multi(((f"{path}-{i}", text) for path, texts in files for i, text in texts), store=True)

    return run


def rows_of_llm(state: Path) -> list[tuple[str, float]]:
    import llm
    import sqlite_utils

    rows = sqlite_utils.Database(state / "llm.db")["embeddings"].rows
    return [(row["content"], llm.decode(row["embedding"])[0]) for row in rows]


ROWS = {"ir": rows_of_ir, "llm": rows_of_llm}
"""Functions of the folder of a tool that keeps no table of Lance."""

NAMES = {
    "cocoindex": cocoindex,
    "dlt": dlt_to_lance,
    "ir": of_ir,
    "langchain": langchain,
    "llamaindex": llamaindex,
    "llm": of_llm,
}

if __name__ == "__main__":
    name, folder, *model = sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]
    files = corpus.write(folder, MODEL_FILES if model else FILES)
    start = partial(NAMES[name], files, folder)
    if model:
        print(json.dumps(dict(edits(partial(start(*model), SIZE, "model"), files))))
    else:
        rows = partial(ROWS.get(name, rows_of_table), folder)
        print(json.dumps(measured(start(), files, partial(stale_rows, files, rows))))
