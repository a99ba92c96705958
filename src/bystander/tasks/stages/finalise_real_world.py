"""`finalise_real_world`: pairs with their clips, labels and replies become rows of a published shard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bystander.schemas.arrays import build_array, list_rows
from bystander.schemas.real_world import REAL_FINAL, REAL_WORLD
from bystander.tasks.stages.finalise_rows import PackIdentity

_FROM_REPLY = (
    "query_id",
    "query_text",
    "query_source",
    "language",
    "request",
    "primary_complete",
    "timing",
    "label",
    "kind",
    "label_score",
    "reply",
    "reply_attempts",
    "ambiguity_score",
)
REPLY_COLUMNS = ("id", *_FROM_REPLY)
"""The columns of `schemas.tpi.SCORED` that are read."""
_RENAMED = {"clip_start_s": "start_s"}


def finalise_real_world(
    pairs: pa.Table, replies: Mapping[str, Mapping[str, Any]], seed: int, engines: Mapping[str, Any], pack: PackIdentity
) -> pa.Table:
    """Return REAL_FINAL rows, in the order given.

    Args:
        pairs: REVIEWED_PAIR rows with a clip.
        replies: by id, the `REPLY_COLUMNS` of every row.
        seed: the build's.
        engines: from a role to its engine's identity.
        pack: what the labels and replies follow.
    """
    shared = {
        "split": REAL_WORLD,
        "n_speakers": 2,
        "pack": pack.name,
        "pack_digest": pack.digest,
        "engines": json.dumps(engines, sort_keys=True, ensure_ascii=False),
        "seed": seed,
    }
    rows: list[dict[str, Any]] = []
    for pair in list_rows(pairs):
        reply = replies[pair["id"]]
        given = {**pair, **{name: reply[name] for name in _FROM_REPLY}, **shared}
        given.update({new: pair[old] for old, new in _RENAMED.items()})
        given["end_s"] = given["start_s"] + given["duration_s"]
        rows.append({name: given.get(name) for name in REAL_FINAL.names})
    arrays = [build_array([row[column.name] for row in rows], column.type) for column in REAL_FINAL]
    return pa.Table.from_arrays(arrays, schema=REAL_FINAL)
