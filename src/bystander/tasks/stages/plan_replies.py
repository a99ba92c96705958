"""Between pairs of real turns and the stages that label them and write replies: the columns that those read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bystander.schemas.identity import make_id
from bystander.schemas.real_world import REVIEWED_PAIR
from bystander.schemas.taxonomy import Timing
from bystander.schemas.tpi import REALISTIC

PLANNED_FROM = (
    "id",
    "corpus",
    "language",
    "primary_source_text",
    "primary_text",
    "third_party_text",
    "primary_end_s",
    "third_party_start_s",
    "segments",
    "query_score",
)
"""The columns of REVIEWED_PAIR that are read."""


def plan_replies(pairs: pa.Table) -> pa.Table:
    """Return REALISTIC rows of the same ids, in the order given.

    What a synthetic row has and a real one has not is empty: scenario and category. The realism score is the grade of
    the request, from 0 to 1. A turn that is cut into is `within_sentence`, and stands as it was said.
    """
    rows = pairs.cast(pa.schema([REVIEWED_PAIR.field(name) for name in pairs.schema.names])).to_pylist()
    planned = [
        {
            "query_source": row["corpus"],
            "query_line": 0,
            "query_text": row["primary_source_text"],
            "language": row["language"],
            "query_id": make_id("query", row["primary_text"], row["language"]),
            "request": row["primary_text"],
            "id": row["id"],
            "draw": 0,
            "scenario": "",
            "category": "",
            "timing": name_timing(row),
            "primary_complete": row["primary_text"],
            "primary_text": row["primary_text"],
            "third_party_text": row["third_party_text"],
            "write_attempts": 1,
            "realism_score": (row["query_score"] - 1.0) / 4.0,
        }
        for row in rows
    ]
    return pa.Table.from_pylist(planned, schema=REALISTIC)


def name_timing(row: Mapping[str, Any]) -> str:
    """Return the timing of an interruption: `within_sentence` where the first still speaks.

    The segments of the clip count, which people may have put right; without a clip, the times of the transcript.
    """
    primary_end_s, third_party_start_s = row["primary_end_s"], row["third_party_start_s"]
    if row["segments"]:
        primary_end_s = max(one["end_s"] for one in row["segments"] if one["speaker"] == "primary")
        third_party_start_s = min(one["start_s"] for one in row["segments"] if one["speaker"] == "third_party")
    timing = Timing.WITHIN_SENTENCE if third_party_start_s < primary_end_s else Timing.AFTER_COMPLETION
    return timing.value
