"""Which box a folder goes into."""

from collections.abc import Iterable

FULL = 110
"""Millimetres of paper that a box takes before its lid bulges."""


def packed(folders: Iterable[tuple[str, int]]) -> list[list[str]]:
    """Folders of (shelfmark, thickness) put into boxes in their order, as few as that takes.

    The order of folders is never changed to save a box: it is how their owner kept them.
    """
    boxes: list[list[str]] = []
    room = 0
    for shelfmark, thickness in folders:
        if thickness > room:
            boxes.append([])
            room = FULL
        boxes[-1].append(shelfmark)
        room -= thickness
    return boxes


def label(shelfmarks: list[str]) -> str:
    """What stands on the spine of a box: its first and last folder."""
    return shelfmarks[0] if len(shelfmarks) == 1 else f"{shelfmarks[0]} to {shelfmarks[-1]}"
