"""Texts that stall other patterns, parsers and splitters take time proportional to their length."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from semantic_text_splitter import MarkdownSplitter, TextSplitter

from findingaid.text.file_metadata import file_metadata
from findingaid.text.splitting import GROWTH, WINDOW, Splitter, chunk_indices
from tests.paths import ROOT

SHAPES = r"""
import sys
from findingaid.text.cleaning import Noise
from findingaid.text.prose import prose_sentences, without_markup
from findingaid.edges.links import LinkEdges
from findingaid.text.file_metadata import file_metadata
from findingaid.text.front_matter import FrontMatter
from findingaid.model import Artifact
from findingaid.text.clauses import first_clause
from findingaid.text.words import stems
from findingaid.sources.packages import _header
from findingaid.strategies.chunked import Chunked
from findingaid.llm.completions import REFUSAL, answer_text
from findingaid.synthesis.extractive import Extractive
from findingaid.llm.prompts import enclose

N = 4_000
UNITS = ("[", "![", "*", "`", "<!--", "a\n", "\r", " ", "\t", "x", "word ", "# ", "a.", "1", "<", "](", "e.g. ", "- ")
for unit in UNITS:
    run = (unit * N)[:N]
    for text in (run, "# Title" + run + "x", "](a " + run, "```" + run + "x", "<" + run + "y", "Name: a" + run + "x"):
        file_metadata(text, "x.md"), FrontMatter.of(text), without_markup(text), REFUSAL.match(text), enclose(text)
        list(prose_sentences(text, False)), list(prose_sentences(text, True)), stems([text]), first_clause(text)
        _header(text, "Name")
        for kind in ("text/markdown", "text/x-rst"):
            Noise.of(text, kind).removed(0, len(text))
        list(LinkEdges().extract(Artifact("a.md", text, {"media_type": "text/markdown"}), {}))
    Chunked().cut(run, "text/plain"), Chunked().cut(run, "text/markdown")
"""


@pytest.mark.slow
def test_every_pattern_that_sees_text_ends_soon_on_runs_of_its_own_characters() -> None:
    subprocess.run([sys.executable, "-c", SHAPES], check=True, timeout=420)


EVERY = r"""
import pkgutil, re
from importlib import import_module
import findingaid

UNITS = ["a", "A", "1", "é", "中", "a ", "a\n", "a\r\n", "# a\r\n", "- a\n", "a.", "1,", "1 ", "a-", "A. ", "aA"]
UNITS += ["\r\n", *" \t\r\n-_.,#`|'()[]{}<>/:=*~+%@&;!?\\\"", "](", "[a](", "|-", "<!--", "<a ", "a@b.", "/*"]
modules = [each.name for each in pkgutil.walk_packages(findingaid.__path__, "findingaid.")]
named = [each for name in modules if "__main__" not in name for each in vars(import_module(name)).values()]
for pattern in {each for each in named if isinstance(each, re.Pattern) and isinstance(each.pattern, str)}:
    for unit in UNITS:
        for head, end in ("", "\0"), ("# a", "x"):
            pattern.search(text := head + unit * 40 + end), pattern.fullmatch(text)
"""


def test_no_pattern_takes_twice_the_time_for_each_character_more() -> None:
    subprocess.run([sys.executable, "-c", EVERY], check=True, timeout=60)


POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{\{?\d+(?:,\d*)?\}?\})\+")


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python before 3.11.3 matches a part of the last repetition then: 1,2,34 as 1,2,3. Write (?>(?:…)+) instead."""
    product = [path for folder in ("findingaid", "assets", "pipelines") for path in (ROOT / folder).rglob("*.py")]

    assert [path.name for path in product if POSSESSIVE_GROUP.search(path.read_text())] == []
    assert all(POSSESSIVE_GROUP.search(pattern) for pattern in (r"\d(?:,\d)++", r"(?:ab){{2,}}+"))


BREAKS = "from findingaid.sources.converters.web import page_tree; page_tree('<p>' + 'a<br>' * 60_000)"


def test_a_page_of_many_line_breaks_is_read_soon() -> None:
    subprocess.run([sys.executable, "-c", BREAKS], check=True, timeout=60)


BLANKS = " " * 10**6


