"""How far found break points are from the true ones of synthetic rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bystander.schemas.annotation_error import AnnotationError
from bystander.schemas.sid import SPEECH_CATEGORIES

COLUMNS = (
    "language",
    "synthetic",
    "total_nonbreak",
    "break_word_index",
    "break_time_s",
    "true_category",
    "true_break_word_index",
    "true_break_time_s",
)
"""The columns of a finished row that are read."""


def measure_annotation(rows: Sequence[Mapping[str, Any]]) -> tuple[AnnotationError, ...]:
    """Return the annotation error over all synthetic rows, by language, and by language and true category.

    `rows` have `COLUMNS`; those that are not synthetic are passed over. Without a synthetic row there is nothing.
    """
    known = [row for row in rows if row["synthetic"] and row["true_category"] is not None]
    return tuple(_measure_groups(known))


def _measure_groups(rows: Sequence[Mapping[str, Any]]) -> Iterator[AnnotationError]:
    if not rows:
        return
    yield _measure(rows, None, None)
    for language in sorted({row["language"] for row in rows}):
        own = [row for row in rows if row["language"] == language]
        yield _measure(own, language, None)
        for category in SPEECH_CATEGORIES:
            if of_category := [row for row in own if row["true_category"] == category]:
                yield _measure(of_category, language, category)


def _measure(rows: Sequence[Mapping[str, Any]], language: str | None, category: str | None) -> AnnotationError:
    right = missed = invented = wrong = 0
    errors_s = []
    for row in rows:
        found, true = row["break_word_index"], row["true_break_word_index"]
        right += found == true
        missed += found is None and true is not None
        invented += found is not None and true is None
        wrong += found is not None and true is not None and found != true
        if found is not None and found == true:
            errors_s.append(row["break_time_s"] - row["true_break_time_s"])
    return AnnotationError(
        language=language,
        category=category,
        rows=len(rows),
        tag_right=right,
        break_missed=missed,
        break_invented=invented,
        wrong_word=wrong,
        timed=len(errors_s),
        **_describe_errors(1000 * np.array(errors_s)),
    )


def _describe_errors(errors_ms: np.ndarray) -> dict[str, float]:
    if not len(errors_ms):
        return {}
    sizes = np.abs(errors_ms)
    # The times are multiples of a sample or frame: what is added by binary fractions must not tip a share.
    within = {f"within_{limit}_ms": float(np.mean(sizes <= limit + 1e-6)) for limit in (20, 50, 100)}
    return {
        "median_ms": round(float(np.median(sizes)), 3),
        "p90_ms": round(float(np.quantile(sizes, 0.9)), 3),
        "bias_ms": round(float(np.mean(errors_ms)), 3),
        **within,
    }
