"""Dialogues in CSV, as MELD and EmoryNLP have them.

Columns read, in any case and order: `Utterance`, `Speaker`, `StartTime`, `EndTime` (`00:14:38,127`), and `Season` and
`Episode`, whose clock the times are of. EmoryNLP's speakers are lists (`['Monica Geller']`): a line that several say at
once cannot be used.
"""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Iterator, Mapping

from bystander.schemas.errors import InputError
from bystander.storage.corpora.utterances import Utterance, WrongFieldError, check_seconds

_COLUMNS = ("utterance", "speaker", "starttime", "endtime", "season", "episode")


def read_dialogue_csv(name: str, text: str) -> Iterator[Utterance]:
    """Yield the utterances of a file, its columns divided by commas, semicolons or tabs; `name` stands in messages.

    Raises:
        InputError: it has no head, or lacks a column.
    """
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=_find_delimiter(text))
    head = [column.strip().casefold() for column in next(rows, [])]
    if missing := [column for column in _COLUMNS if column not in head]:
        raise InputError(
            f"{name}: has no column {', '.join(missing)}; columns of MELD and EmoryNLP are Utterance, Speaker, "
            "StartTime, EndTime, Season and Episode"
        )
    try:
        for cells in rows:
            if cells:
                yield _read_row(dict(zip(head, cells, strict=False)), f"{name}: line {rows.line_num}")
    except csv.Error as exc:
        raise InputError(f"{name}: line {rows.line_num}: is no CSV ({exc})") from exc


def _find_delimiter(text: str) -> str:
    """Return what divides the columns of the first line: spreadsheets of some countries write semicolons or tabs."""
    head = text.partition("\n")[0]
    return max(",;\t", key=head.count)


def _read_row(row: Mapping[str, str], place: str) -> Utterance:
    recording = ""
    try:
        recording = f"s{_read_number(row, 'season'):02d}e{_read_number(row, 'episode'):02d}"
        return Utterance(
            recording,
            place,
            _read_speaker(_read(row, "speaker")),
            _read_clock(row, "starttime"),
            _read_clock(row, "endtime"),
            _read(row, "utterance"),
        )
    except WrongFieldError as fault:
        return Utterance(recording, place, fault=str(fault))


def _read(row: Mapping[str, str], name: str) -> str:
    value = row.get(name, "").strip()
    if not value:
        raise WrongFieldError(f"field {name!r} is missing")
    return value


def _read_number(row: Mapping[str, str], name: str) -> int:
    value = _read(row, name)
    if not value.isdecimal():
        raise WrongFieldError(f"field {name!r} is {value[:40]!r}, no number")
    return int(value)


def _read_clock(row: Mapping[str, str], name: str) -> float:
    value = _read(row, name)
    *clock, seconds = value.replace(",", ".").split(":")
    if len(clock) > 2 or not all(map(_is_number, (*clock, seconds.replace(".", "", 1)))):
        raise WrongFieldError(f"field {name!r} is {value[:40]!r}, no time such as 00:14:38,127")
    total = check_seconds(seconds, name)
    for power, part in enumerate(reversed(clock), 1):
        total += int(part) * 60.0**power
    return round(total, 6)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _read_speaker(value: str) -> str:
    if not value.startswith("["):
        return value
    try:
        names = ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise WrongFieldError(f"field 'speaker' is {value[:40]!r}, no list of names") from None
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
        raise WrongFieldError(f"field 'speaker' names {len(names)} speakers at once; one must speak")
    return names[0]
