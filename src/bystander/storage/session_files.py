"""The files of a recording session: `session.json`, and the takes as CSV for who likes tables."""

from __future__ import annotations

import csv
import io

from pydantic import ValidationError

from bystander.schemas.errors import InputError, MissingFileError
from bystander.schemas.recording_session import SessionSheet
from bystander.storage.filesystem import Store

SESSION_NAME, SHEET_NAME, TABLE_NAME = "session.json", "sheet.html", "sheet.csv"
_COLUMNS = (
    "code",
    "slate",
    "room",
    "speaker_a",
    "speaker_b",
    "line_a",
    "b_begins_at_word",
    "b_begins_at",
    "overlap_s",
    "pause_s",
    "line_b",
    "timing",
    "scenario",
    "row_id",
)
_FORMULA = ("=", "+", "-", "@", "\t")


def write_session(store: Store, sheet: SessionSheet, page: str) -> None:
    """Write the three files; `session.json`, which is what an import reads, last."""
    store.write_bytes(SHEET_NAME, page.encode())
    store.write_bytes(TABLE_NAME, _write_table(sheet).encode())
    store.write_bytes(SESSION_NAME, sheet.model_dump_json(indent=1).encode() + b"\n")


def read_session(store: Store) -> SessionSheet:
    """Read `session.json`.

    Raises:
        InputError: there is none, or it is not of this format.
    """
    where = store.uri_of(SESSION_NAME)
    try:
        return SessionSheet.model_validate_json(store.read_bytes(SESSION_NAME))
    except MissingFileError as exc:
        raise InputError(f"{where}: is missing; name the folder that `bystander session sheet` wrote") from exc
    except ValidationError as exc:
        fault = exc.errors()[0]
        place = ".".join(map(str, fault["loc"])) or "session"
        said = fault["msg"].removeprefix("Value error, ")
        raise InputError(f"{where}: is no session of this version ({place}: {said})") from exc


def _write_table(sheet: SessionSheet) -> str:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for take in sheet.takes:
        row = take.row
        cells = (
            take.code,
            take.slate,
            take.room,
            take.primary,
            take.third_party,
            row["primary_text"],
            take.cue_word + 1,
            take.primary_words[take.cue_word],
            f"{take.overlap_s:.2f}",
            f"{take.pause_s:.2f}",
            row["third_party_text"],
            row["timing"],
            row["scenario"],
            row["id"],
        )
        writer.writerow([_guard(str(cell)) for cell in cells])
    return sink.getvalue()


def _guard(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula, nor a lone carriage return in it for the end of a row."""
    cell = cell.replace("\r", " ")
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
