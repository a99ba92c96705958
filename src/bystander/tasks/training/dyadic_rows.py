"""Indexes requests of one speaker with replies: builds of dyadic rows, or Parquet as VoiceAssistant-400K has it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

import fsspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from bystander.schemas.errors import InputError, StorageError
from bystander.schemas.identity import digest_json, make_id
from bystander.schemas.train_tpi_config import DyadicSource
from bystander.schemas.training_data import LeftOutRow, SourceRecord
from bystander.storage.build_manifest import MANIFEST_NAME, ShardInfo
from bystander.storage.filesystem import Store, open_file, open_store
from bystander.storage.parquet_files import open_parquet
from bystander.storage.releases import pin_build
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.training.file_copies import drop_copies
from bystander.tasks.training.row_index import (
    AUDIO_COLUMN,
    INDEX_ROW,
    IndexedFile,
    RowIndex,
    check_size,
    count_chars,
    join_indexes,
    list_group_starts,
    locate,
    number_rows,
)

_COLUMNS = {
    "audio": ("question_audio", AUDIO_COLUMN),
    "text": ("question", "request"),
    "reply": ("answer", "reply"),
}
"""Columns that are tried where the source names none: VoiceAssistant-400K's, then those of our builds."""
_BYTES_A_SECOND = 48_000.0
"""Of 16-bit sound at 24 kHz: where no clip tells how many there are."""
_LANGUAGE = "en"


class _DyadicManifest(BaseModel):
    """What is needed of the manifest of a dyadic build."""

    model_config = ConfigDict(extra="ignore")

    kind: str
    dataset: str
    build: str
    shards: tuple[ShardInfo, ...]


def index_dyadic(sources: Sequence[DyadicSource], known: RowIndex) -> RowIndex:
    """Return the index of dyadic sources. Requests that TPI rows of `known` were made from share their `query_id`.

    Where a file states no durations, they are estimated: the bytes of sound of a row group, dealt out by the characters
    of the requests. Left out are rows without a request (`empty_request`) or reply (`empty_reply`), and those of a file
    that is there under another address too (`duplicate`).

    Raises:
        InputError: a file is missing or cannot be read, a pattern matches none, or a column is missing.
        BuildError: a shard of a build is missing or not as its manifest says.
    """
    texts, ids = known.rows["query_text"].to_pylist(), known.rows["query_id"].to_pylist()
    queries = {_fold(text): query for text, query in zip(texts, ids, strict=True) if text}
    return join_indexes(drop_copies([_index_source(source, queries) for source in sources]))


def _index_source(source: DyadicSource, queries: dict[str, str]) -> RowIndex:
    address = pin_build(source.path)
    is_pattern = any(sign in address for sign in "*?[")
    if not is_pattern and not address.lower().endswith(".parquet"):
        store = open_store(address)
        if store.exists(MANIFEST_NAME):
            return _index_build(source, store, address, queries)
    places = [*_find_files(address, is_pattern)]
    found = [_index_file(source, store, path, None, number, queries) for number, (store, path) in enumerate(places)]
    if not any(len(rows) or left_out for _, rows, left_out in found):
        raise InputError(f"dyadic {address}: has no row")
    digest = digest_json([[posixpath.basename(file.path), file.bytes] for file, _, _ in found])
    record = SourceRecord(
        address=address, kind="dyadic", rows_digest=digest, rows=sum(len(rows) for _, rows, _ in found)
    )
    return _join(record, found)


def _index_build(source: DyadicSource, store: Store, address: str, queries: dict[str, str]) -> RowIndex:
    try:
        manifest = _DyadicManifest.model_validate_json(store.read_bytes(MANIFEST_NAME))
    except ValueError as exc:
        raise InputError(f"dyadic {address}: its {MANIFEST_NAME} is of no build; name Parquet instead") from exc
    if not manifest.kind.startswith("dyadic"):
        raise InputError(f"dyadic {address}: is a build of another kind ({manifest.kind}); name it in `data`")
    found = []
    for number, shard in enumerate(manifest.shards):
        check_size(store, shard)
        found.append(_index_file(source, store, shard.file, shard, number, queries))
    record = SourceRecord(
        address=address,
        kind="dyadic",
        dataset=manifest.dataset,
        build=manifest.build,
        rows_digest=digest_json(sorted(shard.sha256 for shard in manifest.shards)),
        rows=sum(len(rows) for _, rows, _ in found),
    )
    return _join(record, found)


