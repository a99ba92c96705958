"""Where new intent begins in a turn, told by a lexicon of acknowledgements. English and Mandarin.

`data/backchannels.yaml` lists what people say to show that they listen. A turn is read from its first word: the longest
acknowledgement there is passed over, then the next, and what is left begins the new intent. Connectives ("so", "but",
"那") belong to the clause that they open. A few words of the other speaker, repeated and no question, acknowledge too.

These are rules: irony, and words that are an acknowledgement here and a request there, are beyond them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

import yaml

from bystander.tasks.texts.turn_words import TurnWord, find_turn_words, fold_word

LEXICON_LANGUAGES: Final = ("en", "zh")
_DATA = resources.files("bystander.tasks.texts") / "data" / "backchannels.yaml"
_MARK = re.compile(r"[.,!?;:\u2013\u2014\u2026\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f]|--")
_QUESTION = re.compile(r"[?\uff1f]")
_LONGEST_ECHO: Final = {"en": 4, "zh": 6}
_SHORTEST_ECHO: Final = {"en": 1, "zh": 2}

_LONGEST_UNKNOWN: Final = 3
"""Most words of an acknowledgement that the lexicon does not know, where no mark ends it."""

Phrase = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The lists of one language, as folded words; the file says what each is for."""

    open: frozenset[Phrase]
    closed: frozenset[Phrase]
    strict: frozenset[Phrase]
    blockers: frozenset[Phrase]
    openers: frozenset[Phrase]
    empty: frozenset[Phrase]
    spoken: tuple[str, ...]
    longest: int


def read_lexicon_bytes() -> bytes:
    """Return the file of the lexicon, for digests."""
    return _DATA.read_bytes()


@cache
def load_lexicon(language: str) -> Lexicon:
    """Return the lexicon of one of `LEXICON_LANGUAGES`.

    Raises:
        KeyError: there is none of this language.
    """
    lists: dict[str, Any] = yaml.safe_load(read_lexicon_bytes())[language]
    phrases = {
        name: frozenset(_fold_phrase(text) for text in lists[name])
        for name in ("open", "closed", "strict", "blockers", "openers", "empty")
    }
    return Lexicon(
        **phrases,
        spoken=tuple(lists["spoken"]),
        longest=max(len(phrase) for group in phrases.values() for phrase in group),
    )


def find_new_intent(text: str, language: str, context: str = "") -> int | None:
    """Return the position, among the words of `text`, of the first one with new intent, or None.

    `context` is what the other speaker was saying; words repeated from it may be an acknowledgement.
    """
    return _Reading(text, language, context).find_break()


def find_substance(text: str, language: str) -> str:
    """Return the text from its first word with new intent on; "" where it only acknowledges, or says nothing."""
    reading = _Reading(text, language, "")
    at = reading.find_break()
    return "" if at is None else text[reading.words[at].start :]


def find_segments(text: str, language: str) -> list[int]:
    """Return the positions of the words before which new intent can begin: those that open a stretch of the turn.

    A stretch is a run of acknowledgements, or what stands between two marks. Where there is no mark, a word that opens
    a clause begins one too, among the first words of what the lexicon does not know.
    """
    return _Reading(text, language, "").find_segments()


def is_backchannel(text: str, language: str) -> bool:
    """Whether `text` has words, and all of them are acknowledgements by the lexicon."""
    reading = _Reading(text, language, "")
    return bool(reading.words) and reading.find_rest() is None


