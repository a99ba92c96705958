"""One suite for every speaker verifier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
import soxr

from bystander.schemas.engines import (
    EmbeddingRequest,
    RowFault,
    Samples,
    SpeakerVerifier,
    SpeechEngine,
    SpeechReply,
    SpeechRequest,
)
from bystander.schemas.recogniser_configs import FakeVerifierConfig, OnnxVerifierConfig
from bystander.schemas.speech_engine_configs import FakeSpeechConfig, KokoroSpeechConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.fake_speech import FakeSpeechEngine, FakeVerifier
from bystander.tasks.engines.kokoro import KokoroSpeechEngine
from bystander.tasks.engines.onnx_verifier import OnnxSpeakerVerifier, compute_windows

RATE = 24000


@dataclass(frozen=True)
class Case:
    """A verifier, two clips of one voice, and one of another."""

    verifier: SpeakerVerifier
    one: Samples
    one_again: Samples
    other: Samples


@pytest.fixture(scope="module", params=["fake", pytest.param("onnx_verifier", marks=pytest.mark.models)])
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    verifier: SpeakerVerifier
    speech: SpeechEngine
    if request.param == "fake":
        verifier, speech = FakeVerifier(FakeVerifierConfig()), FakeSpeechEngine(FakeSpeechConfig())
        voices = ("fake_02", "fake_03")
    else:
        verifier = OnnxSpeakerVerifier(OnnxVerifierConfig(), ModelStore().resolve)
        speech = KokoroSpeechEngine(KokoroSpeechConfig(), ModelStore().resolve)
        voices = ("af_heart", "am_onyx")
    lines = (
        ("What is the weather like in Paris tomorrow?", voices[0]),
        ("Wait, we already have some milk at home.", voices[0]),
        ("My sister tried that and it never worked.", voices[1]),
    )
    replies = speech.synthesise([SpeechRequest(text, voice, seed) for seed, (text, voice) in enumerate(lines)])
    speech.close()
    clips = [reply.samples for reply in replies if isinstance(reply, SpeechReply)]
    yield Case(verifier, *clips)
    verifier.close()


def _embed(case: Case, *clips: Samples, sampling_rate: int = RATE) -> list[npt.NDArray[np.float32]]:
    vectors = []
    for vector in case.verifier.embed([EmbeddingRequest(clip, sampling_rate) for clip in clips]):
        assert not isinstance(vector, RowFault), vector
        vectors.append(vector)
    return vectors


def test_fits_the_protocol_and_names_itself(case: Case) -> None:
    assert isinstance(case.verifier, SpeakerVerifier)
    assert case.verifier.identity.kind == "verifier"
    assert 0.1 < case.verifier.min_duration_s < 2


def test_embeddings_are_unit_vectors_and_repeat_exactly(case: Case) -> None:
    one, again = _embed(case, case.one, case.one)
    assert one.ndim == 1
    assert one.dtype == np.float32
    assert np.linalg.norm(one) == pytest.approx(1, abs=1e-5)
    np.testing.assert_array_equal(one, again)


def test_one_voice_is_nearer_to_itself_than_to_another(case: Case) -> None:
    one, again, other = _embed(case, case.one, case.one_again, case.other)
    assert one @ again > 0.75
    assert one @ other < 0.7


def test_gain_and_rate_change_nothing_that_matters(case: Case) -> None:
    (one,) = _embed(case, case.one)
    (quiet,) = _embed(case, 0.25 * case.one)
    (resampled,) = _embed(case, soxr.resample(case.one, RATE, 16000), sampling_rate=16000)
    assert one @ quiet > 0.99
    assert one @ resampled > 0.98


def test_both_speakers_are_found_beside_the_overlap_of_a_mixture(case: Case) -> None:
    overlap = RATE // 2
    start = len(case.one) - overlap
    mixture = np.zeros(start + len(case.other), np.float32)
    mixture[: len(case.one)] += case.one
    mixture[start:] += case.other
    before, after, one, other = _embed(case, mixture[:start], mixture[len(case.one) :], case.one, case.other)
    assert before @ one > before @ other + 0.1
    assert after @ other > after @ one + 0.1


def test_short_and_broken_clips_are_row_faults_among_good_ones(case: Case) -> None:
    broken = case.one.copy()
    broken[0] = np.inf
    short = case.one[: int(case.verifier.min_duration_s * RATE) - 1]
    requests = [EmbeddingRequest(clip, RATE) for clip in (short, case.one, np.zeros(0, np.float32), broken)]
    first, good, empty, bad = case.verifier.embed(requests)
    assert isinstance(first, RowFault)
    assert isinstance(empty, RowFault)
    assert isinstance(bad, RowFault)
    assert [first.reason, empty.reason, bad.reason] == ["too_short_to_embed", "too_short_to_embed", "non_finite_audio"]
    assert not isinstance(good, RowFault)


def test_a_clip_of_just_the_least_duration_is_embedded(case: Case) -> None:
    size = int(np.ceil(case.verifier.min_duration_s * RATE))
    assert len(_embed(case, case.one[RATE // 2 : RATE // 2 + size])) == 1


def test_front_end_equals_librosas_mel_spectrogram() -> None:
    import librosa

    audio = np.random.Generator(np.random.PCG64(3)).normal(size=32000).astype(np.float32)
    windows = compute_windows(audio)
    power = librosa.feature.melspectrogram(
        y=audio, sr=16000, n_fft=512, win_length=400, hop_length=160, n_mels=40, window="hamming", center=False
    )
    expected = np.log10(power + 1e-10).T
    assert windows.shape == (1 + (len(expected) - 80) // 20, 80, 40)
    np.testing.assert_allclose(windows[2], expected[40:120], atol=1e-4)
