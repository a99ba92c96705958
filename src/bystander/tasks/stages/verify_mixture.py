"""Stage `verify_mixture`: does the finished audio itself prove its number of speakers?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bystander.schemas.engines import EmbeddingRequest
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.tpi import CHECKED, MIXED
from bystander.schemas.tpi_params import VerifySpeakers
from bystander.tasks.audio.coding import dequantise
from bystander.tasks.audio.fresh_clips import FRESH_CLIPS
from bystander.tasks.audio.speech_checks import count_spoken_characters
from bystander.tasks.metrics.speaker_similarity import SimilarityRule
from bystander.tasks.stages.speaker_verdicts import judge_rows

NAME = "verify_mixture"
_USES = ("n_speakers", "primary_text", "third_party_text", "audio", "segments")
_RULE = SimilarityRule(
    column="mixture_similarity",
    pair="the mixture before the overlap and after it",
    pair_reason="mixture_sounds_like_one",
    single="the clip before the seam of the two texts and after it",
    single_reason="mixture_sounds_like_two",
)


def verify_mixture(rows: pa.Table, context: StageContext) -> StageOutput:
    """Compare the speakers of the finished audio before the overlap and after it.

    A hard negative has no overlap: it is split where the second text begins, taking the same time for every character.

    Columns read: n_speakers, primary_text, third_party_text, audio, segments.
    Written: mixture_similarity (cosine; null where a part is too short to measure).

    Reject reasons:
        mixture_sounds_like_one: a pair's similarity is above `max_pair_similarity`.
        mixture_sounds_like_two: a hard negative's similarity is below `min_single_similarity`.
        too_short_to_verify: a part is too short to measure, and `reject_unmeasured` is set.
        verifier_fault: the verifier failed on a part; its own reason is in the detail.

    Raises:
        EngineError: the verifier as a whole failed.
    """
    outcomes = judge_rows(rows.select(_USES), context, _split_mixture, _RULE)
    return split_rows(NAME, rows, outcomes, CHECKED)


def _split_mixture(row: Mapping[str, Any]) -> tuple[EmbeddingRequest, EmbeddingRequest]:
    values, rate = FRESH_CLIPS.take_values(row["audio"]["bytes"])
    first, last = row["segments"][0], row["segments"][-1]
    if row["n_speakers"] == 1:
        primary = count_spoken_characters(row["primary_text"])
        share = primary / max(1, primary + count_spoken_characters(row["third_party_text"]))
        before_end_s = after_start_s = first["start_s"] + share * (first["end_s"] - first["start_s"])
    else:
        before_end_s = min(first["end_s"], last["start_s"])
        after_start_s = max(first["end_s"], last["start_s"])
    before = values[round(first["start_s"] * rate) : round(before_end_s * rate)]
    after = values[round(after_start_s * rate) : round(last["end_s"] * rate)]
    return EmbeddingRequest(dequantise(before), rate), EmbeddingRequest(dequantise(after), rate)


STAGE = Stage(
    name=NAME,
    version=1,
    reads=MIXED,
    writes=CHECKED,
    reasons=_RULE.reasons,
    run=verify_mixture,
    params_type=VerifySpeakers,
    engines=("verifier",),
    uses=_USES,
)
