"""Writes the rows in which two builds differ as a table: Parquet, or CSV."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from bystander.schemas.build_differences import RowDifference
from bystander.schemas.errors import InputError
from bystander.storage.filesystem import open_file

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("change", pa.string(), nullable=False),
        pa.field("cause", pa.string(), nullable=False),  # sentences, separated by semicolons
        pa.field("code", pa.string()),  # of the first cause, as `stage` and `field` are
        pa.field("stage", pa.string()),
        pa.field("field", pa.string()),
        pa.field("columns", pa.list_(pa.string()), nullable=False),
    ]
)
"""A row that differs. In CSV, `columns` is one text of names separated by spaces."""


def check_table_name(path: str) -> None:
    """Do nothing if a table can be written under this name.

    Raises:
        InputError: it ends neither in .parquet nor in .csv.
    """
    if not path.endswith((".parquet", ".csv")):
        raise InputError(f"--rows {path}: name a file that ends in .parquet or .csv")


def write_difference_table(path: str, rows: Sequence[RowDifference]) -> None:
    """Write rows to a local path or fsspec URL, over an older file if there is any.

    Raises:
        InputError: the name says no format, or its protocol is unknown.
        StorageError: it cannot be written.
    """
    check_table_name(path)
    store, name = open_file(path)
    table = _make_table(rows)
    sink = io.BytesIO()
    if path.endswith(".csv"):
        joined = pa.array([" ".join(row.columns) for row in rows], pa.string())
        pc.write_csv(table.set_column(table.schema.get_field_index("columns"), "columns", joined), sink)
    else:
        pq.write_table(table, sink, compression="zstd")
    store.write_bytes(name, sink.getvalue())


def _make_table(rows: Sequence[RowDifference]) -> pa.Table:
    first = [row.causes[0] if row.causes else None for row in rows]
    columns = {
        "id": [row.id for row in rows],
        "change": [row.change for row in rows],
        "cause": ["; ".join(cause.sentence for cause in row.causes) for row in rows],
        "code": [cause and cause.code for cause in first],
        "stage": [cause and cause.stage for cause in first],
        "field": [cause and cause.field for cause in first],
        "columns": [list(row.columns) for row in rows],
    }
    return pa.table(columns, schema=SCHEMA)
