"""Playing clips to a system that is evaluated: what the answering stages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from bystander.schemas.arrays import list_rows
from bystander.schemas.engines import AnswerRequest, RowFault
from bystander.schemas.errors import InputError
from bystander.schemas.identity import derive_seed
from bystander.schemas.stages import StageContext
from bystander.tasks.audio.coding import decode_audio

_BATCH_ROWS = 64  # decoded audio of so many rows is held at once


def collect_answers(
    rows: pa.Table,
    context: StageContext,
    stage: str,
    list_variables: Callable[[Mapping[str, Any]], Mapping[str, str]],
    remedy: str,
) -> list[Mapping[str, Any]]:
    """Play each clip to the candidate and return its `answer` and `answer_fault`, one of them null, in order.

    Args:
        rows: with the columns id and audio, and those that `list_variables` reads; no others.
        context: of the stage.
        stage: its name, which goes into the seeds.
        list_variables: from a row to the variables of its request, which no model sees.
        remedy: what to do about a clip that cannot be decoded.

    Raises:
        InputError: a clip cannot be decoded.
        EngineError: the candidate as a whole failed.
    """
    outcomes: list[Mapping[str, Any]] = []
    for start in range(0, len(rows), _BATCH_ROWS):
        batch = list_rows(rows.slice(start, _BATCH_ROWS))
        requests = [_make_request(row, context.build_seed, stage, list_variables(row), remedy) for row in batch]
        outcomes += [
            {"answer": None, "answer_fault": describe_fault(answer)}
            if isinstance(answer, RowFault)
            else {"answer": answer.text, "answer_fault": None}
            for answer in context.candidate.answer(requests)
        ]
    return outcomes


def describe_fault(fault: RowFault) -> str:
    """Return the fault's code, and its sentence if it has one."""
    return f"{fault.reason}: {fault.detail}" if fault.detail else fault.reason


def _make_request(
    row: Mapping[str, Any], build_seed: int, stage: str, variables: Mapping[str, str], remedy: str
) -> AnswerRequest:
    try:
        samples, rate = decode_audio(row["audio"]["bytes"])
    except InputError as exc:
        raise InputError(f"bench: row {row['id']}: {exc}; {remedy}") from exc
    return AnswerRequest(
        id=row["id"],
        samples=samples,
        sampling_rate=rate,
        seed=derive_seed(build_seed, row["id"], stage),
        variables=variables,
    )
