"""Benchmarks of Dagster's overhead: events in its storage, sensor ticks, loading the code location.

Our overhead is the time of the `index` job minus that of the library for the same work. It is compared with the least
that plain Dagster costs: an asset that does nothing, its partitions materialized in one run, with default storage.
"""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import yaml

import findingaid
from benchmarks import corpus
from benchmarks.figures import ROUNDS, STAGES, Row, settle, timed
from findingaid_dagster.internals.sqlite import BATCH_SIZE_VARIABLE
from findingaid_dagster.pipelines.code_location import build_definitions
from findingaid_dagster.resources import FindingAidResource
from tools.postgres import programs, server

FILES, FEW, MANY = 2_000, 1_000, 10_000
SAMPLE = 200
"""Number of partitions on which plain Dagster is measured if all of them would take minutes."""

CORPORA = 50
PLAIN = {"telemetry": {"enabled": False}}
QUIET = {"loggers": {"console": {"config": {"log_level": "INFO"}}}}
OURS = Path(__file__).parent.parent / ".dagster" / "dagster.yaml"


@contextmanager
def instance(folder: Path, dagster_yaml: str) -> Iterator[dg.DagsterInstance]:
    """Open a new Dagster instance; events are batched only after a code location of findingaid is loaded."""
    folder.mkdir(parents=True)
    (folder / "dagster.yaml").write_text(dagster_yaml)
    os.environ["DAGSTER_HOME"] = str(folder)
    os.environ.pop(BATCH_SIZE_VARIABLE, None)
    try:
        with dg.DagsterInstance.get() as opened:
            yield opened
    finally:
        del os.environ["DAGSTER_HOME"]
        os.environ.pop(BATCH_SIZE_VARIABLE, None)


def job(folder: Path) -> Iterator[Row]:
    """Compare the job with the library on the same work; both run in this process, so start-up time is excluded."""
    root = corpus.write(folder, FILES)
    settle()
    cold, again, added = indexed(folder / "job", root, FILES, OURS.read_text())
    yield Row(
        f"`index` job, {FILES:,} files, cold",
        f"{cold:.2f} s, {added:.2f} ms more an artifact and asset",
        "≤ 1 ms",
        added <= 1,
    )
    yield Row("… nothing changed", f"{again:.2f} s", "", True)


def indexed(folder: Path, root: Path, count: int, dagster_yaml: str) -> tuple[float, float, float]:
    """Run the library and the `index` job twice over the same files.

    Returns the seconds of the first job, the seconds of the second job, and the milliseconds per artifact and asset by
    which the first job is slower than the library.
    """
    folder.mkdir()
    config = corpus.config(folder, root)
    library, _ = timed(findingaid.open(config, {"store": str(folder / "library")}).index)
    with instance(folder / "home", dagster_yaml) as opened:
        index = build_definitions(config).resolve_job_def("index")
        cold, result = timed(lambda: index.execute_in_process(instance=opened))
        again, _ = timed(lambda: index.execute_in_process(instance=opened))
    assert result.success
    return cold, again, (cold - library) / count / STAGES * 1000


