"""Reads a bench's rows as clips that can be cut, and returns the seam control's clips as the model perceives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bystander.tasks.training.row_index import RowIndex
from bystander.tasks.training.shard_examples import ShardExamples
from bystander.tasks.training.spliced_clips import DEFAULT_OVERLAP_S, SpokenRow, splice_rows
from bystander.tasks.training.two_input_rows import TwoInputRow
from bystander.tasks.training.two_input_sound import Frames, SoundFront

_COLUMNS = ("primary_text", "third_party_text", "primary_voice", "third_party_voice", "segments", "overlap_s")
_RATE = 16000


@dataclass(frozen=True, slots=True)
class SplicedRow:
    """A row whose words go with two clips of the same seam: frames of one voice and of two."""

    row: TwoInputRow
    one_voice: Frames
    two_voices: Frames


def perceive_spliced(
    index: RowIndex, rows: Sequence[TwoInputRow], front: SoundFront, seed: int
) -> tuple[SplicedRow, ...]:
    """Return the seam control of a bench, see `splice_rows`; none where no voice speaks in two rows.

    Args:
        index: of the bench.
        rows: the same rows as the model perceives them, in the index's order.
        front: makes the frames.
        seed: of the lot.

    Raises:
        CorruptPartError: a shard is damaged.
        StorageError: a shard cannot be read.
    """
    places = [place for place, row in enumerate(rows) if row.part != "dyadic"]
    source = ShardExamples(index, _keep, _COLUMNS, rate=_RATE, seed=0)
    values = source.read(places, 0) if places else []
    spoken = [row for row in map(_describe, values) if row is not None]
    overlaps = [row["overlap_s"] for row in values if row["overlap_s"] is not None and row["overlap_s"] > 0]
    overlap_s = float(np.median(overlaps)) if overlaps else DEFAULT_OVERLAP_S
    by_id = {row.id: row for row in rows}
    return tuple(
        SplicedRow(by_id[pair.row_id], front.compute(pair.one_voice, _RATE), front.compute(pair.two_voices, _RATE))
        for pair in splice_rows(spoken, _RATE, overlap_s, seed)
    )


def _describe(values: dict[str, Any]) -> SpokenRow | None:
    """Return what is cut of a row; None where voices or segments are not known, as of recordings."""
    segments = {segment["speaker"]: segment for segment in values["segments"] or ()}
    if not values["primary_voice"] or "primary" not in segments:
        return None
    lengths = [len(values[name] or "") for name in ("primary_text", "third_party_text")]
    other = segments.get("third_party")
    return SpokenRow(
        id=values["id"],
        samples=values["samples"],
        primary_voice=values["primary_voice"],
        third_party_voice=values["third_party_voice"],
        third_party_start_s=other["start_s"] if other else None,
        primary_end_s=segments["primary"]["end_s"],
        first_share=lengths[0] / max(1, sum(lengths)),
    )


def _keep(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:  # noqa: ARG001
    return row
