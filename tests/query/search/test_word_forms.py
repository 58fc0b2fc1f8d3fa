"""Words are found as people type them: in each form of Unicode, without accents and separators, and verbatim."""

# ruff: noqa: RUF001  # letters of other scripts are the subject

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from findingaid import Corpus, FindingAid
from findingaid.embedding.hashing import HashEmbedder
from findingaid.store import Store
from findingaid.strategies.whole_text import WholeText
from findingaid.testing import MemorySource
from findingaid.text.analyzer import Language, Lexical

NFC, NFD = "NFC", "NFD"
COMMIT, DIGEST = "3f786850e387550fdab836ed7e6dc881de23001b", "ab" * 64
COMPOUND = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerk"


def decomposed(text: str) -> str:
    return unicodedata.normalize(NFD, text)


TEXTS = {
    "nfd": decomposed("The Ångström café opens at noon."),
    "nfc": "Façade paint for the pier.",
    "shy": "The quay\u00admaster signs the man\u00adi\u00adfest.",
    "joiner": "Our base\u200bline is data\u2060base\ufeffd.",
    "ligature": "The eﬃcient ﬂoat of the oﬃce.",
    "wide": "Ｆｅｒｒｙ １２３ leaves.",
    "turkish": "İzmir is a port.",
    "accents": "Two protégés wrote résumés.",
    "polish": "The Łódź line carries øre.",
    "greek": "Η θάλασσα είναι ήρεμη. Ο δρόμος.",
    "russian": "Пришёл самолёт с моло́ком и май.",
    "arabic": "كَتَبَ مُحَمَّدٌ إلى أحمد",
    "hebrew": "שָׁלוֹם לָעוֹלָם",
    "katakana": "ﾌｪﾘｰのﾀﾞｲﾔ",
    "korean": decomposed("부산 항구"),
    "persian": "کشتی در ۱۴۰۲",
    "formula": "Water is H₂O, an area 7 km².",
    "footnote": "The lighthouse¹ burned.",
    "commit": f"Commit {COMMIT} broke the crane.",
    "digest": f"sha512:{DIGEST}",
    "compound": f"Das {COMPOUND} ruht.",
    "amount": "It cost 2,340,500 crowns.",
    "plain amount": "It cost 7654321 crowns.",
    "isbn": "ISBN 978-0-306-40615-7",
    "phone": "Ring (0221) 4567-89 at night.",
    "hyphen": "The on-line time-table.",
    "joined": "A webpage of the shipowner.",
    "part": "Valve QX-77-Z fits.",
    "initials": "Built in the U.S.S.R. then.",
    "band": "Tonight: The Who at the pier.",
    "band reversed": "Who is the pilot, and who the mate?",
    "department": "Ask IT about screens.",
    "pronoun": "It rains, it pours, and it is what it is.",
    "colour": "The \x1b[32mflood\x1b[0mgate, B\bBO\bOL\bLD.",
    "umlaut": "Frau Bürgers Füße.",
    "spelled out": "Herr Schoenbaecker.",
    "danish": "Bryggen i Ålborg.",
    "standard": "By RFC 4180, and SHA256 of it.",
    "names": "Call fetchBerthPlan or fetch_tide_table.",
}

FOUND = [
    ("Ångström", "nfd"),
    (decomposed("café"), "nfd"),
    (decomposed("façade"), "nfc"),
    ("facade", "nfc"),
    ("quaymaster", "shy"),
    ("mani\u00adfest", "shy"),
    ("baseline", "joiner"),
    ("databased", "joiner"),
    ("efficient office", "ligature"),
    ("ﬂoat", "ligature"),
    ("ferry 123", "wide"),
    ("izmir", "turkish"),
    ("İZMİR", "turkish"),
    ("resume", "accents"),
    ("protege", "accents"),
    ("résumé", "accents"),
    ("lodz", "polish"),
    ("ΘΑΛΑΣΣΑ", "greek"),
    ("θαλασσα", "greek"),
    ("ΔΡΟΜΟΣ", "greek"),
    ("пришел", "russian"),
    ("самолет", "russian"),
    ("молоком", "russian"),
    ("محمد", "arabic"),
    ("احمد", "arabic"),
    ("שלום", "hebrew"),
    ("フェリー", "katakana"),
    ("ダイヤ", "katakana"),
    ("부산", "korean"),
    ("كشتي 1402", "persian"),
    ("H2O", "formula"),
    ("km2", "formula"),
    ("km", "formula"),
    ("lighthouse", "footnote"),
    (COMMIT, "commit"),
    (DIGEST, "digest"),
    (COMPOUND, "compound"),
    ("2340500", "amount"),
    ("2 340 500", "amount"),
    ("2.340.500", "amount"),
    ("7,654,321", "plain amount"),
    ("7\u202f654\u202f321", "plain amount"),
    ("9780306406157", "isbn"),
    ("978 0 306 40615 7", "isbn"),
    ("0221 456789", "phone"),
    ("0221/45 67 89", "phone"),
    ("online timetable", "hyphen"),
    ("web-page", "joined"),
    ("ship-owner", "joined"),
    ("qx77z", "part"),
    ("QX 77 Z", "part"),
    ("USSR", "initials"),
    ("buerger", "umlaut"),
    ("fuesse", "umlaut"),
    ("Schönbäcker", "spelled out"),
    ("aalborg", "danish"),
    ("RFC4180", "standard"),
    ("SHA 256", "standard"),
    (COMMIT[:7], "commit"),
    (COMMIT[:12], "commit"),
    ("The Who", "band"),
    ("the who", "band"),
    ("who the", "band reversed"),
    ("IT", "department"),
    ("it is what it is", "pronoun"),
    ("floodgate bold", "colour"),
    ("fetch berth plan", "names"),
    ("fetchTideTable", "names"),
]


