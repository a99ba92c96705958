"""Stage `judge_voicebench`: have a judge score the answers to VoiceBench's open and reference questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.evaluate_voicebench_config import JudgeVoicebench
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.text_tasks import (
    JUDGE_OPEN_ANSWER,
    JUDGE_REFERENCE_ANSWER,
    VOICEBENCH_JUDGE_TASKS,
    TextTask,
)
from bystander.schemas.voicebench import PARTS_BY_NAME, VOICEBENCH_ANSWERED, VOICEBENCH_JUDGED, ScoreKind
from bystander.tasks.stages.text_attempts import Row
from bystander.tasks.stages.verdicts import NOT_ANSWERED, Question, ask_judge, cut_text, fail_verdict, is_answered

NAME = "judge_voicebench"
CUT_MARK = " [... the rest of this long text is left out]"

_MAX_REQUEST, _MAX_REFERENCE = 2500, 500  # characters; with the answer's, they keep a prompt within its bound

_RUBRICS: Mapping[ScoreKind, TextTask] = {"open": JUDGE_OPEN_ANSWER, "reference": JUDGE_REFERENCE_ANSWER}


def judge_voicebench(rows: pa.Table, context: StageContext) -> StageOutput:
    """Ask the judge for a verdict on each answer under the rubric of its part. Keeps every row.

    The judge is asked at temperature 0, again with a new seed while its verdict cannot be read, at most `max_attempts`
    times; then the verdict has no score, for none is guessed. A blank answer costs no call.

    Columns read: id, part, prompt, reference, answer. Columns written: verdict, whose `fault` is null, `not_answered`,
    `unparsable_verdict`, or another of `ENGINE_REASONS`.

    Raises:
        KeyError: a row is of a part that needs no judge.
    """
    params = cast(JudgeVoicebench, context.params)
    texts = rows.select(STAGE.uses).to_pylist()
    verdicts: list[dict[str, Any]] = [{"verdict": fail_verdict(NOT_ANSWERED)} for _ in texts]
    asked = [i for i, row in enumerate(texts) if is_answered(row["answer"])]
    questions = [_make_question(texts[i], params) for i in asked]
    for i, verdict in zip(asked, ask_judge(questions, context, NAME, params), strict=True):
        verdicts[i] = {"verdict": verdict}
    return split_rows(NAME, rows, verdicts, VOICEBENCH_JUDGED)


def _make_question(row: Row, params: JudgeVoicebench) -> Question:
    rubric = _RUBRICS[PARTS_BY_NAME[row["part"]].kind]
    given = {
        "answer": cut_text(row["answer"], params.max_answer_characters, CUT_MARK),
        "reference": cut_text(row["reference"] or "", _MAX_REFERENCE, CUT_MARK),
        "request": cut_text(row["prompt"], _MAX_REQUEST, CUT_MARK),
    }
    return Question(row["id"], rubric, {name: text for name, text in given.items() if name in rubric.variables})


STAGE = Stage(
    name=NAME,
    version=1,
    reads=VOICEBENCH_ANSWERED,
    writes=VOICEBENCH_JUDGED,
    reasons=frozenset(),
    run=judge_voicebench,
    params_type=JudgeVoicebench,
    engines=("judge",),
    uses=("id", "part", "prompt", "reference", "answer"),
    text_tasks=tuple(task.name for task in VOICEBENCH_JUDGE_TASKS),
)
