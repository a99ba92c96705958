"""Files of results as platforms and pages write them, read as records with the rater, the sheet and its answers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bystander.schemas.errors import InputError, StorageError
from bystander.schemas.study_answers import CONSENT
from bystander.storage.filesystem import open_file
from bystander.storage.query_records import BadRecord
from bystander.storage.record_files import read_records

_FIELD = re.compile(r"^(?:Answer\.)?p(\d+)\.([a-z][a-z0-9_]*)$")
_PLACE = re.compile(r"^(.+)\.p(\d+)$")
_RATERS = ("WorkerId", "workerId", "rater", "PROLIFIC_PID")
_SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer as a file has it. `item` is `SHEET.pNN`, or the id of an item."""

    item: str
    question: str
    value: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class GivenRecord:
    """A record of a file: who answered, whether they agreed to take part, and what. `fault` says why it is none."""

    line: int
    rater: str = ""
    consent: bool = False
    answers: tuple[GivenAnswer, ...] = ()
    fault: str = ""
    refused: bool = field(default=False)
    """Whether the requester has refused the assignment on the platform."""


def read_results(path: str) -> Iterator[GivenRecord]:
    """Yield the records of a file of results.

    Known are the batch results of Mechanical Turk (CSV with `WorkerId` and `Answer.*`), what the page saves (JSON or
    JSONL of the same fields without `Answer.`), and a line an answer (CSV, JSONL or Parquet with `rater`, `item`,
    `question`, `answer`, and maybe `seconds`).

    Raises:
        InputError: the file cannot be read, or has none of these forms.
    """
    for number, record in _read_any(path):
        if isinstance(record, BadRecord):
            yield GivenRecord(number, fault=record.fault)
        elif not isinstance(record, Mapping):
            yield GivenRecord(number, fault="is no record with fields")
        else:
            yield _read_record(number, record)


def _read_any(path: str) -> Iterator[tuple[int, Any]]:
    if not path.lower().endswith(".json"):
        yield from read_records(path, "results")
        return
    try:
        store, name = open_file(path)
        data = json.loads(store.read_bytes(name))
    except StorageError as exc:
        raise InputError(f"results {exc}") from exc
    except ValueError as exc:
        raise InputError(f"results {path}: is not valid JSON ({exc})") from exc
    yield from enumerate(data if isinstance(data, list) else [data], start=1)


def _read_record(number: int, record: Mapping[str, Any]) -> GivenRecord:
    fields = {name: str(value).strip() for name, value in record.items() if name and not _is_blank(value)}
    rater = next((fields[name] for name in _RATERS if name in fields), "")
    refused = fields.get("AssignmentStatus", "").lower() == "rejected"
    if "question" in fields or "item" in fields:
        missing = [name for name in ("item", "question", "answer") if name not in fields]
        if missing:
            return GivenRecord(number, rater, fault=f"has no {' and no '.join(missing)}")
        answer = GivenAnswer(fields["item"], fields["question"], fields["answer"], _read_seconds(fields.get(_SECONDS)))
        agreed = answer.question == CONSENT and answer.value.lower() in ("yes", "true", "1")
        return GivenRecord(number, rater, agreed, () if agreed else (answer,))
    sheet = fields.get("Answer.sheet") or fields.get("sheet") or fields.get("Input.sheet")
    if not sheet:
        return GivenRecord(number, rater, fault="has neither a sheet nor an item")
    found: dict[int, dict[str, str]] = {}
    for name, value in fields.items():
        if match := _FIELD.match(name):
            found.setdefault(int(match[1]), {})[match[2]] = value
    answers = tuple(
        GivenAnswer(f"{sheet}.p{place:02d}", question, value, _read_seconds(values.get(_SECONDS)))
        for place, values in sorted(found.items())
        for question, value in values.items()
        if question != _SECONDS
    )
    if not answers:
        return GivenRecord(number, rater, fault="has no answers, fields such as p01.realism or Answer.p01.realism")
    agreed = fields.get(f"Answer.{CONSENT}", fields.get(CONSENT, "")).lower() == "yes"
    return GivenRecord(number, rater, agreed, answers, refused=refused)


def split_item(item: str) -> tuple[str, int]:
    """Return sheet and place of `SHEET.pNN`; an item's own id stands for a sheet of its own, at place 1."""
    match = _PLACE.match(item)
    return (match[1], int(match[2])) if match else (item, 1)


def _is_blank(value: Any) -> bool:
    # Mechanical Turk writes `{}` for what was not answered.
    return value is None or (isinstance(value, float) and math.isnan(value)) or str(value).strip() in ("", "{}")


def _read_seconds(text: str | None) -> float | None:
    try:
        seconds = float(text) if text else None
    except ValueError:
        return None
    return seconds if seconds is not None and 0 <= seconds < 1e7 else None
