"""Spoken text in one form, so that two spellings of the same words compare as equal.

The base is the English normaliser published with Whisper (package `whisper-normalizer`): lower case, no punctuation,
contractions written out, numbers in digits, American spelling, fillers dropped. Added here is what it leaves apart
although it is spoken alike: clock times (7:30, 7.30, seven thirty), ellipses, OK and okay, degree and plus signs,
common fractions, and texts that consist of fillers alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache

_HALF_DAY = r"(?=\s*[ap]\.?\s?m\b)"
_RULES: tuple[tuple[str, str], ...] = (
    (r"[’‘`´]", "'"),
    (r"\.{2,}|…", " "),
    (r"(?<=\d)\s[-–−]\s(?=\d)", " minus "),
    (r"(?:^|(?<=\s))[-–−](?=\d)", "minus "),
    (r"[-‐-―−]+(?=\s|$)", " "),  # a dash at the end of a word marks that it is cut off or a pause
    (r"\bo['\s]?\s?clock\b", "oclock"),  # Whisper's rules would read its "o" as a zero
    (rf"(?<![\d$£€.:])([01]?\d|2[0-4])[:.]00{_HALF_DAY}", r"\1 "),
    (r"(?<![\d$£€.:])([01]?\d|2[0-4])[:.]([0-5]\d)(?![\d.:]*\d|%)", r"\1\2"),  # as "seven thirty" becomes 730
    (r"(?<![\d/])1/2(?![\d/])", "one half"),
    (r"(?<![\d/])1/4(?![\d/])", "one quarter"),
    (r"(?<![\d/])3/4(?![\d/])", "three quarters"),
    (r"\ba (?=(?:hundred|thousand|million|billion)\b)", "one "),
    (r"°\s?f\b", " degrees fahrenheit "),
    (r"°\s?c\b", " degrees celsius "),
    (r"°", " degrees "),
    (r"&", " and "),
    (r"(?<=[\w\s])\+(?=[\d\s])", " plus "),
    (r"=", " equals "),
    (r"×", " times "),
    (r"\bo\.?k\b\.?", "okay"),
    (r"\balright\b", "all right"),
    (r"\b(plus|minus)\b", r"\1s"),  # Whisper's rules would make a sign of it before a number, and then drop it
)
_PATTERNS = tuple((re.compile(pattern), replacement) for pattern, replacement in _RULES)
_LONE_SIGN = re.compile(r"(?<!\S)[.$¢€£%]+(?!\S)")
_UNSPACED = frozenset({"zh", "ja", "th", "yue"})


@lru_cache(maxsize=1024)  # a text is compared with itself, and then with a few more spellings
def normalise_text(text: str, language: str = "en") -> str:
    """Return the words of `text` in the form in which they are compared, separated by single spaces.

    Languages other than English get Whisper's basic normaliser (case and punctuation only); Chinese, Japanese and Thai
    are split into characters, so that their error rate is one of characters.
    """
    if language.split("-")[0].lower() != "en":
        return " ".join(_open_basic(language.split("-")[0].lower() in _UNSPACED)(text).split())
    lowered = text.lower()
    for pattern, replacement in _PATTERNS:
        lowered = pattern.sub(replacement, lowered)
    words = _LONE_SIGN.sub(" ", _normalise_english(lowered)).split()
    if not words:
        # Nothing but fillers ("Hmm."): they are what was said, so they are compared as they stand.
        words = _open_basic(False)(text).split()
    return " ".join("1" if word == "one" else word for word in words)


def _normalise_english(text: str) -> str:
    try:
        return _open_english()(text)
    except (AssertionError, ArithmeticError, IndexError, TypeError, ValueError):
        # Its number rules fail on some odd strings of digits and signs; those are compared without them.
        return _open_basic(False)(text)


@cache
def _open_english() -> Callable[[str], str]:
    from whisper_normalizer.english import EnglishTextNormalizer

    normaliser: Callable[[str], str] = EnglishTextNormalizer()
    return normaliser


@cache
def _open_basic(split_letters: bool) -> Callable[[str], str]:
    from whisper_normalizer.basic import BasicTextNormalizer

    normaliser: Callable[[str], str] = BasicTextNormalizer(split_letters=split_letters)
    return normaliser
