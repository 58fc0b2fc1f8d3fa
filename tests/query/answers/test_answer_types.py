"""Expected answer types: what a question asks for, and which sentences state it."""

from __future__ import annotations

import pytest

from findingaid.query.answers.answer_types import asked_type, stated


@pytest.mark.parametrize(
    ("question", "kind", "states", "lacks"),
    [
        ("When was the boiler serviced?", "a time", "It was serviced on 3 May 2024.", "The boiler is in the cellar."),
        ("When was the roof laid?", "a time", "Workers laid it in 2011.", "It was laid after the storm."),
        ("when do readers see a change", "a time", "They see it once the tag has moved.", "Readers follow a tag."),
        ("In which year did Bo move?", "a time", "Bo moved in 1998.", "Bo moved to Lund."),
        ("How often is the sieve cleaned?", "a frequency", "Clean it every month.", "The sieve is clean."),
        ("How long does a lease last?", "a duration", "It ends after ten minutes.", "A lease keeps two runs apart."),
        ("How many people work there?", "a quantity", "Some 40 people work there.", "It is in Stora Nygatan."),
        ("What did the roof cost?", "a quantity", "We paid 12,000 EUR.", "The roof was laid anew in 2011."),
        ("What is the price of a ticket?", "a quantity", "A ticket is nine euros.", "Tickets are sold in May."),
        ("Who repaired the gutters?", "a person", "Bengt Palm did.", "The gutters leak in March."),
        ("Who is Elsa's teacher?", "a person", "It is Marcus Wennberg.", "Elsa is in class 4B."),
        ("Where is the key?", "a place", "It hangs behind the box.", "The key is made of brass."),
        ("Why did Lind leave?", "a reason", "Lind left because of a new job.", "Lind has left."),
        ("How old is the house?", "an age", "It is 60 years old.", "It is a WCI 860."),
        ("How old is the roof?", "an age", "It was laid in 2011.", "It was laid anew."),
        ("Where is the meeting?", "a place", "Location: club house", "Each location has a key."),
        ("Wo treffen wir uns?", "a place", "Treffpunkt: Bootshaus", "Der Treffpunkt steht fest."),
        ("How long does the train take?", "a duration", "2 h 58 min, daily.", "The train costs 34 euros."),
        ("Where is Bo?", "a place", "Bo is at school.", "I am tired of Bo."),
        ("Wo steht das Rad?", "a place", "Es steht am Bahnhof.", "Es ist rot."),
        ("Wann beginnt der Kurs?", "a time", "Er beginnt am 12. Mai.", "Der Kurs ist im Hallenbad."),
        ("Wann wurde das Dach gedeckt?", "a time", "Das war im Juli 2011.", "Es wurde nach dem Sturm gedeckt."),
        ("Wie oft wird gereinigt?", "a frequency", "Alle drei Monate.", "Das Sieb ist sauber."),
        ("Wie lange gilt die Garantie?", "a duration", "Sie gilt sechs Monate.", "Die Garantie ist gut."),
        ("Wie alt ist die Maschine?", "an age", "Sie ist fünf Jahre alt.", "Es ist eine Miele WCI 860."),
        ("Wie viel kostet der Kurs?", "a quantity", "Er kostet 1.234,50 €.", "Der Kurs ist gut."),
        ("Was kostet die Reise?", "a quantity", "Sie kostet neun Euro.", "Die Reise ist schön."),
        ("Wer hat den Schlüssel?", "a person", "Er liegt bei Frau Ekdahl.", "Der Schlüssel hat eine Nummer."),
        ("Wer ist die Lehrerin?", "a person", "Das ist Maria Wendt.", "Der Schlüssel hat eine Nummer."),
        ("Wo hängt er?", "a place", "Er hängt hinter dem Kasten.", "Er ist rot."),
        ("Warum kein Fleisch?", "a reason", "Weil es Ratten anzieht.", "Fleisch ist verboten."),
    ],
)
def test_a_sentence_states_what_is_asked_for_or_does_not(question: str, kind: str, states: str, lacks: str) -> None:
    assert (asked_type(question) or [""])[0] == kind
    assert stated(question, states) == 1
    assert stated(question, lacks) == 0


def test_people_without_a_name_say_less_than_a_name() -> None:
    question = "Who laid the roof?"

    assert 0 < stated(question, "The owners laid it.") < stated(question, "The roofer was Bengt Palm.")
    assert 0 < stated(question, "Palm laid it.") < stated(question, "It was Palm.")


@pytest.mark.parametrize(
    "question", ["How does it work?", "What is a lease?", "Is the car insured?", "leases", "", "Wie?"]
)
def test_other_questions_have_no_type_and_any_sentence_will_do(question: str) -> None:
    assert asked_type(question) is None
    assert stated(question, "Anything.") == 1


def test_what_the_question_says_itself_is_no_answer() -> None:
    assert stated("When was the meeting of may?", "It was in May.") == 0
    assert stated("When was the nut bought?", "Children may not march.") == 0
    assert stated("What happened in 2011, and when was it?", "It was in 2011.") == 0
    assert stated("How many of the 12 rooms are free?", "There are 12 rooms.") == 0
    assert stated("Who told Anders Holm?", "It was told to Anders Holm.") == 0


@pytest.mark.parametrize(
    "sentence",
    ["There are 42 active members.", "members: 42", "The number of members is 42.", "Only forty are members."],
)
def test_a_number_of_something_else_says_less_than_one_of_what_is_counted(sentence: str) -> None:
    question = "How many members does the club have?"

    assert stated(question, sentence) == 1
    assert stated(question, "Every adult member works ten hours a year.") == 0.5
    assert stated("Wie viele Mitglieder hat der Verein?", "Er hat derzeit 42 Mitglieder.") == 1


def test_the_number_of_a_paragraph_is_no_quantity() -> None:
    assert stated("What is the fee?", "(1) The fee is set by the assembly.") == 0
    assert stated("What is the fee?", "(1) The fee is 20 euros.") == 1


@pytest.mark.parametrize(
    "sentence", ["It was given up after two attacks.", "It is postponed until the grant is confirmed."]
)
def test_a_circumstance_may_be_the_reason(sentence: str) -> None:
    assert stated("Why was it given up?", sentence) == 0.5
