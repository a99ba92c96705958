"""Forced alignment with Kaldi's GMM code and monophone models of ours: English and Mandarin.

The models that ship with the package were trained by `scripts/train_kaldi_gmm.py` on speech that Kokoro synthesised;
the same script trains one on a user's own corpus. Kaldi finds the best path of the words' phones (every pronunciation
of a word, with optional silence around it) through the clip. Two comparisons then decide whether it is believed:

- against the best path through a free loop of phones, over the clip and over each word: another text fits far worse
  than the phones that were really said (`score`, at most 0, in nats a frame);
- against one Gaussian of the clip itself: steady or repetitive noise is described better by that than by any phones.

Times have the model's constant bias taken out; it is in the model file, as are the thresholds.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bystander.schemas.alignment import AlignedPhone, AlignedWord, AlignmentReply, AlignmentRequest
from bystander.schemas.engines import EngineIdentity, RowFault
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.identity import digest_json
from bystander.schemas.sid_engine_configs import KaldiGmmAlignerConfig
from bystander.tasks.engines.kaldi_gmm.acoustic_model import find_shipped_model, hash_model, load_model
from bystander.tasks.engines.kaldi_gmm.clip_alignment import ClipAligner, ScoredPath
from bystander.tasks.engines.kaldi_gmm.features import FRAME_SHIFT_S
from bystander.tasks.engines.kaldi_gmm.pronunciations import PRONOUNCED_LANGUAGES, open_pronouncer
from bystander.tasks.engines.model_revision import ResolveModel, find_package_version

SHIPPED_LANGUAGES = ("en", "zh")
_PRONUNCIATIONS = ("hibari-tts", "pypinyin")
_PACKAGES = ("kaldi_hmm_gmm", "kaldifst", "kaldi_native_fbank")
_RULES = "1"  # raise when the same model and pronunciations would give other times or scores
_MIN_GAP_S = 0.001
_MIN_WORD_FRAMES = 10
"""Shorter words are too few frames for a score of their own to mean much."""


class KaldiGmmAligner:
    """Aligns with monophone models. Calls from several threads take turns inside Kaldi."""

    def __init__(self, config: KaldiGmmAlignerConfig, resolve_model: ResolveModel) -> None:
        """Find the models; each is opened by the first clip in its language.

        Raises:
            EngineSetupError: a package, a model file or the pronunciations of a language are missing.
            ModelStoreError: a configured model does not exist (from `resolve_model`).
        """
        self._config = config
        self._paths = {language: find_shipped_model(language) for language in SHIPPED_LANGUAGES}
        for language, model in config.models.items():
            if language not in PRONOUNCED_LANGUAGES:
                raise EngineSetupError(
                    f"aligner.models.{language}: there are pronunciations of {', '.join(PRONOUNCED_LANGUAGES)} only"
                )
            self._paths[language] = resolve_model(model)
        self._lock = threading.Lock()
        self._aligners: dict[str, ClipAligner] = {}
        self._identity = EngineIdentity(
            kind="aligner",
            name="kaldi_gmm",
            model=", ".join(
                f"{language}: {config.models.get(language, 'shipped')}" for language in sorted(self._paths)
            ),
            revision=digest_json({language: _hash(path) for language, path in sorted(self._paths.items())}),
            settings=(
                ("beam", f"{config.beam:g}"),
                *(
                    (name, "of the model" if limit is None else f"{limit:g}")
                    for name, limit in (
                        ("min_score", config.min_score),
                        ("min_speech_score", config.min_speech_score),
                        ("min_word_score", config.min_word_score),
                    )
                ),
                ("packages", _list_versions(_PACKAGES)),
                (
                    "pronunciations",
                    f"hibari-tts {find_package_version('hibari-tts')}, pypinyin {find_package_version('pypinyin')}",
                ),
                ("retry_beam", f"{config.retry_beam:g}"),
                ("rules", _RULES),
            ),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    @property
    def languages(self) -> frozenset[str]:
        return frozenset(self._paths)

    def align(self, requests: Sequence[AlignmentRequest]) -> list[AlignmentReply | RowFault]:
        """Align each clip with its words.

        Row faults: `language_not_aligned`, `no_pronunciation`, `audio_too_short`, `no_alignment`,
        `low_alignment_score`.

        Raises:
            EngineSetupError: a package is missing, or a model file is no model of ours.
            EngineError: Kaldi failed.
        """
        return [self._align(request) for request in requests]

    def close(self) -> None:
        self._aligners = {}

    def _align(self, request: AlignmentRequest) -> AlignmentReply | RowFault:
        language = request.language.split("-")[0].casefold()
        if language not in self._paths:
            return RowFault("language_not_aligned", f"there are models of {', '.join(sorted(self._paths))} only")
        aligner = self._open(language)
        try:
            found = aligner.align(request.samples, request.sampling_rate, request.words)
        except EngineError:
            raise
        except Exception as exc:  # pybind turns Kaldi's asserts and OpenFst's faults into RuntimeError and others
            raise EngineError(f"kaldi_gmm failed on clip {request.id!r} ({exc})") from exc
        if isinstance(found, RowFault):
            return found
        doubt = self._doubt(found, aligner, request.words)
        if doubt is not None:
            return doubt
        duration_s = len(request.samples) / request.sampling_rate
        return build_reply(found, request.words, duration_s, aligner.model.info.calibration.bias_s)

    def _doubt(self, found: ScoredPath, aligner: ClipAligner, words: Sequence[str]) -> RowFault | None:
        calibration, config = aligner.model.info.calibration, self._config
        least = _choose(config.min_score, calibration.min_score)
        if found.score < least:
            return RowFault("low_alignment_score", f"{found.score:.2f} a frame, {least:.2f} at least")
        speech_least = _choose(config.min_speech_score, calibration.min_speech_score)
        if found.speech_score < speech_least:
            return RowFault(
                "low_alignment_score",
                f"noise rather than speech: {found.speech_score:.2f}, {speech_least:.2f} at least",
            )
        word_least = _choose(config.min_word_score, calibration.min_word_score)
        for word, phones, score in zip(words, found.path.words, found.word_scores, strict=True):
            if phones[-1].end - phones[0].start >= _MIN_WORD_FRAMES and score < word_least:
                return RowFault("low_alignment_score", f"word {word!r}: {score:.2f} a frame, {word_least:.2f} at least")
        return None

    def _open(self, language: str) -> ClipAligner:
        with self._lock:
            if language not in self._aligners:
                path = self._paths[language]
                model = load_model(path)
                if model.info.language != language:
                    raise EngineSetupError(f"{path}: is a model of {model.info.language!r}, not of {language!r}")
                pronouncer = open_pronouncer(language)
                missing = sorted(set(pronouncer.phones) - set(model.phones))
                if missing:
                    raise EngineSetupError(
                        f"{path}: lacks the phones {' '.join(missing)}; train it again with this version"
                    )
                self._aligners[language] = ClipAligner(model, pronouncer, self._config.beam, self._config.retry_beam)
            return self._aligners[language]


def build_reply(found: ScoredPath, words: Sequence[str], duration_s: float, bias_s: float) -> AlignmentReply:
    """Return the times of a path with the bias taken out: inside the clip, rising from phone to phone."""
    frames = sorted({edge for phones in found.path.words for span in phones for edge in (span.start, span.end)})
    times = np.clip(np.array(frames) * FRAME_SHIFT_S - bias_s, 0, duration_s)
    # A shift can push several edges onto the clip's ends: keep them apart, from the left and then from the right.
    gaps = _MIN_GAP_S * np.arange(len(times))
    times = np.maximum.accumulate(times - gaps) + gaps
    times = np.minimum(times, duration_s - gaps[::-1])
    at = dict(zip(frames, (round(float(time), 4) for time in times), strict=True))
    return AlignmentReply(
        words=tuple(
            AlignedWord(
                word=word,
                start_s=at[phones[0].start],
                end_s=min(at[phones[-1].end], duration_s),
                score=round(score, 3),
                phones=tuple(
                    AlignedPhone(span.phone, at[span.start], min(at[span.end], duration_s)) for span in phones
                ),
                in_vocabulary=pronounced.in_vocabulary,
            )
            for word, phones, pronounced, score in zip(
                words, found.path.words, found.pronounced, found.word_scores, strict=True
            )
        ),
        score=round(found.score, 3),
    )


def _choose(limit: float | None, calibrated: float) -> float:
    return calibrated if limit is None else limit


def _hash(path: Path) -> str:
    try:
        return hash_model(path)
    except OSError as exc:
        raise EngineSetupError(f"{path}: there is no alignment model; scripts/train_kaldi_gmm.py writes one") from exc


def _list_versions(packages: Sequence[str]) -> str:
    return ", ".join(f"{package} {find_package_version(package)}" for package in packages)
