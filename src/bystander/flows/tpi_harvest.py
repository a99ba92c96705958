"""Rows of a TPI build as they are harvested wave by wave, and where each of them lies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from bystander.flows.listeners import BuildListener
from bystander.flows.partition_stream import Journey, stream_partitions
from bystander.schemas.engines import EngineRole
from bystander.schemas.tpi import CHECKED, VOICED
from bystander.storage.part_use import BASES_FOLDER
from bystander.storage.parts import Partition, make_layer, read_partition_columns, write_part_by_content
from bystander.storage.stage_results import StageResult
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.stages import QUERY_STAGES, get_stage

_UNPUBLISHED = ("tracks.list.element.audio",)

SUMMARY = pa.schema(
    [VOICED.field(name) for name in ("id", "scenario", "category", "label", "timing", "ambiguity_score", "twin_id")]
)
"""What planning and selection need to know of a finished row."""

REPLY_COLUMNS = ("reply", "reply_attempts", "pack", "pack_digest")
"""Columns of a base that change with the pack's reply prompts alone. They lie in a layer of their own, so that a stage
that does not use them finds its result again under another pack."""

ROLE_LIMITS: Mapping[EngineRole, int] = {"writer": 2, "judge": 2, "speech": 1, "recogniser": 1}
"""Partitions that may use an engine at once. Two keep a text server's slots filled while one partition runs out; the
speech engines are parallel inside, so that a second partition would only hold memory."""


@dataclass(slots=True)
class Harvest:
    """Finished rows of one kind (pairs or hard negatives), in the order in which they were planned."""

    stages: Sequence[str]
    journeys: list[Journey] = field(default_factory=list)
    summaries: list[pa.Table] = field(default_factory=list)
    """For each journey, SUMMARY of its finished rows."""

    def grow(
        self,
        bases: pa.Table,
        name: str,
        environment: StageEnvironment,
        listener: BuildListener,
        partition_rows: int,
        workers: int,
    ) -> None:
        """Send more rows through the stages, in partitions of `partition_rows`."""
        partitions = store_bases(bases, name, environment, partition_rows)
        listener.on_stream(list(self.stages), len(bases))
        journeys = stream_partitions(
            partitions, [get_stage(stage) for stage in self.stages], environment, listener, ROLE_LIMITS, workers
        )
        self.journeys.extend(journeys)
        if self.stages != QUERY_STAGES:
            self.summaries.extend(
                read_partition_columns(environment.store, journey.partition, SUMMARY.names) for journey in journeys
            )

    def summary(self) -> pa.Table:
        """Return SUMMARY of all finished rows."""
        return pa.concat_tables([SUMMARY.empty_table(), *self.summaries])

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
        self, environment: StageEnvironment, ids: set[str], schema: pa.Schema = CHECKED
    ) -> Iterator[pa.Table]:
        """Yield the finished rows of these ids, a partition at a time, in the order planned.

        The tracks come without their audio, which no published file holds: it is in the mixture.
        """
        for journey, summary in zip(self.journeys, self.summaries, strict=True):
            wanted = [i for i, row_id in enumerate(summary["id"].to_pylist()) if row_id in ids]
            if wanted:
                table = read_partition_columns(environment.store, journey.partition, schema.names, _UNPUBLISHED)
                yield table if len(wanted) == len(table) else table.take(pa.array(wanted, pa.int64()))


def store_bases(rows: pa.Table, name: str, environment: StageEnvironment, partition_rows: int) -> dict[str, Partition]:
    """Cut rows into partitions and store them under their content, so that an equal wave finds them again."""
    store = environment.store
    partitions = {}
    for number, start in enumerate(range(0, len(rows), partition_rows)):
        table = rows.slice(start, partition_rows).combine_chunks()
        replies = [column for column in REPLY_COLUMNS if column in table.schema.names]
        base = table.drop_columns(replies)
        partition = Partition(write_part_by_content(store, BASES_FOLDER, base))
        if replies:
            layer = make_layer(base, table, range(len(table)))
            partition = partition.extend(write_part_by_content(store, BASES_FOLDER, layer))
        partitions[f"{name}-{number:05d}"] = partition
    return partitions
