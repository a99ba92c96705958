"""What a model of words and sound leans on: words of one row under the sound of another, and the reverse.

An interchange intervention (counterfactual swap): one input is replaced by that of another row while the other input
stays, so a change of the answer has one cause. Of each row the words are taken twice, as the row has them and as the
request alone, which is what dyadic rows say; and under each, its own sound and that of rows of the other kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bystander.schemas.identity import derive_seed
from bystander.schemas.mixture_results import SwapContrast
from bystander.schemas.train_tpi_config import RowPart
from bystander.tasks.training.two_input_rows import TwoInputExample, TwoInputRow
from bystander.tasks.training.two_input_words import hash_words

if TYPE_CHECKING:
    from bystander.tasks.training.two_input import TwoInputModel

PARTNERS = 4
"""Rows of the other kind whose sound each row is given."""
_ONE_SPEAKER: dict[SwapContrast, RowPart] = {"hard_negative": "hard_negative", "dyadic": "dyadic"}
_LEAST = 1e-12


@dataclass(frozen=True, slots=True)
class Swap:
    """A row whose words are read, and the sounds that are heard with them: of one speaker and of two."""

    words_of: TwoInputRow
    one: TwoInputRow
    two: TwoInputRow


@dataclass(frozen=True, slots=True)
class SwapAnswers:
    """What one model says of swaps: log-odds of an interruption, shape (swaps, 2, 2).

    The second axis is the words: the request alone, all words. The third is the sound: one speaker, two speakers.
    """

    log_odds: npt.NDArray[np.float64]

    @property
    def taken(self) -> npt.NDArray[np.float64]:
        """1 where a cell is taken for an interruption, else 0; the same shape."""
        return (self.log_odds >= 0).astype(np.float64)

    @property
    def words_effect(self) -> npt.NDArray[np.float64]:
        """Change of the log-odds when the request alone becomes all words, mean over both sounds; shape (swaps,)."""
        effect: npt.NDArray[np.float64] = (self.log_odds[:, 1] - self.log_odds[:, 0]).mean(1)
        return effect

    @property
    def sound_effect(self) -> npt.NDArray[np.float64]:
        """Change of the log-odds when one speaker's sound becomes two speakers', mean over both texts."""
        effect: npt.NDArray[np.float64] = (self.log_odds[:, :, 1] - self.log_odds[:, :, 0]).mean(1)
        return effect

    @property
    def caused_by_words(self) -> npt.NDArray[np.float64]:
        """Of one speaker's sound: taken with all words less taken with the request alone."""
        taken = self.taken
        change: npt.NDArray[np.float64] = taken[:, 1, 0] - taken[:, 0, 0]
        return change

    @property
    def caused_by_sound(self) -> npt.NDArray[np.float64]:
        """With all words: taken with two speakers' sound less taken with one speaker's."""
        taken = self.taken
        change: npt.NDArray[np.float64] = taken[:, 1, 1] - taken[:, 1, 0]
        return change

    @property
    def words_share(self) -> float:
        """Mean effect of words over the sum of both mean effects, by size: in [0, 1], whatever the model's scale.

        0: it only hears. 1: it only reads. Not a number where neither changes anything.
        """
        words, sound = abs(float(self.words_effect.mean())), abs(float(self.sound_effect.mean()))
        return words / (words + sound) if words + sound > _LEAST else float("nan")


def pair_rows(
    rows: Sequence[TwoInputRow], contrast: SwapContrast, seed: int, partners: int = PARTNERS
) -> tuple[Swap, ...]:
    """Return the swaps of rows: each two-speaker row with sounds of one-speaker rows, and each hard negative with
    sounds of two-speaker rows. A linked twin comes first, then a row of the same request, then others by lot.

    Args:
        rows: of a bench, and dyadic rows that no model is trained on.
        contrast: whose sound is one speaker's. Of dyadic rows the words are not taken: they say the request alone.
        seed: decides the lot, with the row's id.
        partners: sounds a row.
    """
    ones = [row for row in rows if row.part == _ONE_SPEAKER[contrast]]
    twos = [row for row in rows if row.two_speakers]
    swaps = []
    for row in rows:
        if not row.request_words or row.part == "dyadic":
            continue
        if row.two_speakers:
            swaps += [Swap(row, other, row) for other in _choose(row, ones, seed, partners)]
        elif row.part == _ONE_SPEAKER[contrast]:
            swaps += [Swap(row, row, other) for other in _choose(row, twos, seed, partners)]
    return tuple(swaps)


def answer_swaps(model: TwoInputModel, swaps: Sequence[Swap], buckets: int) -> SwapAnswers:
    """Return what a model says of swaps; each pair of words and sound is asked once.

    Args:
        model: with one input or with two.
        swaps: at least one.
        buckets: of the hash of words.
    """
    from bystander.tasks.training.two_input import answer_two_input

    hashed = {
        swap.words_of.id: tuple(
            hash_words(words, buckets) for words in (swap.words_of.request_words, swap.words_of.words)
        )
        for swap in swaps
    }
    wanted: dict[tuple[str, int, str], int] = {}
    examples: list[TwoInputExample] = []
    cells = np.empty((len(swaps), 2, 2), np.int64)
    for place, swap in enumerate(swaps):
        for text in (0, 1):
            for sound, heard in enumerate((swap.one, swap.two)):
                key = (swap.words_of.id, text, heard.id)
                if key not in wanted:
                    wanted[key] = len(examples)
                    examples.append(TwoInputExample(hashed[swap.words_of.id][text], heard.frames, 0))
                cells[place, text, sound] = wanted[key]
    none = answer_two_input(model, examples).probabilities[:, 0]
    log_odds = np.log(np.maximum(1 - none, _LEAST)) - np.log(np.maximum(none, _LEAST))
    return SwapAnswers(log_odds[cells])


def _choose(row: TwoInputRow, others: Sequence[TwoInputRow], seed: int, count: int) -> list[TwoInputRow]:
    def rank(other: TwoInputRow) -> tuple[bool, bool, int]:
        lot = derive_seed(seed, f"{row.id}/{other.id}", "swap_partners")
        return other.id != row.twin_id, other.group != row.group, lot

    return sorted(others, key=rank)[:count]
