"""Reads the rows of a build's files: all without their audio, some with it, and examples of what was rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bystander.schemas.row_sounds import HEAVY_COLUMNS
from bystander.storage.build_manifest import FileInfo
from bystander.storage.filesystem import Store
from bystander.storage.parquet_files import open_parquet

_EXAMPLES_A_REASON = 5


def read_without_audio(store: Store, files: Iterable[FileInfo]) -> Iterator[pa.Table]:
    """Yield the rows of each file without the columns that hold audio."""
    for info in files:
        with open_parquet(store, info.file, info.bytes) as part:
            yield part.read(columns=[name for name in part.schema_arrow.names if name not in HEAVY_COLUMNS])


def read_rows_by_id(store: Store, files: Iterable[FileInfo], ids: list[str], schema: pa.Schema) -> pa.Table:
    """Return the rows of these ids in their order, a row group of audio at a time; `schema` is that of no rows."""
    found: list[pa.Table] = []
    wanted = pa.array(ids, pa.string())
    for info in files:
        with open_parquet(store, info.file, info.bytes) as part:
            for group in range(part.num_row_groups):
                if pc.any(pc.is_in(part.read_row_group(group, columns=["id"])["id"], wanted)).as_py():
                    table = part.read_row_group(group)
                    found.append(table.filter(pc.is_in(table["id"], wanted)))
    if not found:
        return schema.empty_table()
    table = pa.concat_tables(found)
    place = {row_id: i for i, row_id in enumerate(table["id"].to_pylist())}
    return table.take(pa.array([place[row_id] for row_id in ids], pa.int64()))


def read_reject_examples(store: Store, files: Iterable[FileInfo]) -> Iterator[dict[str, Any]]:
    """Yield the first few rejected rows of each reason, without their audio."""
    for table in read_without_audio(store, files):
        seen: Counter[str] = Counter()
        for batch in table.to_batches(max_chunksize=1000):
            for row in batch.to_pylist():
                seen[row["reject_reason"]] += 1
                if seen[row["reject_reason"]] <= _EXAMPLES_A_REASON:
                    yield row
