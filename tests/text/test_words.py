"""Words: the language of a text by its function words."""

from __future__ import annotations

import pytest

from findingaid.text.analyzer import Language, Lexical
from findingaid.text.words import in_language_of, salient, stems


@pytest.mark.parametrize("configured", ["English", "German"])
@pytest.mark.parametrize(
    ("question", "language", "words"),
    [
        ("Wann ist die Rechnung für den Kessel fällig?", "German", ["Rechnung", "Kessel", "fällig"]),
        ("Wie viele Tage werden die Bilder aufbewahrt?", "German", ["Tage", "Bilder", "aufbewahrt"]),
        ("Was kostet die Versicherung?", "German", ["kostet", "Versicherung"]),  # as many function words are Dutch
        ("When was the boiler serviced?", "English", ["boiler", "serviced"]),
        ("Quelle est la couleur de la voiture dans le garage?", "French", ["couleur", "voiture", "garage"]),
    ],
)
def test_a_question_is_about_the_words_that_are_no_function_words_of_its_language(
    configured: Language, question: str, language: Language, words: list[str]
) -> None:
    lexical = in_language_of(question, Lexical(configured))

    assert lexical.language == language
    assert set(words) <= set(salient(question, lexical).values()) <= {*words, "Quelle", "est"}


def test_a_text_with_few_function_words_is_in_the_configured_language() -> None:
    assert in_language_of("die cast, 12 a b c", Lexical()) == Lexical()


def test_a_language_is_named_only_if_it_is_clear() -> None:
    alike = "Le cours commence le 12 mai à 16 heures. Il coûte 45 euros. La monitrice est Claire Dubois."
    clear = "La chaudière a été révisée le 3 mars 2025 par la société Lenoir, pour la maison et pour les enfants."

    assert in_language_of(alike, Lexical(), lead=2) == Lexical()
    assert in_language_of(clear, Lexical(), lead=2) == Lexical("French")


def test_the_month_of_may_is_a_word_of_a_question_and_the_verb_is_none() -> None:
    assert list(salient("What was the revenue in May?")) == ["revenu", "may"]
    assert list(salient("May a member leave, and may I ask the board?")) == ["member", "leav", "ask", "board"]


@pytest.mark.parametrize(
    ("words", "others"),
    [("leave leaves", "left"), ("rise rising", "rose risen"), ("children", "child"), ("sends", "sent")],
)
def test_irregular_forms_are_forms_of_one_word_in_english(words: str, others: str) -> None:
    assert stems([words]) == stems([others])
    assert stems([words], Lexical("German")) != stems([others], Lexical("German"))
    assert stems([words], Lexical(stem=False)) != stems([others], Lexical(stem=False))
