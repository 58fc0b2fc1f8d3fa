"""Months, years, weekdays and numbers that texts name, and whether a sentence names others than a question.

"Version 1 was switched off" says nothing about version 2, M12 nothing about M10, and the row of June nothing about May,
however alike they are to the question. The names are English and German.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from findingaid.query.answers.answer_types import DATE, asked_type
from findingaid.text.analyzer import ENGLISH
from findingaid.text.words import DATE_IN_DIGITS, MONTHS

WEEKDAYS = (
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
)


def _numbers_of(lists: tuple[str, ...]) -> dict[str, int]:
    return {name.casefold(): number for names in lists for number, name in enumerate(names.split(), 1)}


NUMBER_OF_MONTH = _numbers_of((*MONTHS.values(), "Jänner"))
NUMBER_OF_SHORT = {name[:3]: number for name, number in NUMBER_OF_MONTH.items()} | {"sept": 9}
NUMBER_OF_WEEKDAY = _numbers_of(WEEKDAYS)

CAPITALIZED = {"may", "march", "mar"}
"""Names of months that count with a capital only: a member may march."""

MONTH = re.compile(
    rf"\b(?:(?i:{'|'.join(sorted(NUMBER_OF_MONTH.keys() - CAPITALIZED))})|(?!\AMay [^\W\d])May|March)\b"
    rf"|\b(?:(?<=\d )|(?<=\d\. ))(?i:{'|'.join(sorted(NUMBER_OF_SHORT.keys() - CAPITALIZED))}|Mar|May)\b"
    rf"|\b(?i:{'|'.join(sorted(NUMBER_OF_SHORT.keys() - CAPITALIZED))}|Mar)\b(?=\.? \d)"
)
"""Name of a month; a short one only beside a day or a year, since Jan is a name, too.

