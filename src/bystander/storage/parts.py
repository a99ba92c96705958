"""Parts: Parquet files with their checksums, and partitions built from them in layers.

A partition starts as one base part. Each stage adds a layer that holds only what it changed: which rows went on, and
the columns that are new or differ. Parts are a cache: they are not flushed to the disk, and every read checks what it
reads. So audio is written once however many stages follow. A part knows the digest of each of its columns: a stage
need not run again when only columns that it does not use were rewritten, nor when its own come out as they were.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from bystander.schemas.errors import CorruptPartError, StorageError
from bystander.schemas.identity import digest_json
from bystander.storage.filesystem import Store
from bystander.storage.hashing_sink import HashingSink
from bystander.storage.parquet_leaves import fill_leaves, list_leaves
from bystander.storage.recent_parts import RecentParts

AT = "__at__"
"""Column of a layer: positions of its rows in the table that the layer lies on."""

_COLUMNS_KEY = b"bystander.columns"
_DIGESTS_KEY = b"bystander.digests"
_DIGEST_ROWS = 64  # serialised at once: audio is not to be held twice
_BATCH_ROWS = 8


@dataclass(frozen=True, slots=True)
class PartRef:
    """A part by reference: where it is in the store, and what it must hold."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Partition:
    """Rows after some stages, by reference."""

    base: PartRef
    layers: tuple[PartRef, ...] = ()

    @property
    def rows(self) -> int:
        return (self.layers[-1] if self.layers else self.base).rows

    def digest(self) -> str:
        """Return a digest of the rows that this partition stands for."""
        return digest_json([self.base.sha256, *(layer.sha256 for layer in self.layers)])

    def extend(self, layer: PartRef) -> Partition:
        """Return the partition with one more layer."""
        return replace(self, layers=(*self.layers, layer))


def write_part(store: Store, path: str, table: pa.Table, recent: RecentParts | None = None) -> PartRef:
    """Write a table as one Parquet file, whole or not at all, and hand it to `recent`."""
    table = _note_digests(table)
    with store.open_write(path, durable=False) as file:
        sink = HashingSink(file)
        _encode(table, sink)
    ref = PartRef(path=path, rows=len(table), bytes=sink.tell(), sha256=sink.digest())
    if recent is not None:
        recent.keep(ref, table)
    return ref


def write_part_by_content(store: Store, folder: str, table: pa.Table, recent: RecentParts | None = None) -> PartRef:
    """Write a table under the checksum of its content, so that equal tables share a file and others never meet."""
    table = _note_digests(table)
    buffer = io.BytesIO()
    _encode(table, buffer)
    data = buffer.getvalue()
    checksum = hashlib.sha256(data).hexdigest()
    path = store.path(folder, f"{checksum[:32]}.parquet")
    store.write_bytes(path, data, durable=False)
    ref = PartRef(path=path, rows=len(table), bytes=len(data), sha256=checksum)
    if recent is not None:
        recent.keep(ref, table)
    return ref


def _note_digests(table: pa.Table) -> pa.Table:
    """Return the table with the digest of each column in its metadata."""
    digests = {name: _digest_column(table[name]) for name in table.schema.names}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _DIGESTS_KEY: json.dumps(digests).encode()})


def _digest_column(column: pa.ChunkedArray) -> str:
    """Return a digest of a column's type and values. Equal values may differ in it if they are laid out otherwise."""
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    digest = hashlib.sha256(str(column.type).encode())
    for batch in pa.table([whole], [""]).to_batches(max_chunksize=_DIGEST_ROWS):
        digest.update(batch.serialize())
    return digest.hexdigest()


