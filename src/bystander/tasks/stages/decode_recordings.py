"""Stage `decode_recordings`: audio files become two channels that hold one speaker each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pyarrow as pa

from bystander.schemas.engines import RowFault
from bystander.schemas.recordings import DECODER_REASONS, RECORDING_REASONS, AudioDecoder, DecodeRequest
from bystander.schemas.sid import DECODED, RAW_RECORDING
from bystander.schemas.sid_params import DecodeRecordings
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.tasks.audio.channel_separation import correlate_channels
from bystander.tasks.audio.channels import ChannelValues, encode_channels
from bystander.tasks.audio.coding import quantise
from bystander.tasks.audio.speech_activity import FRAME_S
from bystander.tasks.stages.own_speech import OwnSpeech, find_own_speech

NAME = "decode_recordings"
_USES = ("recording_id", "audio_files", "audio_digests", "fault_reason", "fault")
_ADVICE = "export each speaker to a channel of their own; a mix cannot be cut into the turns of one"


def decode_recordings(rows: pa.Table, context: StageContext) -> StageOutput:
    """Decode each recording and see to it that its channels are fit to be cut.

    Columns read: audio_files, audio_digests, fault_reason, fault. Written: audio (FLAC, 16 bit, two channels),
    sampling_rate (the file's own, 8 to 48 kHz), duration_s.

    Reject reasons:
        those of `RECORDING_REASONS`: what was found wrong while the recordings were listed.
        those of `DECODER_REASONS`: the files cannot be decoded.
        one_channel, too_many_channels: not the two of two speakers.
        too_short: shorter than `min_duration_s`.
        silent_recording: neither channel has speech.
        silent_channel: one has none, or less than `min_speech_s`: noise, silence, or what leaks from the other.
        channels_not_separate: both speakers are in both channels (`min_channel_separation_db`), or both channels hold
            the same signal (`max_channel_correlation`).

    Raises:
        EngineError: the decoder as a whole failed.
    """
    params = cast(DecodeRecordings, context.params)
    # One recording at a time: its samples may fill gigabytes.
    outcomes = [_decode(row, context.decoder, params) for row in rows.select(_USES).to_pylist()]
    return split_rows(NAME, rows, outcomes, DECODED)


def _decode(row: Mapping[str, Any], decoder: AudioDecoder, params: DecodeRecordings) -> dict[str, Any] | RowFault:
    if row["fault_reason"] is not None:
        return RowFault(row["fault_reason"], row["fault"] or "")
    (decoded,) = decoder.decode([DecodeRequest(tuple(row["audio_files"]), tuple(row["audio_digests"]))])
    if isinstance(decoded, RowFault):
        return decoded
    channels = decoded.samples.shape[1]
    if channels == 1:
        return RowFault(
            "one_channel",
            "has one channel, where each of two speakers needs one; "
            "give two-channel audio, or a file a speaker (call_A.wav and call_B.wav)",
        )
    if channels != 2:
        return RowFault("too_many_channels", f"has {channels} channels; keep the two of the two speakers")
    rate, duration_s = decoded.sampling_rate, len(decoded.samples) / decoded.sampling_rate
    if duration_s < params.min_duration_s:
        return RowFault("too_short", f"is {duration_s:.3f} s long, at least {params.min_duration_s:g} s are asked for")
    values = np.stack([quantise(decoded.samples[:, channel]) for channel in (0, 1)], axis=1)
    del decoded
    fault = _check_channels(values, rate, params)
    if fault is not None:
        return fault
    return {
        "audio": {"bytes": encode_channels(values, rate), "path": f"{row['recording_id']}.flac"},
        "sampling_rate": rate,
        "duration_s": duration_s,
    }


def _check_channels(values: ChannelValues, rate: int, params: DecodeRecordings) -> RowFault | None:
    speech = find_own_speech(values, rate)
    assert isinstance(speech, OwnSpeech)  # without a detector there is none that fails
    heard = [float(mask.sum()) * FRAME_S for mask in speech.sounding]
    quiet = [channel for channel in (0, 1) if heard[channel] < max(params.min_speech_s, FRAME_S)]
    if len(quiet) == 2:
        return RowFault("silent_recording", "no speech on either channel: digital silence, or noise alone")
    if quiet:
        return RowFault(
            "silent_channel",
            f"channel {quiet[0]} has {heard[quiet[0]]:.2f} s of speech, the other {heard[1 - quiet[0]]:.2f} s; "
            "two speakers are needed",
        )
    correlation = correlate_channels(values)
    if abs(correlation) > params.max_channel_correlation:
        return RowFault(
            "channels_not_separate", f"both channels hold the same signal (correlation {correlation:.2f}); {_ADVICE}"
        )
    separation, (low, high) = speech.separation.separation_db, speech.separation.differences_db
    if separation < params.min_channel_separation_db:
        return RowFault(
            "channels_not_separate",
            f"both speakers are in both channels, or one speaks and echoes: they keep {separation:.1f} dB apart "
            f"(their difference is {low:.1f} to {high:.1f} dB), {params.min_channel_separation_db:g} dB are asked for; "
            f"{_ADVICE}",
        )
    own = [float(mask.sum()) * FRAME_S for mask in speech.speech]
    poor = next((channel for channel in (0, 1) if own[channel] < params.min_speech_s), None)
    if poor is not None:
        return RowFault(
            "silent_channel",
            f"channel {poor} has {own[poor]:.2f} s of speech that is not the other's echo; two speakers are needed",
        )
    return None


STAGE = Stage(
    name=NAME,
    version=1,
    reads=RAW_RECORDING,
    writes=DECODED,
    reasons=RECORDING_REASONS
    | DECODER_REASONS
    | {
        "one_channel",
        "too_many_channels",
        "too_short",
        "silent_recording",
        "silent_channel",
        "channels_not_separate",
    },
    run=decode_recordings,
    params_type=DecodeRecordings,
    engines=("decoder",),
    uses=_USES,
)
