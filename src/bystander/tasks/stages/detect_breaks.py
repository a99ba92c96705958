"""Stage `detect_breaks`: when does a detector stop talking while it hears the clips of a bench?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from bystander.schemas.arrays import list_rows
from bystander.schemas.detection import Detector
from bystander.schemas.engines import Samples
from bystander.schemas.errors import InputError
from bystander.schemas.sid import SID_CLIP, SID_DETECTED
from bystander.schemas.sid_evaluation_params import DetectBreaks
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.audio.listening import resample_for_listener

NAME = "detect_breaks"
_USES = ("id", "audio")
_BATCH_ROWS = 64  # audio of so many rows is held at once


def detect_breaks(rows: pa.Table, context: StageContext) -> StageOutput:
    """Play each clip to the detector, chunk by chunk as it would arrive, until it stops or the clip ends.

    The stop time is when the detector could have said so: the end of the last chunk that it had heard. No row is
    rejected: one at which it never stops counts too. How long it took to compute is no part of the rows; the detector
    itself may be one that keeps count.

    Columns read: id, audio. Columns written: stop_time_s (from the start of the clip; null where it never stopped).

    Raises:
        InputError: a clip of the bench cannot be decoded.
        EngineError: the detector failed.
    """
    outcomes: list[Mapping[str, Any]] = []
    for start in range(0, len(rows), _BATCH_ROWS):
        for row in list_rows(rows.slice(start, _BATCH_ROWS).select(_USES)):
            try:
                samples, rate = decode_audio(row["audio"]["bytes"])
            except InputError as exc:
                raise InputError(f"bench: row {row['id']}: {exc}; build the bench again") from exc
            outcomes.append({"stop_time_s": find_stop(samples, rate, context.detector)})
    return split_rows(NAME, rows, outcomes, SID_DETECTED)


def find_stop(samples: Samples, rate: int, detector: Detector) -> float | None:
    """Return when a detector stops, in seconds from the start of the clip, or None if it never does.

    Args:
        samples: shape (n,), float32, range [-1, 1].
        rate: of the samples, in Hz; they are resampled to the detector's.
        detector: what listens.
    """
    return next((heard_s for heard_s, stops in listen(samples, rate, detector) if stops), None)


def listen(samples: Samples, rate: int, detector: Detector) -> Iterator[tuple[float, bool]]:
    """Feed a clip to a new stream and yield, chunk by chunk, what it has heard in seconds and whether it would stop."""
    heard = resample_for_listener(samples, rate, detector.sampling_rate)
    duration_s = len(samples) / rate
    stream = detector.open_stream()
    for start in range(0, len(heard.samples), detector.chunk_samples):
        chunk = heard.samples[start : start + detector.chunk_samples]
        end_s = (start + len(chunk)) / detector.sampling_rate + heard.lookahead_s
        yield min(end_s, duration_s), stream.accept(chunk)


STAGE = Stage(
    name=NAME,
    version=1,
    reads=SID_CLIP,
    writes=SID_DETECTED,
    reasons=frozenset(),
    run=detect_breaks,
    params_type=DetectBreaks,
    engines=("detector",),
    uses=_USES,
)
