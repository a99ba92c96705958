"""Rows of a build as they are harvested partition by partition, and where each of them lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from bystander.flows.listeners import BuildListener
from bystander.flows.partition_stream import Journey, stream_partitions
from bystander.flows.stage_workers import current_workers
from bystander.schemas.engines import EngineRole
from bystander.schemas.stages import Stage
from bystander.storage.part_use import BASES_FOLDER
from bystander.storage.parts import Partition, read_partition_columns, write_part_by_content
from bystander.storage.stage_results import StageResult
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.stages import get_stage

ROLE_LIMITS: Mapping[EngineRole, int] = {
    "writer": 4,
    "judge": 4,
    "tagger": 4,
    "speech": 2,
    "recogniser": 2,
    "aligner": 2,
}
"""Partitions that may use an engine at once. Partitions that begin together run out together: only with four does a
text server have requests left whenever some of them are between two stages. Of two that are spoken, one is listened to
while the other keeps the voices busy (`tests/flows/test_engines_kept_busy.py` has the figures). This is what is usual
where all stage runs share one set of engines; see `StageWorkers.limit_roles`."""


@dataclass(slots=True)
class Harvest:
    """Finished rows of one kind, in the order in which they were planned. Kinds with another summary derive from it."""

    SUMMARY: ClassVar[pa.Schema] = pa.schema([])
    """What planning and selection need to know of a finished row; without columns, none is kept."""
    FINISHED: ClassVar[pa.Schema] = pa.schema([])
    """The columns of a finished row."""
    UNPUBLISHED: ClassVar[tuple[str, ...]] = ()
    """Parquet leaves that no published file holds, and that are not read for one."""

    stages: Sequence[str]
    journeys: list[Journey] = field(default_factory=list)
    summaries: list[pa.Table] = field(default_factory=list)
    """For each journey, SUMMARY of its finished rows."""
    stream: Callable[[Mapping[str, Partition], Sequence[Stage]], list[Journey]] | None = None
    """How partitions are sent through stages where they are not to be run: a plan counts them instead."""

    def grow(
        self,
        bases: pa.Table,
        name: str,
        environment: StageEnvironment,
        listener: BuildListener,
        partition_rows: int,
        workers: int,
    ) -> list[Journey]:
        """Send more rows through the stages, in partitions of `partition_rows`, and return their journeys."""
        partitions = store_bases(bases, name, environment, partition_rows)
        return self.grow_partitions(partitions, environment, listener, workers)

    def grow_partitions(
        self, partitions: Mapping[str, Partition], environment: StageEnvironment, listener: BuildListener, workers: int
    ) -> list[Journey]:
        """Send stored partitions through the stages, and return their journeys."""
        listener.on_stream(list(self.stages), sum(partition.rows for partition in partitions.values()))
        stages = [get_stage(stage) for stage in self.stages]
        if self.stream is not None:
            journeys = self.stream(partitions, stages)
        else:
            limits = current_workers().limit_roles(ROLE_LIMITS)
            journeys = stream_partitions(partitions, stages, environment, listener, limits, workers)
        self.journeys.extend(journeys)
        if self.SUMMARY.names:
            store, names = environment.store, self.SUMMARY.names
            self.summaries += store.map(
                lambda journey: read_partition_columns(store, journey.partition, names), journeys
            )
        return journeys

    def summary(self) -> pa.Table:
        """Return SUMMARY of all finished rows."""
        return pa.concat_tables([self.SUMMARY.empty_table(), *self.summaries])

    def runs(self) -> list[tuple[Partition, StageResult]]:
        """Return every stage run: the partition read, and the result."""
        return [run for journey in self.journeys for run in journey.results]

    def read_columns(self, environment: StageEnvironment, ids: set[str], schema: pa.Schema) -> pa.Table:
        """Return the columns of `schema` of the finished rows of these ids, in the order planned."""
        tables = [schema.empty_table()]
        for journey, summary in zip(self.journeys, self.summaries, strict=True):
            at = [i for i, row_id in enumerate(summary["id"].to_pylist()) if row_id in ids]
            if at:
                table = read_partition_columns(environment.store, journey.partition, schema.names)
                tables.append(table.take(pa.array(at, pa.int64())).cast(schema))
        return pa.concat_tables(tables)

    def read_rows(
        self, environment: StageEnvironment, ids: set[str], schema: pa.Schema | None = None
    ) -> Iterator[pa.Table]:
        """Yield the finished rows of these ids with the columns of `schema` (FINISHED where none is given).

        They come a partition at a time, in the order planned, and UNPUBLISHED leaves are null.
        """
        names = (self.FINISHED if schema is None else schema).names
        for journey, summary in zip(self.journeys, self.summaries, strict=True):
            wanted = [i for i, row_id in enumerate(summary["id"].to_pylist()) if row_id in ids]
            if wanted:
                table = read_partition_columns(environment.store, journey.partition, names, self.UNPUBLISHED)
                yield table if len(wanted) == len(table) else table.take(pa.array(wanted, pa.int64()))


def store_bases(rows: pa.Table, name: str, environment: StageEnvironment, partition_rows: int) -> dict[str, Partition]:
    """Cut rows into partitions and store them under their content, so that equal rows find them again."""
    return {
        f"{name}-{number:05d}": Partition(
            write_part_by_content(
                environment.store,
                BASES_FOLDER,
                rows.slice(start, partition_rows).combine_chunks(),
                environment.recent,
            )
        )
        for number, start in enumerate(range(0, len(rows), partition_rows))
    }
