"""Rules that written texts must pass, and the cut of an interrupted request. English; pure functions of strings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Final

import numpy as np

MIN_WORDS_BEFORE_CUT: Final = 3
ELLIPSIS: Final = "..."

_WORD = re.compile(r"[A-Za-z0-9]+(?:'[A-Za-z]+)*")
_SPEAKABLE = re.compile(r"[A-Za-z0-9.,?! ]|(?<=[A-Za-z0-9])'(?=[A-Za-z])")
_STRAIGHTENED = str.maketrans({"\u2019": "'", "\u2018": "'", "\u2026": ELLIPSIS, "\u00a0": " "})

_ENDINGS: Final = ("ing", "ies", "es", "ed", "s", "e", "y")


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


# Words that say nothing of what a text is about. Contractions stand without their apostrophe.
_FUNCTION_WORDS: Final = frozenset(
    [
        "a",
        "about",
        "actually",
        "after",
        "again",
        "ah",
        "all",
        "already",
        "also",
        "am",
        "an",
        "and",
        "any",
        "anything",
        "are",
        "arent",
        "around",
        "as",
        "at",
        "back",
        "be",
        "because",
        "been",
        "before",
        "being",
        "better",
        "but",
        "by",
        "can",
        "cant",
        "could",
        "couldnt",
        "did",
        "didnt",
        "do",
        "does",
        "doesnt",
        "doing",
        "done",
        "dont",
        "down",
        "each",
        "else",
        "even",
        "ever",
        "every",
        "for",
        "from",
        "get",
        "gets",
        "getting",
        "give",
        "go",
        "going",
        "gonna",
        "good",
        "got",
        "great",
        "had",
        "has",
        "hasnt",
        "have",
        "havent",
        "having",
        "he",
        "hello",
        "her",
        "here",
        "hes",
        "hey",
        "hi",
        "him",
        "his",
        "hold",
        "hows",
        "how",
        "however",
        "i",
        "id",
        "if",
        "ill",
        "im",
        "in",
        "instead",
        "into",
        "is",
        "isnt",
        "it",
        "its",
        "ive",
        "just",
        "keep",
        "kind",
        "know",
        "last",
        "let",
        "lets",
        "like",
        "little",
        "ll",
        "look",
        "lot",
        "made",
        "make",
        "makes",
        "many",
        "may",
        "maybe",
        "me",
        "mean",
        "might",
        "mind",
        "mine",
        "more",
        "most",
        "much",
        "must",
        "my",
        "myself",
        "need",
        "needs",
        "never",
        "new",
        "next",
        "nice",
        "no",
        "not",
        "nothing",
        "now",
        "of",
        "off",
        "oh",
        "ok",
        "okay",
        "on",
        "once",
        "one",
        "only",
        "or",
        "other",
        "our",
        "out",
        "over",
        "own",
        "perfect",
        "please",
        "put",
        "quite",
        "rather",
        "re",
        "really",
        "right",
        "said",
        "same",
        "say",
        "says",
        "see",
        "shall",
        "she",
        "shes",
        "should",
        "so",
        "some",
        "someone",
        "something",
        "soon",
        "sorry",
        "still",
        "such",
        "sure",
        "take",
        "tell",
        "than",
        "thank",
        "thanks",
        "that",
        "thats",
        "the",
        "their",
        "them",
        "then",
        "there",
        "theres",
        "these",
        "they",
        "theyre",
        "thing",
        "things",
        "think",
        "this",
        "those",
        "though",
        "through",
        "till",
        "time",
        "to",
        "today",
        "too",
        "try",
        "um",
        "uh",
        "up",
        "us",
        "use",
        "used",
        "ve",
        "very",
        "wait",
        "want",
        "wants",
        "was",
        "way",
        "we",
        "well",
        "went",
        "were",
        "weve",
        "what",
        "whats",
        "when",
        "where",
        "which",
        "while",
        "who",
        "whos",
        "why",
        "will",
        "with",
        "without",
        "wont",
        "would",
        "yeah",
        "yes",
        "yet",
        "you",
        "youd",
        "youll",
        "your",
        "youre",
        "yourself",
    ]
)
_NUMBER_WORDS: Final = frozenset(
    [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
        "thirty",
        "forty",
        "fifty",
        "sixty",
        "seventy",
        "eighty",
        "ninety",
        "hundred",
        "thousand",
        "million",
        "half",
        "quarter",
        "first",
        "second",
        "third",
        "oclock",
        "am",
        "pm",
    ]
)
# Words of asking an assistant that a rewrite may add, drop or swap: "put on" for "play", "show me" for "what is".
_ASKING_STEMS: Final = frozenset(
    _stem(word)
    for word in [
        "add",
        "ask",
        "assistant",
        "call",
        "check",
        "display",
        "explain",
        "find",
        "inform",
        "list",
        "open",
        "play",
        "remind",
        "set",
        "show",
        "start",
        "stop",
        "turn",
        "switch",
        "olly",
        "siri",
        "alexa",
        "google",
        "robot",
        "computer",
    ]
)

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
_MARKUP = re.compile(r"[{}\[\]<>|`*#_\\]|\bjson\b|\n", re.IGNORECASE)
_ROLE_LABELS = re.compile(
    r"\b(?:third[ -]part(?:y|ies)|bystanders?|primary (?:user|speaker)|the user|interrupt(?:ion|er|ing)?s?|ignorable|"
    r"actionable|non-?ignorable|the (?:request|remark|scenario)|voice assistant|hard negative)\b",
    re.IGNORECASE,
)
_OTHER_PERSON = re.compile(
    r"\b(?:someone|somebody|the (?:other )?person|another person|other (?:person|speaker|voice)|"
    r"your (?:friend|companion|partner|guest)|"
    r"(?:they|he|she|people) (?:said|says?|mentioned|mentions|suggested|suggests|wants?|thinks?|added|asked)|"
    r"i (?:just )?(?:over)?heard|with you (?:said|says|mentioned|suggested)|was (?:said|mentioned|suggested)|"
    r"near(?:by)? you)\b",
    re.IGNORECASE,
)


# ---- characters -------------------------------------------------------------------------------------------------


def clean_spoken_text(text: str, keep_apostrophes: bool) -> str:
    """Return `text` with straight apostrophes (or none), hyphens as spaces, and single spaces."""
    text = text.translate(_STRAIGHTENED)
    text = re.sub(r"(?<=\w)[-\u2010\u2011](?=\w)", " ", text)
    text = " ".join(text.split())
    return text if keep_apostrophes else text.replace("'", "")


def is_speakable(text: str) -> bool:
    """Whether `text` has a letter, and holds only letters, digits, spaces, . , ? ! and apostrophes inside words."""
    return bool(re.search("[A-Za-z]", text)) and not _SPEAKABLE.sub("", text)


def split_words(text: str) -> list[str]:
    """Return the words of `text`, in lower case, with their apostrophes and without punctuation."""
    return [word.lower() for word in _WORD.findall(text)]


def list_content_words(text: str) -> list[str]:
    """Return the words that say what `text` is about, in order, each reduced to a stem."""
    words = (word.replace("'s", "").replace("'", "") for word in split_words(text))
    return [
        _stem(word)
        for word in words
        if word not in _FUNCTION_WORDS and word not in _NUMBER_WORDS and not any(c.isdigit() for c in word)
    ]


# ---- the cut ----------------------------------------------------------------------------------------------------


def cut_sentence(text: str, rng: np.random.Generator) -> str | None:
    """Return `text` cut after one of its words and ending in "...", or None if it is too short to be cut.

    At least `MIN_WORDS_BEFORE_CUT` words and half of all are kept, so that the listener knows what it is about, and at
    least the last word is lost.
    """
    words = text.split()
    spoken = [i for i, word in enumerate(words) if _WORD.search(word)]
    shortest = max(MIN_WORDS_BEFORE_CUT, -(-len(spoken) // 2))
    if shortest > len(spoken) - 1:
        return None
    kept = int(rng.integers(shortest, len(spoken)))
    return " ".join(words[: spoken[kept - 1] + 1]).rstrip(".,?!") + ELLIPSIS


# ---- rules ------------------------------------------------------------------------------------------------------


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
    wanted = set(list_content_words(request)) - _ASKING_STEMS
    given = set(list_content_words(rewritten)) - _ASKING_STEMS
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
    return bool(_REFUSAL.search(text.translate(_STRAIGHTENED)))


def leaks_labels(text: str, keys: Iterable[str] = ()) -> bool:
    """Whether a text talks about roles, classes or `keys` (class, kind, scenario keys) instead of the matter."""
    if _ROLE_LABELS.search(text):
        return True
    lowered = text.lower()
    return any(re.search(rf"\b{re.escape(key.lower())}\b", lowered) for key in keys if "_" in key)


def has_markup(text: str) -> bool:
    """Whether a text holds JSON, markdown or line breaks, which nobody speaks."""
    return bool(_MARKUP.search(text))


def refers_to_other_person(reply: str) -> bool:
    """Whether a reply says that another person has spoken."""
    return bool(_OTHER_PERSON.search(reply))


def find_remark_words(reply: str, request: str, remark: str) -> list[str]:
    """Return the distinctive words of the remark that are in the reply and not in the request, sorted."""
    distinctive = {word for word in list_content_words(remark) if len(word) >= 3} - set(list_content_words(request))
    return sorted(distinctive & set(list_content_words(reply)))
