"""More Gaussians for the states with the most frames: Kaldi's `gmm-mixup`, with random directions that are seeded.

Kaldi's own draws from the generator of the C library, so that the same corpus would give another model each time.
"""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from bystander.schemas.identity import make_rng
from bystander.tasks.engines.kaldi_gmm.acoustic_model import Mixtures

POWER = 0.25
MIN_COUNT = 20.0
PERTURBATION = 0.01


def split_mixtures(mixtures: Mixtures, counts: npt.NDArray[np.float64], target: int, seed: int) -> Mixtures:
    """Return mixtures with `target` Gaussians in all, or as many as `MIN_COUNT` frames a Gaussian allow.

    States gain in proportion to their frames to the power of `POWER`; a state's heaviest Gaussian is split, its halves
    moved apart by `PERTURBATION` standard deviations times a normal draw.

    Args:
        mixtures: as they are.
        counts: frames of each state, shape (states,).
        target: Gaussians wanted.
        seed: decides the directions.
    """
    sizes = np.diff(mixtures.offsets).astype(int)
    wanted = _share_out(sizes, counts, target)
    parts: list[list[npt.NDArray[np.float32]]] = [[], [], []]
    for state, (start, end) in enumerate(zip(mixtures.offsets[:-1], mixtures.offsets[1:], strict=True)):
        weights = list(mixtures.weights[start:end])
        means = list(mixtures.means[start:end])
        variances = list(mixtures.variances[start:end])
        rng = make_rng(seed, str(state), "mixture_split")
        while len(weights) < wanted[state]:
            heaviest = int(np.argmax(weights))
            weights[heaviest] /= 2
            weights.append(weights[heaviest])
            shift = PERTURBATION * np.sqrt(variances[heaviest]) * rng.standard_normal(len(means[heaviest]))
            means.append(means[heaviest] + shift)
            means[heaviest] = means[heaviest] - shift
            variances.append(variances[heaviest])
        for part, values in zip(parts, (weights, means, variances), strict=True):
            part.append(np.array(values, np.float32))
    return Mixtures(
        np.concatenate([[0], np.cumsum(np.maximum(wanted, sizes))]).astype(np.int32),
        *(np.concatenate(part) for part in parts),
    )


def _share_out(sizes: npt.NDArray[np.int_], counts: npt.NDArray[np.float64], target: int) -> npt.NDArray[np.int_]:
    wanted = sizes.copy()
    heap = [(-float(count**POWER) / size, state) for state, (count, size) in enumerate(zip(counts, sizes, strict=True))]
    heapq.heapify(heap)
    while heap and wanted.sum() < target:
        _, state = heapq.heappop(heap)
        if counts[state] / (wanted[state] + 1) < MIN_COUNT:
            continue
        wanted[state] += 1
        heapq.heappush(heap, (-float(counts[state] ** POWER) / wanted[state], state))
    return wanted
