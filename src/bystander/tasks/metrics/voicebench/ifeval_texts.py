"""What IFEval's rules count in an answer: words, sentences, paragraphs, the language."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

MIN_LETTERS_TO_TELL = 20
"""Below so many letters, no program tells English from its neighbours."""

# Abbreviations after which the next word begins no sentence.
_ABBREVIATIONS = frozenset(
    "a.m adm apr approx assn assoc aug ave blvd capt co col corp dec dept dr e.g est etc feb fig fri gen gov hon i.e "
    "inc jan jr jul jun lt ltd mar messrs mon mr mrs ms mt no nov oct p.m ph.d pp prof rep rev sat sen sept sgt sr st "
    "sun thu tue u.k u.n u.s univ vol vs wed".split()
)


def list_words(text: str) -> list[str]:
    """Return runs of letters, digits and underscores."""
    return re.findall(r"\w+", text)


def list_tokens(text: str) -> list[str]:
    """Return words and marks as the Penn Treebank cuts them ("do", "n't")."""
    return list(_open_word_tokenizer().tokenize(text))


def list_sentences(text: str) -> list[str]:
    """Return the sentences (Punkt by Kiss and Strunk 2006, with a list of English abbreviations, untrained)."""
    return list(_open_sentence_tokenizer().tokenize(text))


def split_at_asterisks(text: str) -> list[str]:
    """Return what stands between lines or runs of three asterisks, stripped."""
    return [piece.strip() for piece in re.split(r"\s?\*\*\*\s?", text)]


def is_in_language(text: str, language: str) -> bool:
    """Return whether `text` is in the language of a code such as `de`. A text without a letter is in none."""
    if not any(c.isalpha() for c in text):
        return False
    # The regional code for Chinese stands for any Chinese.
    return _classify(text) == language.lower().split("-", 1)[0]


def may_be_english(text: str) -> bool:
    """Return whether `text` is in English, or too short to tell.

    The case of its letters makes no difference, as what is asked about is often a text in capitals.
    """
    return sum(c.isalpha() for c in text) < MIN_LETTERS_TO_TELL or _classify(text) == "en"


def _classify(text: str) -> str:
    import py3langid

    return str(py3langid.classify(text.lower())[0])


@cache
def _open_word_tokenizer() -> Any:
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer()


@cache
def _open_sentence_tokenizer() -> Any:
    # Trained models are a download of nltk's at run time; the abbreviations do for English.
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    parameters = PunktParameters()
    parameters.abbrev_types = set(_ABBREVIATIONS)
    return PunktSentenceTokenizer(parameters)
