"""Generated Markdown of a known size, identical on every machine."""

import random
from pathlib import Path

import yaml

WORDS = [
    "index",
    "artifact",
    "surface",
    "record",
    "synopsis",
    "ledger",
    "stage",
    "batch",
    "commit",
    "table",
    "vector",
    "token",
    "chunk",
    "query",
    "corpus",
    "source",
    "strategy",
    "embedder",
    "version",
    "snapshot",
    "reader",
    "writer",
    "crash",
    "retry",
    "lease",
    "shard",
    "cursor",
    "merge",
    "filter",
    "partition",
    "schema",
    "the",
    "of",
    "and",
    "a",
    "to",
    "in",
    "is",
    "for",
    "that",
    "with",
    "as",
    "on",
    "by",
    "from",
    "each",
    "one",
    "when",
    "not",
    "every",
    "which",
    "must",
    "can",
    "only",
    "its",
]
SECTIONS, SENTENCES = 6, 7


def document(number: int, edition: int = 0) -> str:
    """Return a document of about 4,000 characters in six sections, which gives about four chunks."""
    rng = random.Random(f"{number}/{edition}")
    sections = []
    for section in range(SECTIONS):
        sentences = (" ".join(rng.choices(WORDS, k=rng.randint(10, 20))).capitalize() + "." for _ in range(SENTENCES))
        sections.append(f"## Section {section} of document {number}\n\n" + " ".join(sentences))
    return f"# Document {number}\n\n" + "\n\n".join(sections) + "\n"


def write(folder: Path, count: int) -> Path:
    """Write `count` documents in folders of a hundred, and return their root."""
    root = folder / "files"
    for number in range(count):
        path = root / f"{number // 100:03d}" / f"{number:05d}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document(number))
    return root


def config(folder: Path, root: Path, embedder: dict[str, object] | None = None) -> Path:
    """Write a configuration for the files below `root`, by default with the hash embedder, and return its path.

    It has no synopses.
    """
    path = folder / "findingaid.yaml"
    settings = {
        "store": str(folder / "index"),
        "embedder": embedder or {"kind": "hash"},
        "corpora": {"docs": {"source": {"kind": "files", "root": str(root), "include": ["**/*.md"]}}},
    }
    path.write_text(yaml.safe_dump(settings))
    return path
