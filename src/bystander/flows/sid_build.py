"""The build that SID-Bench and SID training data share: recordings, embedded conversations, clips without speech."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pyarrow as pa

from bystander.flows.build_runs import BuildOutcome, list_accepted, run_build
from bystander.flows.build_summary import refuse_to_publish_nothing
from bystander.flows.check_sid import check_opened_sid_engines, check_sid_build, check_sid_settings
from bystander.flows.dry_run import DryRun
from bystander.flows.harvest import Harvest, store_bases
from bystander.flows.listeners import BuildListener, SilentListener
from bystander.flows.partition_stream import Journey
from bystander.flows.prefect_listener import PrefectListener
from bystander.flows.rebuild_plan import forecast
from bystander.flows.sid_harvest import (
    NoiseHarvest,
    RecordingHarvest,
    TurnHarvest,
    cut_partition,
    cut_planned_silences,
)
from bystander.flows.sid_summary import list_sid_quotas, summarise_sid
from bystander.schemas.rebuild import RebuildPlan
from bystander.schemas.sid import NOISE, PLACED, RAW_RECORDING, SILENCE
from bystander.schemas.sid_config import SidConfig
from bystander.schemas.stage_job import StageJob
from bystander.storage.part_use import record_part_use
from bystander.storage.parts import Partition, read_partition_columns
from bystander.storage.pinned_builds import pin_sid_builds
from bystander.storage.recording_files import read_recordings
from bystander.storage.sid_manifest import SidKind, SidManifest
from bystander.tasks.build_rejects import SetAside, StageRuns
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.publish_sid import (
    SELECTION,
    WHOLE_RECORDINGS,
    SidRows,
    digest_sid_content,
    find_published_sid,
    publish_sid,
)
from bystander.tasks.stages import CONVERSATION_STAGES, NOISE_STAGES, RECORDING_STAGES, TURN_STAGES, list_stages_needed
from bystander.tasks.stages.plan_conversations import (
    Stratum,
    name_sides,
    plan_conversations,
    size_conversations,
)
from bystander.tasks.stages.plan_noise import plan_noise, read_noise_plan
from bystander.tasks.stages.plan_silence import SILENCE_COLUMNS, Silence, SilencePlan, list_silences, plan_silences
from bystander.tasks.stages.select_sid import SidSelection, select_sid

_NOISE_ROUNDS = 3
"""Times that clips without speech are planned, where some are refused."""


SidOutcome = BuildOutcome[SidManifest]


class SidBuild:
    """One pass over a build. Everything finished is found again by its fingerprint, so a second pass is cheap."""

    def __init__(
        self,
        config: SidConfig,
        environment: StageEnvironment,
        listener: BuildListener,
        left_out: dict[str, str],
        kind: SidKind,
        split: str,
    ) -> None:
        self.config = config
        self.environment = environment
        self.listener = listener
        self.kind = kind
        self.split = split
        self.left_out = left_out
        """Languages of which no conversation can be made, with the reason."""
        self.recordings = RecordingHarvest(list_stages_needed(RECORDING_STAGES, bool(config.disjoint_from)))
        self.conversations = RecordingHarvest(CONVERSATION_STAGES)
        self.turns = TurnHarvest(list_stages_needed(TURN_STAGES, bool(config.disjoint_from)))
        self.noise = NoiseHarvest(NOISE_STAGES)
        self.may_cut = True
        """Whether turns and silences may be cut; a plan only finds those that were."""
        self.waves = 0
        self._drawn: Counter[Stratum] = Counter()

    def run(self) -> SidOutcome:
        """Say what is reused and what is redone, harvest, then publish what was selected."""
        self.listener.on_phase("looking for what is there already")
        self.listener.on_plan(self.foresee())
        selection = self._harvest()
        runs = StageRuns([run for harvest in self._harvests for run in harvest.runs()])
        if not selection.ids:
            raise refuse_to_publish_nothing(self.config, self.environment, runs, without_audio=WHOLE_RECORDINGS)
        store = self.environment.store
        content = digest_sid_content(self.config, self.environment, runs, selection.ids, self.left_out)
        manifest = find_published_sid(self.config, self.environment, content)
        name = manifest.build if manifest is not None else self.config.build_name
        record_part_use(store, self.config.dataset, name, runs.runs)
        if manifest is not None:
            self.listener.on_phase("nothing new: the published build is made of just this")
        else:
            self.listener.on_phase(f"writing {len(selection.ids)} rows")
            self.environment.recent.clear()  # what is published is read from the store
            quotas = list_sid_quotas(self.config.targets, selection)
            manifest = publish_sid(
                self.config,
                self.environment,
                self._arrange_rows(selection),
                runs,
                quotas,
                self.left_out,
                content,
                self.kind,
                self.split,
            )
        location = store.uri_of(f"{self.config.dataset}/{name}")
        return BuildOutcome(
            location, manifest, summarise_sid(manifest, location, self.waves, self.environment.call_counts())
        )

    def foresee(self, against: str | None = None) -> RebuildPlan:
        """Return what a run would reuse and redo beside an earlier build, without a call. Nothing is written.

        Turns and silences that were not cut before are not cut for it, and rows that they would become are not counted.

        Args:
            against: name or address of the build to compare with; without one, see `find_earlier_build`.

        Raises:
            BuildError: there is no such build, or it cannot be read.
        """
        stages = list(dict.fromkeys(stage for harvest in self._harvests for stage in harvest.stages))
        return forecast(self.config, self.environment, self.kind, stages, self._replay, against)

    def _replay(self, environment: StageEnvironment, dry: DryRun) -> bool:
        """Make the build without a call, and return whether what would be published is there already."""
        build = SidBuild(self.config, environment, SilentListener(), self.left_out, self.kind, self.split)
        build.may_cut = False
        for harvest in build._harvests:
            harvest.stream = dry.stream
        selection = build._harvest()
        runs = StageRuns([run for harvest in build._harvests for run in harvest.runs()])
        if dry.runs_nothing:
            content = digest_sid_content(self.config, environment, runs, selection.ids, self.left_out)
            return find_published_sid(self.config, self.environment, content) is not None
        return False

    def _harvest(self) -> SidSelection:
        """Make rows until the quotas are met, or as many as there can be, and select those to publish."""
        self._annotate_recordings()
        if self.config.conversations.use and self.config.targets.per_language:
            self._make_conversations()
        self._make_noise()
        return self._select()

    @property
    def _harvests(self) -> Sequence[Harvest]:
        return self.recordings, self.conversations, self.turns, self.noise

    def _annotate_recordings(self) -> None:
        if self.config.recordings.path is None:
            return
        self.listener.on_phase("reading recordings")
        raw = pa.concat_tables([RAW_RECORDING.empty_table(), *read_recordings(self.config.recordings)])
        self._annotate_turns(self._grow(self.recordings, raw, "recordings", self.config.partition_recordings))

    def _make_conversations(self) -> None:
        """Script and speak conversations, wave by wave, until the quotas are met that recordings left open."""
        while self.waves < self.config.max_waves:
            wanted = size_conversations(self._count_missing(), self._drawn, self._count_made(), self.config.surplus)
            if not wanted:
                return
            plan = plan_conversations(wanted, self._drawn, self.config.seed, name_sides(self.config.stages))
            self._drawn.update(wanted)
            self.waves += 1
            self.listener.on_phase(f"wave {self.waves}: {len(plan)} conversations")
            self._annotate_turns(self._grow(self.conversations, plan, f"wave{self.waves}", self.config.partition_rows))

    def _grow(self, harvest: Harvest, rows: pa.Table, name: str, partition_rows: int) -> list[Journey]:
        return harvest.grow(rows, name, self.environment, self.listener, partition_rows, self.config.workers)

    def _annotate_turns(self, recordings: Sequence[Journey]) -> None:
        """Cut the turns of finished recordings and send them through the annotation."""
        self.listener.on_phase("cutting turns")
        partitions = {}
        for journey in recordings:
            partitions.update(
                cut_partition(
                    journey.partition,
                    journey.name,
                    self.environment,
                    self.config.stages.cut_turns,
                    self.config.partition_rows,
                    self.may_cut,
                )
            )
        self.turns.grow_partitions(partitions, self.environment, self.listener, self.config.workers)
        self._report_progress()

    def _make_noise(self) -> None:
        """Make clips of silence and noise, again where some are refused."""
        targets = self.config.targets
        self.listener.on_phase("making clips without speech")
        silences = self._list_silences() if targets.silence else []
        tried = {*self.environment.other_sid_builds.noise}
        for round_number in range(_NOISE_ROUNDS):
            made = Counter(self.noise.summary()["category"].to_pylist())
            plans = plan_silences(
                silences, max(0, targets.silence - made[SILENCE]), self.config.stages.make_noise_clips, self.config.seed
            )
            noise = read_noise_plan(
                plan_noise(max(0, targets.noise - made[NOISE]), self.config.noise, self.config.seed, tried)
            )
            if not plans and not len(noise):
                return
            silences = _list_untouched(silences, plans)
            tried.update(noise["id"].to_pylist())
            rows = self.config.partition_rows
            partitions = cut_planned_silences(
                plans, self._all_recordings, f"silence{round_number}", self.environment, rows, self.may_cut
            ) | store_bases(noise, f"noise{round_number}", self.environment, rows)
            self.noise.grow_partitions(partitions, self.environment, self.listener, self.config.workers)

    def _list_silences(self) -> list[Silence]:
        return [
            silence
            for partition in self._all_recordings
            for silence in list_silences(read_partition_columns(self.environment.store, partition, SILENCE_COLUMNS))
            if not self.environment.other_sid_builds.has_recording(silence.recording_id)
        ]

    @property
    def _all_recordings(self) -> list[Partition]:
        return [journey.partition for journey in (*self.recordings.journeys, *self.conversations.journeys)]

    def _select(self) -> SidSelection:
        turns, noise = self.turns.summary(), self.noise.summary()
        shared = ["id", "language", "category", "recording_id", "speaker", "synthetic"]
        rows = pa.concat_tables([turns.select(shared), noise.select(["id", "category"])], promote_options="default")
        return select_sid(rows.select(shared), self.config.targets, self.config.seed)

    def _count_missing(self) -> dict[Stratum, int]:
        """Return how many rows of each language and category that can be synthesised are still missing."""
        return {
            (language, category): rows
            for (language, category), rows in self._select().missing.items()
            if language is not None and language not in self.left_out
        }

    def _count_made(self) -> dict[Stratum, int]:
        turns = self.turns.summary()
        columns = zip(turns["language"].to_pylist(), turns["true_category"].to_pylist(), strict=True)
        return dict(Counter((language, category) for language, category in columns if category is not None))

    def _report_progress(self) -> None:
        targets = self.config.targets
        accepted = Counter(self.turns.summary()["category"].to_pylist())
        wanted = {
            category: rows * len(targets.languages) for category, rows in (targets.per_language or accepted).items()
        }
        self.listener.on_accepted(dict(accepted), wanted)

    def _arrange_rows(self, selection: SidSelection) -> SidRows:
        chosen = set(selection.ids)
        turns = set(self.turns.summary()["id"].to_pylist())
        noise = set(self.noise.summary()["id"].to_pylist())
        return SidRows(
            turns=self.turns.read_rows(self.environment, turns & chosen),
            noise=self.noise.read_rows(self.environment, noise & chosen),
            set_aside=[
                SetAside(
                    SELECTION,
                    "quota_filled",
                    len(turns & chosen),
                    PLACED,
                    self.turns.read_rows(self.environment, turns - chosen),
                    after=TURN_STAGES[-1],
                )
            ],
        )


def _list_untouched(silences: Sequence[Silence], plans: Sequence[SilencePlan]) -> list[Silence]:
    """Return the stretches that no plan has taken anything of."""
    touched = {(piece.recording_id, piece.channel, piece.start_s) for plan in plans for piece in plan.pieces}
    return [one for one in silences if (one.recording_id, one.channel, one.start_s) not in touched]


def run_sid_build(config: SidConfig, kind: SidKind, split: str) -> SidOutcome:
    """Check a configuration, and make its build inside a Prefect flow.

    Raises:
        UserError: the configuration, an input file, prompts, an engine's set-up is wrong.
        BuildError: there is not a single row to publish, or another process is making this build.
    """
    config = pin_sid_builds(config)
    check_sid_build(config)

    def prepare(environment: StageEnvironment) -> Callable[[PrefectListener], SidOutcome]:
        left_out = check_opened_sid_engines(config, environment)
        return lambda listener: SidBuild(config, environment, listener, left_out, kind, split).run()

    return run_build(config, StageJob.of_sid(config), prepare)


def foresee_sid_build(config: SidConfig, kind: SidKind, split: str, against: str | None) -> RebuildPlan:
    """Return what a build would reuse and redo. No model is called, no server is needed, nothing is written.

    Raises:
        UserError: the configuration, an input file, prompts, an engine's set-up, or the build to compare with is wrong.
    """
    config = pin_sid_builds(config)
    check_sid_settings(config)
    environment = StageEnvironment(StageJob.of_sid(config), keeps_calls=False)
    environment.also_published = list_accepted()
    try:
        left_out = check_opened_sid_engines(config, environment)
        return SidBuild(config, environment, SilentListener(), left_out, kind, split).foresee(against)
    finally:
        environment.close()
