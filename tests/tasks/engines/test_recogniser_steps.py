"""Features by a recogniser's encoder: the same in pieces as at once, of no future, at any level, and Whisper's own."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.schemas.errors import EngineSetupError
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.recogniser_steps import (
    MEL_BANDS,
    STEP_SAMPLES,
    WINDOW_FRAMES,
    RecogniserEncoder,
    RecogniserSteps,
    make_whisper_filters,
)

WIDTH = 6
_MIX = np.random.default_rng(0).standard_normal((MEL_BANDS, WIDTH)).astype(np.float32)


def encode(windows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Stand for an encoder: each frame of 20 ms knows its own sound and the whole window's."""
    assert windows.shape[1:] == (MEL_BANDS, WINDOW_FRAMES)
    pairs = windows.reshape(len(windows), MEL_BANDS, -1, 2).mean(axis=3).transpose(0, 2, 1)
    # One by one: the rounding of one large product hangs on how many there are.
    mixed = np.stack([pair @ _MIX for pair in pairs])
    return (mixed + mixed.mean(axis=1, keepdims=True)).astype(np.float32)


def make_sound(seconds: float, seed: int = 0) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    swell = np.abs(np.sin(np.arange(round(seconds * 16000)) / 2500))
    return (0.1 * swell * rng.standard_normal(len(swell))).astype(np.float32)


def hear(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return RecogniserSteps(encode, WIDTH).accept(samples)


@settings(max_examples=20, deadline=None)
@given(sizes=st.lists(st.integers(0, 6000), max_size=10), seed=st.integers(0, 5))
def test_features_of_pieces_are_those_of_the_whole(sizes: list[int], seed: int) -> None:
    samples, stream, heard, at = make_sound(2.0, seed), RecogniserSteps(encode, WIDTH), [], 0
    for size in [*sizes, len(samples)]:
        heard.append(stream.accept(samples[at : at + size]))
        at += size
    whole = hear(samples)
    assert whole.shape == (25, 4, WIDTH)
    np.testing.assert_array_equal(np.concatenate(heard), whole)


def test_features_know_no_future_and_no_more_than_the_window() -> None:
    samples = make_sound(3.0)
    changed = np.concatenate([samples[: 12 * STEP_SAMPLES], make_sound(2.0, 1)])
    np.testing.assert_array_equal(hear(samples)[:12], hear(changed)[:12])
    samples[:8000] *= 0.2
    late = samples.copy()
    late[:8000] *= 0.5  # out of the window after 0.5 + 1.28 s, and no louder than what came later
    assert np.abs(hear(samples)[22:] - hear(late)[22:]).max() < 1e-5
    assert np.abs(hear(samples)[8] - hear(late)[8]).max() > 1e-3


def test_level_does_not_matter() -> None:
    samples = make_sound(2.0)
    np.testing.assert_allclose(hear(samples)[17:], hear(samples * np.float32(4))[17:], atol=1e-3)


def test_filters_are_whispers() -> None:
    extractor = pytest.importorskip("faster_whisper.feature_extractor")
    expected = extractor.FeatureExtractor().mel_filters.T
    np.testing.assert_allclose(make_whisper_filters(), expected, atol=1e-6)


def test_real_encoder_says_the_same_step_by_step() -> None:
    encoder = RecogniserEncoder(ModelStore().resolve("whisper-tiny.en-ct2"))
    assert encoder.width == 384
    samples = make_sound(1.3)
    whole = RecogniserSteps(encoder, 384).accept(samples)
    stream = RecogniserSteps(pickle.loads(pickle.dumps(encoder)), 384)
    pieces = [stream.accept(samples[at : at + STEP_SAMPLES]) for at in range(0, len(samples), STEP_SAMPLES)]
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-3)
    assert whole.std() > 0.3
    encoder.close()


def test_a_folder_without_a_recogniser_is_told(tmp_path: Path) -> None:
    with pytest.raises(EngineSetupError, match="is no Whisper model that CTranslate2 can open"):
        RecogniserEncoder(tmp_path)(np.zeros((1, MEL_BANDS, WINDOW_FRAMES), np.float32))