def _join(record: SourceRecord, found: Sequence[tuple[IndexedFile, pa.Table, list[LeftOutRow]]]) -> RowIndex:
    rows = pa.concat_tables([INDEX_ROW.empty_table(), *(rows for _, rows, _ in found)])
    return RowIndex(
        (record,), tuple(file for file, _, _ in found), rows, tuple(row for _, _, out in found for row in out)
    )


def _find_files(address: str, is_pattern: bool) -> Iterator[tuple[Store, str]]:
    if not is_pattern and address.lower().endswith(".parquet"):
        yield open_file(address)
        return
    if not is_pattern:
        store = open_store(address)
        names = [name for name in store.list() if name.lower().endswith(".parquet")]
        if not names:
            raise InputError(f"dyadic {address}: there is no Parquet in it; name a file, a folder or a pattern")
        yield from ((store, name) for name in names)
        return
    system, inner = fsspec.core.url_to_fs(address)
    entries = sorted(str(entry) for entry in system.glob(inner))
    if not entries:
        raise InputError(f"dyadic {address}: no file matches this pattern")
    for entry in entries:
        yield open_file(system.unstrip_protocol(entry))


def _index_file(
    source: DyadicSource, store: Store, path: str, shard: ShardInfo | None, number: int, queries: dict[str, str]
) -> tuple[IndexedFile, pa.Table, list[LeftOutRow]]:
    where = store.uri_of(path)
    try:
        size = shard.bytes if shard is not None else store.size(path)
        with open_parquet(store, path, size) as part:
            file = _describe_file(source, where, store, path, size, part, shard)
            extra = [name for name in _light_columns(shard) if name in file.schema_names]
            light = part.read(columns=list(dict.fromkeys([file.names["request"], file.names["reply"], *extra])))
            if file.states_durations:
                durations = light["duration_s"].to_numpy()
            else:
                durations = _estimate_durations(part, file, count_chars(light[file.names["request"]]).to_numpy())
    except (pa.ArrowException, OSError, ValueError) as exc:
        reason = str(exc).splitlines()[0].rstrip(".")
        raise InputError(f"dyadic {where}: cannot be read as Parquet ({reason})") from exc
    except StorageError as exc:
        raise InputError(f"dyadic {exc}") from exc
    return _list_rows(file, light, durations, number, queries)


def _describe_file(
    source: DyadicSource,
    where: str,
    store: Store,
    path: str,
    size: int,
    part: pq.ParquetFile,
    shard: ShardInfo | None,
) -> IndexedFile:
    schema = part.schema_arrow
    columns = {}
    for role, tried in _COLUMNS.items():
        named: str | None = getattr(source, f"{role}_column")
        column = next((name for name in ([named] if named else tried) if name in schema.names), None)
        if column is None:
            raise InputError(
                f"dyadic {where}: has no column {named or ' or '.join(tried)}; it has {', '.join(schema.names)}; "
                f"say which with {role}_column"
            )
        columns[role] = column
    for role in ("text", "reply"):
        if not _is_text(schema.field(columns[role]).type):
            raise InputError(f"dyadic {where}: its column {columns[role]} is no text; say which is with {role}_column")
    kind = schema.field(columns["audio"]).type
    if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        leaf = f"{columns['audio']}.bytes"
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        leaf = columns["audio"]
    else:
        raise InputError(
            f"dyadic {where}: its column {columns['audio']} holds no encoded sound, but {kind}; say which does with "
            "audio_column"
        )
    return IndexedFile(
        folder=store.uri,
        path=path,
        bytes=size,
        sha256=shard.sha256 if shard is not None else None,
        group_starts=list_group_starts(part.metadata),
        names={"request": columns["text"], "reply": columns["reply"]},
        schema_names=tuple(schema.names),
        audio_leaf=leaf,
        states_durations=shard is not None and "duration_s" in schema.names,
    )