class _Reading:
    """One turn: its words, folded, and after which of them a mark stands."""

    def __init__(self, text: str, language: str, context: str) -> None:
        self.words: list[TurnWord] = find_turn_words(text)
        self._folded = [fold_word(word.text) for word in self.words]
        self._lexicon = load_lexicon(language)
        ends = [*(word.start for word in self.words[1:]), len(text)][: len(self.words)]
        # A word's own text may end in its mark, and the mark may stand between two words.
        tails = [_edge_marks(word.text) + text[word.end : end] for word, end in zip(self.words, ends, strict=True)]
        self._marked = [bool(_MARK.search(tail)) for tail in tails]
        self._asks = [bool(_QUESTION.search(tail)) for tail in tails]
        self._context = [fold_word(word.text) for word in find_turn_words(context)]
        # How many words acknowledge from each one on, the last one first: an acknowledgement may hang on the next.
        self._acknowledges = [0] * len(self.words)
        for at in reversed(range(len(self.words))):
            self._acknowledges[at] = self._measure_acknowledgement(at)
        self._echo_lengths = range(_LONGEST_ECHO[language], _SHORTEST_ECHO[language] - 1, -1)

    def find_break(self) -> int | None:
        rest = self.find_rest()
        at = rest
        while at is not None and at < len(self.words):
            length = self._match(self._lexicon.empty, at)
            if not length:
                return rest
            at += length
        return None

    def find_rest(self) -> int | None:
        """Return where the acknowledgements end, or None if they take the whole turn."""
        at = 0
        while at < len(self.words):
            length = self._acknowledges[at] or self._match_echo(at)
            if not length:
                return at
            at += length
        return None

    def find_segments(self) -> list[int]:
        starts: list[int] = []
        at = 0
        while at < len(self.words):
            starts.append(at)
            at = self._pass_acknowledgements(at) or self._pass_clause(at)
        return starts

    def _pass_acknowledgements(self, at: int) -> int:
        """Return where the run of acknowledgements at word `at` ends; 0 if there is none."""
        end = at
        while end < len(self.words) and self._acknowledges[end]:
            end += self._acknowledges[end]
        return end if end > at else 0

    def _pass_clause(self, at: int) -> int:
        opened = bool(self._match(self._lexicon.openers, at))
        for end in range(at + 1, len(self.words)):
            near = end - at <= _LONGEST_UNKNOWN
            if self._marked[end - 1] or (near and not opened and self._match(self._lexicon.openers, end)):
                return end
        return len(self.words)

    def _measure_acknowledgement(self, at: int) -> int:
        blocked = self._match(self._lexicon.blockers, at)
        for length in range(min(self._lexicon.longest, len(self.words) - at), blocked, -1):
            phrase = self._phrase(at, length)
            if phrase in self._lexicon.open:
                return length
            if phrase in self._lexicon.closed and self._closes(at + length, self._lexicon.openers):
                return length
            if phrase in self._lexicon.strict and self._closes(at + length):
                return length
        return 0

    def _closes(self, at: int, openers: Set[Phrase] = frozenset()) -> bool:
        """Whether an acknowledgement may end before word `at`."""
        if at == len(self.words) or self._marked[at - 1] or self._match(openers, at):
            return True
        return bool(self._acknowledges[at])

    def _match_echo(self, at: int) -> int:
        """Return how many words, up to a mark or the end, repeat the other speaker's, and ask nothing."""
        for length in self._echo_lengths:
            end = at + length
            if end > len(self.words) or not (end == len(self.words) or self._marked[end - 1]):
                continue
            if not self._asks[end - 1] and _contains(self._context, self._folded[at:end]):
                return length
        return 0

    def _match(self, phrases: Set[Phrase], at: int) -> int:
        """Return the length of the longest of `phrases` at word `at`; 0 if there is none."""
        for length in range(min(self._lexicon.longest, len(self.words) - at), 0, -1):
            if self._phrase(at, length) in phrases:
                return length
        return 0

    def _phrase(self, at: int, length: int) -> Phrase | None:
        if any(self._marked[at : at + length - 1]):
            return None
        return tuple(self._folded[at : at + length])


def _edge_marks(word: str) -> str:
    return word[len(word.rstrip(".,!?;:\"')")) :]


def _fold_phrase(text: str) -> Phrase:
    return tuple(fold_word(word.text) for word in find_turn_words(text))


def _contains(words: Sequence[str], part: Sequence[str]) -> bool:
    return any(list(words[i : i + len(part)]) == list(part) for i in range(len(words) - len(part) + 1))
