"""The letter that an answer to a multiple-choice question chooses."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bystander.schemas.voicebench import CHOICES

_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "（": "(", "）": ")", "：": ":", "．": "."})
_TEX = re.compile(r"\\(?:boxed|text|textbf|mathbf|mathrm)\s*\{|\\[()\[\]]|[${}]")
_MARKUP = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)")
_ROLE = re.compile(r"<\|?\w+\|?>")

_ANY = f"[{CHOICES}{CHOICES.lower()}]"
_LETTER = rf"""["'(\[]*(?P<letter>{_ANY})\b(?!'\w)["')\]]*"""
# A lower-case or bare "a" is far more often an article than a choice: what follows must end a phrase.
_ENDS = r"(?=\s*(?:$|[.,:;!?)\]\n-])|\s+(?:because|since|as|which|is|was|would|and\s+not|not|for)\b|\s*\()"
_NAMED = rf"(?:(?:option|choice|letter|answer)\s*:?\s*)?{_LETTER}{_ENDS}"
_HEDGE = (
    r"(?:(?:most\s+)?(?:likely|probably|definitely|clearly|simply|indeed|therefore|thus|actually|still|then)\s*,?\s+)*"
)
# Where a letter can be the subject: not after just any word ("vitamin C is the best choice").
_CLAUSE = (
    r"(?:^|[.,;:!?\n(]\s*|\b(?:that|so|and|but|think|believe|say|then|thus|hence|therefore|only|option|choice)\s+)"
)

_STATEMENTS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # "The correct answer is B", "my final answer would be: (C)", "Answer: D", "the right option is option A"
        r"\b(?:answer|option|choice|solution|response)(?:\s+(?:to|for|of)\s[^.\n]{1,80}?)?"
        r"(?:\s*:\s*|\s+(?:is|was|would\s+be|should\s+be|must\s+be|will\s+be|has\s+to\s+be)\s*:?\s*,?\s*)"
        rf"{_HEDGE}(?:the\s+)?{_NAMED}",
        # "I would choose B", "I'd go with option C", "I pick D", "we select (A)"
        r"\b(?:i|we)\s*(?:'d|'ll|\s+would|\s+will|\s+must|\s+am\s+going\s+to|'m\s+going\s+to)?\s+"
        r"(?:choose|pick|select|say|go\s+(?:with|for)|guess|think(?:\s+it(?:\s+is|'s))?|believe(?:\s+it(?:\s+is|'s))?)"
        rf"\s+(?:that\s+)?(?:it\s+is\s+|it's\s+)?(?:the\s+)?{_NAMED}",
        # "It's B.", "that would be (C)", "it is most likely D"
        rf"\b(?:it|that|this)(?:'s|\s+is|\s+would\s+be|\s+must\s+be|\s+should\s+be)\s+{_HEDGE}(?:the\s+)?{_NAMED}",
        # "B is the correct answer", "Option C would be right", "(D) is the best choice"
        rf"{_CLAUSE}(?:\b(?:option|choice|letter|answer)\s+)?{_LETTER}(?:\s*[:.)][^.\n]{{1,80}}?)?\s*,?\s*"
        r"(?:is|would\s+be|seems|looks|must\s+be)\s+"
        rf"{_HEDGE}(?:the\s+)?(?:most\s+)?(?:correct|right|best|appropriate|accurate|likely|answer)\b",
    )
)
_WHOLE = re.compile(rf"^\s*(?:(?:option|choice|letter|answer)\s*:?\s*)?{_LETTER}[\s.,:;!?)]*$", re.IGNORECASE)
_LEADING: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"[(\[](?P<letter>{_ANY})[)\]]",
        rf"[\"']?(?P<letter>{_ANY})[\"']?\s*[.,:;)-](?=\s|$)",
        rf"(?:option|choice|letter)\s+[\"'(]*(?P<letter>{_ANY})\b(?!'\w)",
    )
)
# "A or B", "(A), (B)", "option A/option B"
_ANOTHER = re.compile(
    rf"[\s)\]\"']*(?:[,/&]\s*(?:or\b|and\b)?|\bor\b|\band\b)[\s(\[\"']*(?:(?:option|choice|letter)\s+)?[(\[\"']*{_ANY}"
    r"(?=\s*(?:$|[.,;:!?)\]/\"']|or\b|and\b|\())",
    re.IGNORECASE,
)
_MENTION = re.compile(
    rf"\(\s*(?P<bracketed>{_ANY})\s*\)"
    rf"|\b(?:option|choice|letter)\s+[\"'(]*(?P<named>{_ANY})\b(?!'\w)"
    rf"|(?<![\w'.])(?P<listed>{_ANY})\s*[:)](?=\s|$)"
    rf"|(?:^|[.!?\n])\s*(?P<alone>{_ANY})\.(?=\s|$)",
    re.IGNORECASE,
)
_REFUTED = re.compile(
    r"\b(?:not|isn't|wasn't|never|neither|nor|rather\s+than|instead\s+of|incorrect|wrong)\W+(?:\w+\W+){0,2}$",
    re.IGNORECASE,
)
_AFTER_ARTICLE = re.compile(r"\s+[(\"'-]")  # "it is a (rather) long story"
_SEEN_BEFORE = 60  # characters before a letter in which it may be refuted


def read_choice(answer: str) -> str | None:
    """Return the letter (one of `CHOICES`) that an answer chooses, or None where it names none, or several.

    What an answer says outright counts first, and of several such statements the last, as a speaker may correct
    herself: "the answer is B", "I would go with (C)", "D is right". Else it is an answer that is or begins with a
    letter: "b", "(B)", "B. Lungs", "Option B". Else it is the only letter that it mentions as an option. A bare "a" or
    "A" before a word is an article. Nothing is guessed.
    """
    text = _clean(answer)
    if not text:
        return None
    if match := _WHOLE.match(text):
        return match["letter"].upper()
    stated = _find_statements(text)
    if stated:
        return stated[-1]
    for pattern in _LEADING:
        if match := pattern.match(text):
            letter = match["letter"].upper()
            # A list of options begins with a letter too, and chooses none.
            listed = _ANOTHER.match(text, match.end("letter")) or len(_list_mentions(text) - {letter}) > 1
            return None if listed else letter
    mentions = _list_mentions(text)
    return mentions.pop() if len(mentions) == 1 else None


def _clean(answer: str) -> str:
    text = answer.translate(_QUOTES)
    for pattern in (_ROLE, _TEX, _MARKUP):
        text = pattern.sub(" " if pattern is not _MARKUP else "", text)
    # Single blanks keep the patterns linear in the length of the answer.
    return re.sub(r"\n\s*", "\n", re.sub(r"[^\S\n]+", " ", text)).strip()


def _find_statements(text: str) -> Sequence[str]:
    found: list[tuple[int, str]] = []
    for pattern in _STATEMENTS:
        for match in pattern.finditer(text):
            article = match["letter"] == "a" and _AFTER_ARTICLE.match(text, match.end("letter"))
            if not article and not _is_refuted(text, match.start("letter")):
                found.append((match.start("letter"), match["letter"].upper()))
    return [letter for _, letter in sorted(found)]


def _list_mentions(text: str) -> set[str]:
    return {
        next(group for group in match.groups() if group).upper()
        for match in _MENTION.finditer(text)
        if not _is_refuted(text, match.start())
    }


def _is_refuted(text: str, at: int) -> bool:
    return _REFUTED.search(text[max(0, at - _SEEN_BEFORE) : at]) is not None
