"""Turn two-speaker rows into requests that one voice says to the end."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

from bystander.schemas.dyadic import DYADIC_LABEL
from bystander.schemas.dyadic_config import BuildDyadic
from bystander.schemas.engines import RowFault
from bystander.schemas.identity import make_id
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.tpi import VOICED
from bystander.tasks.texts.mentions import refers_to_other_person

NAME = "build_dyadic"
_USES = ("id", "primary_complete", "reply", "primary_voice", "third_party_voice")


def build_dyadic(rows: pa.Table, context: StageContext) -> StageOutput:
    """Make the one-speaker row of each request: all of it in one voice, no remark, the reply as it is.

    The rows given are of classes whose reply does not take up the remark, so the reply answers the request.

    Columns read: id, primary_complete, reply, primary_voice, third_party_voice. Columns written: id, label (`dyadic`),
    kind (null), primary_text (the complete request), third_party_text (empty), n_speakers (1), primary_voice (the voice
    that `voice` names), third_party_voice (null), twin_id (the row that it was made of).

    Reject reasons: reply_mentions_speaker: the reply says that somebody else spoke, whom nobody hears here.
    """
    params = cast(BuildDyadic, context.params)
    outcomes: list[dict[str, Any] | RowFault] = []
    for row in rows.select(_USES).to_pylist():
        if refers_to_other_person(row["reply"]):
            outcomes.append(RowFault("reply_mentions_speaker", f"another person in the reply {row['reply']!r}"))
            continue
        outcomes.append(
            {
                "id": name_dyadic(row["id"], params),
                "label": DYADIC_LABEL,
                "kind": None,
                "primary_text": row["primary_complete"],
                "third_party_text": "",
                "n_speakers": 1,
                "primary_voice": row[f"{params.voice}_voice"],
                "third_party_voice": None,
                "twin_id": row["id"],
            }
        )
    return split_rows(NAME, rows, outcomes, VOICED)


def name_dyadic(pair_id: str, params: BuildDyadic) -> str:
    """Return the id of the dyadic row of a two-speaker row."""
    voice = () if params.voice == "primary" else (params.voice,)
    return make_id("row", pair_id, DYADIC_LABEL, *voice)


STAGE = Stage(
    name=NAME,
    version=1,
    reads=VOICED,
    writes=VOICED,
    reasons=frozenset({"reply_mentions_speaker"}),
    run=build_dyadic,
    params_type=BuildDyadic,
    uses=_USES,
)
