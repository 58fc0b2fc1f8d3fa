"""Captions of recordings (WebVTT, SubRip): paragraphs by speaker, each behind the time at which it begins."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from html import unescape
from typing import Any

from findingaid.model import Note
from findingaid.sources.converters.common import BROKEN, left_out_notes, plain_text
from findingaid.sources.documents import Converted

VOICE = re.compile(r"<v(?:\.[\w-]+)*[ \t]([^<>]*)>")
MARK = re.compile(r"</?[\w.-][^<>]*>|</?>|\{\\[^{}]*\}")
"""Beginning of another speaker's words, and other marks within captions: colours, languages, times of words, places."""

COMMENT = re.compile(r"^NOTE\b", re.MULTILINE)
SENTENCE_END = re.compile(r"[.!?\u2026\u3002\uff01\uff1f][\"'\u201d\u2019)]*\Z")

BRIEF = 0.1
"""Seconds that nobody needs to say a line: such a caption shows one once more."""

PAUSE = 2.0
LONG, LONGEST = 500, 2_000
"""Seconds of silence, and characters, after which a paragraph ends with its sentence; and those after which it ends."""


def convert_captions(payload: bytes, _max_bytes: int) -> Converted:
    """Convert captions; a text without any, or whose captions cannot be told apart, stays as it is stored."""
    import webvtt
    from webvtt.errors import MalformedCaptionError, MalformedFileError

    stored = plain_text(payload)
    arrows = stored.text.count("-->")
    kind = "vtt" if stored.text.startswith("WEBVTT") else "srt"
    try:
        captions = webvtt.from_buffer(io.StringIO(stored.text), format=kind).captions if arrows else []
    except (MalformedCaptionError, MalformedFileError):
        captions = []
    if len(captions) != arrows:
        return stored._replace(notes=[*stored.notes, Note("as_stored", BROKEN)])
    if not captions:
        return stored
    comments = len(COMMENT.findall(stored.text)) if kind == "vtt" else 0
    notes = [*stored.notes, *left_out_notes({"comments, not read": comments})]
    return Converted("\n\n".join(_paragraphs(captions)), {}, notes)


def _paragraphs(captions: Iterable[Any]) -> Iterator[str]:
    words: list[str] = []
    speaker, began, ended = "", "", 0.0
    for caption in captions:
        lines = list(_lines(caption.raw_text))
        brief = caption.end_in_seconds - caption.start_in_seconds < BRIEF
        if words and lines[:1] == [(speaker, words[-1])] and (brief or lines[1:]):  # captions that roll up
            del lines[0]
        for voice, line in lines:
            size = sum(map(len, words))
            pauses = caption.start_in_seconds - ended >= PAUSE or size > LONG
            if words and (voice != speaker or size > LONGEST or (pauses and SENTENCE_END.search(words[-1]))):
                yield _paragraph(began, speaker, words)
                words = []
            if not words:
                speaker, began = voice, caption.start
            words.append(line)
        ended = caption.end_in_seconds
    if words:
        yield _paragraph(began, speaker, words)


def _lines(caption: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a caption without marks, each with its speaker; "" if it names none."""
    first, *others = VOICE.split(caption)
    for voice, words in (("", first), *zip(others[::2], others[1::2], strict=True)):
        for line in MARK.sub("", words).splitlines():
            if text := " ".join(unescape(line).split()):
                yield " ".join(unescape(voice).split()), text


def _paragraph(began: str, speaker: str, words: Iterable[str]) -> str:
    """Return the words of a speaker behind their time: "0:01:04 Ann: Good morning."."""
    time = began.partition(".")[0].removeprefix("0")
    return f"[{time}] {speaker}{': ' * bool(speaker)}{' '.join(words)}"
