"""Definitions in source code (functions, classes, types …), found by tree-sitter's grammars.

A source that does not parse has the definitions that the grammar recognizes. Spans are in characters.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import version
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

from findingaid.text.cleaning import Noise
from findingaid.text.markdown import Span

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query, Tree

JAVASCRIPT = """
[(function_declaration) (generator_function_declaration)] @function (class_declaration) @class
(method_definition) @method [(comment) (decorator)] @above
(variable_declarator value: [(arrow_function) (function_expression)]) @function
(variable_declarator value: (class)) @class
(assignment_expression right: [(arrow_function) (function_expression)]) @function
(pair value: [(arrow_function) (function_expression)]) @function
"""
TYPESCRIPT = f"""{JAVASCRIPT}
(abstract_class_declaration) @class (interface_declaration) @interface (enum_declaration) @enum
(type_alias_declaration) @type [(internal_module) (module)] @module (function_signature) @function
(public_field_definition value: (arrow_function)) @method
"""
C = """
(function_definition) @function (preproc_function_def) @macro (type_definition) @type (comment) @above
(struct_specifier body: (_)) @struct (union_specifier body: (_)) @union (enum_specifier body: (_)) @enum
(declaration declarator: [(function_declarator) (pointer_declarator (function_declarator))]) @function
"""
CPP = f"""{C}
(class_specifier body: (_)) @class (namespace_definition) @namespace [(alias_declaration) (concept_definition)] @type
(field_declaration declarator: [(function_declarator) (pointer_declarator (function_declarator))]) @method
(template_parameter_list) @above
"""
GO = """
(function_declaration) @function (method_declaration) @method [(type_spec) (type_alias)] @type (comment) @above
"""
RUST = """
(function_item) @function (struct_item) @struct (enum_item) @enum (union_item) @union (trait_item) @trait
(impl_item) @impl (mod_item) @module (type_item) @type (macro_definition) @macro
[(line_comment) (block_comment) (attribute_item)] @above
"""
JAVA = """
(class_declaration) @class (interface_declaration) @interface (enum_declaration) @enum (record_declaration) @record
(annotation_type_declaration) @annotation (method_declaration) @method (constructor_declaration) @constructor
[(line_comment) (block_comment)] @above
"""
PYTHON = """
(function_definition) @function (class_definition) @class [(comment) (decorator)] @above
(expression_statement . (string) @docstring .)
"""

GRAMMARS: Mapping[str, tuple[str, str, str]] = {
    "text/javascript": ("tree_sitter_javascript", "language", JAVASCRIPT),
    "text/x-c": ("tree_sitter_c", "language", C),
    "text/x-c++": ("tree_sitter_cpp", "language", CPP),
    "text/x-chdr": ("tree_sitter_cpp", "language", CPP),  # a header of C or C++: the second reads both
    "text/x-go": ("tree_sitter_go", "language", GO),
    "text/x-java": ("tree_sitter_java", "language", JAVA),
    "text/x-python": ("tree_sitter_python", "language", PYTHON),
    "text/x-rust": ("tree_sitter_rust", "language", RUST),
    "text/x-tsx": ("tree_sitter_typescript", "language_tsx", TYPESCRIPT),
    "text/x-typescript": ("tree_sitter_typescript", "language_typescript", TYPESCRIPT),
}
"""Media type -> module of the grammar, its function, and the query that finds definitions by their kind.

`above` are nodes that belong to the definition after them.
"""

TYPES = frozenset({"class", "enum", "impl", "interface", "record", "struct", "trait", "union"})
"""Kinds of definitions whose functions are methods."""

NAMES = ("name", "left", "key", "declarator", "type")
"""Fields of a node that may have its name."""

NAME_CHARACTERS = 100
DEEPEST = 8
"""Number of levels of definitions that are told apart, so that names stay short."""

STATEMENT_BYTES = 4_000
LONG_STATEMENT = re.compile(rb"(?<![^;{}\n\r])[^;{}\n\r]{%d,}" % STATEMENT_BYTES)
LONG_SIGNS = re.compile(rb"[\0\s!-/:-@\[-^`{-~]{1000,}")
"""Data, or no code at all. The parser does not see it: it may take time and memory quadratic in the length."""

HIDDEN = bytes(byte if byte in b"\r\n" else ord(" ") for byte in range(256))

STEPS_PER_BYTE = 16
"""Steps of the parser after which it gives up. Code takes 2 at most, and other texts perhaps their length each byte."""

STEPS_PER_CALL = 100
"""Steps of the parser from one call of its progress callback to the next."""

READ_BYTES = 65_536
"""How much of a source the parser takes at once."""

READS_PER_BYTE = 16
"""Times that the parser may read a source. It reads code 4 times at most, but all that follows once more for each
comment without an end, and keeps 20 times as much memory."""

CONTINUATION = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that do not begin a character."""

