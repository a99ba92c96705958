"""Fills the playbook's lines with a starter query's words: the dialogues whose truth is known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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
_CONTENT_LENGTH = 4  # letters from which a word counts as content; shorter ones are mostly function words
_FUNCTION_WORDS = frozenset(
    "about after again also another anyway away because been before being cannot could does doing done down each even "
    "ever every from good have here into just know less like look made make many might more most much need never next "
    "nice only open other over quite really right same says should some still such sure take than that their them then "
    "there these they thing this those time today told turn until very want well were what when where which while will "
    "with without would your yours".split()
)


@dataclass(frozen=True, slots=True)
class PlaybookDialogue:
    """One exchange with its truth. `primary` is the whole request as spoken, untruncated in both timings.

    `one_speaker_reply` is there from ambiguity 4 on.
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
    dialogues: list[PlaybookDialogue] = []
    for scenario, lines in data.lines.items():
        for line in lines:
            if data.fits(line, query.intent):
                dialogues.extend(_fill_line(data, query, words, scenario, line))
    return dialogues


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
    if hints.alt_answer:
        words["answer_alt"] = hints.alt_answer
    elif hints.alt and main.lower() in words["answer_plain"].lower():
        swapped = re.sub(re.escape(main), lambda _: str(hints.alt), words["answer_plain"], count=1, flags=re.IGNORECASE)
        words["answer_alt"] = _capitalise(swapped)
    return words


def _fill_line(
    data: PlaybookData, query: StarterQuery, words: Mapping[str, str], scenario: str, line: PlaybookLine
) -> Iterator[PlaybookDialogue]:
    primary = _fill(line.primary, words) if line.primary else query.text
    third_party = _fill(line.line, words)
    key = [query.text, scenario, line.line]
    reply = _choose_reply(data, query, words, line.reply, key) if line.reply else query.answer
    one = _choose_reply(data, query, words, line.one_speaker_reply, key) if line.one_speaker_reply else None
    if primary is None or third_party is None or reply is None or (line.one_speaker_reply and one is None):
        return
    if line.label == "ignorable" and _shares_words(third_party, primary, reply):
        return
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
        )


def _choose_reply(
    data: PlaybookData, query: StarterQuery, words: Mapping[str, str], name: str, key: list[str]
) -> str | None:
    """Return one of the replies of set `name` that fit, the same for the same query and line; None if none fits."""
    fitting = [variant.reply for variant in data.replies[name] if data.fits(variant, query.intent)]
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


def _shares_words(third_party: str, primary: str, reply: str) -> bool:
    known = set(normalise_text(primary).split()) | _FUNCTION_WORDS
    said = {word for word in normalise_text(third_party).split() if len(word) >= _CONTENT_LENGTH} - known
    return bool(said & set(normalise_text(reply).split()))


def check_speakable(text: str) -> bool:
    """Return whether `text` holds only what can be spoken."""
    return SPEAKABLE.fullmatch(text) is not None
