"""Folders that tests read from."""

from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent

DATA = Path(__file__).parent / "data"
"""Files that no library of the tests can make."""
