"""Channels of a recording, whole and in stretches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.errors import InputError
from bystander.tasks.audio.channels import ChannelReader, decode_channels, encode_channels

VALUES = np.random.default_rng(0).integers(-32768, 32768, (9000, 2)).astype(np.int16)
DATA = encode_channels(VALUES, 8000)


def test_keeps_every_value():
    values, rate = decode_channels(DATA)
    assert rate == 8000
    assert np.array_equal(values, VALUES)


@given(st.integers(0, 9000), st.integers(0, 9000), st.integers(0, 1))
def test_reads_a_stretch_of_one_channel(first, second, channel):
    start, end = sorted((first, second))
    reader = ChannelReader(memoryview(DATA))
    assert (reader.rate, reader.length) == (8000, 9000)
    assert np.array_equal(reader.read(channel, start, end), VALUES[start:end, channel])
    reader.close()


def test_names_what_is_no_audio():
    with pytest.raises(InputError, match="cannot be decoded"):
        decode_channels(b"RIFF")
    with pytest.raises(InputError, match="cannot be decoded"):
        ChannelReader(b"")
