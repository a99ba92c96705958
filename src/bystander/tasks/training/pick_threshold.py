"""The threshold of a trained detector: the one with the least APT on clips that it was not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples
from bystander.schemas.training_report import ThresholdScore
from bystander.tasks.metrics.sid_scores import TOLERANCE_S, score_cases
from bystander.tasks.training.sid_crops import SAMPLING_RATE, hear_clip

Series = npt.NDArray[np.float64]

_MAX_CANDIDATES = 200
_EDGE = 1e-4  # thresholds lie in (0, 1)


class MeasuringStream(Protocol):
    """A detector's stream of one clip that says how likely an interruption is."""

    def measure(self, chunk: Samples) -> float:
        """Hear one more chunk, and return the probability in [0, 1]."""
        ...


class MeasuringDetector(Protocol):
    """What a trained detector offers besides what an evaluation asks of it."""

    @property
    def chunk_samples(self) -> int:
        """Samples of 16 kHz that it is fed at once."""
        ...

    def open_stream(self) -> MeasuringStream: ...


@dataclass(frozen=True, slots=True)
class MeasuredClip:
    """A clip as a detector heard it.

    Attributes:
        heard_s: how much of the clip it knew at each chunk, shape (chunks,), rising.
        probabilities: what it said there, shape (chunks,), in [0, 1].
        duration_s: of the clip.
        break_s: the row's own break, not the label's; None where there is none.
    """

    heard_s: Series
    probabilities: Series
    duration_s: float
    break_s: float | None


@dataclass(frozen=True, slots=True)
class PickedThreshold:
    """The threshold with the least APT, and what comes of all that were tried.

    Attributes:
        threshold: in (0, 1).
        apt_s: mean penalty at it, in seconds (SID paper, III-B).
        false_interruptions: share of the clips at which it stops wrongly: FIR.
        clips: how many clips it was chosen on.
        curve: scores at each candidate, by threshold.
    """

    threshold: float
    apt_s: float
    false_interruptions: float
    clips: int
    curve: tuple[ThresholdScore, ...]

    def describe(self, k: int) -> dict[str, Any]:
        """Return it as JSON-ready data, with the `k` that it was chosen for."""
        return {**asdict(self), "k": k}


def measure_clip(row: Mapping[str, Any], detector: MeasuringDetector) -> MeasuredClip:
    """Play a row's clip to a new stream of a detector, to its end.

    Columns read: audio (encoded bytes), duration_s, total_nonbreak, break_time_s.

    Raises:
        InputError: the clip cannot be decoded.
        EngineError: the detector failed.
    """
    break_s = None if row["total_nonbreak"] else float(row["break_time_s"])
    return measure_samples(hear_clip(row["audio"]), float(row["duration_s"]), break_s, detector)


def measure_samples(
    samples: Samples, duration_s: float, break_s: float | None, detector: MeasuringDetector
) -> MeasuredClip:
    """Play a clip's sound, 16 kHz, to a new stream of a detector, see `measure_clip`."""
    stream = detector.open_stream()
    size = detector.chunk_samples
    starts = range(0, len(samples), size)
    probabilities = [stream.measure(samples[start : start + size]) for start in starts]
    heard = [min((start + size) / SAMPLING_RATE, duration_s) for start in starts]
    return MeasuredClip(np.array(heard), np.array(probabilities), duration_s, break_s)


def pick_threshold(clips: Sequence[MeasuredClip], k: int) -> PickedThreshold:
    """Return the threshold with the least APT under the rule of `k` chunks in a row; of equally good, nearest to 0.5.

    Candidates lie between the values at which some clip's stop changes, at most 200 of them, and 0.5 is one.

    Args:
        clips: at least one.
        k: chunks in a row at or above the threshold before the detector stops.
    """
    runs = [_run_minima(clip.probabilities, k) for clip in clips]
    scored = [_score(clips, runs, k, threshold) for threshold in _list_candidates(runs)]
    best = min(scored, key=lambda one: (one.apt_s, abs(one.threshold - 0.5)))
    return PickedThreshold(best.threshold, best.apt_s, best.fir or 0.0, len(clips), tuple(scored))


def find_stop(clip: MeasuredClip, k: int, threshold: float) -> float | None:
    """Return when a detector with this threshold stops, in seconds from the clip's start, or None."""
    return _find_stop(clip, _run_minima(clip.probabilities, k), k, threshold)


def _find_stop(clip: MeasuredClip, minima: Series, k: int, threshold: float) -> float | None:
    at = np.flatnonzero(minima >= threshold)
    return float(clip.heard_s[at[0] + k - 1]) if len(at) else None


def _run_minima(probabilities: Series, k: int) -> Series:
    """Return the least probability of each `k` chunks in a row: shape (chunks - k + 1,), or (0,)."""
    if len(probabilities) < k:
        return np.zeros(0)
    return np.asarray(np.lib.stride_tricks.sliding_window_view(probabilities, k).min(axis=1), np.float64)


def _list_candidates(runs: Sequence[Series]) -> list[float]:
    values = np.unique(np.clip(np.concatenate([*runs, np.zeros(1), np.ones(1)]), _EDGE, 1 - _EDGE))
    between = (values[1:] + values[:-1]) / 2
    if len(between) > _MAX_CANDIDATES:
        between = between[np.linspace(0, len(between) - 1, _MAX_CANDIDATES).round().astype(int)]
    # A threshold that a person may type has no more digits than it needs.
    return [float(one) for one in np.unique([float(f"{one:.6g}") for one in (*between, 0.5)])]


def _score(clips: Sequence[MeasuredClip], runs: Sequence[Series], k: int, threshold: float) -> ThresholdScore:
    stops = [_find_stop(clip, minima, k, threshold) for clip, minima in zip(clips, runs, strict=True)]
    scores = score_cases(
        [clip.duration_s for clip in clips], [clip.break_s for clip in clips], stops, tolerance_s=TOLERANCE_S
    )
    latencies = scores.latency_s[scores.timed]
    return ThresholdScore(
        threshold,
        float(scores.penalty_s.mean()),
        float(scores.is_outcome("FP").mean()),
        float(latencies.mean()) if len(latencies) else None,
    )
