"""Numbers, times, dates, money and measures written as an English speaker says them.

Words follow what Whisper's English normaliser turns back into the same digits ("twenty twenty five" is 2025, "nineteen
oh five" is 1905, "twenty dollars" is $20). Text comes in as ASCII letters and digits with the symbols `$ € £ ¥ ₹ % °`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from num2words import num2words

_NUM = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?"
_MAX_DIGITS = 12  # longer numbers are read digit by digit
MONTHS = "January February March April May June July August September October November December".split()
MONTH_WORDS = {
    **{month.casefold(): month for month in MONTHS},
    **{month[:3].casefold(): month for month in MONTHS},
    "sept": "September",
}
MONTH_PATTERN = "(" + "|".join(sorted(MONTH_WORDS, key=lambda word: -len(word))) + r")\b\.?"
DAY_PATTERN = r"([0-9]{1,2})(?:st|nd|rd|th)?"
_HALF_DAY = r"(a\.?\s?m\b\.?|p\.?\s?m\b\.?)"
_ONES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_NUMBER_WORDS = (
    *_ONES, "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen", "twenty", "thirty", "forty", "fifty", "hundred", "o'clock", "noon",
)  # fmt: skip
_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
_MAGNITUDES = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion"}
_UNITS = {
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "kmh": ("kilometer per hour", "kilometers per hour"),
    "kph": ("kilometer per hour", "kilometers per hour"),
    "mph": ("mile per hour", "miles per hour"),
    "m/s": ("meter per second", "meters per second"),
    "km": ("kilometer", "kilometers"),
    "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"),
    "kg": ("kilogram", "kilograms"),
    "kgs": ("kilogram", "kilograms"),
    "mg": ("milligram", "milligrams"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "ml": ("milliliter", "milliliters"),
    "ft": ("foot", "feet"),
    "yd": ("yard", "yards"),
    "mi": ("mile", "miles"),
    "hr": ("hour", "hours"),
    "hrs": ("hour", "hours"),
    "min": ("minute", "minutes"),
    "mins": ("minute", "minutes"),
    "sec": ("second", "seconds"),
    "secs": ("second", "seconds"),
    "ms": ("millisecond", "milliseconds"),
    "kb": ("kilobyte", "kilobytes"),
    "mb": ("megabyte", "megabytes"),
    "gb": ("gigabyte", "gigabytes"),
    "tb": ("terabyte", "terabytes"),
    "hz": ("hertz", "hertz"),
    "khz": ("kilohertz", "kilohertz"),
    "mhz": ("megahertz", "megahertz"),
    "ghz": ("gigahertz", "gigahertz"),
    "kw": ("kilowatt", "kilowatts"),
    "kwh": ("kilowatt hour", "kilowatt hours"),
    "sq ft": ("square foot", "square feet"),
    "tbsp": ("tablespoon", "tablespoons"),
    "tsp": ("teaspoon", "teaspoons"),
    "pts": ("point", "points"),
}
_ATTACHED_UNITS = {"g": ("gram", "grams"), "l": ("liter", "liters"), "m": ("meter", "meters"), "h": ("hour", "hours")}
_DENOMINATORS = {2: ("half", "halves"), 3: ("third", "thirds"), 4: ("quarter", "quarters")}


def expand_numbers(text: str) -> str:
    """Return `text` with every digit turned into words."""
    if _DIGIT.search(text):
        for pattern, replace in _RULES:
            text = pattern.sub(replace, text)
    return _WORDED_TIME.sub(lambda m: f"{m[1]} {m[2].upper()}M", text)


def say_number(number: str) -> str:
    """Say a number such as `1,234.5`; leading zeros are read out digit by digit."""
    whole, _, decimals = number.replace(",", "").partition(".")
    if len(whole) > _MAX_DIGITS or (len(whole) > 1 and whole.startswith("0")):
        words = _say_digits(whole)
    else:
        words = _clean(num2words(int(whole or "0")))
    return f"{words} point {_say_digits(decimals)}" if decimals else words


def _say_year(year: int) -> str:
    return _clean(num2words(year, to="year"))


def _say_ordinal(number: int) -> str:
    return _clean(num2words(number, to="ordinal"))


def _say_digits(digits: str) -> str:
    return " ".join(_ONES[int(digit)] for digit in digits)


def _clean(words: str) -> str:
    return words.replace("-", " ").replace(",", "")


def _say_whole(number: str) -> str:
    """Say a bare number, one from 1100 to 2099 without a comma as people say years."""
    if re.fullmatch(r"1[1-9][0-9]{2}|20[0-9]{2}", number):
        return _say_year(int(number))
    return say_number(number)


def _is_one(number: str) -> bool:
    return number.replace(",", "") == "1"


def _say_phone(match: re.Match[str]) -> str:
    return ", ".join(_say_digits(group) for group in re.findall(r"[0-9]+", match[0]))


def _say_date(year: str, month: int, day: int, match: re.Match[str]) -> str:
    if month > 12 and day <= 12:
        month, day = day, month
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return " ".join(say_number(part) for part in re.findall(r"[0-9]+", match[0]))
    if not year:
        return f"{MONTHS[month - 1]} {_say_ordinal(day)}"
    return f"{MONTHS[month - 1]} {_say_ordinal(day)} {_say_year(int(year) + (2000 if len(year) == 2 else 0))}"


def _say_month_day(match: re.Match[str]) -> str:
    day = int(match[2])
    if not 1 <= day <= 31:
        return match[0]
    year = f" {_say_year(int(match[3]))}" if match[3] else ""
    return f"{MONTH_WORDS[match[1].casefold()]} {_say_ordinal(day)}{year}"


def _say_day_month(match: re.Match[str]) -> str:
    day = int(match[1])
    if not 1 <= day <= 31:
        return match[0]
    year = f" {_say_year(int(match[3]))}" if match[3] else ""
    return f"the {_say_ordinal(day)} of {MONTH_WORDS[match[2].casefold()]}{year}"


def _say_time(match: re.Match[str]) -> str:
    hour, minute = int(match[1]), int(match[2])
    half_day = _name_half_day(match[3])
    if hour > 24 or minute > 59:
        return f"{say_number(match[1])} {say_number(match[2])}{half_day}"
    if minute == 0:
        exact = "" if half_day else " o'clock" if 1 <= hour <= 12 else " hundred"
        return f"{say_number(str(hour))}{exact}{half_day}"
    words = f"oh {_ONES[minute]}" if minute < 10 else say_number(str(minute))
    return f"{say_number(str(hour))} {words}{half_day}"


def _name_half_day(mark: str | None) -> str:
    """Return `AM` or `PM`: in capitals, and as one word, speech engines spell them instead of reading "am" or "a"."""
    return f" {mark[0].upper()}M" if mark else ""


def _say_money(sign: str, amount: str, magnitude: str | None) -> str:
    one, many, cent, cents = _CURRENCIES[sign]
    if magnitude:
        return f"{say_number(amount)} {_MAGNITUDES.get(magnitude.casefold(), magnitude.casefold())} {many}"
    whole, _, decimals = amount.replace(",", "").partition(".")
    if len(decimals) != 2 or not cent:
        return f"{say_number(amount)} {one if _is_one(amount) else many}"
    parts = []
    if int(whole) or not int(decimals):
        parts.append(f"{say_number(whole)} {one if int(whole) == 1 else many}")
    if int(decimals):
        parts.append(f"{say_number(str(int(decimals)))} {cent if int(decimals) == 1 else cents}")
    return " and ".join(parts)


def _say_decimal_comma(whole: str, decimals: str, sign: str) -> str:
    one, many, cent, _ = _CURRENCIES[sign]
    whole = whole.replace(".", "")
    if not int(whole) and cent:
        return _say_money(sign, f"0.{decimals}", None)
    words = f"{say_number(whole)} {one if _is_one(whole) else many}"
    if not int(decimals):
        return words
    return f"{words} {say_number(decimals) if int(decimals) >= 10 else f'oh {_ONES[int(decimals)]}'}"


def _say_fraction(match: re.Match[str]) -> str:
    before, above, below = match[1], int(match[2]), int(match[3])
    if not below or below > 100 or above > 100:
        return f"{before or ''}{say_number(match[2])} over {say_number(match[3])}"
    one, many = _DENOMINATORS.get(below, ("", ""))
    if not one:
        one = _say_ordinal(below)
        many = f"{one}s"
    if before:
        part = f"a {one}" if above == 1 else f"{say_number(match[2])} {many}"
        return f"{say_number(before.strip())} and {part}"
    return f"{say_number(match[2])} {one if above == 1 else many}"


def _say_decade(match: re.Match[str]) -> str:
    digits = match[1]
    words = _say_year(int(digits)) if len(digits) == 4 else say_number(digits)
    return words.removesuffix("y") + "ies" if words.endswith("y") else words + "s"


def _say_unit(match: re.Match[str]) -> str:
    unit = re.sub(r"\s+", " ", match[2].casefold())
    one, many = _UNITS.get(unit) or _ATTACHED_UNITS[unit]
    return f"{say_number(match[1])} {one if _is_one(match[1]) else many}"


def _say_temperature(match: re.Match[str]) -> str:
    scale = {"f": " Fahrenheit", "c": " Celsius"}.get((match[2] or "").casefold(), "")
    return f"{say_number(match[1])} {'degree' if _is_one(match[1]) else 'degrees'}{scale}"


def _say_height(match: re.Match[str]) -> str:
    return f"{say_number(match[1])} foot {say_number(match[2])}"


_DECIMAL_UNITS = "|".join(re.escape(unit).replace(r"\ ", r"\s?") for unit in sorted(_UNITS, key=lambda u: -len(u)))
_SIGNS = "[" + "".join(map(re.escape, _CURRENCIES)) + "]"
_MAGNITUDE = r"(?:\s?(thousand|million|billion|trillion)\b|(k|m|mn|b|bn)\b)"
_START = r"(?<![\w.,])"  # not within a longer number or word

_Replace = Callable[[re.Match[str]], str]


def _rule(pattern: str, replace: _Replace) -> tuple[re.Pattern[str], _Replace]:
    return re.compile(pattern, re.IGNORECASE | re.ASCII), replace


_DIGIT = re.compile(r"[0-9]")
_WORDED_TIME = re.compile(rf"\b({'|'.join(_NUMBER_WORDS)})\s([ap])\.?\s?m\b\.?", re.IGNORECASE)

_WHOLE = r"(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+)"  # before a decimal comma
# A minus sign that stands right before what the rules below turn into words as a whole: later none would be seen.
_SIGNED = (
    rf"(?:{_SIGNS}\s?\.?[0-9]|\.?{_NUM}(?:\s?(?:[%°]|{_SIGNS})|[\s-]?(?:{_DECIMAL_UNITS})\b|[glmh]\b|\s?/\s?[0-9]))"
)

# In this order: what looks like a longer form goes first.
_RULES: tuple[tuple[re.Pattern[str], _Replace], ...] = (
    _rule(rf"(?<=[0-9])\s?([-–])\s?(?={_SIGNS}[0-9])", lambda _: " to "),
    _rule(rf"({_SIGNS})\s?[-–](?=\.?[0-9])", lambda m: f" minus {m[1]}"),
    _rule(rf"(?<![^\s(])(?<![0-9%]\s)[-–](?={_SIGNED})", lambda _: "minus "),
    _rule(rf"(?<={_SIGNS})(\s?[0-9]+),([0-9]{{1,2}})(?={_MAGNITUDE})", lambda m: f"{m[1]}.{m[2]}"),
    _rule(_START + rf"({_NUM})\s?[-–]\s?(?={_NUM}\s?[%°])", lambda m: f"{say_number(m[1])} to "),
    _rule(
        rf"({_SIGNS})\s?({_WHOLE}),([0-9]{{2}})(?![0-9]|[.,][0-9])", lambda m: _say_decimal_comma(m[2], m[3], m[1])
    ),
    _rule(
        _START + rf"({_WHOLE}),([0-9]{{2}})\s?({_SIGNS})(?!\s?[0-9])", lambda m: _say_decimal_comma(m[1], m[2], m[3])
    ),
    _rule(
        _START + r"(?:\+?[0-9]{1,3}[ .-])?(?:\([0-9]{3}\) ?|[0-9]{3}[ .-])[0-9]{3}[ .-][0-9]{4}(?![\w-])", _say_phone
    ),
    _rule(_START + r"[0-9]{3}-[0-9]{4}(?![\w-])", _say_phone),
    _rule(
        _START + r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?![\w-])", lambda m: _say_date(m[1], int(m[2]), int(m[3]), m)
    ),
    _rule(
        _START + r"([0-9]{1,2})([/.-])([0-9]{1,2})\2([0-9]{4}|[0-9]{2})(?![\w/-])",
        lambda m: _say_date(m[4], int(m[1]), int(m[3]), m),
    ),
    _rule(r"(?<=\bon )([0-9]{1,2})/([0-9]{1,2})(?![\w/])", lambda m: _say_date("", int(m[1]), int(m[2]), m)),
    _rule(
        _START + rf"{MONTH_PATTERN}\s?{DAY_PATTERN}\b(?![:.,/]?[0-9])(?:,?\s([0-9]{{4}})\b)?(?!\s?[ap]\.?m\b)",
        _say_month_day,
    ),
    _rule(_START + rf"(?:the )?{DAY_PATTERN}\s(?:of\s)?{MONTH_PATTERN}(?:,?\s([0-9]{{4}})\b)?", _say_day_month),
    _rule(_START + r"([0-9]{1,2}):([0-9]{2})(?![0-9:])(?:\s?" + _HALF_DAY + ")?", _say_time),
    _rule(_START + r"[0-9]+(?::[0-9]{2}){2}(?![0-9:])", lambda m: " ".join(map(say_number, m[0].split(":")))),
    _rule(_START + r"([0-9]{1,2})\.([0-9]{2})\s?" + _HALF_DAY, _say_time),
    _rule(_START + r"([0-9]{1,2})\s?" + _HALF_DAY, lambda m: say_number(m[1]) + _name_half_day(m[2])),
    _rule(_START + r"([0-9]+):([0-9]+)(?![:0-9])", lambda m: f"{say_number(m[1])} to {say_number(m[2])}"),
    _rule(rf"({_SIGNS})\s?({_NUM}){_MAGNITUDE}?", lambda m: _say_money(m[1], m[2], m[3] or m[4])),
    _rule(rf"({_NUM})\s?({_SIGNS})(?!\s?[0-9])", lambda m: _say_money(m[2], m[1], None)),
    _rule(rf"({_NUM})\s?%\s?[-–]\s?(?={_NUM}\s?%)", lambda m: f"{say_number(m[1])} to "),
    _rule(rf"({_NUM})\s?%", lambda m: f"{say_number(m[1])} percent"),
    _rule(rf"({_NUM})\s?°\s?(?:([FC])\b)?", _say_temperature),
    _rule(_START + r"24/7(?![\w/])", lambda _: "twenty four seven"),
    _rule(_START + r"50\s?[/-]\s?50(?![\w/-])", lambda _: "fifty fifty"),
    _rule(_START + r"9/11(?![\w/])", lambda _: "nine eleven"),
    _rule(_START + r"([0-9]+\s)?([0-9]+)\s?[/⁄]\s?([0-9]+)(?![\w/])", _say_fraction),
    _rule(_START + r"([0-9]{1,12})(?:st|nd|rd|th)\b", lambda m: _say_ordinal(int(m[1]))),
    _rule(r"(?<![\w.,])'?((?:1[1-9]|20)?[0-9]0)'?s\b", _say_decade),
    _rule(r"\b([0-9])'\s?([0-9]{1,2})(?:\"|''|(?![\w']))", _say_height),
    _rule(rf"({_NUM})\s?\"(?=\s|$|[.,?!])", lambda m: f"{say_number(m[1])} inch"),
    _rule(_START + r"([0-9]+)\s?[xX]\s?(?=[0-9])", lambda m: f"{say_number(m[1])} by "),
    _rule(
        r"(?<![\w.,])([0-9]+(?:\.[0-9]+)?)\s?[-–]\s?(?=[0-9]+(?:\.[0-9]+)?(?![0-9]*\s?-))",
        lambda m: f"{_say_whole(m[1])} to ",
    ),
    _rule(r"([0-9]+)h\s?(?=[0-9]+\s?m)", lambda m: f"{say_number(m[1])} {'hour' if _is_one(m[1]) else 'hours'} "),
    _rule(r"(?<=hour |ours )([0-9]+)\s?m(?:in)?\b", lambda m: f"{say_number(m[1])} minutes"),
    _rule(r"\^2\b", lambda _: " squared"),
    _rule(r"\^3\b", lambda _: " cubed"),
    _rule(rf"({_NUM})[\s-]?({_DECIMAL_UNITS})\b", _say_unit),
    _rule(rf"({_NUM})(g|l|m|h)\b", _say_unit),
    _rule(r"(?<!\w)(?:#\s?|no\.\s?)(?=[0-9])", lambda _: "number "),
    _rule(_START + r"[0-9]+(?:\.[0-9]+){2,}(?!\w)", lambda m: " point ".join(map(say_number, m[0].split(".")))),
    _rule(r"([0-9])(?=[A-Za-z])", lambda m: f"{m[1]} "),
    _rule(r"([A-Za-z])-?(?=[0-9])", lambda m: f"{m[1]} "),
    _rule(r"(?<![\w)])[-−]\s?(?=\.?[0-9])", lambda _: "minus "),
    _rule(r"(?<![\w.])\.([0-9]+)", lambda m: f" point {_say_digits(m[1])}"),
    _rule(r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?)", lambda m: _say_whole(m[0])),
)  # fmt: skip
