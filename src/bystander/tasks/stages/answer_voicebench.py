"""Stage `answer_voicebench`: what does a system that is evaluated say to the clips of VoiceBench?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bystander.schemas.evaluate_voicebench_config import AnswerVoicebench
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.voicebench import VOICEBENCH_ANSWERED, VOICEBENCH_ROW
from bystander.tasks.stages.clip_answers import collect_answers

NAME = "answer_voicebench"
_USES = ("id", "audio", "prompt", "reference")


def answer_voicebench(rows: pa.Table, context: StageContext) -> StageOutput:
    """Play each clip to the candidate and keep what it answers. No row is rejected: one without an answer counts too.

    Stand-ins, and they alone, are told the prompt as what one speaker said, and the reference as the bench's own reply.

    Columns read: id, audio, prompt, reference. Columns written: answer (null where there is none), answer_fault (null
    where there is an answer; else the code of the fault, a colon and a sentence).

    Raises:
        InputError: a clip cannot be decoded.
        EngineError: the candidate as a whole failed.
    """
    outcomes = collect_answers(
        rows.select(_USES), context, NAME, _list_variables, "download the part again, or take the row out"
    )
    return split_rows(NAME, rows, outcomes, VOICEBENCH_ANSWERED)


def _list_variables(row: Mapping[str, Any]) -> Mapping[str, str]:
    prompt = row["prompt"]
    return {"primary": prompt, "primary_complete": prompt, "third_party": "", "reply": row["reference"] or ""}


STAGE = Stage(
    name=NAME,
    version=1,
    reads=VOICEBENCH_ROW,
    writes=VOICEBENCH_ANSWERED,
    reasons=frozenset(),
    run=answer_voicebench,
    params_type=AnswerVoicebench,
    engines=("candidate",),
    uses=_USES,
)
