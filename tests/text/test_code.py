"""Code is cut where definitions begin, whole and in linear time, whether it parses or not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from findingaid import FindingAid
from findingaid.sources.files import Files
from findingaid.strategies.chunked import Chunked
from findingaid.synthesis.extractive import Extractive
from findingaid.text import code
from findingaid.text.code import GRAMMARS, Code

SOURCES = {
    "text/x-go": (
        "package a\n\n// Stack is a pile.\ntype Stack[T any] struct{ x []T }\n\n"
        "func (s *Stack[T]) Push(x T) {}\nfunc main() {}\n",
        "type Stack, method Stack.Push, function main",
    ),
    "text/x-rust": (
        "#[derive(Debug)]\npub struct Pile<T> { x: T }\nimpl<T> Pile<T> { fn push(&self) {} }\ntrait Heap {}\n"
        "mod inner { pub fn f() {} }\nenum E { A }\nmacro_rules! m { () => {} }\n",
        "struct Pile, impl Pile, method Pile.push, trait Heap, module inner, function inner.f, enum E, macro m",
    ),
    "text/x-java": (
        "/** A pile. */\n@Deprecated\npublic class Pile<T> { Pile() {} int size() { return 1; } enum E { X } }\n"
        "interface Heap {}\nrecord Pair(int a) {}\n",
        "class Pile, constructor Pile.Pile, method Pile.size, enum Pile.E, interface Heap, record Pair",
    ),
    "text/x-c": (
        "typedef struct { int x; } Pile;\nstruct Node { int y; };\nstatic int *find(int a) { return 0; }\n"
        "int declared(int);\n#define TWICE(x) x x\nenum E { A };\n",
        "type Pile, struct Node, function find, function declared, macro TWICE, enum E",
    ),
    "text/x-c++": (
        "namespace n { template <class T>\nclass Pile { void push() {} int size() const; }; }\n"
        "int& Pile::top() { return x; }\nusing Heap = int;\n",
        "namespace n, class n.Pile, method n.Pile.push, method n.Pile.size, function Pile::top, type Heap",
    ),
    "text/x-chdr": ("int sum(int *, int);\nclass Pile { };\n", "function sum, class Pile"),
    "text/javascript": (
        "export const find = async () => 1;\nclass Pile { static push() {} }\nfunction* all() {}\n"
        "exports.last = function () {};\nconst o = { key: () => 2 };\n",
        "function find, class Pile, method Pile.push, function all, function exports.last, function key",
    ),
    "text/x-typescript": (
        "abstract class Pile<T> { push = () => 1; }\ninterface Heap {}\ntype Key = string;\nenum E { A }\n"
        "namespace N { function f() {} }\nlet x = <any>y;\n",
        "class Pile, method Pile.push, interface Heap, type Key, enum E, module N, function N.f",
    ),
    "text/x-tsx": ("@Injectable()\nexport class Pile {}\nconst Row = () => <tr/>;\n", "class Pile, function Row"),
    "text/x-python": (
        "class Pile:\n    @cached\n    def size(self): ...\n\nasync def find(): ...\n",
        "class Pile, method Pile.size, function find",
    ),
}


@pytest.mark.parametrize("media_type", GRAMMARS)
def test_the_symbols_of_a_language_have_kinds_and_qualified_names(media_type: str) -> None:
    text, symbols = SOURCES[media_type]

    (chunk,) = Chunked().cut(text, media_type)

    pairs = zip(chunk.metadata["symbol_kinds"], chunk.metadata["symbols"], strict=True)
    assert ", ".join(map(" ".join, pairs)) == symbols


def test_a_chunk_begins_with_a_definition_and_what_is_said_above_it() -> None:
    text = "int x; // trailing\n\n// Adds.\n// Both.\nint add(int a) {\n  return a;\n}\n\n/* Far. */\n\n"
    text += "template <class T>\nT twice(T a) {\n  return add(a);\n}\n"

    chunks = Chunked(chunk_size=70, overlap=0).cut(text, "text/x-c++")

    assert [chunk.text.split("\n")[0] for chunk in chunks] == ["int x; // trailing", "// Adds.", "template <class T>"]
    assert [chunk.metadata.get("symbols") for chunk in chunks] == [None, ["add"], ["twice"]]


def test_a_part_of_a_long_definition_names_the_one_around_it() -> None:
    body = "".join(f"    total = total.plus({i});\n" for i in range(40))
    text = f"class Ledger {{\n  void add() {{\n{body}  }}\n  void close() {{ }}\n}}\n"

    chunks = Chunked(chunk_size=300, overlap=0).cut(text, "text/x-java")

    assert [chunk.metadata["symbols"] for chunk in chunks[:2]] == [["Ledger"], ["Ledger.add"]]
    assert {*chunks[-2].metadata["symbols"]} == {"Ledger.add"}
    assert chunks[-1].metadata["symbols"] == ["Ledger.close"]


def test_a_minified_file_is_cut_at_its_functions() -> None:
    text = "".join(f"function f{i}(a){{return a*{i}+Math.max(a,{i})}}" for i in range(50))

    chunks = Chunked(chunk_size=120, overlap=0).cut(text, "text/javascript")

    assert all(chunk.text.startswith("function f") and chunk.text.endswith("}") for chunk in chunks)
    assert [name for chunk in chunks for name in chunk.metadata["symbols"]] == [f"f{i}" for i in range(50)]


FRAGMENTS = [
    *(text for text, _ in SOURCES.values()),
    *[
        "{",
        "}",
        "(",
        ")",
        ";",
        "\n",
        "\r\n",
        "\r",
        "'é🗂'",
        '"ü',
        "//",
        "#",
        "/*",
        "*/",
        "@a",
        ",",
        "\x00",
        "\ufeff",
        "class",
        "fn",
        "function",
        "func",
        "def",
        "impl",
        "template<",
    ],
    "def f(x):\n    return 'é'\n",
    "function gé() {\n  // 🗂\n}\n",
    "// 索引\n",
    "\n\n",
]


@pytest.mark.parametrize("media_type", GRAMMARS)
@settings(max_examples=40)
@given(fragments=st.lists(st.sampled_from(FRAGMENTS), max_size=25))
def test_every_character_of_any_source_is_in_one_piece_and_every_span_is_exact(
    media_type: str, fragments: list[str]
) -> None:
    text = "".join(fragments)
    source = Code.of(text, media_type)
    assert source

    pieces = list(source.pieces(lambda part: len(part.strip()) <= 40))
    assert "".join(text[start:end] for start, end in pieces) == text
    assert all(start < end for start, end in pieces) or not text
    for found in source.definitions:
        own = found.name.removeprefix(f"{found.parent.name}." if found.parent else "").rpartition(".")[2]
        assert " ".join(own.split()) in " ".join(text[found.start : found.end].split())
    covered: set[int] = set()
    for chunk in Chunked(chunk_size=40, overlap=10).cut(text, media_type):
        assert chunk.span
        assert text[slice(*chunk.span)] == chunk.text
        assert len(chunk.text) <= 40
        covered.update(range(*chunk.span))
    assert not [i for i, c in enumerate(text) if i not in covered and c.isalnum()]


def test_a_source_that_does_not_parse_keeps_the_definitions_that_are_recognized() -> None:
    chunks = Chunked().cut("func a() {}\n<<<<<<< HEAD\nfunc b() {}\n=======\n>>>>>>> x\nfunc c() {}\n", "text/x-go")

    assert {"a", "c"} <= {name for chunk in chunks for name in chunk.metadata["symbols"]}


STALLING = ("->&", "*/]", "a<b", "let =>", "*<", ",return !}", "*/}", "(", "{", "class A{", "'", "\x00", "a<b\n", "[1,")
"""Texts that take a parser time or memory quadratic in their length, deep nesting, and other texts that are no code."""

ENDLESS = ("else (.,/*" * 6 + "\n", "/* a\n", 'r#"a\n')
"""Comments and strings without an end, for each of which a parser reads all that follows."""


def test_no_text_takes_a_parser_long() -> None:
    program = f"""
