"""Titles and headings, which every chunk of a text carries."""

from __future__ import annotations

MOST_CHARACTERS = 300
"""Most characters of a title. Every chunk is stored with it, and a longer one is a text that was taken for a title."""


def as_title(text: str) -> str:
    """Return a text on one line, cut to MOST_CHARACTERS; "…" marks the cut."""
    line = " ".join(text.split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1].rstrip()}…"
