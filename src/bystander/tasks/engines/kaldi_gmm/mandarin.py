"""Mandarin pronunciations: initials and finals of pypinyin, without tones, which cepstra hardly show.

The text is read as a whole, so that phrases decide between readings; the other readings of a character are kept as
further pronunciations. Digits are read as a Chinese speaker reads them; Latin words go through the English
dictionaries and on to the nearest Mandarin phones, and count as out of vocabulary.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import metadata
from typing import Any

from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines.kaldi_gmm.chinese_numbers import read_digits
from bystander.tasks.engines.kaldi_gmm.english import EnglishPronouncer
from bystander.tasks.engines.kaldi_gmm.path_search import Variants
from bystander.tasks.engines.kaldi_gmm.pronunciations import PronouncedWord

MAX_VARIANTS = 8
MAX_READINGS = 4
"""Of one character; dictionaries list readings that nobody uses any more."""
_RULES = "1"  # raise when the mapping from words to phones changes
_HANZI = "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002ffff〇"
_PIECE = re.compile(rf"[{_HANZI}]+|[0-9０-９][0-9０-９,.:：%％]*|[A-Za-z][A-Za-z']*")
_IS_HANZI = re.compile(rf"[{_HANZI}]")

_INITIALS = ("b", "p", "m", "f", "d", "t", "n", "l", "g", "k", "h", "j", "q", "x", "zh", "ch", "sh", "r", "z", "c", "s")
# fmt: off
_FINALS = (
    "a", "o", "e", "ai", "ei", "ao", "ou", "an", "en", "ang", "eng", "ong", "er", "i", "ih", "iz", "ia", "ie", "iao",
    "iou", "ian", "in", "iang", "ing", "iong", "u", "ua", "uo", "uai", "uei", "uan", "uen", "uang", "ueng", "v", "ve",
    "van", "vn",
)
_LATIN = {
    "A": "ei", "I": "ai", "O": "ou", "Q": "ou", "W": "ao", "Y": "o i", "a": "a", "b": "b", "d": "d", "f": "f",
    "h": "h", "i": "i", "j": "i", "k": "k", "l": "l", "m": "m", "n": "n", "p": "p", "s": "s", "t": "t", "u": "u",
    "v": "u", "w": "u", "z": "z", "æ": "a", "ð": "z", "ŋ": "n", "ɑ": "a", "ɒ": "o", "ɔ": "o", "ə": "e", "ɛ": "ei",
    "ɜ": "e", "ɡ": "g", "ɪ": "i", "ɹ": "r", "ʃ": "sh", "ʊ": "u", "ʌ": "a", "ʒ": "r", "ʤ": "zh", "ʧ": "ch", "θ": "s",
    "T": "d",
}
# fmt: on
PHONES = (*_INITIALS, *_FINALS)
_PHONE_SET = frozenset(PHONES)
_APICAL = {**dict.fromkeys(("zh", "ch", "sh", "r"), "ih"), **dict.fromkeys(("z", "c", "s"), "iz")}
_INTERJECTIONS: dict[str, tuple[str, ...]] = {
    "嗯": ("en", "n", "m", "e n"),
    "唔": ("u", "m"),
    "呣": ("m",),
    "哼": ("h eng", "h en"),
    "哦": ("o", "uo", "ou", "e"),
    "噢": ("o", "uo", "ao"),
    "喔": ("o", "uo"),
    "诶": ("ei", "ai"),
    "欸": ("ei", "ai"),
    "哎": ("ai", "ei"),
    "哟": ("i o", "iou"),
    "啊": ("a", "i a", "u a", "n a"),
    "儿": ("er",),
}
"""Characters that pypinyin has no final for, or that are said in more ways than dictionaries list."""


class MandarinPronouncer:
    """Pronounces words or single characters, simplified or traditional."""

    def __init__(self) -> None:
        """Load pypinyin.

        Raises:
            EngineSetupError: it is missing.
        """
        try:
            import pypinyin
        except ImportError as exc:
            raise EngineSetupError("the package pypinyin is missing; run: pip install pypinyin") from exc
        self._pinyin: Any = pypinyin
        self._lock = threading.Lock()
        self._english: EnglishPronouncer | None = None
        self._list_readings: Callable[[str], tuple[tuple[str, ...], ...]] = lru_cache(20_000)(self._find_readings)

    @property
    def version(self) -> str:
        return f"pypinyin {metadata.version('pypinyin')}, hibari-tts {metadata.version('hibari-tts')}, rules {_RULES}"

    @property
    def phones(self) -> tuple[str, ...]:
        return PHONES

    def pronounce(self, words: Sequence[str]) -> list[PronouncedWord | None]:
        with self._lock:
            pieces = [_PIECE.findall(word) for word in words]
            text = "".join(piece for parts in pieces for piece in parts if _IS_HANZI.match(piece))
            readings = iter(self._read_text(text))
            return [self._pronounce_word(parts, readings) for parts in pieces]

    def _pronounce_word(self, pieces: Sequence[str], readings: Any) -> PronouncedWord | None:
        options: list[Variants] = []
        known = True
        for piece in pieces:
            if _IS_HANZI.match(piece):
                for character in piece:
                    heard, listed = next(readings), self._list_readings(character)
                    likely = (heard,) if heard and character not in _INTERJECTIONS else ()
                    options.append(tuple(dict.fromkeys((*likely, *listed)))[:MAX_READINGS])
                    known = known and bool(listed)
            elif piece[0].isdigit():
                options.append(self._read_number(piece))
            else:
                options.append(self._read_latin(piece))
                known = False
        variants = _combine([option for option in options if option])
        return PronouncedWord(variants, known) if variants else None

    def _read_text(self, text: str) -> list[tuple[str, ...]]:
        """Return the phones of each character as the whole text suggests; empty where it has none."""
        if not text:
            return []
        style = self._pinyin.Style
        syllables = self._pinyin.lazy_pinyin(text, style=style.NORMAL, errors=lambda chars: [""] * len(chars))
        return [self._split_syllable(syllable) for syllable in syllables]

    def _find_readings(self, character: str) -> tuple[tuple[str, ...], ...]:
        if character in _INTERJECTIONS:
            return tuple(tuple(form.split()) for form in _INTERJECTIONS[character])
        style = self._pinyin.Style
        found = self._pinyin.pinyin(character, style=style.NORMAL, heteronym=True, errors="ignore")
        split = [self._split_syllable(syllable) for syllable in (found[0] if found else [])]
        return tuple(dict.fromkeys(phones for phones in split if phones))

    def _split_syllable(self, syllable: str) -> tuple[str, ...]:
        convert = self._pinyin.contrib.tone_convert
        initial = convert.to_initials(syllable, strict=True)
        final = convert.to_finals(syllable, strict=True, v_to_u=False).replace("ü", "v").replace("ê", "ei")
        if final == "i" and initial in _APICAL:
            final = _APICAL[initial]
        if final == "io":
            return ("i", "o")
        phones = tuple(phone for phone in (initial, final) if phone)
        return phones if phones and all(phone in _PHONE_SET for phone in phones) else ()

    def _read_number(self, number: str) -> Variants:
        forms = []
        for characters in read_digits(number):
            phones = tuple(phone for reading in self._read_text(characters) for phone in reading)
            if phones:
                forms.append(phones)
        return tuple(dict.fromkeys(forms))

    def _read_latin(self, word: str) -> Variants:
        if self._english is None:
            self._english = EnglishPronouncer()
        (spoken,) = self._english.pronounce([word])
        if spoken is None:
            return ()
        mapped = (tuple(" ".join(_LATIN[phone] for phone in variant).split()) for variant in spoken.variants)
        return tuple(dict.fromkeys(mapped))[:2]


def _combine(options: Iterable[Variants]) -> Variants:
    """Return the combinations of the parts' pronunciations, those with the fewest unlikely parts first."""
    listed = list(options)
    if not listed:
        return ()
    likely = tuple(option[0] for option in listed)
    combined = [likely]
    for position, option in enumerate(listed):
        combined += [(*likely[:position], other, *likely[position + 1 :]) for other in option[1:]]
    if len(listed) <= 2:
        combined += list(itertools.islice(itertools.product(*listed), 4 * MAX_VARIANTS))
    flat = [tuple(phone for part in combination for phone in part) for combination in combined]
    return tuple(dict.fromkeys(flat))[:MAX_VARIANTS]
