"""Rows with audio are listed, and built, as Arrow does it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.arrays import build_array, list_rows

STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
CELL = st.none() | st.fixed_dictionaries({"bytes": st.none() | st.binary(max_size=9), "path": st.none() | st.text()})


def restore(value: Any) -> Any:
    """Return the value with bytes in place of views."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return {name: restore(item) for name, item in value.items()}
    return [restore(item) for item in value] if isinstance(value, list) else value


@given(st.lists(st.tuples(st.none() | st.lists(CELL, max_size=3), CELL, st.integers(0, 9)), max_size=6), st.data())
def test_rows_are_listed_as_arrow_lists_them(rows: list[Any], data: st.DataObject) -> None:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    kinds = [pa.list_(STRUCT), STRUCT, pa.int64()]
    table = pa.table([pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], names=["tracks", "audio", "n"])
    cut = table.slice(data.draw(st.integers(0, len(rows))), data.draw(st.integers(0, len(rows))))
    for part in (table, cut, pa.concat_tables([cut, table])):
        assert restore(list_rows(part)) == part.to_pylist()


@given(
    st.lists(st.none() | st.lists(CELL, max_size=3), max_size=6),
    st.lists(CELL, max_size=6),
    st.lists(st.none() | st.binary(max_size=9), max_size=6),
)
def test_arrays_are_built_as_arrow_builds_them(tracks: list[Any], clips: list[Any], blobs: list[Any]) -> None:
    for values, kind in ((tracks, pa.list_(STRUCT)), (clips, STRUCT), (blobs, pa.binary())):
        built = build_array(values, kind)
        built.validate(full=True)
        assert built.type == kind
        assert built.to_pylist() == values
        assert built.null_count == pa.array(values, kind).null_count
