"""Scores of the two-input model on a bench: what it takes for an interruption, and whether its class is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bystander.tasks.metrics.twin_pairs import find_twins
from bystander.tasks.training.two_input_rows import NO_INTERRUPTION, TwoInputRow


@dataclass(frozen=True, slots=True)
class BenchAnswers:
    """A model's verdicts on bench rows, by row: shape (rows,) each."""

    interruption: npt.NDArray[np.float64]
    """Probability that there is one: 1 minus that of `none`."""
    recognised: npt.NDArray[np.bool_]
    """Whether that is at least a half."""
    class_right: npt.NDArray[np.bool_]
    """Whether it is recognised, and the likeliest of the other classes is the row's."""


@dataclass(frozen=True, slots=True)
class BenchShares:
    """Shares in [0, 1]: of one-speaker rows taken for an interruption; of two-speaker rows recognised, and classed."""

    false_interruption: float
    recognised: float
    class_accuracy: float
    dyadic_interruption: float | None
    """Of dyadic rows taken for an interruption; None where there is no such row."""


def judge_answers(
    probabilities: npt.NDArray[np.float64], classes: Sequence[str], rows: Sequence[TwoInputRow]
) -> BenchAnswers:
    """Return the verdicts that probabilities, shape (rows, classes), come to. `none` is the first class."""
    if classes[0] != NO_INTERRUPTION:
        raise ValueError(f"the first class is {classes[0]!r}, not {NO_INTERRUPTION!r}")
    interruption = 1 - probabilities[:, 0]
    recognised = interruption >= 0.5
    likeliest = [classes[1 + int(number)] for number in probabilities[:, 1:].argmax(1)]
    right = np.array([found == row.label for found, row in zip(likeliest, rows, strict=True)], bool)
    return BenchAnswers(interruption, recognised, recognised & right)


def share_answers(answers: BenchAnswers, rows: Sequence[TwoInputRow]) -> BenchShares:
    """Return the shares over a bench with two-speaker rows and hard negatives, and dyadic rows where there are some."""
    two = np.array([row.two_speakers for row in rows], bool)
    one = np.array([row.part == "hard_negative" for row in rows], bool)
    dyadic = np.array([row.part == "dyadic" for row in rows], bool)
    return BenchShares(
        false_interruption=float(answers.recognised[one].mean()),
        recognised=float(answers.recognised[two].mean()),
        class_accuracy=float(answers.class_right[two].mean()),
        dyadic_interruption=float(answers.recognised[dyadic].mean()) if dyadic.any() else None,
    )


def list_twins(rows: Sequence[TwoInputRow]) -> list[tuple[int, int]]:
    """Return the places of linked twins among rows, the two-speaker row first."""
    return find_twins(
        [row.id for row in rows], [2 if row.two_speakers else 1 for row in rows], [r.twin_id for r in rows]
    )
