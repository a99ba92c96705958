"""Cuts a stream of tables into tables of one size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def cut_evenly(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield the rows of `tables`, which share a schema, in tables of `rows` rows, the last one shorter."""
    held: list[pa.Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += len(table)
        while count >= rows:
            whole = pa.concat_tables(held)
            yield whole.slice(0, rows).combine_chunks()
            held, count = [whole.slice(rows)], count - rows
    if count:
        yield pa.concat_tables(held).combine_chunks()
