"""Turns for the tagging stage to read, with the columns that it uses, and a context with SID's prompts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pyarrow as pa

from bystander.prompts.load_rubrics import load_rubrics
from bystander.schemas.sid import CONVERSATION_PLAN, TURN
from bystander.schemas.stages import Params, StageContext
from bystander.schemas.taxonomy import load_taxonomy

USED = pa.schema([TURN.field(name) for name in ("id", "language", "text", "context_text")])


def make_turns(*changes: Mapping[str, Any]) -> pa.Table:
    """Return one turn a change; ids are turn-0, turn-1, ... unless given."""
    blank = {"language": "en", "text": "Yeah, so what about Tuesday?", "context_text": "The shop is closed on"}
    rows = [{"id": f"turn-{i}", **blank, **change} for i, change in enumerate(changes)]
    return pa.Table.from_pylist(rows, schema=USED)


def make_plans(*changes: Mapping[str, Any]) -> pa.Table:
    """Return one plan a change; ids are plan-0, plan-1, ... unless given."""
    blank = {"language": "en", "category": "middle", "draw": 0}
    rows = [{"recording_id": f"plan-{i}", **blank, **change} for i, change in enumerate(changes)]
    return pa.Table.from_pylist(rows, schema=CONVERSATION_PLAN)


def make_sid_context(params: Params, build_seed: int = 7, **engines: Any) -> StageContext:
    return StageContext(build_seed, params, _load_taxonomy(), _load_prompts("sid"), engines)


_load_taxonomy = cache(load_taxonomy)
_load_prompts = cache(load_rubrics)
