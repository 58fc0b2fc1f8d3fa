"""Scans that were laid on the glass askew."""

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.float64]


def skew(page: Image, widest: float = 5.0, step: float = 0.1) -> float:
    """The angle in degrees by which the lines of a page lean, the one at which their shadows are sharpest.

    The rows of a straight page are either ink or paper, so that the sums of its rows differ most.
    """
    angles = np.arange(-widest, widest + step, step)
    return float(max(angles, key=lambda angle: np.var(_sheared(page, angle).sum(axis=1))))


def cropped(page: Image, darkest: float = 0.15) -> Image:
    """A page without the black border that the scanner leaves around it."""
    rows = np.flatnonzero(page.mean(axis=1) > darkest)
    columns = np.flatnonzero(page.mean(axis=0) > darkest)
    return page[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _sheared(page: Image, angle: float) -> Image:
    """A page whose columns are moved up or down in proportion, which is near enough for small angles."""
    moves = np.round(np.arange(page.shape[1]) * np.tan(np.radians(angle))).astype(int)
    return np.stack([np.roll(column, move) for column, move in zip(page.T, moves, strict=True)], axis=1)
