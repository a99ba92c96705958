"""What is wrong with a pack: faults, each with its file, line and field."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class PackFault:
    """One thing that is wrong, and what to do.

    `file` is relative to the pack's folder, `line` counts from 1 (None where it cannot be told), `field` is dotted and
    may be empty. A pack with errors cannot be built with, or builds rows that are all rejected; a warning is likely to
    be a mistake.
    """

    file: str
    line: int | None
    field: str
    message: str
    level: Level = "error"

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (place, self.field, self.message) if part)


def order_faults(faults: Iterable[PackFault]) -> list[PackFault]:
    """Return the faults without repetitions, by file and line, the manifest's first."""
    unique = dict.fromkeys(faults)
    return sorted(
        unique, key=lambda fault: (not fault.file.endswith(".yaml"), fault.file, fault.line or 0, fault.field)
    )
