"""Code location whose sensors look as often as the daemon asks them, instead of once a minute."""

import os

import dagster as dg

from findingaid_dagster.pipelines import sensors
from findingaid_dagster.pipelines.code_location import build_definitions


def eager() -> dg.Definitions:
    """Return the definitions of $FINDINGAID_CONFIG, and the sensor of automation that Dagster would add."""
    found = build_definitions(os.environ["FINDINGAID_CONFIG"])
    sensors.JUST_NOW = 5
    for sensor in found.sensors or ():
        sensor._min_interval = 1  # type: ignore[union-attr]
    automation = dg.AutomationConditionSensorDefinition(
        "default_automation_condition_sensor", target="*", minimum_interval_seconds=1
    )
    return dg.Definitions.merge(found, dg.Definitions(sensors=[automation]))


defs = eager()
