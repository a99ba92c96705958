"""Systems and judges of an evaluation at work: opened, led over stored rows, and what is noted of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from bystander.flows.listeners import BuildListener
from bystander.flows.partition_stream import Journey, stream_partitions
from bystander.flows.stage_workers import current_workers
from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.engine_configs import EvaluationEngines, PredictionsConfig, TransformersAudioConfig
from bystander.schemas.engines import EngineRole
from bystander.schemas.errors import InputError
from bystander.schemas.evaluation_scores import RaterInfo
from bystander.schemas.evaluation_settings import EvaluationConfig
from bystander.schemas.stage_job import StageJob
from bystander.schemas.text_engine_configs import LlamaCppTextConfig
from bystander.storage.build_manifest import ModelFileInfo
from bystander.storage.filesystem import Store
from bystander.storage.parts import Partition, read_partition_columns
from bystander.tasks.environment import StageEnvironment, open_environment
from bystander.tasks.metrics.input_checks import list_ids
from bystander.tasks.stages import get_stage
from bystander.tasks.stages.verdicts import is_answered

_LIMITS: dict[EngineRole, int] = {"candidate": 2, "judge": 2}
"""Partitions that may use an engine at once: two keep a server's slots filled while one partition runs out."""


class RaterRuns:
    """Runs systems and judges one after another, for models are large, and notes what is said of them later.

    `make_job` makes the job of one engine's stage runs. Call `expect` once the rows are known.
    """

    def __init__(
        self,
        config: EvaluationConfig,
        store: Store,
        listener: BuildListener,
        make_job: Callable[[EvaluationEngines], StageJob],
    ) -> None:
        self.config = config
        self.store = store
        self.listener = listener
        self._wanted: dict[str, int] = {}
        self._make_job = make_job
        self._identities: dict[str, dict[str, Any]] = {}
        self._models: dict[str, ModelFileInfo] = {}
        self._calls: dict[str, dict[str, int]] = {}
        self._done: dict[str, int] = {}

    def expect(self, rows: int, judged: int) -> None:
        """Tell the listener from now on that each system answers `rows` rows, and judges see `judged` of them."""
        self._wanted = {f"answers of {system}": rows for system in self.config.systems}
        if judged:
            total = judged * len(self.config.systems)
            self._wanted.update({f"verdicts of {judge}": total for judge in self.config.judges})

    def open_light_engines(self) -> None:
        """Open what holds no model, so that a wrong file or key is found before the first call is paid for."""
        for system in self.config.systems.values():
            if not _holds_model(system):
                self.open(EvaluationEngines(candidate=system)).engine("candidate")
        for name, judge in self.config.judges.items():
            if not _holds_model(judge):
                self.open_judge(name).engine("judge")

    def check_predictions(self, ids: Sequence[str]) -> None:
        """Say how many predictions belong to no row that is evaluated.

        Raises:
            InputError: none of a file's belongs to one.
        """
        for name, config in self.config.systems.items():
            if isinstance(config, PredictionsConfig):
                predictions = self.open(EvaluationEngines(candidate=config)).engine("candidate")
                unknown = predictions.list_unknown_ids(ids)
                if len(unknown) == len(predictions):
                    raise InputError(
                        f"system {name}: none of its {len(unknown)} ids is that of a row that is evaluated, the first "
                        f"is {unknown[0]}; take them from the bench"
                    )
                if unknown:
                    self.listener.on_phase(f"system {name}: {len(unknown)} predictions belong to no row evaluated")

    def answer(self, system: str, stage: str, partitions: Mapping[str, Partition]) -> list[Journey]:
        """Have a system answer the rows of partitions; `require_answers` sees whether it did."""
        environment = self.open(EvaluationEngines(candidate=self.config.systems[system]))
        self.listener.on_phase(f"answers of {system}")
        journeys = self._stream(partitions, stage, environment)
        self._close(environment, f"system {system}", "candidate")
        return journeys

    def require_answers(self, system: str, tables: Iterable[pa.Table]) -> dict[str, str | None]:
        """Return a system's answers by row id, from tables with the columns id, answer and answer_fault.

        Raises:
            InputError: some are missing, and that is not allowed.
        """
        answers: dict[str, str | None] = {}
        missing: list[str] = []
        faults: Counter[str] = Counter()
        for table in tables:
            for row in table.select(["id", "answer", "answer_fault"]).to_pylist():
                answers[row["id"]] = row["answer"]
                if not is_answered(row["answer"]):
                    missing.append(row["id"])
                    faults[row["answer_fault"] or "an empty answer"] += 1
        if missing and not self.config.allow_missing:
            why, count = faults.most_common(1)[0]
            raise InputError(
                f"system {system}: {len(missing)} of {len(answers)} rows have no answer ({count} of them: {why}): "
                f"{list_ids(missing)}; add them, or let them count as the worst answer with --allow-missing"
            )
        self._advance(f"answers of {system}", len(answers))
        return answers

    def judge(self, judge: str, stage: str, answered: Mapping[Any, Sequence[Journey]]) -> dict[Any, list[Journey]]:
        """Have a judge score answers, and return the journeys of its verdicts by the keys of the answers'.

        A key is a system, or a tuple that begins with one.
        """
        environment = self.open_judge(judge)
        self.listener.on_phase(f"verdicts of {judge}")
        partitions = {
            f"{key if isinstance(key, str) else key[0]}-{journey.name}": journey.partition
            for key, journeys in answered.items()
            for journey in journeys
        }
        left = iter(self._stream(partitions, stage, environment))
        self._close(environment, f"judge {judge}", "judge")
        judged = {key: [next(left) for _ in journeys] for key, journeys in answered.items()}
        self._advance(f"verdicts of {judge}", sum(partition.rows for partition in partitions.values()))
        return judged

    def read(self, journeys: Iterable[Journey], columns: pa.Schema) -> Iterator[pa.Table]:
        """Yield the columns of the partitions at which journeys ended."""
        for journey in journeys:
            yield read_partition_columns(self.store, journey.partition, columns.names).cast(columns)

    def open_judge(self, name: str) -> StageEnvironment:
        return self.open(EvaluationEngines(judge=self.config.judges[name]))

    def open(self, engines: EvaluationEngines) -> StageEnvironment:
        return open_environment(self._make_job(engines))

    def describe(self, kind: str, names: Iterable[str]) -> tuple[RaterInfo, ...]:
        """Return names and identities of systems or judges (`kind`: `system` or `judge`) that were at work."""
        return tuple(RaterInfo(name=name, identity=self._identities[f"{kind} {name}"]) for name in names)

    def list_models(self) -> list[ModelFileInfo]:
        """Return the files of the model store that were loaded."""
        return [self._models[name] for name in sorted(self._models)]

    def describe_calls(self) -> Iterator[str]:
        """Yield a sentence on each engine whose calls are remembered."""
        for who, calls in self._calls.items():
            yield f"{who}: {calls['made']} calls made, {calls['remembered']} remembered."

    def _stream(self, partitions: Mapping[str, Partition], stage: str, environment: StageEnvironment) -> list[Journey]:
        self.listener.on_stream([stage], sum(partition.rows for partition in partitions.values()))
        limits = current_workers().limit_roles(_LIMITS)
        return stream_partitions(
            partitions, [get_stage(stage)], environment, self.listener, limits, self.config.workers
        )

    def _close(self, environment: StageEnvironment, who: str, role: EngineRole) -> None:
        """Note what the manifest and the summary say of an engine, and free what it holds."""
        self._identities[who] = environment.engine(role).identity.describe()
        self._models.update({info.name: info for info in environment.list_model_files()})
        for counted, calls in environment.call_counts().items():
            self._calls[who if counted == role else f"{counted} of {who}"] = calls
        environment.close()

    def _advance(self, part: str, rows: int) -> None:
        self._done[part] = rows
        self.listener.on_accepted(dict(self._done), dict(self._wanted))


def _holds_model(config: EngineConfig) -> bool:
    writer = getattr(config, "writer", None)
    return any(isinstance(item, LlamaCppTextConfig | TransformersAudioConfig) for item in (config, writer))
