"""Small stages over numbers, and an environment for them, to test what runs stages."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from bystander.schemas.engines import EngineIdentity, RowFault
from bystander.schemas.exclusions import NO_EXCLUSIONS, Exclusions
from bystander.schemas.stages import Params, Stage, StageContext, StageOutput, split_rows
from bystander.schemas.taxonomy import Scenario, ScenarioExample, Taxonomy
from bystander.storage.filesystem import Store
from bystander.storage.parts import Partition, write_part
from bystander.storage.recent_parts import RecentParts
from bystander.tasks.engine_use import EngineUse
from bystander.tasks.run_stage import StageReport, report_stage

NUMBERS = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64(), nullable=False)])
DOUBLED = pa.schema([*NUMBERS, pa.field("double", pa.int64(), nullable=False)])
NOTED = pa.schema([*DOUBLED, pa.field("note", pa.string(), nullable=False)])
SQUARED = pa.schema([*NOTED, pa.field("square", pa.int64(), nullable=False)])


class ToyParams(Params):
    note: str = "a"
    version: int = 1


@dataclass
class Calls:
    """Counts the rows that each stage was really run on."""

    rows: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, rows: int) -> None:
        self.rows[name] = self.rows.get(name, 0) + rows


def make_stages(calls: Calls) -> list[Stage]:
    def double(rows: pa.Table, context: StageContext) -> StageOutput:
        calls.add("double", len(rows))
        numbers = rows["n"].to_pylist()
        return split_rows(
            "double", rows, [RowFault("odd", f"{n}") if n % 2 else {"double": 2 * n} for n in numbers], DOUBLED
        )

    def note(rows: pa.Table, context: StageContext) -> StageOutput:
        calls.add("note", len(rows))
        text = context.params.note  # type: ignore[attr-defined]
        return split_rows("note", rows, [{"note": text}] * len(rows), NOTED)

    def square(rows: pa.Table, context: StageContext) -> StageOutput:
        calls.add("square", len(rows))
        return split_rows("square", rows, [{"square": n * n} for n in rows["n"].to_pylist()], SQUARED)

    return [
        Stage("double", 1, NUMBERS, DOUBLED, frozenset({"odd"}), double, ToyParams),
        Stage("note", 1, DOUBLED, NOTED, frozenset(), note, ToyParams, uses=("id",)),
        Stage("square", 1, NOTED, SQUARED, frozenset(), square, ToyParams, uses=("id", "n"), engines=("speech",)),
    ]


class ToyEnvironment:
    """Stands in for StageEnvironment: a store, parameters by stage, one engine identity."""

    def __init__(self, folder: Path, note: str = "a", engine: str = "e1") -> None:
        self.recent = RecentParts()
        self.store = Store(folder)
        self.job = SimpleNamespace(build_seed=7)
        example = ScenarioExample(primary="Play music.", third_party="Yes, do.")
        scenario = Scenario(
            key="endorsement", category="agreement", definition="Says that it is good.", examples=(example,)
        )
        self.taxonomy = Taxonomy(name="toy", scenarios=(scenario,))
        self.pack = SimpleNamespace(digest="pack", classes=(), describe_task=lambda task: {"template": task})
        self.descriptions: dict[str, dict[str, Any]] = {}
        self._note = note
        self._engine = SimpleNamespace(identity=EngineIdentity("speech", engine, "m", "1"))

    def params_of(self, stage: Stage) -> Params:
        return ToyParams(note=self._note) if stage.name == "note" else ToyParams()

    def engines_of(self, stage: Stage) -> Mapping[str, Any]:
        return dict.fromkeys(stage.engines, self._engine)

    def take_use(self) -> EngineUse:
        return EngineUse()

    def add_use(self, use: EngineUse) -> None:
        assert use == EngineUse()

    def exclusions_of(self, stage: Stage) -> Exclusions:
        return NO_EXCLUSIONS


def make_partition(store: Store, name: str, numbers: list[int]) -> Partition:
    table = pa.table([pa.array([f"row-{n}" for n in numbers]), pa.array(numbers, pa.int64())], schema=NUMBERS)
    return Partition(write_part(store, f"base/{name}.parquet", table))


class PoolSubmit:
    """Runs stages on a thread pool, as the task runner does, without Prefect."""

    def __init__(self, stages: list[Stage], environment: Any, workers: int = 2) -> None:
        self._stages = {stage.name: stage for stage in stages}
        self._environment = environment
        self._pool = ThreadPoolExecutor(workers)
        self.submitted: list[tuple[str, str]] = []

    def __call__(self, stage: str, name: str, partition: Partition, job: Any) -> Any:
        self.submitted.append((stage, name))
        future: Future[StageReport] = self._pool.submit(report_stage, self._stages[stage], partition, self._environment)

        def result(raise_on_failure: bool = True) -> Any:
            error = future.exception()
            return error if error is not None and not raise_on_failure else future.result()

        handle = SimpleNamespace(result=result)
        handle.add_done_callback = lambda call: future.add_done_callback(lambda _: call(handle))
        return handle
