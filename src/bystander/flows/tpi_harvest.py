"""Rows of a TPI build as they are harvested wave by wave, and where each of them lies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from bystander.flows.listeners import BuildListener
from bystander.flows.partition_stream import Journey, stream_partitions
from bystander.schemas.engines import EngineRole
from bystander.schemas.tpi import CANDIDATE, VOICED
from bystander.storage.parts import Partition, read_partition, read_partition_columns, write_part
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.stages import HARD_NEGATIVE_STAGES, PAIR_STAGES, get_stage

BASES_FOLDER = "cache/bases"

SUMMARY_COLUMNS = ("id", "scenario", "category", "label", "timing", "ambiguity_score", "twin_id")
"""What planning and selection need to know of a finished row."""

ROLE_LIMITS: Mapping[EngineRole, int] = {"writer": 2, "judge": 2, "speech": 1, "recogniser": 1}
"""Partitions that may use an engine at once. Two keep a text server's slots filled while one partition runs out; the
speech engines are parallel inside, so that a second partition would only hold memory."""


@dataclass(slots=True)
class Harvest:
    """Finished rows of one kind (pairs or hard negatives), in the order in which they were planned."""

    journeys: list[Journey] = field(default_factory=list)
    rows: list[pa.Table] = field(default_factory=list)
    """For each journey: SUMMARY_COLUMNS of its finished rows."""

    def add(self, environment: StageEnvironment, journeys: Sequence[Journey]) -> None:
        """Take in partitions that went through."""
        for journey in journeys:
            self.journeys.append(journey)
            self.rows.append(read_partition_columns(environment.store, journey.partition, SUMMARY_COLUMNS))

    def summary(self) -> pa.Table:
        """Return SUMMARY_COLUMNS of all finished rows."""
        if not self.rows:
            return pa.table({name: pa.array([], CANDIDATE_OR_TEXT(name)) for name in SUMMARY_COLUMNS})
        return pa.concat_tables(self.rows)

    def read_rows(self, environment: StageEnvironment, ids: set[str]) -> Iterator[pa.Table]:
        """Yield the finished rows of these ids, a partition at a time, in the order planned."""
        for journey, summary in zip(self.journeys, self.rows, strict=True):
            wanted = [i for i, row_id in enumerate(summary["id"].to_pylist()) if row_id in ids]
            if wanted:
                yield read_partition(environment.store, journey.partition).take(pa.array(wanted, pa.int64()))
