"""Rows of a TPI build as they are harvested wave by wave."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from bystander.flows.harvest import Harvest
from bystander.schemas.tpi import CHECKED, VOICED


class QueryHarvest(Harvest):
    """Queries that can be used. They have no row of their own yet, so nothing of them is summed up."""


class RowHarvest(Harvest):
    """Finished rows of one kind: pairs or hard negatives."""

    SUMMARY: ClassVar[pa.Schema] = pa.schema(
        [VOICED.field(name) for name in ("id", "scenario", "category", "label", "timing", "ambiguity_score", "twin_id")]
    )
    FINISHED: ClassVar[pa.Schema] = CHECKED
    UNPUBLISHED: ClassVar[tuple[str, ...]] = ("tracks.list.element.audio",)
    """The tracks come without their audio, which no published file holds: it is in the mixture."""
