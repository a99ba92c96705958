"""Recordings of two speakers from folders, globs and manifests, with their transcripts, as `RAW_RECORDING` rows.

What is wrong with one recording is a fault on its row, never an exception: `decode_recordings` rejects it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from bystander.schemas.errors import ConfigError, InputError
from bystander.schemas.identity import make_id
from bystander.schemas.sid import RAW_RECORDING
from bystander.schemas.sid_config import RecordingSource
from bystander.storage.language_tags import take_primary_subtag
from bystander.storage.recording_listing import (
    AUDIO_SUFFIXES,
    FoundAudio,
    FoundFile,
    TranscriptIndex,
    describe_fault,
    find_file,
    is_transcript,
    list_files,
    pair_audio,
)
from bystander.storage.recording_manifest import SUFFIXES as MANIFEST_SUFFIXES
from bystander.storage.recording_manifest import ManifestRow, read_manifest
from bystander.storage.recording_transcripts import CorpusTranscripts, ReadTranscript, read_sides, read_whole
from bystander.storage.transcripts.read_transcript import PARSERS
from bystander.storage.transcripts.segments import TranscriptError

BATCH_ROWS = 64

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class _Listed:
    """A recording before its files are read."""

    audio: FoundAudio
    whole: Sequence[FoundFile] = ()
    sides: tuple[Sequence[FoundFile], Sequence[FoundFile]] = ((), ())
    transcript_format: str | None = None
    language: str | None = None
    licence: str | None = None
    speakers: tuple[str, str] | None = None
    fault: tuple[str, str] | None = None
    names_transcript: bool = False
    """Whether the user names the transcript, so that it must be there and several are none too many."""
    place: str = ""
    """What names it in messages."""


@dataclass(slots=True)
class _Seen:
    """Recordings by the digests of their audio."""

    names: dict[tuple[str, ...], str] = field(default_factory=dict)


def read_recordings(source: RecordingSource) -> Iterator[pa.Table]:
    """Yield the recordings of `source` as `RAW_RECORDING` tables of up to `BATCH_ROWS` rows, in order of their names.

    `path` is a folder (searched with all below it for `AUDIO_SUFFIXES`), a glob, one audio file, or a manifest (JSONL,
    CSV, TSV with the fields of `recording_manifest.FIELDS`); without it there are no recordings. In a folder or glob,
    two files whose names end in a pair of sides (`_A` and `_B`, `-left` and `-right`, `.ch0` and `.ch1`, `_1` and `_2`)
    and that have one channel each are one recording. Its transcript is the file of its name, of any format of
    `transcripts.read_transcript.PARSERS`, or one a side; CTM, STM and SegLST files of no recording's name are looked
    into for its name as recording id.

    The channel of each utterance is told as `transcripts.channels` says. Faults have reasons of `RECORDING_REASONS`.

    Raises:
        InputError: the folder, glob or manifest is missing or unreadable, or there is no recording in it.
        ConfigError: `transcript_format` is none that there is.
    """
    if source.path is None:
        return
    _check_format(source.transcript_format)
    rows: list[dict[str, Any]] = []
    seen = _Seen()
    count = 0
    listed, corpus = _list_recordings(source)
    for recording in listed:
        rows.append(_make_row(recording, source, corpus, seen))
        count += 1
        if len(rows) == BATCH_ROWS:
            yield pa.Table.from_pylist(rows, schema=RAW_RECORDING)
            rows = []
    if rows:
        yield pa.Table.from_pylist(rows, schema=RAW_RECORDING)
    if not count:
        raise InputError(f"recordings {source.path}: there is no recording in it")


def check_recordings(source: RecordingSource) -> None:
    """Raise what `read_recordings` would for the whole of `source`, without reading audio or transcripts.

    Raises:
        InputError: the folder, glob or manifest is missing or unreadable, or there is no recording in it.
        ConfigError: `transcript_format` is none that there is.
    """
    if source.path is None:
        return
    _check_format(source.transcript_format)
    listed, _ = _list_recordings(source)
    if next(listed, None) is None:
        raise InputError(f"recordings {source.path}: there is no recording in it")


def _check_format(name: str | None) -> None:
    if name is not None and name not in PARSERS:
        raise ConfigError(f"transcript_format: no format {name!r}; there are {', '.join(PARSERS)}")


def _list_recordings(source: RecordingSource) -> tuple[Iterator[_Listed], CorpusTranscripts]:
    assert source.path is not None
    files = list_files(source.path, "recordings")
    apart = list_files(source.transcripts, "transcripts") if source.transcripts is not None else None
    if len(files) == 1 and files[0].suffix in MANIFEST_SUFFIXES:
        index = TranscriptIndex(apart or [])
        return _list_manifest(files[0], index), CorpusTranscripts(index.files, source.transcript_format)
    is_glob = any(sign in source.path for sign in "*?[")
    chosen = [file for file in files if file.suffix in AUDIO_SUFFIXES or (is_glob and not is_transcript(file))]
    if not chosen:
        kinds = ", ".join(sorted({file.suffix or "no ending" for file in files})[:10])
        raise InputError(f"recordings {source.path}: holds no audio file (it has {kinds}); name a glob of yours")
    found = list(pair_audio(chosen))
    index = TranscriptIndex(apart if apart is not None else _find_beside(files, is_glob), found)
    named = {file.name for audio in found for file in _find_named(index, audio)}
    corpus = CorpusTranscripts([file for file in index.files if file.name not in named], source.transcript_format)
    return (
        _Listed(audio, index.find_whole(audio), index.find_sides(audio), place=f"recording {audio.source}")
        for audio in found
    ), corpus


def _find_named(index: TranscriptIndex, audio: FoundAudio) -> list[FoundFile]:
    first, second = index.find_sides(audio)
    return [*index.find_whole(audio), *first, *second]


def _find_beside(files: Sequence[FoundFile], is_glob: bool) -> list[FoundFile]:
    """Return the files of the searched folder; a glob of audio leaves out what lies beside it, so that is listed."""
    if not is_glob and len(files) > 1:
        return list(files)
    beside: dict[str, FoundFile] = {}
    for folder in sorted({(file.inner.rpartition("/")[0], file.folder) for file in files}):
        inner, name = folder
        system = files[0].filesystem
        try:
            entries = [path for path in system.ls(inner, detail=False) if not system.isdir(path)]
        except Exception:  # web servers and some object stores list nothing: then nothing lies beside
            continue
        for entry in sorted(entries):
            file = find_file(system.unstrip_protocol(entry))
            found = FoundFile("/".join(filter(None, [name, file.name])), file.path, file.filesystem, file.inner)
            beside[found.path] = found
    return list(beside.values())


def _list_manifest(manifest: FoundFile, index: TranscriptIndex) -> Iterator[_Listed]:
    for row in read_manifest(manifest):
        yield _list_row(row, manifest, index)


def _list_row(row: ManifestRow, manifest: FoundFile, index: TranscriptIndex) -> _Listed:
    place = f"manifest {manifest.name}, line {row.line}"
    nothing = FoundAudio((), f"{manifest.stem}-{row.line}")
    if row.fault is not None:
        return _Listed(nothing, fault=("manifest_row_invalid", f"{place}: {row.fault}"), place=place)
    if row.transcript_format is not None and row.transcript_format not in PARSERS:
        fault = f"{place}: no transcript format {row.transcript_format!r}; there are {', '.join(PARSERS)}"
        return _Listed(nothing, fault=("manifest_row_invalid", fault), place=place)
    try:
        files = tuple(find_file(path) for path in row.audio)
        transcripts = [find_file(path) for path in row.transcripts]
    except InputError as exc:
        return _Listed(nothing, fault=("manifest_row_invalid", f"{place}: {exc}"), place=place)
    audio = next(iter(pair_audio(files))) if len(files) == 2 and files[0].name != files[1].name else None
    stem = audio.stem if audio is not None and len(audio.files) == 2 else files[0].stem
    both = FoundAudio(files, stem)
    if transcripts:
        whole: Sequence[FoundFile] = transcripts if len(transcripts) == 1 else ()
        sides = ([transcripts[0]], [transcripts[1]]) if len(transcripts) == 2 else ((), ())
    else:
        whole, sides = index.find_whole(both), index.find_sides(both)
    return _Listed(
        both,
        whole,
        sides,
        row.transcript_format,
        row.language,
        row.licence,
        row.speakers,
        names_transcript=bool(transcripts),
        place=place,
    )


def _make_row(listed: _Listed, source: RecordingSource, corpus: CorpusTranscripts, seen: _Seen) -> dict[str, Any]:
    stem = listed.audio.stem
    fault, transcript = listed.fault, None
    digests: tuple[str, ...] = ()
    if fault is None:
        digests, fault = _digest_files(listed)
    if fault is None:
        earlier = seen.names.setdefault(digests, listed.place)
        if earlier != listed.place:
            fault = ("duplicate_recording", f"{listed.place}: has the same audio as {earlier}; it is used once")
    if fault is None:
        try:
            transcript = _read_transcript(listed, source, corpus)
        except TranscriptError as exc:
            fault = (exc.reason, f"{listed.place}: {exc}")
    language = listed.language or (transcript.language if transcript is not None else None) or source.language
    speakers = listed.speakers or (f"{stem}-A", f"{stem}-B")
    return {
        "recording_id": make_id("rec", *digests) if fault is None else make_id("rec", "fault", listed.place, *digests),
        "source": listed.audio.source or listed.place,
        "licence": listed.licence or source.licence,
        "language": take_primary_subtag(language) or source.language,
        "speakers": list(transcript.speakers if transcript is not None else speakers),
        "audio_files": [file.path for file in listed.audio.files],
        "audio_digests": list(digests),
        "utterances": transcript.utterances if transcript is not None else [],
        "transcript_source": transcript.format if transcript is not None else None,
        "fault_reason": fault[0] if fault is not None else None,
        "fault": fault[1] if fault is not None else None,
    }


def _digest_files(listed: _Listed) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    """Return the SHA-256 of each audio file, and what is wrong with the first that cannot be read."""
    digests = []
    for file in listed.audio.files:
        digest = hashlib.sha256()
        try:
            with file.open() as stream:
                while chunk := stream.read(_CHUNK):
                    digest.update(chunk)
        except FileNotFoundError:
            return (), ("audio_missing", f"{listed.place}: there is no file {file.path}")
        except Exception as exc:  # file systems raise errors of their own kind
            return (), ("audio_unreadable", f"{listed.place}: {file.name} cannot be read ({describe_fault(exc)})")
        digests.append(digest.hexdigest())
    return tuple(digests), None


def _read_transcript(listed: _Listed, source: RecordingSource, corpus: CorpusTranscripts) -> ReadTranscript | None:
    form = listed.transcript_format or source.transcript_format
    stem, speakers = listed.audio.stem, listed.speakers
    if listed.whole:
        return read_whole(listed.whole, stem, speakers, form)
    if any(listed.sides):
        return read_sides(listed.sides, stem, speakers, form)
    return corpus.find(stem, speakers)
