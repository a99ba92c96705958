"""Stage `mix_speakers`: the third party's track laid over the end of the primary's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bystander.schemas.arrays import list_rows
from bystander.schemas.engines import RowFault, Samples
from bystander.schemas.identity import make_rng
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.tpi import MIXED, VERIFIED
from bystander.schemas.tpi_params import MixSpeakers
from bystander.tasks.audio.coding import FULL_SCALE, decode_audio, quantise
from bystander.tasks.audio.fresh_clips import FRESH_CLIPS
from bystander.tasks.audio.levels import SILENCE_DBFS, convert_from_db, measure_peak
from bystander.tasks.audio.loudness import measure_loudness
from bystander.tasks.audio.placement import add_tracks, place_second
from bystander.tasks.audio.resampling import resample
from bystander.tasks.audio.surroundings import add_noise, apply_room, list_clips, load_clip

NAME = "mix_speakers"
_USES = ("id", "n_speakers", "tracks")


@dataclass(frozen=True, slots=True)
class _Draws:
    """What is random about a row: independent of its audio, and of each other's settings."""

    offset_s: float
    level_difference_db: float


def mix_speakers(rows: pa.Table, context: StageContext) -> StageOutput:
    """Place, level and add the tracks of a pair; level the one track of a hard negative.

    Offset: from N(mean, sd), from the end of the primary's track to the start of the third party's, where negative is
    overlap. An overlap of more than `max_overlap_share` of the shorter track is cut to that: offset_asked_s keeps what
    was drawn, overlap_s and segments say what was placed.

    Level: the primary's track is set to `target_level`, the third party's to that plus a difference from N(0, sd),
    clipped at 2 sd. Where the peak of the mixture would pass `peak_ceiling_dbfs`, all of it is turned down.

    Surroundings (off by default): one room response a row, applied to all of it, which adds its tail to the clip; then
    one noise at a level drawn evenly from `noise_snr_db`. Segments are those of the speech without its tail.

    Columns read: id, n_speakers, tracks. Written: audio (FLAC, path `<id>.flac`), sampling_rate, duration_s, segments,
    offset_asked_s, overlap_s, loudness_difference_db (the last three null in a hard negative).

    Reject reasons:
        unmeasurable_loudness: a track is too quiet for its loudness to be measured.

    Raises:
        ConfigError: a folder of responses or noises is missing or empty, or a file in it cannot be read.
    """
    params = cast(MixSpeakers, context.params)
    surroundings = _Surroundings(params)
    outcomes = [_mix_row(row, context.build_seed, params, surroundings) for row in list_rows(rows.select(_USES))]
    return split_rows(NAME, rows, outcomes, MIXED)


def _mix_row(
    row: dict[str, Any], build_seed: int, params: MixSpeakers, surroundings: _Surroundings
) -> dict[str, Any] | RowFault:
    rate = params.sampling_rate
    tracks = [resample(*decode_audio(track["audio"]), rate) for track in row["tracks"]]
    gains_db = []
    for track, samples in zip(row["tracks"], tracks, strict=True):
        loudness = measure_loudness(samples, rate, params.loudness)
        if loudness <= SILENCE_DBFS:
            return RowFault("unmeasurable_loudness", f"the track of {track['speaker']} is too quiet to be measured")
        gains_db.append(params.target_level - loudness)
    if row["n_speakers"] == 1:
        speech = tracks[0]
        spans = [("primary", 0, len(speech))]
        numbers: dict[str, float | None] = {"offset_asked_s": None, "overlap_s": None, "loudness_difference_db": None}
    else:
        draws = _draw(row["id"], build_seed, params)
        primary, third_party = tracks
        start = place_second(len(primary), len(third_party), round(draws.offset_s * rate), params.max_overlap_share)
        relative = convert_from_db(gains_db[1] + draws.level_difference_db - gains_db[0])
        speech = add_tracks(primary, third_party, start, relative)
        spans = [("primary", 0, len(primary)), ("third_party", start, start + len(third_party))]
        numbers = {
            "offset_asked_s": draws.offset_s,
            "overlap_s": max(0, len(primary) - start) / rate,
            "loudness_difference_db": draws.level_difference_db,
        }
    mixture = surroundings.apply(speech, row["id"], build_seed)
    values = _limit_peak(mixture, convert_from_db(gains_db[0]), params.peak_ceiling_dbfs)
    return {
        "audio": {"bytes": FRESH_CLIPS.encode(values, rate), "path": f"{row['id']}.flac"},
        "sampling_rate": rate,
        "duration_s": len(values) / rate,
        "segments": [
            {"speaker": speaker, "start_s": start / rate, "end_s": end / rate} for speaker, start, end in spans
        ],
        **numbers,
    }


