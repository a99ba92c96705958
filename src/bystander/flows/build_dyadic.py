"""The flow that builds dyadic rows: requests of a finished TPI build, each spoken whole by one voice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import pyarrow as pa
from prefect import flow

from bystander.flows.build_runs import BuildOutcome, list_accepted, run_build
from bystander.flows.build_summary import refuse_to_publish_nothing
from bystander.flows.check_dyadic import (
    check_dyadic_build,
    check_dyadic_settings,
    check_opened_dyadic_engines,
    open_source,
    pin_source,
)
from bystander.flows.dry_run import DryRun
from bystander.flows.flow_runs import run_flow
from bystander.flows.harvest import Harvest
from bystander.flows.listeners import BuildListener, SilentListener
from bystander.flows.prefect_listener import PrefectListener
from bystander.flows.rebuild_plan import forecast
from bystander.schemas.dyadic import DYADIC_LABEL
from bystander.schemas.dyadic_config import DyadicConfig
from bystander.schemas.rebuild import RebuildPlan
from bystander.schemas.stage_job import StageJob
from bystander.schemas.tpi import MIXED
from bystander.storage.base_build import assert_whole, read_base_columns
from bystander.storage.dyadic_manifest import DYADIC_KIND, DyadicManifest, DyadicRequests
from bystander.storage.part_use import record_part_use
from bystander.tasks.build_rejects import SetAside, StageRuns
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.publish_dyadic import (
    SELECTION,
    DyadicRows,
    DyadicSource,
    digest_dyadic_content,
    find_published_dyadic,
    publish_dyadic,
)
from bystander.tasks.stages import DYADIC_STAGES
from bystander.tasks.stages.plan_dyadic import explain_passed_over, plan_dyadic, take_sources, take_wave
from bystander.tasks.stages.restore_rows import PUBLISHED_TEXTS

DyadicOutcome = BuildOutcome[DyadicManifest]


@flow(name="build-dyadic", flow_run_name="{config.dataset}-seed-{config.seed}", validate_parameters=True)
def build_dyadic(config: DyadicConfig) -> DyadicOutcome:
    """Build one-speaker requests with replies as configured, going on from whatever an earlier run finished.

    Raises:
        UserError: the configuration, the source, its pack, an engine's set-up is wrong.
        BuildError: there is not a single row to publish, or another process is making this build.
    """
    config = pin_source(config)
    check_dyadic_build(config)

    def prepare(environment: StageEnvironment) -> Callable[[PrefectListener], DyadicOutcome]:
        check_opened_dyadic_engines(config, environment)
        return lambda listener: DyadicBuild(config, environment, listener).run()

    return run_build(config, StageJob.of_dyadic(config, str(config.pack)), prepare)


def run_build_dyadic(config: DyadicConfig) -> DyadicOutcome:
    """Run the flow in this process, on as many threads as configured, and clear up what killed runs left behind."""
    return run_flow(build_dyadic, config, config.workers, f"dataset:{config.dataset}")


def foresee_build_dyadic(config: DyadicConfig, against: str | None = None) -> RebuildPlan:
    """Return what a run would reuse and redo beside an earlier build. No model is called, nothing is written.

    Raises:
        UserError: the configuration, the source, its pack, an engine's set-up, or the build to compare with is wrong.
    """
    config = pin_source(config)
    check_dyadic_settings(config)
    environment = StageEnvironment(StageJob.of_dyadic(config, str(config.pack)), keeps_calls=False)
    environment.also_published = list_accepted()
    try:
        check_opened_dyadic_engines(config, environment)
        return DyadicBuild(config, environment, SilentListener()).foresee(against)
    finally:
        environment.close()


class _DyadicHarvest(Harvest):
    """Spoken requests."""

    SUMMARY: ClassVar[pa.Schema] = pa.schema([MIXED.field(name) for name in ("id", "query_id", "twin_id")])
    FINISHED: ClassVar[pa.Schema] = MIXED
    UNPUBLISHED: ClassVar[tuple[str, ...]] = ("tracks.list.element.audio",)


class DyadicBuild:
    """One pass over a build. Everything finished is found again by its fingerprint, so a second pass is cheap."""

    def __init__(self, config: DyadicConfig, environment: StageEnvironment, listener: BuildListener) -> None:
        self.config = config
        self.environment = environment
        self.listener = listener
        self.rows = _DyadicHarvest(DYADIC_STAGES)
        self.waves = 0
        self._source = DyadicSource(*open_source(config))
        self._split_of: dict[str, str] = {}
        """For each row of the source, its split."""
        self._texts = pa.table({})
        """The source's rows without their sound."""
        self._tried: set[str] = set()
        """Ids of rows of the source that were spoken."""

    def run(self) -> DyadicOutcome:
        """Say what is reused and what is redone, harvest, then publish what was selected."""
        self.listener.on_phase("looking for what is there already")
        self.listener.on_plan(self.foresee())
        ids = self._harvest()
        runs = StageRuns(self.rows.runs())
        if not ids:
            raise refuse_to_publish_nothing(self.config, self.environment, runs)
        content = digest_dyadic_content(self.config, self.environment, self._source, runs, ids)
        manifest = find_published_dyadic(self.config, self.environment, content)
        name = manifest.build if manifest is not None else self.config.build_name
        store = self.environment.store
        record_part_use(store, self.config.dataset, name, runs.runs)
        if manifest is not None:
            self.listener.on_phase("nothing new: the published build is made of just this")
        else:
            self.listener.on_phase(f"writing {len(ids)} rows")
            self.environment.recent.clear()  # what is published is read from the store
            manifest = publish_dyadic(
                self.config, self.environment, self._source, self._arrange_rows(ids), runs, content
            )
        location = store.uri_of(f"{self.config.dataset}/{name}")
        return BuildOutcome(location, manifest, self._summarise(manifest, location))

    def foresee(self, against: str | None = None) -> RebuildPlan:
        """Return what a run would reuse and redo beside an earlier build, without a call. Nothing is written.

        Args:
            against: name or address of the build to compare with; without one, see `find_earlier_build`.

        Raises:
            BuildError: there is no such build, or it cannot be read.
        """
        return forecast(self.config, self.environment, DYADIC_KIND, list(DYADIC_STAGES), self._replay, against)

    def _replay(self, environment: StageEnvironment, dry: DryRun) -> bool:
        """Make the build without a call, and return whether what would be published is there already."""
        build = DyadicBuild(self.config, environment, SilentListener())
        build.rows.stream = dry.stream
        ids = build._harvest()
        runs = StageRuns(build.rows.runs())
        if dry.runs_nothing:
            content = digest_dyadic_content(self.config, environment, self._source, runs, ids)
            return find_published_dyadic(self.config, self.environment, content) is not None
        return False

    def _harvest(self) -> list[str]:
        """Speak requests until as many are finished as are wanted, or there are no more; return the ids chosen.

        Where a request's row is refused, another row of the same request is tried in a later wave.
        """
        folder, manifest = self._source.folder, self._source.manifest
        assert_whole(folder, manifest, self.environment.store)
        rows = read_base_columns(folder, manifest, (*PUBLISHED_TEXTS, "split"))
        self._split_of = dict(zip(rows["id"].to_pylist(), rows["split"].to_pylist(), strict=True))
        rows = self._texts = rows.select(PUBLISHED_TEXTS)
        candidates = plan_dyadic(rows, self.environment.pack.classes, self.config.seed)
        wanted = self.config.rows or len({one.query_id for one in candidates})
        while self.waves < self.config.max_waves:
            finished = set(self.rows.summary()["query_id"].to_pylist())
            most = math.ceil(max(0, wanted - len(finished)) * self.config.surplus)
            batch = take_wave(candidates, self._tried, finished, most)
            if not batch:
                break
            self._tried.update(batch)
            self.waves += 1
            self.listener.on_phase(f"wave {self.waves}: {len(batch)} requests")
            self.rows.grow(
                take_sources(rows, batch),
                f"wave{self.waves}",
                self.environment,
                self.listener,
                self.config.partition_rows,
                self.config.workers,
            )
            self.listener.on_accepted({DYADIC_LABEL: len(self.rows.summary())}, {DYADIC_LABEL: wanted})
        row_of = {source: row_id for row_id, source in self._list_finished()}
        return [row_of[one.row_id] for one in candidates if one.row_id in row_of][:wanted]

    def _list_finished(self) -> list[tuple[str, str]]:
        """Return id and source of every finished row."""
        summary = self.rows.summary()
        return list(zip(summary["id"].to_pylist(), summary["twin_id"].to_pylist(), strict=True))

    def _arrange_rows(self, ids: Sequence[str]) -> DyadicRows:
        chosen = set(ids)
        by_split: dict[str, set[str]] = {split: set() for split in self._source.manifest.counts.by_split}
        for row_id, source in self._list_finished():
            if row_id in chosen:
                by_split[self._split_of[source]].add(row_id)
        spare = {row_id for row_id, _ in self._list_finished()} - chosen
        return DyadicRows(
            splits={split: self.rows.read_rows(self.environment, own) for split, own in by_split.items() if own},
            set_aside=[
                SetAside(SELECTION, "quota_filled", len(chosen), MIXED, self.rows.read_rows(self.environment, spare))
            ],
            requests=self._account_requests(chosen),
        )

    def _account_requests(self, chosen: set[str]) -> DyadicRequests:
        """Return what became of each request of the source; `chosen` has the ids of the rows that are published."""
        summary = self.rows.summary()
        finished = dict(zip(summary["id"].to_pylist(), summary["query_id"].to_pylist(), strict=True))
        used = {finished[row_id] for row_id in chosen}
        passed_over = explain_passed_over(
            self._texts, self.environment.pack.classes, self._tried, set(finished.values()), used
        )
        there = len(set(self._texts["query_id"].to_pylist()))
        return DyadicRequests(there=there, used=len(used), passed_over=passed_over)

    def _summarise(self, manifest: DyadicManifest, location: str) -> tuple[str, ...]:
        counts = manifest.counts
        lines = [
            f"{location}: {counts.rows} one-speaker rows of {manifest.made_from.dataset}/{manifest.made_from.build}, "
            f"{counts.speech_s / 60:.1f} minutes, {counts.voices} voices, {len(manifest.shards)} shards, "
            f"{self.waves} waves."
        ]
        if manifest.requests is not None:
            asked = manifest.requests
            reasons = ", ".join(f"{reason} {count}" for reason, count in asked.passed_over.items())
            lines.append(
                f"Requests: {asked.used} of {asked.there} used" + (f", passed over: {reasons}." if reasons else ".")
            )
        for stage in manifest.stages:
            if stage.rejected:
                reasons = ", ".join(f"{reason} {count}" for reason, count in stage.reasons.items())
                lines.append(f"{stage.stage}: {stage.rejected} of {stage.rows_in} rejected ({reasons}).")
        lines += [f"Short: {quota.got} of {quota.asked} rows." for quota in manifest.shortfalls]
        for role, count in self.environment.call_counts().items():
            lines.append(f"{role}: {count['made']} calls made, {count['remembered']} remembered.")
        return tuple(lines)
