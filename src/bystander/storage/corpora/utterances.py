"""What every reader of a corpus returns: utterances, those that cannot be used with their fault."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bystander.schemas.errors import InputError
from bystander.schemas.real_world import UTTERANCE
from bystander.tasks.texts.transcript_marks import drop_marks


@dataclass(slots=True)
class Utterance:
    """What one person said without much of a pause.

    Times are seconds from the start of the recording. `place` names file and row; `fault` says why it cannot be used,
    and then other fields may be missing. `channel` is that of the speaker's own microphone, from 0.
    """

    recording: str
    place: str
    speaker: str | None = None
    start_s: float | None = None
    end_s: float | None = None
    source_text: str = ""
    channel: int | None = None
    fault: str | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes it the same one, wherever it stands."""
        return self.recording, self.speaker, self.start_s, self.end_s, self.source_text


class WrongFieldError(Exception):
    """A field of a row is missing or wrong; `str` names it."""


def read_field(row: Any, name: str) -> Any:
    """Return a field that must be there.

    Raises:
        WrongFieldError: it is not, or the row is no object with fields.
    """
    if not isinstance(row, dict):
        raise WrongFieldError("is no object with fields")
    if row.get(name) is None:
        raise WrongFieldError(f"field {name!r} is missing")
    return row[name]


def read_seconds(row: Any, name: str) -> float:
    """Return a field as seconds.

    Raises:
        WrongFieldError: it is missing, no finite number, or negative.
    """
    value = read_field(row, name)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise WrongFieldError(f"field {name!r} is {str(value)[:40]!r}, no time in seconds")
    return check_seconds(value, name)


def check_seconds(value: float | str, name: str) -> float:
    """Return a value as seconds.

    Raises:
        WrongFieldError: it is no finite number, or negative.
    """
    try:
        seconds = float(value)
    except (ValueError, OverflowError):  # JSON's whole numbers may be of any size
        raise WrongFieldError(f"field {name!r} is {str(value)[:40]!r}, no time in seconds") from None
    if not math.isfinite(seconds) or seconds < 0:
        raise WrongFieldError(f"field {name!r} is {seconds:g}, no time in a recording")
    return seconds


def read_words(row: Any, name: str) -> str:
    """Return a field as text.

    Raises:
        WrongFieldError: it is missing or no text.
    """
    value = read_field(row, name)
    if not isinstance(value, str):
        raise WrongFieldError(f"field {name!r} is no text")
    return value


def decode_text(data: bytes, where: str) -> str:
    """Return the text of a file: UTF-8, UTF-16 with its mark, or Windows-1252, in which older exports are.

    Raises:
        InputError: it is no text.
    """
    has_mark = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if has_mark else "utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace")
    if "\0" in text:
        raise InputError(f"{where}: holds NUL characters, so it is no text file; save it as UTF-8")
    return text


def make_table(utterances: Iterable[Utterance], corpus: str, language: str, licence: str) -> pa.Table:
    """Return UTTERANCE rows, in the order given, each utterance once."""
    seen: set[tuple[Any, ...]] = set()
    rows: list[Utterance] = []
    for one in utterances:
        if one.fault is None:
            if one.key in seen:
                continue
            seen.add(one.key)
        rows.append(one)
    columns: dict[str, list[Any]] = {
        "corpus": [corpus] * len(rows),
        "text": [drop_marks(one.source_text) for one in rows],
        "language": [language] * len(rows),
        "licence": [licence] * len(rows),
    }
    return pa.Table.from_arrays(
        [
            pa.array(columns.get(field.name) or [getattr(one, field.name) for one in rows], field.type)
            if rows
            else pa.array([], field.type)
            for field in UTTERANCE
        ],
        schema=UTTERANCE,
    )
