"""Run launcher that detects runs whose process ended together with the code location.

Dagster's own launcher cannot tell whether a run is alive. If its container is killed, a run stays "started" for ever
and keeps its place in the queue. The code location knows its runs, so the monitoring daemon asks it.
"""

from __future__ import annotations

from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.launcher import CheckRunHealthResult, DefaultRunLauncher, WorkerStatus
from dagster._core.storage.dagster_run import DagsterRun
from dagster._grpc.types import GetCurrentRunsResult
from dagster._serdes import deserialize_value


class WatchedRunLauncher(DefaultRunLauncher):
    """Dagster's default launcher with a health check; the class that `deploy/dagster.yaml` names."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Check whether the code location still has the run.

        While the code location does not respond, the run counts as running, because its state is unknown.
        """
        client = self._get_grpc_client_for_termination(run.run_id)  # type: ignore[no-untyped-call]  # dagster leaves it untyped
        if client is None:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "it has ended, or has not been handed over yet")
        try:
            reply = deserialize_value(client.get_current_runs(), GetCurrentRunsResult)
        except DagsterUserCodeUnreachableError:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "the code location does not respond")
        if run.run_id in reply.current_runs:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(
            WorkerStatus.FAILED, "the code location was restarted, and the process of the run ended with it"
        )
