"""Reading queries from files of many formats into `RAW_QUERY` rows, in bounded memory.

A row that cannot be parsed is not lost: it comes with a null text and a `query_fault`, and `normalise_queries` rejects
it. What makes a whole file useless is an `InputError`.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from itertools import chain, islice
from typing import Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

import fsspec
import pyarrow as pa
from fsspec.core import split_protocol

from bystander.schemas.config import QuerySource
from bystander.schemas.errors import InputError
from bystander.schemas.tpi import RAW_QUERY
from bystander.storage import query_records
from bystander.storage.language_tags import take_primary_subtag
from bystander.storage.query_records import DOUBLED, BadRecord, NumberedRecord, describe_type

TEXT_COLUMNS = ("question", "text", "query", "utterance", "prompt", "instruction")
"""Columns that are tried for the request, in this order; VoiceAssistant-400K has `question`."""

LANGUAGE_COLUMNS = ("language", "lang")
"""Columns that are tried for the language of a row."""

STARTER_QUERIES = "data/starter_queries.jsonl"
"""The package's own queries, within `bystander.schemas`."""

BATCH_ROWS = 8192

_WEB = ("http", "https")
_GZIP_MAGIC = b"\x1f\x8b"  # RFC 1952, section 2.3.1
_PROBED_RECORDS = 1000  # looked at to find out which fields JSON records have
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}
_READERS: dict[str, Callable[[BinaryIO, str], Iterator[NumberedRecord]]] = {
    ".jsonl": query_records.read_json_lines,
    ".ndjson": query_records.read_json_lines,
    ".json": query_records.read_json_array,
    ".csv": query_records.read_csv,
    ".tsv": query_records.read_tsv,
    ".txt": query_records.read_text_lines,
}
_TEXT_FLAG = "--set queries.text_column=NAME"
_LANGUAGE_FLAG = "--set queries.language_column=NAME"


@dataclass(frozen=True, slots=True)
class _File:
    name: str  # without its folder
    format: str  # such as ".csv"
    compression: str | None
    open: Callable[[], Any]  # a binary stream, still compressed


@dataclass(frozen=True, slots=True)
class _Columns:
    text: str | None  # None where the file has no columns
    language: str | None


def read_queries(source: QuerySource) -> Iterator[pa.Table]:
    """Yield the queries of `source` as `RAW_QUERY` tables of up to `BATCH_ROWS` rows, in the order of the files' names.

    Without a path these are the starter queries of the package. A file's faults are raised when it is reached.

    Raises:
        InputError: a file is missing, unreadable, not UTF-8, of an unknown format or without the column asked for, a
            glob matches nothing, or there is no row at all.
    """
    rows: list[tuple[str, int, str | None, str, str | None]] = []
    total = 0
    for file in _find_files(source.path):
        for row in _read_file(file, source):
            rows.append(row)
            if len(rows) == BATCH_ROWS:
                yield _make_table(rows)
                total += len(rows)
                rows = []
    if rows:
        yield _make_table(rows)
    if not total and not rows:
        raise InputError(f"queries {source.path or 'of the package'}: there is no row in them")


def _find_files(path: str | None) -> list[_File]:
    if path is None:
        resource = resources.files("bystander.schemas").joinpath(STARTER_QUERIES)
        return [_File(resource.name, ".jsonl", None, lambda: resource.open("rb"))]
    is_web = split_protocol(path)[0] in _WEB
    try:
        system, inner = fsspec.core.url_to_fs(path)
        if is_web:
            _check_web_file(system, path)
            found = [inner]
        elif system.isfile(inner):
            found = [inner]
        elif system.isdir(inner):
            raise InputError(f"queries {path}: is a folder; give a file or a glob such as {path.rstrip('/')}/*.jsonl")
        elif any(sign in path for sign in "*?["):
            found = sorted(entry for entry in system.glob(inner) if not system.isdir(entry))
            if not found:
                raise InputError(f"queries {path}: no file matches this pattern")
        else:
            raise InputError(f"queries {path}: there is no such file")
    except ImportError as exc:
        raise InputError(
            f"queries {path}: reading {split_protocol(path)[0]}:// needs a package that is not here ({exc})"
        ) from exc
    except InputError:
        raise
    except Exception as exc:  # file systems raise errors of their own kind
        raise InputError(f"queries {path}: cannot be reached ({_describe(exc)})") from exc

    def make_opener(entry: str) -> Callable[[], Any]:
        return lambda: system.open(entry, "rb", compression=None)

    return [_describe_file(_take_path(entry) if is_web else entry, make_opener(entry)) for entry in found]


