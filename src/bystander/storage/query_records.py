"""Records of query files, one parser a format. Each reads its stream once and holds only a bounded part of it.

A parser yields `(line, record)`: the 1-based number of the record in its file (physical line in JSONL, TXT and TSV;
row below the header in CSV and Parquet; element of a JSON array) and a mapping of column to value, a bare text where
the format has no columns, or a `BadRecord`.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from bystander.schemas.errors import InputError

MAX_RECORD_BYTES = 16 * 2**20
"""A longer line or cell is a fault: no request is that long, and it must not fill the memory."""

_CHUNK = 2**18
_WHITE = " \t\r\n"
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)  # a CR at a chunk's end may be half of CRLF


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be parsed, and why."""

    fault: str


DOUBLED = BadRecord("is the name of more than one column")
"""Stands in a record for the cells of columns that share a name: which of them is meant cannot be told."""

Record = Mapping[str, Any] | str | BadRecord
NumberedRecord = tuple[int, Record]


def read_json_lines(stream: BinaryIO, name: str) -> Iterator[NumberedRecord]:
    """Yield the values of a JSONL file, whose lines are objects or strings.

    Raises:
        InputError: the file is not UTF-8.
    """
    for line, text in _read_lines(stream, name):
        if isinstance(text, BadRecord):
            yield line, text
        elif text.strip():
            try:
                yield line, _check_value(json.loads(text))
            except (ValueError, RecursionError) as exc:
                yield line, BadRecord(f"is not valid JSON ({_describe_json_fault(exc)})")


def read_json_array(stream: BinaryIO, name: str) -> Iterator[NumberedRecord]:
    """Yield the elements of a JSON array of objects or strings; a file that holds no array is read as JSONL.

    Raises:
        InputError: the file is not UTF-8, the array is not valid JSON (what follows a fault cannot be told apart), or
            something comes after the array.
    """
    head = cast(io.BufferedReader, stream).peek()
    if not head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):
        yield from read_json_lines(stream, name)
        return
    decoder, number, ended = json.JSONDecoder(), 0, False
    chunks = _read_chunks(stream, name)
    buffer = next(chunks).lstrip(_WHITE)
    buffer, wants_comma = buffer[1:], False
    while True:
        buffer = buffer.lstrip(_WHITE)
        if wants_comma and buffer.startswith(","):
            buffer, wants_comma = buffer[1:].lstrip(_WHITE), False
        if buffer.startswith("]"):
            _refuse_rest(buffer[1:], chunks, name, number)
            return
        at = -1
        if buffer and not wants_comma:
            try:
                value, at = decoder.raw_decode(buffer)
            except ValueError:
                at = -1
            except RecursionError as exc:
                raise InputError(f"query file {name}: element {number + 1} is nested too deeply") from exc
        # A number or word at the buffer's end may go on in the next chunk.
        if at > 0 and (at < len(buffer) or ended):
            number, buffer, wants_comma = number + 1, buffer[at:], True
            yield number, _check_value(value)
            continue
        if ended or (wants_comma and buffer) or len(buffer) > MAX_RECORD_BYTES:
            raise InputError(f"query file {name}: is not valid JSON at element {number + 1}; give it as JSONL instead")
        # Reading as much as is already held keeps the repeated decoding of a long element linear.
        more: list[str] = []
        while sum(map(len, more)) < max(len(buffer), 1) and not ended:
            chunk = next(chunks, None)
            ended = chunk is None
            more.append(chunk or "")
        buffer += "".join(more)


def _refuse_rest(buffer: str, chunks: Iterator[str], name: str, number: int) -> None:
    rest = buffer.lstrip(_WHITE)
    while not rest:
        chunk = next(chunks, None)
        if chunk is None:
            return
        rest = chunk.lstrip(_WHITE)
    raise InputError(
        f"query file {name}: goes on after the end of its array, which has {number} elements, with {rest[:30]!r}; "
        "give one array, or JSONL"
    )


