"""Daemon of Dagster that looks each second: it waits 5 for runs and sensors, 30 for backfills, 60 for schedules.

Python imports this module in every process that has its folder in PYTHONPATH.
"""

import sys

if "dagster._daemon" in sys.orig_argv:
    from dagster._core.run_coordinator.queued_run_coordinator import QueuedRunCoordinator
    from dagster._daemon import asset_daemon, controller, sensor
    from dagster._scheduler import scheduler

    asset_daemon.MIN_INTERVAL_LOOP_SECONDS = 1
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 1
    sensor.MIN_INTERVAL_LOOP_TIME = 1
    scheduler._get_next_scheduler_iteration_time = lambda now: now + 1
    QueuedRunCoordinator.dequeue_interval_seconds = property(lambda _: 1)  # type: ignore[assignment,method-assign]
