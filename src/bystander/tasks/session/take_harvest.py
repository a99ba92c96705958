"""What came of a session's recordings: good takes, and those that became no row."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass, field

from bystander.schemas.engines import RowFault
from bystander.schemas.recording_session import SessionSheet, Take
from bystander.tasks.session.found_takes import FoundTake
from bystander.tasks.session.read_take import ReadTake

FIND, READ, CHOOSE = "find_takes", "read_takes", "choose_takes"
STEPS = (FIND, READ, CHOOSE)
"""The steps, by which rejects are filed, in order."""
_COLUMNS = (
    "code",
    "room",
    "outcome",
    "cut_in_asked_s",
    "cut_in_asked_at",
    "cut_in_s",
    "cut_in_at",
    "word_errors",
    "file",
    "start_s",
    "detail",
)
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


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
    """Return what came of every take as CSV: the cut-in asked for and obtained, or why it became no row.

    Cut-ins are the third party's start minus the primary's end, in seconds. With one channel, overlap is not seen:
    there the one obtained is empty.
    """
    takes = {take.code: take for take in sheet.takes}
    lines: list[tuple[str, list[str]]] = []
    for found, read in harvest.good:
        assert found.take is not None
        got = "" if read.came_in_at is None else f"{read.offset_s:.2f}"
        cells = [found.take.room, "row", *_describe_cue(found.take), got, read.came_in_at or ""]
        lines.append(
            (found.take.code, [*cells, f"{read.errors:.2f}", found.source, f"{read.start_s:.2f}", "kept as a row"])
        )
    for one in harvest.refused:
        take = takes.get(one.code or "")
        start = f"{one.found.start_s:.2f}" if one.found is not None else ""
        cue = _describe_cue(take) if take is not None else ("", "")
        cells = [take.room if take else "", one.fault.reason, *cue, "", "", "", one.source, start, one.fault.detail]
        lines.append((one.code or "", cells))
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for code, cells in sorted(lines):
        writer.writerow([code, *(_guard(cell) for cell in cells)])
    return sink.getvalue()


def write_words(harvest: TakeHarvest) -> str:
    """Return when each word of the good takes was said: a take a line, JSON; seconds from the start of its clip."""
    lines = []
    for found, read in harvest.good:
        assert found.take is not None
        words = [
            {"speaker": role, "word": word.word, "start_s": round(word.start_s, 3), "end_s": round(word.end_s, 3)}
            for role, word in read.words
        ]
        entry = {"code": found.take.code, "file": found.source, "clip_start_s": round(read.start_s, 3), "words": words}
        lines.append(json.dumps(entry, ensure_ascii=False) + "\n")
    return "".join(lines)


def _describe_cue(take: Take) -> tuple[str, str]:
    return f"{take.offset_s:.2f}", take.primary_words[take.cue_word]


def _guard(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula; numbers stay numbers."""
    cell = cell.replace("\r", " ")  # not quoted by the writer, a row's end to readers
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@")) and not _NUMBER.fullmatch(cell) else cell
