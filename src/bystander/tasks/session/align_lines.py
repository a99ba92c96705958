"""When each word of a take's lines is said, and which part of what was heard is whose line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bystander.schemas.alignment import Aligner, AlignmentReply, AlignmentRequest
from bystander.schemas.engines import RowFault, Samples
from bystander.tasks.metrics.text_normaliser import normalise_text
from bystander.tasks.metrics.wer import measure_wer
from bystander.tasks.session.slates import find_slate, is_like_slate

_PAD_S = 0.12
"""Digital silence put before and after what is aligned."""


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """A word of the script, with seconds from the start of the stretch."""

    word: str
    start_s: float
    end_s: float


def drop_slate(script: str, heard: str, slate: str, language: str) -> tuple[tuple[str, ...], str]:
    """Return the words of a slate that what was heard begins with, and the rest.

    Recognisers mishear short slates ("take eight" as "take care of her"), so up to six words from "take" on are a
    slate, if the rest is nearer to the script than the whole; `slate` is then taken to have been said.
    """
    found = find_slate(heard, None, language)
    if found is not None:
        tries = [(found.words, found.rest)]
    elif is_like_slate(heard, language):
        words = heard.split()
        tries = [(tuple(slate.split()), " ".join(words[count:])) for count in range(2, min(6, len(words)) + 1)]
    else:
        tries = []
    errors = [measure_wer(script, rest, language).normalised for _, rest in tries]
    if errors and min(errors) < measure_wer(script, heard, language).normalised:
        return tries[errors.index(min(errors))]
    return (), heard


def align_lines(
    aligner: Aligner, samples: Samples, rate: int, lines: Sequence[str], slate: Sequence[str], take: str, language: str
) -> list[list[SpokenWord]] | RowFault:
    """Return the words of each line with their times; the lines follow each other in the sound, after the slate.

    Words without a letter or digit are left out. Row fault: `not_aligned`.

    Raises:
        EngineError: the aligner as a whole failed.
    """
    split = [_list_words(line) for line in (" ".join(slate), *lines)]
    pad = np.zeros(round(_PAD_S * rate), np.float32)
    padded = np.concatenate([pad, samples, pad]).astype(np.float32)
    words = tuple(word.removesuffix("...") for line in split for word in line)
    (reply,) = aligner.align([AlignmentRequest(take, padded, rate, words, language)])
    if not isinstance(reply, AlignmentReply):
        detail = f"{reply.reason}: {reply.detail}; listen to it, and record the take again"
        return RowFault("not_aligned", detail, reply.raw_output)
    duration_s = len(samples) / rate
    found, at = [], 0
    for line in split:
        own = reply.words[at : at + len(line)]
        at += len(line)
        times = [tuple(min(max(t - _PAD_S, 0.0), duration_s) for t in (word.start_s, word.end_s)) for word in own]
        found.append([SpokenWord(word, start, end) for word, (start, end) in zip(line, times, strict=True)])
    if any(not line or line[0].start_s >= line[-1].end_s for line in found[1:]):
        return RowFault("not_aligned", "the words lie outside the sound; record the take again")
    return found[1:]


def split_heard(texts: tuple[str, str], heard: str, language: str) -> tuple[str, str]:
    """Cut what was heard of both lines where the two parts have the fewest word errors; of ties, the first."""
    words = heard.split()
    expected = [normalise_text(text, language).split() for text in texts]
    parts = [(" ".join(words[:cut]), " ".join(words[cut:])) for cut in range(len(words) + 1)]
    costs = [
        sum(
            _count_edits(want, normalise_text(part, language).split()) for want, part in zip(expected, two, strict=True)
        )
        for two in parts
    ]
    return parts[costs.index(min(costs))]


def _list_words(line: str) -> list[str]:
    return [word for word in line.split() if any(letter.isalnum() for letter in word)]


def _count_edits(expected: Sequence[str], found: Sequence[str]) -> int:
    """Return the least number of words to replace, insert and drop."""
    row = list(range(len(found) + 1))
    for i, want in enumerate(expected, 1):
        before, row[0] = row[0], i
        for j, word in enumerate(found, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (want != word))
    return row[-1]
