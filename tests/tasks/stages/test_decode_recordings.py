"""Which recordings are fit to be cut, and the reason for each that is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bystander.schemas.engines import EngineIdentity, RowFault
from bystander.schemas.recordings import DecodedAudio, DecodeRequest
from bystander.schemas.sid import DECODED, RAW_RECORDING
from bystander.schemas.sid_engine_configs import FakeDecoderConfig
from bystander.schemas.sid_params import DecodeRecordings
from bystander.schemas.stages import StageOutput
from bystander.tasks.audio.channels import decode_channels
from bystander.tasks.audio.coding import dequantise
from bystander.tasks.engines.fake_decoder import FakeDecoder
from bystander.tasks.stages.decode_recordings import STAGE
from conversations import make_channels
from scripted_engines import make_context

RATE = 8000
TALK = [(0, 0.5, 2.0, "a"), (1, 1.8, 3.5, "b"), (0, 4.0, 5.5, "c")]


class ScriptedDecoder:
    """Answers with what a test gives it, and notes how it is asked."""

    identity = EngineIdentity("decoder", "scripted", "scripted", "1")

    def __init__(self, *replies: np.ndarray | RowFault) -> None:
        self._replies = list(replies)
        self.batches: list[int] = []

    def decode(self, requests: list[DecodeRequest]) -> list[DecodedAudio | RowFault]:
        self.batches.append(len(requests))
        replies = [self._replies.pop(0) for _ in requests]
        return [one if isinstance(one, RowFault) else DecodedAudio(one.astype(np.float32), RATE) for one in replies]

    def close(self) -> None: ...


def make_rows(count: int, **columns: Any) -> pa.Table:
    row = {
        "source": "x.wav",
        "licence": None,
        "language": "en",
        "speakers": ["a", "b"],
        "audio_files": ["/calls/x.wav"],
        "audio_digests": ["d"],
        "utterances": [],
        "transcript_source": None,
        "fault_reason": None,
        "fault": None,
    }
    rows = [{**row, "recording_id": f"rec-{at}", **columns} for at in range(count)]
    return pa.Table.from_pylist(rows, schema=RAW_RECORDING)


def run(*replies: np.ndarray | RowFault, **params: Any) -> StageOutput:
    return STAGE(make_rows(len(replies)), make_context(DecodeRecordings(**params), decoder=ScriptedDecoder(*replies)))


def make_talk(leak: float = 0.0, floor: float = 0.0003) -> np.ndarray:
    return dequantise(make_channels(TALK, 6.0, RATE, floor, leak))


def reject(samples: np.ndarray, **params: Any) -> tuple[str, str]:
    output = run(samples, **params)
    (row,) = output.rejected.to_pylist()
    return row["reject_reason"], row["reject_detail"]


def test_keeps_two_separate_channels_as_they_are() -> None:
    talk = make_talk()
    output = run(talk)
    assert output.kept.schema == DECODED
    (row,) = output.kept.to_pylist()
    values, rate = decode_channels(row["audio"]["bytes"])
    assert (rate, row["sampling_rate"], row["duration_s"]) == (RATE, RATE, 6.0)
    assert row["audio"]["path"] == "rec-0.flac"
    assert np.array_equal(dequantise(values), talk)


@pytest.mark.parametrize("leak_db", [-12, -20, -30, -40])
def test_keeps_channels_with_the_crosstalk_of_telephones(leak_db: float) -> None:
    assert len(run(make_talk(10 ** (leak_db / 20))).kept) == 1


@pytest.mark.parametrize("leak_db", [0, -3, -6])
def test_rejects_channels_that_hold_both_speakers(leak_db: float) -> None:
    reason, detail = reject(make_talk(10 ** (leak_db / 20)))
    assert reason == "channels_not_separate"
    assert "export each speaker to a channel of their own" in detail


def test_rejects_the_same_signal_on_both_channels() -> None:
    mix = make_talk().sum(axis=1, keepdims=True)
    for copy in (np.repeat(mix, 2, axis=1), mix * [1, -0.3], np.concatenate([mix[40:], np.roll(mix, 9)[40:]], axis=1)):
        assert reject(copy)[0] == "channels_not_separate"


def test_rejects_recordings_of_one_channel_or_of_many() -> None:
    assert reject(make_talk()[:, :1]) == (
        "one_channel",
        "has one channel, where each of two speakers needs one; give two-channel audio, or a file a speaker "
        "(call_A.wav and call_B.wav)",
    )
    assert reject(np.repeat(make_talk(), 3, axis=1))[0] == "too_many_channels"


def test_rejects_what_is_short_or_silent() -> None:
    assert reject(make_talk()[:100])[0] == "too_short"
    assert reject(np.zeros((RATE, 2)))[0] == "silent_recording"
    assert reject(1e-3 * np.random.default_rng(0).standard_normal((4 * RATE, 2)))[0] == "silent_recording"
    reason, detail = reject(make_talk() * [1, 0])
    assert reason == "silent_channel"
    assert "channel 1 has 0.00 s of speech" in detail
    hiss = make_talk()
    hiss[:, 0] = 1e-3 * np.random.default_rng(0).standard_normal(len(hiss))
    assert reject(hiss)[0] == "silent_channel"


def test_settings_move_the_bounds() -> None:
    assert len(run(make_talk(0.5), min_channel_separation_db=5).kept) == 1
    assert reject(make_talk(0.1), min_channel_separation_db=25)[0] == "channels_not_separate"
    assert reject(make_talk(), min_speech_s=2.5)[0] == "silent_channel"
    assert reject(make_talk(), min_duration_s=10)[0] == "too_short"


def test_faults_of_the_listing_and_the_decoder_are_rejects() -> None:
    rows = make_rows(1, fault_reason="transcript_invalid", fault="recording x.wav: line 3")
    context = make_context(DecodeRecordings(), decoder=ScriptedDecoder())
    (row,) = STAGE(rows, context).rejected.to_pylist()
    assert (row["reject_reason"], row["reject_detail"]) == ("transcript_invalid", "recording x.wav: line 3")
    assert context.decoder.batches == []  # type: ignore[attr-defined]
    output = run(RowFault("not_audio", "x.wav: is none"), make_talk())
    assert output.rejected["reject_reason"].to_pylist() == ["not_audio"]
    assert output.kept_at == (1,)


def test_asks_for_one_recording_at_a_time() -> None:
    decoder = ScriptedDecoder(make_talk(), make_talk())
    STAGE(make_rows(2), make_context(DecodeRecordings(), decoder=decoder))
    assert decoder.batches == [1, 1]


def test_keeps_what_the_fake_decoder_makes() -> None:
    output = STAGE(make_rows(2), make_context(DecodeRecordings(), decoder=FakeDecoder(FakeDecoderConfig())))
    assert len(output.kept) == 2
