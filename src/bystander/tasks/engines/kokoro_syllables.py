"""From Mandarin syllables in Pinyin to the symbols that Kokoro was trained with.

Kokoro's Mandarin voices were trained on a phonemic transcription in IPA whose tones are arrows after the vowel: `→`
high, `↗` rising, `↓` low, `↘` falling, none for the neutral tone. The conventions are misaki's (Apache-2.0), which took
them from pinyin-to-ipa (MIT): a syllable has to come out as the network knows it.
"""

from __future__ import annotations

from functools import cache
from typing import Final

_TONES: Final = {"1": "→", "2": "↗", "3": "↓", "4": "↘", "5": ""}
_INITIALS: Final = {
    **{"b": "p", "p": "pʰ", "m": "m", "f": "f", "d": "t", "t": "tʰ", "n": "n", "l": "l", "g": "k", "k": "kʰ", "h": "x"},
    **{"j": "ʨ", "q": "ʨʰ", "x": "ɕ", "zh": "ꭧ", "ch": "ꭧʰ", "sh": "ʂ", "r": "ɻ", "z": "ʦ", "c": "ʦʰ", "s": "s"},
    "": "",
}
# Glide, vowel, ending: the tone stands after the vowel.
_FINALS: Final = {
    **{"a": " a ", "ai": " ai ", "an": " a n", "ang": " a ŋ", "ao": " au ", "e": " ɤ ", "ei": " ei ", "en": " ə n"},
    **{"eng": " ə ŋ", "i": " i ", "ia": "j a ", "ian": "j ɛ n", "iang": "j a ŋ", "iao": "j au ", "ie": "j e "},
    **{"in": " i n", "ing": " i ŋ", "iong": "j ʊ ŋ", "iou": "j ou ", "ong": " ʊ ŋ", "ou": " ou ", "u": " u "},
    **{"ua": "w a ", "uai": "w ai ", "uan": "w a n", "uang": "w a ŋ", "uei": "w ei ", "uen": "w ə n", "ueng": "w ə ŋ"},
    **{"uo": "w o ", "o": "w o ", "ü": " y ", "üe": "ɥ e ", "üan": "ɥ ɛ n", "ün": " y n"},
}
# Interjections and syllabic nasals have no initial and a vowel, if any, that no other syllable has.
_WHOLE: Final = {"er": " ɚ ", "o": " ɔ ", "io": "j ɔ ", "ê": " ɛ ", "m": " m ", "n": " n ", "ng": " ŋ ", "hm": "h m "}
_WHOLE_MORE: Final = {"hng": "h ŋ "}
_APICAL_VOWEL: Final = " ɨ "
_APICAL_AFTER: Final = frozenset({"zh", "ch", "sh", "r", "z", "c", "s"})


@cache
def convert_syllable(pinyin: str) -> str:
    """Return the symbols of a syllable with its tone as the last character, such as `zhong1` or `lü4` (5 is neutral).

    Raises:
        ValueError: it is no syllable of Mandarin.
    """
    from pypinyin.contrib.tone_convert import to_finals, to_initials

    syllable, tone = pinyin[:-1].replace("v", "ü"), pinyin[-1:]
    if tone not in _TONES:
        raise ValueError(f"{pinyin!r} has no tone")
    parts = _WHOLE.get(syllable) or _WHOLE_MORE.get(syllable)
    initial = ""
    if parts is None:
        initial = to_initials(syllable, strict=True)
        final = to_finals(syllable, strict=True, v_to_u=True)
        apical = final == "i" and initial in _APICAL_AFTER
        parts = _APICAL_VOWEL if apical else _FINALS.get(final)
    if parts is None or initial not in _INITIALS:
        raise ValueError(f"{pinyin!r} is no syllable of Mandarin")
    glide, vowel, ending = parts.split(" ")
    return f"{_INITIALS[initial]}{glide}{vowel}{_TONES[tone]}{ending}"
