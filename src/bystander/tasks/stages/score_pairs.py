"""Stage `score_pairs`: a judge grades each pair by three criteria, and those that meet all go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import ENGINE_REASONS, RowFault, TextEngine, TextRequest
from bystander.schemas.identity import derive_seed
from bystander.schemas.packs import PromptPack
from bystander.schemas.real_world import PAIR, SCORED_PAIR
from bystander.schemas.real_world_params import ScorePairs
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.text_tasks import GRADE_ANSWERABLE, GRADE_INTERRUPTION, GRADE_REQUEST, GRADES, TextTask
from bystander.tasks.stages.option_scores import score_options

NAME = "score_pairs"


def score_pairs(rows: pa.Table, context: StageContext) -> StageOutput:
    """Ask the judge for a grade from 1 to 5 by each criterion; the score is its expectation over the five digits.

    The criteria are the three of the TPI paper (appendix G.2): the first turn could be a request to an assistant, the
    second is an interruption, no sight or hands are needed. They are asked about one after the other, each only of
    pairs that met those before it: most pairs fail the first.

    Columns read: primary_text, third_party_text. Written: query_score, interruption_score, answerable_score.

    Reject reasons: not_a_query, needs_more_than_words, not_an_interruption: the score is below `min_query`,
    `min_answerable`, `min_interruption`. Those of the engine: `ENGINE_REASONS`.
    """
    params = cast(ScorePairs, context.params)
    texts = rows.select(_USES).to_pylist()
    outcomes: list[Mapping[str, Any] | RowFault] = [{} for _ in texts]
    for task, column, reason, least in (
        (GRADE_REQUEST, "query_score", "not_a_query", params.min_query),
        (GRADE_ANSWERABLE, "answerable_score", "needs_more_than_words", params.min_answerable),
        (GRADE_INTERRUPTION, "interruption_score", "not_an_interruption", params.min_interruption),
    ):
        open_rows = [i for i, outcome in enumerate(outcomes) if not isinstance(outcome, RowFault)]
        asked = [texts[i] for i in open_rows]
        for i, score in zip(
            open_rows, grade_pairs(task, asked, context.pack, context.judge, context.build_seed), strict=True
        ):
            given = cast(Mapping[str, Any], outcomes[i])
            if isinstance(score, RowFault):
                outcomes[i] = score
            elif score < least:
                said = ", ".join(f"{name} {value:.2f}" for name, value in {**given, column: score}.items())
                outcomes[i] = RowFault(reason, said)
            else:
                outcomes[i] = {**given, column: score}
    return split_rows(NAME, rows, outcomes, SCORED_PAIR)


def grade_pairs(
    task: TextTask, rows: Sequence[Mapping[str, Any]], pack: PromptPack, judge: TextEngine, seed: int
) -> list[float | RowFault]:
    """Return the expected grade of each row by one criterion, in [1, 5], or why the judge gave none.

    Args:
        task: of `CURATION_TASKS`.
        rows: have `id`, `primary_text` and `third_party_text`.
        pack: has the task.
        judge: is asked at temperature 0.
        seed: the build's.
    """
    requests = []
    for row in rows:
        given = {"primary": row["primary_text"], "third_party": row["third_party_text"]}
        texts = {name: given[name] for name in sorted(task.variables)}
        requests.append(
            TextRequest(
                task=task.name,
                messages=pack.messages(task.name, texts),
                seed=derive_seed(seed, row["id"], NAME, task.name),
                variables=texts,
                options=GRADES,
                temperature=0.0,
            )
        )
    return [
        grades
        if isinstance(grades, RowFault)
        else sum(int(grade) * share for grade, share in grades.items()) / sum(grades.values())
        for grades in score_options(judge, requests)
    ]


_USES = ("id", "primary_text", "third_party_text")

STAGE = Stage(
    name=NAME,
    version=1,
    reads=PAIR,
    writes=SCORED_PAIR,
    reasons=ENGINE_REASONS | {"not_a_query", "needs_more_than_words", "not_an_interruption"},
    run=score_pairs,
    params_type=ScorePairs,
    engines=("judge",),
    uses=_USES,
    text_tasks=(GRADE_REQUEST.name, GRADE_ANSWERABLE.name, GRADE_INTERRUPTION.name),
)
