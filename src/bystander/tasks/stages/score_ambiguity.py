"""Score how plausibly one person says the whole transcript: the source of hard negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import ENGINE_REASONS, RowFault, TextEngine, TextRequest
from bystander.schemas.identity import derive_seed
from bystander.schemas.packs import PromptPack
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.text_tasks import AMBIGUITY_GRADES, SCORE_AMBIGUITY
from bystander.schemas.tpi import REPLIED, SCORED
from bystander.schemas.tpi_params import ScoreAmbiguity
from bystander.tasks.stages.option_scores import score_options
from bystander.tasks.stages.text_rules import addresses_somebody

NAME = "score_ambiguity"


def score_ambiguity(rows: pa.Table, context: StageContext) -> StageOutput:
    """Ask the judge for a grade from 1 (surely two people) to 5 (surely one); the score is its expectation.

    A line that addresses somebody ("you" and its kin, except in a request to the assistant) gives the second person
    away, as the rubric of the TPI paper has it (appendix L): its score is at most `max_score_when_addressed`.

    Columns read: primary_text, third_party_text. Columns written: ambiguity_score, in [1, 5].

    Reject reasons: those of the engine, `ENGINE_REASONS`.
    """

    params = cast(ScoreAmbiguity, context.params)
    texts = rows.select(("id", "primary_text", "third_party_text")).to_pylist()
    questions = [
        (row["primary_text"], row["third_party_text"], derive_seed(context.build_seed, row["id"], NAME))
        for row in texts
    ]
    outcomes: list[Mapping[str, Any] | RowFault] = []
    for row, score in zip(texts, grade_transcripts(questions, context.pack, context.judge), strict=True):
        if isinstance(score, RowFault):
            outcomes.append(score)
            continue
        highest = params.max_score_when_addressed if addresses_somebody(row["third_party_text"]) else 5.0
        outcomes.append({"ambiguity_score": min(score, highest)})
    return split_rows(NAME, rows, outcomes, SCORED)


def grade_transcripts(
    questions: Sequence[tuple[str, str, int]], pack: PromptPack, judge: TextEngine
) -> list[float | RowFault]:
    """Return the judge's expected grade of each transcript, in [1, 5]: 5 is surely one person talking.

    Args:
        questions: primary text, third party's text, and the seed of the call.
        pack: has the task `score_ambiguity`.
        judge: is asked at temperature 0.
    """

    def make_request(primary: str, third_party: str, seed: int) -> TextRequest:
        texts = {"primary": primary, "third_party": third_party}
        return TextRequest(
            task=SCORE_AMBIGUITY.name,
            messages=pack.messages(SCORE_AMBIGUITY.name, texts),
            seed=seed,
            variables=texts,
            options=AMBIGUITY_GRADES,
            temperature=0.0,
        )

    return [
        grades
        if isinstance(grades, RowFault)
        else sum(int(grade) * share for grade, share in grades.items()) / sum(grades.values())
        for grades in score_options(judge, [make_request(*question) for question in questions])
    ]


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
