"""What the stages of a finished build made of each of its rows, read from the stored results that it was made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from bystander.schemas.errors import CorruptPartError
from bystander.schemas.stages import Stage
from bystander.storage.filesystem import Store
from bystander.storage.parquet_leaves import list_leaves
from bystander.storage.part_use import RecordedJourney
from bystander.storage.parts import Partition, read_layer_header, read_partition_columns
from bystander.storage.stage_results import StageResult, find_result

Key = tuple[object, ...]

_KEYS: tuple[tuple[str, ...], ...] = (
    ("id",),
    ("query_id", "draw"),
    ("turn_id",),
    ("recording_id",),
    ("query_text",),
)
"""Columns that name a row: the first of these that a stage reads."""


def find_key(stage: Stage) -> tuple[str, ...]:
    """Return the columns that name a row where it enters a stage; none if there are no such."""
    return next((key for key in _KEYS if {*key} <= {*stage.reads.names}), ())


def is_light(column: pa.Field) -> bool:
    """Return whether a column holds no audio."""
    return not any(pa.types.is_binary(kind) for kind in list_leaves(pa.schema([column])).values())


@dataclass(slots=True)
class PastStage:
    """A stage's rows of a finished build, by what names them where they enter it."""

    kept_at: dict[Key, int | None] = field(default_factory=dict)
    """For each row, its place in `values`, or None where it was rejected."""
    values: pa.Table | None = None
    """Of the rows that were kept, the columns without audio that the stage wrote."""
    _by_group: dict[object, list[Key]] = field(default_factory=dict)

    def find_donor(self, number: int, group: object) -> Key:
        """Return the row that an unknown one is taken to fare like: one of its group where there are any."""
        alike = self._by_group.get(group) or self._by_group[None]
        return alike[number % len(alike)]

    def group(self, keys: Iterable[Key], groups: Iterable[object]) -> None:
        """Note which rows are alike."""
        for key, name in zip(keys, groups, strict=True):
            self._by_group.setdefault(None, []).append(key)
            if name is not None:
                self._by_group.setdefault(name, []).append(key)


class PastRows:
    """The rows of a finished build, stage by stage, read when they are asked for.

    `journeys` each come with the store that their parts lie in; of a row that is on two, the later one holds.
    """

    def __init__(self, journeys: Sequence[tuple[Store, RecordedJourney]]) -> None:
        self._journeys = journeys
        self._stages: dict[str, PastStage] = {}

    def of(self, stage: Stage) -> PastStage:
        """Return what a stage made of its rows; empty where that is not known any more."""
        if stage.name not in self._stages:
            self._stages[stage.name] = self._read(stage)
        return self._stages[stage.name]

    def _read(self, stage: Stage) -> PastStage:
        past = PastStage()
        key = find_key(stage)
        taken = [journey for journey in self._journeys if stage.name in journey[1].stages]
        if not key or not taken:
            return past
        at_once = taken[0][0].map  # as many as a store bears
        found = at_once(lambda journey: self._find_run(*journey, stage.name), taken)
        runs = [run for run in found if run is not None]
        if not runs:
            return past
        try:
            written = self._list_written(stage, [(store, result) for store, _, result in runs])
            read = at_once(lambda run: self._read_run(stage, key, written, *run), runs)
            past.values = pa.concat_tables([values for *_, values in read])
        except (CorruptPartError, pa.ArrowException, KeyError):
            return PastStage()  # its parts are gone, or of another time
        start = 0
        for keys, groups, kept, values in read:
            places = {position: start + i for i, position in enumerate(kept)}
            past.kept_at.update({name: places.get(position) for position, name in enumerate(keys)})
            past.group(keys, groups)
            start += len(values)
        return past

    def _find_run(
        self, store: Store, journey: RecordedJourney, stage: str
    ) -> tuple[Store, Partition, StageResult] | None:
        """Return the partition that a stage read on a journey, and its result; None where a part of it is gone."""
        before = Partition(journey.base)
        for name, fingerprint in journey.steps:
            result = find_result(store, name, fingerprint)
            if result is None:
                return None
            if name == stage:
                return store, before, result
            before = before.extend(result.kept)
        return None

    def _list_written(self, stage: Stage, results: Sequence[tuple[Store, StageResult]]) -> list[str]:
        """Return the columns without audio that a stage writes, or has written anew in one partition or another."""
        given = {name for name in stage.writes.names if name not in stage.reads.names}
        for store, result in results:
            given.update(read_layer_header(store, result.kept)[2])
        return [column.name for column in stage.writes if column.name in given and is_light(column)]

    def _read_run(
        self,
        stage: Stage,
        key: Sequence[str],
        written: Sequence[str],
        store: Store,
        before: Partition,
        result: StageResult,
    ) -> tuple[list[Key], list[object], list[int], pa.Table]:
        """Return the names of the rows read, their groups, which were kept, and what those have then."""
        wanted = [*key, *(["scenario"] if "scenario" in stage.reads.names and "scenario" not in key else [])]
        rows = read_partition_columns(store, before, wanted)
        groups = rows["scenario"].to_pylist() if "scenario" in wanted else [None] * len(rows)
        _, kept, _ = read_layer_header(store, result.kept)
        values = read_partition_columns(store, before.extend(result.kept), written)
        schema = pa.schema([stage.writes.field(name) for name in written])
        return list_keys(rows, key), groups, kept, values.cast(schema)


def list_keys(rows: pa.Table, key: Sequence[str]) -> list[Key]:
    """Return what names each row."""
    return list(zip(*(rows[name].to_pylist() for name in key), strict=True)) if len(rows) else []
