"""Finds Parquet files that are the same under two addresses, so that their rows are taken once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from bystander.storage.filesystem import open_store
from bystander.tasks.training.row_index import IndexedFile, RowIndex, locate


def drop_copies(indexes: Sequence[RowIndex]) -> list[RowIndex]:
    """Return indexes in which the rows of each file stand once, under its first address; those of copies are left out.

    Only files of one size are compared, by SHA-256: that of their manifest, or else by reading them.

    Raises:
        StorageError: one of them cannot be read.
    """
    seen: dict[int, list[IndexedFile]] = defaultdict(list)
    kept = []
    for index in indexes:
        files = index.rows["file"].to_numpy()
        fresh = np.ones(len(index), bool)
        left_out = list(index.left_out)
        for number, file in enumerate(index.files):
            mine = np.flatnonzero(files == number)
            first = next((other for other in seen[file.bytes] if _digest(other) == _digest(file)), None)
            if first is None:
                seen[file.bytes].append(file)
                continue
            fresh[mine] = False
            for row in index.rows.take(pa.array(mine)).select(["row_group", "row"]).to_pylist():
                left_out.append(locate(file, row["row_group"], row["row"], "duplicate", f"also in {first.uri}"))
        kept.append(replace(index, rows=index.rows.filter(pa.array(fresh)), left_out=tuple(left_out)))
    return kept


def _digest(file: IndexedFile) -> str:
    return file.sha256 or open_store(file.folder).sha256(file.path)
