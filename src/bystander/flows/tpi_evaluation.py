"""One pass over an evaluation on TPI-Bench: what is answered and judged, in which order, and what becomes of it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bystander.flows.check_evaluate_tpi import describe_other_pack
from bystander.flows.listeners import BuildListener
from bystander.flows.partition_stream import Journey, stream_partitions
from bystander.prompts.load import load_pack
from bystander.schemas.engine_configs import (
    EngineConfig,
    EvaluationEngines,
    LlamaCppTextConfig,
    TransformersAudioConfig,
)
from bystander.schemas.engines import EngineRole
from bystander.schemas.errors import InputError
from bystander.schemas.evaluate_config import EvaluateTpiConfig, Ratings
from bystander.schemas.evaluation import BENCH_ROW, METRICS, MetricName
from bystander.schemas.evaluation_scores import BenchInfo, Control, EvaluationScores, Projection, RaterInfo
from bystander.schemas.identity import derive_seed, digest_json
from bystander.storage.bench_rows import Bench, read_bench, read_clips
from bystander.storage.build_manifest import ModelFileInfo, get_code_version, list_package_versions
from bystander.storage.embedding_files import read_embeddings
from bystander.storage.evaluation_manifest import EVALUATIONS, PACKAGES, find_evaluation
from bystander.storage.filesystem import Store, open_file
from bystander.storage.part_use import BASES_FOLDER, record_part_use
from bystander.storage.parts import Partition, read_partition_columns, write_part_by_content
from bystander.storage.rating_files import Scores, read_ratings
from bystander.storage.stage_results import StageResult
from bystander.tasks.environment import StageEnvironment, StageJob, open_environment
from bystander.tasks.evaluation_controls import measure_controls
from bystander.tasks.metrics.embedding_projection import name_speaker_group, project_embeddings
from bystander.tasks.metrics.input_checks import list_ids
from bystander.tasks.publish_evaluation import ANSWER_COLUMNS, VERDICT_COLUMNS, publish_evaluation
from bystander.tasks.score_evaluation import (
    Findings,
    Verdict,
    compare_systems,
    find_worst_examples,
    measure_agreements,
    score_systems,
)
from bystander.tasks.stages import get_stage
from bystander.tasks.stages.verdicts import is_answered

ANSWER, JUDGE = "answer_clips", "judge_replies"
_LIMITS: dict[EngineRole, int] = {"candidate": 2, "judge": 2}
"""Partitions that may use an engine at once: two keep a server's slots filled while one partition runs out."""


@dataclass(frozen=True, slots=True)
class EvaluationOutcome:
    """A finished evaluation: where it is, its figures, and what a person wants to hear of it, a sentence a line."""

    location: str
    scores: EvaluationScores
    summary: tuple[str, ...]


