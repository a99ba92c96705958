"""One pass over an evaluation on VoiceBench: what is answered and judged, in which order, and what becomes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from bystander.flows.listeners import BuildListener
from bystander.flows.partition_stream import Journey, stream_partitions
from bystander.prompts.load_rubrics import load_rubrics
from bystander.schemas.engine_configs import (
    EngineConfig,
    EvaluationEngines,
    LlamaCppTextConfig,
    TransformersAudioConfig,
)
from bystander.schemas.engines import EngineRole
from bystander.schemas.errors import InputError
from bystander.schemas.evaluate_voicebench_config import EvaluateVoiceBenchConfig
from bystander.schemas.evaluation_scores import Estimate, RaterInfo
from bystander.schemas.identity import digest_json
from bystander.schemas.voicebench import PARTS, PARTS_BY_NAME, PartName
from bystander.schemas.voicebench_scores import VoiceBenchPartInfo, VoiceBenchPartScore, VoiceBenchScores
from bystander.storage.build_manifest import ModelFileInfo, get_code_version, list_package_versions
from bystander.storage.evaluation_manifest import EVALUATIONS
from bystander.storage.filesystem import Store
from bystander.storage.part_use import BASES_FOLDER, record_part_use
from bystander.storage.parts import Partition, read_partition_columns, write_part_by_content
from bystander.storage.stage_results import StageResult
from bystander.storage.voicebench_files import VoiceBenchFiles, find_voicebench
from bystander.tasks.environment import StageEnvironment, StageJob, open_environment
from bystander.tasks.metrics.input_checks import list_ids
from bystander.tasks.metrics.voicebench.part_scores import PartScore, score_part
from bystander.tasks.publish_voicebench import (
    ANSWER_COLUMNS,
    PACKAGES,
    VERDICT_COLUMNS,
    find_published_voicebench,
    publish_voicebench,
)
from bystander.tasks.stages import get_stage

ANSWER, JUDGE = "answer_voicebench", "judge_voicebench"
_LIMITS: dict[EngineRole, int] = {"candidate": 2, "judge": 2}
"""Partitions that may use an engine at once: two keep a server's slots filled while one partition runs out."""


@dataclass(frozen=True, slots=True)
class VoiceBenchOutcome:
    """A finished evaluation: where it is, its figures, and what a person wants to hear of it, a sentence a line."""

    location: str
    scores: VoiceBenchScores
    summary: tuple[str, ...]


@dataclass(slots=True)
class _Part:
    """A part as it was read: its stored partitions by name, and what was left out."""

    files: VoiceBenchFiles
    partitions: dict[str, Partition] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions.values())

    def describe(self) -> VoiceBenchPartInfo:
        return VoiceBenchPartInfo(
            part=self.files.part.name,
            splits=tuple(dict.fromkeys(split for split, _ in self.files.files)),
            rows=self.rows,
            rejected=dict(sorted(Counter(reject["reject_reason"] for reject in self.files.rejects).items())),
        )


