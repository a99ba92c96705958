"""Which words of a finished alignment are which words of a text.

Programs that align write the words as they took them apart: in small letters, unknown ones as `<unk>`, "don't" as one
word or as two, "well-known" as two. So words are mapped by position, and by what their letters add up to.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from bystander.schemas.alignment import AlignedPhone, AlignedWord
from bystander.schemas.engines import RowFault

UNKNOWN = frozenset({"<unk>", "[unk]", "<spoken_noise>", "spn", "<oov>"})
"""Labels of words that a dictionary lacks."""
SILENCES = frozenset({"", "<eps>", "sil", "<sil>", "sp", "!sil", "<s>", "</s>"})
"""Labels of no word."""


@dataclass(frozen=True, slots=True)
class FoundWord:
    """An entry of an alignment that a program wrote; times in seconds from the start of the clip."""

    label: str
    start_s: float
    end_s: float
    score: float | None = None

    @property
    def is_unknown(self) -> bool:
        return self.label.casefold() in UNKNOWN


def fold_label(word: str) -> str:
    """Return the letters and digits of a word, in small letters."""
    folded = unicodedata.normalize("NFKC", word).casefold()
    return "".join(character for character in folded if character.isalnum() or unicodedata.combining(character))


def join_found(
    words: Sequence[str], found: Sequence[FoundWord], phones: Sequence[AlignedPhone], slack_s: float
) -> list[AlignedWord] | RowFault:
    """Return each word of the text with the times of the entries that it was written as.

    Args:
        words: the text.
        found: entries of the alignment, in order; silences among them are left out.
        phones: those of the alignment, in order; each belongs to the word that its middle lies in.
        slack_s: by how much a word's first phone may start off the word itself; it is then moved there.

    Faults: `no_pronunciation`, a word has no letter; `alignment_incomplete`, the entries are not the words, or phones
    do not begin with their words.
    """
    spellings = [fold_label(word) for word in words]
    for index, (word, spelling) in enumerate(zip(words, spellings, strict=True)):
        if not spelling:
            return RowFault("no_pronunciation", f"word {index}, {word!r}, has nothing that can be pronounced")
    entries = [entry for entry in found if entry.label.casefold() not in SILENCES]
    counts = _count_entries(spellings, entries)
    if counts is None:
        written = " ".join(entry.label for entry in entries)
        return RowFault("alignment_incomplete", f"the alignment's words are not the text's: {written[:120]!r}")
    joined: list[AlignedWord] = []
    place = 0
    for index, (word, count) in enumerate(zip(words, counts, strict=True)):
        own = entries[place : place + count]
        place += count
        start_s, end_s = own[0].start_s, own[-1].end_s
        inside = [phone for phone in phones if start_s <= (phone.start_s + phone.end_s) / 2 < end_s]
        if phones and (not inside or abs(inside[0].start_s - start_s) > slack_s):
            return RowFault("alignment_incomplete", f"word {index}, {word!r}, does not begin with a phone")
        fitted = tuple(
            AlignedPhone(
                phone.phone,
                start_s if k == 0 else max(phone.start_s, start_s),
                end_s if k == len(inside) - 1 else min(phone.end_s, end_s),
            )
            for k, phone in enumerate(inside)
        )
        known = not any(entry.is_unknown for entry in own)
        joined.append(AlignedWord(word, start_s, end_s, _average_scores(own), fitted, known))
    return joined


def _count_entries(spellings: Sequence[str], entries: Sequence[FoundWord]) -> list[int] | None:
    """Return how many entries each word was written as, the fewest for the earlier ones, or None if they do not fit."""
    labels = [None if entry.is_unknown else fold_label(entry.label) for entry in entries]
    # From the back: whether the words from `index` on can be the entries from `place` on.
    fits = [[False] * (len(labels) + 1) for _ in range(len(spellings) + 1)]
    choice = [[0] * (len(labels) + 1) for _ in range(len(spellings) + 1)]
    fits[-1][-1] = True
    for index in reversed(range(len(spellings))):
        for place in reversed(range(len(labels))):
            for count in _list_counts(spellings[index], labels, place):
                if fits[index + 1][place + count]:
                    fits[index][place], choice[index][place] = True, count
                    break
    if not fits[0][0]:
        return None
    counts: list[int] = []
    place = 0
    for index in range(len(spellings)):
        counts.append(choice[index][place])
        place += counts[-1]
    return counts


def _list_counts(spelling: str, labels: Sequence[str | None], place: int) -> list[int]:
    if labels[place] is None:
        return [1]
    counts: list[int] = []
    written = ""
    for count, label in enumerate(labels[place:], start=1):
        if label is None:
            break
        written += label
        if written == spelling:
            counts.append(count)
        if not spelling.startswith(written):
            break
    return counts


def _average_scores(entries: Sequence[FoundWord]) -> float | None:
    scores = [entry.score for entry in entries if entry.score is not None]
    return sum(scores) / len(scores) if scores else None