def test_a_long_run_of_blanks_is_read_at_once() -> None:
    read = (
        f"findingaid.text.file_metadata.file_metadata('# T{BLANKS}x', 'n')[0]['title']",
        f"findingaid.text.cleaning.Noise.of('{BLANKS}x').text",
        f"findingaid.text.cleaning.Noise.of('<b>{BLANKS}x</b>', 'text/markdown').removed(0, {len(BLANKS) + 4})",
        f"[*findingaid.text.entries.entries('a: b{BLANKS}x', 'text/plain')][0][0]",
        f"[*findingaid.text.entries.entries('|a|\\n|-{BLANKS.replace(' ', '-')}x|', 'text/markdown')][1][0]",
        "'x' if findingaid.query.answers.answer_types.stated('how long', '1 ' * 10**5) == 0 else 'y'",
    )
    modules = "query.answers.answer_types", "text.cleaning", "text.entries", "text.file_metadata"
    code = "".join(f"import findingaid.{module}\n" for module in modules)
    code += "".join(f"print({each}[-1])\n" for each in read)
    done = subprocess.run([sys.executable], input=code, check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout.split() == ["x"] * 6


@pytest.mark.parametrize(
    ("line", "title"),
    [("# A ##", "A"), ("# A#", "A#"), ("# # #", "#"), ("# ##", "n"), ("#  ", "n"), ("## A \t# \t\r", "A #")],
)
def test_a_heading_is_its_text_without_the_closing_marks(line: str, title: str) -> None:
    assert file_metadata(f"{line}\n\nbody", "n")[0]["title"] == title


@pytest.mark.parametrize("unit", ["This is a sentence. ", "word ", "x", "Ab. c; "])
def test_a_very_long_line_is_cut_as_the_splitter_alone_would(unit: str) -> None:
    text = (unit * 60_000)[:60_000]
    splitter = TextSplitter(1200, 200)

    assert list(chunk_indices(splitter, text, 1200)) == splitter.chunk_indices(text)


UNITS = {
    "prose": "The quick brown fox jumps over the lazy dog and says so. ",
    "paragraphs": "One sentence. Another sentence.\n\n",
    "no spaces": "x",
    "no sentences": "word ",
    "headings": "# H\n",
    "lists": "- a\n  - b\n    - c\n",
    "json": '{"a":1,"b":[1,2,3]},',
    "base64": "aGVsbG8gd29ybGQh",
    "cjk": "索引保持最新",
    "blank lines": "\n",
    "links": "[a](b) ",
    "brackets": "[",
    "backticks": "`",
    "quotes": "> > q\n",
    "table": "| 1 | 2 | 3 |\n",
    "code": "```\n" + "x = 1\n" * 5_000 + "```\n",
}


@dataclass
class CountingSplitter:
    """Splitter that adds up the characters it is given."""

    inner: Splitter
    longest: int = 0
    total: int = 0

    def chunk_indices(self, text: str) -> list[tuple[int, str]]:
        self.longest = max(self.longest, len(text))
        self.total += len(text)
        return self.inner.chunk_indices(text)


@pytest.mark.parametrize("unit", ["x", "日", "x1", "__a", "0123abc9", "a "])
def test_each_letter_of_a_text_with_an_accent_is_looked_at_a_few_times(unit: str) -> None:
    """A pattern that begins a word anew at each letter takes minutes."""
    words = f"ü {unit * (1_000_000 // len(unit))}"
    command = [
        sys.executable,
        "-c",
        "import sys; from findingaid.text.analyzer import searchable; searchable(sys.stdin.read())",
    ]

    done = subprocess.run(command, input=words.encode(), timeout=60, capture_output=True, check=False)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_the_splitter_gets_windows_of_a_text_of_any_shape_and_each_character_about_once(unit: str) -> None:
    size = 100_000
    text = (unit * (size // len(unit) + 1))[:size]
    for inner in (TextSplitter(1200, 200), MarkdownSplitter(1200, 200)):
        splitter = CountingSplitter(inner)
        chunks = list(chunk_indices(splitter, text, 1200))

        assert splitter.longest <= GROWTH * WINDOW
        assert splitter.total <= 2 * len(text) + WINDOW
        assert all(text.startswith(chunk, start) for start, chunk in chunks)
        covered = bytearray(len(text))
        for start, chunk in chunks:
            covered[start : start + len(chunk)] = b"x" * len(chunk)
        assert not "".join(text[i] for i, seen in enumerate(covered) if not seen).strip()


def test_a_code_block_longer_than_a_window_leaves_the_cut_of_the_text_after_it() -> None:
    code = "```\n" + "\n".join(f"x = {i}\n" for i in range(4_000)) + "\n```\n"
    text = "# Start\n\n" + code + "".join(f"## Part {i}\n\n{'Some words here. ' * 55}\n\n" for i in range(60))
    splitter = MarkdownSplitter(1200, 200)

    assert list(chunk_indices(splitter, text, 1200))[-30:] == splitter.chunk_indices(text)[-30:]


@pytest.mark.parametrize(
    ("unit", "size"),
    [pytest.param("word ", 5_000_000, marks=pytest.mark.slow), ("x", 1_000_000), ("\r\n", 500_000)],
)
def test_a_text_in_one_line_or_without_words_is_indexed_in_seconds(unit: str, size: int, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text((unit * size)[:size])
    (tmp_path / "findingaid.yaml").write_text(
        "store: store\nembedder: {kind: hash}\ncorpora: {docs: {source: {kind: files, root: docs}}}\n"
    )
    command = [sys.executable, "-m", "findingaid", "index", "--config", str(tmp_path / "findingaid.yaml")]
    done = subprocess.run(command, timeout=90, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