from findingaid.strategies.chunked import Chunked
from findingaid.text.code import GRAMMARS
from pathlib import Path
for unit, size in [*((unit, 6_000) for unit in {STALLING}), *((unit, 20_000) for unit in {ENDLESS})]:
    for media_type in GRAMMARS:
        text = (unit * size)[:size]
        assert sum(len(chunk.text) for chunk in Chunked(overlap=0).cut(text, media_type)) >= len(text.split()) - 1
(peak,) = (line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak) // 1000)  # getrusage would give that of the process which started this one, if it is larger
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1_000


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["function f(a) { return [a, {b: 1}] }\n", "function f(a){return[a,{b:1}]}", "{[("])
def test_a_source_of_ten_megabytes_is_cut(unit: str) -> None:
    size = 10_000_000 // len(unit)
    program = f"""
from findingaid.strategies.chunked import Chunked
chunks = Chunked(overlap=0).cut({unit!r} * {size}, "text/javascript")
assert sum(len("".join(chunk.text.split())) for chunk in chunks) == {len("".join(unit.split())) * size}
"""
    subprocess.run([sys.executable, "-c", program], timeout=300, check=True)


def test_another_version_of_a_grammar_cuts_the_files_of_its_language_again(
    make_aid: Callable[..., FindingAid], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("a.go", "b.py", "c.md"):
        (folder / name).write_text("package a\n" if name == "a.go" else "word\n")
    aid = make_aid(source=Files(folder), synthesizer=Extractive())
    aid.index()
    before = code._grammar_id

    monkeypatch.setattr(code, "_grammar_id", lambda module: before(module) + "-next" * module.endswith("go"))
    planned = aid.plan().corpora["docs"]
    report = aid.index().corpora["docs"]

    assert (planned.changed, report.changed) == (1, 1)


def test_a_synopsis_of_code_is_what_its_first_comment_says_and_its_signatures() -> None:
    text = (
        "// Copyright 2026 A B\n// SPDX-License-Identifier: MIT\n\npackage ledger\n\n"
        "// Ledger counts what each reader of the archive has borrowed. It is kept in one file on the disk.\n"
        "type Ledger struct {\n\tpath string\n}\n\n// Add enters a loan.\n"
        'func (l *Ledger) Add(\n\tname string,\n) error {\n\tfmt.Println("some words that are no summary of it")\n}\n'
    )

    assert Extractive().synthesize(text, {"media_type": "text/x-go"}) == (
        "Ledger counts what each reader of the archive has borrowed. It is kept in one file on the disk.\n"
        "type Ledger struct\nfunc (l *Ledger) Add( name string, ) error"
    )
    assert Extractive().synthesize("x = 1\n" * 9, {"media_type": "text/x-python"}) == ""
    docstring = (
        '"""Dates of the old calendar, in the new one."""\n\n\ndef gregorian(\n    year: int,\n) -> int:\n    ...\n'
    )
    assert Extractive().synthesize(docstring, {"media_type": "text/x-python"}) == (
        "Dates of the old calendar, in the new one.\ndef gregorian( year: int, ) -> int"
    )
