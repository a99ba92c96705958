"""When a clip is decoded again at a higher temperature, and what is drawn there: a function of the clip alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples
from bystander.schemas.identity import derive_seed
from bystander.schemas.recogniser_configs import TemperatureFallback
from bystander.tasks.engines.hallucination_guards import measure_compression

RULES = "1"
"""Part of the identity of an engine that falls back: raised when other words would be drawn."""


def needs_another(text: str, mean_logprob: float, no_speech_prob: float, fallback: TemperatureFallback) -> bool:
    """Return whether a text is too repetitive or too unlikely to be kept, though there seems to be speech."""
    if mean_logprob < fallback.mean_logprob and no_speech_prob > fallback.no_speech_prob:
        return False
    return measure_compression(text) > fallback.compression_ratio or mean_logprob < fallback.mean_logprob


def seed_clip(audio: Samples, language: str) -> int:
    """Return a seed in [0, 2**63) that depends on what is heard alone: float32 samples at 16 kHz, and the language."""
    digest = hashlib.sha256(np.ascontiguousarray(audio, "<f4").tobytes()).hexdigest()
    return derive_seed(0, digest, "temperature_fallback", language)


def make_draws(seed: int, temperature: float) -> np.random.Generator:
    """Return the generator of a clip's draws at a temperature: uniform in [0, 1), one a candidate and token."""
    return np.random.Generator(np.random.PCG64([seed, round(temperature * 1000)]))


def choose_tokens(
    logits: npt.NDArray[np.float32], temperature: float, draws: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return one token a row by the inverse of its cumulative probabilities, and its log-probability untempered.

    Args:
        logits: shape (rows, vocabulary); suppressed tokens are -inf or hugely negative.
        temperature: above 0.
        draws: shape (rows,), uniform in [0, 1).
    """
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    cumulated = np.exp(shifted / temperature).cumsum(axis=1)
    totals = cumulated[:, -1]
    marks = np.minimum(draws * totals, np.nextafter(totals, 0))  # below the total, though the product may be rounded up
    tokens = np.array([np.searchsorted(row, mark, side="right") for row, mark in zip(cumulated, marks, strict=True)])
    rows = np.arange(len(tokens))
    return tokens, shifted[rows, tokens] - np.log(np.exp(shifted).sum(axis=1))


def choose_candidate(sums: Sequence[float], lengths: Sequence[int]) -> int:
    """Return the candidate of the highest log-probability a token, as Whisper's ranker does; the first of equals."""
    return int(np.argmax([total / length if length else total for total, length in zip(sums, lengths, strict=True)]))
