"""Planning which candidates a wave tries: pure functions of the queries, what was tried, and what is still missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bystander.schemas.errors import StageContractError
from bystander.schemas.taxonomy import Taxonomy
from bystander.schemas.tpi import CANDIDATE
from bystander.schemas.tpi_params import DrawScenarios
from bystander.tasks.stages.select_quotas import Missing
from bystander.tasks.stages.strata import choose_scenarios, choose_timings, draw_strata

CANDIDATES = pa.schema(
    [
        pa.field("query", pa.int32(), nullable=False),  # index of the query in the list given
        pa.field("draw", pa.int8(), nullable=False),
        pa.field("scenario", pa.dictionary(pa.int16(), pa.string()), nullable=False),
        pa.field("category", pa.dictionary(pa.int16(), pa.string()), nullable=False),
        pa.field("timing", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("rank", pa.uint64(), nullable=False),  # a hash of query and draw
    ]
)
"""All rows that the queries of a build may give, in the order in which they are tried."""

_PRIOR_ROWS = 2.0
"""Rows' worth of trust in the yield of all scenarios when that of one is measured."""
_CHUNK = 65_536  # queries whose strata are drawn at once


@dataclass(frozen=True, slots=True)
class Progress:
    """What waves have brought so far: rows tried by scenario, two-speaker rows accepted by (scenario, label), and
    accepted hard negatives by scenario."""

    tried: Mapping[str, int] = field(default_factory=dict)
    accepted: Mapping[tuple[str, str], int] = field(default_factory=dict)
    hard_negatives: Mapping[str, int] = field(default_factory=dict)


def enumerate_candidates(
    query_ids: Sequence[str], build_seed: int, params: DrawScenarios, taxonomy: Taxonomy
) -> pa.Table:
    """Return all candidates of the queries as a `CANDIDATES` table, ordered by draw number and then by rank.

    Every query gives its first row before one gives its second. What a candidate is does not depend on other queries,
    and the order of two candidates does not depend on the order of the queries.

    Raises:
        ConfigError: the parameters name an unknown scenario.
    """
    scenarios, timings = choose_scenarios(params, taxonomy), choose_timings(params)
    draws = min(params.draws_per_query, len(scenarios))
    chunks = [
        draw_strata(query_ids[start : start + _CHUNK], build_seed, scenarios, timings, draws)
        for start in range(0, len(query_ids), _CHUNK)
    ]
    columns: list[list[npt.NDArray[np.generic]]] = [[], [], [], [], []]
    for draw in range(draws if chunks else 0):
        rank = np.concatenate([chunk.rank[:, draw] for chunk in chunks])
        order = np.argsort(rank, kind="stable")
        scenario = np.concatenate([chunk.scenario[:, draw] for chunk in chunks])
        timing = np.concatenate([chunk.timing[:, draw] for chunk in chunks])
        values: tuple[npt.NDArray[np.generic], ...] = (
            order.astype(np.int32),
            np.full(len(order), draw, np.int8),
            scenario[order],
            timing[order],
            rank[order],
        )
        for column, part in zip(columns, values, strict=True):
            column.append(part)
    types = (np.int32, np.int8, np.int16, np.int8, np.uint64)
    query, number, scenario_at, timing_at, ranks = (
        np.concatenate(parts) if parts else np.empty(0, kind) for parts, kind in zip(columns, types, strict=True)
    )
    categories = sorted({scenario.category for scenario in scenarios})
    category_of = np.array([categories.index(scenario.category) for scenario in scenarios], np.int16)
    return pa.Table.from_arrays(
        [
            pa.array(query),
            pa.array(number),
            pa.DictionaryArray.from_arrays(scenario_at, [scenario.key for scenario in scenarios]),
            pa.DictionaryArray.from_arrays(category_of[scenario_at], categories),
            pa.DictionaryArray.from_arrays(timing_at, [timing.value for timing in timings]),
            pa.array(ranks),
        ],
        schema=CANDIDATES,
    )


def size_wave(
    missing: Missing, progress: Progress, scenarios: Sequence[str], surplus: float, min_yield: float = 0.2
) -> dict[str, int]:
    """Return how many rows the next wave should try in each scenario.

    Each scenario needs what it lacks divided by its yield. Labels and hard negatives that are short are sought where
    they turned up most, in proportion to their rates, as far as the rows wanted anyway will not bring them. Needs are
    fractions: their sum, times `surplus`, is rounded up once and shared out by largest remainders, so that a wave for a
    few missing rows is not a row in every scenario.

    Yields are measured, where little was tried drawn towards the yield of all scenarios (as if `_PRIOR_ROWS` more had
    been tried at that), and taken to be at least `min_yield`, so that a poor start does not use the queries up in one
    wave. Before anything was tried they are taken to be 1.
    """
    tried = np.array([progress.tried.get(scenario, 0) for scenario in scenarios], float)

    def measure(counts: Sequence[int], floor: float, prior: float) -> npt.NDArray[np.float64]:
        overall = sum(counts) / tried.sum() if tried.sum() else prior
        rates = (np.array(counts, float) + overall * _PRIOR_ROWS) / (tried + _PRIOR_ROWS)
        return np.asarray(np.maximum(rates, floor), float)

    def seek(short: int, counts: Sequence[int], prior: float) -> npt.NDArray[np.int64]:
        """Return rows where what is short turned up most, for what the rows wanted so far will not bring anyway."""
        rates = measure(counts, 0.0, prior)
        left = max(0.0, short - float(wanted @ rates))
        if not rates.any():
            rates = np.full(len(scenarios), min_yield)
        return _round_needs(np.minimum(left * rates / (rates**2).sum(), left / min_yield), surplus)

    labels = sorted({label for _, label in progress.accepted} | set(missing.by_label))
    all_labels = [sum(progress.accepted.get((s, label), 0) for label in labels) for s in scenarios]
    gaps = np.array([missing.by_scenario.get(scenario, 0) for scenario in scenarios])
    wanted = np.maximum(gaps, _round_needs(gaps / measure(all_labels, min_yield, 1.0), surplus))
    for label, short in sorted(missing.by_label.items()):
        found = [progress.accepted.get((scenario, label), 0) for scenario in scenarios]
        wanted = wanted + seek(short, found, 1.0 / max(len(labels), 1))
    wanted = wanted + seek(missing.hard_negatives, [progress.hard_negatives.get(s, 0) for s in scenarios], 1.0)
    return dict(zip(scenarios, wanted.tolist(), strict=True))


