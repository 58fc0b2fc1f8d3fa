"""Headings of reStructuredText are those that docutils finds, and each chunk has those above it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from docutils import nodes
from docutils.core import publish_doctree

from findingaid.strategies.chunked import Chunked
from findingaid.text.headings import RESTRUCTURED, headings_in

QUIET = {"report_level": 5, "halt_level": 6, "doctitle_xform": False, "sectsubtitle_xform": False}

TEXTS = {
    "levels": "Guide\n=====\n\nWords.\n\nUse\n---\n\nMore.\n\nDeep\n~~~~\n\nBack\n----\n\nEnd\n===\n",
    "over and under": "=======\n Guide \n=======\n\nUse\n===\n\n-----\nDeep\n-----\n",
    "at once": "\n  \nGuide\n=====\nWords.\n\nUse\n---\nMore.",
    "Windows": "Guide\r\n=====\r\n\r\nUse\r\n---\r\n\r\nWords.\r\n",
    "markup": f"The :ref:`start <begin>` of ``code`` and `Ann <https://a.example>`_\n{'=' * 80}\n",
    "short line": "A long title\n====\n\nOther title\n==\n\nAb\n==\n",
    "no title": "First line\nsecond line\n===========\n\n----\n\nWords::\n\n    Title\n    =====\n\n",
    "table": "Words\n\n=====  =====\nA      B\n=====  =====\nc      d\n=====  =====\n\nUse\n===\n",
    "signs that differ": "=====\nGuide\n-----\n\nUse\n---\n",
    "label above": ".. _label:\n\nGuide\n=====\n\n.. note:: Words.\n\nUse\n---\n",
}


def found_by_docutils(node: Any, level: int = 1) -> Iterator[tuple[int, str]]:
    for child in node.children:
        if isinstance(child, nodes.section):
            yield level, child[0].astext()
            yield from found_by_docutils(child, level + 1)


@pytest.mark.parametrize("name", TEXTS)
def test_headings_in_restructured_text_are_those_of_docutils(name: str) -> None:
    text = TEXTS[name]
    found = list(headings_in(text, RESTRUCTURED))

    plain = re.sub(r":ref:`([^<`]*) <[^`]*>`", r"\1", text)  # docutils alone does not know the roles of Sphinx
    assert [(level, title) for level, title, _ in found] == list(
        found_by_docutils(publish_doctree(plain, settings_overrides=QUIET))
    )
    for _, title, (start, end) in found:
        assert title.split()[0] in text[start:end]
        assert text[start - 1 : start] in {"", "\n"}


def test_other_texts_have_no_headings() -> None:
    assert not list(headings_in(TEXTS["levels"], "text/plain"))


def test_a_title_of_signs_alone_takes_no_time() -> None:
    """Looked for from each sign on, the words in a run of them would take a minute."""
    [(_, title, _)] = headings_in(f"{'`' * 50_000}\n====\n", RESTRUCTURED)

    assert title == "`" * 50_000


def test_a_chunk_of_restructured_text_has_the_headings_above_it() -> None:
    text = "Guide\n=====\n\nUse\n---\n\n" + "The pump runs. " * 20 + "\n\nRepair\n------\n\n" + "It is old. " * 20

    chunks = Chunked(chunk_size=330, overlap=0).decompose("a.rst", text, {"media_type": RESTRUCTURED}).surfaces

    assert [chunk.metadata.get("headings") for chunk in chunks] == [["Guide", "Use"], ["Guide", "Repair"]]
