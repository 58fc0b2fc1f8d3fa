"""Spans and metrics, recorded by the SDK of OpenTelemetry in memory."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

import findingaid
from findingaid import FindingAid, QueryError, telemetry
from findingaid.config.settings import ServeSettings
from findingaid.serve.http import create_app
from findingaid.serve.session import Session
from findingaid.testing import OpenAIServer, faults
from tests.conftest import Cli, ReadyMade, openai

SECRET = "saffron"
"""Word of the texts and of the queries, which must not be recorded."""


@dataclass
class Recorded:
    """Spans and metrics that were recorded."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    collected: list[Any] = field(default_factory=list)
    """Metrics since the beginning of the test."""

    def clear(self) -> None:
        self.exporter.clear()
        self.reader.get_metrics_data()
        self.collected.clear()

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def parents(self) -> dict[str, str | None]:
        """Return the name of each span's parent, None for one outside of these spans."""
        names = {span.context.span_id: span.name for span in self.exporter.get_finished_spans()}
        return {name: names.get(span.parent.span_id) if span.parent else None for name, span in self.spans().items()}

    def points(self, metric: str) -> list[Any]:
        found = self.reader.get_metrics_data()
        scopes = [scope for resource in found.resource_metrics for scope in resource.scope_metrics] if found else []
        self.collected += [one for scope in scopes for one in scope.metrics]
        return [point for one in self.collected if one.name == metric for point in one.data.data_points]


@pytest.fixture(scope="session")
def sdk() -> Iterator[Recorded]:
    """Record for all of the process, since it sets its providers once and other tests may come between those here."""
    recorded = Recorded(InMemorySpanExporter(), InMemoryMetricReader({Histogram: AggregationTemporality.DELTA}))
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(recorded.exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([recorded.reader]))
    yield recorded
    provider.shutdown()


@pytest.fixture
def recorded(sdk: Recorded) -> Recorded:
    sdk.clear()
    return sdk


@pytest.fixture
def unindexed(cli: Cli, server: OpenAIServer) -> FindingAid:
    cli.write("one.md", f"# One\n\nThe {SECRET} is weighed by hand on the first floor.\n")
    cli.settings["synthesizer"] = openai(server, seed=7)
    cli.settings["corpora"]["docs"]["synopsis"] = True
    cli.configure()
    return findingaid.open(cli.config)


@pytest.fixture
def indexed(unindexed: FindingAid, ready_made: ReadyMade, recorded: Recorded) -> FindingAid:
    ready_made("one floor", unindexed.index)
    recorded.exporter.clear()
    return unindexed


def told_nothing(recorded: Recorded) -> bool:
    """Return whether no span holds a word of the texts and the queries."""
    return all(SECRET not in span.to_json() for span in recorded.exporter.get_finished_spans())


def test_a_run_has_a_span_for_each_stage_and_below_it_for_each_model_call_by_the_genai_conventions(
    unindexed: FindingAid, recorded: Recorded
) -> None:
    assert unindexed.index().corpora["docs"].new == 1
    spans = recorded.spans()

    stages = {"artifacts", "surfaces", "synopses", "embeddings", "records"}  # the corpus has no claims
    assert recorded.parents() == {"index": None, "chat small": "synopses"} | dict.fromkeys(stages, "index")
    assert spans["index"].attributes == {"findingaid.corpora": ("docs",)}
    assert spans["embeddings"].attributes == {
        "findingaid.stage": "embeddings",
        "findingaid.corpus": "docs",
        "findingaid.artifacts": 1,
    }
    assert {"synopses", "records"} <= {
        p.attributes["findingaid.stage"] for p in recorded.points("findingaid.stage.duration")
    }
    assert recorded.points("findingaid.run.duration")[0].count >= 1

    call = spans["chat small"]
    assert call.kind is trace.SpanKind.CLIENT
    told = dict(call.attributes or {})
    assert told.pop("server.address").startswith("127.0.0.1:")
    assert told.pop("gen_ai.usage.input_tokens") > 0
    assert told.pop("gen_ai.usage.output_tokens") > 0
    assert {key: value for key, value in told.items() if not key.startswith("gen_ai.response.")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "small",
        "gen_ai.request.max_tokens": 4096,
        "gen_ai.request.seed": 7,
        "gen_ai.output.type": "json",
    }
    tokens = {point.attributes["gen_ai.token.type"] for point in recorded.points("gen_ai.client.token.usage")}
    assert tokens == {"input", "output"}
    assert recorded.points("gen_ai.client.operation.duration")[0].attributes["gen_ai.request.model"] == "small"
    assert told_nothing(recorded)


