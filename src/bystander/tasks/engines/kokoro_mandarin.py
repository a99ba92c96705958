"""Mandarin pronounced by pypinyin's dictionary, in Kokoro's symbols.

As in Kokoro's training: numerals become characters, jieba finds the words, pypinyin reads each of them, and words are
parted by spaces. Tones are the dictionary's, without sandhi, which the network has learnt. Latin letters are read as
American English.
"""

from __future__ import annotations

import logging
import re
import warnings
from contextlib import suppress
from typing import Any

from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines.kokoro_english import EnglishPronouncer
from bystander.tasks.engines.kokoro_syllables import convert_syllable
from bystander.tasks.engines.kokoro_words import PAUSE_SYMBOLS, Pronunciation, locate_words

PACKAGES = ("pypinyin", "jieba", "cn2an")
"""What decides how a text is read."""
_HAN = "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_PIECE = re.compile(rf"(?P<han>[{_HAN}]+)|(?P<latin>[A-Za-z]+(?:['’-][A-Za-z]+)*)|(?P<mark>.)", re.DOTALL)
_MARKS = {
    **dict(zip("、，。．！？：；（）", ",,..!?:;()", strict=True)),
    **dict.fromkeys("«《「『【〈", "“"),
    **dict.fromkeys("»》」』】〉", "”"),
}
_BEFORE_WORD = frozenset("(“")
_DIGITS = str.maketrans("0123456789", "零一二三四五六七八九")
_TWO_OF = re.compile(r"(?<![\d.:：])2(?=[个位次天年张只条杯份件家首本周种])")
"""Two of something is 两; cn2an, which reads numerals, has 二 for it."""


class MandarinPronouncer:
    """Standard Mandarin. Not for several threads at once."""

    def __init__(self) -> None:
        """Load the dictionaries, which takes a second.

        Raises:
            EngineSetupError: a package is missing.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes in jieba and proces, of no use to anyone
                import cn2an
                import jieba
                from pypinyin import Style, lazy_pinyin
        except ImportError as exc:
            raise EngineSetupError(
                f"packages for Mandarin are missing ({exc}); run: pip install {' '.join(PACKAGES)}"
            ) from exc
        jieba.setLogLevel(logging.WARNING)
        segmenter = jieba.Tokenizer()
        # What `initialize` does, without the copy of the dictionary that it keeps in a shared temporary folder.
        segmenter.FREQ, segmenter.total = segmenter.gen_pfdict(segmenter.get_dict_file())
        segmenter.initialized = True
        self._segmenter: Any = segmenter
        self._read_numerals: Any = cn2an.transform
        self._read: Any = lazy_pinyin
        self._style: Any = Style.TONE3
        self._english: EnglishPronouncer | None = None

    def pronounce(self, text: str) -> Pronunciation:
        """Return the symbols of a text and which of them are whose; characters without a reading are left out."""
        spoken_text = self._spell_numerals(text)
        symbols = ""
        spans: list[tuple[int, int, int, int]] = []
        for piece in _PIECE.finditer(spoken_text):
            if piece["mark"] is not None:
                symbols = _add_mark(symbols, _MARKS.get(piece[0], piece[0]))
                continue
            if symbols and symbols[-1] != " " and symbols[-1] not in _BEFORE_WORD:
                symbols += " "
            if piece["latin"] is not None:
                start = len(symbols)
                symbols += self._read_latin(piece[0])
                spans.append((piece.start(), piece.end(), start, len(symbols)))
                continue
            at = piece.start()
            for number, word in enumerate(self._segmenter.lcut(piece[0], cut_all=False)):
                symbols += " " if number else ""
                for syllable in self._read_word(word):
                    spans.append((at, at + 1, len(symbols), len(symbols) + len(syllable)))
                    symbols += syllable
                    at += 1
        symbols = symbols.rstrip()
        return Pronunciation(symbols, locate_words(text, spoken_text, symbols, spans))

    def _spell_numerals(self, text: str) -> str:
        if not any(sign.isdigit() for sign in text):
            return text
        text = _TWO_OF.sub("两", text)
        # A number of a form that cn2an does not know is read digit by digit.
        with suppress(ValueError, KeyError, IndexError, TypeError):
            text = str(self._read_numerals(text, "an2cn"))
        return text.translate(_DIGITS)

    def _read_word(self, word: str) -> list[str]:
        readings = self._read(word, style=self._style, neutral_tone_with_five=True)
        if len(readings) != len(word):
            readings = [self._read(sign, style=self._style, neutral_tone_with_five=True)[0] for sign in word]
        return [_convert(reading) for reading in readings]

    def _read_latin(self, word: str) -> str:
        if self._english is None:
            self._english = EnglishPronouncer(british=False)
        return self._english.transcribe(word)


def _convert(reading: str) -> str:
    try:
        return convert_syllable(reading)
    except ValueError:
        return ""


def _add_mark(symbols: str, mark: str) -> str:
    """Return the symbols with a mark after them; a mark that parts words is followed by a space."""
    if mark.isspace():
        return symbols if not symbols or symbols[-1] == " " else f"{symbols} "
    if mark not in PAUSE_SYMBOLS:
        return symbols
    if mark in _BEFORE_WORD:
        return f"{symbols} {mark}" if symbols and symbols[-1] != " " else f"{symbols}{mark}"
    return f"{symbols.rstrip()}{mark} "
