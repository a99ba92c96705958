"""One pass over an evaluation of interruption detection: who hears or predicts what, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bystander.flows.evaluation_flow import EvaluationOutcome, find_published
from bystander.flows.listeners import BuildListener
from bystander.flows.partition_stream import Journey, stream_partitions
from bystander.flows.stage_workers import current_workers
from bystander.schemas.detector_configs import SidEvaluationEngines
from bystander.schemas.errors import InputError
from bystander.schemas.evaluate_sid_config import EvaluateSidConfig
from bystander.schemas.evaluation_scores import RaterInfo
from bystander.schemas.identity import digest_json
from bystander.schemas.sid_evaluation import AVERAGE, Stops
from bystander.schemas.sid_evaluation_scores import (
    SidBenchInfo,
    SidComputeTime,
    SidPredictionInfo,
    SidScores,
    SidSystemScore,
)
from bystander.schemas.stage_job import StageJob
from bystander.storage.build_manifest import ModelFileInfo, get_code_version, list_package_versions
from bystander.storage.compute_records import find_compute_time, keep_compute_time
from bystander.storage.evaluation_manifest import EVALUATIONS
from bystander.storage.filesystem import Store
from bystander.storage.part_use import BASES_FOLDER
from bystander.storage.parts import Partition, read_partition_columns, write_part_by_content
from bystander.storage.sid_bench import CaseNames, SidBench, read_sid_bench
from bystander.storage.sid_jsonl import Predictions, read_predictions
from bystander.tasks.engines.trained_rules import remark_other_k
from bystander.tasks.environment import StageEnvironment, open_environment
from bystander.tasks.metrics.input_checks import list_ids
from bystander.tasks.publish_sid_evaluation import PACKAGES, publish_sid_evaluation
from bystander.tasks.score_sid import ScoreSettings, list_clusters, score_system
from bystander.tasks.sid_examples import find_examples
from bystander.tasks.stages import get_stage

DETECT = "detect_breaks"


@dataclass(slots=True)
class _System:
    """A system's stops, one a case, and what is said of it."""

    identity: dict[str, object]
    stops: Stops
    predictions: SidPredictionInfo | None = None
    compute: SidComputeTime | None = None
    journeys: list[Journey] = field(default_factory=list)


