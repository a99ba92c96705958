"""Where training rows are: an index of light columns of finished builds, without their audio.

Shards are looked at once: size, number of rows, and a few light columns. Their audio is not read, so damage within it
is found by `check_sums` where that is cheap, else by whoever reads the row, see `shard_examples`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bystander.schemas.errors import BuildError, CorruptPartError, StorageError
from bystander.schemas.training_data import LeftOutRow, SourceKind, SourceRecord
from bystander.storage.build_manifest import ShardInfo, digest_rows
from bystander.storage.filesystem import Store, open_store
from bystander.storage.parquet_files import open_parquet
from bystander.tasks.training.named_builds import open_named_build

INDEX_ROW = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("query_id", pa.string(), nullable=False),  # what must not be split; of a SID row, its recording
        pa.field("query_text", pa.string()),
        pa.field(
            "part", pa.string(), nullable=False
        ),  # two_speaker | hard_negative | dyadic; of a SID row, its category
        pa.field("duration_s", pa.float64(), nullable=False),
        pa.field("text_chars", pa.int32(), nullable=False),
        pa.field("reply_chars", pa.int32(), nullable=False),
        pa.field("file", pa.int32(), nullable=False),  # position in `RowIndex.files`
        pa.field("row_group", pa.int32(), nullable=False),
        pa.field("row", pa.int32(), nullable=False),  # within the row group
        pa.field("voice", pa.string()),  # of a SID row, its speaker
        pa.field("language", pa.string()),  # of a SID row
    ]
)

CHECKED_BYTES = 2 << 30
"""Shards of a run that are no larger, all together, are held against their checksums before it begins."""
AUDIO_COLUMN = "audio"
_TPI = ("id", "query_id", "query_text", "n_speakers", "duration_s", "primary_text", "third_party_text", "reply")
_SID = ("id", "recording_id", "category", "duration_s", "text", "speaker", "language")


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A Parquet file with training rows."""

    folder: str
    """Address of the store that it is in."""
    path: str
    """In that store."""
    bytes: int
    sha256: str | None
    """As its manifest has it; None where there is none."""
    group_starts: tuple[int, ...]
    """First row of each row group."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What its columns are called where that is not their name in a build."""
    schema_names: tuple[str, ...] = ()
    """Its columns."""
    audio_leaf: str = f"{AUDIO_COLUMN}.bytes"
    """Where in it the encoded sound is."""
    states_durations: bool = True
    """Whether `duration_s` of its rows is exact, not estimated."""
    source: int = 0
    """Position in `RowIndex.sources`."""

    @property
    def uri(self) -> str:
        return open_store(self.folder).uri_of(self.path)


@dataclass(frozen=True, slots=True)
class RowIndex:
    """Rows in the order of sources, files and rows."""

    sources: tuple[SourceRecord, ...]
    files: tuple[IndexedFile, ...]
    rows: pa.Table
    """INDEX_ROW."""
    left_out: tuple[LeftOutRow, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)


def index_tpi_builds(addresses: Sequence[str], to_train_on: bool = False, option: str = "--data") -> RowIndex:
    """Return the index of finished TPI builds; `latest` stands for the latest release, `option` names them in messages.

    Raises:
        InputError: one is a bench, and its rows are to be trained on.
        BuildError: one is no finished TPI build, or a shard is missing or not as its manifest says.
        StorageError: a shard cannot be read.
    """
    return join_indexes([_index_build(address, "tpi", to_train_on, option) for address in addresses])


def index_sid_builds(addresses: Sequence[str], to_train_on: bool = False, option: str = "--data") -> RowIndex:
    """Return the index of finished SID builds, see `index_tpi_builds`."""
    return join_indexes([_index_build(address, "sid", to_train_on, option) for address in addresses])


def join_indexes(indexes: Iterable[RowIndex]) -> RowIndex:
    """Return one index of several; of rows that share an id, as a build and one grown from it do, the first stays."""
    sources: list[SourceRecord] = []
    files: list[IndexedFile] = []
    tables: list[pa.Table] = []
    left_out: list[LeftOutRow] = []
    seen: set[str] = set()
    for index in indexes:
        fresh: list[bool] = []
        for place, row_id in enumerate(index.rows["id"].to_pylist()):
            fresh.append(row_id not in seen)
            seen.add(row_id)
            if not fresh[-1]:
                row = index.rows.slice(place, 1).to_pylist()[0]
                left_out.append(locate(index.files[row["file"]], row["row_group"], row["row"], "duplicate", row_id))
        shifted = pa.array(index.rows["file"].to_numpy() + len(files), pa.int32())
        at = INDEX_ROW.get_field_index("file")
        tables.append(index.rows.set_column(at, INDEX_ROW.field("file"), shifted).filter(pa.array(fresh, pa.bool_())))
        files += [_move(file, len(sources)) for file in index.files]
        sources += index.sources
        left_out += index.left_out
    rows = pa.concat_tables([INDEX_ROW.empty_table(), *tables]).combine_chunks()
    return RowIndex(tuple(sources), tuple(files), rows, tuple(left_out))


def locate(file: IndexedFile, row_group: int, row: int, reason: str, detail: str = "") -> LeftOutRow:
    """Return a row that is left out, by its number in its file."""
    return LeftOutRow(file=file.uri, row=file.group_starts[row_group] + row, reason=reason, detail=detail)


def list_group_starts(metadata: pq.FileMetaData) -> tuple[int, ...]:
    """Return the number of the first row of each row group."""
    counts = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    return tuple(int(start) for start in np.cumsum([0, *counts])[: len(counts)])


