"""One suite for every decoder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from bystander.schemas.engines import RowFault
from bystander.schemas.recordings import DECODER_REASONS, AudioDecoder, DecodedAudio, DecodeRequest
from bystander.schemas.sid_engine_configs import FakeDecoderConfig, FileDecoderConfig
from bystander.tasks.engines.registry import open_decoder

Opened = tuple[AudioDecoder, Callable[[str], DecodeRequest]]


@pytest.fixture(params=["file_decoder", "fake_decoder"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    def ask(name: str) -> DecodeRequest:
        path = tmp_path / f"{name}.wav"
        if name != "missing":
            seed = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)
            soundfile.write(path, 0.1 * np.random.default_rng(seed).standard_normal((8000, 2)), 8000)
        data = path.read_bytes() if path.exists() else b""
        return DecodeRequest((str(path),), (hashlib.sha256(data).hexdigest(),))

    config = FileDecoderConfig() if request.param == "file_decoder" else FakeDecoderConfig()
    return open_decoder(config), ask


def test_fits_the_protocol_and_names_itself(opened: Opened) -> None:
    decoder, _ = opened
    assert isinstance(decoder, AudioDecoder)
    assert decoder.identity.kind == "decoder"
    decoder.close()


def test_answers_in_order_and_keeps_a_fault_to_its_request(opened: Opened) -> None:
    decoder, ask = opened
    first, missing, second = decoder.decode([ask("one"), ask("missing"), ask("two")])
    assert isinstance(missing, RowFault)
    assert missing.reason in DECODER_REASONS
    for reply in (first, second):
        assert isinstance(reply, DecodedAudio)
        assert reply.samples.dtype == np.float32
        assert reply.samples.ndim == 2
        assert reply.samples.shape[1] == 2
        assert np.abs(reply.samples).max() <= 1
        assert 8000 <= reply.sampling_rate <= 48000
    assert isinstance(first, DecodedAudio)
    assert isinstance(second, DecodedAudio)
    assert not np.array_equal(first.samples, second.samples)


def test_the_same_request_gives_the_same_samples(opened: Opened) -> None:
    decoder, ask = opened
    request = ask("one")
    first, again = decoder.decode([request, request])
    assert isinstance(first, DecodedAudio)
    assert isinstance(again, DecodedAudio)
    assert np.array_equal(first.samples, again.samples)


def test_nothing_asked_is_nothing_answered(opened: Opened) -> None:
    assert opened[0].decode([]) == []
