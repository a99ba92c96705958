"""Transcripts as people would write them: case, marks at the end, and only characters that are spoken. English."""

from __future__ import annotations

import re
from typing import Final

from bystander.tasks.texts.spoken_text import clean_spoken_text

_SPELT = re.compile(r"\b((?:[A-Za-z]_){1,8}[A-Za-z]?)(?=\b|_|')")
_ASIDE = re.compile(r"[\"\u201c\u201d(){}\[\]*~]")
_PAUSES = re.compile(r"\s*(?:--+|[;:\u2013\u2014])\s*")
_DANGLING = re.compile(r"(?<=\w)-+(?!\w)|(?<!\w)-+(?=\w)")
_LONE_QUOTE = re.compile(r"(?<![A-Za-z0-9])'|'(?![A-Za-z])")
_SPACED_MARK = re.compile(r"\s+(?=[.,?!])")
_SIGNS: Final = {"&": " and ", "%": " percent", "@": " at ", "+": " plus ", "/": " ", "_": " "}
_I = re.compile(r"\bi\b(?=$|[\s'.,?!])")


def is_upper_case(text: str) -> bool:
    """Whether a transcript is in capitals throughout, so that they say nothing."""
    letters = [sign for sign in text if sign.isalpha()]
    return len(letters) > 1 and all(sign.isupper() for sign in letters)


def ends_sentence(text: str) -> bool:
    """Whether a transcript ends with the mark of a sentence's end."""
    return text.rstrip().rstrip("\"')\u201d").endswith((".", "?", "!"))


def write_sentence(text: str, asks: bool) -> str:
    """Return a transcript as a sentence that can be spoken: one capital at its start, a mark at its end.

    Spelt letters are joined (T_V_ is TV), signs are written out, what is broken off keeps no hyphen. Text in capitals
    is put into small letters; names are lost with them. `asks` says which mark is missing at the end.
    """
    if is_upper_case(text):
        text = text.lower()
    text = _SPELT.sub(lambda match: match.group(1).replace("_", "").upper(), text)
    text = _DANGLING.sub("", _PAUSES.sub(", ", _ASIDE.sub("", text)))
    for sign, said in _SIGNS.items():
        text = text.replace(sign, said)
    text = clean_spoken_text(text, keep_apostrophes=True)
    text = _SPACED_MARK.sub("", _LONE_QUOTE.sub("", text))
    text = _I.sub("I", " ".join(text.split()).strip(" ,"))
    if not text:
        return ""
    if text[-1] not in ".?!":
        text += "?" if asks else "."
    return text[0].upper() + text[1:]
