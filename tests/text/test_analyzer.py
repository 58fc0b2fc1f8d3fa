"""Words of identifiers, and of Chinese and Japanese."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from findingaid.query.search.noise import covered_share
from findingaid.text.analyzer import (
    ABBREVIATION,
    ADDRESS,
    COMMIT,
    COMPOUND,
    LONGEST,
    NUMBER,
    SUFFIXED,
    Lexical,
    Signed,
    split_identifiers,
)
from findingaid.text.words import find_words, found_stems, salient

STYLES = ("getUserName", "get_user_name", "GetUserName", "GET_USER_NAME", "_get_user_name")


@pytest.mark.parametrize("name", STYLES)
def test_a_name_has_the_same_words_in_every_style(name: str) -> None:
    query = Lexical().query(name)
    assert [*query.others, *query.words] == ["getusername", "get", "user", "name"]


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("call parseHTTPResponse(x)", "call parseHTTPResponse parse HTTP Response(x)"),
        ("utf_8", "utf8 utf 8"),
        ("My_ClassName", "MyClassName My Class Name"),
    ],
)
def test_an_identifier_is_followed_by_its_parts(text: str, split: str) -> None:
    assert split_identifiers(text) == split


@pytest.mark.parametrize(
    "text", ["PhD", "RNAs", "the IDs", "__init__", "snake", "3.11", "auth/jwt", "_", "aB" * LONGEST]
)
def test_other_words_stay_as_they_are(text: str) -> None:
    assert split_identifiers(text) == text


@pytest.mark.parametrize("text", STYLES)
@pytest.mark.parametrize("query", ["getUserName", "get_user_name", "user name"])
def test_a_query_covers_a_name_in_every_style(query: str, text: str) -> None:
    assert covered_share(query, text, Lexical()) == 1


def test_the_parts_of_a_name_are_found_at_their_places() -> None:
    text = "call getUserName twice"
    places = list(find_words(frozenset(salient("user name")), text, Lexical()))
    assert [text[start:end] for start, end, _ in places] == ["User", "Name"]


def test_chinese_and_japanese_are_found_within_a_sentence() -> None:
    text = "関于机器学习的研究"
    places = list(find_words(frozenset(salient("机器学习")), text, Lexical()))
    assert [text[start:end] for start, end, _ in places] == ["机器", "器学", "学习"]
    assert covered_share("机器学习", "東京都の人口", Lexical()) == 0


@pytest.mark.parametrize("query", ["user names", "机器学习", "HTTP response", "the", "C++ 3.11", "IT"])
def test_stems_are_found_where_words_are(query: str) -> None:
    text = "The user's names: getUserName, parse_http_response. 関于机器学习的研究 (C++, 3.11). IT named it."
    wanted = frozenset(salient(query)) | {"nam", "absent"}
    for lexical in (Lexical(), Lexical("German"), Lexical(stem=False)):
        assert found_stems(wanted, text, lexical) == {stem for _, _, stem in find_words(wanted, text, lexical)}


@given(st.text(alphabet="aAbBfF09 .,-_+#%@/:\n\u00e9\u2010", max_size=60))
@pytest.mark.parametrize("signed", [ABBREVIATION, ADDRESS, COMMIT, COMPOUND, NUMBER, SUFFIXED])
def test_words_found_by_their_sign_are_those_found_at_each_word(signed: Signed, text: str) -> None:
    if signed is COMMIT:  # at each word, its pattern also finds plain numbers and plain words
        wanted = [word for word in signed.whole.findall(text) if not word.isdigit() and not word.isalpha()]
    else:
        wanted = [found[0] for found in signed.whole.finditer(text)]

    assert [found[0] for found in signed.finditer(text)] == wanted
