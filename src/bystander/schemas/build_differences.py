"""What differs between two builds of one kind, row by row and in their manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bystander.schemas.description_changes import Change

RowChange = Literal["removed", "added", "changed", "provenance"]
"""In the first build only, in the second only, in both with another content, or with the same content and other notes
on where it came from."""

PROVENANCE = frozenset({"query_source", "source", "pack", "pack_digest", "engines", "seed", "audio.encoding"})
"""Columns that say what a row was made from and with, or how its audio is stored, and nothing of what it is."""

CauseCode = Literal[
    "setting",
    "unexplained",
    "no_fingerprints",
    "input",
    "twin",
    "rejected",
    "quota",
    "not_drawn",
    "no_request",
    "other_source",
]
"""`setting`: something that decides a stage's results changed. `unexplained`: nothing did. `no_fingerprints`: what
changed cannot be known. `input`: it stands otherwise in the input. `twin`: it follows the other row of its transcript.
`rejected`, `quota`: a stage refused it, or the quotas had no room for it, in the build that lacks it. `not_drawn`: it
was never begun there. `no_request`: its request or recording is not in the input there, or cannot be used.
`other_source`: the two are parts of different builds."""


@dataclass(frozen=True, slots=True, order=True)
class Cause:
    """Why a row differs: a code, the stage, what of it (a field of its fingerprint, or a reason), and a sentence."""

    code: CauseCode
    stage: str
    field: str
    sentence: str


@dataclass(frozen=True, slots=True)
class RowDifference:
    """One row. `causes` are in the order of the stages; none where only provenance differs."""

    id: str
    change: RowChange
    causes: tuple[Cause, ...]
    columns: tuple[str, ...]
    """The columns that differ, in their published order; none in a row that one build lacks."""


@dataclass(frozen=True, slots=True)
class AudioDifferences:
    """Clips of rows in both builds that differ."""

    encoding_only: int
    """Other bytes or another file name, the same samples."""
    samples: int
    """Other samples."""
    duration: int
    """Other samples, and another duration."""


@dataclass(frozen=True, slots=True)
class ComparedBuild:
    """One of the two."""

    uri: str
    dataset: str
    build: str
    kind: str
    rows: int
    has_fingerprints: bool


@dataclass(frozen=True, slots=True)
class BuildDifferences:
    """All that differs; `rows` are sorted by change and id, `manifest` leads from a section to its changes."""

    before: ComparedBuild
    after: ComparedBuild
    same: int
    rows: tuple[RowDifference, ...]
    audio: AudioDifferences
    manifest: Mapping[str, tuple[Change, ...]]
    only_before: tuple[str, ...]
    """Columns that the second build does not have; rows are not compared by them."""
    only_after: tuple[str, ...]
    shards_not_read: int
    """Shards that both builds have, by their checksums."""

    def count(self, change: RowChange) -> int:
        """Return how many rows changed so."""
        return sum(row.change == change for row in self.rows)

    @property
    def unexplained(self) -> int:
        """Rows that changed though nothing that decides them did."""
        return sum(any(cause.code == "unexplained" for cause in row.causes) for row in self.rows)

    @property
    def identical(self) -> bool:
        """Whether both builds have the same rows, to the byte of every clip."""
        return not self.rows and not self.only_before and not self.only_after

    def group(self) -> list[tuple[RowChange, tuple[Cause, ...], list[RowDifference]]]:
        """Return the rows of each change and combination of causes, the largest group of each change first."""
        groups: dict[tuple[RowChange, tuple[Cause, ...]], list[RowDifference]] = {}
        for row in self.rows:
            groups.setdefault((row.change, row.causes), []).append(row)
        order: tuple[RowChange, ...] = ("removed", "added", "changed", "provenance")
        return sorted(
            ((change, causes, rows) for (change, causes), rows in groups.items()),
            key=lambda group: (order.index(group[0]), -len(group[2]), group[1]),
        )
