"""How well the words of a path explain the sound, against the best phones that could be put in their place."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bystander.tasks.engines.kaldi_gmm.acoustic_model import AcousticModel, Mixtures
from bystander.tasks.engines.kaldi_gmm.features import Features

Floats = npt.NDArray[np.float32]
_STAY, _LEAVE = np.log(0.75), np.log(0.25)
_PRIOR_FRAMES = 50
"""Weight of the model's own mean and variance in a clip's Gaussian: a single word is few frames to estimate it from."""


class StateScorer:
    """Log-likelihoods of all states at once; made once a model."""

    def __init__(self, model: AcousticModel) -> None:
        self._mixtures: Mixtures = model.read_mixtures()
        inverse = 1 / self._mixtures.variances.astype(np.float64)
        means = self._mixtures.means.astype(np.float64)
        self._squares = -0.5 * inverse.T
        self._slopes = (means * inverse).T
        self._constants = np.log(np.maximum(self._mixtures.weights, 1e-12)) - 0.5 * (
            means.shape[1] * np.log(2 * np.pi)
            + np.log(self._mixtures.variances).sum(axis=1)
            + (means**2 * inverse).sum(axis=1)
        )
        weights = self._mixtures.weights.astype(np.float64)
        weights = weights / weights.sum()
        self._mean = weights @ means
        self._variance = weights @ (self._mixtures.variances + means**2) - self._mean**2
        self._chains = np.array(
            [[model.find_pdf(phone, state) for state in range(3)] for phone in model.phones[1:]], np.int32
        )
        self._silence = np.array([model.find_pdf(model.phones[0], state) for state in range(5)], np.int32)

    def score_states(self, features: Features) -> Floats:
        """Return the log-likelihood of every frame in every state, shape (frames, states)."""
        x = features.astype(np.float64)
        parts = (x**2) @ self._squares + x @ self._slopes + self._constants
        starts = self._mixtures.offsets[:-1]
        top = np.maximum.reduceat(parts, starts, axis=1)
        sizes = np.diff(self._mixtures.offsets)
        sums = np.add.reduceat(np.exp(parts - np.repeat(top, sizes, axis=1)), starts, axis=1)
        scores: Floats = (top + np.log(sums)).astype(np.float32)
        return scores

    def score_as_one(self, features: Features) -> Floats:
        """Return the log-likelihood of each frame under one Gaussian of all of them, shape (frames,).

        Its mean and variance are estimated from the frames, with those of the model as `_PRIOR_FRAMES` frames more.
        """
        x = features.astype(np.float64)
        share = len(x) / (len(x) + _PRIOR_FRAMES)
        mean = share * x.mean(axis=0) + (1 - share) * self._mean
        variance = share * x.var(axis=0) + (1 - share) * self._variance
        scores: Floats = (-0.5 * (np.log(2 * np.pi * variance) + (x - mean) ** 2 / variance).sum(axis=1)).astype(
            np.float32
        )
        return scores

    def score_loop(self, scores: Floats) -> Floats:
        """Return the log-likelihood of each frame on the best path through a free loop of phones and silence.

        Phones go left to right through their states and so last three frames at least; silence is one state that is as
        good as the best of its five.
        """
        frames = len(scores)
        emission = np.concatenate(
            [scores[:, self._chains.reshape(-1)], scores[:, self._silence].max(axis=1, keepdims=True)], axis=1
        )
        phones = len(self._chains)
        best = np.full(3 * phones + 1, -np.inf)
        best[0 : 3 * phones : 3] = emission[0, 0 : 3 * phones : 3]
        best[-1] = emission[0, -1]
        back = np.zeros((frames, 3 * phones + 1), np.int32)
        numbers = np.arange(3 * phones + 1)
        for t in range(1, frames):
            leaving = best[2 : 3 * phones : 3]
            last = int(np.argmax(leaving))
            enter, origin = leaving[last] + _LEAVE, 3 * last + 2
            if best[-1] + _LEAVE > enter:
                enter, origin = best[-1] + _LEAVE, 3 * phones
            stay = best + _STAY
            move = np.empty_like(best)
            move[1:-1] = best[:-2] + _LEAVE
            move[0 : 3 * phones : 3] = enter
            move[-1] = enter
            source = numbers - 1
            source[0 : 3 * phones : 3] = origin
            source[-1] = origin
            moved = move > stay
            back[t] = np.where(moved, source, numbers)
            best = np.where(moved, move, stay) + emission[t]
        path = np.empty(frames, np.int64)
        ends = [*range(2, 3 * phones, 3), 3 * phones]
        path[-1] = ends[int(np.argmax(best[ends]))]
        for t in range(frames - 1, 0, -1):
            path[t - 1] = back[t, path[t]]
        loop: Floats = emission[np.arange(frames), path].astype(np.float32)
        return loop
