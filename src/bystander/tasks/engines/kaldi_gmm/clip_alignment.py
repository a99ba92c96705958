"""Aligns one clip with its words, and scores what was found; no threshold and no calibration are applied here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import RowFault, Samples
from bystander.tasks.engines.engine_audio import measure_peak_level
from bystander.tasks.engines.kaldi_gmm.acoustic_model import AcousticModel
from bystander.tasks.engines.kaldi_gmm.features import compute_features
from bystander.tasks.engines.kaldi_gmm.path_search import (
    AlignedPath,
    compile_graph,
    count_least_frames,
    find_transitions,
    read_path,
)
from bystander.tasks.engines.kaldi_gmm.phone_loop import StateScorer
from bystander.tasks.engines.kaldi_gmm.pronunciations import PronouncedWord, Pronouncer

SILENCE_DBFS = -60.0
"""Audio whose loudest 50 ms lie below this holds no speech."""


ONSET_FRAMES = 3
"""30 ms: how much earlier than its sound a word begins on the shipped models' paths; their bias makes up for it."""


@dataclass(frozen=True, slots=True)
class ScoredPath:
    """A path, the words as they were pronounced, and scores, in nats a frame.

    `word_scores[i]` is the mean over the frames of word i of log p(frame | state on the path) - log p(frame | state on
    the best path through a free loop of phones and silence). `score` is the same over all frames that are in a word or
    loud enough for speech: speech that no word of the text accounts for counts too. `speech_score` is the mean over
    the words of log p(frame | state on the path) - log p(frame | one Gaussian of these frames).
    """

    path: AlignedPath
    pronounced: tuple[PronouncedWord, ...]
    score: float
    word_scores: tuple[float, ...]
    speech_score: float


class ClipAligner:
    """A model with what it needs to align clips. Safe from several threads."""

    def __init__(
        self, model: AcousticModel, pronouncer: Pronouncer, beam: float = 20.0, retry_beam: float = 80.0
    ) -> None:
        self.model = model
        self._pronouncer = pronouncer
        self._scorer = StateScorer(model)
        self._beams = beam, retry_beam

    def align(self, samples: Samples, sampling_rate: int, words: Sequence[str]) -> ScoredPath | RowFault:
        """Return the best path of the words through a clip.

        Row faults: `no_pronunciation`, `audio_too_short`, `no_alignment` (silence, or no path within the beams).

        Raises:
            EngineError: Kaldi failed.
        """
        if not words:
            return RowFault("no_pronunciation", "the text has no words")
        pronounced = self._pronouncer.pronounce(words)
        spoken = tuple(word for word in pronounced if word is not None)
        if len(spoken) < len(pronounced):
            return RowFault("no_pronunciation", f"nothing in {words[pronounced.index(None)]!r} can be pronounced")
        if not np.isfinite(samples).all():
            return RowFault("no_alignment", "the clip has samples that are no numbers")
        features = compute_features(samples, sampling_rate, self.model.info.features)
        variants = [word.variants for word in spoken]
        least = count_least_frames(variants)
        frames = 0 if features is None else len(features.values)
        if len(samples) / sampling_rate < least * 0.01:
            return RowFault(
                "audio_too_short", f"{len(samples) / sampling_rate:.2f} s, the words need {least * 0.01:.2f} s"
            )
        if features is None or frames < least or measure_peak_level(samples, sampling_rate) < SILENCE_DBFS:
            return RowFault("no_alignment", "the clip is silent")
        graph = compile_graph(self.model, variants)
        transitions = find_transitions(self.model, graph, features.values, *self._beams)
        path = None if transitions is None else read_path(self.model, variants, transitions)
        if path is not None:
            path = trim_onsets(path, features.sounding)
        if path is None:
            return RowFault("no_alignment", "the words and the sound do not fit together anywhere")
        states = self._scorer.score_states(features.values)
        on_path = states[np.arange(frames), path.states]
        margins = on_path - self._scorer.score_loop(states)
        spans = [slice(word[0].start, word[-1].end) for word in path.words]
        said = np.concatenate([np.arange(span.start, span.stop) for span in spans])
        sounding = features.active.copy()
        sounding[said] = True
        return ScoredPath(
            path=path,
            pronounced=spoken,
            score=float(margins[sounding].mean()),
            word_scores=tuple(float(margins[span].mean()) for span in spans),
            speech_score=float((on_path[said] - self._scorer.score_as_one(features.values[said])).mean()),
        )


def trim_onsets(path: AlignedPath, sounding: npt.NDArray[np.bool_]) -> AlignedPath:
    """Return the path with words that follow a pause begun no earlier than `ONSET_FRAMES` before any sound.

    A stop begins with a closure, and its model takes as much of the silence before it as it likes; what can be heard
    of it begins with the burst. Where noise fills the pause, every frame sounds and nothing changes.
    """
    after_pause = {0, *(span.end for span in path.silences)}
    words = []
    for word in path.words:
        first = word[0]
        if first.start in after_pause:
            heard = np.flatnonzero(sounding[first.start : first.end])
            onset = first.start + int(heard[0]) if len(heard) else first.end
            start = min(max(first.start, onset - ONSET_FRAMES), first.end - 1)
            word = (replace(first, start=start), *word[1:])
        words.append(word)
    return replace(path, words=tuple(words))