def _round_needs(needs: npt.NDArray[np.float64], surplus: float) -> npt.NDArray[np.int64]:
    """Return whole numbers that sum to the needs' sum times `surplus`, rounded up."""
    scaled = np.round(needs * surplus, 6)
    whole = np.floor(scaled).astype(np.int64)
    left = math.ceil(round(float(scaled.sum()), 6)) - int(whole.sum())
    whole[np.argsort(whole - scaled, kind="stable")[:left]] += 1
    return whole


def plan_wave(candidates: pa.Table, used: npt.NDArray[np.bool_], wanted: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """Return the indices of the candidates to try next, ascending: for each scenario the first `wanted` unused ones.

    The timings take equal shares, as far as there are candidates; an odd row goes to the timing whose next candidate
    comes first. `used`, shape (candidates,), marks those tried before. Fewer are returned where a scenario has no more.
    """
    if used.shape != (len(candidates),):
        raise StageContractError(f"plan_wave: {len(candidates)} candidates, {used.shape} marks")
    scenario_keys, scenario_at = _read_dictionary(candidates["scenario"])
    timing_keys, timing_at = _read_dictionary(candidates["timing"])
    groups = scenario_at.astype(np.int64) * len(timing_keys) + timing_at
    free = np.flatnonzero(~used)
    by_group = free[np.argsort(groups[free], kind="stable")]
    bounds = np.searchsorted(groups[by_group], np.arange(len(scenario_keys) * len(timing_keys) + 1))
    chosen: list[npt.NDArray[np.int64]] = []
    for i, scenario in enumerate(scenario_keys):
        queues = [
            by_group[bounds[i * len(timing_keys) + j] : bounds[i * len(timing_keys) + j + 1]]
            for j in range(len(timing_keys))
        ]
        chosen += _take_evenly(queues, wanted.get(scenario, 0))
    return np.sort(np.concatenate(chosen)) if chosen else np.empty(0, np.int64)


def plan_odd_rows(
    candidates: pa.Table,
    used: npt.NDArray[np.bool_],
    got: Mapping[str, int],
    scenarios: Sequence[str],
    pairs: int,
    surplus: float,
) -> npt.NDArray[np.int64]:
    """Return the indices of candidates for rows that any scenario may give, ascending; none where there are no such.

    `pairs` rows over the scenarios seldom come out even, and it is open which of them have the odd rows. They are
    sought in some scenarios first; this is for when those have no more candidates. `got` are the rows chosen so far.
    """
    share, odd = divmod(pairs, len(scenarios))
    left = odd - sum(got.get(scenario, 0) > share for scenario in scenarios)
    if left <= 0:
        return np.empty(0, np.int64)
    wanted = {scenario: 1 for scenario in scenarios if got.get(scenario, 0) == share}
    return plan_wave(candidates, used, wanted)[: math.ceil(left * surplus)]


def take_candidates(queries: pa.Table, candidates: pa.Table, indices: npt.NDArray[np.int64]) -> pa.Table:
    """Return the `CANDIDATE` rows of the chosen candidates: their queries (a `QUERY` table) and draw numbers."""
    chosen = candidates.take(pa.array(indices, pa.int64()))
    rows = queries.take(chosen["query"].cast(pa.int64()))
    return rows.append_column(CANDIDATE.field("draw"), chosen["draw"].cast(pa.int32())).cast(CANDIDATE)


def _take_evenly(queues: list[npt.NDArray[np.int64]], count: int) -> list[npt.NDArray[np.int64]]:
    """Take `count` from the fronts of the queues in equal shares, topping up from the others where one is short."""
    taken = [0] * len(queues)
    left = min(count, sum(map(len, queues)))
    while left:
        open_ = [j for j in range(len(queues)) if taken[j] < len(queues[j])]
        share = left // len(open_)
        if share == 0:
            open_.sort(key=lambda j: (taken[j], queues[j][taken[j]]))
            open_, share = open_[:left], 1
        for j in open_:
            step = min(share, len(queues[j]) - taken[j])
            taken[j] += step
            left -= step
    return [queue[:number] for queue, number in zip(queues, taken, strict=True)]


def _read_dictionary(column: pa.ChunkedArray) -> tuple[list[str], npt.NDArray[np.int64]]:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # an empty column has no chunk
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    return array.dictionary.to_pylist(), array.indices.to_numpy(zero_copy_only=False).astype(np.int64)