def _light_columns(shard: ShardInfo | None) -> tuple[str, ...]:
    """Of Parquet that is none of ours, what is called `id` may be anything."""
    return ("id", "query_id", "language", "duration_s") if shard is not None else ("language",)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _estimate_durations(
    part: pq.ParquetFile, file: IndexedFile, chars: npt.NDArray[np.int32]
) -> npt.NDArray[np.float64]:
    """Return seconds of sound of each row, from the footer and the first clip that can be decoded."""
    rate = _measure_bytes_a_second(part, file)
    leaf = file.audio_leaf
    durations = np.zeros(part.metadata.num_rows)
    for group, start in enumerate(file.group_starts):
        about = part.metadata.row_group(group)
        columns = (about.column(index) for index in range(about.num_columns))
        size = next(column.total_uncompressed_size for column in columns if column.path_in_schema == leaf)
        weights = np.maximum(chars[start : start + about.num_rows].astype(float), 1.0)
        durations[start : start + about.num_rows] = size / rate * weights / weights.sum()
    return durations


def _measure_bytes_a_second(part: pq.ParquetFile, file: IndexedFile) -> float:
    """Return how many bytes of encoded sound a second has, by the first clips of a file."""
    if not part.metadata.num_row_groups:
        return _BYTES_A_SECOND
    first = next(part.iter_batches(batch_size=8, columns=[file.audio_leaf]), None)
    if first is None:
        return _BYTES_A_SECOND
    column = first.column(0)
    sounds = column.field("bytes") if pa.types.is_struct(column.type) else column
    for data in sounds.to_pylist():
        try:
            samples, rate = decode_audio(data or b"")
        except InputError:
            continue
        if len(samples):
            return len(data) * rate / len(samples)
    return _BYTES_A_SECOND


def _list_rows(
    file: IndexedFile, light: pa.Table, durations: npt.NDArray[np.float64], number: int, queries: dict[str, str]
) -> tuple[IndexedFile, pa.Table, list[LeftOutRow]]:
    groups, within = number_rows(file.group_starts, len(light))
    requests = light[file.names["request"]].to_pylist()
    replies = light[file.names["reply"]]
    reply_blank = np.asarray(pc.equal(pc.fill_null(pc.utf8_trim_whitespace(replies), ""), ""))
    blank = [not (text or "").strip() for text in requests]
    left_out = []
    for row in np.flatnonzero(reply_blank | np.array(blank, bool)):
        reason = "empty_request" if blank[row] else "empty_reply"
        left_out.append(locate(file, groups[row].as_py(), within[row].as_py(), reason))
    kept = np.flatnonzero(~(reply_blank | np.array(blank, bool)))
    names = set(light.column_names)
    languages = light["language"].to_pylist() if "language" in names else [_LANGUAGE] * len(light)
    if "query_id" in names:
        query_ids = light["query_id"].to_pylist()
    else:
        query_ids = [_name_query(text, language, queries) for text, language in zip(requests, languages, strict=True)]
    if "id" in names:
        ids = [str(value) for value in light["id"].to_pylist()]
    else:
        base = posixpath.basename(file.path)
        ids = [make_id("dyadic", base, file.bytes, number, row) for row in range(len(light))]
    columns = {
        "id": ids,
        "query_id": query_ids,
        "query_text": requests,
        "part": ["dyadic"] * len(light),
        "duration_s": durations,
        "text_chars": count_chars(light[file.names["request"]]),
        "reply_chars": count_chars(replies),
        "file": np.full(len(light), number, np.int32),
        "row_group": groups,
        "row": within,
        "voice": [None] * len(light),
        "language": [None] * len(light),
    }
    table = pa.table([columns[name] for name in INDEX_ROW.names], schema=INDEX_ROW)
    return file, table.take(pa.array(kept)), left_out


def _name_query(text: str | None, language: str, queries: dict[str, str]) -> str:
    folded = _fold(text or "")
    return queries.get(folded) or make_id("query", language, folded)


def _fold(text: str) -> str:
    return " ".join(text.lower().split())
