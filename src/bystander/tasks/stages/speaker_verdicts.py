"""What the stages that verify speakers share: comparing two clips a row, a bounded number of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.arrays import list_rows
from bystander.schemas.engines import EmbeddingRequest, RowFault
from bystander.schemas.stages import StageContext
from bystander.schemas.tpi_params import VerifySpeakers
from bystander.tasks.metrics.speaker_similarity import SimilarityRule, judge_similarity, measure_similarities

_BATCH_ROWS = 64  # decoded audio of so many rows is held at once

CutClips = Callable[[Mapping[str, Any]], tuple[EmbeddingRequest, EmbeddingRequest]]
"""From a row to the two clips whose speakers are compared."""


def judge_rows(
    rows: pa.Table, context: StageContext, cut_clips: CutClips, rule: SimilarityRule
) -> list[dict[str, float | None] | RowFault]:
    """Return the outcome of each row: the rule's column, or why it is rejected.

    Args:
        rows: the columns that `cut_clips` reads, and `n_speakers`.
        context: its verifier is asked, its parameters are `VerifySpeakers`.
        cut_clips: what is compared.
        rule: what that means.

    Raises:
        EngineError: the verifier as a whole failed.
    """
    params = cast(VerifySpeakers, context.params)
    outcomes: list[dict[str, float | None] | RowFault] = []
    for start in range(0, len(rows), _BATCH_ROWS):
        batch = list_rows(rows.slice(start, _BATCH_ROWS))
        similarities = measure_similarities([cut_clips(row) for row in batch], context.verifier)
        outcomes += [
            judge_similarity(similarity, row["n_speakers"], params, rule)
            for row, similarity in zip(batch, similarities, strict=True)
        ]
    return outcomes
