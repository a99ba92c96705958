"""Making a written English request speakable: only letters, apostrophes inside words, and `. , ? !`."""

from __future__ import annotations

import html
import re
import unicodedata

from bystander.schemas.engines import RowFault
from bystander.schemas.tpi_params import NormaliseQueries
from bystander.tasks.stages import query_checks
from bystander.tasks.stages.number_checks import find_unspeakable_number
from bystander.tasks.stages.spoken_numbers import expand_numbers
from bystander.tasks.stages.spoken_words import (
    breaks_off,
    end_sentence,
    expand_words,
    spell_acronyms,
    strip_assistant_name,
)

_MAX_RAW_CHARACTERS = 4000  # nothing so long becomes a short request; keeps the patterns fast
_MAX_SHRINKAGE = 4  # writing out makes a text longer as a rule; this leaves room for emoji and decoration
_MAX_CONTROL_SHARE = 0.3
_MAX_WORD_LETTERS = 40  # the longest words of dictionaries have less; longer ones are noise
_ANSI_SEQUENCE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]")  # ECMA-48, section 5.4

_SIGNS_BEFORE_FOLDING = {
    "™": "", "℠": "", "®": "", "©": "", "²": " squared ", "³": " cubed ", "№": "number ",
    "½": " 1/2", "¼": " 1/4", "¾": " 3/4",
    "⅓": " 1/3", "⅔": " 2/3", "⅛": " 1/8", "⅜": " 3/8", "⅝": " 5/8", "⅞": " 7/8",
    "π": "pi", "\u00b5": "micro ", "\u03bc": "micro ", "\u03a9": "ohm", "\u2126": "ohm",
    "‘": "'", "’": "'", "‚": "'", "‛": "'", "ʼ": "'", "ʻ": "'", "´": "'", "`": "'", "′": "'", "＇": "'",
    "“": '"', "”": '"', "„": '"', "‟": '"', "«": '"', "»": '"', "″": '"', "‹": '"', "›": '"',
    "‐": "-", "‑": "-", "‒": "-", "–": "–", "—": " , ", "―": " , ", "−": "-", "…": "...",
    "•": ",", "·": " ", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ß": "ss", "ł": "l", "Ł": "L",
    "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "þ": "th", "Þ": "Th", "ı": "i", "ħ": "h", "Ħ": "H", "ŋ": "ng",
    "≈": " about ", "≤": " less than or equal to ", "≥": " greater than or equal to ", "≠": " not equal to ",
    "→": " to ",
    "√": " square root of ", "∞": " infinity ", "×": " times ", "÷": " divided by ", "±": " plus or minus ",
}  # fmt: skip
_FOLDING = str.maketrans(_SIGNS_BEFORE_FOLDING)
_SIGN_WORDS = (
    (re.compile(r"(?<=\b[Cc])\+\+"), " plus plus"),
    (re.compile(r"(?<=\b[CF])#(?!\w)"), " sharp"),
    (re.compile(r"#(?=\w)"), " hashtag "),
    (re.compile(r"\s*&\s*"), " and "),
    (re.compile(r"\s*@\s*"), " at "),
    (re.compile(r"%"), " percent "),
    (re.compile(r"\+(?!\s*$)"), " plus "),
    (re.compile(r"(?<=\S)\s*=\s*(?=\S)"), " equals "),
    (re.compile(r"~\s?(?=\w)"), " about "),
    (re.compile(r"(?<=\w)\s?\^\s?(?=\w)"), " to the power of "),
    (re.compile(r"(?<=\w) < (?=\w)"), " less than "),
    (re.compile(r"(?<=\w) > (?=\w)"), " greater than "),
    (re.compile(r"(?<=\w) \* (?=\w)"), " times "),
    (re.compile(r"\band/or\b", re.IGNORECASE), "and or"),
    (re.compile(r"(?<=\w)\s?/\s?(?=\w)"), " or "),
    (re.compile(r"°\s?F\b"), " Fahrenheit "),
    (re.compile(r"°\s?C\b"), " Celsius "),
    (re.compile(r"°"), " degrees "),
    (re.compile(r"€"), " euros "),
    (re.compile(r"£"), " pounds "),
    (re.compile(r"¥"), " yen "),
    (re.compile(r"₹"), " rupees "),
    (re.compile(r"§"), " section "),
)
_EMPHASIS = re.compile(r"(\*\*|__|~~|`+)(?=\S)(.+?)(?<=\S)\1|(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])")
_EMOTICON = re.compile(r"(?<!\S)[:;=8][-o^]?[)(DPpO3|/](?!\S)|<3(?!\w)|\^\^|\bxD\b")
_LINE_BREAK = re.compile(r"[ \t]*[\r\n\x0b\x0c\x85\u2028\u2029]+\s*")
_SOFT_BREAK = re.compile(r"(?<=[.,?!:;])[ \t]*[\r\n\x0b\x0c\x85\u2028\u2029]+\s*|[ \t]*[\r\n]+\s*(?=[a-z])")
_DOMAIN = re.compile(
    r"(?<=[A-Za-z0-9])\.(?=(?:com|org|net|io|edu|gov|tv|fm|ai|app|dev|js|py|me|uk|de|us|ca|in|co)\b(?!\s?\.\s[a-z]))",
    re.IGNORECASE,
)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*", re.ASCII)
_VOWEL = re.compile(r"[aeiouy]", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*")
_CHECKS = (
    query_checks.find_other_script,
    query_checks.find_url,
    query_checks.find_latex,
    query_checks.find_code,
    query_checks.find_markup,
)
SPEAKABLE = re.compile(r"[A-Z](?:[A-Za-z]|'(?=[A-Za-z])|[.,?!](?= |$)| (?=[A-Za-z]))*[.?!]")
"""What every request matches."""


def make_speakable(text: str, params: NormaliseQueries) -> str | RowFault:
    """Return the request as it is to be spoken, or why it cannot be.

    Reasons: `empty`, `too_short`, `too_long`, `code`, `markup`, `url`, `control_characters`, `wrong_language`,
    `no_words`, `unspeakable_number` (see `find_unspeakable_number`), `incomplete` (it breaks off in
    an article, a possessive, a preposition without its clause or a conjunction).
    """
    if len(text) > _MAX_RAW_CHARACTERS:
        return RowFault("too_long", f"has {len(text)} characters")
    cleaned = _strip_controls(html.unescape(text))
    if isinstance(cleaned, RowFault):
        return cleaned
    if not cleaned.strip():
        return RowFault("empty")
    for check in _CHECKS:
        fault = check(cleaned)
        if fault is not None:
            return fault
    fault = find_unspeakable_number(_fold_letters(cleaned))
    if fault is not None:
        return fault
    length = len(" ".join(cleaned.split()))
    if length > _MAX_SHRINKAGE * params.max_characters:
        return RowFault("too_long", f"has {length} characters where {params.max_characters} may be spoken")
    request = _write_out(cleaned)
    if not params.keep_apostrophes:
        request = request.replace("'", "")
    return _check_words(request, params)


def _strip_controls(text: str) -> str | RowFault:
    """Drop control and format characters, and signs without a sound such as emoji."""
    if text.isascii() and text.isprintable():
        return text
    text = _ANSI_SEQUENCE.sub("", text)
    kept: list[str] = []
    controls = 0
    for sign in text:
        category = unicodedata.category(sign)
        if sign == "\uf0b7":  # the bullet of a symbol font, common in texts copied from documents
            kept.append("•")
        elif sign in "\t\n\r\x0b\x0c\x85" or category in ("Zl", "Zp"):
            kept.append("\n" if sign not in "\t" else sign)
        elif category in ("Cc", "Cf"):
            controls += category == "Cc"
        elif sign == "\ufffd" or category in ("Co", "Cs", "Cn"):
            return RowFault(
                "control_characters", f"holds U+{ord(sign):04X}, a character lost in a conversion or unassigned"
            )
        elif category in ("So", "Sk", "Me") and sign not in _SIGNS_BEFORE_FOLDING and sign not in "^°":
            letters = unicodedata.normalize("NFKC", sign)  # `℃` is letters in one sign, an emoji is not
            kept.append(" " if letters == sign or letters.startswith(" ") else letters)
        else:
            kept.append(sign)
    if controls > _MAX_CONTROL_SHARE * len(text):
        return RowFault("control_characters", f"{controls} of {len(text)} characters are control characters")
    return "".join(kept)


def _fold_letters(text: str) -> str:
    """Return the text with letters and digits as ASCII ones, and typographic signs as their plain forms."""
    text = unicodedata.normalize("NFKC", text.translate(_FOLDING)).translate(_FOLDING)
    if text.isascii():
        return text
    folded: list[str] = []
    for sign in unicodedata.normalize("NFKD", text):
        if unicodedata.combining(sign):
            continue
        digit = unicodedata.digit(sign, None)
        folded.append(str(digit) if digit is not None and not sign.isascii() else sign)
    return "".join(folded)


def _write_out(text: str) -> str:
    text = _EMPHASIS.sub(lambda m: m[2] or m[3], text)
    text = _fold_letters(text)
    text = _EMOTICON.sub(" ", text)
    text = re.sub(r"^\s*(?:[-*>]|#{1,6})\s+", "", text)
    text = _LINE_BREAK.sub(", ", _SOFT_BREAK.sub(" ", text.strip()))
    text = _EMAIL.sub(lambda m: re.sub(r"[._-]", _name_email_sign, m[0]), text)
    text = _DOMAIN.sub(" dot ", text)
    text = strip_assistant_name(text)
    text = expand_words(text)
    text = expand_numbers(text)
    for pattern, words in _SIGN_WORDS:
        text = pattern.sub(words, text)
    text = _clean_punctuation(text)
    return end_sentence(spell_acronyms(text))


def _name_email_sign(match: re.Match[str]) -> str:
    return {".": " dot ", "_": " underscore ", "-": " dash "}[match[0]]


def _clean_punctuation(text: str) -> str:
    """Leave letters, inner apostrophes, single spaces and `. , ? !`."""
    text = re.sub(r"[()\[\]{}:;]|\s[-–]+\s|–", " , ", text)
    text = re.sub(r"[^A-Za-z'.,?! ]", " ", text)
    text = re.sub(r"(?<![A-Za-z])'+|'+(?![A-Za-z])", " ", text)
    text = re.sub(r"(\b[A-Z][a-z]+\s+[A-HJ-Z])\.(?=\s+[A-Z])", r"\1", text)  # an initial ends no sentence
    text = re.sub(r"\.{2,}\s+(?=[a-z])", ", ", text)
    text = re.sub(r"[\s.,?!]*[.,?!][\s.,?!]*", lambda m: f"{_pick_mark(m[0])} ", text)
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"^[.,?! ]+|[, ]+$", "", text)


def _pick_mark(run: str) -> str:
    return next(mark for mark in "?!.," if mark in run)


def _check_words(request: str, params: NormaliseQueries) -> str | RowFault:
    words = _WORD.findall(request)
    if not words or not any(_VOWEL.search(word) or (word.isupper() and 1 < len(word) < 6) for word in words):
        return RowFault("no_words", "holds no word that can be pronounced")
    fault = query_checks.find_other_language(words)
    if fault is not None:
        return fault
    longest = max(map(len, words))
    if longest > _MAX_WORD_LETTERS:
        return RowFault("too_long", f"has a word of {longest} letters")
    if len(words) < params.min_words:
        return RowFault("too_short", f"has {len(words)} of at least {params.min_words} words")
    if len(words) > params.max_words:
        return RowFault("too_long", f"has {len(words)} of at most {params.max_words} words")
    if len(request) > params.max_characters:
        return RowFault("too_long", f"has {len(request)} of at most {params.max_characters} characters")
    if breaks_off(request):
        return RowFault("incomplete", f"breaks off after {words[-1]!r}")
    return request
