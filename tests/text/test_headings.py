"""Headings are those that readers of a format see, in reStructuredText those of docutils; chunks have those above."""

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


ASCIIDOC, ORG, LATEX = "text/x-asciidoc", "text/x-org", "application/x-tex"

OTHERS = {
    "document and sections": (
        ASCIIDOC,
        "= Guide\nAnn <a@b.example>\n:toc:\n\n== Use ==\nWords.\n\n=== Deep\n",
        "1Guide 2Use 3Deep",
    ),
    "two lines": (ASCIIDOC, "Guide\n=====\n\nUse\n~~~~\n\n----\nCode\n----\n\nEnd\n---\n", "1Guide 3Use 2End"),
    "blocks": (
        ASCIIDOC,
        "----\n== No\n----\n|===\n== No\n|===\n```sh\n== No\n```\n== Yes\n--\n\n== No\n\n--\n",
        "2Yes",
    ),
    "paragraph": (ASCIIDOC, "Words\n== more words\n\n[#id]\n== Yes\n// said\n== Too\n\n# Mark\n", "2Yes 2Too 1Mark"),
    "directive": (ASCIIDOC, "ifdef::x[]\n== Yes\nendif::x[]\n== Too\r\n", "2Yes 2Too"),
    "headlines": (
        ORG,
        "#+TITLE: Guide\n\n* TODO [#A] Use  :home:work:\n** Deep\n *not\n* DONE\n*bold*\n",
        "1Guide 2Use 3Deep",
    ),
    "sections": (
        LATEX,
        "\\title{Guide}\n\\section*{Use}\\label{use}\n\\subsection[Short]{More ~ {words}}\n",
        "1Guide 4Use 5More_words",
    ),
    "markup": (LATEX, "\\chapter{The \\emph{A \\& B}\\footnote{No.} of\n \\texttt{c\\_d}}\n", "3The_A_&_B_of_c_d"),
    "no sections": (
        LATEX,
        "% \\section{No}\n\\begin{verbatim}\n\\section{No}\n\\end{verbatim}\n\\newcommand{\\s}[1]{\\section{#1}}\n"
        "5 \\% \\section{Yes}\n\\section{No\n\nend}",
        "4Yes",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_headings_of_other_formats(name: str) -> None:
    media_type, text, expected = OTHERS[name]
    found = list(headings_in(text, media_type))

    assert " ".join(f"{level}{title.replace(' ', '_')}" for level, title, _ in found) == expected
    for _, title, (start, end) in found:
        assert title.split()[0] in text[start:end]


UNENDED = {
    "blanks": (ORG, "* x" + " " * 300_000 + "y"),
    "tags": (ORG, "* x" + " :a" * 100_000),
    "signs": (ASCIIDOC, "== x" + " ==" * 100_000 + " "),
    "braces": (LATEX, "\\section{" * 30_000),
    "brackets": (LATEX, "\\section[" * 30_000),
    "space": (LATEX, ("\\section" + " " * 1_000) * 1_000),
}


@pytest.mark.parametrize("name", UNENDED)
def test_headings_that_do_not_end_take_no_time(name: str) -> None:
    """Looked for from each of their signs on, each of these would take a minute."""
    media_type, text = UNENDED[name]

    assert len(list(headings_in(text, media_type))) == (media_type != LATEX)


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
