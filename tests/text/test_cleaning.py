"""Noise is found in Markdown, reStructuredText and code, and leaves what is searched but not what is shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from findingaid import FindingAid
from findingaid.strategies import Chunked
from findingaid.testing import MemorySource
from findingaid.text.cleaning import Noise

MARKDOWN, RESTRUCTURED = "text/markdown", "text/x-rst"
DATA = "iVBORw0KGgoAAAANSUhEUgAA" * 5

APACHE = """ * Copyright 2026 The Authors.
 *
 * Licensed under the Apache License, Version 2.0 (the "License"); you may not
 * use this file except in compliance with the License. You may obtain a copy at
 *
 *     http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing, software
 * distributed under the License is distributed on an "AS IS" BASIS,
 * WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
"""

CASES = [
    (MARKDOWN, "# A [![build](https://img.shields.io/b.svg)](https://ci.org) title", "# A  title"),
    (MARKDOWN, "![A diagram](d.png) é [the *guide*](https://x.org/a?b=1 'T').", "A diagram é the *guide*."),
    (MARKDOWN, "See [it][ref] and [^1].\n\n[ref]: https://x.org\n[^1]: A note.", "See it and [^1].\n\n[^1]: A note."),
    (MARKDOWN, "Before<br>after <!-- not\nthis --> end", "Before after  end"),
    (MARKDOWN, "<p align='center'>\n<b>Words</b>\n</p>\n\n<!-- a\n\nb -->\n\nText", "Words\n\nText"),
    (MARKDOWN, '<img alt="build" src="https://img.shields.io/b.svg">\n\nText', "Text"),
    (MARKDOWN, '<script label="x">let title="y"</script>\n\n<!-- <b title="z"> -->\n\nText', "Text"),
    (MARKDOWN, "<nav>\n<a href='x'>Home</a> page\n</nav>\n\nText", "Text"),
    (MARKDOWN, "<p>\n<a href='a'>A</a> • <a href='b'>B</a> • <a href='c'>C</a>\n</p>\n\nText", "Text"),
    (MARKDOWN, "[Docs](a) | [Code](b) | [Chat](c)\n\nText", "Text"),
    (MARKDOWN, "[Docs](http://a) or [code](http://b) or [chat](http://c)\n\nText", "Docs or code or chat\n\nText"),
    (MARKDOWN, "- [Install](#install)\n- [Use](#use)\n\nText", "Text"),
    (MARKDOWN, "- [A page](http://x/a)\n- [Another](http://x/b)", "- A page\n- Another"),
    (MARKDOWN, f"Text ![x](data:image/png;base64,{DATA}) and\n\n{DATA}\n\nmore", "Text x and\n\nmore"),
    (RESTRUCTURED, ".. image:: https://x.org/b.svg\n   :target: https://x.org\n   :alt: build\n\nText", "Text"),
    ("text/plain", "|ci| |docs|\n\n|box|\n\n.. |ci| image:: x\n.. |docs| image:: y", "|box|"),
    (RESTRUCTURED, "|ci| |docs|\n\nSee `the docs <https://x.org>`_.\n\n.. _a: https://x.org", "See `the docs `_."),
    ("application/json", r'["a\nb\tc", "\\new"]', r'["a b c", "\\new"]'),
    ("application/yaml", 'a: C:\\new\nb: "c\\nd"', 'a: C:\\new\nb: "c d"'),
    ("text/x-python", "#!/bin/python\n# Copyright A B\n# Licensed under X\n\nx = 1  # (c)", "x = 1  # (c)"),
    ("text/x-c", "/* Copyright A B */\nint x;", "int x;"),
    ("text/x-python", "# Copyright A B\n# SPDX-License-Identifier: X\n#\n# Counts.\n\nx", "# Counts.\n\nx"),
    ("text/x-c", "// Copyright A B. Licensed under X. Counts seals.\nint x;", "//  Counts seals.\nint x;"),
    (
        "text/plain",
        "-- All rights reserved by A.\n-- One row a day, by licence.\nSELECT",
        "-- One row a day, by licence.\nSELECT",
    ),
    ("text/x-c", f"/*\n{APACHE}*/\nint x;", "int x;"),
    ("text/x-c", f"/*\n{APACHE} *\n * Counts seals.\n */\nint x;", "/*\n * Counts seals.\n */\nint x;"),
]

SEEN = [
    (MARKDOWN, "The **F**erry and un*believ*able wharf", "The Ferry and unbelievable wharf"),
    (MARKDOWN, "A [Q](https://x.org)uay", "A Quay"),
    (MARKDOWN, "K&ouml;ln, caf&#233; &amp; Cr&#xe8;me, har&shy;bour", "Köln, café & Crème, har\u00adbour"),
    (MARKDOWN, "H<sub>2</sub>SO<sub>4</sub>, long<wbr>word, <b>b</b>old, one<br>two", "H2SO4, longword, bold, one two"),
    (MARKDOWN, "<p>N<sub>2</sub>O in Z&uuml;rich</p><p>next</p>", "N2O in Zürich next"),
    (MARKDOWN, '<Card title="Lost &amp; found" icon="x" href="/a">\n  Text\n</Card>', "Lost & found \n  Text"),
    (MARKDOWN, "<Card\n  title='Tides'\n  href='/a' />\n\nText", "Tides\n\nText"),
    (MARKDOWN, '<p><img src="a.png" alt="Map of the pier"></p>\n\nText', "Map of the pier\n\nText"),
    (MARKDOWN, 'Ask <abbr title="Harbour Office">HO</abbr>.', "Ask  Harbour Office HO."),
    (MARKDOWN, r"snake\_case and 3\*4", "snake_case and 3*4"),
    (MARKDOWN, "The <ruby>大<rp>(</rp><rt>おお</rt>阪<rt>さか</rt></ruby> port", "The 大阪 おおさか  port"),
    ("text/plain", "\x1b[1;31mERR\x1b[0mOR at \x1b]8;;https://x.org\x1b\\dock\x1b]8;;\x1b\\", "ERROR at dock"),
    ("text/plain", "N\bNA\bAM\bME and _\bu_\bn_\bd", "NAME and und"),
    ("text/plain", "man\u00ad\nual and base\u200bline", "manual and baseline"),
]

KEPT = [
    (MARKDOWN, "See [the settings](../configuration.md#search).\n\n[a]: page.md"),
    (MARKDOWN, "[12]: https://x.org/paper Ada, On ferries, 1843"),
    (MARKDOWN, "```\n[ref]: https://x.org\n<b>code</b> [a](b)\n```"),
    (MARKDOWN, "# Plain\n\nA < b, c > d, array[1], https://x.org/a and `[a](b)`."),
    (MARKDOWN, "# Copyright is our subject\n\nText"),
    (RESTRUCTURED, "+------+\n|word  |\n+------+"),
    (RESTRUCTURED, "| a | b |\n\n.. note:: Text"),
    ("text/x-python", "# How it is done\nx = 1"),
    ("text/plain", "+---------+\n|Important|\n+---------+"),
    ("text/plain", f"sha256 {'0123456789abcdef' * 4}"),
    ("text/plain", f"sha512 {'0123456789abcdef' * 8}"),
    ("text/plain", f"/srv/{'surveys/2024/Report/' * 6}"),
    ("text/plain", "ThisNameOfATestSaysWhatIsTrue" * 4),
    ("text/plain", "\n".join(["/srv/surveys/aerial/photographs/2024/Report/of/the/year/first/half"] * 4)),
]


@pytest.mark.parametrize(("media_type", "text", "cleaned"), CASES)
def test_noise_is_removed_and_words_stay(media_type: str, text: str, cleaned: str) -> None:
    assert Noise.of(text, media_type).removed(0, len(text)) == cleaned


@pytest.mark.parametrize(("media_type", "text", "seen"), SEEN)
def test_a_text_is_searched_as_a_reader_sees_it(media_type: str, text: str, seen: str) -> None:
    assert Noise.of(text, media_type).removed(0, len(text)) == seen


@pytest.mark.parametrize(("media_type", "text"), KEPT)
def test_content_is_no_noise(media_type: str, text: str) -> None:
    assert Noise.of(text, media_type).removed(0, len(text)) is None


@given(
    pieces=st.lists(st.sampled_from(["[a](b) ", "![", "<", "<!--", "-->", "é", "\n\n", "- ", "[x]: y\n", "#", "`"])),
    cuts=st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
def test_spans_are_ordered_and_every_part_of_a_text_can_be_cleaned(pieces: list[str], cuts: tuple[int, int]) -> None:
    text = "".join(pieces)
    noise = Noise.of(text, MARKDOWN)
    start, end = sorted(min(cut, len(text)) for cut in cuts)

    edges = [edge for edit in noise.edits for edge in edit[:2]]
    assert edges == sorted(edges)
    assert len(noise.removed(start, end) or "") <= 2 * (end - start)


class TestChunks:
    README = "# Kit\n\n[![ci](https://img.shields.io/zebra.svg)](https://ci.org)\n\nSorts [lists](https://zebra.org)."

    def test_a_chunk_shows_its_text_and_is_searched_without_noise(self) -> None:
        (chunk,) = Chunked(chunk_size=500).cut(self.README, MARKDOWN)

        assert chunk.text == self.README
        assert chunk.searched == "# Kit\n\nSorts lists."

    def test_a_chunk_of_noise_is_left_out_unless_nothing_else_is_there(self) -> None:
        badges = "[![ci](https://img.shields.io/zebra.svg)](https://ci.org)"
        cut = Chunked(chunk_size=60, overlap=0)

        assert [chunk.text for chunk in cut.cut(f"{badges}\n\n{'Words. ' * 7}", MARKDOWN)] == [("Words. " * 7).strip()]
        assert [(chunk.text, chunk.searched) for chunk in cut.cut(badges, MARKDOWN)] == [(badges, None)]

    def test_an_index_finds_words_and_shows_the_text_with_its_noise(self, make_aid: Callable[..., FindingAid]) -> None:
        source = MemorySource({"kit.md": self.README})
        aid = make_aid(source=source, strategy=Chunked(chunk_size=500), synthesizer=None)
        aid.index()

        (hit,) = aid.search("sorts lists", mode="lexical")
        assert (hit.text, hit.span) == (self.README, (0, len(self.README)))
        assert aid.search("zebra", mode="lexical") == []
        assert aid.verify() == []
        aid.purge()
        assert aid.index(force=True).corpora["docs"].calls.embed == 0
