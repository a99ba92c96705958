"""`finalise_dyadic`: turns spoken requests into the rows of a published shard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bystander.schemas.dyadic import DYADIC_FINAL
from bystander.schemas.errors import StageContractError
from bystander.schemas.tpi import MIXED
from bystander.tasks.stages.finalise_rows import PackIdentity

_TRACK_COLUMNS = ("recognised", "wer_raw", "wer", "recognition_temperature", "attempts")


def finalise_dyadic(rows: pa.Table, split: str, seed: int, engines: Mapping[str, Any], pack: PackIdentity) -> pa.Table:
    """Return DYADIC_FINAL rows of MIXED ones with one track each, in the order given.

    `engines` leads from a role to its engine's identity as JSON-ready data; `pack` is the source build's.

    Raises:
        StageContractError: a row has another number of tracks.
    """
    if rows.schema.names != MIXED.names:
        raise StageContractError(f"finalise_dyadic: reads {MIXED.names}, was given {rows.schema.names}")
    described = json.dumps(engines, sort_keys=True, ensure_ascii=False)
    # Batch by batch, as joined columns of encoded audio could outgrow Arrow's 32-bit offsets.
    batches = [_finalise_batch(batch, split, seed, described, pack) for batch in rows.to_batches()]
    return pa.Table.from_batches(batches, DYADIC_FINAL)


def _finalise_batch(batch: pa.RecordBatch, split: str, seed: int, engines: str, pack: PackIdentity) -> pa.RecordBatch:
    tracks = batch.column("tracks")
    if not pc.all(pc.equal(pc.list_value_length(tracks), 1), min_count=0).as_py():
        raise StageContractError("finalise_dyadic: a row has another number of tracks than one")
    flat, rows = tracks.flatten(), batch.num_rows
    columns: dict[str, pa.Array] = {
        "split": pa.array([split] * rows, pa.string()),
        "pack": pa.array([pack.name] * rows, pa.string()),
        "pack_digest": pa.array([pack.digest] * rows, pa.string()),
        "engines": pa.array([engines] * rows, pa.string()),
        "seed": pa.array([seed] * rows, pa.int64()),
        "source_id": batch.column("twin_id"),
        **{f"primary_{name}": flat.field(name) for name in _TRACK_COLUMNS},
    }
    arrays = [columns[field.name] if field.name in columns else batch.column(field.name) for field in DYADIC_FINAL]
    return pa.RecordBatch.from_arrays(arrays, schema=DYADIC_FINAL)
