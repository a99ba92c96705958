"""What came of a session's recordings: good takes, and those that became no row."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field

from bystander.schemas.engines import RowFault
from bystander.schemas.recording_session import SessionSheet
from bystander.tasks.session.found_takes import FoundTake
from bystander.tasks.session.read_take import ReadTake

FIND, READ, CHOOSE = "find_takes", "read_takes", "choose_takes"
STEPS = (FIND, READ, CHOOSE)
"""The steps, by which rejects are filed, in order."""


@dataclass(frozen=True, slots=True)
class RefusedTake:
    """A recording, or a take of the sheet, that became no row."""

    step: str
    fault: RowFault
    found: FoundTake | None = None
    code: str | None = None
    source: str = ""


@dataclass(slots=True)
class TakeHarvest:
    """What came of the recordings. `good` has one recording a take, in the order of the sheet."""

    good: list[tuple[FoundTake, ReadTake]] = field(default_factory=list)
    refused: list[RefusedTake] = field(default_factory=list)


def write_takes_table(sheet: SessionSheet, harvest: TakeHarvest) -> str:
    """Return what came of every take as CSV: the overlap asked for and obtained, or why it became no row."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(
        ["code", "room", "outcome", "overlap_asked_s", "overlap_s", "word_errors", "file", "start_s", "detail"]
    )
    rooms = {take.code: take for take in sheet.takes}
    lines: list[tuple[str, list[str]]] = []
    for found, read in harvest.good:
        assert found.take is not None
        overlap = read.cells["overlap_s"]
        cells = [
            found.take.room,
            "row",
            f"{found.take.overlap_s:.2f}",
            "" if overlap is None else f"{overlap:.2f}",
            f"{read.errors:.2f}",
            found.source,
            f"{read.start_s:.2f}",
            "",
        ]
        lines.append((found.take.code, cells))
    for one in harvest.refused:
        take = rooms.get(one.code or "")
        start = f"{one.found.start_s:.2f}" if one.found is not None else ""
        asked = f"{take.overlap_s:.2f}" if take is not None else ""
        cells = [take.room if take else "", one.fault.reason, asked, "", "", one.source, start, one.fault.detail]
        lines.append((one.code or "", cells))
    for code, cells in sorted(lines):
        writer.writerow([code, *(f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell for cell in cells)])
    return sink.getvalue()
