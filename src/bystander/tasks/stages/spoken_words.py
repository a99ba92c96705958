"""Abbreviations, acronyms, assistant names and sentence ends of spoken English requests."""

from __future__ import annotations

import re

_ABBREVIATIONS = {
    r"e\.\s?g\.,?": "for example",
    r"i\.\s?e\.,?": "that is",
    r"etc\b\.?": "et cetera",
    r"vs\b\.?": "versus",
    r"approx\.": "approximately",
    r"mr\b\.?": "Mister",
    r"mrs\b\.?": "Missus",
    r"dr\b\.?(?=\s[a-z])": "Doctor",
    r"prof\.": "Professor",
    r"jr\.": "Junior",
    r"sr\.": "Senior",
    r"dept\.": "department",
    r"(?:apt|appt)\.": "appointment",
    r"w/o\b": "without",
    r"w/(?=\s|\w)": "with ",
    r"b/c\b": "because",
    r"mins\b\.?": "minutes",
    r"hrs\b\.?": "hours",
    r"(?:pls|plz)\b": "please",
    r"(?:ft|feat)\.(?=\s[a-z])": "featuring",
    r"dj\b": "DJ",
    r"c/o\b": "care of",
}
_CASED_ABBREVIATIONS = {
    r"St\.?(?= [A-Z][a-z])": "Saint",
    r"(?<=[a-z] )[Ss]t\b\.?(?=\s*$|[,?!])": "street",
    r"(?<=[a-z] )[Aa]ve\b\.?(?=\s*$|[,?!])": "avenue",
    r"(?<=[a-z] )[Bb]lvd\b\.?": "boulevard",
    r"\bJan\.|\bjan\.": "January",
    r"\b[Ff]eb\.": "February",
    r"\b[Aa]ug\.": "August",
    r"\b[Ss]ept?\.(?! [A-Z])": "September",
    r"\b[Oo]ct\.": "October",
    r"\b[Nn]ov\.": "November",
    r"\b[Dd]ec\.": "December",
    r"\b[Mm]on\.(?=\s[a-z0-9])": "Monday",
    r"\b[Tt]ues?\.": "Tuesday",
    r"\b[Ww]eds?\.(?=\s[a-z0-9])": "Wednesday",
    r"\b[Tt]hurs?\.": "Thursday",
    r"\b[Ff]ri\.": "Friday",
}
_ABBREVIATION_RULES = [
    *((re.compile(rf"(?<![\w.]){pattern}", re.IGNORECASE), words) for pattern, words in _ABBREVIATIONS.items()),
    *((re.compile(pattern), words) for pattern, words in _CASED_ABBREVIATIONS.items()),
]
_DOTTED_LETTERS = re.compile(
    r"(?<![\w.])(?!(?:[aApP]\.\s?[mM]\b))[A-Za-z]\.(?:\s?[A-Za-z]\.)+(?!\w)|(?<![\w.])(?:[A-Z]\.)+[A-Z]\b"
)

_ACRONYMS = frozenset(
    "tv usa uk fm cnn bbc nbc abc nba nfl nhl mlb nyc dvd cd pc gps pdf url usb atm faq diy rsvp eta suv rnb mp html "
    "css sql api gpu cpu ceo cfo gmt utc pst usd eur gbp inr espn hbo ibm phd".split()
)  # fmt: skip
"""Written in small letters, a speech engine might read these as words; none is an English word."""

_NAMES = r"(?:olly|alexa|siri|cortana|bixby|hey robot|google assistant)"
_CALL = r"(?:hey|hi|hello|ok|okay|yo)"
_ASSISTANT = re.compile(
    rf"^(?:(?:{_CALL}[\s,]+)?{_NAMES}\b[\s,.!:;-]*|{_CALL}[\s,]+(?:google|computer|assistant)\b[\s,.!:;-]*"
    r"|google(?:\s*,\s*|\s+(?=(?:find|set|play|tell|show|what|when|where|who|how|turn|remind|add|call|open|send|can|is"
    r"|please)\b)))",
    re.IGNORECASE,
)
_TRAILING_ASSISTANT = re.compile(rf"\s*,\s*{_NAMES}\s*([.?!]*)$", re.IGNORECASE)

