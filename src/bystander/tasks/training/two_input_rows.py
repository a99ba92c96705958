"""The rows that the two-input model learns from and is scored on, and the examples that they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples
from bystander.schemas.identity import make_rng
from bystander.schemas.train_tpi_config import RowPart
from bystander.tasks.training.row_draws import RowDraws, draw_once
from bystander.tasks.training.two_input_sound import Frames, SoundFront, measure_window_levels
from bystander.tasks.training.two_input_words import hash_words, split_words

NO_INTERRUPTION = "none"
"""Class of a clip in which one speaker speaks."""


@dataclass(frozen=True, slots=True)
class TwoInputRow:
    """A row as the model perceives it, and what is known of it. Frames are computed once: a run reads rows often."""

    id: str
    group: str
    """Its request: rows of one request are held out together and drawn together."""
    part: RowPart
    label: str
    """`none`, or a class of the pack."""
    words: tuple[str, ...]
    frames: Frames
    duration_s: float
    levels_db: npt.NDArray[np.float64]
    """Of pieces of the clip; the model does not see them, but a control does."""
    twin_id: str | None = None
    request_words: tuple[str, ...] = ()
    """Words of the whole request alone, as one speaker says it in a dyadic row; empty where it is not known."""

    @property
    def two_speakers(self) -> bool:
        return self.part == "two_speaker"


@dataclass(frozen=True, slots=True)
class TwoInputExample:
    """What goes into the model: `words` as hashed numbers, shape (n,), `frames`, and the number of the class."""

    words: npt.NDArray[np.int64]
    frames: Frames
    label: int


def perceive_row(
    front: SoundFront,
    samples: Samples,
    sampling_rate: int,
    *,
    row_id: str,
    group: str,
    part: RowPart,
    label: str,
    texts: Sequence[str | None],
    twin_id: str | None = None,
    request: str | None = None,
) -> TwoInputRow:
    """Return a row as the model perceives it.

    Args:
        front: makes the frames.
        samples: the clip, shape (n,), float32 in [-1, 1].
        sampling_rate: in Hz.
        row_id, group, part, twin_id: as in `TwoInputRow`.
        label: of the data; where one speaker speaks, `none` is put in its place.
        texts: what is said, in order.
        request: the whole request, without what a third party says.
    """
    return TwoInputRow(
        id=row_id,
        group=group,
        part=part,
        label=label if part == "two_speaker" else NO_INTERRUPTION,
        words=split_words(*texts),
        frames=front.compute(samples, sampling_rate),
        duration_s=len(samples) / sampling_rate,
        levels_db=measure_window_levels(samples, sampling_rate),
        twin_id=twin_id,
        request_words=split_words(request),
    )


def list_classes(rows: Sequence[TwoInputRow]) -> tuple[str, ...]:
    """Return `none` and then the classes of two-speaker rows, sorted: the order of the model's outputs."""
    return (NO_INTERRUPTION, *sorted({row.label for row in rows} - {NO_INTERRUPTION}))


def make_examples(rows: Sequence[TwoInputRow], classes: Sequence[str], buckets: int) -> list[TwoInputExample]:
    """Return the examples of rows with all their words. Of a class that is not in `classes`, the label is -1."""
    numbers = {name: number for number, name in enumerate(classes)}
    return [TwoInputExample(hash_words(row.words, buckets), row.frames, numbers.get(row.label, -1)) for row in rows]


class TwoInputSource:
    """Examples of rows in memory, each epoch with other words left out; an `ExampleSource`."""

    def __init__(
        self,
        rows: Sequence[TwoInputRow],
        classes: Sequence[str],
        buckets: int,
        *,
        draws: RowDraws | None = None,
        word_dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        """Take rows.

        Args:
            rows: what is trained on.
            classes: in the order of the model's outputs.
            buckets: of the hash of words.
            draws: what an epoch has of the rows; each once without it.
            word_dropout: share of the words left out; one is always kept.
            seed: decides which.
        """
        self._rows = tuple(rows)
        self._draws = draw_once(np.arange(len(rows))) if draws is None else draws
        self._numbers = {name: number for number, name in enumerate(classes)}
        self._buckets = buckets
        self._word_dropout = word_dropout
        self._seed = seed

    def __len__(self) -> int:
        return len(self._draws)

    @property
    def lengths(self) -> npt.NDArray[np.float64]:
        return self._draws.average(np.array([row.duration_s for row in self._rows], np.float64))

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        return np.zeros(len(self), np.int64)

    def read(self, numbers: Sequence[int], epoch: int) -> list[TwoInputExample]:
        """Return the examples of these numbers. Which words are left out hangs on (seed, row id, epoch) alone."""
        wanted = np.asarray(numbers, np.int64)
        picked, copies = self._draws.pick(wanted, epoch), self._draws.copies[wanted]
        return [self._make(self._rows[row], int(copy), epoch) for row, copy in zip(picked, copies, strict=True)]

    def _make(self, row: TwoInputRow, copy: int, epoch: int) -> TwoInputExample:
        words: Sequence[str] = row.words
        if self._word_dropout and len(words) > 1:
            rng = make_rng(self._seed, row.id, "word_dropout", epoch, copy)
            kept = rng.random(len(words)) >= self._word_dropout
            kept[int(rng.integers(len(words)))] = True
            words = [word for word, keep in zip(words, kept, strict=True) if keep]
        return TwoInputExample(hash_words(words, self._buckets), row.frames, self._numbers[row.label])
