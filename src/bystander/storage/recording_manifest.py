"""Manifests of recordings: JSONL, CSV or TSV, one recording a row."""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from fsspec.core import split_protocol

from bystander.schemas.errors import InputError
from bystander.storage import query_records
from bystander.storage.query_records import DOUBLED, BadRecord
from bystander.storage.recording_listing import FoundFile, describe_fault

SUFFIXES = {
    ".jsonl": query_records.read_json_lines,
    ".ndjson": query_records.read_json_lines,
    ".csv": query_records.read_csv,
    ".tsv": query_records.read_tsv,
}
FIELDS = (
    "audio",
    "audio_a",
    "audio_b",
    "transcript",
    "transcript_a",
    "transcript_b",
    "transcript_format",
    "language",
    "licence",
    "speakers",
)
"""Fields that are read; `license` is one more name of `licence`. Others may be there and are left alone."""


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """A row: addresses of its files, and what it says of them. With a `fault`, the rest may be empty."""

    line: int
    audio: tuple[str, ...] = ()
    transcripts: tuple[str, ...] = ()
    """None, one of the whole recording, or one a channel."""
    transcript_format: str | None = None
    language: str | None = None
    licence: str | None = None
    speakers: tuple[str, str] | None = None
    fault: str | None = None


def read_manifest(file: FoundFile) -> Iterator[ManifestRow]:
    """Yield the rows of a manifest. Paths in it are relative to its folder; they may be absolute, or URLs.

    Raises:
        InputError: it cannot be read, is not UTF-8, or no row has a field for audio.
    """
    try:
        with file.open() as stream:
            data = stream.read()
    except Exception as exc:  # file systems raise errors of their own kind
        raise InputError(f"manifest {file.name}: cannot be read ({describe_fault(exc)})") from exc
    try:
        records = list(SUFFIXES[file.suffix](io.BufferedReader(io.BytesIO(data)), file.name))
    except InputError as exc:
        raise InputError(str(exc).replace("query file", "manifest", 1)) from exc
    fields = {key for _, record in records if isinstance(record, Mapping) for key in record}
    if not fields & {"audio", "audio_a", "audio_b"}:
        there = ", ".join(map(repr, sorted(map(str, fields))[:20])) or "none"
        raise InputError(
            f"manifest {file.name}: has no field 'audio', nor 'audio_a' and 'audio_b'; its fields are {there}"
        )
    for line, record in records:
        yield _read_row(line, record, file.path)


def _read_row(line: int, record: Any, manifest: str) -> ManifestRow:
    if isinstance(record, BadRecord):
        return ManifestRow(line, fault=record.fault)
    if not isinstance(record, Mapping):
        return ManifestRow(line, fault="is no object with fields")
    values: dict[str, str | None] = {}
    for name in FIELDS:
        value = record.get(name)
        if name == "licence" and value is None:
            value = record.get("license")
        if isinstance(value, BadRecord):
            return ManifestRow(line, fault="has two fields of one name" if value is DOUBLED else value.fault)
        if name == "speakers":
            continue
        if value is not None and not isinstance(value, str):
            return ManifestRow(line, fault=f"field {name!r} is no text")
        values[name] = value.strip() if value and value.strip() else None
    speakers = _read_speakers(record.get("speakers"))
    if isinstance(speakers, str):
        return ManifestRow(line, fault=speakers)
    audio = _choose(values, "audio")
    if isinstance(audio, str):
        return ManifestRow(line, fault=audio)
    if not audio:
        return ManifestRow(line, fault="names no audio; give 'audio', or 'audio_a' and 'audio_b'")
    transcripts = _choose(values, "transcript")
    if isinstance(transcripts, str):
        return ManifestRow(line, fault=transcripts)
    return ManifestRow(
        line,
        tuple(_join_path(manifest, path) for path in audio),
        tuple(_join_path(manifest, path) for path in transcripts),
        values["transcript_format"],
        values["language"],
        values["licence"],
        speakers,
    )


def _choose(values: Mapping[str, str | None], name: str) -> tuple[str, ...] | str:
    """Return the one path, the two, or none; or what is wrong."""
    whole, first, second = values[name], values[f"{name}_a"], values[f"{name}_b"]
    if whole and (first or second):
        return f"has {name!r} and {name + '_a'!r} or {name + '_b'!r} too; give one or the other"
    if bool(first) != bool(second):
        return f"has one of {name + '_a'!r} and {name + '_b'!r}; give both"
    return (whole,) if whole else (first, second) if first and second else ()


def _read_speakers(value: Any) -> tuple[str, str] | str | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    names = re.split(r"[|;,]", value) if isinstance(value, str) else value
    if not isinstance(names, list) or len(names) != 2 or not all(isinstance(name, str) for name in names):
        return "field 'speakers' does not name two speakers, in the order of the channels"
    first, second = (name.strip() for name in names)
    if not first or not second or first.casefold() == second.casefold():
        return "field 'speakers' must name two different speakers"
    return first, second


def _join_path(manifest: str, path: str) -> str:
    if split_protocol(path)[0] is not None or path.startswith("/"):
        return path
    if split_protocol(manifest)[0] in ("http", "https"):
        return urljoin(manifest, path)
    return posixpath.join(posixpath.dirname(manifest.replace("\\", "/")), path)
