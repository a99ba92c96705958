"""What a build refused: stage runs with their counts, good rows left out, and the files of rejects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import pyarrow as pa

from bystander.schemas.identity import digest_json
from bystander.schemas.stages import REJECT_FIELDS, reject_schema
from bystander.schemas.tpi import AUDIO
from bystander.storage.build_manifest import MANIFEST_NAME, FileInfo, StageCounts
from bystander.storage.filesystem import Store
from bystander.storage.parts import Partition
from bystander.storage.shards import write_table
from bystander.storage.stage_results import StageResult, read_rejects
from bystander.tasks.stages import get_stage

REJECTS_ALONE = "-rejects"
"""Behind the name of a build that is there: where a later run of it that left no row has its rejects."""


@dataclass(slots=True)
class SetAside:
    """Good rows that are left out at a step of the flow's own: they stand among the rejects under its name."""

    step: str
    reason: str
    kept: int
    """Rows that went on."""
    schema: pa.Schema
    rows: Iterator[pa.Table]
    """Those that did not; read once."""
    after: str = ""
    """The stage that it follows; the last one where none is named."""


@dataclass(slots=True)
class StageRuns:
    """Every stage run of the build, in order: what it read and what it made of it."""

    runs: list[tuple[Partition, StageResult]] = field(default_factory=list)

    def names(self) -> list[str]:
        """Return the stages in the order in which they were first run."""
        return list(dict.fromkeys(result.stage for _, result in self.runs))

    def count(self, stage: str) -> StageCounts:
        """Return a stage's counts over all partitions."""
        results = [result for _, result in self.runs if result.stage == stage]
        reasons: Counter[str] = Counter()
        for result in results:
            reasons.update(result.reasons)
        return StageCounts(
            stage=stage,
            version=get_stage(stage).version,
            rows_in=sum(result.rows_in for result in results),
            kept=sum(result.rows_kept for result in results),
            reasons=dict(sorted(reasons.items())),
        )

    def digest(self) -> str:
        """Return a digest of all results, wherever their partitions were cut, and of the rows that they started with.

        Those have columns that no stage reads, such as the name of the file that a request came from.
        """
        bases = sorted(before.base.sha256 for before, _ in self.runs if not before.layers)
        results = sorted([result.stage, result.kept.sha256, result.rejected.sha256] for _, result in self.runs)
        return digest_json([bases, results])

    def rejects(self, stage: str, store: Store) -> Iterator[pa.Table]:
        """Yield the rejected rows of a stage, a partition at a time."""
        for before, result in self.runs:
            if result.stage == stage and result.rows_rejected:
                yield read_rejects(store, before, result)


def write_rejects(
    target: Store,
    source: Store,
    runs: StageRuns,
    set_aside: Sequence[SetAside],
    sampling_rate: int | None,
    without_audio: AbstractSet[str] = frozenset(),
) -> tuple[list[FileInfo], list[StageCounts]]:
    """Write one file of rejects a stage or step, where there are any, and count every one.

    Args:
        target: the build's folder.
        source: the store that the runs' parts lie in.
        runs: every stage run of the build.
        set_aside: good rows left out at steps of the flow's own.
        sampling_rate: what players resample the rejects' audio to, in Hz; None leaves each at its own.
        without_audio: stages whose rejects keep the name of their audio only: whole recordings, say, which lie where
            they came from.
    """
    target.remove("rejects", recursive=True)
    stages = [runs.count(stage) for stage in runs.names()]
    files = [
        write_table(
            target,
            f"rejects/{counts.stage}.parquet",
            reject_schema(get_stage(counts.stage).reads),
            _fit_rejects(runs.rejects(counts.stage, source), counts.stage, counts.stage in without_audio),
            sampling_rate,
        )
        for counts in stages
        if counts.rejected
    ]
    for aside in set_aside:
        info = write_table(
            target, f"rejects/{aside.step}.parquet", reject_schema(aside.schema), _mark(aside), sampling_rate
        )
        reasons = {aside.reason: info.rows} if info.rows else {}
        counts = StageCounts(stage=aside.step, rows_in=aside.kept + info.rows, kept=aside.kept, reasons=reasons)
        names = [stage.stage for stage in stages]
        stages.insert(names.index(aside.after) + 1 if aside.after in names else len(stages), counts)
        if info.rows:
            files.append(info)
        else:
            target.remove(info.file)
    return files, stages


def leave_rejects(
    source: Store, dataset: str, build: str, runs: StageRuns, without_audio: AbstractSet[str] = frozenset()
) -> str:
    """Write the rejects of a build of which no row is left, and return where they lie.

    That is the folder that the build would have had, or one beside it where a finished build has that name. It gets no
    manifest: to all else it is an unfinished build.

    Args:
        source: the store, with the runs' parts.
        dataset: name of the dataset.
        build: name of the build.
        runs: every stage run.
        without_audio: as in `write_rejects`.
    """
    name = f"{build}{REJECTS_ALONE}" if source.exists(source.path(dataset, build, MANIFEST_NAME)) else build
    target = source.child(dataset, name)
    write_rejects(target, source, runs, (), None, without_audio)
    return target.uri_of("rejects")


def _fit_rejects(tables: Iterator[pa.Table], stage: str, without_audio: bool) -> Iterator[pa.Table]:
    """Yield rejects with the schema that their stage states.

    A column may have come from an earlier layer, where it could still be null: then its type is the same and its field
    is not.
    """
    schema = reject_schema(get_stage(stage).reads)
    for table in tables:
        rows = _drop_audio(table) if without_audio else table
        yield pa.Table.from_arrays([rows[name] for name in schema.names], schema=schema)


def _drop_audio(rows: pa.Table) -> pa.Table:
    """Return the rows with the path of their audio alone, where they have audio."""
    at = rows.schema.get_field_index("audio")
    if at < 0:
        return rows
    paths = [audio and audio["path"] for audio in rows["audio"].to_pylist()]
    empty = pa.array([path and {"bytes": None, "path": path} for path in paths], AUDIO)
    return rows.set_column(at, rows.schema.field(at), empty)


def _mark(aside: SetAside) -> Iterator[pa.Table]:
    for table in aside.rows:
        for column, value in zip(REJECT_FIELDS, (aside.step, aside.reason, None, None), strict=True):
            table = table.append_column(column, pa.array([value] * len(table), column.type))
        yield table