A "May" that begins a text is a verb, as in "May members pay in cash?", unless a number or a sign follows.
"""

WEEKDAY = re.compile(rf"\b({'|'.join(NUMBER_OF_WEEKDAY)})s?\b", re.IGNORECASE)
BEFORE_MONTH = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th|\.)? (?:of )?\Z")
BEHIND_MONTH = re.compile(r" (\d{1,2})(?:st|nd|rd|th)?\b(?!:)")
DAY_IN_DIGITS = re.compile(
    r"\b\d{4}-(?P<month>0[1-9]|1[0-2])-(?P<day>\d\d)\b|\b(?P<dotted>\d{1,2})\.(?P<of>0?[1-9]|1[0-2])\.(?=\d{4}\b)"
)
MONTH_APART = 100
"""Difference of the same day in two months, which have fewer days."""

TURKISH_I = str.maketrans("\u0130\u0131", "ii")

YEAR = re.compile(r"\b(?:19|20)\d\d\b")

LETTERS = r"(?:\b[^\W\d_]{1,3}-?)?"
NUMBERED = re.compile(
    rf"\b(?P<word>[^\W\d_]{{2,}}?)s?:? #?(?P<numbers>{LETTERS}\d[\w.]{{0,30}}\b"
    rf"(?:(?: ?[-–,/] ?| (?:to|and|or|bis|und|oder) ){LETTERS}\d[\w.]{{0,30}}\b){{0,9}})"  # noqa: RUF001
)
"""Name with its numbers, such as version 2.1, room: 4B, pump A-17, phases 1 to 3, and versions 1 and 2."""

CODE = re.compile(
    r"\b(?P<numbers>(?P<word>[^\W\d_]{1,3})-?\d[\w.]{0,30}\b"
    r"(?:(?: ?[-–] ?| (?:to|bis) )(?P=word)-?\d[\w.]{0,30}\b)?)"  # noqa: RUF001
)
"""Code, such as M10, A-17 and M6 to M12: a number whose name are its letters."""

BEFORE_NUMBER = re.compile(r"-?(?=\d)")
NUMBER = re.compile(rf"{LETTERS}\d[\w.]*\b")
RANGE = re.compile(r"(\d{1,30})(?: ?[-–] ?| (?:to|bis) )(?:[^\W\d_]{1,3}-?)?(\d{1,30})\b")  # noqa: RUF001

NO_NAMES = frozenset(ENGLISH.split()) | NUMBER_OF_MONTH.keys() | NUMBER_OF_SHORT.keys()
"""Words that have no number of their own."""


def _months(text: str) -> Iterator[int]:
    yield from (_number(found) for found in MONTH.finditer(text))
    for date in DATE_IN_DIGITS.finditer(text):
        yield int(date["month"] or date["dotted"])


def _number(month: re.Match[str]) -> int:
    name = _plain(month[0])
    return NUMBER_OF_MONTH.get(name) or NUMBER_OF_SHORT[name]


def _plain(name: str) -> str:
    """Return a name in lower case. Patterns that ignore case take the two letters of Turkish for an i, too."""
    return name.translate(TURKISH_I).casefold()


def _days_of_months(text: str) -> Iterator[int]:
    """Yield the days of months, in the order of the year."""
    for month in MONTH.finditer(text):
        if day := BEFORE_MONTH.search(text, 0, month.start()) or BEHIND_MONTH.match(text, month.end()):
            yield MONTH_APART * _number(month) + int(day[1])
    for found in DAY_IN_DIGITS.finditer(text):
        day_of, month_of = (found["day"], found["month"]) if found["day"] else (found["dotted"], found["of"])
        yield MONTH_APART * int(month_of) + int(day_of)


def named_day(name: str) -> str:
    """Return the day that a title or the name of a file tells, in ISO 8601 format; "" unless it tells exactly one."""
    told = name.replace("_", " ")
    days, years = {*_days_of_months(told)}, {*_years(told)}
    if len(days) != 1 or len(years) != 1:
        return ""
    month, day = divmod(days.pop(), MONTH_APART)
    return f"{years.pop()}-{month:02}-{day:02}"


def _weekdays(text: str) -> Iterator[int]:
    return (NUMBER_OF_WEEKDAY[_plain(found[1])] for found in WEEKDAY.finditer(text))


def _years(text: str) -> Iterator[int]:
    return (int(found[0]) for found in YEAR.finditer(text))


TIMES: tuple[Callable[[str], Iterator[int]], ...] = (_months, _days_of_months, _weekdays, _years)

TEMPORAL = frozenset({"a time", "a frequency", "a duration", "an age"})
"""Answer types that name a time of their own."""


QUESTIONS_KEPT = 64
"""Questions whose names are kept while their sentences are compared."""

BESIDES = re.compile(
    r"\b(?:others?|another|besides?|except|instead|unlike|apart|außer|ander(?:e[mnrs]?|s)|anstatt|statt|neben)\b",
    re.IGNORECASE,
)
"""Question that may ask about others than it names, as "which rooms other than room 12" does."""

OPEN = re.compile(r"\b(?:since|after|before|until|till|from|by|than|seit|nach|vor|bis|ab|als)\b", re.IGNORECASE)
"""Question that may ask about other times than it names, as "since 2023" does."""


class _Asked(NamedTuple):
    """Numbers that a question names, by the word before them, and its times, in the order of `TIMES`."""

    numbers: Mapping[str, Set[str]]
    times: Sequence[Set[int]]


def names_another(question: str, sentence: str, around: str, lead: str = "") -> bool:
    """Return whether a sentence is about another number or time than a question, by what it names.

    `around` are the names and headings of its text, a line each, which may name the same. `lead` is its paragraph
    before it. They may name another number if the sentence names none.
    """
    asked = _asked(question)
    return _names_another_number(asked.numbers, sentence, around, lead) or any(
        _is_another(times, {*of(sentence)}, {*of(around)})
        for times, of in zip(asked.times, TIMES, strict=False)
        if times
    )


def names_time(question: str) -> bool:
    """Return whether a question names a month, a day, a weekday or a year."""
    return any({*of(question)} for of in TIMES)


def names_any(question: str) -> bool:
    """Return whether a question names a number or a time, so that a sentence may name another."""
    asked = _asked(question)
    return bool(asked.numbers) or any(asked.times)


@lru_cache(QUESTIONS_KEPT)
def _asked(question: str) -> _Asked:
    if BESIDES.search(question):
        return _Asked({}, [])
    numbers = {word: {*NUMBER.findall(" ".join(each).casefold())} for word, each in _numbers(question).items()}
    kind = asked_type(question)
    is_open = (kind and kind.words in TEMPORAL) or OPEN.search(question)
    return _Asked(numbers, [] if is_open else [{*of(question)} for of in TIMES])


def _is_another(asked: Set[int], named: Set[int], around: Set[int]) -> bool:
    """Return whether other times are named than those asked for. "2008 to 2012" may be about 2010."""
    if not named or asked & (named | around):
        return False
    return not any(min(one) < min(other) and max(other) < max(one) for one, other in ((named, asked), (asked, named)))


def _names_another_number(asked: Mapping[str, Set[str]], sentence: str, around: str, lead: str) -> bool:
    if not asked:
        return False
    own, before, above = _numbers(sentence), _numbers(lead), _numbers(around)
    others = _other_numbers(f"{sentence}\n{around}")
    for word, numbers in asked.items():
        names = above.get(word, [])
        named = own.get(word) or before.get(word) or names
        if named and not _is_named(numbers, [*named, *names], others):
            return True
    return False


def unnamed_numbers(question: str, text: str) -> frozenset[str]:
    """Return the words of the numbers that a question names, and that a text has at most in dates."""
    asked = _asked(question).numbers
    if not asked:
        return frozenset()
    named, others = _numbers(text), _other_numbers(text)
    return frozenset(
        part
        for word, numbers in asked.items()
        for number in numbers
        if not YEAR.fullmatch(number) and not _is_named({number}, named.get(word, []), others)
        for part in number.split("-")
    )


def _numbers(text: str) -> Mapping[str, Sequence[str]]:
    """Map each word with numbers to them, and the letters of codes to the codes."""
    found: dict[str, list[str]] = {}
    named = (one for one in NUMBERED.finditer(text) if one["word"].casefold() not in NO_NAMES)
    for one in chain(named, CODE.finditer(text)):
        found.setdefault(one["word"].casefold(), []).append(one["numbers"])
    return found


def _other_numbers(text: str) -> frozenset[str]:
    """Return the numbers of a text that are no part of a date, whatever they count or name."""
    return frozenset(number.casefold() for number in NUMBER.findall(DATE.sub(" ", text)))


def _is_named(numbers: Set[str], named: Iterable[str], others: Set[str]) -> bool:
    """Return whether one of the numbers is named, lies in a range that is named, or is among the others."""
    return not numbers.isdisjoint(others) or any(
        _is_within(number, each) or any(_is_same(number, found) for found in NUMBER.findall(each))
        for number in numbers
        for each in named
    )


def _is_same(asked: str, found: str) -> bool:
    """Return whether two numbers may name the same: version 2 may be version 2.1 or v2, and pump A17 is A-17."""
    (letters, number), (others, other) = (BEFORE_NUMBER.split(each.casefold(), 1) for each in (asked, found))
    shorter, longer = sorted((number, other), key=len)
    return letters in {"", others} and (longer == shorter or longer.startswith(f"{shorter}."))


def _is_within(number: str, named: str) -> bool:
    """Return whether a number lies in one of the ranges that are named, as 2 in "1 to 3"."""
    digits = BEFORE_NUMBER.split(number, maxsplit=1)[-1]
    ranges = RANGE.findall(named) if digits.isdecimal() else ()
    return any(int(first) <= int(digits) <= int(last) for first, last in ranges)
