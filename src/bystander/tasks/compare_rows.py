"""Which rows of two builds are the same, differ, or are in one only: by id, from digests of their columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bystander.schemas.errors import BuildError
from bystander.storage.row_digests import RowDigests


@dataclass(frozen=True, slots=True)
class RowMatch:
    """Positions of rows in the two tables, each list sorted by id."""

    removed: list[int]
    """Rows of the first that the second lacks."""
    added: list[int]
    """Rows of the second that the first lacks."""
    changed: list[tuple[int, int]]
    """Rows of both in which a column differs: position in the first, and in the second."""
    columns: list[frozenset[str]]
    """The columns that differ, one set for each of `changed`."""
    same: int
    """Rows of both in which none differs."""


def match_rows(before: RowDigests, after: RowDigests) -> RowMatch:
    """Match two tables, of the same columns, row by row.

    Raises:
        BuildError: an id occurs twice in one of them.
    """
    if before.names != after.names:
        raise ValueError(f"columns {before.names} cannot be compared with {after.names}")
    old, new = _place_ids(before.ids), _place_ids(after.ids)
    shared = sorted(old.keys() & new.keys())
    first = np.array([old[row_id] for row_id in shared], np.int64)
    second = np.array([new[row_id] for row_id in shared], np.int64)
    differs = before.values[first] != after.values[second]
    at = np.flatnonzero(differs.any(axis=1))
    return RowMatch(
        removed=[old[row_id] for row_id in sorted(old.keys() - new.keys())],
        added=[new[row_id] for row_id in sorted(new.keys() - old.keys())],
        changed=[(int(first[i]), int(second[i])) for i in at],
        columns=_name_columns(differs[at], before.names),
        same=len(shared) - len(at),
    )


def _name_columns(differs: npt.NDArray[np.bool_], names: Sequence[str]) -> list[frozenset[str]]:
    """Return the names of the columns that differ in each row; equal sets are one object."""
    known: dict[bytes, frozenset[str]] = {}
    sets = []
    for row in differs:
        key = row.tobytes()
        if key not in known:
            known[key] = frozenset(name for name, other in zip(names, row, strict=True) if other)
        sets.append(known[key])
    return sets


def _place_ids(ids: Sequence[str]) -> dict[str, int]:
    places = {row_id: i for i, row_id in enumerate(ids)}
    if len(places) < len(ids):
        doubled = next(row_id for row_id, times in Counter(ids).items() if times > 1)
        raise BuildError(f"row {doubled} occurs more than once in a build; see `bystander verify`")
    return places