def read_csv(stream: BinaryIO, name: str) -> Iterator[NumberedRecord]:
    """Yield the rows of a CSV file with a header; the delimiter is what the header uses: comma, semicolon or tab.

    A row with more cells than the header is a fault, as its text may have been cut at an unquoted comma, unless the
    header names one column only: then the row is that column.

    Raises:
        InputError: the file is not UTF-8.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MAX_RECORD_BYTES))
    lines = _read_plain_lines(stream, name)
    first = next(lines, None)
    while first is not None and not first.strip():
        first = next(lines, None)
    if first is None:
        return
    delimiter = max(",;\t", key=first.count)

    def chain() -> Iterator[str]:
        yield first
        yield from lines

    rows = csv.reader(chain(), delimiter=delimiter, strict=True)
    try:
        header = [cell.strip() for cell in next(rows)]
    except csv.Error as exc:
        raise InputError(f"query file {name}: its header is not valid CSV ({exc})") from exc
    number = 0
    while True:
        begins = rows.line_num + 1
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as exc:
            number += 1
            where = f"line {begins}" if begins >= rows.line_num else f"lines {begins} to {rows.line_num}"
            yield number, BadRecord(f"is not valid CSV ({exc}, {where})")
            continue
        if not cells:
            continue
        number += 1
        yield number, _pair_cells(header, cells, delimiter)


def read_tsv(stream: BinaryIO, name: str) -> Iterator[NumberedRecord]:
    """Yield the rows of a TSV file with a header: one a line, a quotation mark means nothing unless it encloses a cell.

    Raises:
        InputError: the file is not UTF-8.
    """
    header: list[str] | None = None
    for line, text in _read_lines(stream, name):
        if isinstance(text, BadRecord):
            yield line, text
            continue
        if not text.strip():
            continue
        cells = [_unquote(cell) for cell in text.split("\t")]
        if header is None:
            header = [cell.strip() for cell in cells]
        else:
            yield line, _pair_cells(header, cells, "\t")


def read_text_lines(stream: BinaryIO, name: str) -> Iterator[NumberedRecord]:
    """Yield the lines of a text file, blank ones left out.

    Raises:
        InputError: the file is not UTF-8.
    """
    for line, text in _read_lines(stream, name):
        if isinstance(text, BadRecord) or text.strip():
            yield line, text


def read_parquet(stream: BinaryIO, name: str, columns: Sequence[str]) -> Iterator[NumberedRecord]:
    """Yield the rows of a Parquet file, reading only `columns` (VoiceAssistant-400K holds audio beside its texts).

    Raises:
        InputError: the file is damaged.
    """
    number = 0
    try:
        for batch in pq.ParquetFile(stream).iter_batches(batch_size=8192, columns=list(columns)):
            cells = {column: _list_texts(batch.column(column)) for column in batch.schema.names}
            for i in range(batch.num_rows):
                number += 1
                yield number, {column: values[i] for column, values in cells.items()}
    except (pa.ArrowException, OSError) as exc:
        raise InputError(f"query file {name}: is damaged after row {number} ({_first_line(exc)})") from exc


def list_parquet_columns(stream: BinaryIO, name: str) -> dict[str, pa.DataType]:
    """Return the columns of a Parquet file and their types.

    Raises:
        InputError: it is no Parquet file.
    """
    try:
        schema = pq.ParquetFile(stream).schema_arrow
    except (pa.ArrowException, OSError) as exc:
        raise InputError(f"query file {name}: is not a readable Parquet file ({_first_line(exc)})") from exc
    return {field.name: field.type for field in schema}


def _read_lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, str | BadRecord]]:
    """Yield numbered lines without their ends; a line beyond the limit is skipped and comes as a fault."""
    number, skipping = 0, False
    for raw in _read_pieces(stream):
        ended = raw.endswith((b"\n", b"\r"))
        if skipping:
            skipping = not ended
            continue
        number += 1
        if len(raw) > MAX_RECORD_BYTES:
            skipping = not ended
            yield number, BadRecord(f"is longer than {MAX_RECORD_BYTES // 2**20} MiB")
        else:
            yield number, _decode(raw, name, number).rstrip("\r\n")


def _read_plain_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    """Yield decoded lines with their ends, as `csv.reader` wants them."""
    for number, raw in enumerate(_read_pieces(stream), 1):
        yield _decode(raw, name, number)


def _read_pieces(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines with their ends, which may be LF, CRLF or CR; one far beyond the limit comes in several pieces."""
    held = b""
    while chunk := stream.read(_CHUNK):
        held += chunk
        start = 0
        for end in _LINE_END.finditer(held):
            yield held[start : end.end()]
            start = end.end()
        held = held[start:]
        if len(held) > MAX_RECORD_BYTES + 4:
            cut = len(held) - 1
            while held[cut] & 0xC0 == 0x80 and len(held) - cut < 4:  # not within a character
                cut -= 1
            yield held[:cut]
            held = held[cut:]
    if held:
        yield held


