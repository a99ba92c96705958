"""Rows of a SID build as they are harvested: recordings, turns cut from them, clips without speech."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa

from bystander.flows.dry_run import UnknownRowsError
from bystander.flows.harvest import Harvest, store_bases
from bystander.schemas.identity import digest_json
from bystander.schemas.sid import NOISE_CLIP, PLACED, TURN, TURNS_FOUND
from bystander.schemas.sid_params import CutTurns
from bystander.storage.cut_records import find_cuts, remember_cuts
from bystander.storage.parts import Partition, PartRef, read_partition_columns
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.stages.cut_turns import VERSION, iterate_turns
from bystander.tasks.stages.plan_silence import VERSION as SILENCE_VERSION
from bystander.tasks.stages.plan_silence import SilencePlan, cut_silences


class RecordingHarvest(Harvest):
    """Recordings whose turns are found; of them only their turns become rows."""


class TurnHarvest(Harvest):
    """Turns with their break placed."""

    SUMMARY: ClassVar[pa.Schema] = pa.schema(
        [
            PLACED.field(name)
            for name in ("id", "language", "category", "recording_id", "speaker", "synthetic", "true_category")
        ]
    )
    FINISHED: ClassVar[pa.Schema] = PLACED


class NoiseHarvest(Harvest):
    """Clips of silence and noise."""

    SUMMARY: ClassVar[pa.Schema] = pa.schema([NOISE_CLIP.field(name) for name in ("id", "category", "source")])
    FINISHED: ClassVar[pa.Schema] = NOISE_CLIP


def cut_partition(
    recordings: Partition,
    name: str,
    environment: StageEnvironment,
    params: CutTurns,
    partition_rows: int,
    may_cut: bool = True,
) -> dict[str, Partition]:
    """Return the turns of a partition of recordings as stored partitions, cut now or found from an earlier run.

    Raises:
        UnknownRowsError: they were not cut before, and may not be cut now.
    """
    store = environment.store
    key = digest_json([VERSION, recordings.digest(), params.model_dump(mode="json"), partition_rows])
    refs = find_cuts(store, key)
    if refs is None and not may_cut:
        raise UnknownRowsError
    if refs is None:
        refs = [
            ref
            for table in _cut(recordings, environment, params, partition_rows)
            for ref in _store(table, environment, partition_rows)
        ]
        remember_cuts(store, key, refs)
    return {f"{name}-turns-{number:05d}": Partition(ref) for number, ref in enumerate(refs)}


def cut_planned_silences(
    plans: Sequence[SilencePlan],
    recordings: Sequence[Partition],
    name: str,
    environment: StageEnvironment,
    partition_rows: int,
    may_cut: bool = True,
) -> dict[str, Partition]:
    """Return planned silence clips as stored partitions of NOISE_PLAN, cut now or found from an earlier run.

    Raises:
        UnknownRowsError: they were not cut before, and may not be cut now.
    """
    if not plans:
        return {}
    store = environment.store
    described = [[plan.id, [[piece.key, piece.end_s] for piece in plan.pieces]] for plan in plans]
    key = digest_json([SILENCE_VERSION, described, [one.digest() for one in recordings], partition_rows])
    refs = find_cuts(store, key)
    if refs is None and not may_cut:
        raise UnknownRowsError
    if refs is None:
        wanted = {piece.recording_id for plan in plans for piece in plan.pieces}
        refs = _store(cut_silences(plans, _read_wanted(recordings, wanted, environment)), environment, partition_rows)
        remember_cuts(store, key, refs)
    return {f"{name}-{number:05d}": Partition(ref) for number, ref in enumerate(refs)}


def _read_wanted(
    recordings: Sequence[Partition], wanted: set[str], environment: StageEnvironment
) -> Iterator[pa.Table]:
    """Yield id and audio of the partitions that hold a recording wanted."""
    for partition in recordings:
        ids = read_partition_columns(environment.store, partition, ["recording_id"])["recording_id"].to_pylist()
        if wanted & set(ids):
            yield read_partition_columns(environment.store, partition, ["recording_id", "audio"])


def _store(table: pa.Table, environment: StageEnvironment, partition_rows: int) -> list[PartRef]:
    return [partition.base for partition in store_bases(table, "", environment, partition_rows).values()]


def _cut(
    recordings: Partition, environment: StageEnvironment, params: CutTurns, partition_rows: int
) -> Iterator[pa.Table]:
    """Yield the turns in tables of `partition_rows`, the last one smaller."""
    if not recordings.rows:
        return
    table = read_partition_columns(environment.store, recordings, TURNS_FOUND.names, recent=environment.recent)
    waiting = TURN.empty_table()
    for batch in iterate_turns(table.cast(TURNS_FOUND), params):
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch])])
        while len(waiting) >= partition_rows:
            yield waiting.slice(0, partition_rows)
            waiting = waiting.slice(partition_rows)
    if len(waiting):
        yield waiting
