"""One pass over an evaluation on TPI-Bench: what is answered and judged, in which order, and what becomes of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bystander.flows.bench_pack import choose_pack
from bystander.flows.check_evaluate_tpi import describe_other_pack
from bystander.flows.evaluation_flow import EvaluationOutcome, find_published
from bystander.flows.listeners import BuildListener
from bystander.flows.partition_stream import Journey
from bystander.flows.rater_runs import RaterRuns
from bystander.prompts.load import load_pack
from bystander.schemas.engine_configs import EvaluationEngines
from bystander.schemas.errors import InputError
from bystander.schemas.evaluate_config import EvaluateTpiConfig, Ratings
from bystander.schemas.evaluation import BENCH_ROW, METRICS, MetricName
from bystander.schemas.evaluation_scores import BenchInfo, Control, EvaluationScores, Projection
from bystander.schemas.identity import derive_seed, digest_json
from bystander.schemas.stage_job import StageJob
from bystander.storage.bench_rows import Bench, read_bench, read_clips
from bystander.storage.build_manifest import get_code_version, list_package_versions
from bystander.storage.embedding_files import read_embeddings
from bystander.storage.evaluation_manifest import EVALUATIONS, PACKAGES
from bystander.storage.filesystem import Store, open_file
from bystander.storage.part_use import BASES_FOLDER
from bystander.storage.parts import Partition, write_part_by_content
from bystander.storage.rating_files import Scores, read_ratings
from bystander.tasks.evaluation_controls import measure_controls
from bystander.tasks.metrics.embedding_projection import name_speaker_group, project_embeddings
from bystander.tasks.publish_evaluation import ANSWER_COLUMNS, VERDICT_COLUMNS, publish_evaluation
from bystander.tasks.score_evaluation import (
    Findings,
    Verdict,
    compare_systems,
    find_worst_examples,
    measure_agreements,
    score_systems,
)

ANSWER, JUDGE = "answer_clips", "judge_replies"


class TpiEvaluation:
    """Everything finished is found again by its fingerprint, so a second pass is cheap."""

    def __init__(self, config: EvaluateTpiConfig, store: Store, listener: BuildListener) -> None:
        self.config = config
        self.store = store
        self.listener = listener
        source = choose_pack(config)
        self.pack = load_pack(source)
        self.answered: dict[str, list[Journey]] = {}
        self.judged: dict[tuple[str, str], list[Journey]] = {}
        self.raters = RaterRuns(
            config, store, listener, lambda engines: StageJob.of_evaluation(config, engines, source)
        )

    def run(self) -> EvaluationOutcome[EvaluationScores]:
        """Collect answers and verdicts, then make figures of them and publish."""
        config = self.config
        self.listener.on_phase("reading the bench")
        bench = read_bench(config.bench, config.tests, config.rows)
        self.raters.expect(len(bench.rows), judged=len(bench.rows))
        warning = describe_other_pack(bench.manifest, self.pack)
        if warning:
            self.listener.on_phase(warning)
        # Wrong files are found before the first call is paid for.
        embeddings = {system: read_embeddings(path, bench.ids) for system, path in config.embeddings.items()}
        ratings = {one.name: _read_ratings(one, bench) for one in config.ratings}
        self.raters.open_light_engines()
        self.raters.check_predictions(bench.ids)
        partitions = self._store_rows(bench)
        answers = {name: self._answer(name, partitions) for name in config.systems}
        for judge in config.judges:
            verdicts = self.raters.judge(judge, JUDGE, self.answered)
            self.judged.update({(system, judge): journeys for system, journeys in verdicts.items()})
        findings = Findings(bench.rows, bench.pairs, answers, self._read_verdicts(), ratings)
        content = self._digest_content(bench)
        location = self.store.uri_of(f"{EVALUATIONS}/{config.evaluation_name}")
        journeys = (*self.answered.values(), *self.judged.values())
        scores = find_published(self.store, config, self.listener, journeys, content, EvaluationScores)
        if scores is None:
            self.listener.on_phase("scoring")
            scores = self._score(bench, findings, embeddings)
            publish_evaluation(
                self.store.child(EVALUATIONS, config.evaluation_name),
                config,
                scores,
                {system: self.raters.read(journeys, ANSWER_COLUMNS) for system, journeys in self.answered.items()},
                {key: self.raters.read(journeys, VERDICT_COLUMNS) for key, journeys in self.judged.items()},
                self._read_examples(bench, scores),
                self.raters.list_models(),
                content,
            )
        summary = [
            f"{location}: {len(bench.rows)} rows ({', '.join(f'{bench.count(t)} {t}' for t in config.tests)}), "
            f"{len(bench.pairs)} linked pairs, {len(config.systems)} systems, {len(config.judges)} judges.",
            *([warning] if warning else []),
            *self.raters.describe_calls(),
        ]
        return EvaluationOutcome(location, scores, tuple(summary))

    def _store_rows(self, bench: Bench) -> dict[str, Partition]:
        """Store the bench's rows under their content, so that another evaluation finds their answers again."""
        return {
            f"bench-{number:05d}": Partition(write_part_by_content(self.store, BASES_FOLDER, table))
            for number, table in enumerate(read_clips(bench, self.config.partition_rows))
        }

    def _answer(self, system: str, partitions: dict[str, Partition]) -> dict[str, str | None]:
        """Have a system answer the bench, and return its answers by row id.

        Raises:
            InputError: some are missing, and that is not allowed.
        """
        self.answered[system] = self.raters.answer(system, ANSWER, partitions)
        return self.raters.require_answers(system, self.raters.read(self.answered[system], ANSWER_COLUMNS))

    def _read_verdicts(self) -> dict[tuple[str, str], dict[MetricName, dict[str, Verdict]]]:
        """Return all verdicts, systems first."""
        verdicts: dict[tuple[str, str], dict[MetricName, dict[str, Verdict]]] = {}
        for key in itertools.product(self.config.systems, self.config.judges):
            verdicts[key] = {metric: {} for metric in METRICS}
            for table in self.raters.read(self.judged[key], VERDICT_COLUMNS):
                for row in table.select(["id", *METRICS]).to_pylist():
                    for metric in METRICS:
                        verdicts[key][metric][row["id"]] = Verdict(row[metric]["score"], row[metric]["fault"])
        return verdicts

    def _score(
        self, bench: Bench, findings: Findings, embeddings: Mapping[str, NDArray[np.floating]]
    ) -> EvaluationScores:
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
            systems=self.raters.describe("system", config.systems),
            judges=self.raters.describe("judge", config.judges),
            scores=score_systems(findings, config),
            comparisons=compare_systems(findings, config),
            agreements=measure_agreements(findings, config),
            controls=self._measure_controls(bench),
            examples=find_worst_examples(findings, config),
            projections=self._project_embeddings(bench, embeddings),
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
        opened = {name: self.raters.open_judge(name) for name in judges}
        if config.verifier is not None:
            opened[""] = self.raters.open(EvaluationEngines(verifier=config.verifier))
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

    def _project_embeddings(
        self, bench: Bench, embeddings: Mapping[str, NDArray[np.floating]]
    ) -> tuple[Projection, ...]:
        """Draw the embeddings of each system that has some."""
        return tuple(
            project_embeddings(
                points,
                bench.ids,
                [name_speaker_group(row) for row in bench.rows],
                system=system,
                seed=derive_seed(self.config.seed, system, "embedding_projection"),
            )
            for system, points in embeddings.items()
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
        sizes = [bench.ids, ANSWER_COLUMNS.names, VERDICT_COLUMNS.names]
        return digest_json([config.content_digest(), results, shards, contents, self.pack.digest, versions, sizes])


def _read_ratings(ratings: Ratings, bench: Bench) -> Scores:
    """Return what people gave, some of it at least to rows of the bench."""
    scores = read_ratings(ratings)
    ids = set(bench.ids)
    if not any(ids & rated.keys() for rated in scores.values()):
        raise InputError(
            f"ratings {ratings.path}: none of its ids is that of a row that is evaluated; take them from the bench"
        )
    return scores
