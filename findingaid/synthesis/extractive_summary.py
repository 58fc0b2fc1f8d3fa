"""Anchored summaries made of whole sentences from the turns.

No model and no network are used, and nothing is invented.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from findingaid.model import Segment
from findingaid.registry import checked
from findingaid.synthesis.anchored_summary import AnchoredSummary, Point
from findingaid.synthesis.extractive import READ_CHARACTERS, sentences_in

DECIDED = re.compile(
    r"\b(decid\w+|decisions?|chose|chosen|opted?|agreed|settled on|instead of|rather than|switch(?:ed|ing)? to"
    r"|go(?:ing)? with|went with|let'?s use|we(?:'ll| will| should| now)? use|stick(?:ing)? (?:to|with))\b",
    re.IGNORECASE,
)
OPEN = re.compile(
    r"\b(to-?do|fixme|pending|remain(?:s|ing)|not yet|still (?:to|need\w*|missing|open|fail\w*)|left to"
    r"|needs? to|have to|next(?: step|,| up| we| I)|follow-?up|afterwards|later|blocked|open question)\b",
    re.IGNORECASE,
)

FOLLOWING = re.compile(r"""[\s"'`()\[\]{}<>,;|*=]+""")
PATH = re.compile(r"(?:~?/|\.{1,2}/)?[\w@.+-]+(?:/[\w@.+-]+)*")
ENDING = re.compile(r"[A-Za-z][A-Za-z0-9]{0,9}")
WITHOUT_ENDING = frozenset({"Makefile", "Dockerfile"})
ENDINGS = re.compile(
    r"c|cc|cfg|conf|cpp|cs|css|csv|go|h|hpp|html|ini|ipynb|java|jsx?|jsonl?|kt|lock|lua|md|mjs|php|pl|proto|pyi?|r|rb|rs"
    r"|rst|scala|sh|sql|svg|swift|tf|toml|tsx?|txt|vue|xml|ya?ml",
    re.IGNORECASE,
)
"""Suffixes that mark a name without a folder as a file, unlike "3.5", "e.g." or "findingaid.io"."""
PATH_CHARACTERS = 200

KEPT = {"decisions": 8, "files_touched": 20, "pending_tasks": 8}
"""Number of points that a section keeps, the most recently mentioned.

This bounds the summary of a session of any length.
"""

TURNS_KEPT = 5
"""Number of turns that a point cites, the latest."""

SENTENCES = 2
"""Number of sentences taken from the first request and from the last answer."""

POINT_CHARACTERS = 400


@checked
@dataclass(frozen=True)
class ExtractiveSummarizer:
    """Uses the first request as the intent and the last answer as the state.

    All turns supply the sentences that mention decisions or open tasks, and the words that look like paths.
    """

    id: ClassVar[str] = "extractive-v3"

    def summarize(self, segments: Sequence[Segment], existing: AnchoredSummary | None) -> AnchoredSummary:
        known = existing or AnchoredSummary.empty()
        first = segments[0].turn if segments else None
        points = {s.id: list(_of_turns_before(s.points, first)) for s in known.sections}
        for segment in segments:
            _read(segment, points)
        return AnchoredSummary.of(points, known.iteration + 1)


def _of_turns_before(points: Iterable[Point], first: int | None) -> Iterator[Point]:
    """Yield the points taken from earlier turns, and those without turns.

    A turn that is read again yields all of its own points again.
    """
    for point in points:
        turns = tuple(turn for turn in point.turns if first is None or turn < first)
        if turns or not point.turns:
            yield point.model_copy(update={"turns": turns})


def _read(segment: Segment, points: dict[str, list[Point]]) -> None:
    turn = segment.turn
    answer = _sentences(segment.answer)
    asked = _sentences(segment.request)
    if not points["intent"]:
        points["intent"] = [Point(text=text, turns=(turn,)) for text in (asked or answer)[:SENTENCES]]
    if answer:
        points["current_state"] = [Point(text=text, turns=(turn,)) for text in answer[:SENTENCES]]
    for sentence in (*asked, *answer):
        if DECIDED.search(sentence):
            _mention(points["decisions"], sentence, turn)
        if OPEN.search(sentence):
            _mention(points["pending_tasks"], sentence, turn)
    for text in (segment.request, segment.answer):
        for path in _paths(text[:READ_CHARACTERS]):
            _mention(points["files_touched"], path, turn)
    for section, count in KEPT.items():
        del points[section][:-count]


def _mention(points: list[Point], text: str, turn: int) -> None:
    """Move a point to the end of the list, or append it, and let it cite this turn."""
    before = next((point for point in points if point.text == text), None)
    if before:
        points.remove(before)
    turns = dict.fromkeys((*(before.turns if before else ()), turn))
    points.append(Point(text=text, turns=tuple(turns)[-TURNS_KEPT:]))


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text's prose, or its first usable line if it has no prose."""
    found = [s for s in sentences_in(text[:READ_CHARACTERS], "text/markdown") if len(s) <= POINT_CHARACTERS]
    lines = (" ".join(line.split()) for line in text.splitlines())
    return found or list(islice((line for line in lines if line and len(line) <= POINT_CHARACTERS), 1))


def _paths(text: str) -> Iterator[str]:
    """Yield the words that look like paths of files."""
    for token in FOLLOWING.split(text):
        path = token.rstrip(".:!?").partition(":")[0]
        if len(path) > PATH_CHARACTERS or "://" in token or "@" in path or not PATH.fullmatch(path):
            continue
        stem, _, ending = path.rpartition("/")[2].rpartition(".")
        named = (ENDING if "/" in path else ENDINGS).fullmatch(ending)
        if (named and (stem or "/" in path)) or (ending in WITHOUT_ENDING and not stem):
            yield path
