"""Builds of TPI rows in small row groups, and Parquet as VoiceAssistant-400K has it, for tests of training."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile

from bystander.schemas.tpi import AUDIO, FINAL
from bystander.storage.build_manifest import write_manifest
from bystander.storage.filesystem import Store, open_store
from bystander.storage.shards import ShardWriter
from final_rows import RATE, make_manifest, make_rows, make_table

VA_ROW = pa.schema(
    [("question", pa.string()), ("question_audio", AUDIO), ("answer", pa.string()), ("index", pa.string())]
)


def write_small_groups(
    folder: Path | str, rows: list[dict[str, Any]], group_rows: int = 4, dataset: str = "tpi-train"
) -> Store:
    """Write rows as a finished build of one shard with row groups of so many rows."""
    store = open_store(folder)
    with ShardWriter(store, "data", "train", FINAL, sampling_rate=RATE, group_rows=group_rows) as writer:
        writer.write(make_table(rows))
    write_manifest(store, make_manifest(rows, shards=tuple(writer.shards), dataset=dataset))
    return store


def write_tpi(folder: Path | str, pairs: int = 24, hard_negatives: int = 8, group_rows: int = 4) -> Store:
    """Write a small build with pairs, the first of which have one-speaker twins."""
    return write_small_groups(folder, make_rows(pairs, hard_negatives), group_rows)


def make_tone(duration_s: float, rate: int = RATE, format: str = "WAV", hertz: float = 200.0) -> bytes:
    """Return a mono clip of a tone at half scale."""
    sink = io.BytesIO()
    samples = 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(duration_s * rate)) / rate)
    soundfile.write(sink, samples.astype(np.float32), rate, format=format, subtype="PCM_16")
    return sink.getvalue()


def make_va_row(index: int, **changes: Any) -> dict[str, Any]:
    """Return a row of VoiceAssistant-400K's layout; its sound has a tenth of a second a word of the request."""
    question = " ".join(["What", "is", "number", str(index), *["please"] * (index % 9)])
    audio = {"bytes": make_tone(0.1 * len(question.split()), hertz=200.0 + index), "path": None}
    return {"question": question, "question_audio": audio, "answer": f"It is {index}.", "index": str(index), **changes}


def write_va(path: Path, rows: Sequence[dict[str, Any]], group_rows: int = 4) -> Path:
    """Write rows as a Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([*rows], schema=VA_ROW), path, row_group_size=group_rows)
    return path
