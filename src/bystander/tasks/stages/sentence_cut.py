"""The cut of a request that somebody interrupts."""

from __future__ import annotations

from typing import Final

import numpy as np

from bystander.tasks.texts.spoken_text import ELLIPSIS, split_words

MIN_WORDS_BEFORE_CUT: Final = 3

_UNHEARD: Final = frozenset(
    """
    a an the this our my your to of for from in on at up by as and or is it i its what's than with so that
    """.split()
)
"""Words that are not cut after: spoken last, they are so weak that they are heard as others or not at all."""


def cut_sentence(text: str, rng: np.random.Generator) -> str | None:
    """Return `text` cut after one of its words and ending in "...", or None if it is too short to be cut.

    At least `MIN_WORDS_BEFORE_CUT` words and half of all are kept, so that the listener knows what it is about, and at
    least the last word is lost. The last word kept is one that can be heard, unless there is no such place.
    """
    words = text.split()
    spoken = [i for i, word in enumerate(words) if split_words(word)]
    shortest = max(MIN_WORDS_BEFORE_CUT, -(-len(spoken) // 2))
    places = range(shortest, len(spoken))
    clear = [kept for kept in places if split_words(words[spoken[kept - 1]])[-1] not in _UNHEARD]
    choices = clear or list(places)
    if not choices:
        return None
    kept = choices[int(rng.integers(len(choices)))]
    return " ".join(words[: spoken[kept - 1] + 1]).rstrip(".,?!") + ELLIPSIS