def _encode(table: pa.Table, sink: io.IOBase) -> None:
    leaves = list_leaves(table.schema)
    pq.write_table(
        table,
        sink,
        # Binary columns hold audio: FLAC does not shrink further, and of WAV zstd saves less than it costs.
        compression={leaf: "NONE" if pa.types.is_binary(kind) else "ZSTD" for leaf, kind in leaves.items()},
        compression_level={leaf: 1 for leaf, kind in leaves.items() if not pa.types.is_binary(kind)},
        write_statistics=False,
        use_dictionary=False,
        write_page_checksum=True,
        # Arrow looks at the size of a page only between such batches: 1024 clips made one page, built by doubling.
        write_batch_size=_BATCH_ROWS if any(map(pa.types.is_binary, leaves.values())) else None,
    )


def read_part(store: Store, ref: PartRef, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a part, or some of its columns, and check it against its checksum.

    Raises:
        CorruptPartError: it is missing, truncated or changed.
    """
    try:
        data = store.read_bytes(ref.path, ref.bytes)
    except StorageError as exc:
        raise CorruptPartError(f"part {store.uri_of(ref.path)}: {exc}", path=ref.path) from exc
    if len(data) != ref.bytes or hashlib.sha256(data).hexdigest() != ref.sha256:
        raise CorruptPartError(f"part {store.uri_of(ref.path)}: does not match its checksum", path=ref.path)
    names = None if columns is None else list(columns)
    return pq.read_table(io.BytesIO(data), columns=names, use_threads=False)


def make_layer(before: pa.Table, after: pa.Table, at: Sequence[int], names: Sequence[str] | None = None) -> pa.Table:
    """Return the layer that turns `before` into `after`, whose i-th row stems from row `at[i]` of `before`.

    `names` are all columns that the rows have then, in order, where the two tables lack some that only lie below.
    """
    taken = _take(before, pa.array(at, pa.int32()))
    columns = [
        field
        for field in after.schema
        if field.name not in taken.schema.names or not taken[field.name].equals(after[field.name])
    ]
    schema = pa.schema([pa.field(AT, pa.int32(), nullable=False), *columns]).with_metadata(
        {_COLUMNS_KEY: json.dumps(list(names or after.schema.names)).encode()}
    )
    return pa.Table.from_arrays([pa.array(at, pa.int32()), *(after[field.name] for field in columns)], schema=schema)


def apply_layer(table: pa.Table, layer: pa.Table) -> pa.Table:
    """Return the table that a layer makes of the table that it lies on."""
    held = {*table.schema.names, *layer.schema.names}
    names = [name for name in json.loads(layer.schema.metadata[_COLUMNS_KEY]) if name in held]
    taken = _take(table.select([name for name in table.schema.names if name in names]), layer[AT])
    fields = [(layer if name in layer.schema.names else taken).schema.field(name) for name in names]
    columns = [(layer if name in layer.schema.names else taken)[name] for name in names]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def read_partition(store: Store, partition: Partition) -> pa.Table:
    """Return the rows of a partition.

    Raises:
        CorruptPartError: one of its parts is missing, truncated or changed.
    """
    table = read_part(store, partition.base).replace_schema_metadata(None)
    for layer in partition.layers:
        table = apply_layer(table, read_part(store, layer))
    return table


def read_partition_columns(
    store: Store,
    partition: Partition,
    columns: Sequence[str],
    without: Sequence[str] = (),
    recent: RecentParts | None = None,
) -> pa.Table:
    """Return some columns of a partition without reading the others (audio, say).

    What is read is checked by the checksums of its pages, as that of the whole file would need all of it.

    Args:
        store: where the parts lie.
        partition: the partition.
        columns: names, in the order wanted.
        without: Parquet paths of leaves that are left null, such as `tracks.list.element.audio`.
        recent: parts that need not be read, as this process wrote them; not used together with `without`.

    Raises:
        CorruptPartError: one of its parts is missing, of another size, or damaged in what is read.
    """
    table = _read_some(store, partition.base, columns, without, recent).replace_schema_metadata(None)
    for ref in partition.layers:
        table = apply_layer(table, _read_some(store, ref, [AT, *columns], without, recent))
    return table.select(list(columns))


def trace_columns(store: Store, partition: Partition, columns: Iterable[str], recent: RecentParts | None = None) -> str:
    """Return a digest of columns: of the values that the layer gave which wrote each, and of the rows that are left.

    Equal digests mean equal values in these columns, though other columns may differ.
    """
    wanted = sorted(set(columns))
    digests, rows = _read_header(store, partition.base, recent)
    providers = {name: (digest, list(range(rows))) for name, digest in digests.items()}
    for ref in partition.layers:
        names, at, given = read_layer_header(store, ref, recent)
        providers = {
            name: (given[name], list(range(len(at))))
            if name in given
            else (providers[name][0], [providers[name][1][i] for i in at])
            for name in names
        }
    return digest_json([[name, *providers[name]] for name in wanted])


def _read_some(
    store: Store, ref: PartRef, columns: Sequence[str], without: Sequence[str], recent: RecentParts | None
) -> pa.Table:
    known = recent.find(store, ref) if recent is not None and not without else None
    if known is not None:
        return known.select([name for name in columns if name in known.schema.names])
    with _open_part(store, ref) as part:
        schema = part.schema_arrow
        wanted = pa.schema([schema.field(name) for name in columns if name in schema.names], schema.metadata)
        leaves = [leaf for leaf in list_leaves(wanted) if leaf not in without]
        return fill_leaves(part.read(columns=leaves, use_threads=False).select(wanted.names), wanted)


def _read_header(store: Store, ref: PartRef, recent: RecentParts | None) -> tuple[dict[str, str], int]:
    """Return the digest of each column of a part, and its number of rows."""
    known = recent.find(store, ref) if recent is not None else None
    if known is not None:
        return _read_digests(known.schema, ref), len(known)
    with _open_part(store, ref) as part:
        return _read_digests(part.schema_arrow, ref), part.metadata.num_rows


def read_layer_header(
    store: Store, ref: PartRef, recent: RecentParts | None = None
) -> tuple[list[str], list[int], dict[str, str]]:
    """Return a layer's resulting column names, its positions, and the digests of the columns that it gives.

    Raises:
        CorruptPartError: it is missing, of another size, or damaged in what is read.
    """
    known = recent.find(store, ref) if recent is not None else None
    if known is not None:
        schema, at = known.schema, known[AT].to_pylist()
    else:
        with _open_part(store, ref) as part:
            schema = part.schema_arrow
            at = part.read(columns=[AT], use_threads=False)[AT].to_pylist()
    return json.loads(schema.metadata[_COLUMNS_KEY]), at, _read_digests(schema, ref)


def _read_digests(schema: pa.Schema, ref: PartRef) -> dict[str, str]:
    """Return the digest of each column; that of the whole part, where they were not written down."""
    noted = json.loads((schema.metadata or {}).get(_DIGESTS_KEY, b"{}"))
    return {name: noted.get(name, ref.sha256) for name in schema.names}


@contextlib.contextmanager
def _open_part(store: Store, ref: PartRef) -> Iterator[pq.ParquetFile]:
    try:
        local = store.local_path(ref.path)
        # Arrow's own file reads what it is asked for without a detour through Python.
        with pa.OSFile(str(local)) if local else store.open_read(ref.path, ref.bytes) as source:
            if source.seek(0, os.SEEK_END) != ref.bytes:
                raise CorruptPartError(f"part {store.uri_of(ref.path)}: is not of its size", path=ref.path)
            source.seek(0)
            yield pq.ParquetFile(source, pre_buffer=local is None, page_checksum_verification=True)
    except CorruptPartError:
        raise
    except (StorageError, OSError, pa.ArrowException, KeyError) as exc:
        raise CorruptPartError(f"part {store.uri_of(ref.path)}: cannot be read ({exc})", path=ref.path) from exc


def _take(table: pa.Table, at: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Take rows by ascending position; all of them costs nothing."""
    return table if len(at) == len(table) else table.take(at)
