"""Arrow rows as Python values, without the copies that audio makes dear."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def list_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return a table's rows as `to_pylist` does, but for binary values, nested ones too: these are read-only views."""
    columns = [[value for chunk in table[name].chunks for value in _list_values(chunk)] for name in table.schema.names]
    return [dict(zip(table.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def _list_values(array: pa.Array) -> list[Any]:
    kind = array.type
    if not _holds_binary(kind):
        values: list[Any] = array.to_pylist()
        return values
    valid = array.is_valid().to_pylist()
    items: Any
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        children = [_list_values(array.field(name)) for name in names]
        cells = zip(*children, strict=True)
        return [dict(zip(names, cell, strict=True)) if ok else None for cell, ok in zip(cells, valid, strict=True)]
    if pa.types.is_binary(kind):
        _, offsets, data = array.buffers()
        ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].tolist()
        items = memoryview(data if data is not None else b"").cast("B").toreadonly()
    else:
        ends = array.offsets.to_pylist()
        items = _list_values(array.values.slice(0, ends[-1]))
    spans = zip(ends[:-1], ends[1:], valid, strict=True)
    return [items[start:end] if ok else None for start, end, ok in spans]


def _holds_binary(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_holds_binary(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _holds_binary(kind.value_type)
    return bool(pa.types.is_binary(kind))