def _decode(raw: bytes, name: str, line: int) -> str:
    try:
        return raw.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as exc:
        raise _report_encoding(name, f"line {line}", raw[exc.start], raw) from exc


def _read_chunks(stream: BinaryIO, name: str) -> Iterator[str]:
    held, at = b"", 0
    while True:
        raw = stream.read(_CHUNK)
        data = held + raw
        try:
            text = data.decode("utf-8-sig" if at == 0 else "utf-8")
            held = b""
        except UnicodeDecodeError as exc:
            if not raw or len(data) - exc.start > 3:
                raise _report_encoding(name, f"byte {at + exc.start + 1}", data[exc.start], data) from exc
            text, held = data[: exc.start].decode("utf-8-sig" if at == 0 else "utf-8"), data[exc.start :]
        at += len(data) - len(held)
        if text:
            yield text
        if not raw:
            return


def _report_encoding(name: str, where: str, byte: int, raw: bytes) -> InputError:
    guess = "UTF-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "Latin-1 or Windows-1252"
    return InputError(
        f"query file {name}: is not UTF-8 text ({where} holds byte 0x{byte:02x}; it may be {guess}); "
        "convert it to UTF-8"
    )


def _check_value(value: Any) -> Record:
    if isinstance(value, Mapping | str):
        return value
    return BadRecord(f"is {describe_type(value)}, not an object or a text")


def _pair_cells(header: Sequence[str], cells: Sequence[str], delimiter: str) -> Record:
    if len(header) == 1:
        return {header[0]: delimiter.join(cells)}
    if len(cells) > len(header):
        return BadRecord(f"has {len(cells)} cells where the header has {len(header)}")
    record: dict[str, str | BadRecord] = {}
    for column, cell in zip(header, cells, strict=False):
        record[column] = DOUBLED if column in record else cell
    return record


def _unquote(cell: str) -> str:
    if len(cell) > 1 and cell[0] == cell[-1] == '"':
        inner = cell[1:-1]
        if '"' not in inner.replace('""', ""):
            return inner.replace('""', '"')
    return cell


def _list_texts(column: pa.Array) -> list[Any]:
    """Return the cells as text; bytes that are not UTF-8 come as a `BadRecord`."""
    cells: list[Any] = []
    for raw in column.cast(pa.large_string()).cast(pa.large_binary()).to_pylist():
        try:
            cells.append(None if raw is None else raw.decode("utf-8"))
        except UnicodeDecodeError:
            cells.append(BadRecord("is not UTF-8 text"))
    return cells


def describe_type(value: Any) -> str:
    """Name the JSON type of a value, for messages."""
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def _describe_json_fault(exc: Exception) -> str:
    if isinstance(exc, json.JSONDecodeError):
        return f"{exc.msg} at character {exc.pos + 1}"
    return "nested too deeply" if isinstance(exc, RecursionError) else _first_line(exc)


def _first_line(exc: BaseException) -> str:
    return str(exc).strip().split("\n", 1)[0][:200]
