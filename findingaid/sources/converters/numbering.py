"""Numbers of lists as a reader sees them: the converters count each list from 1, and in digits alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"

PLACE = re.compile("%([1-9])")
"""Place of the number of a level in the text of a label of Word."""

BULLET = "bullet"

BOXES = frozenset("\u2610\u2611\u2612\u2713\u2714\u2717\u2718")
"""Bullets that say whether an item is done: boxes that are empty, checked or crossed, and such marks alone."""

GONE = ("del", "moveFrom")
"""Marks of paragraphs that a change removed, which do not count."""

ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl")),
    *((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
MOST = 3999
"""Largest number that is written in letters."""


def _roman(number: int) -> str:
    made = ""
    for value, sign in ROMAN:
        made += sign * (number // value)
        number %= value
    return made


def _letters(number: int) -> str:
    return chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)  # z is followed by aa, and that by bb


KINDS: Mapping[str, Callable[[int], str]] = {
    "lowerLetter": _letters,
    "upperLetter": lambda number: _letters(number).upper(),
    "lowerRoman": _roman,
    "upperRoman": lambda number: _roman(number).upper(),
    "decimalZero": lambda number: f"{number:02}",
    "none": lambda _: "",
}
"""How numbers are written, by Word's names. All others are written in digits."""


def as_label(number: int, kind: str) -> str:
    """Return a number as a list of this kind shows it."""
    return KINDS.get(kind, str)(number) if 0 < number <= MOST or kind in {"decimalZero", "none"} else str(number)


AUTOMATIC = re.compile("(arabic|alphaLc|alphaUc|romanLc|romanUc)(Period|ParenR|ParenBoth|Plain)")
OF_SLIDES = {"alphaLc": "lowerLetter", "alphaUc": "upperLetter", "romanLc": "lowerRoman", "romanUc": "upperRoman"}
FORMS = {"Period": "{}.", "ParenR": "{})", "ParenBoth": "({})", "Plain": "{}"}
"""Both parts of the names that PowerPoint gives its numbers: the kind by its name in `KINDS`, and the signs around."""


def slide_labels(paragraphs: Iterable[Any]) -> Iterator[tuple[Any, str]]:
    """Yield the paragraphs of a text of a slide with a number or box, each with its label. Empty ones have none."""
    counted: dict[int, tuple[tuple[str, int], int]] = {}
    for paragraph in paragraphs:
        properties = paragraph.find(f"{A}pPr")
        if next(paragraph.iter(f"{A}t"), None) is None:
            continue
        at = 0 if properties is None else integer(properties.get("lvl"), 0)
        counted = {level: last for level, last in counted.items() if level <= at}
        automatic, bullet = paragraph.find(f"{A}pPr/{A}buAutoNum"), paragraph.find(f"{A}pPr/{A}buChar")
        if automatic is None:
            counted.pop(at, None)
            if bullet is not None and bullet.get("char") in BOXES:
                yield paragraph, bullet.get("char")
            continue
        kind = automatic.get("type", ""), integer(automatic.get("startAt"), 1)
        before, number = counted.get(at, (None, 0))
        counted[at] = kind, number + 1 if before == kind else kind[1]
        found = AUTOMATIC.fullmatch(kind[0])
        name, form = found.groups() if found else ("arabic", "Period")
        yield paragraph, FORMS[form].format(as_label(counted[at][1], OF_SLIDES.get(name, "")))


@dataclass
class _Level:
    kind: str = "decimal"
    text: str = ""
    start: int = 1
    restarts: bool = True
    in_digits: bool = False

    @classmethod
    def of(cls, element: Any) -> _Level:
        return cls(
            _value(element, "numFmt") or "decimal",
            _value(element, "lvlText"),
            integer(_value(element, "start"), 1),
            _value(element, "lvlRestart") != "0",
            element.find(f"{W}isLgl") is not None,
        )


