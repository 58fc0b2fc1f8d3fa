"""What a model is sent: prompts from files, and texts as data that cannot get out of their place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from semantic_text_splitter import MarkdownSplitter

from findingaid.identity import content_hash, text_hash

PROMPTS = Path(__file__).parent / "prompts"

Messages = list[dict[str, str]]

BYTES_A_TOKEN = 4
"""Of UTF-8, as an estimate: the tokenizers of endpoints are not here. English prose has 4 to 5."""

PART_CHARACTERS = 1_000_000
"""Longer texts are first parted, since the splitter's time grows with the square of a text."""

PLACEHOLDER = re.compile(r"\{(\w+)\}")
TAG = "document-"

UNSAFE = re.compile(
    rf"<(?=\s*/?\s*{TAG})"  # what could pass for the tags around a document
    # What local servers take for the end of a message: <|im_end|> and its like, also with a full-width bar.
    r"|<(?=[|\uff5c][^\s<>]{1,40}[|\uff5c]>)|<(?=/?(?:s|start_of_turn|end_of_turn)>)|<(?=</?SYS>>)"
    r"|\[(?=/?INST\])",
    re.IGNORECASE,
)
ESCAPED = {"<": "&lt;", "[": "&#91;"}
CONTROLS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters but tab and line ends, and the invisible ones that hide or turn text."""


def tokens_of(text: str) -> int:
    """How many tokens a text has, as an estimate that needs no tokenizer."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN)


def without_controls(text: str) -> str:
    """`text` without control and invisible characters."""
    return CONTROLS.sub("", text)


def on_a_line(text: str) -> str:
    """`text` without control and invisible characters, its white space single spaces."""
    return " ".join(without_controls(text).split())


def parts_of(text: str, tokens: int) -> list[str]:
    """A text in parts of at most so many tokens, cut at headings, paragraphs and sentences.

    Cut as Markdown whatever it is, because a synopsis is kept by the text alone.
    """
    if tokens_of(text) <= tokens:
        return [text]
    splitter = MarkdownSplitter.from_callback(tokens_of, tokens)
    return [part for window in _windows(text) for part in splitter.chunks(window)]


def _windows(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > PART_CHARACTERS:
        blank = text.rfind("\n\n", start + PART_CHARACTERS // 2, start + PART_CHARACTERS)
        end = start + PART_CHARACTERS if blank < 0 else blank
        yield text[start:end]
        start = end
    yield text[start:]


@cache
def shipped(name: str) -> str:
    """A prompt that ships, by the name of its file."""
    return (PROMPTS / f"{name}.md").read_text(encoding="utf-8").strip()


def fill(template: str, **values: object) -> str:
    """Put values in place of {names}; each is put in once, so that braces within a value stay what they are."""
    return PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), template)


@dataclass(frozen=True)
class Prompt:
    """The system message: what to write, the rules that always hold, the form of the answer."""

    what: str
    structured: bool = True

    rules: ClassVar[str] = "rules"

    @property
    def form(self) -> str:
        """The file that says how to answer."""
        return "form_json" if self.structured else "form_text"

    @property
    def system(self) -> str:
        return "\n\n".join((self.what.strip(), shipped(self.rules), shipped(self.form)))

    @property
    def hash(self) -> str:
        """Changes with every word that a model could be sent beside the text."""
        return content_hash(self.system, *(shipped(name) for name in ("document", "part", "combine")))

    def document(self, text: str) -> Messages:
        """The messages for a text that is sent whole."""
        return self._messages("document", text)

    def part(self, text: str, part: int, parts: int) -> Messages:
        """The messages for one part of a long text, counted from 1."""
        return self._messages("part", text, part=part, parts=parts)

    def combine(self, synopses: Sequence[str]) -> Messages:
        """The messages for the synopses of several parts."""
        return self._messages("combine", "\n\n".join(synopses), parts=len(synopses))

    def _messages(self, template: str, text: str, **values: object) -> Messages:
        return self.messages(fill(shipped(template), **enclosed(text), **values))

    def messages(self, user: str) -> Messages:
        """The system message and this one."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": user}]


def enclosed(text: str) -> dict[str, str]:
    """A text as data: made harmless, between the tags to stand before and after it."""
    text = UNSAFE.sub(lambda found: ESCAPED[found[0]], without_controls(text))
    # A text cannot hold its own hash, so it cannot close its tag.
    tag = f"{TAG}{text_hash(text)}"
    return {"open": f"<{tag}>", "text": text, "close": f"</{tag}>"}