def aid_of(path: Path, texts: dict[str, str], language: Language = "English") -> FindingAid:
    corpora = {"words": Corpus("words", MemorySource(dict(texts)), WholeText())}
    aid = FindingAid(Store(str(path), lexical=Lexical(language)), HashEmbedder(), corpora)
    aid.index()
    return aid


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    return aid_of(tmp_path_factory.mktemp("forms") / "index", TEXTS)


@pytest.mark.parametrize(("query", "wanted"), FOUND)
def test_a_word_is_found_in_each_of_its_forms(harbour: FindingAid, query: str, wanted: str) -> None:
    hits = harbour.search(query, 1, mode="lexical")

    assert [hit.artifact_id for hit in hits] == [wanted]
    assert hits[0].text == TEXTS[wanted]


@pytest.mark.parametrize(("query", "other"), [("маи", "russian"), ("lighthouse1crane", "footnote"), ("3 4", "amount")])
def test_another_word_is_not_taken_for_it(harbour: FindingAid, query: str, other: str) -> None:
    assert other not in {hit.artifact_id for hit in harbour.search(query, mode="lexical")}


ORDERS = {
    "version": ["4.1.14", "4.14.1", "14.4.1", "1.4.14", "14.1.4"],
    "borders": ["1.1.11", "1.11.1", "11.1.1"],
    "network": ["192.168.4.20", "192.168.20.4", "20.4.192.168"],
    "mail": ["mary.lee@quay.example", "lee.mary@quay.example", "mary@lee.quay.example", "mary.lee.quay@example"],
    "part": ["AB-900-C", "C-900-AB", "900-AB-C"],
    "path": ["src/main/app.py", "main/src/app.py", "src/app.main.py"],
    "date": ["2024-03-12", "2024-12-03", "12-03-2024"],
    "words": ["pilot boat crew", "crew boat pilot", "boat pilot crew"],
    "function": ["read_write_lock", "write_read_lock", "lock_read_write"],
}
LONG = "It is kept for the record, with much else beside it that nobody asks for any more. " * 3


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    """An aid for texts of very different length, the first of each kind the longest unless only signs differ."""
    texts = {
        f"{kind} {value}": f"Entry {value} of the log. {'' if number or kind == 'mail' else LONG}"
        for kind, values in ORDERS.items()
        for number, value in enumerate(values)
    }
    return aid_of(tmp_path_factory.mktemp("orders") / "index", texts)


@pytest.mark.parametrize("kind", ORDERS)
def test_what_is_asked_for_verbatim_comes_before_the_same_parts_in_another_order(
    ordered: FindingAid, kind: str
) -> None:
    first = {value: ordered.search(value, 1, mode="lexical")[0].artifact_id for value in ORDERS[kind]}
    assert first == {value: f"{kind} {value}" for value in ORDERS[kind]}


SIGNED = [["C++", "C#", "C"], [".NET", "net"], ["__main__", "main"], ["30%", "30"], ["#1201", "1201"]]


@pytest.mark.parametrize("values", SIGNED, ids=lambda values: str(values[0]))
def test_the_signs_of_a_name_count(tmp_path: Path, values: list[str]) -> None:
    texts = {value: f"On {value} we have {'' if value == values[-1] else LONG}" for value in values}
    aid = aid_of(tmp_path / "index", texts)

    first = {value: aid.search(f"what about {value}?", 1, mode="lexical")[0].artifact_id for value in values}

    assert first == {value: value for value in values}


def test_a_long_number_comes_before_others_with_some_of_its_groups(tmp_path: Path) -> None:
    texts = {"whole": "It is 9780306406157, as printed.", "others": "The 978-0-306-40616-4, and 978-0-15-306-7."}

    first = aid_of(tmp_path / "index", texts).search("ISBN 978-0-306-40615-7", 1, mode="lexical")[0]

    assert first.artifact_id == "whole"


def test_an_identifier_within_a_question_comes_first(ordered: FindingAid) -> None:
    for value in ORDERS["version"]:
        assert ordered.search(f"what was in {value} of it?", 1, mode="lexical")[0].artifact_id == f"version {value}"


SPANISH = {"singular": "La información es gratis.", "plural": "Las informaciones llegan.", "other": "El puerto."}


@pytest.mark.parametrize("query", ["información", "informaciones"])
def test_stems_of_a_language_with_accents_are_kept(tmp_path: Path, query: str) -> None:
    aid = aid_of(tmp_path / "index", SPANISH, "Spanish")

    assert {hit.artifact_id for hit in aid.search(query, mode="lexical")} == {"singular", "plural"}
    assert {hit.artifact_id for hit in aid.search("informacion", mode="lexical")} >= {"singular"}
