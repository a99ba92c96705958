"""Which voices of a bank sound alike: pairs whose embeddings have a high cosine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_BLOCK_CELLS = 1 << 22


def find_similar_pairs(
    embeddings: npt.NDArray[np.float32], threshold: float, most: int
) -> tuple[list[tuple[int, int, float]], int]:
    """Return the most similar pairs of voices, closest first, and how many there are in all.

    Args:
        embeddings: shape (voices, d), rows of L2 norm 1.
        threshold: least cosine.
        most: how many pairs are returned.

    Returns:
        Pairs as (one, other, cosine) with one < other, and their number without the limit.
    """
    count = len(embeddings)
    kept: list[tuple[float, int, int]] = []
    total = 0
    step = max(1, _BLOCK_CELLS // max(1, count))
    for start in range(0, count, step):
        cosines = embeddings[start : start + step] @ embeddings.T
        rows, columns = np.nonzero(np.triu(cosines >= threshold, start + 1))
        total += len(rows)
        values = cosines[rows, columns]
        chosen = np.argsort(-values, kind="stable")[:most]
        found = zip(values[chosen].tolist(), (rows[chosen] + start).tolist(), columns[chosen].tolist(), strict=True)
        kept = sorted([*kept, *found], key=lambda pair: (-pair[0], pair[1], pair[2]))[:most]
    return [(one, other, cosine) for cosine, one, other in kept], total


def measure_quantiles(
    embeddings: npt.NDArray[np.float32], quantiles: tuple[float, ...], pairs: int, rng: np.random.Generator
) -> list[float]:
    """Return quantiles of the cosine between two different voices, over so many pairs drawn at random."""
    if len(embeddings) < 2:
        return []
    one = rng.integers(len(embeddings), size=pairs)
    other = (one + rng.integers(1, len(embeddings), size=pairs)) % len(embeddings)
    cosines = np.einsum("ij,ij->i", embeddings[one], embeddings[other])
    return [float(value) for value in np.quantile(cosines, quantiles)]
