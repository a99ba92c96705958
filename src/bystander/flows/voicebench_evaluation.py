"""One pass over an evaluation on VoiceBench: what is answered and judged, in which order, and what becomes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from bystander.flows.evaluation_flow import EvaluationOutcome, find_published
from bystander.flows.listeners import BuildListener
from bystander.flows.partition_stream import Journey
from bystander.flows.rater_runs import RaterRuns
from bystander.prompts.load_rubrics import load_rubrics
from bystander.schemas.evaluate_voicebench_config import EvaluateVoiceBenchConfig
from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.identity import digest_json
from bystander.schemas.stage_job import StageJob
from bystander.schemas.voicebench import PARTS, PARTS_BY_NAME, PartName
from bystander.schemas.voicebench_scores import VoiceBenchPartInfo, VoiceBenchPartScore, VoiceBenchScores
from bystander.storage.build_manifest import get_code_version, list_package_versions
from bystander.storage.evaluation_manifest import EVALUATIONS
from bystander.storage.filesystem import Store
from bystander.storage.part_use import BASES_FOLDER
from bystander.storage.parts import Partition, write_part_by_content
from bystander.storage.table_batches import cut_evenly
from bystander.storage.voicebench_files import VoiceBenchFiles, find_voicebench
from bystander.tasks.metrics.voicebench.part_scores import PartScore, score_part
from bystander.tasks.publish_voicebench import (
    ANSWER_COLUMNS,
    PACKAGES,
    VERDICT_COLUMNS,
    publish_voicebench,
)

ANSWER, JUDGE = "answer_voicebench", "judge_voicebench"


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
        self.raters = RaterRuns(config, store, listener, lambda engines: StageJob.of_voicebench(config, engines))

    def run(self) -> EvaluationOutcome[VoiceBenchScores]:
        """Collect answers and verdicts, then make figures of them and publish."""
        config = self.config
        self.raters.open_light_engines()
        self.listener.on_phase("reading VoiceBench")
        self.parts = {part.name: self._store_part(part.name) for part in PARTS if part.name in config.parts}
        judged = [part for name, part in self.parts.items() if PARTS_BY_NAME[name].judged]
        self.raters.expect(sum(part.rows for part in self.parts.values()), sum(part.rows for part in judged))
        for system in config.systems:
            self._answer(system)
        if judged:
            for judge in config.judges:
                self._judge(judge)
        content = self._digest_content()
        journeys = (*self.answered.values(), *self.judged.values())
        scores = find_published(self.store, config, self.listener, journeys, content, VoiceBenchScores)
        if scores is None:
            self.listener.on_phase("scoring")
            scores = self._score()
            publish_voicebench(
                self.store.child(EVALUATIONS, config.evaluation_name),
                config,
                scores,
                {system: self._read_answers(system) for system in config.systems},
                {
                    (system, judge): self._read_verdicts(system, judge)
                    for system in config.systems
                    for judge in self._list_judges()
                },
                [part.files.reject_table() for part in self.parts.values()],
                self.raters.list_models(),
                content,
            )
        location = self.store.uri_of(f"{EVALUATIONS}/{config.evaluation_name}")
        return EvaluationOutcome(location, scores, tuple(self._summarise(location)))

    def _summarise(self, location: str) -> Iterator[str]:
        rejected = sum(len(part.files.rejects) for part in self.parts.values())
        yield (
            f"{location}: {sum(part.rows for part in self.parts.values())} rows of {len(self.parts)} parts, "
            f"{rejected} left out as unusable, {len(self.config.systems)} systems, {len(self._list_judges())} judges."
        )
        yield from self.raters.describe_calls()

    def _list_judges(self) -> list[str]:
        """Return the judges that were asked: none, where no part needs one."""
        return list(dict.fromkeys(judge for _, judge, _ in self.judged))

    def _store_part(self, name: PartName) -> _Part:
        """Store a part's rows under their content, so that another evaluation finds them, and their answers, again."""
        config = self.config
        part = _Part(find_voicebench(config.data, PARTS_BY_NAME[name], config.splits.get(name, ())))
        for table in cut_evenly(part.files.read(config.rows), config.partition_rows):
            ref = write_part_by_content(self.store, BASES_FOLDER, table)
            part.partitions[f"{name}-{len(part.partitions):05d}"] = Partition(ref)
        return part

    def _answer(self, system: str) -> None:
        """Have a system answer all parts.

        Raises:
            InputError: some answers are missing, and that is not allowed.
        """
        journeys = self.raters.answer(
            system, ANSWER, {key: ref for part in self.parts.values() for key, ref in part.partitions.items()}
        )
        for name, part in self.parts.items():
            size = len(part.partitions)
            self.answered[system, name], journeys = journeys[:size], journeys[size:]
        self.raters.require_answers(system, self._read_answers(system))

    def _judge(self, judge: str) -> None:
        """Have a judge score all systems' answers to the parts that need one."""
        answered = {key: journeys for key, journeys in self.answered.items() if PARTS_BY_NAME[key[1]].judged}
        for (system, name), journeys in self.raters.judge(judge, JUDGE, answered).items():
            self.judged[system, judge, name] = journeys

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
            systems=self.raters.describe("system", config.systems),
            judges=self.raters.describe("judge", judges),
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
                    rows = [row for table in self.raters.read(journeys, columns) for row in table.to_pylist()]
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

    def _read_answers(self, system: str) -> Iterator[pa.Table]:
        for name in self.parts:
            yield from self.raters.read(self.answered[system, name], ANSWER_COLUMNS)

    def _read_verdicts(self, system: str, judge: str) -> Iterator[pa.Table]:
        for name in self.parts:
            yield from self.raters.read(self.judged.get((system, judge, name), ()), VERDICT_COLUMNS)


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
