"""Have a judge score what a system answered, under the rubrics of the pack."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import RowFault, TextReply, TextRequest
from bystander.schemas.evaluate_config import JudgeReplies
from bystander.schemas.evaluation import ANSWERED, JUDGED, METRICS, MetricName
from bystander.schemas.identity import derive_seed
from bystander.schemas.packs import PackClass
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.text_tasks import (
    JUDGE_HELPFULNESS,
    JUDGE_ONE_SPEAKER_HELPFULNESS,
    JUDGE_ONE_SPEAKER_STRATEGY,
    JUDGE_STRATEGY,
    JUDGE_TASKS,
    TextTask,
)
from bystander.tasks.stages.text_attempts import Row, attempt_rows

NAME = "judge_replies"

NOT_ANSWERED, UNPARSABLE = "not_answered", "unparsable_verdict"

RUBRICS: Mapping[tuple[str, MetricName], TextTask] = {
    ("tpi_test", "rsf"): JUDGE_STRATEGY,
    ("tpi_test", "oh"): JUDGE_HELPFULNESS,
    ("janus_test", "rsf"): JUDGE_ONE_SPEAKER_STRATEGY,
    ("janus_test", "oh"): JUDGE_ONE_SPEAKER_HELPFULNESS,
}
"""The rubric of a metric on a test."""

CUT_MARK = " [... the rest of this long answer is left out]"

_UNPRINTABLE = re.compile(r"[^\t\n -\ud7ff\ue000-\U0010ffff]|[\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class _Question:
    """One call: a row's answer under one rubric."""

    row: Row
    metric: MetricName
    rubric: TextTask


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
    verdicts: list[dict[str, Any]] = [{metric: _fail(NOT_ANSWERED) for metric in METRICS} for _ in texts]
    questions = [
        (place, {"question": _Question(row, metric, RUBRICS[row["test"], metric])})
        for place, row in enumerate(texts)
        if is_answered(row["answer"])
        for metric in METRICS
    ]

    def make_request(item: Row, number: int) -> TextRequest:
        return _make_request(item["question"], number, classes, context)

    def accept(item: Row, reply: TextReply) -> Mapping[str, Any] | RowFault:
        return _read_verdict(reply, item["question"].rubric)

    attempted = attempt_rows(
        [item for _, item in questions],
        context.judge,
        make_request,
        accept,
        params.max_attempts,
        order=lambda item: (item["question"].rubric.name, item["question"].row["label"], item["question"].row["id"]),
    )
    for (place, item), result in zip(questions, attempted, strict=True):
        outcome = result.outcome
        if isinstance(outcome, RowFault):
            reason = UNPARSABLE if outcome.reason == "unparsable_reply" else outcome.reason
            verdict = _fail(reason, outcome.raw_output, result.attempts)
        else:
            verdict = {**outcome, "attempts": result.attempts, "fault": None}
        verdicts[place][item["question"].metric] = verdict
    return split_rows(NAME, rows, cast(Sequence[Mapping[str, Any] | RowFault], verdicts), JUDGED)


def is_answered(answer: str | None) -> bool:
    """Whether there is anything to judge."""
    return bool(answer and answer.strip())


def cut_answer(answer: str, max_characters: int) -> str:
    """Return an answer as the judge reads it: without control characters, and cut with a mark if it is too long."""
    text = _UNPRINTABLE.sub(" ", answer).strip()
    return text if len(text) <= max_characters else text[:max_characters].rstrip() + CUT_MARK


def _make_request(
    question: _Question, number: int, classes: Mapping[str, PackClass], context: StageContext
) -> TextRequest:
    params = cast(JudgeReplies, context.params)
    row, task = question.row, question.rubric.name
    texts = {
        "primary": row["primary_text"],
        "third_party": row["third_party_text"],
        "answer": cut_answer(row["answer"], params.max_answer_characters),
    }
    with_class = "class" in question.rubric.variables
    return TextRequest(
        task=task,
        messages=context.pack.messages(task, {**texts, "class": classes[row["label"]]} if with_class else texts),
        seed=derive_seed(context.build_seed, row["id"], NAME, task, number),
        variables={**texts, "class": row["label"]} if with_class else texts,
        reply_schema=context.pack.reply_schema(task),
        max_tokens=params.max_tokens,
        temperature=0.0,
        top_p=1.0,
    )


def _read_verdict(reply: TextReply, rubric: TextTask) -> Mapping[str, Any] | RowFault:
    """Return score and rationale; a fault where the score is no whole number of the rubric's scale."""
    assert rubric.score is not None
    value = reply.value or {}
    score, rationale = value.get("score"), value.get("rationale")
    if isinstance(score, float) and score.is_integer():
        score = int(score)  # 4.0 is an integer to JSON schema
    lowest, highest = rubric.score
    if not isinstance(score, int) or isinstance(score, bool) or not lowest <= score <= highest:
        return RowFault(UNPARSABLE, f"{score!r} is not on the scale of {lowest} to {highest}")
    if not isinstance(rationale, str):
        return RowFault(UNPARSABLE, "there is no rationale")
    return {"score": score, "rationale": rationale, "raw_output": reply.text}


def _fail(fault: str, raw_output: str | None = None, attempts: int = 0) -> dict[str, Any]:
    return {"score": None, "rationale": None, "raw_output": raw_output, "attempts": attempts, "fault": fault}


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
)