def _draw(row_id: str, build_seed: int, params: MixSpeakers) -> _Draws:
    rng = make_rng(build_seed, row_id, NAME)
    offset, level = rng.standard_normal(2)
    return _Draws(
        offset_s=params.offset_mean_s + params.offset_sd_s * float(offset),
        level_difference_db=params.level_difference_sd_db * float(np.clip(level, -2, 2)),
    )


def _limit_peak(samples: Samples, gain: float, ceiling_dbfs: float) -> npt.NDArray[np.int16]:
    """Return the 16-bit values of `samples` times `gain`, or times less where a value would pass the ceiling."""
    ceiling = min(FULL_SCALE - 1, int(convert_from_db(ceiling_dbfs) * FULL_SCALE)) / FULL_SCALE
    peak = measure_peak(samples)
    if peak * gain > ceiling:
        gain = ceiling / peak
    # Rounding may carry the peak itself one step over; it is held at the ceiling.
    return quantise(np.clip(samples * np.float32(gain), -ceiling, ceiling))


class _Surroundings:
    """The room responses and noises of one run of the stage, opened as they are drawn."""

    def __init__(self, params: MixSpeakers) -> None:
        self._params = params
        self._responses = _list(params, "room_responses")
        self._noises = _list(params, "noises")
        self._load = lru_cache(maxsize=32)(load_clip)

    def apply(self, speech: Samples, row_id: str, build_seed: int) -> Samples:
        """Return the speech in the row's room and noise; as it is where neither is asked for."""
        rate = self._params.sampling_rate
        if self._responses:
            rng = make_rng(build_seed, row_id, NAME, "room")
            path = self._responses[int(rng.integers(len(self._responses)))]
            speech = apply_room(speech, self._load(path, f"stages.{NAME}.room_responses", rate))
        if self._noises:
            rng = make_rng(build_seed, row_id, NAME, "noise")
            path = self._noises[int(rng.integers(len(self._noises)))]
            noise = self._load(path, f"stages.{NAME}.noises", rate)
            low, high = sorted(self._params.noise_snr_db)
            speech = add_noise(speech, noise, float(rng.uniform(low, high)), int(rng.integers(len(noise))))
        return speech


def list_surroundings(params: MixSpeakers) -> list[tuple[str, Path]]:
    """Return all room responses and noises, each with its setting and its path in that folder.

    Raises:
        ConfigError: a folder is missing, or holds no audio file.
    """
    return [
        (f"{setting}/{path.relative_to(getattr(params, setting)).as_posix()}", path)
        for setting in ("room_responses", "noises")
        for path in _list(params, setting)
    ]


def _list(params: MixSpeakers, setting: str) -> tuple[Path, ...]:
    folder: str | None = getattr(params, setting)
    return () if folder is None else list_clips(folder, f"stages.{NAME}.{setting}")


STAGE = Stage(
    name=NAME,
    version=1,
    reads=VERIFIED,
    writes=MIXED,
    reasons=frozenset({"unmeasurable_loudness"}),
    run=mix_speakers,
    params_type=MixSpeakers,
    uses=_USES,
    list_files=list_surroundings,
)
