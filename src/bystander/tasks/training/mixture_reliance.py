"""What an experiment's models lean on: effects of swapped inputs, and the seam control, over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.identity import derive_seed
from bystander.schemas.mixture_results import SplicedSummary, SwapComparison, SwapContrast, SwapMeasure, SwapSummary
from bystander.schemas.train_tpi_config import MixtureName, TwoInputs
from bystander.tasks.training.mixture_statistics import estimate_both, estimate_over_seeds, test_differences
from bystander.tasks.training.mixture_swaps import Swap, SwapAnswers

_MEASURES: tuple[SwapMeasure, ...] = ("words_effect", "sound_effect", "words_share")


def summarise_swaps(
    mixture: MixtureName,
    inputs: TwoInputs,
    contrast: SwapContrast,
    swaps: Sequence[Swap],
    answers: Sequence[SwapAnswers],
    confidence: float,
    seed: int,
) -> SwapSummary:
    """Return the effects of swaps over seeds, `answers`, and over rows: whole requests are drawn, of the words."""
    clusters = [swap.words_of.group for swap in swaps]
    figures = {
        name: estimate_both(
            np.stack([getattr(one, name) for one in answers]),
            clusters,
            confidence,
            derive_seed(seed, f"{mixture}/{inputs}/{contrast}/{name}", "swap_rows"),
        )
        for name in ("words_effect", "sound_effect", "caused_by_words", "caused_by_sound")
    }
    shares = [one.words_share for one in answers]
    known = not np.isnan(shares).any()
    (request_one, request_two), (all_one, all_two) = np.mean([one.taken.mean(0) for one in answers], 0).tolist()
    return SwapSummary(
        mixture=mixture,
        inputs=inputs,
        contrast=contrast,
        swaps=len(swaps),
        **figures,
        words_share=estimate_over_seeds(shares, confidence) if known else Estimate(mean=None, low=None, high=None, n=0),
        taken=((request_one, request_two), (all_one, all_two)),
    )


def compare_swaps(
    first: MixtureName,
    second: MixtureName,
    inputs: TwoInputs,
    contrast: SwapContrast,
    ours: Sequence[SwapAnswers],
    theirs: Sequence[SwapAnswers],
) -> list[SwapComparison]:
    """Return paired t-tests of two mixtures' effects, by seed. A share that is not known is not compared."""
    found = []
    for measure in _MEASURES:
        differences = np.array(
            [_mean(one, measure) - _mean(other, measure) for one, other in zip(ours, theirs, strict=True)]
        )
        if np.isnan(differences).any():
            continue
        statistic, p = test_differences(differences)
        found.append(
            SwapComparison(
                first=first,
                second=second,
                inputs=inputs,
                contrast=contrast,
                measure=measure,
                difference=float(differences.mean()),
                statistic=statistic,
                p=p,
                n=len(differences),
            )
        )
    return found


def summarise_spliced(
    mixture: MixtureName,
    inputs: TwoInputs,
    groups: Sequence[str],
    probabilities: Sequence[npt.NDArray[np.float64]],
    confidence: float,
    seed: int,
) -> SplicedSummary:
    """Return the seam control.

    Args:
        mixture, inputs: of the models.
        groups: request of each pair.
        probabilities: of an interruption, by seed: shape (pairs, 2), one voice and two voices.
        confidence: of intervals.
        seed: of the bootstrap.
    """
    asked = np.stack(probabilities)
    margin = np.round(asked[..., 1] - asked[..., 0], 9)
    figures = {
        "one_voice": (asked[..., 0] >= 0.5).astype(np.float64),
        "two_voices": (asked[..., 1] >= 0.5).astype(np.float64),
        "ranked": (np.sign(margin) + 1) / 2,
    }
    return SplicedSummary(
        mixture=mixture,
        inputs=inputs,
        pairs=len(groups),
        **{
            name: estimate_both(
                values, groups, confidence, derive_seed(seed, f"{mixture}/{inputs}/{name}", "spliced_rows")
            )
            for name, values in figures.items()
        },
    )


def _mean(answers: SwapAnswers, measure: SwapMeasure) -> float:
    return float(np.mean(getattr(answers, measure)))
