"""Marks of evidence in a sentence that a model wrote are read as what they mean, and are no words of the sentence."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from findingaid.query.answers.citation_marks import cited_numbers, split_marks
from findingaid.query.answers.generation import OpenAIAnswerer
from findingaid.testing import OpenAIServer

EVIDENCE = {
    1: "The ferry leaves at nine every morning.",
    2: "The ferry carries 40 cars, by rule (2) of the harbour.",
    3: "Pier 3 is closed in May.",
}
SAID = "The ferry leaves at nine."


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("The ferry leaves at nine [1].", [1]),
        ("The ferry leaves at nine. [1]", [1]),
        ("The ferry leaves at nine【1†source】.", [1]),
        ("The ferry leaves at nine \u30101\u2020L3-L9\u3011.", [1]),
        ("The ferry leaves at nine (1).", [1]),
        ("The ferry leaves at nine (Evidence 1).", [1]),
        ("The ferry leaves at nine [^1].", [1]),
        ("The ferry leaves at nine [1, 3].", [1, 3]),
        ("The ferry leaves at nine [1][3].", [1, 3]),
        ("The ferry leaves at nine [1-3].", [1, 2, 3]),
        ("The ferry leaves at nine\u00b9.", [1]),
        ("The ferry leaves at nine [1](http://x).", [1]),
        ("The ferry leaves at nine. [1](https://harbour.example/a#b)", [1]),
        ("The ferry leaves at nine<sup>1</sup>.", [1]),
        ("The ferry leaves at nine. 1", []),
        ("The ferry leaves at nine 1.", []),
        (SAID, []),
    ],
)
def test_marks_of_any_kind_are_taken_out_of_a_sentence(text: str, numbers: Sequence[int]) -> None:
    assert split_marks(text, [1], EVIDENCE) == (SAID, numbers)


def test_marks_of_two_clauses_are_taken_out_of_each() -> None:
    said = "The ferry leaves at nine (1) and carries cars (2)."

    assert split_marks(said, [1], {1: "At nine.", 2: "Cars."}) == ("The ferry leaves at nine and carries cars.", [1, 2])


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("The ferry carries cars by rule (2).", [2]),
        ("It is closed at Pier 3", [3]),
        ("The ferry has 9 crew [9].", [1]),
        ("It carries 40 cars (40).", [2]),
        ("It sails on day 2.", [1]),
        ("The ferry leaves at 1.", [1]),
        ("Cars: there are 2", [2]),
        ("Step (1) precedes step (3).", [1]),
        ("The value of f(1) is above g(3).", [1]),
        ("It carries (3) crew.", [3]),
        ("The harbour has 5 km\u00b2 and x\u00b3 is 10\u00b3 m\u00b2.", [2]),
    ],
)
def test_a_number_that_is_no_mark_stays(text: str, cited: list[int]) -> None:
    assert split_marks(text, cited, EVIDENCE) == (text, [])


@pytest.mark.parametrize(
    ("said", "numbers"),
    [
        ([1], [1]),
        (1, [1]),
        ([1.0], [1]),
        (["1", "[2]"], [1, 2]),
        (["Evidence 3"], [3]),
        ("1, 2", [1, 2]),
        (["\u30101\u2020x\u3011"], [1]),
        ([], []),
    ],
)
def test_evidence_is_listed_in_numbers_texts_or_marks(said: object, numbers: list[int]) -> None:
    assert cited_numbers(said) == numbers


@pytest.mark.parametrize("said", [["the first"], [True], [1.5], [float("inf")], None, [{"number": 1}]])
def test_evidence_that_is_no_number_is_refused(said: object) -> None:
    with pytest.raises(ValueError, match="expected the numbers of the evidence"):
        cited_numbers(said)


def test_an_answer_with_marks_among_other_words_cites_its_evidence() -> None:
    wrote = 'Here you go:\n{"sentences": [{"text": "The ferry leaves at nine 【1†source】.", "evidence": ["1"]}]}'
    with OpenAIServer(answer=lambda _: wrote, schemas=False) as server:
        answerer = OpenAIAnswerer(model="m", base_url=server.base_url, structured=False)

        (written,) = answerer.write("When?", {"a": EVIDENCE[1], "b": EVIDENCE[2]}, 400)

    assert (written.text, list(written.cited_ids)) == (SAID, ["a"])


def test_a_long_range_is_its_two_ends_and_not_every_piece_of_evidence_between() -> None:
    assert cited_numbers(["1-999"]) == [1, 999]
    assert cited_numbers(["2-4"]) == [2, 3, 4]
