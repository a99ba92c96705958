"""Records with named fields from a JSONL, CSV or Parquet file, whatever they are about."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bystander.schemas.errors import InputError, StorageError
from bystander.storage.filesystem import open_file
from bystander.storage.query_records import read_csv, read_json_lines

FORMATS = (".jsonl", ".csv", ".parquet")


def read_records(path: str, what: str) -> Iterator[tuple[int, Any]]:
    """Yield the records of a file with their number from 1; `what` the file holds stands in errors.

    A record is a mapping, or a `BadRecord` where it cannot be read.

    Raises:
        InputError: the format is unknown, or the file cannot be read.
    """
    where = f"{what} {path}"
    ending = f".{path.lower().rsplit('.', 1)[-1]}"
    if ending not in FORMATS:
        raise InputError(f"{where}: unknown format; known are {', '.join(FORMATS)}")
    try:
        store, name = open_file(path)
        data = store.read_bytes(name)
    except StorageError as exc:
        raise InputError(f"{what} {exc}") from exc
    if ending == ".parquet":
        try:
            table = pq.read_table(io.BytesIO(data))
        except (pa.ArrowException, OSError) as exc:
            raise InputError(f"{where}: cannot be read as Parquet ({str(exc).splitlines()[0]})") from exc
        yield from enumerate(table.to_pylist(), start=1)
        return
    stream = io.BytesIO(data)
    try:
        yield from (read_csv if ending == ".csv" else read_json_lines)(stream, path)
    except InputError as exc:
        raise InputError(str(exc).replace("query file", what, 1)) from exc
