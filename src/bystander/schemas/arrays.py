"""Arrow rows as Python values and back, without the copies that audio makes dear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


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


def build_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return the values as `pa.array` does, with binary ones, nested ones too, copied once into memory of their size.

    Arrow's own builder grows by doubling, and what it takes for the audio of a partition is memory new to the process.
    """
    if not _holds_binary(kind):
        return pa.array(values, kind)
    missing = [value is None for value in values]
    mask = pa.array(missing, pa.bool_()) if any(missing) else None
    if pa.types.is_struct(kind):
        children = [
            build_array([None if value is None else value[field.name] for value in values], field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        return pa.array(values, kind)  # more than one array holds: Arrow cuts it, or says so
    if pa.types.is_list(kind):
        items = build_array([item for value in values if value is not None for item in value], kind.value_type)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, kind, mask=mask)
    data = np.empty(offsets[-1], np.uint8)
    for value, start, end in zip(values, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        if start < end:
            data[start:end] = np.frombuffer(value, np.uint8)
    valid = None if mask is None else pc.invert(mask).buffers()[1]
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(values), buffers)
