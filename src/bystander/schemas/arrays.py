"""Between Arrow arrays and Python values, without the copies that audio makes dear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

_MOST_BYTES = 2**31 - 1  # what 32-bit offsets reach


def make_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return `pa.array(values, kind)`; binary values, nested ones too, are laid out in one copy.

    Arrow's own builder doubles its buffer as it goes: several copies, and as many fresh pages, for a table of clips.
    """
    if not _holds_binary(kind):
        return pa.array(values, kind)
    missing = np.array([value is None for value in values], bool)
    mask = pa.array(missing) if missing.any() else None
    if pa.types.is_binary(kind):
        lengths = [0 if value is None else len(value) for value in values]
        if sum(lengths) > _MOST_BYTES:
            return pa.array(values, kind)
        offsets = pa.py_buffer(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        data = pa.py_buffer(b"".join(value for value in values if value is not None))
        valid = None if mask is None else pa.array(~missing).buffers()[1]
        return pa.Array.from_buffers(kind, len(values), [valid, offsets, data], null_count=int(missing.sum()))
    if pa.types.is_struct(kind):
        children = [make_array([None if v is None else v.get(f.name) for v in values], f.type) for f in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_list(kind):
        flat = make_array([item for value in values if value is not None for item in value], kind.value_type)
        lengths = [0 if value is None else len(value) for value in values]
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, flat, kind, mask=mask)
    return pa.array(values, kind)


def _holds_binary(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_holds_binary(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _holds_binary(kind.value_type)
    return bool(pa.types.is_binary(kind))


def list_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return a table's rows as `to_pylist` does, but for binary values, nested ones too: these are read-only views."""
    columns = [
        [value for chunk in table[name].chunks for value in _list_values(chunk)] for name in table.schema.names
    ]
    return [dict(zip(table.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def _list_values(array: pa.Array) -> list[Any]:
    kind = array.type
    if not _holds_binary(kind):
        values: list[Any] = array.to_pylist()
        return values
    valid = array.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        children = [_list_values(array.field(name)) for name in names]
        cells = zip(*children, strict=True)
        return [dict(zip(names, cell, strict=True)) if ok else None for cell, ok in zip(cells, valid, strict=True)]
    if pa.types.is_binary(kind):
        _, offsets, data = array.buffers()
        ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].tolist()
        view = memoryview(data if data is not None else b"").cast("B").toreadonly()
    else:
        ends = array.offsets.to_pylist()
        view = _list_values(array.values.slice(0, ends[-1]))
    spans = zip(ends[:-1], ends[1:], valid, strict=True)
    return [view[start:end] if ok else None for start, end, ok in spans]
