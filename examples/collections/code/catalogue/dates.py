"""The dates that cataloguers write, as ranges of years that can be searched."""

import re

JULIAN_UNTIL = (1752, 9, 2)


def years(written: str) -> tuple[int, int]:
    """The first and last year that a date such as "ca. 1880s" or "[1911?]" may mean.

    A decade is ten years wide; "ca." widens a date by five years on both sides.
    """
    if not (found := re.search(r"(\d{4})(s?)", written)):
        raise ValueError(f"no year in {written!r}: write four digits")
    first = int(found[1])
    last = first + 9 if found[2] else first
    doubt = 5 if re.search(r"\bca\b|\bcirca\b|\?", written) else 0
    return first - doubt, last + doubt


def gregorian(year: int, month: int, day: int) -> tuple[int, int, int]:
    """A day of the old calendar in the new one, as England changed it in September 1752."""
    if (year, month, day) > JULIAN_UNTIL:
        return year, month, day
    return _from_day_number(_day_number(year, month, day))


def _day_number(year: int, month: int, day: int) -> int:
    """The Julian day number of a date in the Julian calendar."""
    shift = (14 - month) // 12
    return (
        day
        + (153 * (month + 12 * shift - 3) + 2) // 5
        + 365 * (year + 4800 - shift)
        + (year + 4800 - shift) // 4
        - 32083
    )


def _from_day_number(number: int) -> tuple[int, int, int]:
    """The Gregorian date of a Julian day number."""
    a = number + 32044
    b = (4 * a + 3) // 146097
    c = a - 146097 * b // 4
    d = (4 * c + 3) // 1461
    e = c - 1461 * d // 4
    m = (5 * e + 2) // 153
    return 100 * b + d - 4800 + m // 10, m + 3 - 12 * (m // 10), e - (153 * m + 2) // 5 + 1
