"""Whether a turn could be put to a voice assistant, told by its words alone. English.

These are rules for a first sieve: they look for a question or a request, and for words that need a person, eyes, hands
or the room. What they let through, a language model reads. They do not look for punctuation, which many transcripts
lack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import cache
from importlib import resources
from typing import Final

import yaml

_WH: Final = "what|when|where|which|who|whose|whom|why|how"
_WH_SHORT: Final = r"what's|when's|where's|who's|why's|how's|what're|how're|what'd|how'd|where'd|who'd"
_AUX: Final = "is|are|was|were|do|does|did|can|could|will|would|should|shall|has|have|had|may|might|am"
_NOT_AUX: Final = (
    "isn't|aren't|wasn't|weren't|don't|doesn't|didn't|can't|couldn't|won't|wouldn't|shouldn't|hasn't|haven't"
)
_SUBJECT: Final = (
    "i|you|he|she|it|we|they|there|this|that|these|those|the|a|an|any|anyone|anybody|anything|someone|somebody|some|"
    "people|my|your|our|their|his|her|its|one|all|every|each"
)
_ASKING_VERBS: Final = (
    "tell|find|search|look|google|play|set|remind|call|text|send|add|order|book|schedule|translate|define|explain|"
    "calculate|convert|spell|list|name|recommend|suggest|check|read|start|stop|cancel|turn|create|make|write|give|"
    "compare|describe|show|buy|cook|navigate|summarise|summarize|count|help|pick|choose|guess"
)
_OPENERS: Final = (
    r"(?:(?:so|okay|ok|um|uh|umm|er|erm|ah|oh|hey|and|but|or|well|now|then|right|alright|all right|yeah|yes|no|like|mm|"
    r"hmm|hm|please|because|actually|anyway|also|wait|sorry|i mean|you know|just|cause|'cause|basically)[\s,.]+)*"
)
_CLAUSE: Final = r"(?:^|[.,?!]\s*|\b(?:so|but|and|or|well|okay|um|uh|like)\s+)"

_QUESTION = re.compile(
    rf"{_CLAUSE}{_OPENERS}(?:"
    rf"(?:(?:in|at|on|for|to|from|by|with|of|since|until) )?(?:{_WH})\b(?! (?:i|we|you|they|he|she|"
    rf"it) (?:mean|said)\b)|"
    rf"(?:{_WH_SHORT})\b|"
    rf"(?:{_AUX}|{_NOT_AUX}) (?:not )?(?:{_SUBJECT})\b|"
    r"any (?:idea|news|chance)\b)"
)
_REQUEST = re.compile(
    rf"^{_OPENERS}(?:let me (?:know|hear)|{_ASKING_VERBS})\b|"
    r"\b(?:i wonder|i was wondering|i'd like to know|i would like to know|i want to know|i need to know|"
    r"do you know|can you tell|could you tell|tell me|remind me|wake me)\b"
)
_INVERTED = re.compile(
    r"\b(?:does|do|did|is|are|can|could|would|will|should|has|have) (?:anyone|anybody|you|we|i|they|he|she|it|there)\b"
)
"""Anywhere: in transcripts without marks a question may follow on anything."""
_FIRST = re.compile(
    rf"^{_OPENERS}(?:is|are|was|were|does|did|can|could|will|would|should|has) (?!do\b|be\b|not\b)[a-z']+ [a-z]"
)
_RELATIVE = re.compile(rf"^{_OPENERS}(?:when|where|while|whatever|whenever)\b(?! (?:{_AUX}|{_NOT_AUX})\b)")

_PERSON = re.compile(
    r"\b(?:he|she|him|her|hers|his|himself|herself|we|us|our|ours|ourselves|we're|we'll|we've|we'd|he's|she's|he'd|"
    r"she'd|let's|they|them|they're|they've|they'd|their|themselves|guys|everybody|everyone|anybody|anyone|somebody|"
    r"someone|honey|sweetie|dude|mom|mum|dad|buddy|folks)\b"
)
_TO_ASSISTANT = re.compile(
    rf"\b(?:can|could|would|will) you (?:please |just |maybe )?(?:{_ASKING_VERBS}|say|repeat)\b|\bdo you know\b|"
    r"\bdo you have any\b|\bthank you\b|\byou know\b|\bhow (?:do|can|would|should|"
    r"could) you (?!think|feel|like|want|mean)"
    r"|\bwhat do you call\b|\bwhere (?:do|can) you (?:get|buy|find)\b"
)
_SECOND_PERSON = re.compile(r"\b(?:you|your|yours|yourself|yourselves|you're|you've|you'll|you'd|ya|y'all)\b")
_REPEAT = re.compile(
    rf"^{_OPENERS}(?:what|sorry|pardon|excuse me|huh|what(?:'s| is| was| did) (?:that|it|you say)|"
    rf"say (?:that|it) again|"
    r"what do you mean|what does that mean|is that right|are you sure|really|who (?:is|was) that|"
    r"what happened|what is it|"
    r"what about it|why not|how come|like what|and what|what else|or what)[?.! ]*$"
)
_POINTING = re.compile(
    r"\b(?:this|these|those|here)\b|\bthat(?:'s)? (?:one|thing|stuff|button|bit|part|guy|side)\b|\blike that\b|"
    r"\b(?:over|in|up|down) there\b|\bthe (?:other|first|second|third|last|next|left|right|red|blue|green) one\b|"
    r"\b(?:is|was|does|did|about|of|do|with|for|to|at|on) that\b(?! \w)|\bthere we go\b|\bthere it is\b"
)
_SIGHT = re.compile(
    r"\b(?:look at|looks? like|see|watch|seeing|looking at|whiteboard|white board|blackboard|slides?|screen|draw|drawn|"
    r"drawing|picture|photo|colou?r of (?:it|that)|wearing|visible)\b"
)
_HANDS = re.compile(
    r"\b(?:hand me|pass me|pass the|give me (?:a|the|that|your|some) (?:hand|pen|hug|kiss|minute|second|break)|hold|"
    r"pick (?:it )?up|put (?:it|that|the)|bring|fetch|sit|stand|come (?:on|here|in|over)|go (?:away|"
    r"on|ahead)|move|press|"
    r"push|pull|touch|grab|open the|close the|shut|carry|take (?:it|that|off))\b"
)
_OPINION = re.compile(
    r"\b(?:what|how) (?:do|did|would) (?:you|everybody|everyone|people) (?:think|feel|like|want|"
    r"reckon)\b|\bwhat about\b|"
    r"\bhow about\b|\bwhat if\b|\bshall (?:i|we)\b|\bshould (?:i|we)\b|\bwhy don't (?:you|we|i)\b|"
    r"\bis that (?:okay|ok|all "
    r"right|alright|fine|correct|right)\b|\bany (?:questions|volunteers|comments|thoughts)\b"
)
_WORD = re.compile(r"[A-Za-z0-9]+(?:'[A-Za-z]+)*")
_NAMES = resources.files("bystander.tasks.texts") / "data" / "given_names.yaml"

Rule = tuple[str, Callable[[str], object]]


def asks_or_requests(text: str) -> bool:
    """Whether a turn has the form of a question or a request."""
    folded = _fold(text)
    if _REQUEST.search(folded):
        return True
    if "?" in text:
        return True
    if _INVERTED.search(folded) or _FIRST.search(folded):
        return True
    return bool(_QUESTION.search(folded) and not _RELATIVE.search(folded))


def find_human_need(text: str) -> tuple[str, str] | None:
    """Return why a request can only be meant for a person in the room, a reason and the words, or None.

    Reasons, in the order in which they are looked for: asks_to_repeat, asks_for_opinion, addresses_people,
    refers_to_people, needs_context, needs_sight, needs_hands.
    """
    folded = _fold(text)
    for reason, pattern in (("asks_to_repeat", _REPEAT), ("asks_for_opinion", _OPINION)):
        if match := pattern.search(folded):
            return reason, match.group().strip()
    if match := _SECOND_PERSON.search(_TO_ASSISTANT.sub(" ", folded)):
        return "addresses_people", match.group()
    for reason, pattern in (
        ("refers_to_people", _PERSON),
        ("needs_context", _POINTING),
        ("needs_sight", _SIGHT),
        ("needs_hands", _HANDS),
    ):
        if match := pattern.search(folded):
            return reason, match.group()
    return None


def find_name(text: str, names: Collection[str]) -> str | None:
    """Return the first word that calls a person by name, or None.

    `names` are those of the recording's speakers, in small letters: anywhere in the text. Common given names count
    where they call somebody: as the first or last word, or next to a comma.
    """
    words = _WORD.findall(text)
    for word in words:
        if word.lower() in names:
            return str(word)
    common = list_given_names()
    called = {words[0].lower(), words[-1].lower()} if words else set()
    called |= {match.lower() for match in re.findall(r"(?<=, )[A-Za-z]+|[A-Za-z]+(?=[,])", text)}
    return next((word for word in words if word.lower() in called & common), None)


@cache
def list_given_names() -> frozenset[str]:
    """Return common given names in small letters; those that are everyday words (will, may, mark) are left out."""
    return frozenset(yaml.safe_load(_NAMES.read_text("utf-8"))["en"].split())


def split_speaker_name(speaker: str) -> list[str]:
    """Return the words of a speaker's label that people could be called by, in small letters; ids have none."""
    words = re.findall(r"[A-Za-z]+", speaker) if not re.search(r"\d", speaker) else []
    return [word.lower() for word in words if len(word) > 2 and word.lower() not in _NO_NAMES]


_NO_NAMES: Final = frozenset(
    "the and all speaker primary third party guest host man woman boy girl customer waiter waitress doctor nurse user "
    "agent assistant unknown other others everyone everybody various channel headset participant".split()
)


def _fold(text: str) -> str:
    return re.sub(r"[^a-z0-9',.?! ]+", " ", text.lower().replace("\u2019", "'")).strip()
