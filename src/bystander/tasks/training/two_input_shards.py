"""Reads rows of builds into memory as the two-input model perceives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bystander.schemas.errors import CorruptPartError
from bystander.schemas.train_tpi_config import DyadicSource
from bystander.tasks.training.dyadic_rows import index_dyadic
from bystander.tasks.training.row_index import RowIndex, index_tpi_builds, join_indexes
from bystander.tasks.training.shard_examples import ShardExamples
from bystander.tasks.training.two_input_rows import TwoInputRow, perceive_row
from bystander.tasks.training.two_input_sound import SoundFront

COLUMNS = ("label", "primary_text", "third_party_text", "request", "twin_id")
_RATE = 16000


@dataclass(frozen=True, slots=True)
class PerceiveRow:
    """Makes a `TwoInputRow` of a row of a shard. What is said comes from the text that was spoken, without its seam."""

    front: SoundFront

    def __call__(self, row: dict[str, Any], rng: np.random.Generator) -> TwoInputRow:  # noqa: ARG002
        """Return the row as the model perceives it; nothing is drawn."""
        return perceive_row(
            self.front,
            row["samples"],
            _RATE,
            row_id=row["id"],
            group=row["query_id"],
            part=row["part"],
            label=row["label"] or "",
            texts=(row["primary_text"] or row["request"], row["third_party_text"]),
            twin_id=row["twin_id"],
            request=row["request"],
        )


def index_rows(builds: Sequence[str], dyadic: Sequence[DyadicSource], to_train_on: bool = True) -> RowIndex:
    """Return the index of TPI builds and then of dyadic rows.

    Raises:
        BuildError: a build is unfinished or damaged.
        InputError: dyadic Parquet is missing or lacks a column, or a bench is to be trained on.
    """
    index = index_tpi_builds(builds, to_train_on, "--data" if to_train_on else "--bench")
    return join_indexes([index, index_dyadic(dyadic, index)])


def perceive_rows(index: RowIndex, front: SoundFront) -> tuple[TwoInputRow, ...]:
    """Return all rows of an index, in its order. They stay in memory: some 30 KB each.

    Raises:
        CorruptPartError: a clip cannot be decoded, or a shard is damaged.
        StorageError: a shard cannot be read.
    """
    source = ShardExamples(index, PerceiveRow(front), COLUMNS, rate=_RATE, seed=0)
    rows: list[TwoInputRow] = source.read(range(len(source)), 0) if len(source) else []
    if source.left_out:
        bad = source.left_out[0]
        raise CorruptPartError(f"{bad.file}: row {bad.row} cannot be used ({bad.reason}); build it again", bad.file)
    return tuple(rows)
