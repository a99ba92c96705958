"""Random crops of an utterance, and whether each ends after the break (SID paper, IV-B).

A crop is the beginning of a clip: a detector hears growing prefixes. Times are in seconds from the start of the clip.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bystander.schemas.train_sid_config import CropSettings

Times = npt.NDArray[np.float64]


def shift_break(
    word_starts_s: Sequence[float | None],
    word_ends_s: Sequence[float | None],
    break_word_index: int | None,
    words: int,
) -> float | None:
    """Return the label's break: the start of the word `words` after the break word, or the end of the last word.

    The SID paper shifts by one word, so that a little of what follows confirms the intent. None where none breaks, and
    where the word that decides has no time.
    """
    if break_word_index is None or not word_starts_s:
        return None
    index = break_word_index + words
    time = word_starts_s[index] if index < len(word_starts_s) else word_ends_s[-1]
    return None if time is None else float(time)


def label_ends(ends_s: Times, break_s: float | None) -> npt.NDArray[np.bool_]:
    """Return for each crop's end whether it lies after the label's break: shape (crops,)."""
    return np.zeros(len(ends_s), bool) if break_s is None else ends_s > break_s


def end_density(times_s: Times, duration_s: float, break_s: float | None, settings: CropSettings) -> Times:
    """Return the density (1/s) with which crops end at times of a clip: even, and denser around the label's break.

    A mixture of a uniform density on [min_s, duration_s] and, with weight `near_share`, a normal one around the break,
    cut to the same stretch. Shape (times,); it integrates to 1 over the clip. All crops of a clip that is no longer
    than `min_s` are the whole of it, where there is no density: 0 everywhere.
    """
    from scipy.special import ndtr

    low, high = min(settings.min_s, duration_s), duration_s
    inside = (times_s >= low) & (times_s <= high)
    if low == high:
        return np.zeros(len(times_s))
    even = inside / (high - low)
    if break_s is None or not low <= break_s <= high:
        return np.asarray(even, float)
    width = settings.near_width_s
    mass = ndtr((high - break_s) / width) - ndtr((low - break_s) / width)
    near = np.exp(-0.5 * ((times_s - break_s) / width) ** 2) / (width * np.sqrt(2 * np.pi) * mass)
    return np.asarray((1 - settings.near_share) * even + settings.near_share * inside * near, float)


def draw_ends(rng: np.random.Generator, duration_s: float, break_s: float | None, settings: CropSettings) -> Times:
    """Return where the crops of a clip end, sorted, shape (an_utterance,), drawn from `end_density`.

    Where the break leaves room on both sides, at least one crop ends on each: if all fall on one side, one of them is
    moved to the other, as far from the break as it was where there is room. It alone is not drawn from the density.
    """
    low, high = min(settings.min_s, duration_s), duration_s
    even = rng.uniform(low, high, settings.an_utterance)
    if break_s is None or not low <= break_s <= high:
        return np.sort(even)
    near = _draw_near(rng, low, high, break_s, settings)
    ends = np.where(rng.random(settings.an_utterance) < settings.near_share, near, even)
    if low < break_s and not (ends <= break_s).any():
        ends[0] = _mirror(ends[0], break_s, low, high)
    if break_s < high and not (ends > break_s).any():
        ends[-1] = _mirror(ends[-1], break_s, low, high)
    return np.sort(ends)


def _draw_near(rng: np.random.Generator, low: float, high: float, break_s: float, settings: CropSettings) -> Times:
    """Draw from a normal density around the break, cut to [low, high]: by its distribution, turned round."""
    from scipy.special import ndtr, ndtri

    width = settings.near_width_s
    below, above = ndtr((low - break_s) / width), ndtr((high - break_s) / width)
    drawn = break_s + width * ndtri(below + (above - below) * rng.random(settings.an_utterance))
    return np.asarray(np.clip(drawn, low, high), float)


def _mirror(end_s: float, break_s: float, low: float, high: float) -> float:
    """Return a time on the other side of the break, as far from it as there is room."""
    mirrored = 2 * break_s - end_s
    if end_s <= break_s:
        return min(mirrored if mirrored > break_s else high, high)
    return max(mirrored, low)
