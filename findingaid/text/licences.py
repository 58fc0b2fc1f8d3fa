"""Licences in the comment at the beginning of a file, sentence by sentence: the rest of the comment is content."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

Span = tuple[int, int]

COMMENT = re.compile(r"\A(?:#!.*\n)?\s*+(?:/\*(?s:.*?)\*/|(?:[ \t]*+(?:#|//|--|;|%).*(?:\n|\Z))+)")
"""Comment at the beginning of a file."""

LICENCE = re.compile(r"copyright|licen[cs]ed under|SPDX-License-Identifier|all rights reserved", re.IGNORECASE)
"""Words of a comment that holds a licence."""

MARKERS = re.compile(r"[ \t]*(?:#!.*|/\*+|\*+/?|#+|/{2,}|-{2,}|;+|%+)?[ \t]*")
"""Beginning of a line of a comment."""

OWN_LINE = re.compile(
    r"(?:SPDX-[\w-]+|[Ll]icen[cs]e)\s*:|[Aa]ll [Rr]ights"
    r"|\W*(?:[Pp]ortions )?(?:[Cc]opyright\b|COPYRIGHT\W+\d|\([Cc]\)|©)"
)
"""Beginning of a line that is a statement of its own, without a full stop."""

LEGAL = re.compile(
    r"copyright|©|\(c\) *\d{4}|all rights reserved|SPDX-|\A\W*licen[cs]e\s*:"
    r"|licen[cs]ed (?:under|to)|(?:public|apache|mit|bsd|isc|eclipse|the|this|of|see) licen[cs]e|licen[cs]es?[/-]"
    r"|under the terms of|permission is hereby|permission notice|redistribut\w+|warrant(?:y|ies)\b|\bas[- ]is\b"
    r"|in no event|\bliab(?:le|ility)|free software|MPL was not|may not use this file|may obtain a copy"
    r"|following conditions|neither the name|(?:write to|see) .{0,40}(?:franklin|gnu\.org)|may be used to endorse",
    re.IGNORECASE,
)
"""Words of a sentence that belongs to a licence."""

SENTENCE_END = re.compile(r"(?:(?<=[^\W\d])|(?<=\d\d)|(?<=\)))[.!?]['\")]*(?=\s+[A-Z])")
LINE_END = re.compile(r"[.!?:]['\")]*[ \t]*(?:\*/)?[ \t]*\Z")

SHORT_LINE = 50
"""Characters of a line from which it may go on in the next one: shorter ones end a statement."""

WORD = re.compile(r"\w")
EMPTY_LINE = re.compile(r"^[ \t]*(?:\*|#+|//+|--|;+|%+)[ \t]*$", re.MULTILINE)


def licence_spans(text: str) -> list[Span]:
    """Return the spans of the licence in the comment at the beginning: the whole comment, if nothing else is in it."""
    head = COMMENT.match(text)
    if not head or not LICENCE.search(head[0]):
        return []
    sentences = list(_sentences(head[0]))
    legal = [bool(LEGAL.search(" ".join(head[0][start:end] for start, end in spans))) for spans in sentences]
    if all(legal):
        return [head.span()]
    removed = {span for spans, is_legal in zip(sentences, legal, strict=True) if is_legal for span in spans}
    kept = {span for spans, is_legal in zip(sentences, legal, strict=True) if not is_legal for span in spans}
    empty = {found.span() for found in EMPTY_LINE.finditer(head[0])}
    return [_whole_line(head[0], span, kept) for span in sorted(removed | empty)]


def _whole_line(comment: str, span: Span, kept: set[Span]) -> Span:
    """Extend a span to its line, unless other words are on it; the end of a comment stays."""
    start, end = comment.rfind("\n", 0, span[0]) + 1, comment.find("\n", span[1]) + 1 or len(comment)
    if any(start <= other[0] < end for other in kept):
        return span
    return start, end


def _sentences(comment: str) -> Iterator[Sequence[Span]]:
    """Yield the sentences of a comment, each as spans of its lines; empty lines end them."""
    for is_blank, lines in groupby(_lines(comment), key=lambda span: not WORD.search(comment[slice(*span)])):
        if not is_blank:
            yield from _in_paragraph(comment, list(lines))


def _lines(comment: str) -> Iterator[Span]:
    """Yield the span of each line without its marker."""
    at = 0
    for line in comment.splitlines(keepends=True):
        found = MARKERS.match(line)
        start = found.end() if found else 0
        yield at + min(start, len(line.rstrip())), at + len(line.rstrip())
        at += len(line)


def _in_paragraph(comment: str, lines: Sequence[Span]) -> Iterator[Sequence[Span]]:
    sentence: list[Span] = []
    for start, end in lines:
        if OWN_LINE.match(comment, start, end) and sentence:
            yield sentence
            sentence = []
        at = start
        for found in SENTENCE_END.finditer(comment, start, end):
            yield [*sentence, (at, found.end())]
            sentence, at = [], found.end()
        if at < end:
            sentence.append((at, end))
        own = OWN_LINE.match(comment, at, end) or end - start < SHORT_LINE
        if sentence and (own or LINE_END.search(comment, at, end)):
            yield sentence
            sentence = []
    if sentence:
        yield sentence
