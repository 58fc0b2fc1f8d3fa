"""Responses over HTTP match the server's OpenAPI document for any request."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings, strategies
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from findingaid.serve.capabilities import CAPABILITIES
from findingaid.serve.openapi import is_simple
from findingaid.serve.session import Session
from tests.support.serving import indexed, served

APART = {
    "positive_data_acceptance": "a query of punctuation, or a corpus that is not there, has a good shape and no answer",
    "use_after_free": "nothing is ever deleted",
    "ensure_resource_availability": "nothing is ever created under an address",
}
"""Checks that do not fit, and why."""


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    session = Session.of(indexed(tmp_path_factory.mktemp("described"), "open"), actor="ann")
    with served(session) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


OPERATIONS = [(c.name, method) for c in CAPABILITIES for method in (["POST", "GET"] if is_simple(c) else ["POST"])]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), OPERATIONS)
def test_every_answer_is_one_that_is_described(described: Any, name: str, method: str) -> None:
    operation = described[f"/v1/{name}"][method]
    apart = [CHECKS.get_one(check) for check in APART]

    @settings(max_examples=50, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=strategies.one_of(operation.as_strategy(mode) for mode in GenerationMode))
    def look(case: schemathesis.Case) -> None:
        response = case.call(timeout=60)
        if response.status_code != HTTPStatus.REQUEST_URI_TOO_LONG:  # a rejection that the checks do not know
            case.validate_response(response, excluded_checks=apart)

    look()
