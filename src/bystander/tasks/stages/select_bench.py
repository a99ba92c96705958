"""`select_bench`: chooses the rows of TPI-Test and Janus-Test, as many of them twins as can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from bystander.schemas.identity import derive_seed
from bystander.schemas.tpi_params import TpiTargets
from bystander.tasks.stages.select_quotas import Selection, Shortfall, select_quotas

_SEEDED_AS = "select_bench"


def select_bench(
    pairs: pa.Table, hard_negatives: pa.Table, targets: TpiTargets, scenarios: Sequence[str], build_seed: int
) -> Selection:
    """Choose rows so that no target is exceeded and as many as possible are met.

    Two-speaker rows are chosen by `select_quotas`, which takes as many whose hard negative is at hand as the quotas
    allow. What is still wanted of hard negatives comes from two-speaker rows that are not chosen: the poorest scenario
    has the next one. In the result, `hard_negatives` has all of them and `twins` only the linked ones.

    Reads of `pairs`: `id`, `scenario`, `label`, `timing`; of `hard_negatives`: `id`, `twin_id`, `scenario`.
    """
    chosen = select_quotas(pairs, hard_negatives, targets, scenarios, build_seed)
    taken = set(chosen.pairs)
    got: Counter[str] = Counter()
    waiting: dict[str, list[tuple[int, str]]] = {}
    columns = (hard_negatives[name].to_pylist() for name in ("id", "twin_id", "scenario"))
    for row_id, twin_id, scenario in zip(*columns, strict=True):
        if row_id in chosen.twins:
            got[scenario] += 1
        elif twin_id not in taken and scenario in scenarios:
            waiting.setdefault(scenario, []).append((derive_seed(build_seed, row_id, _SEEDED_AS), row_id))
    for queue in waiting.values():
        queue.sort(reverse=True)
    lone: list[str] = []
    while waiting and len(chosen.twins) + len(lone) < targets.hard_negatives:
        scenario = min(waiting, key=lambda key: (got[key], waiting[key][-1]))
        lone.append(waiting[scenario].pop()[1])
        got[scenario] += 1
        if not waiting[scenario]:
            del waiting[scenario]
    count = len(chosen.twins) + len(lone)
    shortfalls = [shortfall for shortfall in chosen.shortfalls if shortfall.stratum != "hard_negative"]
    if count < targets.hard_negatives:
        shortfalls.append(Shortfall("hard_negative", "hard_negative", targets.hard_negatives, count))
    return replace(
        chosen,
        hard_negatives=tuple(sorted([*chosen.twins, *lone])),
        shortfalls=tuple(shortfalls),
    )
