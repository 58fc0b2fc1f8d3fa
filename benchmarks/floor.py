"""Floor of the benchmarks: a minimal program that keeps an index of files current.

It has a SQLite manifest of (path, size, mtime) and one LanceDB table. Each run deletes stale rows and then adds new
ones. It has no ledger, no crash safety, no atomic replacement, no failure handling, no caches, no synopses and no plan.
"""

import sqlite3
from pathlib import Path

import lancedb
import pyarrow as pa
from semantic_text_splitter import MarkdownSplitter

from findingaid.embedding.hashing import HashEmbedder

DIM = 384
SCHEMA = pa.schema(
    [("path", pa.string()), ("position", pa.int32()), ("text", pa.string()), ("vector", pa.list_(pa.float16(), DIM))]
)


def index(root: Path, store: Path) -> int:
    """Bring the table up to date with the Markdown files below `root`, and return the number of embedded texts."""
    store.mkdir(exist_ok=True)
    manifest = sqlite3.connect(store / "manifest.db")
    manifest.execute("CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, size INT, mtime INT)")
    known = {path: (size, mtime) for path, size, mtime in manifest.execute("SELECT * FROM files")}
    found = {
        str(p.relative_to(root)): (s.st_size, s.st_mtime_ns) for p in sorted(root.rglob("*.md")) for s in [p.stat()]
    }
    changed = [path for path, stamp in found.items() if known.get(path) != stamp]
    gone = [path for path in known if path not in found]
    if not changed and not gone:
        return 0

    splitter = MarkdownSplitter(1200, 200)
    chunks = [(path, i, text) for path in changed for i, text in enumerate(splitter.chunks((root / path).read_text()))]
    vectors = HashEmbedder(DIM).embed([text for _, _, text in chunks]).astype("float16")
    paths, positions, texts = zip(*chunks, strict=True) if chunks else ((), (), ())
    vector_column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIM)
    rows = pa.table([pa.array(paths), pa.array(positions, pa.int32()), pa.array(texts), vector_column], schema=SCHEMA)

    database = lancedb.connect(store / "lance")
    table = database.create_table("chunks", schema=SCHEMA, exist_ok=True)
    if stale := [path for path in [*changed, *gone] if path in known]:
        table.delete(f"path IN ({','.join(repr(path) for path in stale)})")
    if chunks:
        table.add(rows)
    if not known:
        table.create_index("text", config=lancedb.index.FTS())
    with manifest:
        manifest.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in gone])
        manifest.executemany(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?)", [(path, *found[path]) for path in changed]
        )
    manifest.close()
    return len(chunks)
