"""One form for all spellings of a word, with the place of each character in the text."""

# ruff: noqa: RUF001  # letters of other scripts are the subject

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from findingaid.text.analyzer import Lexical, searchable
from findingaid.text.folding import folded, normalized, normalized_places
from findingaid.text.words import find_words, found_stems, salient

SPELLINGS = [
    ("Größe", "Grosse"),
    ("Ålesund", "Alesund"),
    ("co\u00adöpe\u200brate", "cooperate"),
    ("ﬃ Ⅷ", "ffi VIII"),
    ("ＡＢＣ", "ABC"),
    ("ﾊﾞｽ", "バス"),
    ("βιβλίο ΒΙΒΛΊΟ λόγος", "βιβλιο ΒΙΒΛΙΟ λογοσ"),
    ("Ещё ёж, мой", "Еще еж, мой"),
    ("أُسْتَاذ", "استاذ"),
    ("יִשְׂרָאֵל", "ישראל"),
    ("٢٠٢٤ ०१", "2024 01"),
    ("hyphen\u00ad\nated", "hyphenated"),
    ("Brand™", "Brand "),
    ("தமிழ்", "தமிழ்"),
]


@pytest.mark.parametrize(("text", "plain"), SPELLINGS)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_all_spellings_have_one_form(text: str, plain: str, form: str) -> None:
    assert folded(normalized(unicodedata.normalize(form, text))) == unicodedata.normalize("NFC", plain)


@given(st.lists(st.sampled_from([*"aéГёßｶﾞ가각²ﬁ\u00ad\u200b\n\t \u0301\u0308\u064b\u3099", "é", "가"])).map("".join))
def test_each_character_has_a_place_in_the_text(text: str) -> None:
    plain, places = normalized_places(text)

    assert len(places) == len(plain) + 1
    assert list(places) == sorted(places)
    assert places[-1] == len(text)
    for at, character in enumerate(plain):
        assert character in normalized(text[places[at] :]) if character.isalpha() else True


@pytest.mark.parametrize(
    ("query", "text", "shown"),
    [
        ("Schlüssel", unicodedata.normalize("NFD", "Die Schlüssel hier."), "Schlüssel"),
        ("resumes", "His résumé is here.", "résumé"),
        ("gateway", "The gate\u00adway\u200b is down.", "gate\u00adway\u200b"),
        ("office", "Our oﬃces.", "oﬃces"),
        ("데이터", unicodedata.normalize("NFD", "이 데이터 는"), "데이터"),
    ],
)
def test_words_are_found_at_their_places_in_the_source(query: str, text: str, shown: str) -> None:
    wanted = frozenset(salient(query))
    (span,) = {(start, end) for start, end, _ in find_words(wanted, text, Lexical())}

    assert normalized(text[slice(*span)]) == normalized(shown)
    assert found_stems(wanted, text, Lexical()) == wanted


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("plain words, and more.", ()),
        ("a set-up of 10-20", ("setup",)),
        ("in 12,500 or 1.2.3 of 3.14", ("12500",)),
        ("call 555 12 34", ("5551234",)),
        ("see ab/cd.ef and ab/cd/ef", ("abꞏ47ꞏcdꞏ46ꞏef",)),
        ("ask US or us, AND it", ("usꞏ",)),
        ("naïve parseXML", ("naïve", "parsexml")),
    ],
)
def test_a_text_is_also_found_by_other_words(text: str, others: tuple[str, ...]) -> None:
    assert searchable(text).others == others


def test_stop_words_are_asked_for_only_alone() -> None:
    assert Lexical().query("what is it").words == ["what", "is", "it"]
    assert Lexical().query("what is a berth").words == ["berth"]
    assert Lexical(stop_words=("berth",)).query("a berths").words == ["a"]
