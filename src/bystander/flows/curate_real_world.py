"""The flow that curates a set of real interruptions: transcripts and recordings of several people in, rows out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from prefect import flow

from bystander.flows.build_runs import BuildOutcome, list_accepted, run_build
from bystander.flows.build_summary import refuse_to_publish_nothing
from bystander.flows.check_real_world import (
    check_opened_real_world_engines,
    check_real_world_build,
    check_real_world_settings,
)
from bystander.flows.dry_run import DryRun
from bystander.flows.flow_runs import run_flow
from bystander.flows.harvest import Harvest
from bystander.flows.listeners import BuildListener, SilentListener
from bystander.flows.prefect_listener import PrefectListener
from bystander.flows.real_world_harvest import ClipHarvest, Corpora, ReplyHarvest, UtteranceHarvest, read_replies
from bystander.flows.rebuild_plan import forecast
from bystander.schemas.errors import InputError
from bystander.schemas.real_world import REVIEWED_PAIR
from bystander.schemas.real_world_config import RealWorldConfig
from bystander.schemas.rebuild import RebuildPlan
from bystander.schemas.review import ReviewDecision
from bystander.schemas.stage_job import StageJob
from bystander.storage.build_manifest import BuildManifest
from bystander.storage.filesystem import open_file
from bystander.storage.part_use import BASES_FOLDER, record_part_use
from bystander.storage.parts import Partition, write_part_by_content
from bystander.storage.review_files import read_decisions
from bystander.tasks.build_rejects import StageRuns
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.publish_real_world import (
    REAL_KIND,
    RealWorldRows,
    digest_real_world_content,
    find_published_real_world,
    publish_real_world,
)
from bystander.tasks.stages import CLIP_STAGES, REAL_REPLY_STAGES, UTTERANCE_STAGES
from bystander.tasks.stages.finalise_real_world import REPLY_COLUMNS
from bystander.tasks.stages.plan_replies import PLANNED_FROM, plan_replies

RealWorldOutcome = BuildOutcome[BuildManifest]


@flow(name="curate-real-world", flow_run_name="{config.dataset}-seed-{config.seed}", validate_parameters=True)
def curate_real_world(config: RealWorldConfig) -> RealWorldOutcome:
    """Find interruptions of requests in real recordings, going on from whatever an earlier run finished.

    Raises:
        UserError: the configuration, a corpus, the pack, an engine's set-up is wrong.
        BuildError: not a single pair passed, or another process is making this build.
    """
    check_real_world_build(config)

    def prepare(environment: StageEnvironment) -> Callable[[PrefectListener], RealWorldOutcome]:
        check_opened_real_world_engines(environment)
        return lambda listener: RealWorldBuild(config, environment, listener).run()

    return run_build(config, StageJob.of_real_world(config), prepare)


def run_curate_real_world(config: RealWorldConfig) -> RealWorldOutcome:
    """Run the flow in this process, on as many threads as configured, and clear up what killed runs left behind."""
    return run_flow(curate_real_world, config, config.workers, f"dataset:{config.dataset}")


def foresee_curate_real_world(config: RealWorldConfig, against: str | None = None) -> RebuildPlan:
    """Return what a run would reuse and redo beside an earlier build. No model is called, nothing is written.

    Raises:
        UserError: the configuration, a corpus, the pack, an engine's set-up, or the build to compare with is wrong.
    """
    check_real_world_settings(config)
    environment = StageEnvironment(StageJob.of_real_world(config), keeps_calls=False)
    environment.also_published = list_accepted()
    try:
        check_opened_real_world_engines(environment)
        return RealWorldBuild(config, environment, SilentListener()).foresee(against)
    finally:
        environment.close()


class RealWorldBuild:
    """One pass over a build. Everything finished is found again by its fingerprint, so a second pass is cheap."""

    def __init__(
        self,
        config: RealWorldConfig,
        environment: StageEnvironment,
        listener: BuildListener,
        corpora: Corpora | None = None,
    ) -> None:
        self.config = config
        self.environment = environment
        self.listener = listener
        self.utterances = UtteranceHarvest(UTTERANCE_STAGES)
        self.clips = ClipHarvest(CLIP_STAGES)
        self.replies = ReplyHarvest(REAL_REPLY_STAGES)
        self.corpora = corpora or Corpora.read(config)
        self._decisions, self._decisions_digest = _read_decisions(config.decisions)

    def run(self) -> RealWorldOutcome:
        """Say what is reused and what is redone, harvest, then publish what passed."""
        self.listener.on_phase("looking for what is there already")
        self.listener.on_plan(self.foresee())
        ids = self._harvest()
        runs = StageRuns([run for harvest in self._harvests for run in harvest.runs()])
        if not ids:
            raise refuse_to_publish_nothing(
                self.config,
                self.environment,
                runs,
                "To see what the judge refused in a report, set min_query, min_answerable and min_interruption of "
                "stages.score_pairs to 1.",
            )
        content = self._digest(self.environment, runs, ids)
        manifest = find_published_real_world(self.config, self.environment, content)
        name = manifest.build if manifest is not None else self.config.build_name
        store = self.environment.store
        record_part_use(store, self.config.dataset, name, runs.runs)
        if manifest is not None:
            self.listener.on_phase("nothing new: the published build is made of just this")
        else:
            self.listener.on_phase(f"writing {len(ids)} pairs")
            self.environment.recent.clear()  # what is published is read from the store
            manifest = publish_real_world(self.config, self.environment, self._arrange(ids), runs, content)
        location = store.uri_of(f"{self.config.dataset}/{name}")
        return BuildOutcome(location, manifest, self._summarise(manifest, location))

    def foresee(self, against: str | None = None) -> RebuildPlan:
        """Return what a run would reuse and redo beside an earlier build, without a call. Nothing is written.

        Args:
            against: name or address of the build to compare with; without one, see `find_earlier_build`.

        Raises:
            BuildError: there is no such build, or it cannot be read.
        """
        stages = [stage for harvest in self._harvests for stage in harvest.stages]
        return forecast(self.config, self.environment, REAL_KIND, stages, self._replay, against)

    def _replay(self, environment: StageEnvironment, dry: DryRun) -> bool:
        """Make the build without a call, and return whether what would be published is there already."""
        build = RealWorldBuild(self.config, environment, SilentListener(), self.corpora)
        for harvest in build._harvests:
            harvest.stream = dry.stream
        ids = build._harvest()
        runs = StageRuns([run for harvest in build._harvests for run in harvest.runs()])
        if dry.runs_nothing:
            content = build._digest(environment, runs, ids)
            return find_published_real_world(self.config, self.environment, content) is not None
        return False

    @property
    def _harvests(self) -> tuple[Harvest, ...]:
        return self.utterances, self.clips, self.replies

    def _harvest(self) -> list[str]:
        """Pair, sift and score utterances, cut clips, apply decisions, label and reply; return the ids that passed."""
        environment, config = self.environment, self.config
        self.listener.on_phase("pairing utterances")
        partitions = {
            f"utterances-{number:05d}": Partition(
                write_part_by_content(environment.store, BASES_FOLDER, table, environment.recent)
            )
            for number, table in enumerate(self.corpora.cut(config.partition_utterances))
        }
        self.utterances.grow_partitions(partitions, environment, self.listener, config.workers)
        found = set(self.utterances.summary()["id"].to_pylist())
        if self._decisions and not found & self._decisions.keys():
            raise InputError(
                f"decisions {config.decisions}: none of its {len(self._decisions)} rows is found here; export the "
                "decisions of a build of these corpora, or leave them out"
            )
        if found:
            self.listener.on_phase(f"cutting {len(found)} clips")
            pairs = pa.concat_tables(list(self.utterances.read_rows(environment, found)))
            undecided = config.undecided if config.decisions is not None else "kept"
            self._grow(self.clips, self.corpora.locate(pairs, self._decisions, undecided), "clips")
        kept = set(self.clips.summary()["id"].to_pylist())
        if kept:
            schema = pa.schema([REVIEWED_PAIR.field(name) for name in PLANNED_FROM])
            self._grow(self.replies, plan_replies(self.clips.read_columns(environment, kept, schema)), "replies")
        finished = self.replies.summary()["id"].to_pylist()
        self.listener.on_accepted({"pairs": len(finished)}, {"pairs": len(found)})
        return list(finished)

    def _grow(self, harvest: Harvest, rows: pa.Table, name: str) -> None:
        harvest.grow(rows, name, self.environment, self.listener, self.config.partition_rows, self.config.workers)

    def _digest(self, environment: StageEnvironment, runs: StageRuns, ids: list[str]) -> str:
        return digest_real_world_content(
            self.config, environment, runs, ids, self.corpora.describe(), self._decisions_digest
        )

    def _arrange(self, ids: list[str]) -> RealWorldRows:
        chosen = set(ids)
        summary = self.clips.summary()
        lengths = dict(zip(summary["id"].to_pylist(), summary["duration_s"].to_pylist(), strict=True))
        audible = {row_id for row_id in chosen if lengths[row_id] is not None}
        silent: Iterator[pa.Table] = self.clips.read_rows(self.environment, chosen - audible)
        return RealWorldRows(
            pairs=self.clips.read_rows(self.environment, audible),
            replies=read_replies(self.replies, self.environment, REPLY_COLUMNS),
            candidates=[row for table in silent for row in table.drop(["audio"]).to_pylist()],
            corpora=self.corpora.describe(),
            decisions=self._decisions_digest,
        )

    def _summarise(self, manifest: BuildManifest, location: str) -> tuple[str, ...]:
        counts = manifest.counts
        labels = ", ".join(f"{count} {label}" for label, count in counts.by_label.items())
        lines = [
            f"{location}: {counts.rows} rows{f' ({labels})' if labels else ''}, {counts.speech_s / 60:.1f} minutes."
        ]
        if manifest.candidates is not None:
            lines.append(
                f"{manifest.candidates.rows} more have no audio: they are in {manifest.candidates.file} as text, and "
                "are no rows. Name the folder of the recordings (audio) to have their clips."
            )
        for stage in manifest.stages:
            if stage.rejected:
                reasons = ", ".join(f"{reason} {count}" for reason, count in stage.reasons.items())
                lines.append(f"{stage.stage}: {stage.rejected} of {stage.rows_in} rejected ({reasons}).")
        if manifest.decisions is None:
            lines.append("Nobody has looked at the rows: go through them with `bystander review`.")
        for role, count in self.environment.call_counts().items():
            lines.append(f"{role}: {count['made']} calls made, {count['remembered']} remembered.")
        return tuple(lines)


def _read_decisions(address: str | None) -> tuple[Mapping[str, ReviewDecision], str | None]:
    """Return the decisions by row, and the digest of their file."""
    if address is None:
        return {}, None
    store, name = open_file(address)
    digest = hashlib.sha256(store.read_bytes(name)).hexdigest()
    return {decision.row_id: decision for decision in read_decisions(address)}, digest
