"""Times for a transcript that has none: its words are matched with those that the recogniser hears."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bystander.schemas.engines import RowFault
from bystander.tasks.stages.heard_utterances import HeardUtterance
from bystander.tasks.texts.transcript_marks import drop_marks
from bystander.tasks.texts.turn_words import TurnWord, find_turn_words, fold_word


def place_turns(
    turns: Sequence[Mapping[str, Any]], heard: Sequence[HeardUtterance], min_words_heard: float
) -> list[dict[str, Any]] | RowFault:
    """Return utterances with the times of what was heard and the words of the transcript, in order of time.

    The words of each channel are matched with the recogniser's by the least number of changes. A word that has no
    partner goes with the one before it in its turn, or the one after it at a turn's beginning. What a turn says within
    one heard utterance becomes an utterance of its own; a turn of which no word has a partner is left out.

    Args:
        turns: rows of `UTTERANCE` without times, in the order in which they are spoken.
        heard: what the recogniser heard, in order of time.
        min_words_heard: share of the transcript's words that must be heard as they are written; with fewer the fault is
            `transcript_disagrees`.
    """
    placed: list[dict[str, Any]] = []
    total = same = 0
    for channel in (0, 1):
        own = [one for one in heard if one.channel == channel]
        texts = [drop_marks(turn["text"] or "") for turn in turns if turn["channel"] == channel]
        words = [find_turn_words(text) for text in texts]
        partners, equal = _match([word for turn in words for word in turn], own)
        total += sum(map(len, words))
        same += equal
        at = 0
        for text, turn in zip(texts, words, strict=True):
            placed += _cut_turn(text, turn, partners[at : at + len(turn)], own)
            at += len(turn)
    if not total or same < min_words_heard * total:
        return RowFault(
            "transcript_disagrees",
            f"of {total} words of the transcript the recogniser hears {same}, at least {min_words_heard:.0%} are asked "
            "for; it is another recording's, or its speakers are on the other channels",
        )
    return sorted(placed, key=lambda utterance: (utterance["start_s"], utterance["end_s"], utterance["channel"]))


def _match(words: Sequence[TurnWord], heard: Sequence[HeardUtterance]) -> tuple[list[int | None], int]:
    """Return the heard utterance of each word (None where it has no partner), and how many are heard as written."""
    from rapidfuzz.distance import Levenshtein

    written = [fold_word(word.text) for word in words]
    spoken = [
        (fold_word(word.text), at)
        for at, utterance in enumerate(heard)
        for word in find_turn_words(drop_marks(utterance.text))
    ]
    partners: list[int | None] = [None] * len(written)
    equal = 0
    for change in Levenshtein.opcodes(written, [word for word, _ in spoken]):
        if change.tag in ("equal", "replace"):
            for ours, theirs in zip(
                range(change.src_start, change.src_end), range(change.dest_start, change.dest_end), strict=False
            ):
                partners[ours] = spoken[theirs][1]
            equal += change.src_end - change.src_start if change.tag == "equal" else 0
    return partners, equal


def _cut_turn(
    text: str, words: Sequence[TurnWord], partners: Sequence[int | None], heard: Sequence[HeardUtterance]
) -> list[dict[str, Any]]:
    known = [partner for partner in partners if partner is not None]
    if not known:
        return []
    last = known[0]
    groups: list[tuple[int, int]] = []  # the heard utterance, and where its words begin in the text
    for word, partner in zip(words, partners, strict=True):
        last = last if partner is None else partner
        if not groups or groups[-1][0] != last:
            groups.append((last, word.start))
    cut = []
    for at, (partner, start) in enumerate(groups):
        # A group's text goes on to the next one's, so that punctuation stays with the word before it.
        end = groups[at + 1][1] if at + 1 < len(groups) else len(text)
        one = heard[partner]
        said = text[0 if at == 0 else start : end].strip()
        cut.append({"channel": one.channel, "start_s": one.start_s, "end_s": one.end_s, "text": said, "words": []})
    return cut
