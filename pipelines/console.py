"""Output of the jobs on a terminal or in the log of a CI: their results, and each failure once, in one line."""

import logging
from typing import Any

import dagster as dg

from findingaid_dagster.internals.definitions import config_field

QUIET = {"loggers": {"console": {"config": {"log_level": "INFO"}}}}
"""On a terminal the jobs log their results but not each event; the instance has those."""

FAILURE = f"\n\n{dg.Failure.__module__}.{dg.Failure.__name__}: "
STACK = "\n\nStack Trace:"


def _open_console(context: dg.InitLoggerContext) -> logging.Logger:
    logger: logging.Logger = dg.colored_console_logger.logger_fn(context)
    logger.addFilter(_in_one_line)
    return logger


LOGGERS = {
    "console": dg.LoggerDefinition(
        _open_console, dg.colored_console_logger.config_schema, "Console logger that shows failures in one line."
    )
}
"""Loggers of the jobs."""


def _in_one_line(record: logging.LogRecord) -> bool:
    """Take the stack trace off a failure that a job reports by name, and the failure off the step: the run repeats it.

    Other errors keep their stack trace.
    """
    event, failure, rest = str(record.msg).partition(FAILURE)
    if failure:
        record.msg = event if "STEP_FAILURE" in event else f"{event} {rest.partition(STACK)[0].strip()}"
    return True


def quiet(node: str, config: type[dg.Config] | None = None) -> dg.ConfigMapping:
    """Return the configuration of a job whose op `node` takes a `config`: that of the run, and QUIET.

    A mapping as the job's `config` would fix the configuration of its resources, so that none could be replaced.
    """
    options = {} if config is None else {"ops": dg.Field({node: {"config": config_field(config)}}, is_required=False)}
    others = ("execution", "loggers", "resources", *(() if config else ("ops",)))
    anything = dg.Field(dg.Permissive(), is_required=False)  # type: ignore[no-untyped-call]  # dagster leaves it untyped
    schema = {**options, **dict.fromkeys(others, anything)}

    def resolve(given: dict[str, Any]) -> dict[str, Any]:
        return {**QUIET, **{name: value for name, value in given.items() if value}}

    return dg.ConfigMapping(resolve, config_schema=schema, receive_processed_config_values=False)
