"""Fills the playbook's lines with a starter query's words: the dialogues whose truth is known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache

from bystander.schemas.identity import digest_json
from bystander.schemas.starter_queries import SPEAKABLE, StarterQuery, normalise_text
from bystander.schemas.taxonomy import Timing
from bystander.tasks.engines.playbook_data import (
    Kind,
    Label,
    PlaybookData,
    PlaybookLine,
    RealismItem,
    list_slots,
    load_playbook_data,
)

_PRONOUNS = frozenset({"i", "me", "my", "we", "us", "our", "you", "your"})
_OPENER = re.compile(r"^(?:Okay|Sure|Done), ")
_CONTENT_LENGTH = 3  # letters from which a word may count as content
_FUNCTION_WORDS = frozenset(
    "about after again all also and another any anyway are because been before being but can cannot could did "
    "does doing down each even ever every for from get had has have her here him his how into its just less let "
    "like many might more most much never not now one only other our out over quite same she should some still "
    "such than that the their them then there these they this those two until very was were what when where "
    "which while who why will with without would you your".split()
)  # fmt: skip
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|s|e)$")
_AS_ONE = {
    "swap": "swap_one",
    "add": "add_one",
    "narrow": "add_one",
    "check": "check_one",
    "offer": "check_one",
    "claim": "claim_one",
    "recall": "recall_one",
    "recall_two": "recall_one",
}
"""From the reply set of an actionable line to the one for the same words from the user's own mouth."""
_AS_ONE_OTHERWISE = "one"


@dataclass(frozen=True, slots=True)
class PlaybookDialogue:
    """One exchange with its truth. `primary` is the whole request as spoken, untruncated in both timings.

    `one_speaker_reply` is there from ambiguity 4 on. `heard_as_one` is always there: what an assistant says that takes
    the two texts for one person's even where nobody would, for lack of ears.
    """

    query: str
    scenario: str
    timing: Timing
    primary: str
    third_party: str
    label: Label
    kind: Kind | None
    ambiguity: int
    reply: str
    one_speaker_reply: str | None
    heard_as_one: str


def list_dialogues(data: PlaybookData | None = None) -> Iterator[PlaybookDialogue]:
    """Yield every true dialogue of the playbook, query by query, in the order of the files."""
    data = data or load_playbook_data()
    for query in data.queries:
        yield from expand_query(data, query)


def list_realism_items(data: PlaybookData | None = None) -> Iterator[RealismItem]:
    """Yield the authored exchanges with the truth about their realism."""
    yield from (data or load_playbook_data()).realism


def expand_query(data: PlaybookData, query: StarterQuery) -> list[PlaybookDialogue]:
    """Return all dialogues of one starter query.

    A line is left out where the query lacks one of its slots, and an ignorable one also where it shares a distinctive
    word with the answer (the reply would seem to take the remark up).
    """
    words = _collect_words(data, query)
    answer_words = _list_stems(query.answer)
    dialogues: list[PlaybookDialogue] = []
    for scenario, lines in data.lines.items():
        for line in lines:
            if line.fits(query.intent):
                dialogues.extend(_fill_line(data, query, words, scenario, line, answer_words))
    return dialogues


def list_primaries(data: PlaybookData, query: StarterQuery) -> set[str]:
    """Return every wording in which the request of a starter query is spoken in its dialogues (a few may be unused)."""
    words = _collect_words(data, query)
    templates = {
        line.primary for lines in data.lines.values() for line in lines if line.primary and line.fits(query.intent)
    }
    filled = (_fill(template, words) for template in templates)
    return {query.text, *(text for text in filled if text is not None)}


