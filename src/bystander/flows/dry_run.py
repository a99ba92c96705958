"""Sends partitions through their stages without a call: what is stored is found, what is not is taken to come out as
in an earlier build.

A stage without a model is really run, over a store that keeps nothing. Of a stage with one, each row that the earlier
build had fares as it did there, and each that is new fares like one of the same scenario. So the flows can plan their
waves as they would, and every row that goes into a stage is counted as reused, regrouped, redone or new.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from bystander.flows.partition_stream import Journey
from bystander.schemas.identity import derive_seed
from bystander.schemas.rebuild import FieldChange, StageForecast
from bystander.schemas.stages import Stage
from bystander.storage.parts import Partition, make_layer, read_partition_columns, write_part
from bystander.storage.stage_results import StageResult
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.past_rows import Key, PastRows, PastStage, find_key, is_light, list_keys
from bystander.tasks.run_stage import execute_stage, find_equal, find_finished
from bystander.tasks.stages import CONVERSATION_STAGES, QUERY_STAGES, RECORDING_STAGES
from bystander.tasks.stages.build_hard_negatives import name_hard_negative

_FOLDER = "cache/assumed"
_NAMES = ("id", "twin_id")
_WORDS = ("primary_complete", "primary_text", "third_party_text")
"""Columns in which no two rows are taken to be alike."""


_ONCE = {*QUERY_STAGES, *RECORDING_STAGES} - {*CONVERSATION_STAGES}
"""Stages that all rows enter at once, before any wave."""


_ANSWERS = frozenset({"engines", "prompts", "classes"})
"""Fields of a description that decide what engines answer, and which answers are taken."""


class UnknownRowsError(Exception):
    """What a flow would do next depends on rows of which nothing is known before they are made."""


@dataclass(slots=True)
class _Track:
    """What is known of a partition on its way."""

    partition: Partition
    anew: dict[str, str] = field(default_factory=dict)
    """Columns that may differ from those of the earlier build, each with the stage that made it anew."""
    assumed: set[str] = field(default_factory=set)
    """Those of them whose values are not known."""
    sure: bool = True
    """Whether these are the rows that there will be."""


@dataclass(slots=True)
class _Count:
    rows: Counter[str] = field(default_factory=Counter)
    follows: dict[str, str] = field(default_factory=dict)
    exact: bool = True


class DryRun:
    """Counts what would be reused and made. `environment` is one over a scratch store.

    `changes` has, for each stage of the earlier build, what has changed in its description.
    """

    def __init__(
        self, environment: StageEnvironment, past: PastRows, changes: Mapping[str, tuple[FieldChange, ...]]
    ) -> None:
        self.environment = environment
        self.sure = True
        """Whether no row had to be assumed so far."""
        self._past = past
        self._changes = changes
        self._counts: dict[str, _Count] = {}
        self._anew: dict[str, str] = {}
        self._assumed: set[str] = set()
        self._unknown = False
        self._numbers = itertools.count()

    def stream(self, partitions: Mapping[str, Partition], stages: Sequence[Stage]) -> list[Journey]:
        """Send every partition through all stages.

        Raises:
            UnknownRowsError: some rows are new, and nothing is known of rows like them. All partitions were counted.
        """
        journeys = []
        for name, partition in partitions.items():
            track = _Track(partition, dict(self._anew), set(self._assumed), self.sure)
            journey = Journey(name, partition, partition)
            for stage in stages:
                result = self._pass(track, stage)
                if result is None:
                    break
                journey.results.append((track.partition, result))
                track.partition = track.partition.extend(result.kept)
            journey.partition = track.partition
            journeys.append((journey, track))
        for _, track in journeys:
            self._anew.update(track.anew)
            self._assumed |= track.assumed
            self.sure &= track.sure
        if self._unknown:
            raise UnknownRowsError
        return [journey for journey, _ in journeys]

    @property
    def runs_nothing(self) -> bool:
        """Whether every result was found so far."""
        return not any(count.rows[kind] for count in self._counts.values() for kind in ("regrouped", "redone", "new"))

    def note_results(self, runs: Sequence[tuple[Stage, Partition, StageResult]]) -> None:
        """Count stage runs that were really made, or found, before."""
        for stage, partition, result in runs:
            if result.reused:
                self._count(stage).rows["reused"] += result.rows_in
            else:
                changed = bool(self._changes.get(stage.name))
                made = self._count_made(stage, self._read_keys(stage, partition)[0], changed)
                if made["redone"]:
                    self._anew.update(dict.fromkeys(_list_written(stage), stage.name))

    def forecasts(self, stages: Sequence[str]) -> tuple[StageForecast, ...]:
        """Return the counts of each of these stages; none of those that no row has reached.

        Once rows were assumed, how many more a flow will try is not certain.
        """
        forecasts = []
        for name in stages:
            count = self._counts.get(name, _Count(exact=False))
            rows = {kind: count.rows[kind] for kind in ("reused", "regrouped", "redone", "new")}
            causes = self._changes.get(name, ())
            forecasts.append(
                StageForecast(
                    stage=name,
                    **rows,
                    exact=count.exact and (self.sure or name in _ONCE),
                    causes=causes,
                    follows=count.follows,
                )
            )
        return tuple(forecasts)

    def _pass(self, track: _Track, stage: Stage) -> StageResult | None:
        """Return what a stage makes of a partition, found, made or assumed; None where nothing is known of it."""
        count = self._count(stage)
        count.exact &= track.sure
        changed = bool(self._changes.get(stage.name))
        follows = {name: track.anew[name] for name in stage.needed if name in track.anew}
        doubtful = track.assumed & {*stage.needed}
        written = _list_written(stage)
        result = None
        if not doubtful:
            result = find_finished(stage, track.partition, self.environment) or find_equal(
                stage, track.partition, self.environment
            )
        if result is not None:
            count.rows["reused"] += result.rows_in
            for name in written:
                track.assumed.discard(name)
                if changed or follows:
                    track.anew[name] = stage.name
                else:
                    track.anew.pop(name, None)
            return result
        keys, groups = self._read_keys(stage, track.partition)
        made = self._count_made(stage, keys, changed or bool(follows))
        if made["redone"]:
            count.follows.update(follows)
        if _runs_here(stage) and not doubtful:
            if made["redone"]:
                track.anew.update(dict.fromkeys(written, stage.name))
            return execute_stage(stage, track.partition, self.environment)
        past = self._past.of(stage)
        if past.values is None or not past.kept_at:
            self._unknown = True
            return None
        rewritten = [*written, *(name for name in past.values.schema.names if name not in written)]
        if made["redone"]:
            if not follows and all(change.field.partition(".")[0] in _ANSWERS for change in self._changes[stage.name]):
                rewritten = [*(stage.from_engines or rewritten)]
            track.anew.update(dict.fromkeys(rewritten, stage.name))
            track.assumed.update(rewritten)
        track.sure &= not (made["redone"] or made["new"])
        return self._assume(stage, keys, groups, past)

    def _assume(self, stage: Stage, keys: Sequence[Key], groups: Sequence[object], past: PastStage) -> StageResult:
        """Return the result that a stage had for the rows that it knows, and for others that of rows like them."""
        assert past.values is not None
        at: list[int] = []
        places: list[int] = []
        strangers: dict[int, Key] = {}
        for i, (key, group) in enumerate(zip(keys, groups, strict=True)):
            donor = key
            if key not in past.kept_at:
                donor = past.find_donor(derive_seed(0, str(key), stage.name), group)
            place = past.kept_at[donor]
            if place is None:
                continue
            if donor is not key:
                strangers[len(at)] = key
            at.append(i)
            places.append(place)
        taken = pa.array(places, pa.int64())
        columns = [(column, past.values[column.name].take(taken)) for column in past.values.schema]
        heavy = [column for column in stage.writes if column.name not in stage.reads.names and not is_light(column)]
        columns += [(column.with_nullable(True), pa.nulls(len(at), column.type)) for column in heavy]
        arrays = [array for _, array in columns]
        values = _estrange(pa.table(arrays, pa.schema([column for column, _ in columns])), strangers)
        before = pa.table({"__key__": pa.array([str(key) for key in keys], pa.string())})
        layer = make_layer(before, values, at, stage.writes.names)
        number = next(self._numbers)
        kept = write_part(self.environment.store, f"{_FOLDER}/{number}.parquet", layer, self.environment.recent)
        return StageResult(
            stage=stage.name,
            fingerprint=f"assumed-{number}",
            rows_in=len(keys),
            kept=kept,
            rejected=kept,
            reasons={},
        )

    def _count(self, stage: Stage) -> _Count:
        return self._counts.setdefault(stage.name, _Count())

    def _count_made(self, stage: Stage, keys: Sequence[Key], forced: bool) -> Counter[str]:
        known = self._past.of(stage).kept_at
        again = "redone" if forced else "regrouped"
        made = Counter(again if key in known else "new" for key in keys)
        self._count(stage).rows.update(made)
        return made

    def _read_keys(self, stage: Stage, partition: Partition) -> tuple[list[Key], list[object]]:
        """Return what names the rows of a partition where they enter a stage, and which are alike: their scenario."""
        key = find_key(stage)
        names = [*key, *(["scenario"] if "scenario" in stage.reads.names else [])]
        rows = read_partition_columns(self.environment.store, partition, names, recent=self.environment.recent)
        keys: list[Key] = list_keys(rows, key) if key else [(i,) for i in range(partition.rows)]
        return keys, rows["scenario"].to_pylist() if "scenario" in names else [None] * len(keys)


def _list_written(stage: Stage) -> list[str]:
    """Return the columns that a stage adds."""
    return [name for name in stage.writes.names if name not in stage.reads.names]


def _runs_here(stage: Stage) -> bool:
    """Return whether a stage asks no model and reads no audio, so that running it costs next to nothing."""
    return not (stage.engines or stage.optional_engines) and all(map(is_light, (*stage.reads, *stage.writes)))


def _estrange(values: pa.Table, strangers: Mapping[int, Key]) -> pa.Table:
    """Return what rows were taken over from others, with names and words of their own at the places of `strangers`."""
    if not strangers:
        return values
    for name in values.schema.names:
        if name not in (*_NAMES, *_WORDS):
            continue
        cells = values[name].to_pylist()
        for i, key in strangers.items():
            own = str(key[0])
            if name in _WORDS:
                cells[i] = f"{cells[i]} {own}"
            elif cells[i] is not None:
                cells[i] = name_hard_negative(own) if name == "id" else own
        at = values.schema.get_field_index(name)
        values = values.set_column(at, values.schema.field(at), pa.array(cells, values.schema.field(at).type))
    return values