class VoiceBenchEvaluation:
    """Everything finished is found again by its fingerprint, so a second pass is cheap."""

    def __init__(self, config: EvaluateVoiceBenchConfig, store: Store, listener: BuildListener) -> None:
        self.config = config
        self.store = store
        self.listener = listener
        self.rubrics = load_rubrics("voicebench")
        self.parts: dict[PartName, _Part] = {}
        self.answered: dict[tuple[str, PartName], list[Journey]] = {}
        self.judged: dict[tuple[str, str, PartName], list[Journey]] = {}
        self._identities: dict[str, dict[str, Any]] = {}
        self._models: dict[str, ModelFileInfo] = {}
        self._calls: dict[str, dict[str, int]] = {}
        self._done: dict[str, int] = {}

    def run(self) -> VoiceBenchOutcome:
        """Collect answers and verdicts, then make figures of them and publish."""
        config = self.config
        self._open_light_engines()
        self.listener.on_phase("reading VoiceBench")
        self.parts = {part.name: self._store_part(part.name) for part in PARTS if part.name in config.parts}
        for system in config.systems:
            self._answer(system)
        if any(PARTS_BY_NAME[name].judged for name in self.parts):
            for judge in config.judges:
                self._judge(judge)
        content = self._digest_content()
        target = self.store.child(EVALUATIONS, config.evaluation_name)
        record_part_use(self.store, EVALUATIONS, config.evaluation_name, self._list_runs())
        scores = find_published_voicebench(target, content)
        if scores is not None:
            self.listener.on_phase("nothing new: the published evaluation is made of just this")
        else:
            self.listener.on_phase("scoring")
            scores = self._score()
            publish_voicebench(
                target,
                config,
                scores,
                {system: self._read_answers(system) for system in config.systems},
                {
                    (system, judge): self._read_verdicts(system, judge)
                    for system in config.systems
                    for judge in self._list_judges()
                },
                [part.files.reject_table() for part in self.parts.values()],
                [self._models[name] for name in sorted(self._models)],
                content,
            )
        location = self.store.uri_of(f"{EVALUATIONS}/{config.evaluation_name}")
        return VoiceBenchOutcome(location, scores, tuple(self._summarise(location)))

    def _summarise(self, location: str) -> Iterator[str]:
        rejected = sum(len(part.files.rejects) for part in self.parts.values())
        yield (
            f"{location}: {sum(part.rows for part in self.parts.values())} rows of {len(self.parts)} parts, "
            f"{rejected} left out as unusable, {len(self.config.systems)} systems, {len(self._list_judges())} judges."
        )
        for who, calls in self._calls.items():
            yield f"{who}: {calls['made']} calls made, {calls['remembered']} remembered."

    def _list_judges(self) -> list[str]:
        """Return the judges that were asked: none, where no part needs one."""
        return list(dict.fromkeys(judge for _, judge, _ in self.judged))

    def _open_light_engines(self) -> None:
        """Open what holds no model, so that a wrong file or key is found before the first call is paid for."""
        for name, system in self.config.systems.items():
            if not _holds_model(system):
                self._open_system(name).engine("candidate")
        for name, judge in self.config.judges.items():
            if not _holds_model(judge):
                self._open_judge(name).engine("judge")

    def _store_part(self, name: PartName) -> _Part:
        """Store a part's rows under their content, so that another evaluation finds them, and their answers, again."""
        config = self.config
        part = _Part(find_voicebench(config.data, PARTS_BY_NAME[name], config.splits.get(name, ())))
        for table in _cut_evenly(part.files.read(config.rows), config.partition_rows):
            ref = write_part_by_content(self.store, BASES_FOLDER, table)
            part.partitions[f"{name}-{len(part.partitions):05d}"] = Partition(ref)
        return part

    def _answer(self, system: str) -> None:
        """Have a system answer all parts.

        Raises:
            InputError: some answers are missing, and that is not allowed.
        """
        environment = self._open_system(system)
        self.listener.on_phase(f"answers of {system}")
        journeys = self._stream(
            {key: part for item in self.parts.values() for key, part in item.partitions.items()}, ANSWER, environment
        )
        self._close(environment, f"system {system}", "candidate")
        for name, part in self.parts.items():
            size = len(part.partitions)
            self.answered[system, name], journeys = journeys[:size], journeys[size:]
        missing: list[str] = []
        faults: Counter[str] = Counter()
        total = 0
        for table in self._read_answers(system):
            for row in table.select(["id", "answer", "answer_fault"]).to_pylist():
                total += 1
                if not (row["answer"] or "").strip():
                    missing.append(row["id"])
                    faults[row["answer_fault"] or "an empty answer"] += 1
        if missing and not self.config.allow_missing:
            why, count = faults.most_common(1)[0]
            raise InputError(
                f"system {system}: {len(missing)} of {total} rows have no answer ({count} of them: {why}): "
                f"{list_ids(missing)}; add them, or let them count as the worst answer with --allow-missing"
            )
        self._advance(f"answers of {system}", total)

    def _judge(self, judge: str) -> None:
        """Have a judge score all systems' answers to the parts that need one."""
        environment = self._open_judge(judge)
        self.listener.on_phase(f"verdicts of {judge}")
        answered = {key: journeys for key, journeys in self.answered.items() if PARTS_BY_NAME[key[1]].judged}
        partitions = {
            f"{system}-{journey.name}": journey.partition
            for (system, _), journeys in answered.items()
            for journey in journeys
        }
        judged = self._stream(partitions, JUDGE, environment)
        self._close(environment, f"judge {judge}", "judge")
        for (system, name), journeys in answered.items():
            self.judged[system, judge, name], judged = judged[: len(journeys)], judged[len(journeys) :]
        self._advance(f"verdicts of {judge}", sum(partition.rows for partition in partitions.values()))

    def _score(self) -> VoiceBenchScores:
        config = self.config
        judges = self._list_judges()
        return VoiceBenchScores(
            name=config.evaluation_name,
            seed=config.seed,
            confidence=config.confidence,
            data=config.data,
            parts=tuple(part.describe() for part in self.parts.values()),
            rubrics_digest=self.rubrics.digest,
            systems=tuple(RaterInfo(name=n, identity=self._identities[f"system {n}"]) for n in config.systems),
            judges=tuple(RaterInfo(name=n, identity=self._identities[f"judge {n}"]) for n in judges),
            scores=tuple(self._score_parts()),
            code_version=get_code_version(),
            packages=list_package_versions(PACKAGES),
        )

    def _score_parts(self) -> Iterator[VoiceBenchPartScore]:
        for system in self.config.systems:
            for name in self.parts:
                for judge in self._list_judges() if PARTS_BY_NAME[name].judged else [None]:
                    journeys = self.answered[system, name] if judge is None else self.judged[system, judge, name]
                    columns = ANSWER_COLUMNS if judge is None else VERDICT_COLUMNS
                    rows = [row for table in self._read(journeys, columns) for row in table.to_pylist()]
                    score = score_part(
                        name,
                        rows,
                        seed=self.config.seed,
                        level=self.config.confidence,
                        n_resamples=self.config.resamples,
                    )
                    yield _describe_score(system, judge, score)

    def _digest_content(self) -> str:
        """Return a digest of all that the evaluation's files are made from."""
        journeys = [*self.answered.values(), *self.judged.values()]
        results = [[result.kept.sha256 for _, result in journey.results] for part in journeys for journey in part]
        rejects = [part.files.rejects for part in self.parts.values()]
        versions = [get_code_version(), list_package_versions(PACKAGES)]
        columns = [ANSWER_COLUMNS.names, VERDICT_COLUMNS.names]
        # Partitions say which rows there are, results what was said of them.
        rows = [[key, ref.digest()] for part in self.parts.values() for key, ref in part.partitions.items()]
        return digest_json(
            [self.config.content_digest(), rows, results, rejects, self.rubrics.digest, versions, columns]
        )

    def _stream(self, partitions: dict[str, Partition], stage: str, environment: StageEnvironment) -> list[Journey]:
        self.listener.on_stream([stage], sum(partition.rows for partition in partitions.values()))
        return stream_partitions(
            partitions, [get_stage(stage)], environment, self.listener, _LIMITS, self.config.workers
        )

    def _read_answers(self, system: str) -> Iterator[pa.Table]:
        for name in self.parts:
            yield from self._read(self.answered[system, name], ANSWER_COLUMNS)

    def _read_verdicts(self, system: str, judge: str) -> Iterator[pa.Table]:
        for name in self.parts:
            yield from self._read(self.judged.get((system, judge, name), ()), VERDICT_COLUMNS)

    def _read(self, journeys: Sequence[Journey], columns: pa.Schema) -> Iterator[pa.Table]:
        for journey in journeys:
            yield read_partition_columns(self.store, journey.partition, columns.names).cast(columns)

    def _list_runs(self) -> Iterator[tuple[Partition, StageResult]]:
        for journeys in (*self.answered.values(), *self.judged.values()):
            for journey in journeys:
                yield from journey.results

    def _open_system(self, name: str) -> StageEnvironment:
        engines = EvaluationEngines(candidate=self.config.systems[name])
        return open_environment(StageJob.of_voicebench(self.config, engines))

    def _open_judge(self, name: str) -> StageEnvironment:
        engines = EvaluationEngines(judge=self.config.judges[name])
        return open_environment(StageJob.of_voicebench(self.config, engines))

    def _close(self, environment: StageEnvironment, who: str, role: EngineRole) -> None:
        """Note what the manifest and the summary say of an engine, and free what it holds: models are large."""
        self._identities[who] = environment.engine(role).identity.describe()
        self._models.update({info.name: info for info in environment.list_model_files()})
        for counted, calls in environment.call_counts().items():
            self._calls[who if counted == role else f"{counted} of {who}"] = calls
        environment.close()

    def _advance(self, part: str, rows: int) -> None:
        self._done[part] = rows
        total = sum(item.rows for item in self.parts.values())
        judged = sum(item.rows for name, item in self.parts.items() if PARTS_BY_NAME[name].judged)
        whole = {f"answers of {system}": total for system in self.config.systems}
        if judged:
            whole.update({f"verdicts of {judge}": judged * len(self.config.systems) for judge in self.config.judges})
        self.listener.on_accepted(dict(self._done), whole)


def _cut_evenly(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield the rows of `tables` in tables of `rows` rows, the last one shorter."""
    held: list[pa.Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += len(table)
        while count >= rows:
            whole = pa.concat_tables(held)
            yield whole.slice(0, rows).combine_chunks()
            held, count = [whole.slice(rows)], count - rows
    if count:
        yield pa.concat_tables(held).combine_chunks()


def _describe_score(system: str, judge: str | None, score: PartScore) -> VoiceBenchPartScore:
    estimate = score.estimate
    return VoiceBenchPartScore(
        system=system,
        judge=judge,
        part=score.part,
        kind=PARTS_BY_NAME[score.part].kind,
        estimate=Estimate(mean=estimate.mean, low=estimate.low, high=estimate.high, n=estimate.n),
        rows=score.rows,
        missing=score.missing,
        unparsable=score.unparsable,
        details=score.details,
    )


def _holds_model(config: EngineConfig) -> bool:
    writer = getattr(config, "writer", None)
    return any(isinstance(item, LlamaCppTextConfig | TransformersAudioConfig) for item in (config, writer))
