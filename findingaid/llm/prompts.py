"""Model input: prompts from template files, and texts enclosed as data that cannot break out of their tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from semantic_text_splitter import MarkdownSplitter

from findingaid.identity.hashes import text_hash

TEMPLATES = Path(__file__).parent / "templates"

Messages = list[dict[str, str]]

BYTES_A_TOKEN = 4
"""Estimated bytes of UTF-8 per token; the endpoints' tokenizers are not available. English prose has 4 to 5."""

PART_CHARACTERS = 1_000_000
"""Longer texts are split into windows first, since the splitter's time grows with the square of the length."""

PLACEHOLDER = re.compile(r"\{(\w+)\}")
TAG = "document-"

UNSAFE = re.compile(
    rf"<(?=\s*(?:/\s*)?{TAG})"  # text that could pass for the tags around a document
    # Text that local servers take for the end of a message: <|im_end|> and its like, also with a full-width bar.
    r"|<(?=[|\uff5c][^\s<>]{1,40}[|\uff5c]>)|<(?=/?(?:s|start_of_turn|end_of_turn)>)|<(?=</?SYS>>)"
    r"|\[(?=/?INST\])",
    re.IGNORECASE,
)
ESCAPED = {"<": "&lt;", "[": "&#91;"}
CONTROLS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters except tab and line ends, and invisible characters that hide or reorder text."""


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text, without a tokenizer."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN)


def without_controls(text: str) -> str:
    """Return `text` without control and invisible characters."""
    return CONTROLS.sub("", text)


def to_one_line(text: str) -> str:
    """Return `text` on one line, without control and invisible characters, with white space as single spaces."""
    return " ".join(without_controls(text).split())


def split_text(text: str, tokens: int) -> list[str]:
    """Split a text into parts of at most `tokens` tokens, at headings, paragraphs and sentences.

    Every text is split as Markdown, whatever its type, because a synopsis is cached by the text alone.
    """
    if estimate_tokens(text) <= tokens:
        return [text]
    splitter = MarkdownSplitter.from_callback(estimate_tokens, tokens)
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
def load_template(name: str) -> str:
    """Return a shipped template by the name of its file."""
    return (TEMPLATES / f"{name}.md").read_text(encoding="utf-8").strip()


def fill_template(template: str, **values: object) -> str:
    """Replace each {name} by its value. Replaced once only, so that braces within a value stay as they are."""
    return PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), template)


@dataclass(frozen=True)
class Prompt:
    """System message: the task, the rules that always hold, and the form of the answer.

    `form` and `rules` are names of templates.
    """

    task: str
    form: str
    rules: str = "rules"

    @property
    def system(self) -> str:
        return "\n\n".join((self.task.strip(), load_template(self.rules), load_template(self.form)))

    def messages(self, user: str) -> Messages:
        """Return the system message and this user message."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": user}]

    def about(self, template: str, text: str, **values: object) -> Messages:
        """Return the messages with a template for the user message, filled with a text as data and with `values`."""
        return self.messages(fill_template(load_template(template), **enclose(text), **values))

    def parts(self, template: str, text: str, tokens: int) -> list[Messages]:
        """Return the messages for each part of a text, of at most `tokens` tokens each.

        The template is filled with the part, its number from 1, and the number of parts.
        """
        parts = split_text(text, tokens)
        return [self.about(template, part, part=i, parts=len(parts)) for i, part in enumerate(parts, 1)]


def as_data(text: str) -> str:
    """Return a text enclosed in its tags, for a user message."""
    return "\n".join(enclose(text).values())


def enclose(text: str) -> dict[str, str]:
    """Escape a text as data; return it with its opening and closing tags."""
    text = UNSAFE.sub(lambda found: ESCAPED[found[0]], without_controls(text))
    # A text cannot contain its own hash, so it cannot close its tag.
    tag = f"{TAG}{text_hash(text)}"
    return {"open": f"<{tag}>", "text": text, "close": f"</{tag}>"}
