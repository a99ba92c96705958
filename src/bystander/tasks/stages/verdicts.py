"""Asking a judge for verdicts on answers: what the judging stages share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bystander.schemas.engines import RowFault, TextReply, TextRequest
from bystander.schemas.evaluation_settings import JudgeParams
from bystander.schemas.identity import derive_seed
from bystander.schemas.stages import StageContext
from bystander.schemas.text_tasks import TextTask
from bystander.tasks.stages.text_attempts import Row, attempt_rows

NOT_ANSWERED, UNPARSABLE = "not_answered", "unparsable_verdict"

_UNPRINTABLE = re.compile(r"[^\t\n -\ud7ff\ue000-\U0010ffff]|[\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Question:
    """One call: a row's answer under one rubric.

    `texts` go into the rubric's template; `variables`, which only written rules read, are the same where they are null.
    Questions of one `group` have a common beginning under the same rubric.
    """

    row_id: str
    rubric: TextTask
    texts: Mapping[str, Any]
    variables: Mapping[str, str] | None = None
    group: str = ""


def ask_judge(
    questions: Sequence[Question], context: StageContext, stage: str, params: JudgeParams
) -> list[dict[str, Any]]:
    """Return the judge's verdict on each question, in order, as a VERDICT of `schemas.evaluation`.

    The judge is asked at temperature 0, again with a new seed while its verdict cannot be read, at most `max_attempts`
    times; then the verdict has no score, for none is guessed, and `unparsable_verdict` or one of `ENGINE_REASONS` for
    its fault. `stage` goes into the seeds.

    Raises:
        PackError: the pack lacks a rubric, or one cannot be rendered.
    """

    def make_request(item: Row, number: int) -> TextRequest:
        return _make_request(item["question"], number, context, stage, params)

    def accept(item: Row, reply: TextReply) -> Mapping[str, Any] | RowFault:
        return _read_verdict(reply, item["question"].rubric)

    def order(item: Row) -> tuple[str, str, str]:
        question: Question = item["question"]
        return question.rubric.name, question.group, question.row_id

    items = [{"question": question} for question in questions]
    verdicts = []
    for result in attempt_rows(items, context.judge, make_request, accept, params.max_attempts, order=order):
        outcome = result.outcome
        if isinstance(outcome, RowFault):
            fault = UNPARSABLE if outcome.reason == "unparsable_reply" else outcome.reason
            verdicts.append(fail_verdict(fault, outcome.raw_output, result.attempts))
        else:
            verdicts.append({**outcome, "attempts": result.attempts, "fault": None})
    return verdicts


def fail_verdict(fault: str, raw_output: str | None = None, attempts: int = 0) -> dict[str, Any]:
    """Return a verdict without a score."""
    return {"score": None, "rationale": None, "raw_output": raw_output, "attempts": attempts, "fault": fault}


def is_answered(answer: str | None) -> bool:
    """Whether there is anything to judge."""
    return bool(answer and answer.strip())


def cut_text(text: str, max_characters: int, mark: str) -> str:
    """Return a text as the judge reads it: without control characters, and cut, ending in `mark`, if it is too long."""
    plain = _UNPRINTABLE.sub(" ", text).strip()
    return plain if len(plain) <= max_characters else plain[:max_characters].rstrip() + mark


def _make_request(
    question: Question, number: int, context: StageContext, stage: str, params: JudgeParams
) -> TextRequest:
    task = question.rubric.name
    return TextRequest(
        task=task,
        messages=context.pack.messages(task, question.texts),
        seed=derive_seed(context.build_seed, question.row_id, stage, task, number),
        variables=question.texts if question.variables is None else question.variables,
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
