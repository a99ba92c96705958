"""Cuts the turns that `find_turns` found from their recordings: one row a turn, with the speaker's own channel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from bystander.schemas.arrays import build_array, list_rows
from bystander.schemas.identity import make_id
from bystander.schemas.sid import TURN, TURNS_FOUND
from bystander.schemas.sid_params import CutTurns
from bystander.tasks.audio.channels import ChannelReader
from bystander.tasks.audio.coding import dequantise, encode_flac, quantise
from bystander.tasks.audio.resampling import resample
from bystander.tasks.stages.turn_truths import find_truth

_CARRIED = ("recording_id", "source", "licence", "language", "transcript_source", "synthetic")
_BATCH_TURNS = 64
VERSION = 1
"""Raised whenever the turns that are cut would change."""


def cut_turns(recordings: pa.Table, params: CutTurns) -> pa.Table:
    """Return the turns of all `recordings` as one table; see `iterate_turns`."""
    return pa.Table.from_batches(list(iterate_turns(recordings, params)), TURN)


def iterate_turns(recordings: pa.Table, params: CutTurns, batch_turns: int = _BATCH_TURNS) -> Iterator[pa.RecordBatch]:
    """Yield the turns of `TURNS_FOUND` rows as `TURN` rows, in batches of up to `batch_turns` of one recording.

    Only the stretch of a turn is decoded, so what is held is one batch. Without resampling, a clip is the channel's
    own samples, bit for bit. Times of words and speech are moved to the start of the clip and cut to it; those of the
    context are moved only: it may begin before the clip (negative) and end after it. Ids come from the recording, the
    channel and the first sample. No turn is left out or chosen for what it says.

    The `true_` columns of a synthetic recording come from the scripted turn of the same channel with which the turn
    shares the most time: see `find_truth`.

    Raises:
        InputError: the audio of a recording cannot be read.
    """
    if recordings.schema.names != TURNS_FOUND.names:
        raise ValueError(f"cut_turns: reads {TURNS_FOUND.names}, was given {recordings.schema.names}")
    for position in range(len(recordings)):
        (recording,) = list_rows(recordings.slice(position, 1))
        reader = ChannelReader(recording["audio"]["bytes"])
        try:
            turns: Sequence[Mapping[str, Any]] = recording["turns"]
            for first in range(0, len(turns), batch_turns):
                rows = [_cut(recording, turn, reader, params) for turn in turns[first : first + batch_turns]]
                arrays = [build_array([row[field.name] for row in rows], field.type) for field in TURN]
                yield pa.RecordBatch.from_arrays(arrays, schema=TURN)
        finally:
            reader.close()


def _cut(
    recording: Mapping[str, Any], turn: Mapping[str, Any], reader: ChannelReader, params: CutTurns
) -> dict[str, Any]:
    start, end = (min(reader.length, round(turn[key] * reader.rate)) for key in ("start_s", "end_s"))
    values = reader.read(turn["channel"], start, end)
    rate = params.sampling_rate or reader.rate
    if rate != reader.rate:
        values = quantise(resample(dequantise(values), reader.rate, rate))
    start_s, duration_s = start / reader.rate, len(values) / rate
    row_id = make_id("turn", recording["recording_id"], turn["channel"], start)

    def shift(part: Mapping[str, Any]) -> dict[str, Any]:
        times = {
            key: None if part[key] is None else min(duration_s, max(0.0, part[key] - start_s))
            for key in ("start_s", "end_s")
        }
        return {**part, **times}

    truth = find_truth(recording["truths"], turn, start_s, duration_s) if recording["synthetic"] else None
    return {
        **{name: recording[name] for name in _CARRIED},
        "id": row_id,
        "speaker": recording["speakers"][turn["channel"]],
        "channel": turn["channel"],
        "turn_start_s": start_s,
        "audio": {"bytes": encode_flac(values, rate), "path": f"{row_id}.flac"},
        "sampling_rate": rate,
        "duration_s": duration_s,
        "text": turn["text"],
        "transcript_words": [shift(word) for word in turn["words"]],
        "speech": [shift(span) for span in turn["speech"]],
        "context_text": turn["other_text"],
        "context_start_s": turn["other_start_s"] - start_s,
        "context_end_s": turn["other_end_s"] - start_s,
        "overlap_s": turn["overlap_s"],
        "true_category": truth.category if truth else None,
        "true_break_word_index": truth.break_word_index if truth else None,
        "true_break_time_s": truth.break_time_s if truth else None,
    }
