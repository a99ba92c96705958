"""A made-up voice: every phone is a chord of its own, so that a corpus with exact times takes no speech engine."""

from __future__ import annotations

import numpy as np

from bystander.tasks.engines.kaldi_gmm.english import PHONES, EnglishPronouncer
from bystander.tasks.training.aligner_training import TrainingClip

RATE = 16000
VOCABULARY = ("yeah", "seven", "kettle", "window", "garage", "please", "mother", "book", "shoes", "fifty", "jam", "boy")


def make_corpus(clips: int, words: int, seed: int) -> list[TrainingClip]:
    """Return clips of words from `VOCABULARY` with the times at which they sound."""
    rng = np.random.default_rng(seed)
    pronouncer = EnglishPronouncer()
    made = []
    for number in range(clips):
        chosen = tuple(str(word) for word in rng.choice(VOCABULARY, words, replace=False))
        pieces = [np.zeros(int(RATE * rng.uniform(0.1, 0.3)))]
        times = []
        for pronounced in pronouncer.pronounce(chosen):
            assert pronounced is not None
            start = sum(map(len, pieces)) / RATE
            pieces += [_sound(phone, rng) for phone in pronounced.variants[0]]
            times.append((start, sum(map(len, pieces)) / RATE))
            if rng.random() < 0.4:
                pieces.append(np.zeros(int(RATE * rng.uniform(0.1, 0.5))))
        pieces.append(np.zeros(int(RATE * 0.2)))
        samples = np.concatenate(pieces)
        samples += 1e-4 * rng.standard_normal(len(samples))
        made.append(TrainingClip(f"buzz{number:03d}", samples.astype(np.float32), RATE, chosen, tuple(times)))
    return made


def _sound(phone: str, rng: np.random.Generator) -> np.ndarray:
    n = int(RATE * rng.uniform(0.06, 0.12))
    own = np.random.default_rng(PHONES.index(phone))
    t = np.arange(n) / RATE
    chord = sum(
        own.uniform(0.3, 1) * np.sin(2 * np.pi * pitch * t * rng.uniform(0.98, 1.02))
        for pitch in own.uniform(150, 3500, 4)
    )
    ramp = np.minimum(1, np.minimum(np.arange(n), n - np.arange(n)) / (0.005 * RATE))
    return 0.1 * ramp * (chord + 0.2 * rng.standard_normal(n))
