"""Speakers of Parquet files in the layout of Hugging Face: a row a clip, its audio as {bytes, path} or bytes.

Rows of a speaker may lie anywhere. So the columns of speakers are read first, all of them; then, for some hundreds of
speakers at a time, the audio of the rows that are wanted is copied out, row group by row group.
"""

from __future__ import annotations

import posixpath
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bystander.schemas.errors import InputError
from bystander.schemas.identity import digest_json
from bystander.schemas.voice_bank_config import VoiceSourceConfig
from bystander.storage.language_tags import take_primary_subtag
from bystander.storage.recording_listing import FoundFile, describe_fault, list_files
from bystander.storage.voice_sources import SourceClip, SourceListing, SourceSpeaker, name_voice, read_gender

AUDIO_COLUMNS = ("audio", "speech", "wav", "flac", "sound")
SPEAKER_COLUMNS = ("speaker_id", "speaker", "spk_id", "spk", "client_id", "reader_id", "user_id", "speaker_name")
GENDER_COLUMNS = ("gender", "sex", "speaker_gender")
LANGUAGE_COLUMNS = ("language", "lang", "locale")

_FILE_SHIFT = 40
"""A row is known by one number: its file's, shifted, and its own within the file."""
_CLIPS_OF_A_GROUP = 4
"""Clips that are taken from one row group before the next is read: reading it costs as much for one as for all."""
_BATCH_ROWS = 32


@dataclass(frozen=True, slots=True)
class _Columns:
    audio: str
    speaker: str
    gender: str | None
    language: str | None


class VoiceTables:
    """The speakers of Parquet files, and copying out their clips."""

    def __init__(self, config: VoiceSourceConfig) -> None:
        """Read whose each row is.

        Raises:
            InputError: there is no file, one cannot be read, or lacks a column of audio or speakers.
        """
        self._files = [file for file in list_files(config.path, "voices") if file.suffix == ".parquet"]
        if not self._files:
            raise InputError(f"voices {config.path}: there is no Parquet file")
        self._columns: list[_Columns] = []
        self._group_ends: list[npt.NDArray[np.int64]] = []
        self._sizes: list[int] = []
        self._rows: dict[str, array[int]] = {}
        self.listing = SourceListing(
            layout="parquet",
            language=config.language or "en",
            licence=config.licence or "",
            name=config.name or posixpath.basename(config.path.rstrip("/")),
        )
        genders: dict[str, set[Any]] = {}
        languages: dict[str, str] = {}
        for number, file in enumerate(self._files):
            self._read_speakers(number, file, config, genders, languages)
        for speaker in sorted(self._rows):
            (gender,) = genders[speaker] if len(genders.get(speaker, ())) == 1 else (None,)
            voice = name_voice(config.id_prefix, speaker, None)
            self.listing.speakers.append(SourceSpeaker(voice, speaker, gender=gender, language=languages.get(speaker)))
        self.listing.speakers.sort(key=lambda speaker: speaker.voice)

    def count_clips(self, speaker: SourceSpeaker) -> int:
        """Return how many clips a speaker has."""
        return len(self._rows[speaker.speaker])

    def choose_rows(self, speaker: SourceSpeaker, most: int) -> list[int]:
        """Return at most `most` of a speaker's rows: from few row groups, and else as their names' hashes fall."""
        groups: dict[tuple[int, int], list[int]] = {}
        for row in self._rows[speaker.speaker]:
            groups.setdefault(self._locate(row)[:2], []).append(row)
        chosen: list[int] = []
        left: list[int] = []
        for group in sorted(groups, key=lambda group: digest_json(["voices", *group])):
            if len(chosen) >= most:
                break
            members = sorted(groups[group], key=lambda row: digest_json(["voices", row]))
            chosen += members[:_CLIPS_OF_A_GROUP]
            left += members[_CLIPS_OF_A_GROUP:]
        return (chosen + left)[:most]

    def name_clip(self, row: int) -> str:
        """Return what a row is called in messages and banks."""
        return f"{self._files[row >> _FILE_SHIFT].name}#{row & ((1 << _FILE_SHIFT) - 1)}"

    def mark_row(self, row: int) -> tuple[str, int, int]:
        """Return what stands for a row in keys: its file's name and size, and its number there."""
        number = row >> _FILE_SHIFT
        return self._files[number].name, self._sizes[number], row & ((1 << _FILE_SHIFT) - 1)

    def copy_clips(self, wanted: Mapping[str, Sequence[int]], folder: Path) -> dict[str, list[SourceClip]]:
        """Copy the audio of rows to files of a folder, reading each row group once and only those that are needed.

        Args:
            wanted: rows by any key.
            folder: gets the files.

        Returns:
            The clips by key, in the order of the rows. A row without audio has an empty path; one that names a file
            instead of holding audio has that file's, from the table's folder.

        Raises:
            InputError: a file cannot be read.
        """
        places: dict[tuple[int, int], dict[int, list[tuple[str, int]]]] = {}
        for key, rows in wanted.items():
            for row in rows:
                number, group, at = self._locate(row)
                places.setdefault((number, group), {}).setdefault(at, []).append((key, row))
        clips: dict[int, SourceClip] = {}
        for number, group in sorted(places):
            rows_at = places[number, group]
            for at, value in self._read_group(number, group, set(rows_at)):
                for _, row in rows_at[at]:
                    clips[row] = self._copy(value, row, self._files[number], folder)
        return {key: [clips[row] for row in rows] for key, rows in wanted.items()}

    def _read_speakers(
        self,
        number: int,
        file: FoundFile,
        config: VoiceSourceConfig,
        genders: dict[str, set[Any]],
        languages: dict[str, str],
    ) -> None:
        with _open_table(file) as table:
            columns = _choose_columns(file, table.schema_arrow, config)
            self._columns.append(columns)
            self._sizes.append(int(file.filesystem.size(file.inner) or 0))
            sizes = [table.metadata.row_group(i).num_rows for i in range(table.num_row_groups)]
            self._group_ends.append(np.cumsum(sizes, dtype=np.int64))
            names = [name for name in (columns.speaker, columns.gender, columns.language) if name is not None]
            start = number << _FILE_SHIFT
            for index in range(table.num_row_groups):
                group = table.read_row_group(index, columns=names)
                speakers = group[columns.speaker].to_pylist()
                gender = group[columns.gender].to_pylist() if columns.gender else [None] * len(speakers)
                language = group[columns.language].to_pylist() if columns.language else [None] * len(speakers)
                for at, value in enumerate(speakers):
                    name = str(value).strip() if value is not None else ""
                    if not name:
                        self._reject(start + at, "no_speaker", f"column {columns.speaker} is empty")
                        continue
                    self._rows.setdefault(name, array("q")).append(start + at)
                    if (stated := read_gender(gender[at])) is not None:
                        genders.setdefault(name, set()).add(stated)
                    if config.language is None and name not in languages and language[at]:
                        languages[name] = take_primary_subtag(str(language[at])) or self.listing.language
                start += len(speakers)

    def _reject(self, row: int, reason: str, detail: str) -> None:
        self.listing.rejects.append(
            {"speaker": None, "clip": self.name_clip(row), "reject_reason": reason, "reject_detail": detail}
        )

    def _locate(self, row: int) -> tuple[int, int, int]:
        """Return a row's file, its row group there, and its place in that."""
        number, at = row >> _FILE_SHIFT, row & ((1 << _FILE_SHIFT) - 1)
        ends = self._group_ends[number]
        group = int(np.searchsorted(ends, at, side="right"))
        return number, group, at - (int(ends[group - 1]) if group else 0)

    def _read_group(self, number: int, group: int, wanted: set[int]) -> Iterator[tuple[int, Any]]:
        column = self._columns[number].audio
        with _open_table(self._files[number]) as table:
            at = 0
            for batch in table.iter_batches(_BATCH_ROWS, row_groups=[group], columns=[column]):
                values = batch.column(0)
                for i in range(len(values)):
                    if at + i in wanted:
                        yield at + i, values[i].as_py()
                at += len(values)

    def _copy(self, value: Any, row: int, file: FoundFile, folder: Path) -> SourceClip:
        data = value.get("bytes") if isinstance(value, Mapping) else value
        if data:
            target = folder / str(row)
            target.write_bytes(data)
            return SourceClip(self.name_clip(row), str(target), len(data))
        beside = value.get("path") if isinstance(value, Mapping) else None
        path = posixpath.join(posixpath.dirname(file.path), beside) if beside else ""
        return SourceClip(self.name_clip(row), path, 0)


