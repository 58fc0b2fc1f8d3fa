"""Events of OpenLineage that the sensor of `dagster-openlineage` makes of the events of a run."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from tests.conftest import Cli, text_about
from tests.paths import ROOT
from tests.support.location import STAGES, Location, open_location

DATASETS = [f"docs/{part}" for part in (*STAGES, "published")]


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    for name, value in {"TYPE": "file", "LOG_FILE_PATH": str(cli.folder / "lineage"), "APPEND": "true"}.items():
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)
    monkeypatch.chdir(cli.folder)
    yield from open_location(cli, monkeypatch)


def documented() -> dg.Definitions:
    """The definitions that the page tells to write."""
    page = (ROOT / "docs" / "telemetry.md").read_text()
    (code,) = (each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "dagster_openlineage" in each)
    scope: dict[str, Any] = {}
    exec(code, scope)
    definitions: dg.Definitions = scope["defs"]
    return definitions


def datasets_read(facets: dict[str, Any]) -> set[str]:
    columns = facets["columnLineage"]["fields"].values()
    return {column["name"] for each in columns for column in each["inputFields"]}


def test_openlineage_gets_the_columns_and_inputs_of_every_table_once_a_run(location: Location) -> None:
    """Also with more events than the sensor takes by default, which skips the others."""
    for number in range(4):
        location.cli.write(f"note{number}.md", text_about(f"note {number}"))
    definitions = documented()
    sensor, graph = definitions.resolve_sensor_def("openlineage_sensor"), definitions.resolve_asset_graph()
    log, cursor = location.cli.folder / "lineage", None

    for artifacts in (8, 1):
        run = location.index()
        with dg.build_sensor_context(location.instance, cursor=cursor) as context:
            list(sensor(context))  # type: ignore[call-overload]
            cursor = context.cursor
        events = [json.loads(line) for line in log.read_text().splitlines()]
        log.unlink()
        location.cli.write("ledger.md", text_about("another ledger"))

        outputs = [output for event in events for output in event["outputs"]]
        assert Counter(output["name"] for output in outputs) == dict.fromkeys(DATASETS, artifacts) | {DATASETS[-1]: 1}
        assert {(event["run"]["runId"], event["eventType"], *event["inputs"]) for event in events} == {
            (run.run_id, "COMPLETE")
        }
        told = {output["name"]: output["facets"] for output in outputs if output["facets"]}
        assert list(told) == DATASETS
        for name, facets in told.items():
            asset = graph.get(dg.AssetKey(name.split("/")))
            columns = [field["name"] for field in facets["schema"]["fields"]]
            assert columns == [column.name for column in asset.metadata["dagster/column_schema"].columns]
            assert set(facets["columnLineage"]["fields"]) <= set(columns)
            assert datasets_read(facets) == {"/".join(key.path) for key in asset.parent_keys}
            assert facets["dataSource"]["uri"] == location.aid.store.uri
