"""Stage `make_noise_clips`: clips without speech, from near-silent stretches, files and generators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pyarrow as pa

from bystander.schemas.arrays import list_rows
from bystander.schemas.engines import RowFault, Samples
from bystander.schemas.errors import InputError
from bystander.schemas.identity import make_rng
from bystander.schemas.sid import NOISE_CLIP, NOISE_PLAN, SILENCE
from bystander.schemas.sid_params import MakeNoiseClips
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.tasks.audio.coding import decode_audio, encode_flac
from bystander.tasks.audio.joining import join_pieces
from bystander.tasks.audio.levels import convert_from_db, measure_peak
from bystander.tasks.audio.noise_generators import GENERATORS, generate_noise
from bystander.tasks.audio.resampling import resample
from bystander.tasks.audio.trimming import fade_edges
from bystander.tasks.stages.plan_noise import GENERATED

NAME = "make_noise_clips"
_PEAK_CEILING_DBFS = -0.1


def make_noise_clips(rows: pa.Table, context: StageContext) -> StageOutput:
    """Render the clips of a plan at `sampling_rate`.

    Silence: the pieces, faded into each other over `crossfade_s`, cut to `silence_s` exactly; levels are left alone.
    Files: the first channel; of more than `max_file_s`, that much from a drawn place on. Levels are left alone, but
    for peaks that resampling carries over full scale.
    Generated: a length drawn evenly from `generated_s` and an RMS level drawn evenly from `generated_dbfs`, so that
    faint and loud noise are as common; less where peaks would clip.

    Columns read: id, category, source, pieces. Written: audio (FLAC, path `<id>.flac`), sampling_rate, duration_s.

    Reject reasons:
        unreadable_noise: a piece cannot be decoded, or has samples that are no numbers.
        too_short: silence whose pieces do not fill it, or a file shorter than `min_file_s`.
        digital_silence: nothing but zeros.
        unknown_generator: a plan without pieces names no generator.
    """
    params = cast(MakeNoiseClips, context.params)
    outcomes = [_make(row, context.build_seed, params) for row in list_rows(rows)]
    return split_rows(NAME, rows, outcomes, NOISE_CLIP)


def _make(row: Mapping[str, Any], build_seed: int, params: MakeNoiseClips) -> dict[str, Any] | RowFault:
    rng = make_rng(build_seed, row["id"], NAME)
    if not row["pieces"]:
        samples = _generate(row["source"], params, rng)
    else:
        pieces = _decode(row["pieces"], params.sampling_rate)
        if isinstance(pieces, RowFault):
            return pieces
        samples = _join(pieces, params) if row["category"] == SILENCE else _cut(pieces[0], params, rng)
    if isinstance(samples, RowFault):
        return samples
    if measure_peak(samples) == 0:
        return RowFault("digital_silence", f"{len(samples) / params.sampling_rate:.2f} s of zeros")
    return {
        "audio": {"bytes": encode_flac(samples, params.sampling_rate), "path": f"{row['id']}.flac"},
        "sampling_rate": params.sampling_rate,
        "duration_s": len(samples) / params.sampling_rate,
    }


def _decode(pieces: list[Mapping[str, Any]], rate: int) -> list[Samples] | RowFault:
    decoded: list[Samples] = []
    for piece in pieces:
        try:
            samples, from_rate = decode_audio(piece["bytes"])
        except InputError as exc:
            return RowFault("unreadable_noise", f"{piece['path']}: {exc}")
        if not np.isfinite(samples).all():
            return RowFault("unreadable_noise", f"{piece['path']}: samples that are no numbers")
        decoded.append(resample(samples, from_rate, rate))
    return decoded


def _join(pieces: list[Samples], params: MakeNoiseClips) -> Samples | RowFault:
    joined = join_pieces(pieces, round(params.crossfade_s * params.sampling_rate))
    needed = round(params.silence_s * params.sampling_rate)
    if len(joined) < needed:
        return RowFault(
            "too_short", f"{len(joined) / params.sampling_rate:.2f} s of near-silence, of {params.silence_s:g} s"
        )
    return joined[:needed]


def _cut(samples: Samples, params: MakeNoiseClips, rng: np.random.Generator) -> Samples | RowFault:
    length_s = len(samples) / params.sampling_rate
    if length_s < params.min_file_s:
        return RowFault("too_short", f"{length_s:.2f} s, at least {params.min_file_s:g} s is asked for")
    most = round(params.max_file_s * params.sampling_rate)
    if len(samples) > most:
        start = int(rng.integers(len(samples) - most + 1))
        samples = fade_edges(samples[start : start + most], round(0.01 * params.sampling_rate))
    peak = measure_peak(samples)
    ceiling = convert_from_db(_PEAK_CEILING_DBFS)
    return samples * np.float32(ceiling / peak) if peak > 1 else samples


def _generate(source: str, params: MakeNoiseClips, rng: np.random.Generator) -> Samples | RowFault:
    kind = source.removeprefix(GENERATED)
    if not source.startswith(GENERATED) or kind not in GENERATORS:
        return RowFault("unknown_generator", f"{source} is none of {', '.join(GENERATORS)}")
    seconds = float(rng.uniform(*params.generated_s))
    return generate_noise(kind, seconds, params.sampling_rate, float(rng.uniform(*params.generated_dbfs)), rng)


STAGE = Stage(
    name=NAME,
    version=1,
    reads=NOISE_PLAN,
    writes=NOISE_CLIP,
    reasons=frozenset({"unreadable_noise", "too_short", "digital_silence", "unknown_generator"}),
    run=make_noise_clips,
    params_type=MakeNoiseClips,
)
