"""Have a judge score what a system answered, under the rubrics of the pack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import RowFault
from bystander.schemas.evaluate_config import JudgeReplies
from bystander.schemas.evaluation import ANSWERED, JUDGED, METRICS, MetricName
from bystander.schemas.packs import PackClass
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.text_tasks import (
    CONDUCT,
    JUDGE_HELPFULNESS,
    JUDGE_ONE_SPEAKER_HELPFULNESS,
    JUDGE_ONE_SPEAKER_STRATEGY,
    JUDGE_STRATEGY,
    JUDGE_TASKS,
    TextTask,
)
from bystander.tasks.stages.text_attempts import Row
from bystander.tasks.stages.verdicts import NOT_ANSWERED, Question, ask_judge, cut_text, fail_verdict, is_answered

NAME = "judge_replies"

RUBRICS: Mapping[tuple[str, MetricName], TextTask] = {
    ("tpi_test", "rsf"): JUDGE_STRATEGY,
    ("tpi_test", "oh"): JUDGE_HELPFULNESS,
    ("janus_test", "rsf"): JUDGE_ONE_SPEAKER_STRATEGY,
    ("janus_test", "oh"): JUDGE_ONE_SPEAKER_HELPFULNESS,
}
"""The rubric of a metric on a test."""

CUT_MARK = " [... the rest of this long answer is left out]"


def judge_replies(rows: pa.Table, context: StageContext) -> StageOutput:
    """Ask the judge for a verdict on each answer under each metric's rubric. Keeps every row.

    The judge sees what was said (`primary_text`, cut where the user was cut off), the answer, and for two speakers the
    class of the remark. It is asked at temperature 0, again with a new seed while its verdict cannot be read, at most
    `max_attempts` times; then the verdict has no score, for none is guessed. A row without an answer, or with white
    space for one, costs no call.

    Columns read: id, test, primary_text, third_party_text, label, answer. Columns written: rsf, oh: each a VERDICT
    whose `fault` is null, `not_answered`, `unparsable_verdict`, or another of `ENGINE_REASONS`.

    Raises:
        PackError: the pack lacks a rubric, or one cannot be rendered.
        KeyError: a row's label is no class of the pack; `flows.check_evaluate_tpi` sees to that.
    """
    params = cast(JudgeReplies, context.params)
    classes = {item.key: item for item in context.pack.classes}
    texts = rows.select(STAGE.uses).to_pylist()
    verdicts: list[dict[str, Any]] = [{metric: fail_verdict(NOT_ANSWERED) for metric in METRICS} for _ in texts]
    asked = [(i, metric) for i, row in enumerate(texts) if is_answered(row["answer"]) for metric in METRICS]
    questions = [_make_question(texts[i], metric, params, classes) for i, metric in asked]
    for (i, metric), verdict in zip(asked, ask_judge(questions, context, NAME, params), strict=True):
        verdicts[i][metric] = verdict
    return split_rows(NAME, rows, cast(Sequence[Mapping[str, Any] | RowFault], verdicts), JUDGED)


def _make_question(row: Row, metric: MetricName, params: JudgeReplies, classes: Mapping[str, PackClass]) -> Question:
    rubric, label = RUBRICS[row["test"], metric], row["label"]
    texts = {
        "primary": row["primary_text"],
        "third_party": row["third_party_text"],
        "answer": cut_text(row["answer"], params.max_answer_characters, CUT_MARK),
    }
    if "class" not in rubric.variables:
        return Question(row["id"], rubric, texts, group=label)
    item = classes[label]
    variables = {**texts, "class": label, CONDUCT: item.conduct}
    return Question(row["id"], rubric, {**texts, "class": item}, variables, label)


STAGE = Stage(
    name=NAME,
    version=1,
    reads=ANSWERED,
    writes=JUDGED,
    reasons=frozenset(),
    run=judge_replies,
    params_type=JudgeReplies,
    engines=("judge",),
    uses=("id", "test", "primary_text", "third_party_text", "label", "answer"),
    text_tasks=tuple(task.name for task in JUDGE_TASKS),
    class_fields=(
        "key",
        "mentions_third_party",
        "requires_mention",
        "takes_up_remark",
        "reply_ends_with",
    ),  # its conduct
)
