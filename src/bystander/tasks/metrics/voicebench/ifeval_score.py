"""IFEval's score: how far answers follow their instructions, strictly and loosely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bystander.tasks.metrics.bootstrap import LEVEL, RESAMPLES, MeanEstimate
from bystander.tasks.metrics.voicebench.ifeval_rules import Settings, follows


@dataclass(frozen=True, slots=True)
class Following:
    """Which instructions of a row its answer follows, as it stands (strict) and forgivingly (loose)."""

    strict: tuple[bool, ...]
    loose: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class IfevalScore:
    """The four accuracies in [0, 1] of IFEval and their mean `overall`, which is VoiceBench's figure for the part.

    By prompt, a row counts if all its instructions are followed; by instruction, each counts by itself.
    """

    overall: MeanEstimate
    strict_prompt: float | None
    strict_instruction: float | None
    loose_prompt: float | None
    loose_instruction: float | None


def check_instructions(answer: str, instructions: Sequence[tuple[str, Settings]]) -> Following:
    """Check an answer against each (id, settings).

    Loosely, an instruction is followed if one of eight readings of the answer does so: with or without its first line,
    with or without its last, with or without asterisks (Zhou et al. 2023, section 2.2).
    """
    readings = _list_readings(answer)
    return Following(
        strict=tuple(follows(name, answer, settings) for name, settings in instructions),
        loose=tuple(any(follows(name, reading, settings) for reading in readings) for name, settings in instructions),
    )


def score_ifeval(
    rows: Sequence[Following], *, seed: int, level: float = LEVEL, n_resamples: int = RESAMPLES
) -> IfevalScore:
    """Return the accuracies over rows, each of which has at least one instruction.

    The interval of the mean of four resamples whole rows, so that what stands together in a row stays together.
    """
    if not rows:
        return IfevalScore(MeanEstimate(None, None, None, 0, 0), None, None, None, None)
    # Columns: all followed strictly, loosely; number followed strictly, loosely; number of instructions.
    table = np.array(
        sorted((all(row.strict), all(row.loose), sum(row.strict), sum(row.loose), len(row.strict)) for row in rows),
        np.float64,
    )
    strict_prompt, loose_prompt, strict_instruction, loose_instruction = map(float, _rate(table.T, -1))
    mean = math.fsum((strict_prompt, loose_prompt, strict_instruction, loose_instruction)) / 4
    low, high = _resample(table, mean, seed, level, n_resamples)
    return IfevalScore(
        overall=MeanEstimate(mean, low, high, len(rows), len(rows)),
        strict_prompt=strict_prompt,
        strict_instruction=strict_instruction,
        loose_prompt=loose_prompt,
        loose_instruction=loose_instruction,
    )


def _list_readings(answer: str) -> list[str]:
    lines = answer.split("\n")
    cut = [answer, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return list(dict.fromkeys([*cut, *(text.replace("*", "") for text in cut)]))


def _rate(columns: Any, axis: int) -> tuple[Any, Any, Any, Any]:
    strict_rows, loose_rows, strict, loose, total = (np.sum(column, axis=axis) for column in columns)
    rows = np.shape(columns[0])[axis]
    return strict_rows / rows, loose_rows / rows, strict / total, loose / total


def _resample(table: Any, mean: float, seed: int, level: float, n_resamples: int) -> tuple[float, float]:
    if np.all(table == table[0]):
        return mean, mean
    from scipy import stats

    interval = stats.bootstrap(
        tuple(table.T),
        lambda *columns, axis: sum(_rate(columns, axis)) / 4,
        paired=True,
        vectorized=True,
        n_resamples=n_resamples,
        batch=max(1, 1_000_000 // len(table)),
        confidence_level=level,
        method="percentile",
        rng=np.random.Generator(np.random.PCG64(seed)),
    ).confidence_interval
    return float(interval.low), float(interval.high)
