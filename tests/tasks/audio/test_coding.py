"""FLAC and WAV: lossless for 16 bits, and errors for what is no audio."""

import io
import struct

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bystander.schemas.errors import InputError
from bystander.tasks.audio.coding import decode_audio, dequantise, encode_flac, encode_wav, quantise

INT16 = hnp.arrays(np.int16, st.integers(1, 3000), elements=st.integers(-32768, 32767))


@settings(max_examples=40, deadline=None)
@given(INT16, st.sampled_from([8000, 16000, 24000, 44100, 48000]), st.sampled_from([encode_flac, encode_wav]))
def test_stores_16_bit_values_without_loss(values, rate, encode):
    samples, decoded_rate = decode_audio(encode(dequantise(values), rate))
    assert decoded_rate == rate
    assert samples.dtype == np.float32
    assert np.array_equal(quantise(samples), values)
    assert np.array_equal(samples, dequantise(values))


def test_writes_flac_of_16_bits_that_soundfile_reads():
    info = soundfile.info(io.BytesIO(encode_flac(np.zeros(240, np.float32), 24000)))
    assert (info.format, info.subtype, info.channels, info.frames, info.samplerate) == ("FLAC", "PCM_16", 1, 240, 24000)


def test_writes_wav_that_soundfile_reads_alike():
    samples = np.linspace(-1, 1, 500, dtype=np.float32)
    read, rate = soundfile.read(io.BytesIO(encode_wav(samples, 16000)), dtype="float32")
    assert rate == 16000
    assert np.array_equal(read, decode_audio(encode_wav(samples, 16000))[0])


def test_clips_instead_of_wrapping_around():
    assert quantise(np.array([1.5, 1.0, -1.0, -3.0, 0.0], np.float32)).tolist() == [32767, 32767, -32768, -32768, 0]


def test_takes_the_first_of_several_channels():
    buffer = io.BytesIO()
    soundfile.write(buffer, np.column_stack([np.full(100, 0.5), np.full(100, -0.5)]), 8000, format="WAV")
    samples, rate = decode_audio(buffer.getvalue())
    assert rate == 8000
    assert samples.shape == (100,)
    assert samples[50] == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("data", [b"", b"no audio at all", encode_flac(np.zeros(99, np.float32), 8000)[:20]])
def test_says_that_bytes_are_no_audio(data):
    with pytest.raises(InputError, match="cannot be decoded"):
        decode_audio(data)


def test_leaves_a_wav_of_another_layout_to_libsndfile():
    data = bytearray(encode_wav(np.zeros(8, np.float32), 8000))
    data[40:44] = struct.pack("<I", 8)  # says half of what is there
    assert len(decode_audio(bytes(data))[0]) == 4
