"""Stage `cut_clips`: the clip of each pair is cut from its recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bystander.schemas.engines import RowFault, Samples
from bystander.schemas.real_world import CUT_PAIR, LOCATED_PAIR
from bystander.schemas.real_world_params import CutClips
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.tasks.audio.coding import encode_flac
from bystander.tasks.audio.excerpt import EXCERPT_REASONS, ExcerptError, read_excerpt
from bystander.tasks.audio.resampling import resample

NAME = "cut_clips"
_SIDES = ("primary", "third_party")
_NOTHING = dict.fromkeys(("audio", "sampling_rate", "duration_s", "clip_start_s", "segments", "overlap_s"))
_SHORTEST_S = 0.05
"""Of what must be there of each speaker."""


def cut_clips(rows: pa.Table, context: StageContext) -> StageOutput:
    """Cut from `lead_s` before the first turn to `tail_s` after the second, and mix the microphones to one channel.

    Rows without audio files go on without a clip.

    Columns read: id, audio_files, times and channels of both turns. Written: audio, sampling_rate, duration_s,
    clip_start_s, segments (from the clip's start), overlap_s (of the segments).

    Reject reasons: those of `EXCERPT_REASONS`: the audio cannot be read, or ends before the pair does. silent_clip: its
    peak is below `min_peak_dbfs`.
    """
    params = cast(CutClips, context.params)
    outcomes = [_cut(row, params) for row in rows.select(_USES).to_pylist()]
    return split_rows(NAME, rows, outcomes, CUT_PAIR)


def _cut(row: Mapping[str, Any], params: CutClips) -> Mapping[str, Any] | RowFault:
    if not row["audio_files"]:
        return _NOTHING
    last_s = max(row["primary_end_s"], row["third_party_end_s"])
    start_s = max(0.0, row["primary_start_s"] - params.lead_s)
    try:
        channels, rate = read_excerpt(row["audio_files"], start_s, last_s + params.tail_s)
    except ExcerptError as exc:
        return RowFault(exc.reason, str(exc))
    mono = resample(_mix(channels, row, params), rate, params.sampling_rate)
    duration_s = len(mono) / params.sampling_rate
    peak = float(np.abs(mono).max()) if len(mono) else 0.0
    if peak < _to_amplitude(params.min_peak_dbfs):
        return RowFault("silent_clip", f"peak {peak:.5f} of full scale")
    ceiling = _to_amplitude(params.peak_ceiling_dbfs)
    if peak > ceiling:
        mono = mono * np.float32(ceiling / peak)
    segments = [
        {
            "speaker": side,
            "start_s": row[f"{side}_start_s"] - start_s,
            "end_s": min(row[f"{side}_end_s"] - start_s, duration_s),
        }
        for side in _SIDES
    ]
    for segment in segments:
        if segment["end_s"] - segment["start_s"] < _SHORTEST_S:
            return RowFault("beyond_recording", f"the recording ends before its {segment['speaker']} speaker does")
    return {
        "audio": {"bytes": encode_flac(mono, params.sampling_rate), "path": f"{row['id']}.flac"},
        "sampling_rate": params.sampling_rate,
        "duration_s": duration_s,
        "clip_start_s": start_s,
        "segments": segments,
        "overlap_s": measure_overlap(segments),
    }


def measure_overlap(segments: list[dict[str, Any]]) -> float:
    """Return the seconds in which both speakers speak."""
    shared = (
        min(one["end_s"], two["end_s"]) - max(one["start_s"], two["start_s"])
        for one in segments
        for two in segments
        if one["speaker"] == _SIDES[0] and two["speaker"] == _SIDES[1]
    )
    return float(sum(max(0.0, length) for length in shared))


def _mix(channels: npt.NDArray[np.float32], row: Mapping[str, Any], params: CutClips) -> Samples:
    own = [row["primary_channel"], row["third_party_channel"]]
    count = channels.shape[1]
    apart = None not in own and own[0] != own[1] and max(own) < count
    chosen = channels[:, own] if params.microphones == "speakers" and apart else channels
    return np.ascontiguousarray(chosen.sum(axis=1, dtype=np.float32))


def _to_amplitude(dbfs: float) -> float:
    return float(10.0 ** (dbfs / 20.0))


_USES = (
    "id",
    "primary_channel",
    "third_party_channel",
    "primary_start_s",
    "primary_end_s",
    "third_party_start_s",
    "third_party_end_s",
    "audio_files",
    "audio_digests",
)

STAGE = Stage(
    name=NAME,
    version=1,
    reads=LOCATED_PAIR,
    writes=CUT_PAIR,
    reasons=EXCERPT_REASONS | {"silent_clip"},
    run=cut_clips,
    params_type=CutClips,
    uses=_USES,
)
