"""Rules that written texts must pass. English; pure functions of strings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from bystander.tasks.texts.spoken_text import ASKING_STEMS, list_content_words, split_words, straighten_marks

_REFUSAL = re.compile(
    r"\b(?:i(?:'m| am) (?:sorry|afraid|unable|not able)|i (?:can(?:'t|not| not)|could(?:n't| not)|won't|will not) "
    r"(?:assist|help|do that|provide|answer|fulfil|comply|access|perform|order|make|book|play|set)"
    r"|as an? (?:ai|assistant|language model)"
    r"|i do(?:n't| not) have (?:access|the ability)|unable to (?:assist|help))\b",
    re.IGNORECASE,
)
_ASSISTANT_SPEECH = re.compile(
    r"^(?:(?:sure|okay|ok|certainly|of course|absolutely|alright|got it|done)[,.!]? "
    r"(?:i(?:'ll| will|'m| am| can|'ve)|here|your|the|let me|setting|playing|adding|calling|turning|ordering|booking|"
    r"searching|looking)|here(?:'s| is| are) (?:the|your|a|some)|"
    r"(?:setting|playing|adding|calling|turning|ordering|booking|searching|sending|opening) "
    r"(?:the|your|a|an|up|for|on|off|it)\b)"
    r"|\bhow (?:can|may) i (?:help|assist)|\bi can (?:help|assist) you\b|\bwould you like me to\b"
    r"|\bshall i (?:set|play|add|book|order|call)\b|\bas requested\b|\blet me know if\b"
    r"|\b(?:has|have) been (?:set|added|booked|scheduled|ordered|sent|updated)\b",
    re.IGNORECASE,
)
_SECOND_PERSON = re.compile(r"\b(?:you|your|yours|yourself)\b", re.IGNORECASE)
# "You" that one says to an assistant, or to nobody: requests, thanks, fillers.
_NO_ADDRESS = re.compile(
    r"\b(?:can|could|would|will) you\b|\bif you (?:can|could|would)\b|\bthank you\b|^you know,", re.IGNORECASE
)
_MARKUP = re.compile(r"[{}\[\]<>|`*#_\\]|\bjson\b|\n", re.IGNORECASE)
_ROLE_LABELS = re.compile(
    r"\b(?:third[ -]part(?:y|ies)|bystanders?|primary (?:user|speaker)|the user|interrupt(?:ion|er|ing)?s?|ignorable|"
    r"actionable|non-?ignorable|the (?:request|remark|scenario)|voice assistant|hard negative)\b",
    re.IGNORECASE,
)

_AS_A_LABEL = (
    r"(?:^|[.!?]\s)\W*KEY\s*:",
    r"[\"'(]KEY[\"')]",
    r"\b(?:class|category|label|kind)\s*(?:is|:|=)?\s+\W?KEY\b",
)
"""How a class's KEY stands in a text that names the class, and not the thing."""


def measure_shared_words(text: str, other: str) -> float:
    """Return which share of the words of `text` occur in `other` too, each as often as there; 0 for no words."""
    words, pool = split_words(text), split_words(other)
    shared = 0
    for word in words:
        if word in pool:
            pool.remove(word)
            shared += 1
    return shared / len(words) if words else 0.0


def strip_opening(text: str, openings: Iterable[str]) -> str:
    """Return `text` without the longest of `openings` that it begins with."""
    for opening in sorted(openings, key=len, reverse=True):
        if text.startswith(opening):
            return text[len(opening) :]
    return text


def keeps_meaning(request: str, rewritten: str, supplied: str = "") -> bool:
    """Whether a rewrite still says what the request did.

    At least two thirds of the request's content words (a half, if it has one or two) are in `rewritten` or in
    `supplied`, and no more than half of the rewrite's content words, and at most 5, are new.
    """
    wanted = set(list_content_words(request)) - ASKING_STEMS
    given = set(list_content_words(rewritten)) - ASKING_STEMS
    found = given | set(list_content_words(supplied))
    lost = [word for word in wanted if word not in found and not _has_relative(word, found)]
    new = [word for word in given - wanted if not _has_relative(word, wanted)]
    allowed = len(wanted) // 2 if len(wanted) <= 2 else len(wanted) // 3
    return len(lost) <= allowed and len(new) <= min(5, max(1, len(wanted)))


def _has_relative(word: str, words: Iterable[str]) -> bool:
    return any(len(word) >= 4 and len(other) >= 4 and (word[:4] == other[:4]) for other in words)


def repeats_request(line: str, request: str, openings: Sequence[str] = ()) -> bool:
    """Whether a bystander's line is no more than the request over again."""
    said, asked = split_words(strip_opening(line, openings)), split_words(request)
    return len(said) >= 3 and SequenceMatcher(None, said, asked, autojunk=False).ratio() > 0.8


def repeats_itself(text: str) -> bool:
    """Whether three words in a row occur twice, or one word three times in a row: a small model that loops."""
    words = split_words(text)
    triples = list(zip(words, words[1:], words[2:], strict=False))
    return len(set(triples)) < len(triples) or any(len(set(triple)) == 1 for triple in triples)


def speaks_as_assistant(line: str) -> bool:
    """Whether a line sounds like the assistant carrying out or answering the request."""
    return bool(_ASSISTANT_SPEECH.search(line))


def refuses(text: str) -> bool:
    """Whether a text declines to do what was asked."""
    return bool(_REFUSAL.search(straighten_marks(text)))


def addresses_somebody(line: str) -> bool:
    """Whether a line says "you" to a person: not in a request to the assistant, in thanks, or as a filler."""
    return bool(_SECOND_PERSON.search(_NO_ADDRESS.sub(" ", straighten_marks(line))))


def leaks_labels(text: str, keys: Iterable[str] = (), labels: Iterable[str] = ()) -> bool:
    """Whether a text talks about roles, classes or keys instead of the matter.

    `keys` (of classes, kinds, scenarios) leak wherever they stand if they have an underscore, which nobody says. Keys
    without one may be everyday words ("confirm", "act"): those in `labels` leak only where they stand as a label, as in
    "Confirm: the lamp is on", "'act'" or "class act".
    """
    if _ROLE_LABELS.search(text):
        return True
    lowered = text.lower()
    if any(re.search(rf"\b{re.escape(key.lower())}\b", lowered) for key in keys if is_telling(key)):
        return True
    return any(
        re.search(pattern.replace("KEY", re.escape(key.lower())), lowered)
        for key in labels
        if not is_telling(key)
        for pattern in _AS_A_LABEL
    )


def is_telling(key: str) -> bool:
    """Whether a key cannot be an everyday word, so that a text in which it stands tells of the labels."""
    return "_" in key


def has_markup(text: str) -> bool:
    """Whether a text holds JSON, markdown or line breaks, which nobody speaks."""
    return bool(_MARKUP.search(text))
