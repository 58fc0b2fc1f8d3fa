"""Responses over HTTP match the server's OpenAPI document for any request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from findingaid.serve.capabilities import CAPABILITIES
from findingaid.serve.openapi import is_simple
from findingaid.serve.session import Session
from tests.support.serving import indexed, served

if TYPE_CHECKING:
    import schemathesis

APART = {
    "positive_data_acceptance": "a query of punctuation, or a corpus that is not there, has a good shape and no answer",
    "use_after_free": "nothing is ever deleted",
    "ensure_resource_availability": "nothing is ever created under an address",
}
"""Checks that do not fit, and why."""


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import schemathesis  # takes a second

    session = Session.of(indexed(tmp_path_factory.mktemp("described"), "open"), actor="ann")
    with served(session) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


def has_unused(case: schemathesis.Case) -> bool:
    """Return whether an input is empty, which counts as not given although it has not the type of the schema."""
    given = case.body if isinstance(case.body, Mapping) else case.query
    nothing = (None, "", [], {})
    return any(v in nothing or (isinstance(v, list) and any(each in nothing for each in v)) for v in given.values())


OPERATIONS = [(c.name, method) for c in CAPABILITIES for method in (["POST", "GET"] if is_simple(c) else ["POST"])]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), OPERATIONS)
def test_every_answer_is_one_that_is_described(described: Any, name: str, method: str) -> None:
    from schemathesis import GenerationMode
    from schemathesis.checks import CHECKS

    operation = described[f"/v1/{name}"][method]
    apart = [CHECKS.get_one(check) for check in APART]

    @settings(max_examples=25, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=strategies.one_of(operation.as_strategy(mode) for mode in GenerationMode))
    def look(case: schemathesis.Case) -> None:
        response = case.call(timeout=60)
        if response.status_code != HTTPStatus.REQUEST_URI_TOO_LONG:  # a rejection that the checks do not know
            unused = [CHECKS.get_one("negative_data_rejection")] if has_unused(case) else []
            case.validate_response(response, excluded_checks=[*apart, *unused])

    look()
