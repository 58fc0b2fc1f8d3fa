"""Sort the pictures of the phone into folders by month."""

import shutil
from pathlib import Path

SMALLEST = 40_000
"""Pictures with fewer bytes are thumbnails and are left where they are."""


def month_of(path: Path) -> str:
    """Return the month in which a picture was taken, from its name: IMG_20250614_101500.jpg is of 2025-06."""
    digits = path.stem.split("_")[1]
    return f"{digits[:4]}-{digits[4:6]}"


def sort_pictures(inbox: Path, archive: Path) -> int:
    """Move the pictures from the inbox to the archive and return how many were moved.

    A picture of which the archive has the name already is never overwritten; it stays in the inbox.
    """
    moved = 0
    for picture in sorted(inbox.glob("IMG_*.jpg")):
        if picture.stat().st_size < SMALLEST:
            continue
        folder = archive / month_of(picture)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / picture.name).exists():
            shutil.move(picture, folder)
            moved += 1
    return moved