def _check_web_file(system: Any, address: str) -> None:
    """Ask the server for a file: fsspec's own look-ups take every fault for a missing file, and a `?` for a glob."""
    if "*" in _take_path(address):
        raise InputError(f"queries {address}: the web has no globs; give the address of one file")
    try:
        system.info(address)
    except FileNotFoundError as exc:
        cause = exc.__cause__ or exc
        status = getattr(cause, "status", None)
        answer = f"the server answers {status} {getattr(cause, 'message', '')}".rstrip() if status else _describe(cause)
        raise InputError(f"queries {address}: cannot be fetched ({answer})") from exc


def _take_path(address: str) -> str:
    """Return the path of a web address, without its query string: it is what names the file."""
    return unquote(urlsplit(address).path)


def _describe_file(path: str, opener: Callable[[], Any]) -> _File:
    name = path.rstrip("/").rsplit("/", 1)[-1]
    stem, compression = name.lower(), None
    for ending, codec in _COMPRESSIONS.items():
        if stem.endswith(ending):
            stem, compression = stem.removesuffix(ending), codec
    ending = f".{stem.rsplit('.', 1)[-1]}" if "." in stem else ""
    if ending == ".parquet" and compression:
        raise InputError(f"query file {name}: Parquet compresses its columns itself; unpack the file")
    if ending not in _READERS and ending != ".parquet":
        known = ", ".join(sorted([*_READERS, ".parquet"]))
        raise InputError(
            f"query file {name}: unknown format {ending or 'without an ending'!r}; known are {known}, "
            f"all but Parquet also as {', '.join(_COMPRESSIONS)}"
        )
    return _File(name, ending, compression, opener)


@contextmanager
def _open_file(file: _File) -> Iterator[BinaryIO]:
    """Open a file and unpack it, turning whatever goes wrong meanwhile into an `InputError`."""
    try:
        raw = file.open()
    except Exception as exc:  # file systems raise errors of their own kind
        raise InputError(f"query file {file.name}: cannot be opened ({_describe(exc)})") from exc
    try:
        with raw, _make_seekable(raw) as whole, _unpack(whole, file) as stream:
            yield stream
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, pa.ArrowException) as exc:
        raise InputError(f"query file {file.name}: is damaged ({_describe(exc)})") from exc
    except OSError as exc:
        raise InputError(f"query file {file.name}: cannot be read ({_describe(exc)})") from exc
    except Exception as exc:
        if type(exc).__module__.partition(".")[0] != "aiohttp":
            raise
        raise InputError(f"query file {file.name}: the connection broke ({_describe(exc)})") from exc


def _make_seekable(raw: Any) -> BinaryIO:
    """Return the stream, or where it can only be read once (a server that does not tell a length), a copy on disk."""
    try:
        raw.seek(0, io.SEEK_END)  # fsspec's HTTP streams say that they are seekable
        raw.seek(0)
        return cast(BinaryIO, raw)
    except (ValueError, OSError):
        pass
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    shutil.copyfileobj(raw, copy)
    copy.seek(0)
    return cast(BinaryIO, copy)


