"""How well an aligner does on clips whose word times are known, and the calibration of a model that follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import RowFault
from bystander.schemas.identity import make_rng
from bystander.tasks.engines.kaldi_gmm.acoustic_model import Calibration
from bystander.tasks.engines.kaldi_gmm.clip_alignment import ClipAligner, ScoredPath
from bystander.tasks.engines.kaldi_gmm.features import FRAME_SHIFT_S
from bystander.tasks.training.aligner_training import TrainingClip

LIMITS_S = (0.02, 0.05, 0.1)
_MIN_WORD_FRAMES = 10
_WRONG_TEXTS = 4
_NOISE_SECONDS = 3.0
_WORD_MARGIN = 10.0


@dataclass(frozen=True, slots=True)
class StartErrors:
    """Word start errors: `bias_s` is the median of (found - true), the rest describes what is left without it."""

    count: int
    bias_s: float
    median_s: float
    p90_s: float
    within: dict[float, float]

    def describe(self) -> dict[str, Any]:
        """Return the errors as JSON-ready data, in milliseconds and shares."""
        return {
            "words": self.count,
            "bias_ms": round(1000 * self.bias_s, 1),
            "median_ms": round(1000 * self.median_s, 1),
            "p90_ms": round(1000 * self.p90_s, 1),
            **{f"within_{1000 * limit:.0f}_ms": round(share, 4) for limit, share in self.within.items()},
        }


@dataclass(frozen=True, slots=True)
class ScoreSamples:
    """Scores of right texts, of other clips' texts on the same clips, and of texts on generated noise.

    A row is (score, speech_score); a clip that was refused without a score is not in it but counted in `refused`.
    """

    right: npt.NDArray[np.float64]
    wrong: npt.NDArray[np.float64]
    noise: npt.NDArray[np.float64]
    words: npt.NDArray[np.float64]
    refused: dict[str, int]


def summarise_errors(errors_s: Sequence[float], bias_s: float | None = None) -> StartErrors:
    """Summarise (found - true) word starts in seconds, around their median or around a bias that is given.

    Raises:
        ValueError: there are none.
    """
    if not errors_s:
        raise ValueError("no errors to summarise")
    errors = np.asarray(errors_s, np.float64)
    bias = float(np.median(errors)) if bias_s is None else bias_s
    sizes = np.abs(errors - bias)
    return StartErrors(
        count=len(errors),
        bias_s=float(np.median(errors)),
        median_s=float(np.median(sizes)),
        p90_s=float(np.percentile(sizes, 90)),
        within={limit: float(np.mean(sizes < limit)) for limit in LIMITS_S},
    )


def measure_starts(aligner: ClipAligner, clips: Sequence[TrainingClip]) -> dict[str, list[float]]:
    """Return (found - true) word starts in seconds, uncalibrated, by clip: of those that have times and a path."""
    errors: dict[str, list[float]] = {}
    for clip in clips:
        if clip.times is None:
            continue
        found = aligner.align(clip.samples, clip.sampling_rate, clip.words)
        if isinstance(found, ScoredPath):
            starts = [word[0].start * FRAME_SHIFT_S for word in found.path.words]
            errors[clip.id] = [start - true for start, (true, _) in zip(starts, clip.times, strict=True)]
    return errors


def sample_scores(aligner: ClipAligner, clips: Sequence[TrainingClip]) -> ScoreSamples:
    """Align every clip with its own text, with others' and its text with noise; return the scores."""
    rows: dict[str, list[tuple[float, float]]] = {"right": [], "wrong": [], "noise": []}
    refused = dict.fromkeys(rows, 0)
    word_scores: list[float] = []

    def note(kind: str, found: ScoredPath | RowFault) -> None:
        if isinstance(found, RowFault):
            refused[kind] += 1
        else:
            rows[kind].append((found.score, found.speech_score))

    for index, clip in enumerate(clips):
        found = aligner.align(clip.samples, clip.sampling_rate, clip.words)
        note("right", found)
        if isinstance(found, ScoredPath):
            lengths = [word[-1].end - word[0].start for word in found.path.words]
            word_scores += [
                score for score, frames in zip(found.word_scores, lengths, strict=True) if frames >= _MIN_WORD_FRAMES
            ]
        for words in _find_other_texts(clips, index):
            note("wrong", aligner.align(clip.samples, clip.sampling_rate, words))
    for index, (noise, rate) in enumerate(generate_noises(len(clips))):
        note("noise", aligner.align(noise, rate, clips[index].words))
    return ScoreSamples(
        right=_stack_rows(rows["right"]),
        wrong=_stack_rows(rows["wrong"]),
        noise=_stack_rows(rows["noise"]),
        words=np.array(word_scores, np.float64),
        refused=refused,
    )


