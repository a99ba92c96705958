"""The words of a turn, and the break tag before one of them. English and Mandarin.

A word of a script that is written with spaces is a run between spaces that holds a letter or a digit, with its
punctuation, as it is written; a dash or dots between two words part them too. A Chinese character is a word of its own:
a break can then lie before any of them, no segmenter can join a backchannel to what follows it ("对那个"), and every
aligner has its syllable. An aligner that pronounces characters in context joins neighbours before it looks them up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bystander.schemas.text_tasks import BREAK_TAG
from bystander.tasks.texts.spoken_text import straighten_marks

_CHINESE: Final = "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_CHINESE_MARKS: Final = "\u3001\u3002\u3008-\u3011\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f"
_DOTS_OR_DASH: Final = r"\.{2}|--|(?<=\.)\.|(?<=-)-"
_WORD = re.compile(rf"[{_CHINESE}]|(?:(?!{_DOTS_OR_DASH})[^\s\u2013\u2014\u2026{_CHINESE}{_CHINESE_MARKS}])+")
_EDGES = re.compile(r"^\W+|[\W_]+$")
_STRETCHED = re.compile(r"([^\W\d])\1{2,}")


@dataclass(frozen=True, slots=True)
class TurnWord:
    """A word as written, and the characters of the text that it takes: `text[start:end]`."""

    text: str
    start: int
    end: int


def find_turn_words(text: str) -> list[TurnWord]:
    """Return the words of a turn, in order, with their places."""
    return [
        TurnWord(match[0], match.start(), match.end())
        for match in _WORD.finditer(text)
        if any(sign.isalnum() for sign in match[0])
    ]


def split_turn_words(text: str) -> list[str]:
    """Return the words of a turn as written, in order: positions of breaks are positions in this list."""
    return [word.text for word in find_turn_words(text)]


def strip_marks(word: str) -> str:
    """Return a word without the marks at its edges: "Yeah," as "Yeah"."""
    return _EDGES.sub("", word)


def fold_word(word: str) -> str:
    """Return a word as it is looked up: lower case, no marks at its edges, no hyphens, "okaaay" as "okay"."""
    bare = _EDGES.sub("", straighten_marks(word).casefold()).replace("-", "")
    return _STRETCHED.sub(r"\1", bare)


def insert_break(text: str, words: Sequence[TurnWord], index: int | None) -> str:
    """Return `text` with `BREAK_TAG` right before word `index`; the text itself where that is None."""
    if index is None:
        return text
    start = words[index].start
    return f"{text[:start]}{BREAK_TAG}{text[start:]}"


def is_tagged_text(tagged: str, text: str, index: int | None) -> bool:
    """Whether `tagged` is `text` with one tag before word `index` of it, or untouched where that is None."""
    head, tag, tail = tagged.partition(BREAK_TAG)
    if BREAK_TAG in tail or head + tail != text or bool(tag) != (index is not None):
        return False
    # The tag may not lie within a word: then the word after it would not begin where it does in the text.
    starts = [word.start for word in find_turn_words(text)]
    return index is None or (0 <= index < len(starts) and starts[index] == len(head))
