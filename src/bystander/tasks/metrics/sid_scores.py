"""Scores of interruption detection, case by case: outcome, latency and penalty of each clip (SID paper, section III).

A case is a clip that a user speaks over a talking assistant. It has one break, where the user begins to say something
new, or none; the system stops at one time, or never. Times are seconds from the start of the clip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bystander.schemas.errors import InputError

TOLERANCE_S = 0.05
"""A stop this close to the break, on either side, is exact in the authors' scorer (`test.ipynb` of SID-Bench)."""

Outcome = Literal["TP", "FP", "FN", "TN"]
OUTCOMES: tuple[Outcome, ...] = ("TP", "FP", "FN", "TN")
"""Stopped for the break; stopped for nothing, or before the break; never stopped despite a break; rightly never."""

_SLACK_S = 1e-9  # times are decimal fractions: 0.45 is 0.05 before 0.5, whatever binary rounding says

Times = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CaseScores:
    """What became of each case: arrays of one length and order.

    Attributes:
        outcome: str, of OUTCOMES.
        has_break: bool.
        early: bool, stopped before the break, beyond the tolerance: false positives of clips that have a break.
        exact: bool, stopped within the tolerance of the break (of the clip's end, where there is none).
        after_end: bool, stopped when the clip was over.
        latency_s: float64, time from break to stop of true positives, 0 for exact ones; NaN for all other cases.
        penalty_s: float64, what the outcome costs the user, >= 0.
        capped_penalty_s: float64, the same with the cap on false alarms of clips without speech; equal without a cap.
    """

    outcome: NDArray[np.str_]
    has_break: Flags
    early: Flags
    exact: Flags
    after_end: Flags
    latency_s: Times
    penalty_s: Times
    capped_penalty_s: Times

    def __len__(self) -> int:
        return len(self.outcome)

    def select(self, at: Flags | NDArray[np.int64]) -> CaseScores:
        """Return the cases at these positions, or where these flags are true."""
        return CaseScores(*(getattr(self, name)[at] for name in self.__dataclass_fields__))

    def is_outcome(self, outcome: Outcome) -> Flags:
        """Return which cases have this outcome."""
        found: Flags = self.outcome == outcome
        return found

    @property
    def timed(self) -> Flags:
        """The true positives that IRL averages: all but the exact ones."""
        return self.is_outcome("TP") & ~self.exact


def score_cases(
    duration_s: ArrayLike,
    break_s: Sequence[float | None],
    stop_s: Sequence[float | None],
    *,
    tolerance_s: float | None = TOLERANCE_S,
    without_speech: Sequence[bool] | None = None,
    penalty_cap_s: float | None = None,
) -> CaseScores:
    """Return outcome, latency and penalty of each case.

    Penalties are those of the SID paper, III-B. True positive: its latency. False positive: the duration of the clip.
    False negative: what the user still says after the break. True negative: none. A stop before the break is a false
    positive. As in the authors' scorer, a stop within the tolerance of the break is a true positive without latency
    or penalty, be it before or after; where there is no break, it is none if it falls on the clip's end as closely.

    Args:
        duration_s: length of each clip, > 0.
        break_s: time of the break in [0, duration], None where there is none.
        stop_s: when the system stopped, >= 0, None where it never did. It may be after the clip's end.
        tolerance_s: how close a stop counts as exact; None for no tolerance at all: a stop at the very break then has
            latency 0 and counts in IRL.
        without_speech: silence and noise clips, to which the cap applies; None for no clip.
        penalty_cap_s: most that a false alarm in such a clip may cost in `capped_penalty_s`; None for no cap.

    Raises:
        InputError: lengths differ, or a time is not finite or outside its range; names the case by its position.
    """
    duration = np.asarray(duration_s, np.float64)
    breaks, stops = _to_array(break_s), _to_array(stop_s)
    cappable = np.zeros(len(duration), bool) if without_speech is None else np.asarray(without_speech, bool)
    if not len(duration) == len(breaks) == len(stops) == len(cappable):
        raise InputError(
            f"{len(duration)} durations, {len(breaks)} breaks, {len(stops)} stops: give one of each a case"
        )
    has_break, stopped = ~np.isnan(breaks), ~np.isnan(stops)
    _check(duration, "duration", (duration > 0) & np.isfinite(duration), "a number above 0")
    _check(breaks, "break", ~has_break | ((breaks >= 0) & (breaks <= duration + _SLACK_S)), "within the clip")
    _check(stops, "stop", ~stopped | ((stops >= 0) & np.isfinite(stops)), "a number from 0 on")

    target = np.where(has_break, breaks, duration)
    with np.errstate(invalid="ignore"):
        difference = stops - target
        exact = np.zeros(len(duration), bool) if tolerance_s is None else np.abs(difference) <= tolerance_s + _SLACK_S
        late = stopped & (exact | (difference >= 0))
        after_end = stops > duration + _SLACK_S
    true_positive = has_break & late
    false_negative = has_break & ~stopped
    true_negative = ~has_break & (~stopped | exact)
    false_positive = ~(true_positive | false_negative | true_negative)
    latency = np.where(true_positive, np.where(exact, 0.0, difference), np.nan)
    penalty = np.select(
        [true_positive, false_positive, false_negative], [latency, duration, np.maximum(duration - breaks, 0.0)], 0.0
    )
    cap = np.inf if penalty_cap_s is None else penalty_cap_s
    return CaseScores(
        outcome=np.select([true_positive, false_positive, false_negative], ["TP", "FP", "FN"], "TN"),
        has_break=has_break,
        early=false_positive & has_break,
        exact=exact,
        after_end=after_end,
        latency_s=latency,
        penalty_s=penalty,
        capped_penalty_s=np.where(cappable & false_positive, np.minimum(penalty, cap), penalty),
    )


def _to_array(times: Sequence[float | None]) -> Times:
    """Return the times with NaN for None; a NaN among them is refused, since it would pass for none."""
    for position, time in enumerate(times):
        if time is not None and np.isnan(time):
            raise InputError(f"case {position}: a time is NaN; it must be a number, or None for none")
    return np.array([np.nan if time is None else time for time in times], np.float64)


def _check(times: Times, name: str, good: Flags, range_: str) -> None:
    if not good.all():
        position = int(np.flatnonzero(~good)[0])
        raise InputError(f"case {position}: the {name} is {times[position]:g} s; it must be {range_}")
