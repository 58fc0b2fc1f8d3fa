"""Concurrent runs, purges, decisions and readers lose, damage or rebuild nothing, and readers are not disturbed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import findingaid
from findingaid.claims.decisions import broken
from tests.adversarial.roles import DOCUMENTS, Told, edit
from tests.support.buckets import Bucket
from tests.support.programs import Program

CHILD = """
import sys
from tests.adversarial.roles import ROLES
ROLES[sys.argv[1]](*sys.argv[2:])
"""


def configured(folder: Path, **settings: object) -> Path:
    (folder / "docs").mkdir(parents=True)
    config = folder / "findingaid.yaml"
    docs = {"source": {"kind": "files", "root": "docs", "include": ["*.md"]}, "claims": True, "synopsis": True}
    said = {"store": "index", "embedder": {"kind": "hash"}, "corpora": {"docs": docs}, **settings}
    config.write_text(yaml.safe_dump(said))
    for i in range(DOCUMENTS):
        edit(config, i, 0)
    return config


def at_once(config: Path, seconds: float, seed: int, roles: tuple[str, ...]) -> dict[str, Told]:
    """Run processes of these roles concurrently for some seconds and return their reports."""
    ready = config.parent / "ready"
    ready.mkdir()
    (ready / "of").write_text(str(len(roles)))
    started = {
        f"{role} {i}": Program(CHILD, role, str(config), str(seconds), f"{seed}-{i}") for i, role in enumerate(roles)
    }
    told = {}
    for name, child in started.items():
        ended = child.ended()
        assert ended.returncode == 0, f"{name}: {ended.stderr}"
        assert "Traceback" not in ended.stderr, f"{name}: {ended.stderr}"
        told[name] = Told(*json.loads(ended.stdout.splitlines()[-1]))
    return told


def contents(config: Path, **overrides: object) -> dict[str, list[str]]:
    """Return the content of the tables that does not depend on the time of writing."""
    store = findingaid.open(config, overrides).store
    columns = {
        "records": ("record_id", "artifact_version", "text"),
        "edges": ("artifact_id", "target_id"),
        "claims": ("claim_id", "artifact_version"),
        "synopses": ("artifact_id", "text"),
        "surfaces": ("artifact_id", "text"),
    }
    return {
        table: sorted(json.dumps(row, default=str) for row in store.rows(table, names).to_pylist())
        for table, names in columns.items()
    }


def assert_all_is_well(config: Path, told: dict[str, Told], clean: Path) -> None:
    aid = findingaid.open(config)
    assert {name: role.wrong for name, role in told.items() if role.wrong} == {}
    assert all(role.done for role in told.values()), told
    log = aid.eligibility.log.all()
    assert list(broken(log)) == []
    assert len(log) == sum(2 * role.done for name, role in told.items() if name.startswith("approve"))
    report = aid.index()
    assert (report.ok, report.repaired) == (True, [])
    aid.purge()
    assert aid.verify() == []
    built = findingaid.open(config, {"store": str(clean), "storage_options": {}})
    built.open_run().prepare()
    built.store.append("decisions", aid.store.dataset("decisions").to_table())
    built.index()
    assert contents(config) == contents(config, store=str(clean), storage_options={})


@pytest.mark.slow
def test_runs_purges_decisions_and_readers_at_once_lose_and_show_nothing(tmp_path: Path, seed: int) -> None:
    config = configured(tmp_path)
    findingaid.open(config).index()

    told = at_once(config, 20, seed, ("index", "index", "purge", "approve", "approve", "read"))

    assert_all_is_well(config, told, tmp_path / "clean")


@pytest.mark.release
@pytest.mark.slow
def test_runs_purges_decisions_and_readers_at_once_on_object_storage_lose_and_show_nothing(
    tmp_path: Path, bucket: Bucket, seed: int
) -> None:
    config = configured(tmp_path / "config", store=bucket.uri, storage_options=bucket.options)
    findingaid.open(config).index()

    told = at_once(config, 15, seed, ("index", "purge", "approve", "read"))

    assert_all_is_well(config, told, tmp_path / "clean")
