"""Files and folders in which findingaid and Dagster write, and which are therefore never a source."""

from __future__ import annotations

import os
from pathlib import Path

from findingaid.store.objects import ASIDE
from findingaid.store.store import Store
from findingaid.store.tables import LOCKS, TABLES

DAGSTER_FOLDER = ".dagster"
"""Usual name of Dagster's home, beside the configuration."""


def own_files(store: Store, config: Path | None, evaluations: Path | None) -> list[str]:
    """Return the paths of the store, its tables, the configuration, the cached evaluations, and Dagster's home.

    The tables are named too, so that they are left out where the folder of the store also holds sources.
    """
    tables = (*(f"{table}.lance" for table in TABLES), LOCKS)
    own = [store.uri, *(f"{store.uri.rstrip('/')}/{name}" for name in tables)]
    if not store.remote:
        own += map(str, Path(store.uri).glob(f"*{ASIDE}*"))
    if config:
        own += [str(config), str(config.resolve()), str(config.parent / DAGSTER_FOLDER)]
    own += [str(evaluations)] if evaluations else []
    own += [os.environ["DAGSTER_HOME"]] if os.environ.get("DAGSTER_HOME") else []
    return own
