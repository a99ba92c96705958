"""The build that SID-Bench and SID training data share: recordings, embedded conversations, clips without speech."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from bystander.flows.build_summary import describe_rejects
from bystander.flows.check_sid import check_opened_sid_engines, check_sid_build
from bystander.flows.flow_runs import run_with_repairs
from bystander.flows.harvest import Harvest
from bystander.flows.listeners import current_listener
from bystander.flows.partition_stream import Journey
from bystander.flows.prefect_listener import PrefectListener
from bystander.flows.sid_harvest import NoiseHarvest, RecordingHarvest, TurnHarvest, cut_partition
from bystander.flows.sid_summary import list_sid_quotas, summarise_sid
from bystander.schemas.errors import BuildError
from bystander.schemas.sid import NOISE, NOISE_CLIP, PLACED, RAW_RECORDING, SILENCE, TURNS_FOUND
from bystander.schemas.sid_config import SidConfig
from bystander.storage.build_lock import lock_build
from bystander.storage.part_use import record_part_use
from bystander.storage.parts import read_partition_columns
from bystander.storage.recording_files import read_recordings
from bystander.storage.sid_manifest import SidKind, SidManifest
from bystander.tasks.build_rejects import SetAside, StageRuns
from bystander.tasks.environment import StageEnvironment, StageJob, close_environments, open_environment
from bystander.tasks.publish_sid import SELECTION, SidRows, digest_sid_content, find_published_sid, publish_sid
from bystander.tasks.stages import CONVERSATION_STAGES, NOISE_STAGES, RECORDING_STAGES, TURN_STAGES
from bystander.tasks.stages.plan_conversations import Stratum, plan_conversations, size_conversations
from bystander.tasks.stages.plan_noise import plan_noise_clips, plan_silence_clips
from bystander.tasks.stages.select_sid import SidSelection, select_sid


@dataclass(frozen=True, slots=True)
class SidOutcome:
    """A finished build: where it is, its manifest, and what a person wants to hear of it, a sentence a line."""

    location: str
    manifest: SidManifest
    summary: tuple[str, ...]


class SidBuild:
    """One pass over a build. Everything finished is found again by its fingerprint, so a second pass is cheap."""

    def __init__(
        self,
        config: SidConfig,
        environment: StageEnvironment,
        listener: PrefectListener,
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
        self.recordings = RecordingHarvest(RECORDING_STAGES)
        self.conversations = RecordingHarvest(CONVERSATION_STAGES)
        self.turns = TurnHarvest(TURN_STAGES)
        self.noise = NoiseHarvest(NOISE_STAGES)
        self.waves = 0
        self._drawn: Counter[Stratum] = Counter()

    def run(self) -> SidOutcome:
        """Harvest, then publish what was selected."""
        self._annotate_recordings()
        if self.config.conversations.use and self.config.targets.per_language:
            self._make_conversations()
        self._make_noise()
        selection = self._select()
        runs = StageRuns([run for harvest in self._harvests for run in harvest.runs()])
        if not selection.turns:
            raise BuildError(f"{self.config.dataset}: no turn passed all stages; rejected were {describe_rejects(runs)}")
        store = self.environment.store
        content = digest_sid_content(self.config, self.environment, runs, selection.ids, self.left_out)
        record_part_use(store, self.config.dataset, self.config.build_name, runs.runs)
        manifest = find_published_sid(self.config, self.environment, content)
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
        location = store.uri_of(f"{self.config.dataset}/{self.config.build_name}")
        return SidOutcome(
            location, manifest, summarise_sid(manifest, location, self.waves, self.environment.call_counts())
        )

    @property
    def _harvests(self) -> Sequence[Harvest]:
        return self.recordings, self.conversations, self.turns, self.noise

    def _annotate_recordings(self) -> None:
        if self.config.recordings.path is None:
            return
        self.listener.on_phase("reading recordings")
        raw = pa.concat_tables([RAW_RECORDING.empty_table(), *read_recordings(self.config.recordings)])
        journeys = self.recordings.grow(
            raw,
            "recordings",
            self.environment,
            self.listener,
            self.config.partition_recordings,
            self.config.workers,
        )
        self._annotate_turns(journeys)

    def _make_conversations(self) -> None:
        """Script and speak conversations, wave by wave, until the quotas are met that recordings left open."""
        while self.waves < self.config.max_waves:
            wanted = size_conversations(
                self._count_missing(), self._drawn, self._count_made(), self.config.surplus
            )
            if not wanted:
                return
            plan = plan_conversations(wanted, self._drawn, self.config.seed)
            self._drawn.update(wanted)
            self.waves += 1
            self.listener.on_phase(f"wave {self.waves}: {len(plan)} conversations")
            journeys = self.conversations.grow(
                plan,
                f"wave{self.waves}",
                self.environment,
                self.listener,
                self.config.partition_rows,
                self.config.workers,
            )
            self._annotate_turns(journeys)

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
                )
            )
        self.turns.grow_partitions(partitions, self.environment, self.listener, self.config.workers)
        self._report_progress()
