"""Spoken text and its words: which characters it holds, and which words say what it is about. English."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

ELLIPSIS: Final = "..."

_WORD = re.compile(r"[A-Za-z0-9]+(?:'[A-Za-z]+)*")
_SPEAKABLE = re.compile(r"[A-Za-z0-9.,?! ]|(?<=[A-Za-z0-9])'(?=[A-Za-z])")
_STRAIGHTENED = str.maketrans({"\u2019": "'", "\u2018": "'", "\u2026": ELLIPSIS, "\u00a0": " "})

_ENDINGS: Final = ("ing", "ies", "es", "ed", "s", "e", "y")


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


# Words that say nothing of what a text is about. Contractions stand without their apostrophe.
_FUNCTION_WORDS: Final = frozenset(
    """
    a about actually after again ah all already also am an and any anything are arent around as at back be because
    been before being better but by can cant could couldnt did didnt do does doesnt doing done dont down each else
    even ever every for from get gets getting give go going gonna good got great had has hasnt have havent having he
    hello her here hes hey hi him his hold hows how however i id if ill im in instead into is isnt it its ive just
    keep kind know last let lets like little ll look lot made make makes many may maybe me mean might mind mine more
    most much must my myself need needs never new next nice no not nothing now of off oh ok okay on once one only or
    other our out over own perfect please put quite rather re really right said same say says see shall she shes
    should so some someone something soon sorry still such sure take tell than thank thanks that thats the their
    them then there theres these they theyre thing things think this those though through till time to today too try
    um uh up us use used ve very wait want wants was way we well went were weve what whats when where which while
    who whos why will with without wont would yeah yes yet you youd youll your youre yourself
    """.split()
)
_NUMBER_WORDS: Final = frozenset(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million half quarter
    first second third oclock am pm
    """.split()
)
ASKING_STEMS: Final = frozenset(
    _stem(word)
    for word in """
    add ask assistant call check display explain find inform list open play remind set show start stop turn switch
    olly siri alexa google robot computer
    """.split()
)
"""Stems of words of asking an assistant that a rewrite may add, drop or swap: "put on" for "play"."""


def straighten_marks(text: str) -> str:
    """Return `text` with plain apostrophes, dots and spaces for their typographic kin."""
    return text.translate(_STRAIGHTENED)


def clean_spoken_text(text: str, keep_apostrophes: bool) -> str:
    """Return `text` with straight apostrophes (or none), hyphens as spaces, and single spaces."""
    text = straighten_marks(text)
    text = re.sub(r"(?<=\w)[-\u2010\u2011](?=\w)", " ", text)
    text = " ".join(text.split())
    return text if keep_apostrophes else text.replace("'", "")


def is_speakable(text: str) -> bool:
    """Whether `text` has a letter, and holds only letters, digits, spaces, . , ? ! and apostrophes inside words."""
    return bool(re.search("[A-Za-z]", text)) and not _SPEAKABLE.sub("", text)


def find_unspeakable(text: str) -> tuple[int, str] | None:
    """Return the position (from 0) and the character of the first that a voice stumbles on, or None."""
    speakable = {i for found in _SPEAKABLE.finditer(text) for i in range(*found.span())}
    return next(((i, sign) for i, sign in enumerate(text) if i not in speakable), None)


def split_words(text: str) -> list[str]:
    """Return the words of `text`, in lower case, with their apostrophes and without punctuation."""
    return [word.lower() for word in _WORD.findall(text)]


def list_content_words(text: str) -> list[str]:
    """Return the words that say what `text` is about, in order, each reduced to a stem."""
    words = (word.replace("'s", "").replace("'", "") for word in split_words(text))
    return [
        _stem(word) for word in words if word not in _FUNCTION_WORDS and word not in _NUMBER_WORDS and word.isalpha()
    ]