def ordinary(folder: Path, count: int, measured: int, dagster_yaml: str) -> float:
    """Return the milliseconds per partition of plain Dagster, without the fixed time of a run.

    Of `count` partitions the first `measured` are materialized.
    """

    @dg.asset(
        partitions_def=dg.StaticPartitionsDefinition([f"{key:05d}" for key in range(count)]),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def plain() -> None:
        pass

    materialize = dg.Definitions(assets=[plain]).resolve_implicit_global_asset_job_def()

    def took(first: int, last: int) -> float:
        ends = {"start": f"{first:05d}", "end": f"{last:05d}"}
        tags = {f"dagster/asset_partition_range_{end}": key for end, key in ends.items()}
        seconds, result = timed(lambda: materialize.execute_in_process(run_config=QUIET, instance=opened, tags=tags))
        assert result.success
        return seconds

    with instance(folder, dagster_yaml) as opened:
        took(0, 0)  # creates the tables
        alone = took(0, 0)
        return (took(0, measured - 1) - alone) / (measured - 1) * 1000


def events(folder: Path) -> Iterator[Row]:
    """Compare our event storage with plain Dagster, on SQLite and, if installed, on Postgres."""
    roots = {count: corpus.write(folder / str(count), count) for count in (FEW, MANY)}
    settle()
    yield from beside(folder, roots, "SQLite", OURS.read_text, lambda: yaml.safe_dump(PLAIN))
    if programs() is None:
        return
    with server() as running:
        names = map(str, itertools.count())

        def postgres() -> str:
            return yaml.safe_dump(PLAIN | {"storage": {"postgres": {"postgres_url": running.database(next(names))}}})

        yield from beside(folder, roots, "Postgres", postgres, postgres)


def beside(
    folder: Path, roots: dict[int, Path], name: str, ours: Callable[[], str], stock: Callable[[], str]
) -> Iterator[Row]:
    """Compare both on one kind of storage; `ours` and `stock` return a dagster.yaml for an empty storage."""
    for count, root in roots.items():
        places = [folder / f"{name}-{count}-{number}" for number in range(3 if count == FEW else 1)]
        added = min(indexed(place, root, count, ours())[2] for place in places)
        measured = FEW if count == FEW and name == "SQLite" else SAMPLE
        theirs = ordinary(places[0] / "stock", count, measured, stock())
        of = "" if measured == count else f", by {measured} of them"
        yield Row(
            f"{name}, events of {count:,} artifacts",
            f"{added:.2f} ms an artifact and asset; Dagster alone {theirs:.0f} ms{of}: {theirs / added:.0f} ×",
            "≤ 1 ms, ≥ 20 ×" if name == "SQLite" else "≤ 1 ms",
            added <= 1 and (theirs / added >= 20 or name != "SQLite"),
        )


def sensor_tick(config: Path) -> Row:
    """Measure a sensor tick without changes, with the resource opened anew as by the daemon."""

    def tick() -> None:
        resources = {"findingaid": FindingAidResource(config_path=str(config))}
        with dg.build_sensor_context(opened, resources=resources, sensor_name="changed_sources") as context:
            assert sensor.evaluate_tick(context).skip_message == "nothing changed"

    sensor = build_definitions(config).resolve_sensor_def("changed_sources")
    with dg.DagsterInstance.ephemeral() as opened:
        took = min(timed(tick)[0] for _ in range(ROUNDS))
    return Row("… a tick of the sensor", f"{took:.2f} s", "≤ 1 s", took <= 1)


LOADING = """
import sys, time
start = time.perf_counter()
import dagster
imported = time.perf_counter()
from findingaid_dagster.pipelines.code_location import build_definitions
build_definitions(sys.argv[1]).get_repository_def()
print(imported - start, time.perf_counter() - imported)
"""


def loading(folder: Path) -> Iterator[Row]:
    """Measure loading the code location in a new process, with the default model, as a code server does."""
    docs = {"source": {"kind": "files", "root": "."}, "synopsis": True, "schedule": "0 3 * * *"}
    config = folder / "findingaid.yaml"
    config.write_text(yaml.safe_dump({"corpora": {f"corpus_{number:02d}": docs for number in range(CORPORA)}}))
    command = [sys.executable, "-W", "ignore", "-c", LOADING, str(config)]
    times = [[float(part) for part in subprocess.check_output(command).split()] for _ in range(ROUNDS)]
    imports, loads = (min(part) for part in zip(*times, strict=True))
    yield Row(
        f"loading a code location of {CORPORA} corpora",
        f"{loads:.1f} s over the {imports:.1f} s of importing dagster",
        "≤ 3 s",
        loads <= 3,
    )
