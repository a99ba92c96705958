"""The records of a training run: from what `transformers` logs, to JSON lines and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from bystander.schemas.errors import InputError
from bystander.tasks.training.contract import StepRecord

_LOGGED = {
    "loss": "loss",
    "eval_loss": "held_out_loss",
    "learning_rate": "learning_rate",
    "grad_norm": "gradient_norm",
}
"""Names of the trainer's logs, and ours."""


def read_log(step: int, log: Mapping[str, Any]) -> StepRecord | None:
    """Return the record of one log of the trainer; None where it is about none of a record's figures."""
    figures = {ours: float(log[theirs]) for theirs, ours in _LOGGED.items() if log.get(theirs) is not None}
    return (
        StepRecord(step, float(log.get("epoch") or 0.0), **figures) if {"loss", "held_out_loss"} & {*figures} else None
    )


def gather_history(logs: Iterable[Mapping[str, Any]]) -> tuple[StepRecord, ...]:
    """Return the records of a trainer's logs, one a step: its loss and the held-out loss come in two logs."""
    records: dict[int, StepRecord] = {}
    for log in logs:
        record = read_log(int(log["step"]), log)
        if record is None:
            continue
        before = records.get(record.step)
        told = {name: value for name, value in asdict(record).items() if value is not None}
        records[record.step] = record if before is None else replace(before, **told)
    return tuple(records[step] for step in sorted(records))


def format_history(records: Sequence[StepRecord]) -> str:
    """Return records as JSON lines; what was not measured at a step is not in its line."""
    return "".join(
        json.dumps({name: value for name, value in asdict(record).items() if value is not None}) + "\n"
        for record in records
    )


def parse_history(text: str, name: str) -> tuple[StepRecord, ...]:
    """Return the records of JSON lines; `name` is that of their file in messages.

    Raises:
        InputError: a line is none of ours.
    """
    known = {field.name for field in fields(StepRecord)}
    records = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            values = json.loads(line)
            records.append(StepRecord(**{key: value for key, value in values.items() if key in known}))
        except (ValueError, TypeError, AttributeError) as exc:
            raise InputError(f"{name}: line {number} is no record of a training run") from exc
    return tuple(records)
