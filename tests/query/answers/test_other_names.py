"""What a question names: a sentence about another version, month or the like does not answer it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from findingaid.query.answers.other_names import names_another, unnamed_numbers


@pytest.mark.parametrize(
    ("question", "same", "other"),
    [
        ("When is version 2 switched off?", "Version 2.1 was switched off in June.", "Version 1 was switched off."),
        ("Who wrote ADR 9?", "ADR 9 and ADR 4 are by Wei.", "ADR 4 is by Wei."),
        ("Who has room 4B?", "Rooms 4B and 5 are Ann's.", "Room 4A is Ann's."),
        ("How many people work on phase 2?", "Phases 1 to 3 have nine people.", "Phases 3 to 5 have nine people."),
        ("May pump A-17 run dry?", "Pump A17 may.", "Pump B-2 may run dry."),
        ("What does version 2 do?", "Version v2 writes files.", "Version v1 writes files."),
        ("Was kostet Zimmer 12?", "Zimmer 12 kostet 40 Euro.", "Zimmer 14 kostet 40 Euro."),
        ("What was the revenue in May?", "Month: May; revenue: 3", "Month: June; revenue: 3"),
        ("What was the revenue in July?", "2026-07-01; 3", "2026-05-01; 3"),
        ("Was hat das Dach im Juli gekostet?", "Am 1.7.2026 kam die Rechnung.", "Im August kam die Rechnung."),
        ("Who is on call on Monday?", "On Mondays it is Ann.", "Tuesday: Ann"),
        ("Who was king in 2010?", "From 2008 to 2012 it was Bo.", "It was Bo in 2014."),
        ("Who chairs on 27 October?", "On 2026-10-27 it is Bo.", "On 13 October it is Bo."),
        ("Who chairs on October 27th?", "On the 27th of October it is Bo.", "On 13.10.2026 it is Bo."),
        ("May M10 bolts be greased?", "Grease bolts M6 to M12.", "Never grease the M12 bolts, 10 in all."),
        ("How large is the M10 bolt?", "bolt: M10; size: 4", "bolt: M16; size: 4"),
        ("Does pump A-17 leak?", "Pumps A-1 to A-20 leak.", "Pumps A-1 to A-9 leak."),
        ("What was paid in Q1?", "quarter: Q1; paid: 3", "quarter: Q2; paid: 3"),
        ("When was crane 3 inspected?", "crane: 3; inspected: May", "crane: 2; load: 3.2 t; inspected: 3 May"),
        ("What did we pay in March?", "We paid on 3 Mar and on 4 Apr.", "We paid 4 euros on 4 Apr."),
    ],
)
def test_a_sentence_that_names_another_number_or_time_is_about_that(question: str, same: str, other: str) -> None:
    assert not names_another(question, same, "")
    assert names_another(question, other, "")
    assert not names_another(question, "It was Bo.", "")


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("When did it open after the May inspection?", "It opened on 3 June."),
        ("May members pay in cash?", "From June on members may pay in cash."),
        ("How long was it closed in 2020?", "From 2021 on it was open."),
        ("In which year was the roof of 1968 laid anew?", "It was laid anew in 2011."),
        ("What did Jan pay in May?", "Jan paid 20 euros."),
        ("What may march in 12 rooms?", "A band may march in 4 rooms."),
        ("Who is the teacher?", "In 2014 it was Bo, in room 4 on Monday."),
        ("What does version 2.1 do?", "Version 2 writes files."),
        ("What changed between version 1 and version 2?", "Version 2 writes files."),
        ("What do versions 1 and 2 write?", "Version 2 writes files."),
        ("Was kosten Zimmer 4, 5 oder 6?", "Zimmer 6 kostet 40 Euro."),
        ("How did the rent change since 2023?", "In 2024 it rose by 5 %."),
        ("Who was king between 2008 and 2012?", "In 2010 it was Bo."),
        ("Was gilt ab Juli?", "Im August sind es neun Euro."),
        ("Which rooms other than room 12 are cold?", "Room 14 is cold."),
        ("Welche Schrauben außer M8 sind gefettet?", "Die M10 sind gefettet."),
        ("What is in part 7?", f"Parts 1 to {'9' * 30} are here."),
    ],
)
def test_other_numbers_and_times_of_a_sentence_do_not_matter(question: str, sentence: str) -> None:
    assert not names_another(question, sentence, "")


def test_the_names_and_headings_of_a_text_may_name_the_same() -> None:
    assert not names_another("What was decided in October?", "Boats stay ashore from November on.", "6 October 2026")
    assert not names_another("What does version 2 write?", "It writes what version 1 wrote.", "Version 2")


def test_a_sentence_without_a_number_is_about_the_one_in_the_names_and_headings_of_its_text() -> None:
    assert names_another("May pump A-17 run dry?", "It may run dry for 5 minutes.", "Pumps\npumps/17.md\nPump B-2")
    assert not names_another("May pump A-17 run dry?", "It may run dry for 5 minutes.", "Pump B-2\nPump A-17")
    assert not names_another("May pump A-17 run dry?", "It may run dry for 5 minutes.", "Pump\nB-2.md")
    assert names_another("When was version 2 switched off?", "It was switched off in June.", "Version 1")


def test_a_sentence_without_a_number_is_about_the_one_before_it_in_its_paragraph() -> None:
    assert names_another("Who has the key of room 12?", "Key with Bo.", "Rooms", "Room 112: archive.")
    assert not names_another("Who has the key of room 12?", "Key with Bo.", "Rooms", "Room 112 is dry, room 12 not.")
    assert not names_another("Who has the key of room 12?", "Key with Bo.", "Room 12", "Room 112: archive.")
    assert names_another("What does class 3b pay?", "The trip of class 6a costs 5.", "", "Class 3b swims.")


def test_a_number_that_a_text_has_in_a_date_only_is_not_named() -> None:
    assert unnamed_numbers("When was crane 3 inspected?", "The crane was inspected on 3 May 2025.") == {"3"}
    assert not unnamed_numbers("When was crane 3 inspected?", "Of the cranes, 3 was inspected.")
    assert not unnamed_numbers("When was the crane inspected in 2025?", "The crane was inspected.")
    assert unnamed_numbers("Does pump A-17 leak?", "Pump A-18 leaks.") == {"a", "17"}


@given(st.text("\u0130I\u0131\u017f aprilAPRILfridayFRIDAYseptmkmontg0123./-", max_size=40))
def test_what_names_the_same_is_never_about_another_whatever_is_beside_it(text: str) -> None:
    named = "on Friday, 3 April 2024, for room 4"
    assert not names_another(f"What did we pay {named}?", f"{text} {named}", "")


@pytest.mark.parametrize("name", ["apr\u0131l", "APR\u0130L", "fr\u0131day", "FR\u0130DAY"])
def test_a_month_or_day_may_be_written_with_letters_of_turkish(name: str) -> None:
    assert names_another("What did we pay in May on Monday?", name, "")


def test_a_number_of_any_length_is_compared() -> None:
    assert not names_another("What is in part 7?", f"Part {'9' * 5000} to {'9' * 5000}.", "")