def test_a_failed_call_is_an_error_without_its_message(recorded: Recorded, cli: Cli, server: OpenAIServer) -> None:
    cli.write("one.md", f"# One\n\nThe {SECRET} is weighed by hand.\n")
    cli.settings["synthesizer"] = openai(server)
    cli.settings["corpora"]["docs"]["synopsis"] = True
    server.script(faults.server_error())
    cli.run("index")

    call = recorded.spans()["chat small"]
    assert call.status.status_code is trace.StatusCode.ERROR
    assert (call.attributes or {})["error.type"] == "SynthesisError"
    assert call.events == ()


def test_a_search_is_recorded_by_the_database_conventions(indexed: FindingAid, recorded: Recorded) -> None:
    indexed.search(f"{SECRET} by hand", mode="lexical", timeout=30)
    with pytest.raises(QueryError):
        indexed.search(SECRET, where="nowhere = 1")

    assert told_nothing(recorded)
    found, failed = recorded.exporter.get_finished_spans()
    assert found.name == "search records"
    assert found.attributes == {
        "db.system.name": "lancedb",
        "db.operation.name": "search",
        "db.collection.name": "records",
        "findingaid.mode": "lexical",
        "findingaid.k": 10,
        "db.response.returned_rows": 2,
    }
    assert (failed.attributes or {})["error.type"] == "QueryError"
    assert {p.attributes.get("error.type") for p in recorded.points("db.client.operation.duration")} == {
        None,
        "QueryError",
    }


def test_a_request_continues_the_trace_of_its_caller_down_to_the_search(
    indexed: FindingAid, recorded: Recorded
) -> None:
    trace_id, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    with TestClient(create_app(Session.of(indexed), ServeSettings(), None), base_url="http://127.0.0.1") as client:
        headers = {"traceparent": f"00-{trace_id}-{parent}-01"}
        assert client.post("/v1/search", json={"query": SECRET}, headers=headers).status_code == 200
        assert client.get(f"/made/up/{SECRET}").status_code == 404

    spans = recorded.spans()
    request = spans["POST /v1/search"]
    assert request.kind is trace.SpanKind.SERVER
    assert request.parent is not None
    assert (f"{request.context.trace_id:032x}", f"{request.parent.span_id:016x}") == (trace_id, parent)
    assert recorded.parents()["search records"] == "POST /v1/search"
    assert (request.attributes or {})["http.response.status_code"] == 200
    assert "http.route" not in (spans["GET"].attributes or {})


def test_a_request_is_recorded_with_its_caller_and_without_the_token(indexed: FindingAid, recorded: Recorded) -> None:
    said = {"token_sha256": hashlib.sha256(SECRET.encode()).hexdigest(), "user": "user:ann", "groups": ["group:hr"]}
    app = create_app(Session.of(indexed), ServeSettings(callers=[said]), None)
    with TestClient(app, base_url="http://127.0.0.1", headers={"Authorization": f"Bearer {SECRET}"}) as client:
        assert client.post("/v1/search", json={"query": SECRET}).status_code == 200

    assert (recorded.spans()["POST /v1/search"].attributes or {})["user.id"] == "user:ann group:hr"
    assert all("user.id" not in point.attributes for point in recorded.points("http.server.request.duration"))
    assert told_nothing(recorded)


def test_without_opentelemetry_nothing_is_recorded_and_all_works() -> None:
    script = """
import sys
sys.modules["opentelemetry"] = None
from findingaid import telemetry
assert not telemetry.INSTALLED
with telemetry.span("search", "seconds", {}) as found:
    found["rows"] = 1
telemetry.count("tokens", "{token}", 1, {})
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_thread_keeps_the_parent_of_its_spans(recorded: Recorded) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def child() -> None:
        with telemetry.span("child", "seconds", {}):
            pass

    with ThreadPoolExecutor(1) as pool, telemetry.span("parent", "seconds", {}):
        pool.submit(telemetry.in_context(child)).result()

    assert recorded.parents() == {"child": "parent", "parent": None}
