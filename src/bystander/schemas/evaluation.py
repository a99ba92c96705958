"""Arrow schemas of an evaluation: rows of a bench, what a system answered, and what a judge made of it."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

from bystander.schemas.tpi import FINAL

TestName = Literal["tpi_test", "janus_test"]
"""`tpi_test`: two speakers, the reply should follow the pack's strategy for the row's label. `janus_test`: one speaker,
the reply should take the whole transcript as that speaker's."""
TESTS: tuple[TestName, ...] = ("tpi_test", "janus_test")

MetricName = Literal["rsf", "oh"]
"""`rsf`, response strategy following: 0 or 1. On TPI-Test, 1 if the reply follows the strategy of the row's label
(higher is better); on Janus-Test, 1 if the reply wrongly infers another speaker (lower is better). `oh`, overall
helpfulness: 1 to 5, higher is better. Source: TPI paper, section 4.2."""
METRICS: tuple[MetricName, ...] = ("rsf", "oh")

_FROM_BENCH = (
    "id",
    "split",
    "audio",
    "sampling_rate",
    "duration_s",
    "n_speakers",
    "primary_complete",
    "primary_text",
    "third_party_text",
    "scenario",
    "category",
    "timing",
    "label",
    "kind",
    "reply",
    "overlap_s",
    "ambiguity_score",
    "twin_id",
    "segments",
)

_UNKNOWN_OF_REAL_ROWS = frozenset({"scenario", "category"})

BENCH_ROW = pa.schema(
    [
        pa.field("test", pa.string(), nullable=False),
        *(
            FINAL.field(name).with_nullable(True) if name in _UNKNOWN_OF_REAL_ROWS else FINAL.field(name)
            for name in _FROM_BENCH
        ),
    ]
)
"""A row to be answered. `test` is a `TestName`; `reply` is the bench's own, under the pack's policy. Scenario and
category are null in a row from a real recording."""

ANSWERED = pa.schema(
    [
        *BENCH_ROW,
        pa.field("answer", pa.string()),  # what the system said; null where it gave none
        pa.field("answer_fault", pa.string()),  # why there is none: a code, and a sentence
    ]
)

VERDICT = pa.struct(
    [
        pa.field("score", pa.int32()),  # null where there is no verdict
        pa.field("rationale", pa.string()),
        pa.field("raw_output", pa.string()),  # all that the judge wrote
        pa.field("attempts", pa.int32()),
        pa.field("fault", pa.string()),  # why there is no score: not_answered | unparsable_verdict | of ENGINE_REASONS
    ]
)
"""What a judge made of one answer under one rubric. A verdict that cannot be read has no score: none is guessed."""

JUDGED = pa.schema([*ANSWERED, pa.field("rsf", VERDICT, nullable=False), pa.field("oh", VERDICT, nullable=False)])

PREDICTION = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("reply", pa.string())])
"""A file of predictions, JSONL or Parquet: one row for each row of the bench, with the system's reply."""
