"""A file of the rows that training left out, which several processes write to."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import ValidationError

from bystander.schemas.errors import StorageError
from bystander.schemas.training_data import LeftOutRow


def append_left_out(path: Path, row: LeftOutRow) -> None:
    """Add a row as a line of JSON, in one write, so that lines of several processes do not mix.

    Raises:
        StorageError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            os.write(descriptor, row.model_dump_json().encode() + b"\n")
        finally:
            os.close(descriptor)
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written ({exc.strerror})") from exc


def gather_left_out(folder: Path) -> tuple[LeftOutRow, ...]:
    """Return the rows that the stages of a run noted in files `left_out*.jsonl` of its folder."""
    return tuple(row for file in sorted(folder.glob("left_out*.jsonl")) for row in read_left_out(file))


def read_left_out(path: Path) -> tuple[LeftOutRow, ...]:
    """Return the rows that were left out, each once; a line that a killed process left half is passed over."""
    if not path.exists():
        return ()
    found: dict[tuple[str, int], LeftOutRow] = {}
    for line in path.read_bytes().splitlines():
        try:
            row = LeftOutRow.model_validate_json(line)
        except ValidationError:
            continue
        found.setdefault((row.file, row.row), row)
    return tuple(found[key] for key in sorted(found))
