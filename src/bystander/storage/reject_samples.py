"""Some rejected rows with the sound that their files hold: reasons take turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from bystander.schemas.ordering import interleave
from bystander.schemas.row_sounds import HEAVY_COLUMNS, list_sounds
from bystander.storage.build_manifest import FileInfo
from bystander.storage.filesystem import Store
from bystander.storage.parquet_files import open_parquet

_PLACES_A_REASON = 20
"""Rows of a reason that are looked at: some may have no sound."""


def read_heard_rejects(store: Store, files: Iterable[FileInfo], count: int, most_bytes: int) -> list[dict[str, Any]]:
    """Return up to `count` rejects that have sound, in whole rows, of at most `most_bytes` of it in all.

    Stages and reasons take turns, so that few rows show many reasons; within a reason the first rows come first.
    """
    queues: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for info in files:
        with open_parquet(store, info.file, info.bytes) as part:
            if not {*part.schema_arrow.names} & {*HEAVY_COLUMNS}:
                continue
            for group in range(part.num_row_groups):
                reasons = part.read_row_group(group, columns=["reject_stage", "reject_reason"])
                keys = [*zip(*(column.to_pylist() for column in reasons.columns), strict=True)]
                if all(len(queues[key]) >= min(count, _PLACES_A_REASON) for key in keys):
                    continue
                for key, row in zip(keys, part.read_row_group(group).to_pylist(), strict=True):
                    if len(queues[key]) < min(count, _PLACES_A_REASON) and list_sounds(row):
                        queues[key].append(row)
    chosen: list[dict[str, Any]] = []
    spent = 0
    for row in interleave([queues[key] for key in sorted(queues)]):
        size = sum(len(sound.audio) for sound in list_sounds(row))
        if len(chosen) < count and spent + size <= most_bytes:
            chosen.append(row)
            spent += size
    return chosen
