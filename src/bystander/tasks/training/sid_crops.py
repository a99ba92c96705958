"""Rows of SID builds as examples of stage 2: an utterance with its crops and their labels (SID paper, IV-B)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import RowFault, Samples
from bystander.schemas.errors import InputError
from bystander.schemas.identity import make_rng
from bystander.schemas.train_sid_config import CropSettings
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.audio.listening import resample_for_listener
from bystander.tasks.training.crops import Times, draw_ends, label_ends, shift_break

SAMPLING_RATE = 16000
DRAW_NAME = "example"
"""What `ShardExamples` keys a row's generator by, besides seed, id and epoch."""
CROP_COLUMNS = ("id", "duration_s", "category", "total_nonbreak", "break_time_s", "break_word_index", "words")
"""Columns of SID_FINAL that crops are drawn from; with `audio`, all that an example is made of."""


@dataclass(frozen=True, slots=True)
class LabelBreak:
    """Where the labels of a row turn.

    Attributes:
        break_s: seconds from the clip's start; None where there is no break and all labels are negative.
        timed: False where the word that decides has no time, so that the row's own break stands, unshifted.
    """

    break_s: float | None
    timed: bool = True


@dataclass(frozen=True, slots=True)
class CropExample:
    """An utterance and its crops: beginnings of it.

    Attributes:
        id: of the row.
        samples: the whole utterance, shape (n,), float32, 16 kHz, as a detector would hear it.
        ends_s: where the crops end, shape (crops,), sorted.
        labels: whether each ends after the label's break, shape (crops,).
        break_s: the label's break; None where there is none.
        category: of `schemas.sid.CATEGORIES`.
    """

    id: str
    samples: Samples
    ends_s: Times
    labels: npt.NDArray[np.bool_]
    break_s: float | None
    category: str

    def cut(self) -> list[Samples]:
        """Return the crops, one a label."""
        return [self.samples[: max(1, round(end_s * SAMPLING_RATE))] for end_s in self.ends_s]


@dataclass(slots=True)
class CropCounts:
    """What was drawn over some epochs, for reports."""

    utterances: int = 0
    crops: int = 0
    positives: int = 0
    near: int = 0
    """Crops that end within `near_width_s` of the label's break."""
    both_sides: int = 0
    """Utterances with a break, with crops on both sides of it."""
    with_break: int = 0
    untimed: int = 0
    """Utterances with a break whose deciding word has no time: their own break is the label's."""
    positives_by_category: Counter[str] = field(default_factory=Counter)
    crops_by_category: Counter[str] = field(default_factory=Counter)

    @property
    def negatives(self) -> int:
        return self.crops - self.positives

    @property
    def near_share(self) -> float:
        """Share of all crops that end near a break; 0 where there are none."""
        return self.near / self.crops if self.crops else 0.0

    @property
    def positive_share(self) -> float:
        """Share of all crops that are positive; 0 where there are none."""
        return self.positives / self.crops if self.crops else 0.0

    def describe(self) -> dict[str, Any]:
        """Return all counts as JSON-ready data."""
        counts = {one.name: getattr(self, one.name) for one in fields(self)}
        counts |= {name: dict(value) for name, value in counts.items() if isinstance(value, Counter)}
        return {**counts, "negatives": self.negatives, "near_share": self.near_share}


@dataclass(frozen=True, slots=True)
class MakeCrops:
    """From rows to `CropExample`s, as `ShardExamples` asks for them."""

    settings: CropSettings

    def __call__(self, row: Mapping[str, Any], rng: np.random.Generator) -> CropExample | RowFault:
        """Return a row's utterance with the crops that the generator draws, or `unreadable_audio`.

        Columns read: CROP_COLUMNS, and `audio` as encoded bytes.
        """
        try:
            samples = hear_clip(row["audio"])
        except InputError as exc:
            return RowFault("unreadable_audio", str(exc))
        break_s = find_label_break(row, self.settings.shift_words).break_s
        ends = draw_ends(rng, float(row["duration_s"]), break_s, self.settings)
        return CropExample(row["id"], samples, ends, label_ends(ends, break_s), break_s, row["category"])


def find_label_break(row: Mapping[str, Any], shift_words: int) -> LabelBreak:
    """Return where the labels of a row turn: its break, `shift_words` words later, within the clip.

    Silence, noise and backchannels have none. Where the word that decides has no time, the row's `break_time_s` stands.
    """
    if row["total_nonbreak"]:
        return LabelBreak(None)
    words = row["words"]
    shifted = shift_break(
        [word["start_s"] for word in words], [word["end_s"] for word in words], row["break_word_index"], shift_words
    )
    found = float(row["break_time_s"]) if shifted is None else shifted
    return LabelBreak(min(found, float(row["duration_s"])), timed=shifted is not None)


def count_crops(rows: Iterable[Mapping[str, Any]], settings: CropSettings, seed: int, epochs: int = 1) -> CropCounts:
    """Return what the crops of some epochs are like, from `CROP_COLUMNS` alone: no audio is read.

    They are the crops that a training with this seed draws of rows that it sees once an epoch.
    """
    counts = CropCounts()
    for row in rows:
        label_break = find_label_break(row, settings.shift_words)
        counts.utterances += 1
        counts.with_break += label_break.break_s is not None
        counts.untimed += not label_break.timed
        both = True
        for epoch in range(epochs):
            rng = make_rng(seed, row["id"], DRAW_NAME, epoch)
            ends = draw_ends(rng, float(row["duration_s"]), label_break.break_s, settings)
            labels = label_ends(ends, label_break.break_s)
            positives = int(labels.sum())
            counts.crops += len(ends)
            counts.positives += positives
            counts.crops_by_category[row["category"]] += len(ends)
            counts.positives_by_category[row["category"]] += positives
            both = both and 0 < positives < len(ends)
            if label_break.break_s is not None:
                counts.near += int((np.abs(ends - label_break.break_s) <= settings.near_width_s).sum())
        counts.both_sides += both and label_break.break_s is not None
    return counts


def hear_clip(audio: bytes) -> Samples:
    """Return an encoded clip as a detector hears it: shape (n,), float32, 16 kHz.

    It is resampled as in an evaluation, whose filter reaches less far than others: features of what lies near half the
    rate would not be the same otherwise.

    Raises:
        InputError: it cannot be decoded, or holds no sample.
    """
    samples, rate = decode_audio(audio)
    if not len(samples):
        raise InputError("the clip has no sample")
    return resample_for_listener(samples, rate, SAMPLING_RATE).samples