RECEIVER = re.compile(r"(\w+)(?:\[[^\]]*\])?\s*\)$")
"""Type at the end of the receiver of a method of Go, as in (s *Stack[T])."""

MARKS = re.compile(
    r"^[ \t]*(?:/\*+!?|//+!?|\*+/|\*|#+!?|\w?\"{3}|\w?'{3}|\w?[\"'])[ \t]?|[ \t]*(?:\*+/|[\"']+)$", re.MULTILINE
)
"""Signs around the words of a comment or docstring."""

SIGNATURE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition in a source. Its name is qualified, and its span includes the comments and attributes above it."""

    kind: str
    name: str
    start: int
    end: int
    signature: Span
    parent: Definition | None

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1


def grammar_id(media_type: str) -> str:
    """Return the version of the grammar of a language, which decides how its files are cut; "" without a grammar."""
    return _grammar_id(GRAMMARS[media_type][0]) if media_type in GRAMMARS else ""


@cache
def _grammar_id(module: str) -> str:
    return "+".join(f"{name}-{version(name)}" for name in (module.replace("_", "-"), "tree-sitter"))


@cache
def _grammar(media_type: str) -> tuple[Language, Query]:
    from tree_sitter import Language, Query  # imported here, since most commands never need it

    module, function, query = GRAMMARS[media_type]
    language = Language(getattr(import_module(module), function)())
    return language, Query(language, query)


@dataclass(frozen=True)
class Code:
    """Source code with its definitions in order, and its comments and docstrings."""

    text: str
    definitions: Sequence[Definition]
    comments: Sequence[Span]

    @classmethod
    def of(cls, text: str, media_type: str) -> Code | None:
        """Parse a source; None if there is no grammar for its media type."""
        if media_type not in GRAMMARS:
            return None
        from tree_sitter import QueryCursor

        language, query = _grammar(media_type)
        data = text.encode("utf-8", "surrogatepass")
        tree = _parse(language, data)
        captures = QueryCursor(query).captures(tree.root_node) if tree else {}
        return _read(text, data, [(node, kind) for kind, nodes in captures.items() for node in nodes])

    @cached_property
    def _starts(self) -> list[int]:
        return [found.start for found in self.definitions]

    def pieces(self, fits: Callable[[str], bool]) -> Iterator[Span]:
        """Yield spans that cover the source, cut where definitions begin.

        Neighbouring definitions stay together as long as they fit. One that does not fit is cut into those within it.
        The caller must cut spans that still do not fit.
        """
        cuts: list[tuple[int, Definition | None]] = [(0, None)]
        whole = 0
        for found in self.definitions:
            if found.start >= whole:
                fitting = fits(self.text[found.start : found.end])
                whole = found.end if fitting else whole
                cuts.append((found.start, found.parent if fitting else found))
        start, group = cuts[0]
        for (middle, next_group), (end, _) in pairwise([*cuts, (len(self.text), None)][1:]):
            if next_group is not group or not fits(self.text[start:end]):
                if middle > start:
                    yield start, middle
                start, group = middle, next_group
        yield start, len(self.text)

    def fields(self, start: int, end: int) -> dict[str, Any]:
        """Return the `symbols` that begin in a span, and the one around its beginning, with their `symbol_kinds`."""
        first, last = bisect_right(self._starts, start), bisect_left(self._starts, end)
        around = self.definitions[first - 1] if first else None
        while around and around.end <= start:
            around = around.parent
        found = [*([around] if around else ()), *self.definitions[first:last]]
        return {"symbols": [x.name for x in found], "symbol_kinds": [x.kind for x in found]} if found else {}

    def signatures(self) -> list[str]:
        """Return the first words of each definition, up to its body, indented by its depth."""
        found = ((x.depth, self.text[slice(*x.signature)].partition("{")[0].split()) for x in self.definitions)
        return [f"{'  ' * depth}{' '.join(words)[:SIGNATURE_CHARACTERS].rstrip(' :=;')}" for depth, words in found]

    def comments_in_words(self) -> Iterator[str]:
        """Yield the words of each comment and docstring, without a licence."""
        noise = Noise.of(self.text)
        for start, end in self.comments:
            words = noise.removed(start, end)
            yield MARKS.sub("", self.text[start:end] if words is None else words)


def _parse(language: Language, data: bytes) -> Tree | None:
    """Parse a source; None if it takes more steps than source code does."""
    from tree_sitter import Parser

    if max(map(len, data.split(b"\n"))) >= STATEMENT_BYTES:
        data = LONG_STATEMENT.sub(_hidden, data)
    data = LONG_SIGNS.sub(_hidden, data)
    calls, limit, left = count(), STEPS_PER_BYTE * (len(data) + 1000), READS_PER_BYTE * (len(data) + 1000)

    def read(at: int, _: object) -> bytes:
        nonlocal left
        found = data[at : at + READ_BYTES] if left > 0 else b""
        left -= len(found)
        return found

    try:
        tree = Parser(language).parse(
            read, progress_callback=lambda _at, _error: left <= 0 or next(calls) * STEPS_PER_CALL > limit
        )
    except ValueError:
        return None
    return tree if left > 0 else None


def _hidden(found: re.Match[bytes]) -> bytes:
    """Return as many blanks and the same line ends."""
    return found[0].translate(HIDDEN)


def _read(text: str, data: bytes, captures: list[tuple[Node, str]]) -> Code:
    """Return the code with these nodes, each with the kind that the query gives it."""
    captures.sort(key=lambda found: (found[0].start_byte, -found[0].end_byte))
    bodies = [_body(node, kind) for node, kind in captures]
    places = _characters(data, {*bodies, *(at for node, _ in captures for at in (node.start_byte, node.end_byte))})
    definitions: list[Definition] = []
    comments: list[Span] = []
    around: list[Definition] = []
    above: Span | None = None
    seen, ended = -1, 0
    for (node, kind), body in zip(captures, bodies, strict=True):
        start, end = places[node.start_byte], places[node.end_byte]
        while around and around[-1].end <= start:
            ended = around.pop().end
        line = _line_start(text, max(seen, ended) if seen >= 0 else -1, start)
        seen = places[body] if body < node.end_byte else start
        joined = above if above and not _are_apart(text, above[1], line) else None
        begin = joined[0] if joined else line
        if kind == "docstring":
            comments.append((start, end))
        elif kind == "above":
            if "comment" in node.type:
                continued = joined and comments and comments[-1][1] == joined[1]
                comments.append((comments.pop()[0] if continued else start, end))
            above = (begin, end) if joined or _begins_line(text, line, start) else None
        else:
            above = None
            parent = around[-1] if around else None
            found = _definition(data, node, kind, max(begin, ended), end, (line, places[body]), parent)
            if found:
                definitions.append(found)
                around.append(found)
    return Code(text, definitions, comments)


def _definition(
    data: bytes, node: Node, kind: str, start: int, end: int, signature: Span, parent: Definition | None
) -> Definition | None:
    """Return the definition at a node; None if it has no name, or is one with the definition around it."""
    name = _name(node, data)
    if not name:
        return None
    if parent:
        if parent.kind == "type" or parent.start == start or parent.depth + 1 == DEEPEST:
            return None
        name = f"{parent.name}.{name}"
        kind = "method" if kind == "function" and parent.kind in TYPES else kind
    return Definition(kind, name, start, end, signature, parent)


def _name(node: Node, data: bytes) -> str:
    """Return the name of a definition; that of a method of Go has its type, as in Stack.Push."""
    named = next(filter(None, map(node.child_by_field_name, NAMES)), None)
    while named and (inner := _declared(named)):
        named = inner
    name = " ".join(_text(named, data).split())[:NAME_CHARACTERS].strip("\"'`")
    receiver = RECEIVER.search(_text(node.child_by_field_name("receiver"), data))
    return f"{receiver[1]}.{name}" if receiver else name.partition("<")[0] if node.type == "impl_item" else name


def _declared(node: Node) -> Node | None:
    """Return the declarator within one of C, as f in *f(int)."""
    if node.type == "reference_declarator":
        return node.named_children[-1] if node.named_children else None
    return node.child_by_field_name("declarator")


def _text(node: Node | None, data: bytes) -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace") if node else ""


def _body(node: Node, kind: str) -> int:
    """Return the offset in bytes at which the body of a definition begins, or its end if it has none."""
    if kind in {"above", "docstring"}:
        return node.end_byte
    value = node.child_by_field_name("value") or node.child_by_field_name("right") or node
    body = value.child_by_field_name("body")
    return body.start_byte if body else node.end_byte


def _characters(data: bytes, offsets: Iterable[int]) -> Mapping[int, int]:
    """Map offsets in bytes to offsets in characters."""
    if data.isascii():
        return {offset: offset for offset in offsets}
    places: dict[int, int] = {}
    at = characters = 0
    for offset in sorted(offsets):
        characters += len(data[at:offset].translate(None, CONTINUATION))
        places[offset], at = characters, offset
    return places


def _line_start(text: str, floor: int, start: int) -> int:
    """Return the start of the line of a node; the node's own if its line begins before `floor`, the node before it."""
    found = text.rfind("\n", max(floor, 0), start)
    return found + 1 if found >= 0 else start if floor >= 0 else 0


def _begins_line(text: str, line: int, start: int) -> bool:
    """Return whether a comment or attribute is the first on its line, and not behind other code."""
    return (not line or text[line - 1] == "\n") and text[line:start].strip() in {"", "template"}


def _are_apart(text: str, end: int, start: int) -> bool:
    """Return whether code or an empty line is between two nodes."""
    between = text[end:start]
    return bool(between.strip()) or between.count("\n") + (text[end - 1 : end] == "\n") > 1