class SidEvaluation:
    """Everything finished is found again by its fingerprint, so a second pass is cheap."""

    def __init__(self, config: EvaluateSidConfig, store: Store, listener: BuildListener) -> None:
        self.config = config
        self.store = store
        self.listener = listener
        self._models: dict[str, ModelFileInfo] = {}
        self._remarks: list[str] = []

    def run(self) -> EvaluationOutcome[SidScores]:
        """Have detectors hear the bench and read predictions, then make figures of the stops and publish."""
        config = self.config
        self.listener.on_phase("reading the bench")
        bench = read_sid_bench(config.bench).take(config.rows)
        # Wrong files are found before the first clip is heard.
        systems = {name: self._read_predictions(name, bench) for name in config.predictions}
        if config.detectors:
            partitions = self._store_clips(bench)
            systems = {name: self._detect(name, bench, partitions) for name in config.detectors} | systems
        content = self._digest_content(bench, systems)
        journeys = [system.journeys for system in systems.values()]
        scores = find_published(self.store, config, self.listener, journeys, content, SidScores)
        if scores is None:
            self.listener.on_phase("scoring")
            scores = self._score(bench, systems)
            folder = self.store.child(EVALUATIONS, config.evaluation_name)
            stops = {name: system.stops for name, system in systems.items()}
            models = [self._models[name] for name in sorted(self._models)]
            heard = bench.read_examples([one.id for one in scores.examples], config.audio)
            publish_sid_evaluation(folder, config, scores, bench.cases, stops, heard, models, content)
        location = self.store.uri_of(f"{EVALUATIONS}/{config.evaluation_name}")
        return EvaluationOutcome(location, scores, tuple(self._summarise(location, scores)))

    def _summarise(self, location: str, scores: SidScores) -> Iterator[str]:
        cases = scores.bench.cases
        groups = ", ".join(f"{n} {name}" for name, n in cases.items() if name != AVERAGE)
        yield f"{location}: {cases[AVERAGE]} clips ({groups}), {len(scores.systems)} systems."
        yield from self._remarks

    def _read_predictions(self, name: str, bench: SidBench) -> _System:
        """Return what a file says of the bench's cases.

        Raises:
            InputError: none of its names is that of a clip, a clip is predicted twice, or clips are left out.
        """
        found = read_predictions(self.config.predictions[name])
        stops, unknown = _match(name, found, bench)
        missing = [case for case in bench.cases if case.id not in stops]
        if missing and not self.config.allow_missing:
            raise InputError(
                f"system {name}: {len(missing)} of {len(bench.cases)} clips have no prediction: "
                f"{list_ids([case.audio for case in missing])}; add them, or let them count as never stopped with "
                "--allow-missing"
            )
        if unknown:
            self.listener.on_phase(f"system {name}: {unknown} predictions are of no clip of this bench")
        info = SidPredictionInfo(
            unknown=unknown,
            doubled=found.doubled,
            missing=len(missing),
            missing_with_break=sum(not case.total_nonbreak for case in missing),
        )
        identity: dict[str, object] = {"kind": "detector", "name": "predictions", "revision": found.digest}
        return _System(identity, {case.id: stops.get(case.id) for case in bench.cases}, info)

    def _store_clips(self, bench: SidBench) -> dict[str, Partition]:
        """Store the clips under their content, so that another evaluation finds them, and what was heard, again."""
        tables = bench.read_clips(self.config.partition_rows, self.config.audio)
        refs = (write_part_by_content(self.store, BASES_FOLDER, table) for table in tables)
        return {f"clips-{at:05d}": Partition(ref) for at, ref in enumerate(refs)}

    def _detect(self, name: str, bench: SidBench, partitions: Mapping[str, Partition]) -> _System:
        config = self.config
        engines = SidEvaluationEngines(detector=config.detectors[name])
        environment = open_environment(StageJob.of_detector(config.store, engines, config.stages))
        detector = environment.engine("detector")
        if remark := remark_other_k(config.detectors[name]):
            self._remarks.append(f"{name} {remark}.")
            self.listener.on_phase(f"{name} {remark}")
        self.listener.on_phase(f"{name} hears {len(bench.cases)} clips")
        self.listener.on_stream([DETECT], len(bench.cases))
        limits = current_workers().limit_roles({"detector": config.workers})
        journeys = stream_partitions(
            partitions, [get_stage(DETECT)], environment, self.listener, limits, config.workers
        )
        stops: dict[str, float | None] = {}
        for journey in journeys:
            table = read_partition_columns(self.store, journey.partition, ["id", "stop_time_s"])
            stops.update(zip(table["id"].to_pylist(), table["stop_time_s"].to_pylist(), strict=True))
        self._models.update({info.name: info for info in environment.list_model_files()})
        compute = self._note_compute(environment, detector.identity.digest())
        identity = detector.identity.describe()
        environment.close()
        return _System(identity, stops, compute=compute, journeys=journeys)

    def _note_compute(self, environment: StageEnvironment, identity_digest: str) -> SidComputeTime | None:
        """Return what the detector took now, or where its results were found, when they were made."""
        totals = environment.compute_totals()
        if totals is None or not totals.clips:
            return find_compute_time(self.store, identity_digest)
        compute = SidComputeTime(compute_s=totals.compute_s, heard_s=totals.heard_s)
        keep_compute_time(self.store, identity_digest, compute)
        return compute

    def _score(self, bench: SidBench, systems: Mapping[str, _System]) -> SidScores:
        config = self.config
        settings = ScoreSettings(
            tolerance_s=config.tolerance_s,
            penalty_cap_s=config.penalty_cap_s,
            resample_by=config.resample_by,
            seed=config.seed,
            level=config.confidence,
            n_resamples=config.resamples,
        )
        scores: list[SidSystemScore] = []
        for name, system in systems.items():
            self.listener.on_phase(f"scoring {name}")
            scores.append(score_system(name, bench.cases, system.stops, settings, system.predictions, system.compute))
        return SidScores(
            name=config.evaluation_name,
            seed=config.seed,
            confidence=config.confidence,
            tolerance_s=config.tolerance_s,
            penalty_cap_s=config.penalty_cap_s,
            resample_by=config.resample_by,
            bench=SidBenchInfo(
                uri=bench.uri,
                dataset=bench.dataset,
                build=bench.build,
                digest=bench.digest,
                cases={one.group: one.cases for one in scores[0].groups},
                clusters=len(set(list_clusters(bench.cases, config.resample_by))),
                doubled=bench.doubled,
            ),
            systems=tuple(RaterInfo(name=name, identity=system.identity) for name, system in systems.items()),
            scores=tuple(scores),
            examples=find_examples(
                bench.cases, {name: system.stops for name, system in systems.items()}, settings, config.worst_examples
            ),
            code_version=get_code_version(),
            packages=list_package_versions(PACKAGES),
        )

    def _digest_content(self, bench: SidBench, systems: Mapping[str, _System]) -> str:
        """Return a digest of all that the evaluation's files are made from."""
        made = {name: [system.identity, dict(system.stops)] for name, system in systems.items()}
        findings = [system.predictions and system.predictions.model_dump() for system in systems.values()]
        versions = [get_code_version(), list_package_versions(PACKAGES)]
        return digest_json([self.config.content_digest(), bench.digest, made, findings, versions])


def _match(name: str, found: Predictions, bench: SidBench) -> tuple[dict[str, float | None], int]:
    """Return stops by case id, and the number of predictions that are of no case."""
    names = CaseNames(bench.cases)
    stops: dict[str, float | None] = {}
    by: dict[str, str] = {}
    unknown: list[str] = []
    for audio, stop in found.stops.items():
        case = names.find(audio)
        if case is None:
            unknown.append(audio)
            continue
        if case in by:
            raise InputError(
                f"system {name}: {found.places[audio]}: {audio} is the clip that {by[case]} is too, at "
                f"{found.places[by[case]]}; keep one"
            )
        stops[case], by[case] = stop, audio
    if not stops:
        raise InputError(
            f"system {name}: none of its {len(unknown)} predictions is of a clip of {bench.uri}, the first is of "
            f"{unknown[0]}; take `audio` from the bench: the name of the file, or the row's id"
        )
    return stops, len(unknown)
