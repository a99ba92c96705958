"""Plans which conversations are scripted and spoken next, so that a build's quotas are met."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pyarrow as pa

from bystander.schemas.identity import derive_seed, make_id
from bystander.schemas.sid import CONVERSATION_PLAN
from bystander.schemas.sid_params import SidStages

Stratum = tuple[str, str]
"""Language and category."""

_LEAST_YIELD = 0.1
"""Below this a wave would be more than ten times what is missing: better several smaller ones, that measure anew."""


def size_conversations(
    missing: Mapping[Stratum, int], drawn: Mapping[Stratum, int], got: Mapping[Stratum, int], surplus: float
) -> dict[Stratum, int]:
    """Return how many conversations of each stratum the next wave needs.

    Args:
        missing: rows still missing.
        drawn: conversations planned so far.
        got: finished rows so far, by the category that was scripted.
        surplus: conversations for each row that the yield so far makes likely.
    """
    wanted = {}
    for stratum, rows in missing.items():
        if rows > 0:
            share = got.get(stratum, 0) / drawn[stratum] if drawn.get(stratum) else 1.0
            wanted[stratum] = math.ceil(rows * surplus / max(share, _LEAST_YIELD))
    return wanted


def name_sides(stages: SidStages) -> tuple[str, ...]:
    """Return what names the sides that texts and voices are taken from; nothing where they are taken from both."""
    uses = (stages.write_conversations.use, stages.speak_conversations.use)
    return () if set(uses) == {"all"} else uses


def plan_conversations(
    wanted: Mapping[Stratum, int], drawn: Mapping[Stratum, int], seed: int, sides: Sequence[str] = ()
) -> pa.Table:
    """Return `CONVERSATION_PLAN` rows: of each stratum so many more than were drawn before.

    The i-th conversation of a stratum is the same whatever else is drawn. The order mixes the strata by a hash. Those
    of other `sides` (`name_sides`) are others, with ids of their own.
    """
    rows = [
        {
            "recording_id": make_id("conversation", seed, *stratum, draw, *sides),
            "language": stratum[0],
            "category": stratum[1],
        }
        | {"draw": draw}
        for stratum, count in sorted(wanted.items())
        for draw in range(drawn.get(stratum, 0), drawn.get(stratum, 0) + count)
    ]
    rows.sort(key=lambda row: derive_seed(seed, str(row["recording_id"]), "plan_conversations"))
    return pa.Table.from_pylist(rows, schema=CONVERSATION_PLAN)
