"""What of the indexed rows is trained on, how often, and what is held out, with a record of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bystander.schemas.errors import ConfigError
from bystander.schemas.identity import derive_seed, digest_json
from bystander.schemas.train_tpi_config import MIXTURES, MixtureName, RowPart
from bystander.schemas.training_data import DataRecord, PartRecord
from bystander.tasks.training.row_draws import RowDraws, draw_once, draw_rows, join_draws
from bystander.tasks.training.row_index import RowIndex

_REMEDIES: Mapping[RowPart, str] = {
    "two_speaker": "name a finished TPI-Train build in `data`",
    "dyadic": "name requests of one speaker with replies in `dyadic`, a build of them or Parquet",
    "hard_negative": "name a TPI-Train build in `data` that has hard negatives",
}


FEW_HELD_OUT = 8
"""Fewer held-out rows of a part say little of it, and that is told."""


def split_held_out(query_ids: pa.ChunkedArray, seed: int, share: float) -> npt.NDArray[np.bool_]:
    """Return for each row whether it is held out: a hash of its query decides, so twins are always on one side.

    Args:
        query_ids: what must not be split, a text for each row.
        seed: of the run.
        share: of the queries, about.
    """
    encoded = query_ids.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    limit = share * 2.0**63
    held = np.array([derive_seed(seed, key, "held_out") < limit for key in encoded.dictionary.to_pylist()], bool)
    return held[encoded.indices.to_numpy()] if len(encoded) else np.empty(0, bool)


def mix_parts(
    index: RowIndex, mixture: MixtureName, proportions: Mapping[RowPart, float], seed: int, share: float
) -> tuple[RowDraws, RowDraws, DataRecord]:
    """Return what an epoch has of a TPI index, the held-out rows, and the record of both.

    A part whose proportion is 0 is not held out either: the held-out loss is of what is trained on.

    Raises:
        ConfigError: a part of the mixture has no row, or a proportion is wrong.
    """
    parts = MIXTURES[mixture]
    for part, proportion in proportions.items():
        if part not in parts:
            raise ConfigError(f"proportions.{part}: the mixture {mixture} has no such part; it has {', '.join(parts)}")
        if not 0 <= proportion <= 1000:
            raise ConfigError(f"proportions.{part}: is {proportion}; give 0 to 1000, such as 0.5 or 2")
    there = Counter(index.rows["part"].to_pylist())
    for part in parts:
        if not there[part]:
            raise ConfigError(f"mixture {mixture}: there is no {part.replace('_', '-')} row; {_REMEDIES[part]}")
    held = split_held_out(index.rows["query_id"], seed, share)
    return _draw(index, parts, proportions, held, seed, share, mixture)


def take_all(
    index: RowIndex, held: npt.NDArray[np.bool_], seed: int, share: float
) -> tuple[RowDraws, RowDraws, DataRecord]:
    """Return draws of every row once an epoch but those that are `held` out, these, and the record of both.

    Raises:
        ConfigError: there is no row to train on.
    """
    return _draw(index, tuple(sorted(set(index.rows["part"].to_pylist()))), {}, held, seed, share, "")


def tell_data(record: DataRecord) -> tuple[str, ...]:
    """Return what a person has to know of a run's rows, a sentence each: held-out slices of a part that are empty or
    of fewer than `FEW_HELD_OUT` rows, and rows that were there twice."""
    told = []
    for part, found in record.parts.items():
        rows = found.rows + found.held_out
        if not record.held_out_share or not found.proportion or found.held_out >= FEW_HELD_OUT or not rows:
            continue
        name = part.replace("_", "-")
        what = f"the held-out loss says {'little' if found.held_out else 'nothing'} of them"
        told.append(f"Held out are {found.held_out} of {rows} {name} rows: {what}; raise held_out.share or build more.")
    if twice := record.left_out.get("duplicate"):
        told.append(f"{twice} row{'s were' if twice > 1 else ' was'} there twice, and taken once.")
    return tuple(told)


def _draw(
    index: RowIndex,
    parts: Sequence[str],
    proportions: Mapping[RowPart, float],
    held: npt.NDArray[np.bool_],
    seed: int,
    share: float,
    mixture: str,
) -> tuple[RowDraws, RowDraws, DataRecord]:
    given: dict[str, float] = {str(part): proportion for part, proportion in proportions.items()}
    order = _sort_within_groups(index)
    names = np.array(index.rows["part"].to_pylist(), object)
    measured = [part for part in parts if given.get(part, 1.0) > 0]
    draws: list[RowDraws] = []
    records: dict[str, PartRecord] = {}
    for part in parts:
        inside = names[order] == part
        mine = order[inside & ~held[order]]
        drawn = draw_rows(mine, given.get(part, 1.0), seed, part)
        draws.append(drawn)
        out = int((inside & held[order]).sum()) if part in measured else 0
        records[part] = PartRecord(rows=len(mine), held_out=out, proportion=given.get(part, 1.0), an_epoch=len(drawn))
    train = join_draws(draws)
    if not len(train):
        raise ConfigError(
            "data: there is no row to train on; name larger builds, or lower held_out.share or raise proportions"
        )
    held_rows = np.flatnonzero(held & np.isin(names, measured))
    trained = np.unique(train.rows)
    record = DataRecord(
        mixture=mixture,
        seed=seed,
        held_out_share=share,
        sources=index.sources,
        parts=records,
        train_digest=_digest_ids(index, trained),
        held_out_digest=_digest_ids(index, held_rows),
        left_out=dict(sorted(Counter(row.reason for row in index.left_out).items())),
    )
    return train, draw_once(held_rows), record


def _sort_within_groups(index: RowIndex) -> npt.NDArray[np.int64]:
    """Return the rows in the order of storage, those of a row group by their length: rows that take turns are alike."""
    keys = [index.rows[name].to_numpy() for name in ("duration_s", "row_group", "file")]
    return np.lexsort(keys).astype(np.int64)


def _digest_ids(index: RowIndex, rows: npt.NDArray[np.int64]) -> str:
    return digest_json(sorted(pc.take(index.rows["id"], pa.array(rows, pa.int64())).to_pylist()))
