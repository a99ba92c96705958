"""`select_sid`: chooses the rows of a SID build from all accepted ones, by quotas of language and category."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from bystander.schemas.errors import StageContractError
from bystander.schemas.identity import derive_seed
from bystander.schemas.sid import NOISE, SILENCE
from bystander.schemas.sid_config import SidTargets

_SEEDED_AS = "select_sid"

Cell = tuple[str | None, str]
"""Language (None for silence and noise) and category."""


@dataclass(frozen=True, slots=True)
class SidShortfall:
    """A cell with fewer rows than its quota."""

    cell: Cell
    asked: int
    got: int
    capped: int
    """Rows of the cell that the limit a recording keeps out."""

    @property
    def sentence(self) -> str:
        """Say it in one plain sentence."""
        language, category = self.cell
        what = category if language is None else f"{category} in {language!r}"
        cap = f" ({self.capped} more are kept out by max_per_recording)" if self.capped else ""
        return f"{what}: {self.got} of {self.asked} rows, {self.asked - self.got} short{cap}."


@dataclass(frozen=True, slots=True)
class SidSelection:
    """The rows of a build: their ids, sorted; what quotas lack; and how many rows no quota took, by cell."""

    ids: tuple[str, ...]
    shortfalls: tuple[SidShortfall, ...]
    surplus: Mapping[Cell, int]

    @property
    def missing(self) -> dict[Cell, int]:
        """How many rows each cell lacks; full cells are left out."""
        return {shortfall.cell: shortfall.asked - shortfall.got for shortfall in self.shortfalls}


@dataclass(frozen=True, slots=True)
class _Row:
    id: str
    rank: int
    synthetic: bool
    recording: str | None
    speaker: tuple[str | None, str | None]


def select_sid(rows: pa.Table, targets: SidTargets, build_seed: int) -> SidSelection:
    """Choose rows so that no quota is exceeded and as many as possible are met.

    Reads `id`, `language`, `category`, `recording_id`, `speaker`, `synthetic` (all but the first and the category may
    be null, as they are of silence and noise). With `targets.per_language` null, all turns of the languages are taken
    as they come, up to the limit a recording: the natural distribution.

    Within a cell rows of real speech come before synthetic ones, which only fill up what those leave open. Else the
    next row is always one of the recording, and then of the speaker, from which fewest are chosen so far, over all
    cells; the seed decides between equals. So no recording dominates while others have rows. With `max_per_recording`,
    cells that are scarcest for their quota choose first, so that the others do not use up the recordings that they
    need.

    The result depends neither on the order of the rows nor on rows that no quota asks for.

    Raises:
        StageContractError: an id occurs twice.
    """
    ids = rows["id"].to_pylist()
    doubled = [row_id for row_id, times in Counter(ids).items() if times > 1]
    if doubled:
        raise StageContractError(f"select_sid: {len(doubled)} row ids occur more than once, such as {doubled[0]}")
    cells: dict[Cell, list[_Row]] = defaultdict(list)
    columns = (rows[name].to_pylist() for name in ("language", "category", "recording_id", "speaker", "synthetic"))
    for row_id, language, category, recording, speaker, synthetic in zip(ids, *columns, strict=True):
        cell = (None if category in (SILENCE, NOISE) else language, category)
        rank = derive_seed(build_seed, row_id, _SEEDED_AS)
        cells[cell].append(_Row(row_id, rank, bool(synthetic), recording, (recording, speaker)))
    quotas = _list_quotas(targets, cells)
    chosen: list[str] = []
    counts = _Counts(targets.max_per_recording)
    shortfalls: list[SidShortfall] = []
    surplus: dict[Cell, int] = {cell: len(members) for cell, members in cells.items()}
    order = sorted(quotas, key=lambda cell: (len(cells[cell]) / max(1, quotas[cell] or 0), cell[0] or "", cell[1]))
    for cell in order:
        quota = len(cells[cell]) if quotas[cell] is None else quotas[cell]
        assert quota is not None
        picked, capped = counts.pick(cells[cell], quota)
        chosen += picked
        surplus[cell] = len(cells[cell]) - len(picked)
        if quotas[cell] is not None and len(picked) < quota:
            shortfalls.append(SidShortfall(cell, quota, len(picked), capped))
    shortfalls.sort(key=lambda one: (one.cell[0] or "", one.cell[1]))
    left = {cell: surplus[cell] for cell in sorted(surplus, key=lambda c: (c[0] or "", c[1])) if surplus[cell]}
    return SidSelection(tuple(sorted(chosen)), tuple(shortfalls), left)


def _list_quotas(targets: SidTargets, cells: Mapping[Cell, Sequence[_Row]]) -> dict[Cell, int | None]:
    quotas: dict[Cell, int | None] = {(None, SILENCE): targets.silence, (None, NOISE): targets.noise}
    for language in targets.languages:
        if targets.per_language is None:
            quotas |= dict.fromkeys(cell for cell in cells if cell[0] == language)
        else:
            quotas |= {(language, category): quota for category, quota in targets.per_language.items()}
    return quotas


class _Counts:
    """How many rows of each recording and speaker are chosen so far."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._recordings: Counter[str] = Counter()
        self._speakers: Counter[tuple[str | None, str | None]] = Counter()

    def pick(self, rows: Sequence[_Row], quota: int) -> tuple[list[str], int]:
        """Choose up to `quota` rows; return their ids, and how many of those not chosen the limit keeps out."""
        # Counts only grow, so a row whose key is still right when it comes up is the least of all.
        heap = [(*self._key(row), row.id, at) for at, row in enumerate(rows)]
        heapq.heapify(heap)
        picked: list[str] = []
        capped = 0
        while heap and len(picked) < quota:
            *stored, row_id, at = heapq.heappop(heap)
            row = rows[at]
            if row.recording is not None and self._most is not None and self._recordings[row.recording] >= self._most:
                capped += 1
                continue
            key = self._key(row)
            if tuple(stored) != key:
                heapq.heappush(heap, (*key, row_id, at))
                continue
            picked.append(row_id)
            if row.recording is not None:
                self._recordings[row.recording] += 1
                self._speakers[row.speaker] += 1
        return picked, capped

    def _key(self, row: _Row) -> tuple[bool, int, int, int]:
        if row.recording is None:
            return (row.synthetic, 0, 0, row.rank)
        return (row.synthetic, self._recordings[row.recording], self._speakers[row.speaker], row.rank)
