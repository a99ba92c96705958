"""English pronunciations in the misaki alphabet of hibari-tts, American and British, without stress.

Each word is looked up for itself under several parts of speech ("read", "record"), in both accents, and function words
get their weak forms; which form was spoken is left to the aligner. Words that the dictionaries lack are read by the
G2P network of hibari-tts.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from importlib import metadata
from typing import Any

from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines.kaldi_gmm.path_search import Variants
from bystander.tasks.engines.kaldi_gmm.pronunciations import PronouncedWord

MAX_VARIANTS = 8
_TAGS = ("NN", "VB", "VBD", "JJ", "RB", "IN", "DT")
_KNOWN_RATING = 3
_RULES = "1"  # raise when the mapping from words to phones changes

# fmt: off
PHONES = (
    "A", "I", "O", "Q", "W", "Y", "a", "b", "d", "f", "h", "i", "j", "k", "l", "m", "n", "p", "s", "t", "u", "v", "w",
    "z", "æ", "ð", "ŋ", "ɑ", "ɒ", "ɔ", "ə", "ɛ", "ɜ", "ɡ", "ɪ", "ɹ", "ʃ", "ʊ", "ʌ", "ʒ", "ʤ", "ʧ", "θ", "T",
)
# fmt: on
_FOLDED = {
    "ᵊ": "ə",
    "ᵻ": "ɪ",
    "ɐ": "ə",
    "ɾ": "T",
    "r": "ɹ",
    "g": "ɡ",
    "e": "ɛ",
    "o": "O",
    "ɚ": "əɹ",
    "ɝ": "ɜɹ",
    "x": "k",
}
_FORMS = {
    "a": ("ə", "A"),
    "an": ("ən", "æn"),
    "and": ("ænd", "ənd", "ən", "n"),
    "are": ("ɑɹ", "əɹ", "ɑ", "ə"),
    "as": ("æz", "əz"),
    "at": ("æt", "ət"),
    "but": ("bʌt", "bət", "bʌT"),
    "can": ("kæn", "kən"),
    "could": ("kʊd", "kəd"),
    "for": ("fɔɹ", "fəɹ", "fɔ", "fə"),
    "from": ("fɹʌm", "fɹəm", "fɹɒm"),
    "had": ("hæd", "həd", "əd"),
    "has": ("hæz", "həz", "əz"),
    "have": ("hæv", "həv", "əv"),
    "he": ("hi", "i"),
    "her": ("hɜɹ", "həɹ", "əɹ", "hɜ", "hə"),
    "him": ("hɪm", "ɪm"),
    "his": ("hɪz", "ɪz"),
    "of": ("ʌv", "əv", "ɒv", "ə"),
    "or": ("ɔɹ", "əɹ", "ɔ"),
    "that": ("ðæt", "ðət", "ðæT"),
    "the": ("ðə", "ði"),
    "them": ("ðɛm", "ðəm", "əm"),
    "to": ("tu", "tə", "tʊ", "Tə"),
    "was": ("wʌz", "wəz", "wɒz"),
    "were": ("wɜɹ", "wəɹ", "wɜ", "wə"),
    "would": ("wʊd", "wəd"),
    "you": ("ju", "jə"),
    "your": ("jɔɹ", "jʊɹ", "jəɹ", "jɔ"),
    "uh": ("ʌ", "ə", "ɜ"),
    "um": ("ʌm", "əm"),
    "er": ("ɜ", "ɜɹ"),
    "ah": ("ɑ",),
    "huh": ("hʌ", "ʌ"),
    "hm": ("hm", "m"),
    "hmm": ("hm", "hmm", "m"),
    "mm": ("m", "mm"),
    "mhm": ("mhm", "mm", "hm"),
    "mmhmm": ("mhm", "mhmm", "mm"),
    "uhhuh": ("əhʌ", "ʌhʌ", "əʌ"),
    "yeah": ("jɛə", "jæ", "jɛ", "jɛɹ"),
    "yep": ("jɛp",),
    "nah": ("næ", "nɑ"),
    "okay": ("OkA", "QkA", "kA"),
    "ok": ("OkA", "QkA", "kA"),
    "oh": ("O", "Q"),
    "wow": ("wW",),
}
"""Forms of words that are reduced in running speech or that dictionaries spell out, by the word's letters."""


class EnglishPronouncer:
    """Pronounces English words; numbers, times, money and abbreviations are read as hibari-tts reads them."""

    def __init__(self) -> None:
        """Load both dictionaries (1.5 s, 150 MB).

        Raises:
            EngineSetupError: hibari-tts is missing.
        """
        try:
            from hibari.g2p import G2P
            from hibari.g2p.token import Tok
        except ImportError as exc:
            raise EngineSetupError("the package hibari-tts is missing; run: pip install hibari-tts") from exc
        self._accents = (G2P(), G2P(british=True))
        self._token = Tok
        self._lock = threading.Lock()
        self._look_up = lru_cache(maxsize=20_000)(self._find_variants)

    @property
    def version(self) -> str:
        return f"hibari-tts {metadata.version('hibari-tts')}, rules {_RULES}"

    @property
    def phones(self) -> tuple[str, ...]:
        return PHONES

    def pronounce(self, words: Sequence[str]) -> list[PronouncedWord | None]:
        with self._lock:
            return [self._look_up(word) for word in words]

    def _find_variants(self, word: str) -> PronouncedWord | None:
        text = word.replace("’", "'").replace("‘", "'").strip("'\"“”()[]{}<>*_~…—–-.,;:!?¿¡ ")
        if text.isascii() and text.isalpha() and text.isupper() and text.casefold() in _FORMS:
            text = text.casefold()  # a transcript in capitals
        forms = _FORMS.get(re.sub(r"[^a-z]", "", text.casefold()))
        if forms is not None and not re.search(r"[0-9]", text):
            return PronouncedWord(tuple(tuple(form) for form in forms))
        found: dict[tuple[str, ...], None] = {}
        known = True
        for accent in self._accents:
            for number, (phones, rating) in enumerate(self._read_accent(accent, text)):
                if phones:
                    found.setdefault(phones)
                    found.setdefault(tuple("t" if phone == "T" else phone for phone in phones))
                    known = known and (rating >= _KNOWN_RATING or number > 0)
        if not found:
            return None
        variants: Variants = tuple(found)[:MAX_VARIANTS]
        return PronouncedWord(variants, in_vocabulary=known)

    def _read_accent(self, accent: Any, text: str) -> list[tuple[tuple[str, ...], int]]:
        """Return phones and rating for the tag that the tagger gives, then for the other parts of speech."""
        tokens = accent.tokenize(text)
        readings = [_read_tokens(accent.phonemize_tokens(tokens))]
        if len(tokens) == 1 and text.isalpha():
            for tag in _TAGS:
                readings.append(_read_tokens(accent.phonemize_tokens([self._token(text, tag)])))
        return readings


def fold_phonemes(phonemes: str) -> tuple[str, ...]:
    """Return the phones of a phoneme string of misaki; stress, length, spaces and unknown symbols fall away."""
    folded = "".join(_FOLDED.get(symbol, symbol) for symbol in phonemes)
    return tuple(symbol for symbol in folded if symbol in _PHONE_SET)


_PHONE_SET = frozenset(PHONES)


def _read_tokens(tokens: Sequence[Any]) -> tuple[tuple[str, ...], int]:
    phones = fold_phonemes("".join(token.phonemes or "" for token in tokens))
    ratings = [token.rating for token in tokens if token.rating is not None and token.phonemes]
    return phones, min(ratings, default=0)
