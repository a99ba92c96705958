"""Stage `check_known_turns`: no turn whose recording or words another build has already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bystander.schemas.engines import RowFault
from bystander.schemas.exclusions import Exclusions
from bystander.schemas.sid import TURN
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows

NAME = "check_known_turns"
_TEXTS = ("text", "context_text")
_USES = ("recording_id", "language", *_TEXTS)


def check_known_turns(rows: pa.Table, context: StageContext) -> StageOutput:
    """Reject turns of which a build in `disjoint_from` has the recording, the words, or what the other one was saying.

    Of a turn, the words from the first new intent on are compared, as the lexicon sees it: acknowledgements are
    everybody's, and so are texts of one or two words.

    Columns read: recording_id, language, text, context_text. Columns written: none.

    Reject reasons:
        recording_in_other_build: another build has rows of its recording, or conversation.
        text_in_other_build: the words of one of the two texts are in a row of another build.
    """
    outcomes: list[Mapping[str, Any] | RowFault] = [
        _find_known(row, context.exclusions) or {} for row in rows.select(_USES).to_pylist()
    ]
    return split_rows(NAME, rows, outcomes, TURN)


def _find_known(row: Mapping[str, Any], exclusions: Exclusions) -> RowFault | None:
    if exclusions.has_recording(row["recording_id"]):
        return RowFault("recording_in_other_build", f"a build of `disjoint_from` has rows of {row['recording_id']}")
    for name in _TEXTS:
        if exclusions.has_text(row[name], row["language"]):
            return RowFault("text_in_other_build", f"another build has the {name} {row[name]!r}")
    return None


STAGE = Stage(
    name=NAME,
    version=1,
    reads=TURN,
    writes=TURN,
    reasons=frozenset({"recording_in_other_build", "text_in_other_build"}),
    run=check_known_turns,
    uses=_USES,
    uses_exclusions=True,
)
