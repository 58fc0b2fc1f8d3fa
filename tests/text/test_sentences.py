"""Sentences: full stops of abbreviations end none."""

from __future__ import annotations

import pytest

from findingaid.text.sentences import split_sentences


@pytest.mark.parametrize(
    "sentence",
    [
        "Es gilt § 5 Abs. 2 des Vertrags.",
        "Wir sind unter Tel. 12 34 56 erreichbar.",
        "Sie wohnt in der Nr. 5 gegenüber.",
        "Das steht auf S. 14 im Protokoll.",
        "Die Rechnung ist am 12. Mai 2025 fällig.",
    ],
)
def test_a_german_abbreviation_before_a_number_ends_no_sentence(sentence: str) -> None:
    assert list(split_sentences(f"{sentence} Das ist alles.")) == [f"{sentence} ", "Das ist alles."]


def test_a_sentence_may_begin_with_a_number() -> None:
    assert len(list(split_sentences("Nobody met Bob. 12 people came."))) == 2


@pytest.mark.parametrize("title", ["Ms", "Mx", "Mr", "Dr", "Hrn", "Fam", "Fa", "Dipl.-Ing"])
def test_a_title_before_a_name_ends_no_sentence(title: str) -> None:
    sentences = ["It begins at 19:00 in room 112. ", f"{title}. Adler will explain it."]

    assert list(split_sentences("".join(sentences))) == sentences
