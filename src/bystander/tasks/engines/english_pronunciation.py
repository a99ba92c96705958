"""Pronunciations of English words in CMU's phones: what a dictionary lacks comes from hibari-tts' rules."""

from __future__ import annotations

import re
import threading
import unicodedata
from typing import Any

from bystander.schemas.errors import EngineSetupError

CMU_PHONES = frozenset(
    "AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH".split()
)
"""The phones of CMUdict, without stress: http://www.speech.cs.cmu.edu/cgi-bin/cmudict."""

SPOKEN_SOUNDS: dict[str, str] = {
    "mm-hmm": "M HH M",
    "mm-hm": "M HH M",
    "mhm": "M HH M",
    "mhmm": "M HH M",
    "mmhm": "M HH M",
    "mmhmm": "M HH M",
    "um-hum": "AH M HH AH M",
    "uh-hum": "AH HH AH M",
    "mm": "M",
    "mmm": "M",
    "hm": "HH M",
    "hmm": "HH M",
    "hmmm": "HH M",
    "uh-huh": "AH HH AH",
    "uhhuh": "AH HH AH",
    "uh-uh": "AH AH",
    "nuh-uh": "N AH AH",
    "uhm": "AH M",
    "umm": "AH M",
    "er": "ER",
    "erm": "ER M",
    "ooh": "UW",
    "aah": "AA",
    "yep": "Y EH P",
    "yup": "Y AH P",
    "nah": "N AA",
    "gonna": "G AH N AH",
    "wanna": "W AA N AH",
    "gotta": "G AA T AH",
    "kinda": "K AY N D AH",
    "alright": "AO L R AY T",
    "'cause": "K AH Z",
    "'em": "AH M",
    "y'know": "Y AH N OW",
    "yknow": "Y AH N OW",
}
"""Sounds and short forms of conversation that CMUdict lacks or spells otherwise ("hmm" is `HH M`, not `HH AH M`)."""

_SIGNS = {"&": "and", "+": "plus", "%": "percent", "=": "equals", "@": "at"}
"""Signs that stand alone as a word."""

# misaki's symbols (https://github.com/hexgrad/misaki/blob/main/EN_PHONES.md), longest first.
_MISAKI: tuple[tuple[str, str], ...] = (
    ("əɹ", "ER"), ("ɜɹ", "ER"), ("ɜː", "ER"), ("tʃ", "CH"), ("dʒ", "JH"),
    ("A", "EY"), ("I", "AY"), ("O", "OW"), ("Q", "OW"), ("W", "AW"), ("Y", "OY"),
    ("a", "AE"), ("æ", "AE"), ("ɐ", "AH"), ("ə", "AH"), ("ᵊ", "AH"), ("ʌ", "AH"), ("ɑ", "AA"), ("ɒ", "AA"),
    ("ɔ", "AO"), ("e", "EH"), ("ɛ", "EH"), ("ɜ", "ER"), ("ɪ", "IH"), ("ᵻ", "IH"), ("i", "IY"), ("u", "UW"),
    ("ʊ", "UH"), ("b", "B"), ("d", "D"), ("ð", "DH"), ("f", "F"), ("ɡ", "G"), ("g", "G"), ("h", "HH"), ("ʤ", "JH"),
    ("j", "Y"), ("k", "K"), ("l", "L"), ("m", "M"), ("n", "N"), ("ŋ", "NG"), ("p", "P"), ("ɹ", "R"), ("r", "R"),
    ("s", "S"), ("ʃ", "SH"), ("t", "T"), ("T", "T"), ("ɾ", "T"), ("θ", "TH"), ("v", "V"), ("w", "W"), ("x", "K"),
    ("z", "Z"), ("ʒ", "ZH"), ("ʧ", "CH"),
)  # fmt: skip
_EDGES = re.compile(r"^[^\w'&$#+]+|[^\w'&%$#+.]+$")
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'", "\uff07": "'", "`": "'", "\u2010": "-"})


class EnglishPronouncer:
    """Pronounces by rules. Calls from several threads take turns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: Any = None

    def pronounce(self, text: str) -> list[tuple[str, ...]]:
        """Return the CMU phones of each word that a written word, number or abbreviation is spoken as.

        "7:30" gives those of "seven" and of "thirty". Empty where there is nothing that can be pronounced.

        Raises:
            EngineSetupError: hibari-tts is missing.
        """
        with self._lock:
            if self._rules is None:
                self._rules = _open_rules()
            symbols: str = self._rules(text)
        groups = (convert_misaki(group) for group in symbols.split())
        return [group for group in groups if group]


def convert_misaki(symbols: str) -> tuple[str, ...]:
    """Return the CMU phones of a word in misaki's alphabet; stress, length and punctuation are left out."""
    phones: list[str] = []
    place = 0
    symbols = symbols.replace("ˈ", "").replace("ˌ", "")
    while place < len(symbols):
        for symbol, phone in _MISAKI:
            if symbols.startswith(symbol, place):
                if not phones or phones[-1] != phone:  # one long sound, "hmm"
                    phones.append(phone)
                place += len(symbol)
                break
        else:
            place += 1
    return tuple(phones)


def list_spellings(word: str) -> list[str]:
    """Return how a dictionary may spell a word as it is written, likeliest first; empty for punctuation alone.

    Small letters, straight apostrophes, no accents that English could do without, no punctuation around: "(Café,"
    gives "café" and "cafe", "U.S." both itself and "u.s".
    """
    folded = unicodedata.normalize("NFKC", word).translate(_APOSTROPHES).lower()
    core = _EDGES.sub("", folded)
    if not any(character.isalnum() for character in core):
        return [_SIGNS[folded]] if folded in _SIGNS else []
    spellings = [core, core.strip("."), core.strip(".'")]
    plain = "".join(c for c in unicodedata.normalize("NFKD", spellings[-1]) if not unicodedata.combining(c))
    return list(dict.fromkeys(spelling for spelling in (*spellings, plain) if spelling))


def _open_rules() -> Any:
    try:
        from hibari.g2p import G2P
    except ImportError as exc:
        raise EngineSetupError("the package hibari-tts is missing; run: pip install hibari-tts") from exc
    return G2P(british=False)
