"""Stage `answer_clips`: what does a system that is evaluated say to the clips of a bench?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bystander.schemas.evaluate_config import AnswerClips
from bystander.schemas.evaluation import ANSWERED, BENCH_ROW
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.tasks.stages.clip_answers import collect_answers

NAME = "answer_clips"
_VARIABLES = {
    "primary": "primary_text",
    "primary_complete": "primary_complete",
    "third_party": "third_party_text",
    "label": "label",
    "reply": "reply",
    "n_speakers": "n_speakers",
    "test": "test",
}
"""Variables of a request, which only stand-ins read, and the columns that they come from."""
_USES = ("id", "audio", *_VARIABLES.values())


def answer_clips(rows: pa.Table, context: StageContext) -> StageOutput:
    """Play each clip to the candidate and keep what it answers. No row is rejected: one without an answer counts too.

    Columns read: id, audio, test, n_speakers, primary_complete, primary_text, third_party_text, label, reply.
    Columns written: answer (null where there is none), answer_fault (null where there is an answer; else the code of
    the fault, a colon and a sentence).

    Raises:
        InputError: a clip of the bench cannot be decoded.
        EngineError: the candidate as a whole failed.
    """
    outcomes = collect_answers(rows.select(_USES), context, NAME, _list_variables, "build the bench again")
    return split_rows(NAME, rows, outcomes, ANSWERED)


def _list_variables(row: Mapping[str, Any]) -> Mapping[str, str]:
    return {name: str(row[column]) for name, column in _VARIABLES.items()}


STAGE = Stage(
    name=NAME,
    version=1,
    reads=BENCH_ROW,
    writes=ANSWERED,
    reasons=frozenset(),
    run=answer_clips,
    params_type=AnswerClips,
    engines=("candidate",),
    uses=_USES,
)
