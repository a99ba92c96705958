"""Checks of what metrics are handed, and the wording of their faults."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bystander.schemas.errors import InputError

_IDS_SHOWN = 20


def require_finite(values: Sequence[float], name: str) -> None:
    """Raise an `InputError` that names the first of `values` that is NaN or infinite, by its position from 0."""
    for position, value in enumerate(values):
        if not math.isfinite(value):
            raise InputError(f"{name}: number {position} is {value}; every one must be finite")


def list_ids(ids: Sequence[str]) -> str:
    """Return the ids for an error message: the first 20, and how many more there are."""
    more = len(ids) - _IDS_SHOWN
    return ", ".join(ids[:_IDS_SHOWN]) + (f", and {more} more" if more > 0 else "")
