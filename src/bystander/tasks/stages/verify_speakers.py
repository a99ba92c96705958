"""Stage `verify_speakers`: do the clean tracks hold as many voices as they should?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bystander.schemas.engines import EmbeddingRequest
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.tpi import SYNTHESISED, VERIFIED
from bystander.schemas.tpi_params import VerifySpeakers
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.metrics.speaker_similarity import SimilarityRule
from bystander.tasks.stages.speaker_verdicts import judge_rows

NAME = "verify_speakers"
_USES = ("n_speakers", "tracks")
_RULE = SimilarityRule(
    column="track_similarity",
    pair="the two tracks",
    pair_reason="voices_too_alike",
    single="the halves of the track",
    single_reason="voice_drifts",
)


def verify_speakers(rows: pa.Table, context: StageContext) -> StageOutput:
    """Compare the speakers of a pair's two tracks, or of the two halves of a hard negative's one track.

    Columns read: n_speakers, tracks. Written: track_similarity (cosine; null where a clip is too short to measure).

    Reject reasons:
        voices_too_alike: a pair's similarity is above `max_pair_similarity`.
        voice_drifts: a hard negative's similarity is below `min_single_similarity`.
        too_short_to_verify: a clip is too short to measure, and `reject_unmeasured` is set.
        verifier_fault: the verifier failed on a clip; its own reason is in the detail.

    Raises:
        EngineError: the verifier as a whole failed.
    """
    outcomes = judge_rows(rows.select(_USES), context, _list_clips, _RULE)
    return split_rows(NAME, rows, outcomes, VERIFIED)


def _list_clips(row: Mapping[str, Any]) -> tuple[EmbeddingRequest, EmbeddingRequest]:
    decoded = [EmbeddingRequest(*decode_audio(track["audio"])) for track in row["tracks"]]
    if row["n_speakers"] != 1:
        return decoded[0], decoded[1]
    samples, rate = decoded[0].samples, decoded[0].sampling_rate
    middle = len(samples) // 2
    return EmbeddingRequest(samples[:middle], rate), EmbeddingRequest(samples[middle:], rate)


STAGE = Stage(
    name=NAME,
    version=1,
    reads=SYNTHESISED,
    writes=VERIFIED,
    reasons=_RULE.reasons,
    run=verify_speakers,
    params_type=VerifySpeakers,
    engines=("verifier",),
    uses=_USES,
)