@contextmanager
def _open_table(file: FoundFile) -> Iterator[pq.ParquetFile]:
    try:
        with file.open() as stream, pq.ParquetFile(stream) as table:
            yield table
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as exc:
        raise InputError(f"voices {file.name}: cannot be read as Parquet ({describe_fault(exc)})") from exc


def _choose_columns(file: FoundFile, schema: pa.Schema, config: VoiceSourceConfig) -> _Columns:
    sounding = [column.name for column in schema if _holds_audio(column.type)]
    audio = _match(file, schema, config.audio_column, AUDIO_COLUMNS, "audio_column", sounding)
    if audio is None and config.audio_column is None:
        audio = sounding[0] if sounding else None
    speaker = _match(file, schema, config.speaker_column, SPEAKER_COLUMNS, "speaker_column")
    for name, what, usual in ((audio, "audio", AUDIO_COLUMNS), (speaker, "speaker", SPEAKER_COLUMNS)):
        if name is None:
            raise InputError(
                f"voices {file.name}: none of its columns is a usual one for the {what} ({', '.join(usual)}); it has "
                f"{', '.join(schema.names[:20])}; name it with --set source.{what}_column=NAME"
            )
    assert audio is not None
    assert speaker is not None
    return _Columns(
        audio,
        speaker,
        _match(file, schema, config.gender_column, GENDER_COLUMNS, "gender_column"),
        _match(file, schema, config.language_column, LANGUAGE_COLUMNS, "language_column"),
    )


def _match(
    file: FoundFile,
    schema: pa.Schema,
    asked: str | None,
    usual: Sequence[str],
    setting: str,
    among: Sequence[str] | None = None,
) -> str | None:
    names = list(schema.names if among is None else among)
    if asked is not None:
        if asked not in names:
            raise InputError(
                f"voices {file.name}: has no such column {asked!r}{' of audio' if among is not None else ''}; it has "
                f"{', '.join(names[:20]) or 'none'}; change source.{setting}"
            )
        return asked
    folded = {name.casefold(): name for name in reversed(names)}
    return next((folded[name] for name in usual if name in folded), None)


def _holds_audio(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(child.name == "bytes" and _is_binary(child.type) for child in kind)
    return _is_binary(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))
