"""Keep the exchanges that could really happen beside a voice assistant."""

from __future__ import annotations

from typing import cast

import pyarrow as pa

from bystander.schemas.engines import ENGINE_REASONS, RowFault, TextRequest
from bystander.schemas.identity import derive_seed
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.text_tasks import CHECK_REALISM
from bystander.schemas.tpi import REALISTIC, WRITTEN
from bystander.schemas.tpi_params import CheckRealism
from bystander.tasks.stages.option_scores import score_first_option
from bystander.tasks.stages.text_attempts import Row

NAME = "check_realism"


def check_realism(rows: pa.Table, context: StageContext) -> StageOutput:
    """Ask the judge whether each exchange could really happen.

    The judge sees the complete request: a cut one would be marked down for being cut.

    Columns read: primary_complete, third_party_text, scenario, timing. Columns written: realism_score, the judge's
    probability of the answer that says so.

    Reject reasons: unrealistic: the probability is below `min_score`. Reasons of the engine: `ENGINE_REASONS`.
    """
    params = cast(CheckRealism, context.params)

    def make_request(row: Row) -> TextRequest:
        texts = {"primary": row["primary_complete"], "third_party": row["third_party_text"], "timing": row["timing"]}
        scenario = context.taxonomy[row["scenario"]]
        return TextRequest(
            task=CHECK_REALISM.name,
            messages=context.pack.messages(CHECK_REALISM.name, {**texts, "scenario": scenario}),
            seed=derive_seed(context.build_seed, row["id"], NAME),
            variables={**texts, "scenario": scenario.key},
            options=context.pack.answers(CHECK_REALISM.name),
            temperature=0.0,
        )

    scores = score_first_option(context.judge, [make_request(row) for row in rows.to_pylist()])
    outcomes = [
        score
        if isinstance(score, RowFault)
        else {"realism_score": score}
        if score >= params.min_score
        else RowFault("unrealistic", f"probability {score:.3f} is below {params.min_score}")
        for score in scores
    ]
    return split_rows(NAME, rows, outcomes, REALISTIC)


STAGE = Stage(
    name=NAME,
    version=2,
    reads=WRITTEN,
    writes=REALISTIC,
    reasons=ENGINE_REASONS | {"unrealistic"},
    run=check_realism,
    params_type=CheckRealism,
    engines=("judge",),
    uses=(
        "id",
        "primary_complete",
        "third_party_text",
        "scenario",
        "timing",
    ),
    text_tasks=(CHECK_REALISM.name,),
    uses_taxonomy=True,
)
