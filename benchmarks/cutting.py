"""Benchmarks of reading and cutting, without a model and in one process."""

import importlib.metadata
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
from semantic_text_splitter import MarkdownSplitter, TextSplitter

from benchmarks import corpus
from benchmarks.figures import ROUNDS, Row, settle, timed
from findingaid.claims.extraction import ClaimOrigin, ExtractiveClaims, claims_from
from findingaid.sources.files import Files
from findingaid.sources.sessions import Sessions
from findingaid.strategies.chunked import Chunked
from findingaid.text.prose import prose_sentences

MEGABYTE = 1_000_000
TEXT_BYTES = 10 * MEGABYTE
TRANSCRIPT_BYTES = 20 * MEGABYTE
CUT_RATE = 25
SENTENCES = 60_000
CLAIMS_RATE = 5
SHAPE_CHARACTERS = 2_000_000
SHAPE_RATE = 10
SIZE, OVERLAP = 1_200, 200
CODE = (("findingaid", ".py", "text/x-python"), ("findingaid/serve/page", ".js", "text/javascript"))
CODE_BYTES = 3 * MEGABYTE
CODE_RATE = 5


def markdown(_: Path) -> Iterator[Row]:
    """Cut real text."""
    yield _cut("Markdown", _real_texts())


def code(_: Path) -> Iterator[Row]:
    """Cut this repository's Python and JavaScript."""
    ours, theirs = Chunked(chunk_size=SIZE, overlap=OVERLAP), TextSplitter(SIZE, OVERLAP)
    for folder, suffix, media_type in CODE:
        texts = [path.read_text() for path in sorted(Path(folder).rglob(f"*{suffix}"))]
        texts *= max(1, CODE_BYTES // sum(map(len, texts)))
        cut = _processor_time(lambda texts=texts, kind=media_type: [ours.cut(text, kind) for text in texts])
        alone = _processor_time(lambda texts=texts: [theirs.chunk_indices(text) for text in texts])
        rate = sum(map(len, texts)) / cut / MEGABYTE
        yield Row(
            f"cutting {media_type.removeprefix('text/')} where definitions begin",
            f"{rate:.1f} MB/s and core, {cut / alone:.1f} × the splitter alone",
            f"≥ {CODE_RATE} MB/s",
            rate >= CODE_RATE,
        )


def claims(_: Path) -> Iterator[Row]:
    """Extract the claims of real text, checked against it as in a run."""
    texts, extractor = _real_texts(), ExtractiveClaims()
    sentences = sum(len(list(prose_sentences(text, markdown=True))) for text in texts)
    copies = max(1, SENTENCES // sentences)

    def extract() -> None:
        for text in texts * copies:
            of = ClaimOrigin("docs", "a.md", "1", text, extractor.id)
            claims_from(extractor.extract(text, {}).statements, of)

    rate = sum(len(text.encode()) for text in texts) * copies / _processor_time(extract) / MEGABYTE
    yield Row(
        f"claims over {sentences * copies:,} sentences",
        f"{rate:.1f} MB/s and core",
        f"≥ {CLAIMS_RATE} MB/s",
        rate >= CLAIMS_RATE,
    )


def _real_texts() -> list[str]:
    """Return this repository's documents and the readmes of installed packages."""
    texts = [path.read_text() for path in sorted(Path().glob("docs/*.md")) + sorted(Path().glob("*.md"))]
    for distribution in importlib.metadata.distributions():
        about = distribution.metadata
        if "markdown" in (about.get("Description-Content-Type") or ""):
            texts.append(str(about.get_payload() or about.get("Description") or ""))
    return texts


def _cut(what: str, texts: list[str]) -> Row:
    size = sum(len(text.encode()) for text in texts)
    texts *= max(1, TEXT_BYTES // size)
    size = sum(len(text.encode()) for text in texts)
    ours, theirs = Chunked(chunk_size=SIZE, overlap=OVERLAP), MarkdownSplitter(SIZE, OVERLAP)
    cut = _processor_time(lambda: [ours.cut(text, "text/markdown") for text in texts])
    alone = _processor_time(lambda: [theirs.chunk_indices(text) for text in texts])
    rate = size / cut / MEGABYTE
    return Row(
        f"cutting {what}",
        f"{rate:.0f} MB/s and core, {cut / alone:.1f} × the splitter alone",
        f"≥ {CUT_RATE} MB/s",
        rate >= CUT_RATE,
    )


def _processor_time(do: Callable[[], object]) -> float:
    """Return the least processor time in seconds of several rounds, which other load on the machine does not affect."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        do()
        times.append(time.process_time() - start)
    return min(times)


SHAPES = {
    "no spaces": "x",
    "no sentence ends": "word ",
    "headings": "# Title\n",
    "deep lists": "".join("  " * depth + "- item\n" for depth in range(20)),
    "minified JSON": '{"a":1,"b":[1,2,3],"c":"text"},',
    "base64": "aGVsbG8gd29ybGQhIGhlbGxvIHdvcmxk",
    "CJK": "索引保持最新",
    "links": "[a](b) ",
    "tables": "| 1 | 2 | 3 |\n",
    "code": "x = 1\n",
}


def shapes(_: Path) -> Iterator[Row]:
    """Cut texts of one repeated unit, as plain text and as Markdown, and report the slowest three."""
    chunked = Chunked(chunk_size=SIZE, overlap=OVERLAP)
    rates = {}
    for name, unit in SHAPES.items():
        text = (unit * (SHAPE_CHARACTERS // len(unit) + 1))[:SHAPE_CHARACTERS]
        for kind in ("text/plain", "text/markdown"):
            seconds = _processor_time(lambda text=text, kind=kind: chunked.cut(text, kind))
            rates[f"{name} ({kind.removeprefix('text/')})"] = len(text.encode()) / seconds / MEGABYTE
    slowest = sorted(rates, key=rates.__getitem__)[:3]
    yield Row(
        f"cutting {len(rates)} shapes of {SHAPE_CHARACTERS / MEGABYTE:.0f} million characters, the slowest",
        ", ".join(f"{name} {rates[name]:.1f} MB/s" for name in slowest),
        f"≥ {SHAPE_RATE} MB/s",
        rates[slowest[0]] >= SHAPE_RATE,
    )


def discovery(folder: Path) -> Iterator[Row]:
    count = 20_000
    root = corpus.write(folder, count)
    settle()
    source = Files(root)
    listed = min(timed(source.discover)[0] for _ in range(ROUNDS))
    walked = min(timed(lambda: list(os.walk(root)))[0] for _ in range(ROUNDS))
    yield Row(
        f"listing {count:,} files",
        f"{listed:.2f} s, {listed / walked:.0f} × os.walk, which looks at none",
        "≤ 1 s",
        listed <= 1,
    )


def transcript(folder: Path) -> Iterator[Row]:
    """Read a long session."""
    path = folder / "session.jsonl"
    turns = 0
    with path.open("w") as file:
        while file.tell() < TRANSCRIPT_BYTES:
            file.write(_turn(turns))
            turns += 1
    source = Sessions(folder)
    read = min(timed(lambda: source.read(path.stem))[0] for _ in range(ROUNDS))
    parsed = min(timed(lambda: [*map(orjson.loads, path.open("rb"))])[0] for _ in range(ROUNDS))
    yield Row(
        f"reading a transcript of {TRANSCRIPT_BYTES // MEGABYTE} MB",
        f"{read:.2f} s, {read / parsed:.1f} × parsing its lines alone",
        "≤ 3 ×",
        read <= 3 * parsed,
    )


def _turn(number: int) -> str:
    """Return a turn of about 15 kB: a question, four steps with text and a tool call, and an answer."""
    asked = {
        "type": "user",
        "cwd": "/home/ada",
        "timestamp": "2026-01-01T00:00:00Z",
        "message": {"content": f"Why {number}?"},
    }
    result = {"type": "user", "message": {"content": [{"type": "tool_result", "content": "a line of output\n" * 180}]}}
    used = {"type": "tool_use", "name": "Read", "input": {}}
    lines: list[object] = [asked]
    for step in range(4):
        said = {"type": "text", "text": f"Step {step}. " * 20}
        lines += [{"type": "assistant", "message": {"content": [said, used]}}, result]
    answer = {"type": "assistant", "message": {"content": [{"type": "text", "text": f"Because of {number}. " * 20}]}}
    return "".join(json.dumps(line) + "\n" for line in (*lines, answer))