def number_rows(starts: Sequence[int], rows: int) -> tuple[pa.Array, pa.Array]:
    """Return the row group of each row of a file, and its number within it."""
    counts = np.diff([*starts, rows])
    groups = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(rows) - np.repeat(np.asarray(starts, np.int64), counts)
    return pa.array(groups, pa.int32()), pa.array(within, pa.int32())


def count_chars(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the characters of each text; 0 where there is none."""
    return pc.fill_null(pc.utf8_length(column), 0).cast(pa.int32())


def _index_build(address: str, kind: SourceKind, to_train_on: bool, option: str) -> RowIndex:
    store, manifest, pinned = open_named_build(option, address, kind, to_train_on)
    found = store.map(lambda shard: _index_shard(store, shard, kind), manifest.shards)
    tables = [
        rows.set_column(INDEX_ROW.get_field_index("file"), INDEX_ROW.field("file"), _repeat(number, len(rows)))
        for number, (_, rows) in enumerate(found)
    ]
    rows = pa.concat_tables([INDEX_ROW.empty_table(), *tables])
    source = SourceRecord(
        address=pinned,
        kind=kind,
        dataset=manifest.dataset,
        build=manifest.build,
        rows_digest=digest_rows(manifest),
        rows=len(rows),
    )
    return RowIndex((source,), tuple(file for file, _ in found), rows)


def _index_shard(store: Store, shard: ShardInfo, kind: SourceKind) -> tuple[IndexedFile, pa.Table]:
    where, wanted = store.uri_of(shard.file), _TPI if kind == "tpi" else _SID
    check_size(store, shard)
    try:
        with open_parquet(store, shard.file, shard.bytes) as file:
            if missing := [name for name in wanted if name not in file.schema_arrow.names]:
                raise BuildError(f"{where}: has no column {', '.join(missing)}; it holds no {kind.upper()} rows")
            if file.metadata.num_rows != shard.rows:
                raise CorruptPartError(
                    f"{where}: has {file.metadata.num_rows} rows, its manifest says {shard.rows}; {tell_remedy(store)}",
                    shard.file,
                )
            light = file.read(columns=list(wanted))
            starts, names = list_group_starts(file.metadata), tuple(file.schema_arrow.names)
    except (pa.ArrowException, OSError, ValueError) as exc:
        reason = str(exc).splitlines()[0].rstrip(".")
        raise CorruptPartError(
            f"{where}: cannot be read as Parquet ({reason}); {tell_remedy(store)}", shard.file
        ) from exc
    indexed = IndexedFile(store.uri, shard.file, shard.bytes, shard.sha256, starts, schema_names=names)
    groups, within = number_rows(starts, len(light))
    columns = _describe_tpi(light) if kind == "tpi" else _describe_sid(light)
    columns |= {"file": _repeat(0, len(light)), "row_group": groups, "row": within}
    return indexed, pa.table([columns[name] for name in INDEX_ROW.names], schema=INDEX_ROW)


def check_sums(files: Sequence[IndexedFile], most_bytes: int = CHECKED_BYTES) -> None:
    """Raise where a shard is not as its checksum says, if all of them lie on this machine and are read in seconds.

    Raises:
        CorruptPartError: it is.
    """
    known = [(open_store(file.folder), file) for file in files if file.sha256 is not None]
    if not all(store.is_local for store, _ in known) or sum(file.bytes for _, file in known) > most_bytes:
        return
    for store, file in known:
        if store.sha256(file.path) != file.sha256:
            raise CorruptPartError(
                f"{file.uri}: does not match its checksum in the manifest; {tell_remedy(store)}", file.path
            )


def tell_remedy(folder: Store | str) -> str:
    """Return what to do about a damaged shard of a build in this folder."""
    address = folder.uri if isinstance(folder, Store) else folder
    return f"build it again or copy it whole; `bystander verify {address}` says what else is damaged"


def check_size(store: Store, shard: ShardInfo) -> None:
    """Raise where a shard is missing or of another size than its manifest says.

    Raises:
        BuildError: it is.
    """
    remedy = tell_remedy(store)
    try:
        size = store.size(shard.file)
    except StorageError as exc:
        raise BuildError(f"{exc}; {remedy}") from exc
    if size != shard.bytes:
        raise BuildError(f"{store.uri_of(shard.file)}: has {size} bytes, its manifest says {shard.bytes}; {remedy}")


def _describe_tpi(light: pa.Table) -> dict[str, pa.Array | pa.ChunkedArray]:
    parts = pc.if_else(pc.equal(light["n_speakers"], 2), "two_speaker", "hard_negative")
    chars = pc.add(count_chars(light["primary_text"]), count_chars(light["third_party_text"]))
    same = {name: light[name] for name in ("id", "query_id", "query_text", "duration_s")}
    none = pa.nulls(len(light), pa.string())
    same |= {"voice": none, "language": none}
    return {**same, "part": parts, "text_chars": chars, "reply_chars": count_chars(light["reply"])}


def _describe_sid(light: pa.Table) -> dict[str, pa.Array | pa.ChunkedArray]:
    return {
        "id": light["id"],
        "query_id": pc.coalesce(light["recording_id"], light["id"]),
        "query_text": light["text"],
        "voice": light["speaker"],
        "language": light["language"],
        "part": light["category"],
        "duration_s": light["duration_s"],
        "text_chars": count_chars(light["text"]),
        "reply_chars": _repeat(0, len(light)),
    }


def _repeat(value: int, rows: int) -> pa.Array:
    return pa.array(np.full(rows, value), pa.int32())


def _move(file: IndexedFile, sources: int) -> IndexedFile:
    return replace(file, source=file.source + sources)
