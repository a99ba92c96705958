"""Genders of speakers from the table that comes with a corpus: `metainfo.txt` of MLS, LibriSpeech's `SPEAKERS.TXT`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from bystander.schemas.errors import InputError
from bystander.storage.recording_listing import describe_fault
from bystander.storage.voice_sources import read_gender

TABLE_NAMES = ("metainfo.txt", "SPEAKERS.TXT")
_GENDER_HEADINGS = frozenset({"gender", "sex"})
_SPEAKER_HEADINGS = frozenset({"speaker", "id", "reader", "reader_id"})

Gender = Literal["female", "male"]


def read_genders(system: Any, path: str) -> Mapping[str, Gender]:
    """Return the gender of each speaker; one whose rows contradict each other has none.

    The columns are separated by `|` and named by the first line that has a heading for both, which in `SPEAKERS.TXT`
    is a comment. A chapter's title may hold `|` too: only the columns before it are looked at.

    Raises:
        InputError: the file cannot be read, or has no such heading.
    """
    found: dict[str, set[Gender]] = {}
    columns: tuple[int, int] | None = None
    try:
        with system.open(path, "rb", compression=None) as stream:
            for raw in stream:
                line = raw.decode("utf-8", "replace").rstrip("\r\n")
                cells = [cell.strip() for cell in line.lstrip("; ").split("|")]
                if columns is None:
                    columns = _find_columns(cells)
                    continue
                if line.startswith(";") or len(cells) <= max(columns) or not cells[columns[0]]:
                    continue
                gender = read_gender(cells[columns[1]])
                found.setdefault(cells[columns[0]], set()).update({gender} if gender else ())
    except OSError as exc:
        raise InputError(f"table of speakers {path}: cannot be read ({describe_fault(exc)})") from exc
    if columns is None:
        raise InputError(f"table of speakers {path}: no line names the columns, such as SPEAKER | GENDER")
    return {speaker: next(iter(genders)) for speaker, genders in found.items() if len(genders) == 1}


def _find_columns(cells: list[str]) -> tuple[int, int] | None:
    folded = [cell.casefold() for cell in cells]
    speaker = next((i for i, cell in enumerate(folded) if cell in _SPEAKER_HEADINGS), None)
    gender = next((i for i, cell in enumerate(folded) if cell in _GENDER_HEADINGS), None)
    return None if speaker is None or gender is None else (speaker, gender)
