"""The two-dimensional picture of a system's embeddings: whether it keeps one speaker and two apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bystander.schemas.errors import InputError
from bystander.schemas.evaluation_scores import Projection
from bystander.schemas.tpi import HARD_NEGATIVE_LABEL

SpeakerGroup = Literal["one_speaker", "hard_negative", "two_speakers"]

PERPLEXITY = 30.0

_FEWEST_ROWS = 4
_REDUCED_TO = 50
_SEED_BITS = 32  # scikit-learn takes no more
_DECIMALS = 4


def name_speaker_group(row: Mapping[str, Any]) -> SpeakerGroup:
    """Return which of the picture's colours a bench row gets; `n_speakers` and `label` are read."""
    if row["n_speakers"] == 2:
        return "two_speakers"
    return "hard_negative" if row["label"] == HARD_NEGATIVE_LABEL else "one_speaker"


def project_embeddings(
    embeddings: NDArray[np.floating],
    ids: Sequence[str],
    groups: Sequence[SpeakerGroup],
    *,
    system: str,
    seed: int,
    perplexity: float = PERPLEXITY,
) -> Projection:
    """Return the t-SNE picture (van der Maaten and Hinton 2008), a point a row, rounded to four decimals.

    Distances between far points and sizes of clusters mean little in such a picture; what lies mixed or apart does.
    Embeddings of more than 50 dimensions are first reduced to 50 by PCA, as scikit-learn advises; the layout starts
    from PCA, not from chance. One thread computes, so that the same input gives the same points; another processor or
    release of scikit-learn may give others.

    Args:
        embeddings: shape (n, d), n >= 4, d >= 2, float, finite; their scale does not matter.
        ids: n row ids.
        groups: n groups.
        system: whose embeddings these are.
        seed: from `identity.derive_seed`.
        perplexity: how many neighbours of a point count, at least 1. For few rows it is lowered to (n - 1) / 3, the
            most that leaves near and far to tell apart; the result holds the one used.

    Raises:
        InputError: the shape is another, numbers are not finite, or the perplexity is below 1.
    """
    n = len(embeddings)
    if embeddings.ndim != 2 or n < _FEWEST_ROWS or embeddings.shape[1] < 2:
        raise InputError(
            f"embeddings of {system}: shape {embeddings.shape}; a picture needs at least {_FEWEST_ROWS} rows and "
            "2 dimensions"
        )
    if not n == len(ids) == len(groups):
        raise InputError(f"embeddings of {system}: {n} rows for {len(ids)} ids and {len(groups)} groups")
    if not perplexity >= 1:
        raise InputError(f"perplexity {perplexity:g}: must be at least 1")
    used = min(float(perplexity), (n - 1) / 3)
    points = _place_points(_centre(embeddings, system), used, seed % 2**_SEED_BITS)
    return Projection(
        system=system,
        perplexity=used,
        ids=tuple(ids),
        groups=tuple(groups),
        x=tuple(round(float(x), _DECIMALS) + 0.0 for x in points[:, 0]),
        y=tuple(round(float(y), _DECIMALS) + 0.0 for y in points[:, 1]),
    )


def _centre(embeddings: NDArray[np.floating], system: str) -> NDArray[np.float64]:
    """Return them around 0 and within [-2, 2], where no square overflows."""
    values = np.asarray(embeddings, np.float64)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise InputError(f"embeddings of {system}: row {row} (counted from 0) holds NaN or infinite numbers")
    values = values / (np.abs(values).max() or 1.0)
    return values - values.mean(axis=0)


def _place_points(values: NDArray[np.float64], perplexity: float, seed: int) -> NDArray[np.floating]:
    spread = np.abs(values).max()
    if spread <= 1e-12:  # PCA would divide by 0; equal embeddings are one spot
        return np.zeros((len(values), 2))
    values = values / spread
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        if values.shape[1] > _REDUCED_TO < len(values):
            values = PCA(_REDUCED_TO, svd_solver="randomized", random_state=seed).fit_transform(values)
        layout = TSNE(perplexity=perplexity, init="pca", learning_rate="auto", random_state=seed, n_jobs=1)
        points: NDArray[np.floating] = layout.fit_transform(values)
    return points
