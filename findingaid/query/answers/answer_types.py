"""Expected answer types: what a question asks for, such as a time or a person, and whether a sentence states one.

A sentence about the boiler without a date does not say when it was serviced, however alike it is to the question. The
rules are for English and German; a question that none fits, such as "how does it work", has no type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from findingaid.text.analyzer import Lexical
from findingaid.text.words import salient_words, stems

MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|(?-i:March|May)|apr(?:il)?|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?|januar|jänner|februar|märz|mai|juni|juli|oktober|dezember"
)
"""Names of months. "May" and "March" need a capital: a member may march."""

DAYS = (
    "(?:mon|tues|wednes|thurs|fri|satur|sun)days?|weekdays?|weekends?"
    "|(?:mon|diens|donners|frei|sams|sonn|werk)tags?|mittwochs?|wochenenden?|(?-i:Sonnabend)"
)
UNITS = (
    "seconds?|minutes?|hours?|days?|nights?|weeks?|months?|years?|decades?|centur(?:y|ies)"
    "|sekunden?|minuten?|stunden?|tage?n?|nächten?|wochen?|monate?n?|jahre?n?|jahrzehnten?|jahrhunderten?"
)
NUMBERS = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    "|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundreds?|thousands?|millions?|billions?|dozens?"
    "|one|once|twice|half|third|quarter|double|both|all|none|no|zero|several|few|many|couple"
    "|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|(?:drei|vier|fünf|sech|sieb|acht|neun)zehn"
    "|(?:ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun)und\\w+zig|zwanzig|dreißig|(?:vier|fünf|sech|sieb|acht|neun)zig"
    "|\\w*hundert|\\w*tausend|millionen?|milliarden?|einmal|zweimal|dreimal|halbe?[nrs]?|beide[nr]?|alle[nr]?|keine?[nrs]?"
    "|mehrere|wenige"
)


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)


DATE = re.compile(
    rf"\b\d{{4}}-\d\d(?:-\d\d)?\b|\b\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}\b"
    rf"|\b(?:\d{{1,2}}(?:st|nd|rd|th|\.)?\s)?(?:{MONTHS})\b(?:\s\d{{1,2}}(?:st|nd|rd|th)?\b)?(?:,?\s\d{{4}}\b)?"
    r"|\b(?:1\d|20)\d\ds?\b|\b\d{1,2}[:.]\d\d\b|\b\d{1,2}\s?(?:am|pm|o'clock|uhr)\b|\b(?:week|woche|kw) \d+"
    rf"|\b(?:{DAYS}|yesterday|centur(?:y|ies)|decades?|era|reign|bce?|ad|gestern|jahrhundert|jahrzehnt)\b",
    re.IGNORECASE,
)
"""Date or time of day."""

CONDITION = _words(
    f"when(?:ever)?|after|before|until|till|once|as soon as|during|while|if|unless|every|each|(?:{UNITS}) (?:ago|later)"
    "|daily|hourly|nightly|weekly|monthly|yearly|annually|always|never|immediately|at once"
    "|at the (?:end|start|beginning)|spring|summer|autumn|winter|christmas|easter|midnight|noon|today|tomorrow|tonight"
    "|mornings?|evenings?"
    "|wenn|sobald|solange|nachdem|bevor|während|bis|nach|vor|jede[nmrs]?|täglich|wöchentlich|monatlich|jährlich|immer|nie"
    "|sofort|(?:zu|am) (?:beginn|anfang|ende)|frühling|frühjahr|sommers?|herbst|weihnachten|ostern|mitternacht|heute"
    "|morgens?|mittags?|abends?|nachts"
)
"""Words that say when something happens, without a date. They do not say when something happened."""

QUANTITY = re.compile(rf"\d|\b(?:{NUMBERS})\b", re.IGNORECASE)
FREQUENCY = re.compile(
    rf"\d|{CONDITION.pattern}|\b(?:often|rarely|seldom|once|twice|oft|selten|alle|einmal|\w+mal)\b", re.IGNORECASE
)
COUNT = re.compile(rf"\d|\b(?:{NUMBERS}|an?|eine?[nmrs]?)\b", re.IGNORECASE)
UNIT = _words(UNITS)
SHORT_UNIT = re.compile(r"\d\s?(?:h|hrs?|mins?|secs?|std|sek)\b", re.IGNORECASE)
AGE = re.compile(
    rf"(?:\d|\b(?:{NUMBERS}|an?|eine?[nmrs]?)\b)[\s-]*(?:\w+\s)?(?:{UNITS})\b|\b(?:aged?|alter)\b.*\d|\b(?:1\d|20)\d\d\b",
    re.IGNORECASE,
)
"""Age, or the year from which it follows."""
END = re.compile(rf"\b(?:until|till|forever|ever|unbefristet|dauerhaft)\b|{DATE.pattern}", re.IGNORECASE)
REASON = _words(
    "because|since|so|as|due to|owing to|in order|to|for|reasons?|caus(?:es?|ed|ing)|therefore|thus|hence|otherwise"
    "|lest|le(?:d|ads?) to|result(?:s|ed|ing)?|why|allows?|means?|by"
    "|weil|da|denn|wegen|aufgrund|damit|deshalb|daher|darum|dadurch|durch|sonst|um|gr(?:und|ünde)|ursachen?"
)
CIRCUMSTANCE = _words("after|until|till|once|if|unless|as long as|nach(?:dem)?|bis|wenn|sobald|solange|obwohl|although")
"""Words that say under which circumstance something was so, which may be the reason."""

PLACE = _words(
    "in|at|on|under|behind|beside|near|from|to|into|inside|within|outside|between|above|below|over|along|across|through"
    "|next to|around|against|towards?|here|home"
    "|im|auf|bei|beim|zu|zum|zur|nach|aus|unter|über|hinter|vor|neben|zwischen|an de[mrn]|am(?= (?-i:[A-ZÄÖÜ]))"
    "|durch|hier|zuhause"
    "|(?:location|place|venue|address|room|site|shelf|rack|bin|berth|floor|building|warehouse)(?=:)"
    "|\\w*(?:ort|platz|raum|regal|fach|adresse|anschrift|treffpunkt|lager|stockwerk)(?=:)"
)
"""Words before a place, and labels of one, as in "Location: club house"."""

PEOPLE = _words(
    "[a-z]+(?:ers|ors|ists|ians)|owner|people|persons?|teams?|members?|parents?|family|administrator|group|company"
    "|council|government|president|king|queen|minister|committee|brothers?|sisters?|mother|father|sons?|daughters?"
    "|wife|husband|every(?:body|one)|nobody|any(?:body|one)|we|i|he|she|they|you|actor|actress|singer|author|band"
)
NAME = re.compile(rf"(?<![.!?:]\s)(?<!^)\b(?!(?i:{DATE.pattern}))[A-ZÀ-Þ][\w'’-]+|^[A-ZÀ-Þ][\w'’-]+(?=\s[A-ZÀ-Þ])|@\w+")  # noqa: RUF001
"""Capitalized words, apart from one at the beginning of the sentence that no other follows."""

OPENING = re.compile(r"^[A-ZÀ-Þ][\w'’-]+")  # noqa: RUF001
"""First word of a sentence, which may be a name."""

GERMAN_PEOPLE = _words(
    r"\w+innen|\w+erin|(?-i:[A-ZÄÖÜ]\w+(?:ist|leute|chef))|leute|personen?|mitglied(?:er)?|eltern|familie|firma|gruppe"
    "|verein|amt|kind(?:er)?|bruder|brüder|schwestern?|mutter|vater|söhne?|tochter|töchter|ehe(?:frau|mann)|niemand|jemand"
    "|alle|wir|ich|er|sie|du|ihr"
)
GERMAN_NAME = re.compile(
    r"\b(?:Herrn?|Frau|Dr\.|Prof\.|Fam\.|Familie|Firma|Fa\.)\s[A-ZÄÖÜ][\w-]+"
    r"|(?<![.!?:]\s)(?<!^)\b[A-ZÄÖÜ][\w'’-]+\s[A-ZÄÖÜ][\w'’-]+|@\w+"  # noqa: RUF001
)
"""Words that are a name in German, where nouns have capitals, too: two with capitals, or one after a title."""

PAST = _words("was|were|did|had|last")
GERMAN_PAST = _words("wurden?|war(?:en)?|hat|haben|hatten?|letzte[nmrs]?|zuletzt|seit")


def _states_time(past: re.Pattern[str]) -> Callable[[str, str], float]:
    def states(question: str, sentence: str) -> float:
        asked = question.casefold()
        if any(found[0].casefold() not in asked for found in DATE.finditer(sentence)):
            return 1.0
        return float(not past.search(question) and bool(CONDITION.search(sentence)))

    return states


COUNT_ASKED = re.compile(
    r"\b(?:how many|(?P<german>wie ?viele[nr]?)) (?:of the |der )?(?P<what>\w+(?: \w+)?)", re.IGNORECASE
)
"""Question for a number, with what is counted."""

NEAR = 5
"""Words from a number on among which is what it counts, as in "17 of the active members"."""

LINKS = frozenset({"is", "are", "was", "were", "=", "sind", "waren"})
"""Words between what is counted and its number. So does a word with a colon: "members: 17"."""


def _states_quantity(question: str, sentence: str) -> float:
    words = DATE.sub("", sentence).casefold().split()
    known = set(question.casefold().split())
    numbers = [at for at, word in enumerate(words) if word not in known and QUANTITY.search(word)]
    if not numbers or not (asked := COUNT_ASKED.search(question)):
        return float(bool(numbers))
    lexical = Lexical(language="German") if asked["german"] else Lexical()
    near = [" ".join(words[at : at + NEAR]) for at in numbers]
    near += [
        " ".join(words[max(0, at - 2) : at]) for at in numbers if words[at - 1].endswith(":") or words[at - 1] in LINKS
    ]
    return 1.0 if stems(near, lexical) & stems(salient_words(asked["what"], lexical), lexical) else 0.5


def _states_duration(_: str, sentence: str) -> float:
    count = COUNT.search(sentence)
    counted = count and UNIT.search(sentence, count.end())
    return float(bool(counted or SHORT_UNIT.search(sentence) or END.search(sentence)))


def _states_person(question: str, sentence: str) -> float:
    known = stems([question])
    if any(not stems([name]) <= known for name in NAME.findall(sentence)):
        return 1.0
    may_name = [*PEOPLE.findall(sentence), *salient_words(" ".join(OPENING.findall(sentence)), Lexical())]
    return 0.5 if any(not stems([word]) <= known for word in may_name) else 0.0


def _states_german_person(question: str, sentence: str) -> float:
    known = stems([question])
    for pattern, share in ((GERMAN_NAME, 1.0), (GERMAN_PEOPLE, 0.5)):
        if any(not stems([found]) <= known for found in pattern.findall(sentence)):
            return share
    return 0.0


def _states_reason(_: str, sentence: str) -> float:
    return 1.0 if REASON.search(sentence) else 0.5 * bool(CIRCUMSTANCE.search(sentence))


def _has(pattern: re.Pattern[str]) -> Callable[[str, str], float]:
    return lambda question, sentence: float(bool(pattern.search(sentence)))


class AnswerType(NamedTuple):
    """What some questions ask for: the words for it, how they begin, and how far a sentence states it, from 0 to 1."""

    words: str
    asked: re.Pattern[str]
    stated: Callable[[str, str], float]


MEASURES = (
    "price|costs?|amount|number|size|percentage|share|rate|age|height|length|depth|width|weight|distance|temperature"
    "|population|salary|fee|speed|pressure|total|limit"
)
DEGREES = "many|much|far|old|big|large|small|tall|high|low|deep|wide|thick|heavy|hot|warm|cold|fast"
GERMAN_DEGREES = "viele?n?|weit|alt|groß|klein|hoch|tief|breit|dick|lang|schwer|heiß|warm|kalt|schnell|teuer|stark"
PLACES = "city|town|country|address|room|street|village"

TYPES = (
    AnswerType(
        "a time",
        _words("when|(?:what|which) (?:year|date|day|month|time|century|season|week)|how long ago"),
        _states_time(PAST),
    ),
    AnswerType(
        "a time",
        _words("wann|(?:welche[smnr]?) (?:jahr|datum|tag|monat|uhrzeit|woche)|wie spät|wie lange ist .{2,60} her"),
        _states_time(GERMAN_PAST),
    ),
    AnswerType("a frequency", _words("how (?:often|frequently)|wie (?:oft|häufig)"), _has(FREQUENCY)),
    AnswerType("a duration", _words("how long|wie lange"), _states_duration),
    AnswerType("an age", _words("how old|wie alt"), _has(AGE)),
    AnswerType(
        "a quantity",
        _words(
            rf"how (?:{DEGREES})|what (?:(?:is|was|are|were) )?(?:the )?(?:\w+ )?(?:{MEASURES})"
            "|what (?:do|does|did) .{2,60} cost"
            rf"|wie (?:{GERMAN_DEGREES})|wieviele?|was (?:hat|haben|hatte) .{{2,60}} gekostet|was kostet(?:en?)?"
        ),
        _states_quantity,
    ),
    AnswerType(
        "a person",
        re.compile(r"^(?:(?:and|so|but|by|to|from|with|for|of) )?(?:who|whose|whom)\b", re.IGNORECASE),
        _states_person,
    ),
    AnswerType(
        "a person",
        re.compile(r"^(?:(?:und|aber|von|mit|für|bei|an|zu) )?(?:wer|wem|wen|wessen)\b", re.IGNORECASE),
        _states_german_person,
    ),
    AnswerType(
        "a place",
        re.compile(
            rf"^(?:from |to )?where\b|^(?:in |at |from )?(?:what|which) (?:{PLACES})\b"
            r"|^(?:von |bis )?(?:wo|woher|wohin)\b"
            r"|^(?:in |an |aus )?welche[mnrs]? (?:stadt|ort|land|straße|raum|zimmer)\b",
            re.IGNORECASE,
        ),
        _has(PLACE),
    ),
    AnswerType(
        "a reason",
        re.compile(
            r"^why\b|^(?:for )?(?:what|which) (?:(?:is|was|are|were) the )?reasons?\b"
            r"|^(?:warum|wieso|weshalb|wodurch)\b|^aus welche[mn] gr(?:und|ünden)\b",
            re.IGNORECASE,
        ),
        _states_reason,
    ),
)


PARAGRAPH_NUMBER = re.compile(r"^\(?\d{1,3}[.)]\s+")
"""Number of a paragraph or an item at the beginning of a sentence."""


def asked_type(question: str) -> AnswerType | None:
    """Return the expected answer type of a question, None if it has none. The first that fits counts."""
    return next((kind for kind in TYPES if kind.asked.search(question.strip())), None)


def stated(question: str, sentence: str) -> float:
    """Return how far a sentence states what a question asks for, from 0 to 1; 1 for a question without a type."""
    kind = asked_type(question)
    return kind.stated(question, PARAGRAPH_NUMBER.sub("", sentence)) if kind else 1.0
