"""Random seed of the attacks, shown in every failure report."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

SEED = int(os.environ.get("FINDINGAID_SEED", "20261122"))
"""Fixed, so that a failure can be repeated; $FINDINGAID_SEED sets another."""


@pytest.fixture
def seed() -> int:
    """Return the seed for everything that an attack chooses at random."""
    return SEED


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Add the seed to the report of an attack that failed."""
    report = yield
    if report.failed:
        report.sections.append(("seed", f"Run again with FINDINGAID_SEED={SEED}"))
    return report
