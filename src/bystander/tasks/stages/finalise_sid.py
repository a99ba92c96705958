"""From annotated turns and clips without speech to rows of a published SID shard."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from bystander.schemas.sid import PLACED, SID_FINAL

_RENAMED = {"words": "timed_words"}
_NOT_OF_NOISE: dict[str, list[Any]] = {"tag_votes": [], "words": [], "phones": []}


def finalise_turns(rows: pa.Table, split: str, seed: int, engines: Mapping[str, Any]) -> pa.Table:
    """Return rows of `schemas.sid.PLACED` as rows of SID_FINAL.

    Args:
        rows: annotated turns.
        split: their split.
        seed: the build's.
        engines: role to the description of its engine's identity.
    """
    return _finalise(rows, split, seed, engines, PLACED.names, {})


def finalise_noise(rows: pa.Table, split: str, seed: int, engines: Mapping[str, Any]) -> pa.Table:
    """Return rows of `schemas.sid.NOISE_CLIP` as rows of SID_FINAL: no break, no text, no language."""
    values = {
        "total_nonbreak": [True] * len(rows),
        "break_time_s": rows["duration_s"].to_pylist(),
        **{name: [value] * len(rows) for name, value in _NOT_OF_NOISE.items()},
    }
    return _finalise(rows, split, seed, engines, rows.schema.names, values)


def _finalise(
    rows: pa.Table,
    split: str,
    seed: int,
    engines: Mapping[str, Any],
    names: Sequence[str],
    values: Mapping[str, list[Any]],
) -> pa.Table:
    constants = {"split": split, "seed": seed, "engines": json.dumps(engines, sort_keys=True)}
    columns = []
    for column in SID_FINAL:
        source = _RENAMED.get(column.name, column.name)
        if column.name in constants:
            columns.append(pa.array([constants[column.name]] * len(rows), column.type))
        elif column.name in values:
            columns.append(pa.array(values[column.name], column.type))
        elif source in names:
            columns.append(rows[source].cast(column.type))
        else:
            columns.append(pa.nulls(len(rows), column.type))
    return pa.Table.from_arrays(columns, schema=SID_FINAL)
