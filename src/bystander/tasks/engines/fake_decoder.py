"""A decoder for tests: instant, and always the same two channels for the same names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bystander.schemas.engines import EngineIdentity, RowFault
from bystander.schemas.identity import derive_seed
from bystander.schemas.recordings import DecodedAudio, DecodeRequest
from bystander.schemas.sid_engine_configs import FakeDecoderConfig

SAMPLING_RATE = 8000
DURATION_S = 8.0
TURN_S = 2.0
FAULTY = "missing"
"""A path with this in its name is answered with `audio_missing`."""


class FakeDecoder:
    """Answers every request with bursts of noise that take turns between the channels, 2 s each."""

    def __init__(self, config: FakeDecoderConfig) -> None:
        """Open nothing."""
        self._identity = EngineIdentity("decoder", config.engine, "fake", "1")

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    def decode(self, requests: Sequence[DecodeRequest]) -> list[DecodedAudio | RowFault]:
        return [_make_audio(request) for request in requests]

    def close(self) -> None:
        """Nothing is open."""


def _make_audio(request: DecodeRequest) -> DecodedAudio | RowFault:
    if any(FAULTY in path for path in request.paths):
        return RowFault("audio_missing", f"{request.paths[0]}: is not there")
    rng = np.random.Generator(np.random.PCG64(derive_seed(0, "/".join(request.digests), "fake_decoder")))
    count = round(DURATION_S * SAMPLING_RATE)
    samples = (1e-4 * rng.standard_normal((count, 2))).astype(np.float32)
    turns = np.arange(count) // round(TURN_S * SAMPLING_RATE) % 2
    loud = (0.1 * rng.standard_normal(count)).astype(np.float32)
    for channel in (0, 1):
        samples[turns == channel, channel] = loud[turns == channel]
    return DecodedAudio(np.clip(samples, -1, 1), SAMPLING_RATE)
