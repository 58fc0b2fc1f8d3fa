"""Answers over the mixed files of a household: right, silent, or of low confidence."""

from __future__ import annotations

from pathlib import Path

import pytest

import findingaid
from findingaid import FindingAid
from findingaid.metrics import load_cases

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def aid(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    return indexed(tmp_path_factory.mktemp("household"), "household")


@pytest.fixture(scope="module")
def german(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    return indexed(tmp_path_factory.mktemp("haushalt"), "haushalt")


def indexed(folder: Path, name: str) -> FindingAid:
    config = folder / "findingaid.yaml"
    config.write_text(f"store: index\ncorpora:\n  {name}:\n    source: {{kind: files, root: {DATA / name}}}\n")
    aid = findingaid.open(config)
    aid.index()
    return aid


@pytest.mark.slow
def test_what_is_wrong_has_low_confidence_and_most_is_right_or_silent(aid: FindingAid) -> None:
    found = [(case, aid.answer(case.query)) for case in load_cases(DATA / "household.yaml").cases]

    right = [case.answerable and case.answer.casefold() in answer.answer.casefold() for case, answer in found]
    wrong = [
        (case.query, answer.answer, answer.confidence)
        for (case, answer), is_right in zip(found, right, strict=True)
        if answer.sentences and not is_right
    ]
    assert [each for each in wrong if each[2] != "low"] == []
    assert sum(right) >= 37
    assert sum(not answer.sentences for case, answer in found if not case.answerable) >= 14


POLICY = "policy: travel; company: Solida; number: S-99121; cost a year: 640 SEK; cancel by: 15 December"
CHECK = "The last check was on 22 October 2024, without findings."


@pytest.mark.parametrize(
    ("question", "first", "artifact_id"),
    [
        ("Who is Elsa's teacher?", "Her teacher is Marcus Wennberg.", "notes/school.md"),
        ("When was the last check at the dentist?", CHECK, "notes/health.md"),
        ("How many days are backups kept?", "retention_days: 45", "code/backup.yaml"),
        ("What does the travel insurance cost a year?", POLICY, "tables/insurance.csv"),
    ],
)
def test_a_sentence_that_states_what_is_asked_for_comes_first(
    aid: FindingAid, question: str, first: str, artifact_id: str
) -> None:
    answer = aid.answer(question)

    assert (answer.sentences[0].text, answer.quotes[0].artifact_id) == (first, artifact_id)
    quote = answer.quotes[0]
    assert aid.read(artifact_id, span=quote.span).text == quote.quote


def test_a_weak_answer_names_what_is_asked_for_and_not_stated(aid: FindingAid) -> None:
    answer = aid.answer("Why did Lind move away?")

    assert answer.confidence == "low"
    assert answer.note.startswith("weak: this may not answer the question (it asks for a reason, and none is stated;")


def test_german_questions_over_german_notes_are_answered_or_refused(german: FindingAid) -> None:
    found = [(case, german.answer(case.query)) for case in load_cases(DATA / "haushalt.yaml").cases]

    right = [case.answerable and case.answer.casefold() in answer.answer.casefold() for case, answer in found]
    high = [is_right for (_, answer), is_right in zip(found, right, strict=True) if answer.confidence == "high"]
    assert sum(right) >= 15
    assert len(high) >= 8
    assert all(high)
    assert sum(not answer.sentences for case, answer in found if not case.answerable) >= 5
    asking = {"Wann", "Wer", "Wo", "Wie", "Warum", "Was", "der", "die", "viele", "lange"}
    assert not [answer.gaps for _, answer in found if asking & {*answer.gaps}]


@pytest.mark.parametrize("question", ["Who repaired the roof?", "Where are the winter tyres?"])
def test_an_english_question_over_german_notes_says_that_they_are_german(german: FindingAid, question: str) -> None:
    answer = german.answer(question)

    assert not answer.sentences
    assert answer.note.endswith("is in German: ask in German, too")
