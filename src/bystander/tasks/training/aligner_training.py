"""Trains a monophone model with Kaldi's own estimation: states first, then more and more Gaussians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from bystander.schemas.engines import Samples
from bystander.schemas.errors import InputError
from bystander.schemas.identity import make_rng
from bystander.schemas.stages import Params
from bystander.tasks.engines.kaldi_gmm.acoustic_model import DIM, SILENCE, AcousticModel, ModelInfo
from bystander.tasks.engines.kaldi_gmm.features import FRAME_SHIFT_S, Features, FeatureSpec, compute_features
from bystander.tasks.engines.kaldi_gmm.kaldi_library import KALDI_LOCK, load_kaldi
from bystander.tasks.engines.kaldi_gmm.path_search import compile_graph, count_least_frames, find_transitions
from bystander.tasks.engines.kaldi_gmm.pronunciations import PronouncedWord, Pronouncer
from bystander.tasks.training.mixture_splits import split_mixtures
from bystander.tasks.training.room_noise import add_room_noise

_SILENCE_STATES = 5


class AlignerTraining(Params):
    """Settings of the training, after Kaldi's recipe of monophones (`train_mono.sh`); minutes to hours of speech."""

    iterations: int = Field(25, ge=3, le=200)
    gaussians: int = Field(1000, ge=1, le=100_000)
    """In all states together, reached five iterations before the end."""
    beam: float = Field(10.0, gt=0)
    retry_beam: float = Field(200.0, gt=0)
    noisy_share: float = Field(0.25, ge=0, le=1)
    """Of the clips, those that get steady noise under them (`room_noise`); 0 where the corpus is noisy itself."""
    features: FeatureSpec = FeatureSpec()


@dataclass(frozen=True, slots=True)
class TrainingClip:
    """A clip, the words said in it and, where they are known, their times in seconds, one pair a word.

    `kind` and `break_word` are for measuring: what sort of clip it is, and the word whose start matters most.
    """

    id: str
    samples: Samples
    sampling_rate: int
    words: tuple[str, ...]
    times: tuple[tuple[float, float], ...] | None = None
    kind: str = ""
    break_word: int = 0


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """How a training went: clips used, clips left out with the reason, log-likelihood a frame of each alignment."""

    used: int
    left_out: dict[str, str]
    log_likelihoods: tuple[float, ...]
    failed_last: int


@dataclass(slots=True)
class _Utterance:
    id: str
    features: Features
    pronounced: list[PronouncedWord]
    graph: Any
    times: tuple[tuple[float, float], ...] | None
    transitions: list[int] | None = None


def train_aligner(
    clips: Sequence[TrainingClip],
    language: str,
    pronouncer: Pronouncer,
    params: AlignerTraining,
    report_progress: Callable[[str], None] = lambda _: None,
) -> tuple[AcousticModel, TrainingReport]:
    """Return a model of the clips, not calibrated yet.

    Where word times are known the first states are cut evenly out of the words; else out of the whole clip (a flat
    start, which suffices for English and fails for Mandarin).

    Raises:
        InputError: no clip is usable.
    """
    model = AcousticModel(pronouncer.phones, ModelInfo(language, params.features))
    utterances, left_out = _prepare(model, clips, pronouncer, params)
    if not utterances:
        reason = next(iter(left_out.items()), ("", "there are none"))
        raise InputError(f"no clip can be used for training; the first, {reason[0]}: {reason[1]}")
    report_progress(f"{len(utterances)} clips, {sum(len(u.features) for u in utterances) * FRAME_SHIFT_S / 60:.1f} min")
    _start_equal(model, utterances)
    if any(utterance.times for utterance in utterances):
        _start_from_times(model, utterances)
    else:
        _start_flat(model, utterances)
    likelihoods = []
    failed = 0
    growing = max(params.iterations - 5, 1)
    first_count = model.gaussians.num_gauss
    for iteration in range(1, params.iterations):
        if iteration < 10 or iteration % 2 == 0:
            beam = params.beam if iteration > 1 else 2 * params.beam
            failed = _align_all(model, utterances, beam, params.retry_beam)
            if failed == len(utterances):
                raise InputError("none of the clips can be aligned with their texts; do they belong together?")
        likelihoods.append(_estimate(model, utterances))
        if iteration < growing:
            target = first_count + (params.gaussians - first_count) * iteration // growing
            _split(model, utterances, max(target, first_count), iteration)
        report_progress(
            f"iteration {iteration}: {model.gaussians.num_gauss} Gaussians, {likelihoods[-1]:.2f} a frame,"
            f" {failed} clips without a path"
        )
    return model, TrainingReport(len(utterances), left_out, tuple(likelihoods), failed)


def _prepare(
    model: AcousticModel, clips: Sequence[TrainingClip], pronouncer: Pronouncer, params: AlignerTraining
) -> tuple[list[_Utterance], dict[str, str]]:
    utterances: list[_Utterance] = []
    left_out: dict[str, str] = {}
    for clip in clips:
        pronounced = pronouncer.pronounce(clip.words)
        known = [word for word in pronounced if word is not None]
        noisy = make_rng(0, clip.id, "aligner_noisy").random() < params.noisy_share
        samples = add_room_noise(clip.samples, clip.sampling_rate, clip.id) if noisy else clip.samples
        features = compute_features(samples, clip.sampling_rate, params.features)
        if not known or len(known) < len(pronounced):
            left_out[clip.id] = f"not all of its words can be pronounced: {' '.join(clip.words)[:60]!r}"
        elif clip.times is not None and len(clip.times) != len(clip.words):
            left_out[clip.id] = f"{len(clip.times)} times for {len(clip.words)} words"
        elif features is None or len(features.values) < count_least_frames([word.variants for word in known]):
            left_out[clip.id] = "it is too short for its words, or silent"
        else:
            graph = compile_graph(model, [word.variants for word in known])
            utterances.append(_Utterance(clip.id, features.values, known, graph, clip.times))
    return utterances, left_out


