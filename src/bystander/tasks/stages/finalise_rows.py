"""`finalise_rows`: turns checked rows into the rows of a published shard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bystander.schemas.errors import StageContractError
from bystander.schemas.tpi import CHECKED, FINAL, HARD_NEGATIVE_LABEL

_TRACK_COLUMNS = ("recognised", "wer_raw", "wer", "recognition_temperature", "attempts")


class PackIdentity(Protocol):
    """What the rows say of the response pack."""

    @property
    def name(self) -> str: ...

    @property
    def digest(self) -> str: ...


def finalise_rows(
    rows: pa.Table,
    split: str,
    seed: int,
    engines: Mapping[str, Any],
    pack: PackIdentity,
    twins: Mapping[str, str],
    lone: AbstractSet[str] = frozenset(),
) -> pa.Table:
    """Return `FINAL` rows, in the order given.

    Reads the `CHECKED` columns. Tracks become `primary_*` and `third_party_*` columns (their audio is left out: it is
    in the mixture); a hard negative, told by its one speaker, has no third-party columns, the label `hard_negative`
    and no kind. `engines` leads from a role to its engine's identity as JSON-ready data; `pack` is the build's. `twins`
    leads from each hard negative of the build to its two-speaker row; both get the other's id, and a pair without a
    hard negative gets none, as do the hard negatives in `lone`, whose two-speaker row is not in the build. `rows` may
    be any part of it.

    Raises:
        StageContractError: the number of tracks is not that of speakers, or a hard negative is in neither
            `twins` nor `lone`.
    """
    if rows.schema.names != CHECKED.names:
        raise StageContractError(f"finalise_rows: reads {CHECKED.names}, was given {rows.schema.names}")
    other = dict(twins) | {pair: negative for negative, pair in twins.items()}
    engines_json = json.dumps(engines, sort_keys=True, ensure_ascii=False)
    # Batch by batch, as joined columns of encoded audio could outgrow Arrow's 32-bit offsets.
    batches = [_finalise_batch(batch, split, seed, engines_json, pack, other, lone) for batch in rows.to_batches()]
    return pa.Table.from_batches(batches, FINAL)


def _finalise_batch(
    batch: pa.RecordBatch,
    split: str,
    seed: int,
    engines: str,
    pack: PackIdentity,
    other: Mapping[str, str],
    lone: AbstractSet[str],
) -> pa.RecordBatch:
    ids: list[str] = batch.column("id").to_pylist()
    single = pc.equal(batch.column("n_speakers"), 1)
    alone = np.array(single.to_pylist(), bool)
    columns: dict[str, pa.Array] = {
        "split": pa.array([split] * len(ids), pa.string()),
        "label": pc.if_else(single, HARD_NEGATIVE_LABEL, batch.column("label")),
        "kind": pc.if_else(single, pa.scalar(None, pa.string()), batch.column("kind")),
        "twin_id": pa.array(
            [_find_twin(row_id, other, one and row_id not in lone) for row_id, one in zip(ids, alone, strict=True)],
            pa.string(),
        ),
        "pack": pa.array([pack.name] * len(ids), pa.string()),
        "pack_digest": pa.array([pack.digest] * len(ids), pa.string()),
        "engines": pa.array([engines] * len(ids), pa.string()),
        "seed": pa.array([seed] * len(ids), pa.int64()),
        **_split_tracks(batch, ids, alone),
    }
    arrays = [columns.get(field.name) for field in FINAL]
    arrays = [batch.column(f.name) if array is None else array for f, array in zip(FINAL, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FINAL)


def _find_twin(row_id: str, other: Mapping[str, str], must: bool) -> str | None:
    if must and row_id not in other:
        raise StageContractError(f"finalise_rows: the hard negative {row_id} has no two-speaker twin")
    return other.get(row_id)


def _split_tracks(batch: pa.RecordBatch, ids: list[str], alone: npt.NDArray[np.bool_]) -> dict[str, pa.Array]:
    tracks = batch.column("tracks")
    lengths = np.array(pc.list_value_length(tracks).to_pylist())
    wrong = np.flatnonzero(lengths != np.where(alone, 1, 2))
    if len(wrong):
        raise StageContractError(f"finalise_rows: row {ids[wrong[0]]} has {lengths[wrong[0]]} tracks")
    flat = tracks.flatten()
    first = np.cumsum(lengths) - lengths
    primary = pa.array(first, pa.int64())
    third_party = pa.array(first + 1, pa.int64(), mask=alone)
    columns: dict[str, pa.Array] = {}
    for name in _TRACK_COLUMNS:
        values = flat.field(name)
        columns[f"primary_{name}"] = values.take(primary)
        columns[f"third_party_{name}"] = values.take(third_party)
    return columns
