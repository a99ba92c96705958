"""The leaves of an Arrow schema as Parquet names them: what compression is set by, and what can be read alone."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def list_leaves(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the Parquet column paths of a schema with their types, such as `tracks.list.element.audio`."""

    def walk(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
        if pa.types.is_struct(kind):
            for field in kind:
                yield from walk(f"{path}.{field.name}", field.type)
        elif pa.types.is_list(kind):
            yield from walk(f"{path}.list.element", kind.value_type)
        else:
            yield path, kind

    return dict(leaf for column in schema for leaf in walk(column.name, column.type))


def fill_leaves(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return `table` with the types of `schema`: leaves that were not read are null."""
    columns = [
        table[name]
        if table[name].type == schema.field(name).type
        else pa.chunked_array(
            [_fill(chunk, schema.field(name).type) for chunk in table[name].chunks], schema.field(name).type
        )
        for name in table.schema.names
    ]
    fields = [schema.field(name) for name in table.schema.names]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, schema.metadata))


def _fill(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if pa.types.is_list(kind):
        values = _fill(array.values, kind.value_type)
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, values, kind, mask=mask)
    held = {field.name for field in array.type}
    children = [
        _fill(array.field(field.name), field.type) if field.name in held else pa.nulls(len(array), field.type)
        for field in kind
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
