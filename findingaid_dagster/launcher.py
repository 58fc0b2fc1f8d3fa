"""Runs as processes of the code location, and noticed when they went with it.

Dagster's own launcher cannot tell whether a run is alive: after its container was killed a run would stay "started"
for ever, and hold its place in the queue. The code location knows which runs it has, so the monitoring daemon asks.
"""

from __future__ import annotations

from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.launcher import CheckRunHealthResult, DefaultRunLauncher, WorkerStatus
from dagster._core.storage.dagster_run import DagsterRun
from dagster._grpc.types import GetCurrentRunsResult
from dagster._serdes import deserialize_value


class WatchedRunLauncher(DefaultRunLauncher):
    """Dagster's default launcher with a check of health; the class that `deploy/dagster.yaml` names."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Whether the code location still has the run; while it does not answer nothing is known, and nothing done."""
        client = self._get_grpc_client_for_termination(run.run_id)  # type: ignore[no-untyped-call]  # dagster leaves it untyped
        if client is None:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "it ended meanwhile, or was not handed over yet")
        try:
            reply = deserialize_value(client.get_current_runs(), GetCurrentRunsResult)
        except DagsterUserCodeUnreachableError:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "the code location does not answer")
        if run.run_id in reply.current_runs:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(
            WorkerStatus.FAILED, "the code location was started anew, and the run's process went with the one before"
        )
