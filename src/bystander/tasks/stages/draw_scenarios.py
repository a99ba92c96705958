"""`draw_scenarios`: gives each planned candidate its row id, scenario, category and timing."""

from __future__ import annotations

from typing import cast

import pyarrow as pa

from bystander.schemas.engines import RowFault
from bystander.schemas.identity import make_id
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.tpi import CANDIDATE, DRAWN
from bystander.schemas.tpi_params import DrawScenarios
from bystander.tasks.stages.strata import choose_scenarios, choose_timings, draw_strata


def draw_scenarios(rows: pa.Table, context: StageContext) -> StageOutput:
    """Draw each candidate's stratum, which depends on the build seed, its query and its draw number alone.

    Reads: `query_id`, `draw`. Writes: `id`, `scenario`, `category`, `timing`.

    Rejects: `no_stratum_left`: the query has had a row in every scenario.

    Raises:
        ConfigError: the parameters name an unknown scenario.
    """
    params = cast(DrawScenarios, context.params)
    scenarios, timings = choose_scenarios(params, context.taxonomy), choose_timings(params)
    query_ids, draws = rows["query_id"].to_pylist(), rows["draw"].to_pylist()
    strata = draw_strata(query_ids, context.build_seed, scenarios, timings, len(scenarios))
    outcomes: list[dict[str, str] | RowFault] = []
    for i, (query_id, draw) in enumerate(zip(query_ids, draws, strict=True)):
        if not 0 <= draw < len(scenarios):
            outcomes.append(RowFault("no_stratum_left", f"draw {draw} of {len(scenarios)} scenarios"))
            continue
        scenario = scenarios[strata.scenario[i, draw]]
        outcomes.append(
            {
                "id": make_id("row", query_id, draw),
                "scenario": scenario.key,
                "category": scenario.category,
                "timing": timings[strata.timing[i, draw]].value,
            }
        )
    return split_rows("draw_scenarios", rows, outcomes, DRAWN)


STAGE = Stage(
    name="draw_scenarios",
    version=1,
    reads=CANDIDATE,
    writes=DRAWN,
    reasons=frozenset({"no_stratum_left"}),
    run=draw_scenarios,
    params_type=DrawScenarios,
    uses=("query_id", "draw"),
    uses_taxonomy=True,
)
