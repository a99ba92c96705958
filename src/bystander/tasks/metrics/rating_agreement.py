"""How far raters agree on items that several of them rated: Krippendorff's alpha."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Scale = Literal["nominal", "ordinal", "interval"]


@dataclass(frozen=True, slots=True)
class RatingAgreement:
    """Alpha, 1 for full agreement, 0 for that of chance, or None and why; over items of two ratings or more."""

    alpha: float | None
    items: int
    ratings: int
    reason: str | None = None


def measure_alpha(values: Sequence[float], items: Sequence[Hashable], scale: Scale) -> RatingAgreement:
    """Return alpha = 1 - observed / expected disagreement (Krippendorff 2019, chapter 12).

    Raters need not be the same from item to item; items that one person rated say nothing and are left out. Two values
    disagree by 0 or 1 (nominal), by their squared difference (interval), or by the square of how many ratings lie
    between them, those of the two values counted half (ordinal).

    Args:
        values: ratings; on a nominal scale any numbers that tell answers apart.
        items: what each is about, as long as `values`.
        scale: of the ratings.
    """
    levels = sorted(set(values))
    place = {value: at for at, value in enumerate(levels)}
    counts: dict[Hashable, NDArray[np.float64]] = {}
    for value, item in zip(values, items, strict=True):
        counts.setdefault(item, np.zeros(len(levels)))[place[value]] += 1
    shared = [row for row in counts.values() if row.sum() > 1]
    if not shared:
        return RatingAgreement(None, 0, 0, "no item was rated by two raters")
    table = np.array(shared)
    n_items, n_ratings = len(table), int(table.sum())
    weights = 1 / (table.sum(axis=1) - 1)
    coincidences = np.einsum("u,uc,uk->ck", weights, table, table) - np.diag(weights @ table)
    totals = coincidences.sum(axis=0)
    distances = _measure_distances(np.array(levels, np.float64), totals, scale)
    expected = float(totals @ distances @ totals) / (n_ratings - 1)
    if expected == 0:
        return RatingAgreement(None, n_items, n_ratings, "all ratings are the same, so agreement by chance is certain")
    return RatingAgreement(1 - float(np.sum(coincidences * distances)) / expected, n_items, n_ratings)


def _measure_distances(levels: NDArray[np.float64], totals: NDArray[np.float64], scale: Scale) -> NDArray[np.float64]:
    if scale == "nominal":
        return 1 - np.eye(len(levels))
    # Ranks in the middle of each value's ratings: their difference is what the definition sums up.
    at = levels if scale == "interval" else np.cumsum(totals) - totals / 2
    distances: NDArray[np.float64] = np.square(at[:, None] - at[None, :])
    return distances
