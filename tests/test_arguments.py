"""An argument of a wrong type is refused in one line that names it, by each public method."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import findingaid
from findingaid import FindingAid, QueryError
from findingaid.errors import FindingAidError
from findingaid.query.search.options import DESCRIPTIONS
from tests.conftest import Cli, text_about

WRONG: list[Any] = [5, 1.5, "3", True, [], {}, ["x"], [5], {"a": 1}, {"a": "b"}, b"x", object(), -1]

METHODS = [
    name
    for name, of in vars(FindingAid).items()
    if inspect.isfunction(of) and not name.startswith("_") and len(inspect.signature(of).parameters) > 1
]

NEEDED = {"budget_tokens": 500, "keys": [("docs", "a.md")], "level": "metadata", "hits": [], "user": "ann"}


@pytest.fixture(scope="module")
def aid(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    cli = Cli(tmp_path_factory.mktemp("arguments"))
    cli.write("a.md", text_about("ledger"))
    assert cli.run("index").exit_code == 0
    return findingaid.open(cli.config)


@pytest.mark.parametrize("name", METHODS)
def test_no_method_ends_in_an_error_of_python_for_a_value_of_any_type(aid: FindingAid, name: str) -> None:
    method = getattr(aid, name)
    parameters = inspect.signature(method).parameters
    kinds = {p.kind for p in parameters.values()}
    needed = {
        p: NEEDED.get(p, "a.md") for p, of in parameters.items() if of.default is of.empty and of.kind not in (2, 4)
    }
    options = DESCRIPTIONS if inspect.Parameter.VAR_KEYWORD in kinds else ()
    for option in [*(p for p, of in parameters.items() if of.kind not in (2, 4)), *options]:
        for wrong in WRONG:
            with suppress(FindingAidError):
                method(**{**needed, option: wrong})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"k": "3"}, "k: expected a whole number, got '3'"),
        ({"k": True}, "k: expected a whole number, got True"),
        ({"k": 0}, "k must be at least 1, got 0"),
        ({"corpora": 5}, "corpora: expected a list of texts or None, got 5"),
        ({"corpora": "docs"}, "corpora: expected a list of texts or None, got 'docs'"),
        ({"where": {"topic": "auth"}}, "where: expected a text or None, got {'topic': 'auth'}"),
        ({"weights": {"chunk": "2"}}, "weights: expected a mapping of texts to numbers or None, got {'chunk': '2'}"),
        ({"recency": "2 days"}, "recency: expected a Recency or None, got '2 days'"),
        ({"per_artifact": "no"}, "per_artifact: expected True or False or None, got 'no'"),
        ({"blend": "half"}, "blend: expected a number or 'rrf', got 'half'"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_error_says_what_was_expected_and_what_was_given(aid: FindingAid, given: Any, told: str) -> None:
    with pytest.raises(QueryError) as error:
        aid.search("ledger", **given)

    assert str(error.value) == told


def test_positional_arguments_are_checked_and_missing_ones_are_told_by_python(aid: FindingAid) -> None:
    with pytest.raises(QueryError, match="budget_tokens: expected a whole number, got '500'"):
        aid.context("ledger", "500")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="budget_tokens"):
        aid.context("ledger")  # type: ignore[call-arg]


def test_collections_and_numbers_of_any_kind_are_taken(aid: FindingAid) -> None:
    for corpora in (["docs"], ("docs",), {"docs"}, {"docs": 1}.keys(), (each for each in ["docs"]), np.array(["docs"])):
        assert aid.search("ledger", np.int64(1), corpora=corpora, blend=np.float32(0.5))  # type: ignore[call-overload]
