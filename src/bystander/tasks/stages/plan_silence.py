"""Plans silence clips: near-silent stretches of the recordings, cut into pieces that fill a clip each.

In three steps, so that no more than one recording is in memory at a time: `list_silences` looks at the rows without
their audio, `plan_silences` chooses, `cut_silences` reads the audio of what was chosen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from bystander.schemas.arrays import build_array, list_rows
from bystander.schemas.errors import StageContractError
from bystander.schemas.identity import derive_seed, make_id
from bystander.schemas.sid import NOISE_PLAN, SILENCE
from bystander.schemas.sid_params import MakeNoiseClips
from bystander.tasks.audio.channels import ChannelReader
from bystander.tasks.audio.coding import encode_flac

SILENCE_COLUMNS = ("recording_id", "licence", "synthetic", "silences")
"""The columns of a recording that planning reads."""
VERSION = 1
"""Raised whenever the pieces that are cut would change."""
_SEEDED_AS = "plan_silence"
_SPARE_S = 0.01
"""Planned beyond the clip's length, for what resampling and the rounding of times may take."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A near-silent stretch of one channel of a recording, in seconds of it."""

    recording_id: str
    licence: str | None
    synthetic: bool
    channel: int
    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s

    @property
    def key(self) -> str:
        return f"{self.recording_id}/{self.channel}/{self.start_s:.4f}"


@dataclass(frozen=True, slots=True)
class SilencePlan:
    """A silence clip that is to be made: its pieces in order. No stretch is in two pieces."""

    id: str
    pieces: tuple[Silence, ...]


def list_silences(recordings: pa.Table) -> list[Silence]:
    """Return all near-silent stretches of `recordings`; reads `SILENCE_COLUMNS`."""
    columns = (recordings[name].to_pylist() for name in SILENCE_COLUMNS)
    return [
        Silence(recording_id, licence, synthetic, span["channel"], span["start_s"], span["end_s"])
        for recording_id, licence, synthetic, spans in zip(*columns, strict=True)
        for span in spans
    ]


def plan_silences(
    silences: Iterable[Silence], count: int, params: MakeNoiseClips, build_seed: int
) -> list[SilencePlan]:
    """Return up to `count` clips of `silence_s`, fewer where the stretches do not suffice.

    Recordings take turns, so that clips are spread over them, in an order drawn by the seed. The pieces of a clip are
    from one channel of one recording as long as one has enough, then from one recording, and only then from several.
    Every stretch is used once; what is left over of the last piece of a clip goes on to another. Neither the order
    nor the number of tables that the stretches came from matters.
    """
    pools: dict[tuple[str, int], list[Silence]] = defaultdict(list)
    for silence in sorted(set(silences), key=lambda silence: (_rank(silence.key, build_seed), silence.key)):
        if silence.length_s >= params.min_piece_s:
            pools[silence.recording_id, silence.channel].append(silence)
    plans: list[SilencePlan] = []
    # Each round joins what the one before could not use: by channel, by recording, all.
    for keep in (2, 1, 0):
        merged: dict[tuple[str | int, ...], list[Silence]] = defaultdict(list)
        for key in sorted(pools, key=lambda key: (_rank(f"{key[0]}/{key[1]}", build_seed), key)):
            merged[key[:keep]] += pools[key]
        waiting = list(merged)
        while waiting and len(plans) < count:
            still: list[tuple[str | int, ...]] = []
            for group in waiting:
                if len(plans) == count:
                    break
                pieces, rest = _fill(merged[group], params)
                if pieces:
                    plans.append(SilencePlan(make_id("silence", *(piece.key for piece in pieces)), tuple(pieces)))
                    merged[group] = rest
                    still.append(group)
            waiting = still
        pools = defaultdict(list)
        for left in merged.values():
            for silence in left:
                pools[silence.recording_id, silence.channel].append(silence)
    return plans


def cut_silences(plans: Sequence[SilencePlan], recordings: Iterable[pa.Table]) -> pa.Table:
    """Return the plans as `NOISE_PLAN` rows in their order, with the pieces cut from the recordings as FLAC.

    Args:
        plans: what to cut.
        recordings: tables with `recording_id` and `audio`, together those of all pieces; they may be read one at a
            time, and only the stretches wanted are decoded.

    Raises:
        StageContractError: a recording is missing.
        InputError: the audio of a recording cannot be read.
    """
    wanted: dict[str, list[Silence]] = defaultdict(list)
    for plan in plans:
        for piece in plan.pieces:
            wanted[piece.recording_id].append(piece)
    cut: dict[Silence, bytes] = {}
    for table in recordings:
        for position, recording_id in enumerate(table["recording_id"].to_pylist()):
            if recording_id in wanted:
                (row,) = list_rows(table.select(["audio"]).slice(position, 1))
                cut |= _cut(row["audio"]["bytes"], wanted.pop(recording_id))
    if wanted:
        raise StageContractError(f"cut_silences: {len(wanted)} recordings are missing, such as {min(wanted)}")
    rows = [_write_row(plan, cut) for plan in plans]
    columns = [build_array([row[field.name] for row in rows], field.type) for field in NOISE_PLAN]
    return pa.Table.from_arrays(columns, schema=NOISE_PLAN)


def _rank(key: str, build_seed: int) -> int:
    return derive_seed(build_seed, key, _SEEDED_AS)


def _fill(pool: Sequence[Silence], params: MakeNoiseClips) -> tuple[list[Silence], list[Silence]]:
    """Return the pieces of one clip and what is left of the pool; no pieces where it does not suffice."""
    needed = params.silence_s + _SPARE_S
    least = 2 * params.crossfade_s
    pieces: list[Silence] = []
    filled = 0.0
    for at, silence in enumerate(pool):
        start = filled - (params.crossfade_s if pieces else 0.0)
        if start + silence.length_s < needed:
            pieces.append(silence)
            filled = start + silence.length_s
            continue
        # The last piece is at least as long as its fades, though the clip then ends within it.
        end_s = silence.start_s + min(silence.length_s, max(least, needed - start))
        rest = replace(silence, start_s=end_s)
        left = [rest] if rest.length_s >= params.min_piece_s else []
        return [*pieces, replace(silence, end_s=end_s)], [*left, *pool[at + 1 :]]
    return [], list(pool)


def _cut(data: bytes | memoryview, pieces: Sequence[Silence]) -> dict[Silence, bytes]:
    reader = ChannelReader(data)
    try:
        return {
            piece: encode_flac(
                reader.read(
                    piece.channel,
                    min(reader.length, round(piece.start_s * reader.rate)),
                    min(reader.length, round(piece.end_s * reader.rate)),
                ),
                reader.rate,
            )
            for piece in pieces
        }
    finally:
        reader.close()


def _write_row(plan: SilencePlan, cut: Mapping[Silence, bytes]) -> dict[str, object]:
    licences = sorted({piece.licence for piece in plan.pieces if piece.licence is not None})
    known = all(piece.licence is not None for piece in plan.pieces)
    return {
        "id": plan.id,
        "category": SILENCE,
        "source": " ".join(sorted({piece.recording_id for piece in plan.pieces})),
        "licence": " AND ".join(licences) if known else None,
        "synthetic": all(piece.synthetic for piece in plan.pieces),
        "pieces": [{"bytes": cut[piece], "path": f"{piece.key}.flac"} for piece in plan.pieces],
        "draw": 0,
    }
