"""Numbers that nobody can say as they stand: with an exponent, or of no clock or calendar.

Digits would have to be read as something else than they look like ("25:99" as a score?), so such requests are rejected
rather than spoken wrongly.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable

from bystander.schemas.engines import RowFault
from bystander.tasks.stages.spoken_numbers import DAY_PATTERN, MONTH_PATTERN, MONTH_WORDS, MONTHS

_ANY_YEAR = 2024
"""Stands for a year that is not said: it is a leap year, so that no day is refused that some year has."""

_DIGIT = re.compile(r"[0-9]")
_EXPONENT = re.compile(r"(?<![A-Za-z0-9.,])[0-9][0-9,]*(?:\.[0-9]+)?[eE][+-]?[0-9]+(?!\w)", re.ASCII)
_TIME = re.compile(r"(?<![\w.,:])([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?![0-9:])", re.ASCII)
_SLASHED_DATE = re.compile(r"(?<![\w.,/-])([0-9]{1,2})/([0-9]{1,2})/([0-9]{4}|[0-9]{2})(?![\w/-])", re.ASCII)
_ISO_DATE = re.compile(r"(?<![\w.,/-])([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?![\w-])", re.ASCII)
_MONTH_DAY = re.compile(
    rf"(?<![\w.,]){MONTH_PATTERN}\s?{DAY_PATTERN}\b(?![:.,/]?[0-9])(?:,?\s([0-9]{{4}})\b)?", re.ASCII | re.IGNORECASE
)
_DAY_MONTH = re.compile(
    rf"(?<![\w.,]){DAY_PATTERN}\s(?:of\s)?{MONTH_PATTERN}(?:,?\s([0-9]{{4}})\b)?", re.ASCII | re.IGNORECASE
)


def find_unspeakable_number(text: str) -> RowFault | None:
    """Return an `unspeakable_number` fault where ASCII text holds a number with an exponent, or an impossible time or
    date: an hour beyond 24, a minute or second beyond 59, a day that its month does not have.

    Dates are looked for in the forms 2/30/2024 (either order), 2024-02-30, February 30 and 30 February. A day beyond 31
    after a month is no date ("march 50 steps").
    """
    if not _DIGIT.search(text):
        return None
    found = _EXPONENT.search(text)
    if found:
        return RowFault("unspeakable_number", f"holds {found[0][:40]!r}, a number with an exponent")
    for pattern, is_possible, what in _CHECKS:
        for found in pattern.finditer(text):
            if not is_possible(found):
                return RowFault("unspeakable_number", f"holds {found[0].strip()!r}, {what}")
    return None


def _is_time(match: re.Match[str]) -> bool:
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if match[3]:  # perhaps a duration, of any number of hours
        return minute < 60 and second < 60
    return minute < 60 and (hour < 24 or (hour == 24 and not minute))


def _is_slashed_date(match: re.Match[str]) -> bool:
    first, second = int(match[1]), int(match[2])
    year = int(match[3]) + (2000 if len(match[3]) == 2 else 0)
    return _is_date(year, first, second) or _is_date(year, second, first)


def _is_month_day(match: re.Match[str]) -> bool:
    return _is_named_date(match[1], int(match[2]), match[3])


def _is_day_month(match: re.Match[str]) -> bool:
    return _is_named_date(match[2], int(match[1]), match[3])


def _is_named_date(name: str, day: int, year: str | None) -> bool:
    month = MONTHS.index(MONTH_WORDS[name.casefold()]) + 1
    return not 1 <= day <= 31 or _is_date(int(year) if year else _ANY_YEAR, month, day)


def _is_date(year: int, month: int, day: int) -> bool:
    return year >= 1 and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]


_CHECKS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], bool], str], ...] = (
    (_TIME, _is_time, "which is no time"),
    (_SLASHED_DATE, _is_slashed_date, "which is no date"),
    (_ISO_DATE, lambda match: _is_date(int(match[1]), int(match[2]), int(match[3])), "which is no date"),
    (_MONTH_DAY, _is_month_day, "which is no date"),
    (_DAY_MONTH, _is_day_month, "which is no date"),
)