def _collect_words(data: PlaybookData, query: StarterQuery) -> dict[str, str]:
    spec, hints = data.intents[query.intent], data.hints[query.text]
    words = {name: value for name, value in hints.model_dump(exclude={"text"}).items() if value is not None}
    main = query.slots[spec.main]
    words["answer_plain"] = _capitalise(_OPENER.sub("", query.answer))
    words["go"] = spec.go or hints.do
    # "my team" from another mouth would be another team, so such a slot is never echoed.
    if not _PRONOUNS & set(normalise_text(main).split()):
        words["main"] = main
        words["Main"] = _capitalise(main)
        before, after = query.text.split(main, 1)
        if before.strip():
            words["before"] = before.strip(" ,")
            words["after"] = after
            words["after_gap"] = f", {after.strip(' ,')}" if normalise_text(after) else "?"
    if hints.alt_answer:
        words["answer_alt"] = hints.alt_answer
    elif hints.alt and main.lower() in words["answer_plain"].lower():
        swapped = re.sub(re.escape(main), lambda _: str(hints.alt), words["answer_plain"], count=1, flags=re.IGNORECASE)
        words["answer_alt"] = _capitalise(swapped)
    return words


def _fill_line(
    data: PlaybookData,
    query: StarterQuery,
    words: Mapping[str, str],
    scenario: str,
    line: PlaybookLine,
    answer_words: AbstractSet[str],
) -> Iterator[PlaybookDialogue]:
    primary = _fill(line.primary, words) if line.primary else query.text
    third_party = _fill(line.line, words)
    key = [query.text, scenario, line.line]
    reply = _choose_reply(data, query, words, line.reply, key) if line.reply else query.answer
    one = _choose_reply(data, query, words, line.one_speaker_reply, key) if line.one_speaker_reply else None
    if primary is None or third_party is None or reply is None or (line.one_speaker_reply and one is None):
        return
    if line.label == "ignorable" and (_list_stems(third_party) & answer_words) - _list_stems(primary):
        return
    as_one = one or _choose_reply_as_one(data, query, words, line, key)
    for timing in line.timings:
        yield PlaybookDialogue(
            query=query.text,
            scenario=scenario,
            timing=timing,
            primary=primary,
            third_party=third_party,
            label=line.label,
            kind=line.kind,
            ambiguity=line.ambiguity,
            reply=reply,
            one_speaker_reply=one,
            heard_as_one=as_one,
        )


def _choose_reply_as_one(
    data: PlaybookData, query: StarterQuery, words: Mapping[str, str], line: PlaybookLine, key: list[str]
) -> str:
    """Return a reply that takes the line for the user's own; the plain answer where no reply set fits."""
    names = (_AS_ONE.get(line.reply or "", _AS_ONE_OTHERWISE), _AS_ONE_OTHERWISE)
    found = (_choose_reply(data, query, words, name, key) for name in names if name in data.replies)
    return next((reply for reply in found if reply is not None), query.answer)


def _choose_reply(
    data: PlaybookData, query: StarterQuery, words: Mapping[str, str], name: str, key: list[str]
) -> str | None:
    """Return one of the replies of set `name` that fit, the same for the same query and line; None if none fits."""
    fitting = [variant.reply for variant in data.replies[name] if variant.fits(query.intent)]
    filled = [text for text in (_fill(reply, words) for reply in fitting) if text is not None]
    return filled[int(digest_json([*key, name])[:8], 16) % len(filled)] if filled else None


def _fill(template: str, words: Mapping[str, str]) -> str | None:
    """Return the template with its slots filled and its sentences capitalised, or None if a slot has no words."""
    if not list_slots(template) <= words.keys():
        return None
    text = template.format_map(words)
    return re.sub(r"(^|[.?!] )([a-z])", lambda match: match[1] + match[2].upper(), text)


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


@cache
def _list_stems(text: str) -> frozenset[str]:
    """Return the words of a text that say what it is about, without their endings."""
    words = (word for word in normalise_text(text).split() if len(word) >= _CONTENT_LENGTH)
    return frozenset(_ENDING.sub("", word) for word in words if word not in _FUNCTION_WORDS)


def check_speakable(text: str) -> bool:
    """Return whether `text` holds only what can be spoken."""
    return SPEAKABLE.fullmatch(text) is not None