_FILLERS = frozenset("hey hi hello please so and but okay ok well now then also just oh um uh sorry thanks".split())
_ALWAYS_ASK = frozenset(
    "what what's whats who who's whos whose whom which why how how's hows where where's wheres is isn't are aren't was "
    "wasn't were weren't does doesn't did didn't can can't could couldn't would wouldn't should shouldn't shall "
    "has hasn't will won't".split()
)
_PRONOUNS = frozenset("i you we they he she it there".split())
_ASK_BEFORE = {
    "do": _PRONOUNS | {"these", "those", "my", "our", "people"},
    "don't": _PRONOUNS - {"there"},
    "have": _PRONOUNS | {"any", "my"},
    "haven't": _PRONOUNS,
    "had": _PRONOUNS,
    "am": {"i"},
    "may": {"i", "we"},
    "might": _PRONOUNS,
    "must": {"i", "we"},
    "when": frozenset("is are was were does do did will can could should would has have am".split()),
    "when's": frozenset(),
    "any": frozenset("new incoming news updates messages emails events chance idea ideas".split()),
}
_PREPOSITIONS = frozenset("for in by at on to from with about of until since".split())
_ASKED = frozenset("what which how whom whose".split())
_NEVER_LAST = frozenset("the a an my your our their and or but because".split())
_POINTERS = frozenset("it this that these those he she they there".split())


def expand_words(text: str) -> str:
    """Write abbreviations out and join dotted letters (`U.S.` is `US`)."""
    for pattern, words in _ABBREVIATION_RULES:
        text = pattern.sub(words, text)
    return _DOTTED_LETTERS.sub(_join_letters, text)


def spell_acronyms(text: str) -> str:
    """Put known acronyms and the pronoun I in capitals, so that engines spell the one and do not stress the other."""
    text = re.sub(r"[A-Za-z]+", lambda m: m[0].upper() if m[0].islower() and m[0] in _ACRONYMS else m[0], text)
    text = re.sub(r"(?<![\w'])pm(?![\w'])", "PM", text)
    return re.sub(r"(?<![\w'])i(?=$|[ .,?!]|'(?:m|d|ll|ve|s)\b)", "I", text)


def strip_assistant_name(text: str) -> str:
    """Drop the name of an assistant from the start or, after a comma, from the end."""
    stripped, found = _ASSISTANT.subn("", text.lstrip(), count=1)
    if found:
        return strip_assistant_name(stripped)
    return _TRAILING_ASSISTANT.sub(r"\1", stripped)


def end_sentence(text: str) -> str:
    """Begin each sentence with a capital and end the last one: with `?` where its first words ask, else with a stop."""
    if not text:
        return text
    if text[-1] not in ".?!":
        text += "?" if _asks(re.split(r"[.?!]", text)[-1]) else "."
    return re.sub(r"(?:^|(?<=[.?!] ))[a-z]", lambda m: m[0].upper(), text)


def _asks(sentence: str) -> bool:
    words = re.findall(r"[a-z']+", sentence.casefold())
    while len(words) > 1 and words[0] in _FILLERS:
        words = words[1:]
    if len(words) < 2:
        return bool(words) and words[0] in _ALWAYS_ASK
    first, second = words[0], words[1]
    if first in _PREPOSITIONS:
        return second in _ASKED
    if first == "if":
        return any(word in _ASKED or word in ("where", "who") for word in words[2:])
    return first in _ALWAYS_ASK or first == "when's" or second in _ASK_BEFORE.get(first, ())


def breaks_off(request: str) -> bool:
    """Tell whether a request ends in a word that cannot end one ("tell me the recipe of").

    A preposition may end it where something before it is what it belongs to: a question word, a pronoun's clause or an
    infinitive ("what is it made of", "the one I asked for", "a song to dance to").
    """
    words = re.findall(r"[a-z']+", request.casefold())
    last = words[-1]
    if last in _NEVER_LAST:
        return True
    if last in ("is", "are"):
        return words[0] in ("how", "what", "where", "who") and len(words) <= 5 and words[-2] not in _POINTERS
    if last not in _PREPOSITIONS - {"in", "on", "by"} or _asks(request):
        return False
    if any(word in _ASKED or word in ("where", "who", "whoever", "whatever", "that") for word in words):
        return False
    clause = words[-6:-1]
    return not (any(word.split("'")[0] in _PRONOUNS for word in clause) or words[-3:-2] == ["to"])


def _join_letters(match: re.Match[str]) -> str:
    letters = re.sub(r"[^A-Za-z]", "", match[0]).upper()
    ended = match[0].endswith(".") and match.end() == len(match.string)
    return letters + ("." if ended else "")
