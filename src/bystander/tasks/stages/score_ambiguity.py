"""Score how plausibly one person says the whole transcript: the source of hard negatives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import ENGINE_REASONS, RowFault, TextRequest
from bystander.schemas.identity import derive_seed
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.text_tasks import SCORE_AMBIGUITY
from bystander.schemas.tpi import REPLIED, SCORED
from bystander.schemas.tpi_params import ScoreAmbiguity
from bystander.tasks.stages.option_scores import score_options
from bystander.tasks.stages.text_attempts import Row
from bystander.tasks.stages.text_rules import addresses_somebody

NAME = "score_ambiguity"
_GRADES = ("1", "2", "3", "4", "5")


def score_ambiguity(rows: pa.Table, context: StageContext) -> StageOutput:
    """Ask the judge for a grade from 1 (surely two people) to 5 (surely one); the score is its expectation.

    A line that addresses somebody ("you" and its kin, except in a request to the assistant) gives the second person
    away, as the rubric of the TPI paper has it (appendix L): its score is at most `max_score_when_addressed`.

    Columns read: primary_text, third_party_text. Columns written: ambiguity_score, in [1, 5].

    Reject reasons: those of the engine, `ENGINE_REASONS`.
    """

    def make_request(row: Row) -> TextRequest:
        texts = {"primary": row["primary_text"], "third_party": row["third_party_text"]}
        return TextRequest(
            task=SCORE_AMBIGUITY.name,
            messages=context.pack.messages(SCORE_AMBIGUITY.name, texts),
            seed=derive_seed(context.build_seed, row["id"], NAME),
            variables=texts,
            options=_GRADES,
            temperature=0.0,
        )

    params = cast(ScoreAmbiguity, context.params)
    texts = rows.select(("id", "primary_text", "third_party_text")).to_pylist()
    scores = score_options(context.judge, [make_request(row) for row in texts])
    outcomes: list[Mapping[str, Any] | RowFault] = []
    for row, grades in zip(texts, scores, strict=True):
        if isinstance(grades, RowFault):
            outcomes.append(grades)
            continue
        score = sum(int(grade) * share for grade, share in grades.items()) / sum(grades.values())
        highest = params.max_score_when_addressed if addresses_somebody(row["third_party_text"]) else 5.0
        outcomes.append({"ambiguity_score": min(score, highest)})
    return split_rows(NAME, rows, outcomes, SCORED)


STAGE = Stage(
    name=NAME,
    version=2,
    reads=REPLIED,
    writes=SCORED,
    reasons=ENGINE_REASONS,
    run=score_ambiguity,
    params_type=ScoreAmbiguity,
    engines=("judge",),
    uses=(
        "id",
        "primary_text",
        "third_party_text",
    ),
    text_tasks=(SCORE_AMBIGUITY.name,),
)
