"""Stage `judge_voicebench`: have a judge score the answers to VoiceBench's open and reference questions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import RowFault, TextReply, TextRequest
from bystander.schemas.evaluate_voicebench_config import JudgeVoicebench
from bystander.schemas.identity import derive_seed
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.text_tasks import (
    JUDGE_OPEN_ANSWER,
    JUDGE_REFERENCE_ANSWER,
    VOICEBENCH_JUDGE_TASKS,
    TextTask,
)
from bystander.schemas.voicebench import PARTS_BY_NAME, VOICEBENCH_ANSWERED, VOICEBENCH_JUDGED, ScoreKind
from bystander.tasks.stages.text_attempts import Row, attempt_rows

NAME = "judge_voicebench"
NOT_ANSWERED, UNPARSABLE = "not_answered", "unparsable_verdict"
CUT_MARK = " [... the rest of this long text is left out]"

_MAX_REQUEST, _MAX_REFERENCE = 2500, 500  # characters; with the answer's, they keep a prompt within its bound

_RUBRICS: Mapping[ScoreKind, TextTask] = {"open": JUDGE_OPEN_ANSWER, "reference": JUDGE_REFERENCE_ANSWER}
_UNPRINTABLE = re.compile(r"[^\t\n -\ud7ff\ue000-\U0010ffff]|[\x7f-\x9f\u2028\u2029]")


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
    verdicts: list[dict[str, Any]] = [{"verdict": _fail(NOT_ANSWERED)} for _ in texts]
    asked = [i for i, row in enumerate(texts) if (row["answer"] or "").strip()]

    def make_request(row: Row, number: int) -> TextRequest:
        return _make_request(row, number, params, context)

    attempted = attempt_rows(
        [texts[i] for i in asked],
        context.judge,
        make_request,
        _read_verdict,
        params.max_attempts,
        order=lambda row: (_find_rubric(row).name, row["id"]),
    )
    for i, result in zip(asked, attempted, strict=True):
        outcome = result.outcome
        if isinstance(outcome, RowFault):
            fault = UNPARSABLE if outcome.reason == "unparsable_reply" else outcome.reason
            verdicts[i] = {"verdict": _fail(fault, outcome.raw_output, result.attempts)}
        else:
            verdicts[i] = {"verdict": {**outcome, "attempts": result.attempts, "fault": None}}
    return split_rows(NAME, rows, verdicts, VOICEBENCH_JUDGED)


def _find_rubric(row: Row) -> TextTask:
    return _RUBRICS[PARTS_BY_NAME[row["part"]].kind]


def _cut(text: str, max_characters: int) -> str:
    """Return a text as the judge reads it: without control characters, and cut with a mark if it is too long."""
    plain = _UNPRINTABLE.sub(" ", text).strip()
    return plain if len(plain) <= max_characters else plain[:max_characters].rstrip() + CUT_MARK


def _make_request(row: Row, number: int, params: JudgeVoicebench, context: StageContext) -> TextRequest:
    rubric = _find_rubric(row)
    given = {
        "answer": _cut(row["answer"], params.max_answer_characters),
        "reference": _cut(row["reference"] or "", _MAX_REFERENCE),
        "request": _cut(row["prompt"], _MAX_REQUEST),
    }
    texts = {name: text for name, text in given.items() if name in rubric.variables}
    return TextRequest(
        task=rubric.name,
        messages=context.pack.messages(rubric.name, texts),
        seed=derive_seed(context.build_seed, row["id"], NAME, rubric.name, number),
        variables=texts,
        reply_schema=context.pack.reply_schema(rubric.name),
        max_tokens=params.max_tokens,
        temperature=0.0,
        top_p=1.0,
    )


def _read_verdict(row: Row, reply: TextReply) -> Mapping[str, Any] | RowFault:
    """Return score and rationale; a fault where the score is no whole number of the rubric's scale."""
    scale = _find_rubric(row).score
    assert scale is not None
    value = reply.value or {}
    score, rationale = value.get("score"), value.get("rationale")
    if isinstance(score, float) and score.is_integer():
        score = int(score)  # 4.0 is an integer to JSON schema
    if not isinstance(score, int) or isinstance(score, bool) or not scale[0] <= score <= scale[1]:
        return RowFault(UNPARSABLE, f"{score!r} is not on the scale of {scale[0]} to {scale[1]}")
    if not isinstance(rationale, str):
        return RowFault(UNPARSABLE, "there is no rationale")
    return {"score": score, "rationale": rationale, "raw_output": reply.text}


def _fail(fault: str, raw_output: str | None = None, attempts: int = 0) -> dict[str, Any]:
    return {"score": None, "rationale": None, "raw_output": raw_output, "attempts": attempts, "fault": fault}


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