def _start_equal(model: AcousticModel, utterances: Sequence[_Utterance]) -> None:
    """Give every state the mean and variance of all frames."""
    khg, _ = load_kaldi()
    frames = np.vstack([utterance.features for utterance in utterances]).astype(np.float64)
    mean, variance = frames.mean(axis=0), frames.var(axis=0) + 1e-4
    one = khg.DiagGmm(1, DIM)
    one.set_invvars_and_means((1 / variance)[None].astype(np.float32), mean[None].astype(np.float32))
    one.set_weights(np.ones(1, np.float32))
    one.compute_gconsts()
    for _ in range(model.pdf_count):
        model.gaussians.add_pdf(khg.DiagGmm(one))
    model.gaussians.compute_gconsts()


def _start_flat(model: AcousticModel, utterances: Sequence[_Utterance]) -> None:
    """Spread each clip's states evenly over it."""
    _, kaldifst = load_kaldi()
    for number, utterance in enumerate(utterances, 1):
        with KALDI_LOCK:
            found, path = kaldifst.equal_align(utterance.graph.copy(), len(utterance.features), number)
            utterance.transitions = list(kaldifst.get_linear_symbol_sequence(path)[1]) if found else None
    _estimate(model, utterances, least=3.0)


def _start_from_times(model: AcousticModel, utterances: Sequence[_Utterance]) -> None:
    """Spread the states of each word's first pronunciation evenly over the word; what is outside words is silence."""
    khg, _ = load_kaldi()
    flags = khg.str_to_gmm_flags("mvwt")
    sums = khg.AccumAmDiagGmm()
    sums.init(model.gaussians, flags)
    silence = [model.find_pdf(SILENCE, state) for state in range(_SILENCE_STATES)]
    for utterance in utterances:
        if utterance.times is None:
            continue
        frames = len(utterance.features)
        labels = np.array([silence[t % _SILENCE_STATES] for t in range(frames)])
        for (start_s, end_s), word in zip(utterance.times, utterance.pronounced, strict=True):
            start, end = round(start_s / FRAME_SHIFT_S), round(end_s / FRAME_SHIFT_S)
            states = [model.find_pdf(phone, state) for phone in word.variants[0] for state in range(3)]
            start, end = max(0, start), min(max(end, start + 1), frames)
            for t in range(start, end):
                labels[t] = states[(t - start) * len(states) // (end - start)]
        for frame, label in zip(utterance.features, labels, strict=True):
            sums.accumulate_for_gmm(model.gaussians, frame, int(label), 1.0)
    khg.mle_am_diag_gmm_update(khg.MleDiagGmmOptions(min_gaussian_occupancy=3.0), sums, flags, model.gaussians)


def _align_all(model: AcousticModel, utterances: Sequence[_Utterance], beam: float, retry_beam: float) -> int:
    failed = 0
    for utterance in utterances:
        utterance.transitions = find_transitions(model, utterance.graph, utterance.features, beam, retry_beam)
        failed += utterance.transitions is None
    return failed


def _estimate(model: AcousticModel, utterances: Sequence[_Utterance], least: float = 10.0) -> float:
    """Re-estimate Gaussians and transitions from the alignments; return the log-likelihood a frame before that."""
    khg, _ = load_kaldi()
    flags = khg.str_to_gmm_flags("mvwt")
    sums = khg.AccumAmDiagGmm()
    sums.init(model.gaussians, flags)
    occupancy = np.array(model.transitions.init_stats(), np.float64)
    pdfs = model.transitions.transition_id_to_pdf_array()
    total, frames = 0.0, 0
    for utterance in utterances:
        if utterance.transitions is None:
            continue
        for frame, transition in zip(utterance.features, utterance.transitions, strict=True):
            total += sums.accumulate_for_gmm(model.gaussians, frame, pdfs[transition], 1.0)
        np.add.at(occupancy, np.asarray(utterance.transitions), 1.0)
        frames += len(utterance.features)
    model.update_transitions(occupancy)
    options = khg.MleDiagGmmOptions(min_gaussian_occupancy=least)
    khg.mle_am_diag_gmm_update(options, sums, flags, model.gaussians)
    return total / max(frames, 1)


def _split(model: AcousticModel, utterances: Sequence[_Utterance], target: int, iteration: int) -> None:
    pdfs = np.asarray(model.transitions.transition_id_to_pdf_array())
    counts: npt.NDArray[np.float64] = np.zeros(model.pdf_count)
    for utterance in utterances:
        if utterance.transitions is not None:
            np.add.at(counts, pdfs[np.asarray(utterance.transitions)], 1.0)
    model.set_mixtures(split_mixtures(model.read_mixtures(), counts, target, iteration))
