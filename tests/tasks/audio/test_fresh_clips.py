"""Fresh clips: the values that were encoded, found by their bytes alone, once, and within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bystander.tasks.audio import fresh_clips
from bystander.tasks.audio.coding import encode_flac
from bystander.tasks.audio.fresh_clips import FreshClips

INT16 = hnp.arrays(np.int16, st.integers(1, 2000), elements=st.integers(-32768, 32767))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the lengths of what is decoded from now on."""
    lengths: list[int] = []
    real = fresh_clips.decode_audio

    def decode(data: bytes | memoryview) -> Any:
        lengths.append(len(data))
        return real(data)

    monkeypatch.setattr(fresh_clips, "decode_audio", decode)
    return lengths


@settings(max_examples=30, deadline=None)
@given(INT16)
def test_values_are_those_that_decoding_gives(values: npt.NDArray[np.int16]) -> None:
    kept, empty = FreshClips(), FreshClips()
    data = kept.encode(values, 24000)
    assert data == encode_flac(values, 24000)
    for clips in (kept, empty):
        found, rate = clips.take_values(memoryview(data))
        assert rate == 24000
        assert found.dtype == np.int16
        assert np.array_equal(found, values)


def test_clip_is_decoded_only_when_it_is_asked_for_again(decoded: list[int]) -> None:
    clips = FreshClips()
    data = clips.encode(np.arange(500, dtype=np.int16), 24000)
    clips.take_values(data)
    assert decoded == []
    clips.take_values(data)
    assert decoded == [len(data)]


def test_other_bytes_with_the_same_head_are_decoded(decoded: list[int]) -> None:
    values = np.arange(500, dtype=np.int16)
    clips = FreshClips()
    data = clips.encode(values, 24000)
    other = bytearray(encode_flac(values, 24000))
    at = other.index(b"libFLAC")  # in a comment: another file of the same samples
    other[at] ^= 1
    assert np.array_equal(clips.take_values(bytes(other))[0], values)
    assert decoded == [len(data)]


def test_oldest_are_forgotten_beyond_the_limit(decoded: list[int]) -> None:
    rng = np.random.default_rng(0)
    noises = [rng.integers(-32768, 32767, 1000).astype(np.int16) for _ in range(3)]
    sizes = [len(encode_flac(noise, 24000)) + noise.nbytes for noise in noises]
    clips = FreshClips(limit_bytes=sizes[1] + sizes[2])
    encoded = [clips.encode(noise, 24000) for noise in noises]
    for data, noise in zip(encoded, noises, strict=True):
        assert np.array_equal(clips.take_values(data)[0], noise)
    assert decoded == [len(encoded[0])]
