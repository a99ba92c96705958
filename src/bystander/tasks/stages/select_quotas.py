"""`select_quotas`: chooses the rows of a build from all accepted ones, so that its targets hold exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from bystander.schemas.errors import StageContractError
from bystander.schemas.identity import derive_seed, make_rng
from bystander.schemas.tpi_params import TpiTargets
from bystander.tasks.stages.quota_program import CellCounts, Counts, solve_cells

_SEEDED_AS = "select_quotas"


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A stratum with fewer rows than its target."""

    stratum: Literal["label", "scenario", "hard_negative"]
    key: str
    asked: int
    got: int

    @property
    def sentence(self) -> str:
        """Say it in one plain sentence."""
        what = "hard negatives" if self.stratum == "hard_negative" else f"{self.stratum} {self.key!r}"
        return f"{what}: {self.got} of {self.asked} rows, {self.asked - self.got} short."


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows of a build: ids of the two kinds, sorted. `twins` leads from a hard negative to its two-speaker row.

    In which order they are published is not decided here: it is that of the plan, which is shuffled by the seed.
    """

    pairs: tuple[str, ...]
    hard_negatives: tuple[str, ...]
    twins: Mapping[str, str]
    shortfalls: tuple[Shortfall, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """All rows, sorted within their kind."""
        return self.pairs + self.hard_negatives


@dataclass(frozen=True, slots=True)
class Missing:
    """How many rows the next wave must bring: by scenario, by label, and hard negatives. Full strata are left out."""

    by_scenario: Mapping[str, int]
    by_label: Mapping[str, int]
    hard_negatives: int

    @property
    def nothing(self) -> bool:
        return not (self.by_scenario or self.by_label or self.hard_negatives)


@dataclass(frozen=True, slots=True)
class _Pair:
    id: str
    rank: int
    cell: tuple[int, int, int]


def select_quotas(
    pairs: pa.Table,
    hard_negatives: pa.Table,
    targets: TpiTargets,
    scenarios: Sequence[str],
    build_seed: int,
    pinned: AbstractSet[str] = frozenset(),
) -> Selection:
    """Choose rows so that no target is exceeded and as many as possible are met.

    Reads of `pairs`: `id`, `scenario`, `label`, `timing`; of `hard_negatives`: `id`, `twin_id`. Targets are
    `targets.labels`, an equal share of all pairs for each of `scenarios` (a share that is not whole is rounded up in
    some), and `targets.hard_negatives`, whose twins are among the chosen pairs. `quota_program` lists the aims in
    their order.

    The result depends neither on the order of the rows nor on rows that no stratum asks for.

    Rows of the ids `pinned` are chosen in any case; they must be there and exceed no target. A pinned pair has the hard
    negative that is pinned with it, or none.

    Raises:
        StageContractError: an id occurs twice, there is no scenario, or what is pinned exceeds a target.
    """
    if not scenarios:
        raise StageContractError("select_quotas: there is no scenario to choose from")
    scenario_at = {key: i for i, key in enumerate(sorted(set(scenarios)))}
    label_at = {key: i for i, key in enumerate(sorted(targets.labels))}
    timing_at = {key: i for i, key in enumerate(sorted(set(pairs["timing"].to_pylist())))}
    columns = (pairs[name].to_pylist() for name in ("id", "scenario", "label", "timing"))
    usable = [
        _Pair(
            row_id,
            derive_seed(build_seed, row_id, _SEEDED_AS),
            (scenario_at[scenario], label_at[label], timing_at[timing]),
        )
        for row_id, scenario, label, timing in zip(*columns, strict=True)
        if scenario in scenario_at and label in label_at
    ]
    usable.sort(key=lambda pair: (pair.id not in pinned, pair.rank, pair.id))
    negative_of = _pick_negatives(hard_negatives, build_seed)
    negative_of = {pair: row_id for pair, row_id in negative_of.items() if (row_id in pinned) == (pair in pinned)}
    _check_ids(pairs["id"].to_pylist() + hard_negatives["id"].to_pylist())

    shape = (len(scenario_at), len(label_at), max(len(timing_at), 1))
    available, twinned = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    kept = CellCounts(pairs=np.zeros(shape, np.int64), twins=np.zeros(shape, np.int64))
    for pair in usable:
        available[pair.cell] += 1
        twinned[pair.cell] += pair.id in negative_of
        kept.pairs[pair.cell] += pair.id in pinned
        kept.twins[pair.cell] += pair.id in pinned and pair.id in negative_of
    label_targets = np.array([targets.labels[label] for label in label_at], np.int64)
    counts = solve_cells(
        available, twinned, label_targets, targets.hard_negatives, make_rng(build_seed, "", _SEEDED_AS, "cells"), kept
    )

    chosen, twins = _take_rows(usable, negative_of, counts.pairs.copy(), counts.twins.copy(), pinned)
    shortfalls = [
        Shortfall("label", label, targets.labels[label], int(got))
        for label, got in zip(label_at, counts.pairs.sum(axis=(0, 2)), strict=True)
    ]
    by_scenario = counts.pairs.sum(axis=(1, 2))
    asked = _share_out(targets.pairs, by_scenario)
    shortfalls += [
        Shortfall("scenario", scenario, int(asked[i]), int(by_scenario[i])) for scenario, i in scenario_at.items()
    ]
    shortfalls.append(Shortfall("hard_negative", "hard_negative", targets.hard_negatives, len(twins)))
    return Selection(
        pairs=tuple(sorted(pair.id for pair in chosen)),
        hard_negatives=tuple(sorted(twins)),
        twins=dict(sorted(twins.items())),
        shortfalls=tuple(shortfall for shortfall in shortfalls if shortfall.got < shortfall.asked),
    )


def find_missing(selection: Selection) -> Missing:
    """Return what a selection lacks."""
    gaps: dict[str, dict[str, int]] = {"label": {}, "scenario": {}, "hard_negative": {}}
    for shortfall in selection.shortfalls:
        gaps[shortfall.stratum][shortfall.key] = shortfall.asked - shortfall.got
    return Missing(gaps["scenario"], gaps["label"], sum(gaps["hard_negative"].values()))


def _pick_negatives(hard_negatives: pa.Table, build_seed: int) -> dict[str, str]:
    """Return the hard negative of each two-speaker row that has one; of several, the one of the lowest rank."""
    rows = zip(hard_negatives["id"].to_pylist(), hard_negatives["twin_id"].to_pylist(), strict=True)
    ranked = sorted((derive_seed(build_seed, row_id, _SEEDED_AS), row_id, twin_id) for row_id, twin_id in rows)
    return {twin_id: row_id for _, row_id, twin_id in reversed(ranked)}


def _check_ids(ids: list[str]) -> None:
    doubled = [row_id for row_id, times in Counter(ids).items() if times > 1]
    if doubled:
        raise StageContractError(f"select_quotas: {len(doubled)} row ids occur more than once, such as {doubled[0]}")


def _take_rows(
    usable: Sequence[_Pair],
    negative_of: Mapping[str, str],
    left: Counts,
    twins_left: Counts,
    pinned: AbstractSet[str],
) -> tuple[list[_Pair], dict[str, str]]:
    """Take the counts of each cell in order of rank: first the rows whose hard negatives are wanted, then any.

    Those that are pinned come before all others.
    """
    chosen: list[_Pair] = []
    twins: dict[str, str] = {}
    for pair in usable:
        if pair.id in pinned:
            left[pair.cell] -= 1
            chosen.append(pair)
            if pair.id in negative_of:
                twins_left[pair.cell] -= 1
                twins[negative_of[pair.id]] = pair.id
    usable = [pair for pair in usable if pair.id not in pinned]
    for pair in usable:
        if twins_left[pair.cell] and pair.id in negative_of:
            twins_left[pair.cell] -= 1
            left[pair.cell] -= 1
            chosen.append(pair)
            twins[negative_of[pair.id]] = pair.id
    taken = set(twins.values())
    for pair in usable:
        if left[pair.cell] and pair.id not in taken:
            left[pair.cell] -= 1
            chosen.append(pair)
    return chosen, twins


def _share_out(total: int, got: Counts) -> Counts:
    """Return each scenario's target: equal shares, where those that got the most have the odd rows."""
    share, remainder = divmod(total, len(got))
    asked = np.full(len(got), share)
    asked[np.argsort(-got, kind="stable")[:remainder]] += 1
    return asked
