"""Scores that people gave, read from a file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bystander.schemas.errors import InputError
from bystander.schemas.evaluate_config import Ratings
from bystander.schemas.evaluation import METRICS, MetricName
from bystander.storage.query_records import BadRecord
from bystander.storage.record_files import read_records

_SCALES: Mapping[MetricName, tuple[float, float]] = {"rsf": (0, 1), "oh": (1, 5)}

Scores = dict[tuple[str, MetricName], dict[str, float]]
"""By system and metric: row id to score."""


def read_ratings(ratings: Ratings) -> Scores:
    """Return the scores in a file with the columns `id`, `system`, and `rsf`, `oh` or both; cells may be empty.

    Scores may fall between whole numbers: means over several people.

    Raises:
        InputError: the file cannot be read, lacks a column, rates a row twice, or a score is off its scale.
    """
    scores: Scores = {}
    where = f"ratings {ratings.path}"
    empty = True
    for number, record in read_records(ratings.path, "ratings"):
        empty = False
        row = f"{where}: row {number}"
        if not isinstance(record, Mapping):
            raise InputError(f"{row}: {record.fault if isinstance(record, BadRecord) else 'is no record with columns'}")
        missing = [name for name in ("id", "system") if not record.get(name)]
        if missing:
            raise InputError(f"{row}: has no {' and no '.join(missing)}")
        for metric in METRICS:
            score = _read_score(record.get(metric), metric, row)
            if score is None:
                continue
            rated = scores.setdefault((str(record["system"]), metric), {})
            if str(record["id"]) in rated:
                raise InputError(
                    f"{row}: {metric} of {record['id']} by {record['system']} is rated twice; give each person's "
                    "ratings a file of their own, or their mean"
                )
            rated[str(record["id"])] = score
    if empty or not scores:
        raise InputError(f"{where}: holds no score; it needs the columns id, system, and rsf or oh")
    return scores


def _read_score(value: Any, metric: MetricName, row: str) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    lowest, highest = _SCALES[metric]
    try:
        score = float(value)
    except (TypeError, ValueError):
        score = math.nan
    if math.isnan(score) and isinstance(value, float):
        return None  # an empty cell of a column of numbers
    if not lowest <= score <= highest:
        raise InputError(f"{row}: {metric} is {value!r}; give a number from {lowest} to {highest}, or leave it empty")
    return score
