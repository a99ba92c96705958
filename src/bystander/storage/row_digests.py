"""The rows of a build as digests, one a column, read a row group at a time: some 400 bytes a row, audio included."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bystander.schemas.errors import StorageError
from bystander.schemas.tpi import AUDIO
from bystander.storage.build_manifest import ShardInfo
from bystander.storage.filesystem import Store
from bystander.storage.parquet_files import open_parquet, telling_damage
from bystander.storage.value_digests import Digests, digest_bytes, digest_values, stack_digests

SAMPLES, ENCODING = "audio", "audio.encoding"
"""What the column `audio` is compared as: the samples that it decodes to, and the file's bytes and name."""

_FLAC_MARK = b"fLaC"
_FLAC_DIGEST = slice(26, 42)


@dataclass(frozen=True, slots=True)
class RowDigests:
    """Rows by digest: `values` has a row for each of `ids` and a column for each of `names`.

    `traits` holds a few columns of the same rows as they are.
    """

    ids: list[str]
    names: tuple[str, ...]
    values: npt.NDArray[np.uint64]
    traits: pa.Table


def list_columns(store: Store, shards: Sequence[ShardInfo]) -> list[str]:
    """Return the columns of a build, in order; none if it has no shard.

    Raises:
        StorageError: a shard cannot be read.
    """
    if not shards:
        return []
    return list(_read_schema(store, shards[0]).names)


def read_row_digests(
    store: Store, shards: Iterable[ShardInfo], columns: Sequence[str], traits: Sequence[str]
) -> RowDigests:
    """Read the rows of some shards as digests.

    Args:
        store: the build's folder.
        shards: those to read.
        columns: columns to digest, `id` among them or not; `audio` becomes `SAMPLES` and `ENCODING`.
        traits: columns to keep as they are; those that a build does not have are null.

    Raises:
        StorageError: a shard cannot be read, or lacks a column.
    """
    ids: list[str] = []
    parts: list[npt.NDArray[np.uint64]] = []
    kept: list[pa.Table] = []
    names = tuple(name for column in columns for name in ((SAMPLES, ENCODING) if column == "audio" else (column,)))
    for shard in shards:
        with telling_damage(store, shard.file), open_parquet(store, shard.file, shard.bytes) as file:
            there = file.schema_arrow.names
            missing = [name for name in ("id", *columns) if name not in there]
            if missing:
                raise StorageError(f"{store.uri_of(shard.file)}: has no column {', '.join(missing)}")
            wanted = list(dict.fromkeys(["id", *columns, *(name for name in traits if name in there)]))
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=wanted)
                ids += table["id"].to_pylist()
                parts.append(_digest_rows(table, columns))
                kept.append(_take_traits(table, traits))
    values = np.concatenate(parts) if parts else np.empty((0, len(names)), np.uint64)
    none = pa.table({name: pa.array([], pa.string()) for name in traits})
    return RowDigests(ids, names, values, pa.concat_tables(kept, promote_options="permissive") if kept else none)


def digest_audio(values: pa.ChunkedArray) -> tuple[Digests, Digests]:
    """Return the digests of what clips decode to, and of their bytes and file names."""
    samples: list[np.uint64] = []
    for chunk in values.chunks:
        for clip in chunk.flatten()[0]:
            data = clip.as_buffer()
            samples.append(digest_bytes(_digest_samples(memoryview(data)) if data is not None else b""))
    return np.array(samples, np.uint64), digest_values(values)


def _digest_samples(data: memoryview) -> bytes:
    """Return the MD5 of a clip's samples, as the header of a FLAC file states it, else of the decoded 16-bit values.

    RFC 9639, section 8.2: the digest is that of the interleaved samples, little-endian. All zeros stand for unknown. A
    clip that cannot be decoded is told by its bytes.
    """
    if data[:4] == _FLAC_MARK and len(data) >= _FLAC_DIGEST.stop and any(data[_FLAC_DIGEST]):
        return bytes(data[_FLAC_DIGEST])
    import soundfile

    try:
        decoded, _ = soundfile.read(io.BytesIO(data), dtype="int16")
    except (soundfile.SoundFileError, RuntimeError):
        return bytes(data)
    return hashlib.md5(decoded.astype("<i2").tobytes(), usedforsecurity=False).digest()


def _digest_rows(table: pa.Table, columns: Sequence[str]) -> npt.NDArray[np.uint64]:
    digests: list[Digests] = []
    for name in columns:
        if name == "audio" and table.schema.field(name).type == AUDIO:
            digests += digest_audio(table[name])
        else:
            digests.append(digest_values(table[name]))
    return stack_digests(digests)


def _take_traits(table: pa.Table, traits: Sequence[str]) -> pa.Table:
    there: dict[str, Any] = {
        name: table[name] if name in table.schema.names else pa.nulls(len(table)) for name in traits
    }
    return pa.table(there)


def _read_schema(store: Store, shard: ShardInfo) -> pa.Schema:
    try:
        with open_parquet(store, shard.file, shard.bytes) as file:
            return file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as exc:
        reason = str(exc).splitlines()[0].rstrip(".")
        raise StorageError(f"{store.uri_of(shard.file)}: cannot be read as Parquet ({reason})") from exc
