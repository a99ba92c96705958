"""Stage `check_known_recordings`: no recording that another build has already."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bystander.schemas.engines import RowFault
from bystander.schemas.sid import RAW_RECORDING
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows

NAME = "check_known_recordings"


def check_known_recordings(rows: pa.Table, context: StageContext) -> StageOutput:
    """Reject recordings of which a build in `disjoint_from` has a row. It comes before anything is read of them.

    A recording is known by the checksums of its files, wherever they lie and whatever they are called. One that was
    encoded anew is another; its turns have texts that `check_known_turns` knows.

    Columns read: recording_id. Columns written: none.

    Reject reasons:
        recording_in_other_build: another build has turns or silence of it.
    """
    outcomes: list[dict[str, Any] | RowFault] = [
        RowFault("recording_in_other_build", "a build of `disjoint_from` has rows of this recording")
        if context.exclusions.has_recording(recording_id)
        else {}
        for recording_id in rows["recording_id"].to_pylist()
    ]
    return split_rows(NAME, rows, outcomes, RAW_RECORDING)


STAGE = Stage(
    name=NAME,
    version=1,
    reads=RAW_RECORDING,
    writes=RAW_RECORDING,
    reasons=frozenset({"recording_in_other_build"}),
    run=check_known_recordings,
    uses=("recording_id",),
    uses_exclusions=True,
)
