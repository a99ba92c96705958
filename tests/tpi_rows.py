"""Rows of any TPI schema for tests: what a test does not give is filled in by type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from bystander.schemas.engines import Samples
from bystander.tasks.audio.coding import encode_flac

_FILLERS: dict[str, Any] = {
    "language": "en",
    "n_speakers": 2,
    "primary_text": "turn on the kitchen...",
    "third_party_text": "no wait please",
    "primary_voice": "ann",
    "third_party_voice": "bob",
    "twin_id": None,
}


def make_rows(schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return a table of `schema` with the given cells; ids count up where a row gives none."""
    return pa.Table.from_arrays(
        [pa.array([_fill(column, row, index) for index, row in enumerate(rows)], column.type) for column in schema],
        schema=schema,
    )


def _fill(column: pa.Field, row: Mapping[str, Any], index: int) -> Any:
    if column.name in row:
        return row[column.name]
    if column.name == "id":
        return f"row-{index:04d}"
    if column.name in _FILLERS:
        return _FILLERS[column.name]
    if pa.types.is_list(column.type):
        return []
    if pa.types.is_boolean(column.type):
        return False
    return "x" if pa.types.is_string(column.type) else 1


def make_track(samples: Samples, rate: int = 24000, speaker: str = "primary") -> dict[str, Any]:
    """Return the cell of one accepted track."""
    return {
        "speaker": speaker,
        "voice": "v",
        "text": "t",
        "audio": encode_flac(samples, rate),
        "sampling_rate": rate,
        "duration_s": len(samples) / rate,
        "level_dbfs": -20.0,
        "recognised": "t",
        "wer_raw": 0.0,
        "wer": 0.0,
        "recognition_temperature": 0.0,
        "attempts": 1,
        "tts_seed": 1,
    }


def make_pair(first: Samples, second: Samples, rate: int = 24000) -> list[dict[str, Any]]:
    """Return the tracks of a two-speaker row."""
    return [make_track(first, rate), make_track(second, rate, "third_party")]


def make_tone(seconds: float, amplitude: float = 0.3, hertz: float = 220.0, rate: int = 24000) -> Samples:
    """Return a sine; float32, shape (seconds * rate,)."""
    phase = 2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate
    return (amplitude * np.sin(phase)).astype(np.float32)
