"""Undocumented parts of Dagster are used in one place, and a part that moves breaks only what needs it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._annotations import is_public

from findingaid_dagster import build_definitions
from tests.code_location.test_code_location import Location, location  # noqa: F401  # a fixture
from tests.paths import ROOT
from tools.layout import CODE_LOCATION

INTERNALS = ROOT / "findingaid_dagster" / "internals"
PUBLIC = {
    "instance": (dg.DagsterInstance,),
    "context": (dg.AssetExecutionContext, dg.OpExecutionContext, dg.SensorEvaluationContext),
}
DOCUMENTED = {"op_execution_context", "path"}
"""Attributes of contexts that Dagster's documentation uses, but that it has not marked as public."""


def sources() -> Iterator[tuple[Path, ast.AST]]:
    """Parse each module of the code location outside of `internals`."""
    for folder in ("findingaid_dagster", *CODE_LOCATION):
        for path in (ROOT / folder).rglob("*.py"):
            if INTERNALS not in path.parents:
                yield path, ast.walk(ast.parse(path.read_text()))


def test_only_internals_imports_modules_of_dagster() -> None:
    """All else uses names of `dagster` itself, which are its documented API."""
    found = []
    for path, nodes in sources():
        for node in nodes:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{path}: {name}" for name in names if name.startswith("dagster.")]

    assert found == []


def test_only_internals_uses_undocumented_methods_of_instances_and_contexts() -> None:
    found = []
    for path, nodes in sources():
        for node in nodes:
            if isinstance(node, ast.Attribute) and (owners := PUBLIC.get(ast.unparse(node.value).split(".")[-1])):
                public = any(is_public(getattr(owner, node.attr, None)) for owner in owners)
                if not public and node.attr not in DOCUMENTED:
                    found.append(f"{path}:{node.lineno} {ast.unparse(node)}")

    assert found == []


def test_loading_the_code_location_changes_no_environment(location: Location) -> None:  # noqa: F811
    location.cli.run("status")
    before = dict(os.environ)

    build_definitions(location.cli.config)

    assert dict(os.environ) == before


def test_partitions_are_those_of_the_moment_whoever_changed_them(location: Location) -> None:  # noqa: F811
    mine, storage = location.instance, location.instance.event_log_storage
    with dg.DagsterInstance.get() as other:
        for step, (by, key) in enumerate([(mine, "a"), (other, "b"), (mine, "c"), (other, "d")], 1):
            by.add_dynamic_partitions("x", [key])
            assert mine.get_dynamic_partitions("x") == other.get_dynamic_partitions("x") == [*"abcd"][:step]
        other.delete_dynamic_partition("x", "a")
        assert mine.get_dynamic_partitions("x") == [*"bcd"]
        mine.get_dynamic_partitions("x").clear()  # type: ignore[attr-defined]
        assert mine.get_dynamic_partitions("x") == [*"bcd"]
        with storage.index_transaction() as connection:
            storage.add_dynamic_partitions("x", ["e"])
            assert mine.get_dynamic_partitions("x") == [*"bcde"]
            connection.rollback()
        assert mine.get_dynamic_partitions("x") == [*"bcd"]
        storage.dispose()
        other.add_dynamic_partitions("y", ["f"])
        assert (mine.get_dynamic_partitions("x"), mine.get_dynamic_partitions("y")) == ([*"bcd"], ["f"])


MOVED = """
import sys
import dagster as dg
from dagster._core.storage import sqlite_storage
from findingaid_dagster import build_definitions
with dg.DagsterInstance.local_temp() as instance:
    del sqlite_storage._event_logs_directory  # as if a new Dagster had renamed it
    print(build_definitions(sys.argv[1]).resolve_job_def("index").execute_in_process(instance=instance).success)
from findingaid_dagster import BatchingSqliteStorage
"""


@pytest.mark.slow
def test_a_moved_private_of_sqlite_breaks_that_storage_alone_and_says_what_to_do(location: Location) -> None:  # noqa: F811
    location.cli.run("status")

    done = subprocess.run(
        [sys.executable, "-c", MOVED, str(location.cli.config)], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.stdout.split() == ["True"], done.stderr
    (message,) = [line for line in done.stderr.splitlines() if line.startswith("ImportError: findingaid")]
    assert f"does not work with Dagster {dg.__version__}" in message
    assert "_event_logs_directory" in message
    assert message.endswith("remove the block `storage` from dagster.yaml to use Dagster's own, or use Postgres")