class TpiEvaluation:
    """Everything finished is found again by its fingerprint, so a second pass is cheap."""

    def __init__(self, config: EvaluateTpiConfig, store: Store, listener: BuildListener) -> None:
        self.config = config
        self.store = store
        self.listener = listener
        self.pack = load_pack(config.pack)
        self.answered: dict[str, list[Journey]] = {}
        self.judged: dict[tuple[str, str], list[Journey]] = {}
        self._identities: dict[str, dict[str, Any]] = {}
        self._models: dict[str, ModelFileInfo] = {}
        self._calls: dict[str, dict[str, int]] = {}
        self._done: dict[str, int] = {}
        self._rows = 0

    def run(self) -> EvaluationOutcome:
        """Collect answers and verdicts, then make figures of them and publish."""
        config = self.config
        self.listener.on_phase("reading the bench")
        bench = read_bench(config.bench, config.tests, config.rows)
        self._rows = len(bench.rows)
        warning = describe_other_pack(bench.manifest, self.pack)
        if warning:
            self.listener.on_phase(warning)
        # Wrong files are found before the first call is paid for.
        for path in config.embeddings.values():
            read_embeddings(path, len(bench.rows))
        ratings = {one.name: _read_ratings(one, bench) for one in config.ratings}
        self._open_light_engines()
        partitions = self._store_rows(bench)
        answers = {name: self._answer(name, partitions, bench) for name in config.systems}
        for judge in config.judges:
            self._judge(judge)
        findings = Findings(bench.rows, bench.pairs, answers, self._read_verdicts(), ratings)
        content = self._digest_content(bench)
        location = self.store.uri_of(f"{EVALUATIONS}/{config.evaluation_name}")
        target = self.store.child(EVALUATIONS, config.evaluation_name)
        record_part_use(self.store, EVALUATIONS, config.evaluation_name, self._list_runs())
        published = find_evaluation(target, content)
        if published is not None:
            self.listener.on_phase("nothing new: the published evaluation is made of just this")
            scores = published[1]
        else:
            self.listener.on_phase("scoring")
            scores = self._score(bench, findings)
            publish_evaluation(
                target,
                config,
                scores,
                {system: self._read(journeys, ANSWER_COLUMNS) for system, journeys in self.answered.items()},
                {key: self._read(journeys, VERDICT_COLUMNS) for key, journeys in self.judged.items()},
                self._read_examples(bench, scores),
                [self._models[name] for name in sorted(self._models)],
                content,
            )
        summary = [
            f"{location}: {len(bench.rows)} rows ({', '.join(f'{bench.count(t)} {t}' for t in config.tests)}), "
            f"{len(bench.pairs)} linked pairs, {len(config.systems)} systems, {len(config.judges)} judges.",
            *([warning] if warning else []),
            *(
                f"{who}: {calls['made']} calls made, {calls['remembered']} remembered."
                for who, calls in self._calls.items()
            ),
        ]
        return EvaluationOutcome(location, scores, tuple(summary))

    def _open_light_engines(self) -> None:
        """Open what holds no model, so that a wrong file or key is found before the first call is paid for."""
        for name, system in self.config.systems.items():
            if not _holds_model(system):
                self._open_system(name).engine("candidate")
        for name, judge in self.config.judges.items():
            if not _holds_model(judge):
                self._open_judge(name).engine("judge")

    def _store_rows(self, bench: Bench) -> dict[str, Partition]:
        """Store the bench's rows under their content, so that another evaluation finds their answers again."""
        return {
            f"bench-{number:05d}": Partition(write_part_by_content(self.store, BASES_FOLDER, table))
            for number, table in enumerate(read_clips(bench, self.config.partition_rows))
        }

    def _answer(self, system: str, partitions: dict[str, Partition], bench: Bench) -> dict[str, str | None]:
        """Have a system answer the bench, and return its answers by row id.

        Raises:
            InputError: some are missing, and that is not allowed.
        """
        environment = self._open_system(system)
        self.listener.on_phase(f"answers of {system}")
        self.answered[system] = self._stream(partitions, ANSWER, environment)
        self._close(environment, f"system {system}", "candidate")
        answers: dict[str, str | None] = {}
        faults: Counter[str] = Counter()
        for table in self._read(self.answered[system], ANSWER_COLUMNS):
            for row in table.select(["id", "answer", "answer_fault"]).to_pylist():
                answers[row["id"]] = row["answer"]
                if not is_answered(row["answer"]):
                    faults[row["answer_fault"] or "an empty answer"] += 1
        missing = [row["id"] for row in bench.rows if not is_answered(answers[row["id"]])]
        if missing and not self.config.allow_missing:
            why, count = faults.most_common(1)[0]
            raise InputError(
                f"system {system}: {len(missing)} of {len(answers)} rows have no answer ({count} of them: {why}): "
                f"{list_ids(missing)}; add them, or let them count as the worst answer with --allow-missing"
            )
        self._advance(f"answers of {system}", len(answers))
        return answers

    def _judge(self, judge: str) -> None:
        """Have a judge score the answers of all systems."""
        environment = self._open_judge(judge)
        self.listener.on_phase(f"verdicts of {judge}")
        partitions = {
            f"{system}-{journey.name}": journey.partition
            for system, journeys in self.answered.items()
            for journey in journeys
        }
        journeys = self._stream(partitions, JUDGE, environment)
        self._close(environment, f"judge {judge}", "judge")
        for system, answered in self.answered.items():
            self.judged[system, judge], journeys = journeys[: len(answered)], journeys[len(answered) :]
        self._advance(f"verdicts of {judge}", sum(partition.rows for partition in partitions.values()))

    def _read_verdicts(self) -> dict[tuple[str, str], dict[MetricName, dict[str, Verdict]]]:
        """Return all verdicts, systems first."""
        verdicts: dict[tuple[str, str], dict[MetricName, dict[str, Verdict]]] = {}
        for key in itertools.product(self.config.systems, self.config.judges):
            verdicts[key] = {metric: {} for metric in METRICS}
            for table in self._read(self.judged[key], VERDICT_COLUMNS):
                for row in table.select(["id", *METRICS]).to_pylist():
                    for metric in METRICS:
                        verdicts[key][metric][row["id"]] = Verdict(row[metric]["score"], row[metric]["fault"])
        return verdicts

    def _score(self, bench: Bench, findings: Findings) -> EvaluationScores:
        config, manifest = self.config, bench.manifest
        return EvaluationScores(
            name=config.evaluation_name,
            seed=config.seed,
            confidence=config.confidence,
            bench=BenchInfo(
                uri=bench.store.uri,
                dataset=manifest.dataset,
                build=manifest.build,
                content_digest=manifest.content_digest,
                rows={test: bench.count(test) for test in config.tests},
                linked_pairs=len(bench.pairs),
            ),
            pack=self.pack.name,
            pack_digest=self.pack.digest,
            systems=tuple(RaterInfo(name=n, identity=self._identities[f"system {n}"]) for n in config.systems),
            judges=tuple(RaterInfo(name=n, identity=self._identities[f"judge {n}"]) for n in config.judges),
            scores=score_systems(findings, config),
            comparisons=compare_systems(findings, config),
            agreements=measure_agreements(findings, config),
            controls=self._measure_controls(bench),
            examples=find_worst_examples(findings, config),
            projections=self._project_embeddings(bench),
            code_version=get_code_version(),
            packages=list_package_versions(PACKAGES),
        )

    def _measure_controls(self, bench: Bench) -> tuple[Control, ...]:
        """Let what is no assistant tell the bench's rows apart."""
        config = self.config.controls
        judges = list(self.config.judges) if config.transcript_judges else []
        if not (config.transcript_classifier or config.verifier or judges):
            return ()
        self.listener.on_phase("measuring controls")
        opened = {name: self._open_judge(name) for name in judges}
        if config.verifier is not None:
            opened[""] = self._open(EvaluationEngines(verifier=config.verifier))
        try:
            return measure_controls(
                pa.concat_tables(read_clips(bench, self.config.partition_rows)),
                config,
                self.config.seed,
                opened[""].engine("verifier") if config.verifier else None,
                {name: opened[name].engine("judge") for name in judges},
                self.pack,
                confidence=self.config.confidence,
                resamples=self.config.resamples,
            )
        finally:
            for environment in opened.values():
                environment.close()

    def _project_embeddings(self, bench: Bench) -> tuple[Projection, ...]:
        """Draw the embeddings of each system that has some."""
        return tuple(
            project_embeddings(
                read_embeddings(path, len(bench.rows)),
                [row["id"] for row in bench.rows],
                [name_speaker_group(row) for row in bench.rows],
                system=system,
                seed=derive_seed(self.config.seed, system, "embedding_projection"),
            )
            for system, path in self.config.embeddings.items()
        )

    def _read_examples(self, bench: Bench, scores: EvaluationScores) -> pa.Table:
        """Return the rows that the page lets one listen to."""
        ids = pa.array(sorted({example.id for example in scores.examples}), pa.string())
        clips = [BENCH_ROW.empty_table()]
        for table in read_clips(bench, self.config.partition_rows):
            clips.append(table.filter(pc.is_in(table["id"], ids)))
        return pa.concat_tables(clips)

    def _digest_content(self, bench: Bench) -> str:
        """Return a digest of all that the evaluation's files are made from."""
        config = self.config
        journeys = [*self.answered.values(), *self.judged.values()]
        results = [[result.kept.sha256 for _, result in journey.results] for part in journeys for journey in part]
        shards = [shard.sha256 for shard in bench.manifest.shards]
        files = [open_file(path) for path in (*(r.path for r in config.ratings), *config.embeddings.values())]
        contents = [store.sha256(name) for store, name in files]
        versions = [get_code_version(), list_package_versions(PACKAGES)]
        sizes = [[row["id"] for row in bench.rows], ANSWER_COLUMNS.names, VERDICT_COLUMNS.names]
        return digest_json([config.content_digest(), results, shards, contents, self.pack.digest, versions, sizes])

    def _stream(self, partitions: dict[str, Partition], stage: str, environment: StageEnvironment) -> list[Journey]:
        self.listener.on_stream([stage], sum(partition.rows for partition in partitions.values()))
        return stream_partitions(
            partitions, [get_stage(stage)], environment, self.listener, _LIMITS, self.config.workers
        )

    def _read(self, journeys: Sequence[Journey], columns: pa.Schema) -> Iterator[pa.Table]:
        for journey in journeys:
            table = read_partition_columns(self.store, journey.partition, columns.names)
            yield table.cast(columns)

    def _list_runs(self) -> Iterator[tuple[Partition, StageResult]]:
        for journeys in (*self.answered.values(), *self.judged.values()):
            for journey in journeys:
                yield from journey.results

    def _open_system(self, name: str) -> StageEnvironment:
        return self._open(EvaluationEngines(candidate=self.config.systems[name]))

    def _open_judge(self, name: str) -> StageEnvironment:
        return self._open(EvaluationEngines(judge=self.config.judges[name]))

    def _open(self, engines: EvaluationEngines) -> StageEnvironment:
        return open_environment(StageJob.of_evaluation(self.config, engines))

    def _close(self, environment: StageEnvironment, who: str, role: EngineRole) -> None:
        """Note what the manifest and the summary say of an engine, and free what it holds: models are large."""
        self._identities[who] = environment.engine(role).identity.describe()
        self._models.update({info.name: info for info in environment.list_model_files()})
        for counted, calls in environment.call_counts().items():
            self._calls[who if counted == role else f"{counted} of {who}"] = calls
        environment.close()

    def _advance(self, part: str, rows: int) -> None:
        self._done[part] = rows
        whole = {f"answers of {system}": self._rows for system in self.config.systems}
        whole.update({f"verdicts of {judge}": self._rows * len(self.config.systems) for judge in self.config.judges})
        self.listener.on_accepted(dict(self._done), whole)


def _read_ratings(ratings: Ratings, bench: Bench) -> Scores:
    """Return what people gave, some of it at least to rows of the bench."""
    scores = read_ratings(ratings)
    ids = {row["id"] for row in bench.rows}
    if not any(ids & rated.keys() for rated in scores.values()):
        raise InputError(
            f"ratings {ratings.path}: none of its ids is that of a row that is evaluated; take them from the bench"
        )
    return scores


def _holds_model(config: EngineConfig) -> bool:
    writer = getattr(config, "writer", None)
    return any(isinstance(item, LlamaCppTextConfig | TransformersAudioConfig) for item in (config, writer))
