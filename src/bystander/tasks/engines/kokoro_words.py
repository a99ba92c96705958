"""How a text is pronounced, as a string of symbols, and which of them belong to which of its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Protocol

from bystander.tasks.texts.turn_words import find_turn_words, fold_word

PAUSE_SYMBOLS = frozenset(';:,.!?—…"()“” ')
"""Symbols of the network's that are punctuation: they last as long as the pause, and belong to no word."""


@dataclass(frozen=True, slots=True)
class WordSpan:
    """A word as written, and its symbols: `symbols[start:end]`."""

    word: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Pronunciation:
    """Symbols of a text, and the span of each of its words in order; None where that cannot be told."""

    symbols: str
    words: tuple[WordSpan, ...] | None


class Pronouncer(Protocol):
    """Rules that pronounce texts of one language or accent."""

    def pronounce(self, text: str) -> Pronunciation: ...


def locate_words(
    text: str, spoken_text: str, symbols: str, spans: Sequence[tuple[int, int, int, int]]
) -> tuple[WordSpan, ...] | None:
    """Return the span of each word of `text` among the symbols of what is spoken for it, or None.

    `spoken_text` is the text as it was pronounced, where numbers and abbreviations may have become words: a word of the
    text that became several has the symbols of all of them.

    Args:
        text: as written.
        spoken_text: as pronounced.
        symbols: how it is pronounced.
        spans: (start, end) in `spoken_text` of each piece that was pronounced, and (start, end) of it in `symbols`.
    """
    spoken = find_turn_words(spoken_text)
    starts: list[int] = []
    ends: list[int] = []
    for word in spoken:
        inside = [span for span in spans if span[0] < word.end and span[1] > word.start and span[2] < span[3]]
        if any(span[0] < word.start and _has_word(spoken_text[span[0] : word.start]) for span in inside):
            return None  # pronounced in one piece with the word before
        sounding = [at for span in inside for at in range(span[2], span[3]) if symbols[at] not in PAUSE_SYMBOLS]
        if not sounding:
            return None
        starts.append(min(sounding))
        ends.append(max(sounding) + 1)
    written = find_turn_words(text)
    groups = _match_words([word.text for word in written], [word.text for word in spoken])
    if groups is None:
        return None
    return tuple(
        WordSpan(word.text, starts[first], ends[last - 1]) for word, (first, last) in zip(written, groups, strict=True)
    )


def _has_word(text: str) -> bool:
    return any(sign.isalnum() for sign in text)


def _match_words(written: Sequence[str], spoken: Sequence[str]) -> list[tuple[int, int]] | None:
    """Return the range of spoken words that each written word became, or None where they cannot be told apart."""
    matcher = SequenceMatcher(None, [fold_word(w) for w in written], [fold_word(w) for w in spoken], autojunk=False)
    groups: list[tuple[int, int]] = []
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        if i2 - i1 == j2 - j1:
            groups.extend((j, j + 1) for j in range(j1, j2))
        elif i2 - i1 == 1 and j2 > j1:
            groups.append((j1, j2))
        else:
            return None
    return groups
