"""Running Dagster: `dagster dev` with webserver, daemon and code server, and a GraphQL client that acts like the UI."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.paths import ROOT

PATIENCE = 400
QUICK = ROOT / "tests" / "support" / "quick"
LOCATION = {"repositoryLocationName": "findingaid", "repositoryName": "__repository__"}
ENDED = {"SUCCESS", "FAILURE", "CANCELED"}

Found = TypeVar("Found")


class Deployment:
    """GraphQL client for `dagster dev` with the shipped workspace, with the operations of the UI."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, query: str, **variables: object) -> Any:
        """Send a query with one field and return the value of that field."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.address}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            found = json.load(answer)
        assert not found.get("errors"), found["errors"]
        (value,) = found["data"].values()
        return value

    def launch(self, job: str, assets: Sequence[Sequence[str]] = (), **tags: str) -> str:
        """Launch a run and return its id. The first underscore in the name of a tag becomes a slash."""
        parameters = {
            "selector": {
                **LOCATION,
                "pipelineName": job,
                "assetSelection": [{"path": path} for path in assets] or None,
            },
            "mode": "default",
            "executionMetadata": {
                "tags": [{"key": key.replace("_", "/", 1), "value": value} for key, value in tags.items()]
            },
        }
        found = self.ask(
            """mutation($parameters: ExecutionParams!) { launchPipelineExecution(executionParams: $parameters) {
            __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }""",
            parameters=parameters,
        )
        assert found["__typename"] == "LaunchRunSuccess", found
        return str(found["run"]["runId"])

    def materialize(self, stages: Sequence[str], **tags: str) -> str:
        """Materialize some assets of `docs` as the UI does, wait for the run to end, and return its status."""
        return self.ended(self.launch("__ASSET_JOB", [["docs", stage] for stage in stages], **tags))

    def ended(self, run: str) -> str:
        """Wait for a run to end and return its status."""
        query = "query($run: ID!) { runOrError(runId: $run) { ... on Run { status } } }"

        def status() -> str | None:
            found = str(self.ask(query, run=run)["status"])
            return found if found in ENDED else None

        return until(status, f"run {run} does not end")

    def runs(self) -> list[dict[str, Any]]:
        """Return all runs, newest first."""
        query = """{ runsOrError { ... on Runs { results { runId jobName status tags { key value } } } } }"""
        return list(self.ask(query)["results"])

    def switch_on(self, sensor: str) -> None:
        """Start a sensor."""
        found = self.ask(
            """mutation($selector: SensorSelector!) { startSensor(sensorSelector: $selector) {
            __typename ... on PythonError { message } } }""",
            selector={**LOCATION, "sensorName": sensor},
        )
        assert found["__typename"] == "Sensor", found

    def start(self, schedule: str) -> None:
        """Start a schedule."""
        found = self.ask(
            """mutation($selector: ScheduleSelector!) { startSchedule(scheduleSelector: $selector) {
            __typename ... on PythonError { message } } }""",
            selector={**LOCATION, "scheduleName": schedule},
        )
        assert found["__typename"] == "ScheduleStateResult", found

    def ticks(self, sensor: str) -> list[str]:
        """Return the statuses of a sensor's finished ticks, newest first: SUCCESS, SKIPPED or FAILURE."""
        found = self.ask(
            """query($selector: SensorSelector!) { sensorOrError(sensorSelector: $selector) { ... on Sensor {
            sensorState { ticks { status error { message } } } } } }""",
            selector={**LOCATION, "sensorName": sensor},
        )
        return [tick["status"] for tick in found["sensorState"]["ticks"] if tick["status"] != "STARTED"]

    def told(self) -> str:
        """Return what Dagster shows of partitions, runs and ticks, as the message of a failed test."""
        query = """query($selector: RepositorySelector!) { sensorsOrError(repositorySelector: $selector) {
        ... on Sensors { results { name sensorState { ticks(limit: 20) {
        status timestamp skipReason runIds error { message } } } } } } }"""
        lines = [f"not fresh: {self.not_fresh()}", *(str(run) for run in self.runs())]
        for sensor in self.ask(query, selector=LOCATION)["results"]:
            lines += [sensor["name"], *(str(tick) for tick in sensor["sensorState"]["ticks"])]
        return "\n".join(lines)

    def ticked(self, sensor: str, times: int) -> None:
        """Wait until a sensor has ticked this many times more."""
        before = len(self.ticks(sensor))
        until(lambda: len(self.ticks(sensor)) >= before + times, f"{sensor} does not tick")

    def backfill(self, stages: Sequence[str], partitions: Sequence[str]) -> dict[str, Any]:
        """Launch a backfill of `docs` as the UI does, wait for its end, and return its final state."""
        parameters = {
            "assetSelection": [{"path": ["docs", stage]} for stage in stages],
            "partitionNames": list(partitions),
        }
        launched = self.ask(
            """mutation($parameters: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $parameters) {
            __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }""",
            parameters=parameters,
        )
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        return until(lambda: self._ended_backfill(launched["backfillId"]), "the backfill does not end")

    def _ended_backfill(self, backfill: str) -> dict[str, Any] | None:
        found = self.ask(
            """query($backfill: String!) { partitionBackfillOrError(backfillId: $backfill) {
            ... on PartitionBackfill { status error { message } assetBackfillData { assetBackfillStatuses {
              ... on AssetPartitionsStatusCounts { assetKey { path } numPartitionsTargeted
                numPartitionsMaterialized numPartitionsFailed } } } } } }""",
            backfill=backfill,
        )
        return None if found["status"] in {"REQUESTED", "FAILING", "CANCELING"} else dict(found)

    def staleness(self) -> dict[tuple[str, str], tuple[str, tuple[str, ...]]]:
        """Map each (stage, partition) of `docs` to its (stale status, reasons) as the UI shows them."""
        stages = ("artifacts", "surfaces", "synopses", "embeddings", "records")
        found = self.ask(
            """query($keys: [AssetKeyInput!]!) { assetNodes(assetKeys: $keys) { assetKey { path } partitionKeys
            staleStatusByPartition staleCausesByPartition { reason } } }""",
            keys=[{"path": ["docs", stage]} for stage in stages],
        )
        return {
            (node["assetKey"]["path"][1], key): (status, tuple(cause["reason"] for cause in causes))
            for node in found
            for key, status, causes in zip(
                node["partitionKeys"], node["staleStatusByPartition"], node["staleCausesByPartition"], strict=True
            )
        }

    def not_fresh(self) -> dict[str, set[str]]:
        """Map each partition to its stages that the UI does not show as fresh."""
        found: dict[str, set[str]] = {}
        for (stage, key), (status, _) in self.staleness().items():
            if status != "FRESH":
                found.setdefault(key, set()).add(stage)
        return found

    def reload(self) -> None:
        """Reload the code location, as after a change of the configuration."""
        found = self.ask(
            """mutation { reloadRepositoryLocation(repositoryLocationName: "findingaid") {
            __typename ... on WorkspaceLocationEntry { loadStatus } ... on PythonError { message } } }"""
        )
        assert found == {"__typename": "WorkspaceLocationEntry", "loadStatus": "LOADED"}


def dagster_dev(home: Path, config: Path, workspace: Path = ROOT / "workspace.yaml") -> Iterator[Deployment]:
    """Run `dagster dev`, with a quick daemon, on a free port until the test ends, and yield a client for it."""
    environment = {**os.environ, "DAGSTER_HOME": str(home), "FINDINGAID_CONFIG": str(config)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(QUICK), os.environ.get("PYTHONPATH")]))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-W", "ignore", "-m", "dagster", "dev", "-w", str(workspace), "-p", port]
    with (home / "dev.log").open("w") as log:
        dev = subprocess.Popen(command, cwd="/", env=environment, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: reachable(address), lambda: f"dagster dev does not answer: {(home / 'dev.log').read_text()}")
        yield Deployment(address)
    finally:
        kill_all_of(home)
        dev.wait(PATIENCE)


def kill_all_of(home: Path) -> None:
    """Kill every process of a Dagster instance; `dagster dev` leaves its children running when it is killed."""
    while alive := [process for process in Path("/proc").glob("[0-9]*") if _belongs(process, home)]:
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)
        time.sleep(0.1)


def _belongs(process: Path, home: Path) -> bool:
    """Return whether a process other than this one was started with this $DAGSTER_HOME."""
    if process.name == str(os.getpid()):
        return False
    with contextlib.suppress(OSError):
        return f"DAGSTER_HOME={home}".encode() in (process / "environ").read_bytes().split(b"\0")
    return False


def reachable(address: str) -> bool:
    """Return whether a webserver answers."""
    try:
        with urllib.request.urlopen(f"{address}/server_info", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def until(look: Callable[[], Found | None], message: str | Callable[[], str], patience: float = PATIENCE) -> Found:
    """Call `look` until it returns a true value, and return that value; fail after `patience` seconds."""
    deadline = time.monotonic() + patience
    while not (found := look()):
        assert time.monotonic() < deadline, message() if callable(message) else message
        time.sleep(0.3)
    return found
