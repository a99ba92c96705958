"""Arrow schema of dyadic rows: a request that one person says to the end, and the reply to it."""

from __future__ import annotations

import pyarrow as pa

from bystander.schemas.tpi import FINAL

DYADIC_LABEL = "dyadic"

_AS_IN_TPI = (
    "id",
    "split",
    "audio",
    "sampling_rate",
    "duration_s",
    "n_speakers",  # 1
    "query_id",
    "query_text",
    "query_source",
    "language",
    "request",
    "primary_text",  # the whole request, which is what is spoken
    "primary_recognised",
    "label",  # `dyadic`
    "reply",
    "pack",
    "pack_digest",
    "primary_voice",
    "segments",  # one, of the primary
    "primary_wer_raw",
    "primary_wer",
    "primary_recognition_temperature",
    "track_similarity",  # of the halves of the track
    "reply_attempts",
    "primary_attempts",
    "engines",
    "seed",
)

DYADIC_FINAL = pa.schema(
    [*(FINAL.field(name) for name in _AS_IN_TPI), pa.field("source_id", pa.string(), nullable=False)]
)
"""A row of a published dyadic shard: columns of a TPI row with the same meaning, and `source_id`, the id of the
two-speaker row that its request and reply are taken from."""
