"""Whether an answer holds a reference answer, word by word: a check on the judge of SD-QA that needs no model."""

from __future__ import annotations

import re
import unicodedata

_ARTICLES = frozenset({"a", "an", "the"})
_WORD = re.compile(r"[^\W_]+(?:[.,'’][^\W_]+)*")


def holds_reference(answer: str, reference: str) -> bool:
    """Return whether the words of `reference` stand in `answer`, in their order and next to each other.

    Both are normalised as for SQuAD's exact match (Rajpurkar et al. 2016): lower case, no punctuation, no articles;
    accents are dropped too. A reference without any word is held by no answer.
    """
    wanted, said = _list_words(reference), _list_words(answer)
    if not wanted:
        return False
    # One blank around each word: "art" must not be found in "party".
    return f" {' '.join(wanted)} " in f" {' '.join(said)} "


def _list_words(text: str) -> list[str]:
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    words = (re.sub(r"[.,'’]", "", word) for word in _WORD.findall(plain))
    return [word for word in words if word not in _ARTICLES]
