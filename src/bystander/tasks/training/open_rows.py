"""Opens the rows of a training run: what to train on, what is held out, and the record of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bystander.schemas.errors import ConfigError
from bystander.schemas.train_tpi_config import TrainTpiConfig
from bystander.schemas.training_data import DataRecord, LeftOutRow
from bystander.tasks.training.dyadic_rows import index_dyadic
from bystander.tasks.training.hold_out import deal_into_folds, hold_out_voices
from bystander.tasks.training.mixture import mix_parts, take_all
from bystander.tasks.training.row_index import IndexedFile, RowIndex, index_sid_builds, index_tpi_builds, join_indexes
from bystander.tasks.training.shard_examples import CACHE_MIB, MakeExample, ShardExamples


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """The sources of a run."""

    train: ShardExamples
    held_out: ShardExamples | None
    """None where no row is held out."""
    record: DataRecord
    left_out: tuple[LeftOutRow, ...]
    """Rows that the index left out; `train.left_out` has those that turned out to be unusable."""
    files: tuple[IndexedFile, ...]
    """That they lie in."""
    remarks: tuple[str, ...] = ()
    """Sentences for a person, on what the held-out slice lacks."""
    folds: npt.NDArray[np.int64] | None = None
    """Shape (examples of `train`,): the fold of each, where they are dealt into several."""


def open_tpi_rows(
    config: TrainTpiConfig,
    make_example: MakeExample,
    columns: Sequence[str],
    *,
    rate: int | None,
    seconds_a_character: float = 0.0,
    cache_mib: float = CACHE_MIB,
    left_out_file: Path | None = None,
) -> TrainingRows:
    """Open the rows of a mixture, see `ShardExamples` for the arguments.

    Raises:
        ConfigError: a part of the mixture has no row.
        BuildError: what is named is no finished TPI build, or a shard is not as its manifest says.
        InputError: dyadic Parquet is missing or lacks a column.
        StorageError: a shard cannot be read.
    """
    index = index_tpi_builds(config.data, to_train_on=True)
    if config.mixture != "base":
        index = join_indexes([index, index_dyadic(config.dyadic, index)])
    train, held_out, record = mix_parts(index, config.mixture, config.proportions, config.seed, config.held_out.share)
    make = partial(
        ShardExamples,
        index,
        make_example,
        columns,
        rate=rate,
        seed=config.seed,
        seconds_a_character=seconds_a_character,
        cache_mib=cache_mib,
        left_out_file=left_out_file,
    )
    return _join(index, make(draws=train), make(draws=held_out), record)


def open_sid_rows(
    builds: Sequence[str],
    make_example: MakeExample,
    columns: Sequence[str],
    *,
    rate: int | None,
    seed: int,
    held_out: float,
    cache_mib: float = CACHE_MIB,
    left_out_file: Path | None = None,
    folds: int = 1,
) -> TrainingRows:
    """Open all rows of SID builds, each once an epoch; voices and recordings are held out whole (`hold_out_voices`).

    With several `folds` all rows are to train on, and dealt into these (`deal_into_folds`).

    Raises:
        ConfigError: no build is named, there is no row to train on, or there are more folds than voices and recordings.
        BuildError: one is no finished SID build, or a shard is not as its manifest says.
        StorageError: a shard cannot be read.
    """
    if not builds:
        raise ConfigError("data: name the folder of a finished build of SID rows")
    index = index_sid_builds(builds, to_train_on=True)
    slice_ = hold_out_voices(index, seed, held_out)
    train, held, record = take_all(index, slice_.held, seed, held_out)
    make = partial(
        ShardExamples,
        index,
        make_example,
        columns,
        rate=rate,
        seed=seed,
        cache_mib=cache_mib,
        left_out_file=left_out_file,
    )
    rows = _join(index, make(draws=train), make(draws=held), record, slice_.remarks)
    if folds == 1:
        return rows
    dealt = deal_into_folds(index, seed, folds)
    return replace(rows, folds=dealt.folds[train.rows[train.starts]], remarks=(*rows.remarks, *dealt.remarks))


def _join(
    index: RowIndex,
    train: ShardExamples,
    held_out: ShardExamples,
    record: DataRecord,
    remarks: tuple[str, ...] = (),
) -> TrainingRows:
    return TrainingRows(train, held_out if len(held_out) else None, record, index.left_out, index.files, remarks)