def _unpack(raw: BinaryIO, file: _File) -> BinaryIO:
    """Return a stream of the unpacked bytes that has `peek` and `readline`. Gzip is known by its first bytes too."""
    compression = file.compression
    if compression is None:
        magic = raw.read(len(_GZIP_MAGIC))
        raw.seek(0)
        if magic == _GZIP_MAGIC:
            if file.format == ".parquet":
                raise InputError(f"query file {file.name}: is packed by gzip, whatever its name says; unpack it")
            compression = "gzip"
    stream: Any = raw
    if compression == "gzip":
        stream = gzip.GzipFile(fileobj=raw)
    elif compression == "bz2":
        stream = bz2.BZ2File(raw)
    elif compression == "xz":
        stream = lzma.LZMAFile(raw)  # noqa: SIM115 - the caller closes it
    elif compression == "zstd":
        stream = _ArrowReader(pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd"))
    return cast(BinaryIO, io.BufferedReader(stream))


class _ArrowReader(io.RawIOBase):
    """Makes an Arrow stream a Python one."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except OSError as exc:  # what Arrow raises for a damaged stream
            raise EOFError(_describe(exc)) from exc
        buffer[: len(data)] = data
        return len(data)


def _read_file(file: _File, source: QuerySource) -> Iterator[tuple[str, int, str | None, str, str | None]]:
    with _open_file(file) as stream:
        records: Iterator[NumberedRecord]
        if file.format == ".parquet":
            types = query_records.list_parquet_columns(stream, file.name)
            columns = _choose_columns(file.name, tuple(types), source)
            wanted = [column for column in (columns.text, columns.language) if column is not None]
            for column in wanted:
                if not _holds_text(types[column]):
                    raise InputError(f"query file {file.name}: column {column!r} holds {types[column]}, not text")
            records = query_records.read_parquet(stream, file.name, wanted)
        else:
            records = _READERS[file.format](stream, file.name)
            first = list(islice(records, _PROBED_RECORDS))
            records = chain(first, records)
            names = list(dict.fromkeys(key for _, record in first if isinstance(record, Mapping) for key in record))
            columns = _Columns(None, None)
            if names:
                columns = _choose_columns(file.name, names, source)
                _refuse_doubled_columns(file.name, columns, first)
        for line, record in records:
            text, fault = _take_text(record, columns.text)
            yield file.name, line, text, _take_language(record, columns.language, source.language), fault


def _choose_columns(name: str, columns: Sequence[str], source: QuerySource) -> _Columns:
    text = _match_column(name, columns, source.text_column, TEXT_COLUMNS, _TEXT_FLAG)
    if text is None:
        raise InputError(
            f"query file {name}: none of its columns is a usual one for the request ({', '.join(TEXT_COLUMNS)}); "
            f"it has {_list_columns(columns)}; name the one with {_TEXT_FLAG}"
        )
    return _Columns(text, _match_column(name, columns, source.language_column, LANGUAGE_COLUMNS, _LANGUAGE_FLAG))


def _refuse_doubled_columns(name: str, columns: _Columns, records: Sequence[NumberedRecord]) -> None:
    for column in (columns.text, columns.language):
        if column and any(isinstance(record, Mapping) and record.get(column) is DOUBLED for _, record in records):
            raise InputError(f"query file {name}: has more than one column {column!r}; rename all but the right one")


def _match_column(name: str, columns: Sequence[str], asked: str | None, usual: Sequence[str], flag: str) -> str | None:
    folded = {column.casefold(): column for column in reversed(columns)}
    if asked is None:
        return next((folded[word] for word in usual if word in folded), None)
    if asked in columns:
        return asked
    if asked.casefold() in folded:
        return folded[asked.casefold()]
    raise InputError(f"query file {name}: has no column {asked!r}; it has {_list_columns(columns)}; change {flag}")


def _list_columns(columns: Sequence[str]) -> str:
    shown = ", ".join(repr(column[:60]) for column in columns[:20])
    return shown + (f" and {len(columns) - 20} more" if len(columns) > 20 else "")


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _take_text(record: Any, column: str | None) -> tuple[str | None, str | None]:
    """Return the text of a record, or None and what is wrong with it."""
    value = record
    if isinstance(record, Mapping):
        if column not in record:
            return None, f"has no field {column!r}"
        value = record[column]
    if isinstance(value, BadRecord):
        return None, value.fault if value is record else f"field {column!r} {value.fault}"
    if not isinstance(value, str):
        return None, f"field {column!r} is {describe_type(value)}, not a text"
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return None, "holds one half of a surrogate pair, which is no character"
    return value, None


def _take_language(record: Any, column: str | None, default: str) -> str:
    """Return the primary subtag of a record's language (`en-US` is `en`), or the default where it names none."""
    value = record.get(column) if isinstance(record, Mapping) and column is not None else None
    if not isinstance(value, str) or not value.strip():
        return default
    return take_primary_subtag(value) or default


def _make_table(rows: Sequence[tuple[str, int, str | None, str, str | None]]) -> pa.Table:
    columns = [pa.array(cells, field.type) for cells, field in zip(zip(*rows, strict=True), RAW_QUERY, strict=True)]
    return pa.Table.from_arrays(columns, schema=RAW_QUERY)


def _describe(exc: BaseException) -> str:
    text = getattr(exc, "strerror", None) or str(exc).strip().split("\n", 1)[0]
    return (text or type(exc).__name__)[:200]