def calibrate_model(aligner: ClipAligner, clips: Sequence[TrainingClip]) -> tuple[Calibration, dict[str, Any]]:
    """Return the bias and thresholds measured on clips, and the figures behind them.

    `min_score` lies two thirds of the way from what 99 in 100 right texts reach down to what 99 in 100 wrong ones do
    not (real speech scores lower than synthesised), or at the former where they overlap; `min_speech_score` likewise
    between right texts and what 95 in 100 noises do not reach; a word may score `_WORD_MARGIN` below the worst right
    one, as names and slips of the tongue do in real speech.
    """
    errors = [error for errors in measure_starts(aligner, clips).values() for error in errors]
    scores = sample_scores(aligner, clips)
    if not len(scores.right):
        return Calibration(), {}
    low = float(np.percentile(scores.right[:, 0], 1))
    wrong = float(np.percentile(scores.wrong[:, 0], 99)) if len(scores.wrong) else low - 1
    noise = float(np.percentile(scores.noise[:, 1], 95)) if len(scores.noise) else -np.inf
    low_speech = float(np.percentile(scores.right[:, 1], 1))
    calibration = Calibration(
        bias_s=round(float(np.median(errors)), 4) if errors else 0.0,
        min_score=round(min(low, (low + 2 * wrong) / 3), 2),
        min_word_score=round(float(scores.words.min()) - _WORD_MARGIN, 2) if len(scores.words) else -1e9,
        min_speech_score=round(min(low_speech, (low_speech + 2 * noise) / 3), 2),
    )
    notes: dict[str, Any] = {"rates": rate_decisions(scores, calibration)}
    if errors:
        notes["word_starts"] = summarise_errors(errors).describe()
    return calibration, notes


def rate_decisions(scores: ScoreSamples, calibration: Calibration) -> dict[str, float]:
    """Return the shares of right texts refused, and of wrong texts and noises accepted, at a calibration."""

    def accept(rows: npt.NDArray[np.float64], refused: int) -> float:
        kept = np.sum((rows[:, 0] >= calibration.min_score) & (rows[:, 1] >= calibration.min_speech_score))
        return float(kept) / max(len(rows) + refused, 1)

    return {
        "right_refused": round(1 - accept(scores.right, scores.refused["right"]), 4),
        "wrong_accepted": round(accept(scores.wrong, scores.refused["wrong"]), 4),
        "noise_accepted": round(accept(scores.noise, scores.refused["noise"]), 4),
    }


def generate_noises(count: int) -> Iterator[tuple[npt.NDArray[np.float32], int]]:
    """Yield 3 s noises at 16 kHz: white, brown, hum, clicks, noise that comes and goes four times a second."""
    rate = 16000
    n = int(_NOISE_SECONDS * rate)
    t = np.arange(n) / rate
    for index in range(count):
        rng = make_rng(0, str(index), "aligner_noise")
        white = rng.standard_normal(n)
        kind = index % 5
        if kind == 0:
            sound = white
        elif kind == 1:
            spectrum = np.fft.rfft(white)
            sound = np.fft.irfft(spectrum / np.maximum(np.arange(len(spectrum)), 50), n)
        elif kind == 2:
            sound = np.sin(2 * np.pi * rng.uniform(60, 800) * t) + 0.02 * white
        elif kind == 3:
            sound = np.convolve((rng.random(n) < 10 / rate) * 1.0, np.exp(-np.arange(800) / 100))[:n] * white
        else:
            sound = white * (1 + np.sin(2 * np.pi * 4 * t))
        yield (0.1 * sound / max(float(np.abs(sound).max()), 1e-9)).astype(np.float32), rate


def _stack_rows(rows: Sequence[tuple[float, float]]) -> npt.NDArray[np.float64]:
    return np.array(rows, np.float64).reshape(-1, 2)


def _find_other_texts(clips: Sequence[TrainingClip], index: int) -> Iterator[tuple[str, ...]]:
    """Yield texts of other clips that share no word with this one's, spread over the corpus."""
    own = {word.casefold() for word in clips[index].words}
    found = 0
    for step in range(1, len(clips)):
        words = clips[(index + step * 7) % len(clips)].words
        if not own & {word.casefold() for word in words}:
            yield words
            found += 1
            if found == _WRONG_TEXTS:
                return