@dataclass
class Numbering:
    """Lists of a Word document: their levels by the id of the list, and the last number of each level."""

    levels: dict[str, dict[int, _Level]] = field(default_factory=dict)
    abstract: dict[str, str] = field(default_factory=dict)
    of_styles: dict[str, tuple[str, int]] = field(default_factory=dict)
    restarted: dict[tuple[str, int], int] = field(default_factory=dict)
    numbers: dict[str, dict[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, roots: Iterable[Any]) -> Numbering:
        """Read the lists and styles of a document from its parts."""
        made = cls()
        roots = list(roots)
        styles = {each.get(f"{W}styleId"): each for root in roots for each in root.iter(f"{W}style")}
        lists = {each.get(f"{W}abstractNumId"): each for root in roots for each in root.iter(f"{W}abstractNum")}
        by_style = {link: number for number, each in lists.items() if (link := _value(each, "styleLink"))}
        linked: dict[tuple[str, str], int] = {}
        for root in roots:
            for each in root.iter(f"{W}num"):
                made._add(each, lists, by_style, linked)
        for name, style in styles.items():
            if found := _of_style(style, styles):
                number, level = found
                made.of_styles[name] = number, linked.get((number, name), level)
        return made

    def _add(self, element: Any, lists: Mapping[str, Any], by_style: Mapping[str, str], linked: dict[Any, int]) -> None:
        """Add a list, whose levels may differ from those of the lists that count with it."""
        number, abstract = element.get(f"{W}numId"), _value(element, "abstractNumId")
        if abstract in lists:
            abstract = by_style.get(_value(lists[abstract], "numStyleLink"), abstract)
        found = [*(lists[abstract].iter(f"{W}lvl") if abstract in lists else ()), *element.iter(f"{W}lvl")]
        self.abstract[number] = abstract
        self.levels[number] = {}
        for each in found:
            at = integer(each.get(f"{W}ilvl"), 0)
            self.levels[number][at] = _Level.of(each)
            linked[number, _value(each, "pStyle")] = at
        for override in element.iter(f"{W}lvlOverride"):
            if start := _value(override, "startOverride"):
                self.restarted[number, integer(override.get(f"{W}ilvl"), 0)] = integer(start, 1)

    def label(self, paragraph: Any) -> str | None:
        """Return the label of a paragraph, and count it; None for one that is in no list, or has a mere bullet."""
        properties = paragraph.find(f"{W}pPr")
        if properties is None or any(properties.find(f"{W}rPr/{W}{change}") is not None for change in GONE):
            return None
        number, at = self.of_styles.get(_value(properties, "pStyle"), ("", 0))
        own = properties.find(f"{W}numPr")
        if own is not None:
            number, at = _value(own, "numId") or number, integer(_value(own, "ilvl"), at)
        levels = self.levels.get(number, {})
        if at not in levels:
            return None
        numbers = self.numbers.setdefault(self.abstract[number], {})
        restart = self.restarted.pop((number, at), None)
        level = levels[at]
        numbers[at] = restart if restart is not None else numbers[at] + 1 if at in numbers else level.start
        for deeper in [each for each in numbers if each > at and levels.get(each, level).restarts]:
            del numbers[deeper]
        if level.kind == BULLET:
            return level.text if level.text in BOXES else None

        def shown(found: re.Match[str]) -> str:
            above = int(found[1]) - 1
            kind = levels.get(above, _Level())
            value = numbers.get(above, kind.start)
            return as_label(value, "decimal" if level.in_digits else kind.kind)

        return PLACE.sub(shown, level.text).strip()


def _of_style(style: Any, styles: Mapping[Any, Any]) -> tuple[str, int] | None:
    """Return the list and level of a style, which it may have from the styles that it is based on."""
    seen: set[int] = set()
    level: int | None = None
    while style is not None and id(style) not in seen:
        seen.add(id(style))
        properties = style.find(f"{W}pPr/{W}numPr")
        if properties is not None:
            if level is None and (given := _value(properties, "ilvl")):
                level = integer(given, 0)
            if number := _value(properties, "numId"):
                return number, level or 0
        style = styles.get(_value(style, "basedOn"))
    return None


def _value(element: Any, name: str) -> str:
    found = element.find(f"{W}{name}")
    return "" if found is None else found.get(f"{W}val") or ""


def integer(text: str | None, default: int) -> int:
    """Return the number that an attribute has, or the default for one that is missing or no number."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else default
