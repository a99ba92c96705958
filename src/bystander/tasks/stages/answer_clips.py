"""Stage `answer_clips`: what does a system that is evaluated say to the clips of a bench?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bystander.schemas.arrays import list_rows
from bystander.schemas.engines import AnswerRequest, RowFault
from bystander.schemas.errors import InputError
from bystander.schemas.evaluate_config import AnswerClips
from bystander.schemas.evaluation import ANSWERED, BENCH_ROW
from bystander.schemas.identity import derive_seed
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.tasks.audio.coding import decode_audio

NAME = "answer_clips"
_BATCH_ROWS = 64  # decoded audio of so many rows is held at once
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
    outcomes: list[Mapping[str, Any] | RowFault] = []
    for start in range(0, len(rows), _BATCH_ROWS):
        batch = list_rows(rows.select(_USES).slice(start, _BATCH_ROWS))
        answers = context.candidate.answer([_make_request(row, context.build_seed) for row in batch])
        outcomes += [
            {"answer": None, "answer_fault": _describe_fault(answer)}
            if isinstance(answer, RowFault)
            else {"answer": answer.text, "answer_fault": None}
            for answer in answers
        ]
    return split_rows(NAME, rows, outcomes, ANSWERED)


def _make_request(row: Mapping[str, Any], build_seed: int) -> AnswerRequest:
    try:
        samples, rate = decode_audio(row["audio"]["bytes"])
    except InputError as exc:
        raise InputError(f"bench: row {row['id']}: {exc}; build the bench again") from exc
    return AnswerRequest(
        id=row["id"],
        samples=samples,
        sampling_rate=rate,
        seed=derive_seed(build_seed, row["id"], NAME),
        variables={name: str(row[column]) for name, column in _VARIABLES.items()},
    )


def _describe_fault(fault: RowFault) -> str:
    return f"{fault.reason}: {fault.detail}" if fault.detail else fault.reason


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
