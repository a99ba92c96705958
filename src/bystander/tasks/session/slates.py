"""Spoken slates, "Take 7": told from the lines that follow them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bystander.tasks.metrics.text_normaliser import normalise_text

_HOMOPHONES = {"one": 1, "won": 1, "to": 2, "too": 2, "two": 2, "for": 4, "four": 4, "ate": 8}
"""Small numbers that recognisers write as other words, or leave as words."""
_MOST_WORDS = 6
"""A slate, of a number below ten thousand, has no more words."""
_SLATE = re.compile(r"^(?:okay |ok |so )?take (?:number )?(\d{1,5}|[a-z]+)$")


@dataclass(frozen=True, slots=True)
class Slate:
    """A slate at the beginning of what was heard: the take's number, the words said, and what follows them."""

    number: int
    words: tuple[str, ...]
    rest: str


def find_slate(heard: str, numbers: Sequence[int] | None = None, language: str = "en") -> Slate | None:
    """Return the slate that a text begins with, the longest that fits; None where there is none.

    `numbers` are those that a slate may name; others are no slate. A line such as "take two eggs" looks like one:
    ask only where the words cannot be the script's (`drop_slate`).
    """
    words = heard.split()
    for count in range(min(_MOST_WORDS, len(words)), 1, -1):
        match = _SLATE.match(normalise_text(" ".join(words[:count]), language))
        if match is None:
            continue
        number = int(match[1]) if match[1].isdigit() else _HOMOPHONES.get(match[1])
        if number is not None and (numbers is None or number in numbers):
            return Slate(number, tuple(words[:count]), " ".join(words[count:]))
    return None


def is_like_slate(heard: str, language: str = "en") -> bool:
    """Whether a text begins as slates do, though its number may be misheard."""
    return normalise_text(heard, language).split()[:1] == ["take"]


def is_misheard_slate(heard: str, language: str = "en") -> bool:
    """Whether a text on its own, which fits no script, is a slate whose number was misheard."""
    return is_like_slate(heard, language) and len(heard.split()) <= _MOST_WORDS
