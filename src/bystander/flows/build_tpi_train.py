"""The flow that builds TPI-Train: queries, waves of two-speaker rows and hard negatives, selection, publication."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from prefect import flow, tags
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from bystander.flows.build_summary import describe_rejects, list_quotas, summarise
from bystander.flows.check_tpi_train import check_opened_engines, check_tpi_train
from bystander.flows.listeners import current_listener
from bystander.flows.prefect_housekeeping import (
    fail_abandoned_flow_runs,
    mark_this_process,
    owner_tag,
    start_temporary_server,
    stop_orphaned_servers,
)
from bystander.flows.prefect_listener import PrefectListener
from bystander.flows.tpi_harvest import Harvest
from bystander.schemas.config import TpiTrainConfig
from bystander.schemas.errors import BuildError, CorruptPartError, InputError
from bystander.schemas.tpi import HARD_NEGATIVE_LABEL, RAW_QUERY, VOICED
from bystander.storage.build_lock import lock_build
from bystander.storage.build_manifest import BuildManifest
from bystander.storage.part_use import record_part_use
from bystander.storage.parts import read_partition
from bystander.storage.query_files import read_queries
from bystander.storage.stage_results import discard_result_of_part
from bystander.tasks.environment import StageEnvironment, StageJob, close_environments, open_environment
from bystander.tasks.publish_tpi import StageRuns, TpiRows, digest_content, find_published, publish_tpi
from bystander.tasks.stages import HARD_NEGATIVE_STAGES, PAIR_STAGES, QUERY_STAGES
from bystander.tasks.stages.plan_candidates import (
    Progress,
    enumerate_candidates,
    plan_odd_rows,
    plan_wave,
    size_wave,
    take_candidates,
)
from bystander.tasks.stages.select_quotas import Missing, Selection, find_missing, select_quotas
from bystander.tasks.stages.strata import choose_scenarios

_MAX_REPAIRS = 5
"""Times that a build starts over from its stored results because one of them turned out damaged."""


@dataclass(frozen=True, slots=True)
class BuildOutcome:
    """A finished build: where it is, its manifest, and what a person wants to hear of it, a sentence a line."""

    location: str
    manifest: BuildManifest
    summary: tuple[str, ...]


@flow(name="build-tpi-train", flow_run_name="{config.dataset}-seed-{config.seed}", validate_parameters=True)
def build_tpi_train(config: TpiTrainConfig) -> BuildOutcome:
    """Build TPI-Train as configured, going on from whatever an earlier run finished.

    Raises:
        UserError: the configuration, an input file, a pack, an engine's set-up is wrong.
        BuildError: there is not a single row to publish, or another process is making this build.
    """
    check_tpi_train(config)
    listener = PrefectListener(current_listener(), config.dataset)
    environment = open_environment(StageJob.of(config))
    try:
        check_opened_engines(config, environment)
        with lock_build(environment.store, config.dataset, config.build_name):
            return _build_with_repairs(config, environment, listener)
    finally:
        close_environments()


def _build_with_repairs(
    config: TpiTrainConfig, environment: StageEnvironment, listener: PrefectListener
) -> BuildOutcome:
    for repair in range(_MAX_REPAIRS + 1):
        try:
            outcome = _Build(config, environment, listener).run()
            listener.publish(outcome.manifest, outcome.summary, outcome.location)
            return outcome
        except CorruptPartError as damage:
            if repair == _MAX_REPAIRS:
                raise
            listener.on_phase(f"rebuilding a damaged part: {damage}")
            discard_result_of_part(environment.store, damage.path)
    raise AssertionError("unreachable")


def run_build_tpi_train(config: TpiTrainConfig) -> BuildOutcome:
    """Run the flow in this process, on as many threads as configured, and clear up what killed runs left behind."""
    mark = mark_this_process()
    stop_orphaned_servers()
    start_temporary_server()
    fail_abandoned_flow_runs()
    runner: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=config.workers)
    with tags(owner_tag(mark), f"dataset:{config.dataset}"):
        return build_tpi_train.with_options(task_runner=runner)(config)


class _Build:
    """One pass over a build. Everything finished is found again by its fingerprint, so a second pass is cheap."""

    def __init__(self, config: TpiTrainConfig, environment: StageEnvironment, listener: PrefectListener) -> None:
        self.config = config
        self.environment = environment
        self.listener = listener
        self.queries = Harvest(QUERY_STAGES)
        self.pairs = Harvest(PAIR_STAGES)
        self.singles = Harvest(HARD_NEGATIVE_STAGES)
        self.scenarios = [item.key for item in choose_scenarios(config.stages.draw_scenarios, environment.taxonomy)]
        self.drawn: Counter[str] = Counter()
        self.tried_twins: set[str] = set()
        self.waves = 0

    def run(self) -> BuildOutcome:
        """Harvest until the quotas are met or the queries are used up, then publish."""
        selection = self._harvest(self._read_queries())
        runs = StageRuns([run for harvest in (self.queries, self.pairs, self.singles) for run in harvest.runs()])
        if not selection.pairs:
            raise BuildError(f"{self.config.dataset}: no row passed all stages; rejected were {describe_rejects(runs)}")
        content = digest_content(self.config, self.environment, runs, selection.ids)
        record_part_use(self.environment.store, self.config.dataset, self.config.build_name, runs.runs)
        manifest = find_published(self.config, self.environment, content)
        if manifest is not None:
            self.listener.on_phase("nothing new: the published build is made of just this")
        else:
            self.listener.on_phase(f"writing {len(selection.ids)} rows")
            quotas = list_quotas(self.config.targets, self.scenarios, selection, self.pairs.summary())
            self.environment.recent.clear()  # what is published is read from the store
            rows = self._select_rows(selection)
            manifest = publish_tpi(self.config, self.environment, rows, runs, quotas, content)
        location = self.environment.store.uri_of(f"{self.config.dataset}/{self.config.build_name}")
        summary = summarise(manifest, location, selection, self.waves, self.environment.call_counts())
        return BuildOutcome(location, manifest, summary)

    def _read_queries(self) -> pa.Table:
        self.listener.on_phase("reading queries")
        raw = pa.concat_tables([RAW_QUERY.empty_table(), *read_queries(self.config.queries)])
        self._grow(self.queries, raw, "queries", partition_rows=max(1, len(raw)))
        rows = read_partition(self.environment.store, self.queries.journeys[0].partition)
        if not len(rows):
            rejected = describe_rejects(StageRuns(self.queries.runs()))
            source = self.config.queries.path or "the starter set"
            raise InputError(f"{source}: none of the {len(raw)} queries can be spoken; rejected were {rejected}")
        return rows

    def _harvest(self, queries: pa.Table) -> Selection:
        config = self.config
        candidates = enumerate_candidates(
            queries["query_id"].to_pylist(), config.seed, config.stages.draw_scenarios, self.environment.taxonomy
        )
        scenario_of = candidates["scenario"].to_pylist()
        used = np.zeros(len(candidates), np.bool_)
        selection = self._select()
        while not (missing := find_missing(selection)).nothing and self.waves < config.max_waves:
            twins = self._choose_twins(missing)
            indices = np.empty(0, np.int64)
            # Where nothing but hard negatives is missing, pairs at hand come before new ones, which cost more.
            if missing.by_scenario or missing.by_label or not twins:
                wanted = size_wave(missing, self._measure_progress(), self.scenarios, config.wave_surplus)
                indices = plan_wave(candidates, used, wanted)
                if not len(indices):
                    indices = self._plan_odd_rows(candidates, used, selection)
            if not len(indices) and not twins:
                break
            self.waves += 1
            if len(indices):
                used[indices] = True
                self.drawn.update(scenario_of[i] for i in indices)
                self.listener.on_phase(f"wave {self.waves}: {len(indices)} candidates")
                self._grow(self.pairs, take_candidates(queries, candidates, indices), f"wave{self.waves}")
                twins = self._choose_twins(missing)
            self._grow_hard_negatives(twins)
            selection = self._select()
        return selection

    def _plan_odd_rows(
        self, candidates: pa.Table, used: npt.NDArray[np.bool_], selection: Selection
    ) -> npt.NDArray[np.int64]:
        pairs, chosen = self.pairs.summary(), set(selection.pairs)
        columns = zip(pairs["id"].to_pylist(), pairs["scenario"].to_pylist(), strict=True)
        got = Counter(scenario for row_id, scenario in columns if row_id in chosen)
        surplus = self.config.wave_surplus
        return plan_odd_rows(candidates, used, got, self.scenarios, self.config.targets.pairs, surplus)

    def _choose_twins(self, missing: Missing) -> set[str]:
        """Return ambiguous pairs that no hard negative was made of yet, some more than are missing."""
        floor = self.config.stages.build_hard_negatives.min_ambiguity
        pairs = self.pairs.summary()
        scores = zip(pairs["id"].to_pylist(), pairs["ambiguity_score"].to_pylist(), strict=True)
        fit = [row_id for row_id, score in scores if score >= floor and row_id not in self.tried_twins]
        return set(fit[: math.ceil(missing.hard_negatives * self.config.wave_surplus)])

    def _grow_hard_negatives(self, twins: set[str]) -> None:
        if twins:
            self.tried_twins |= twins
            bases = self.pairs.read_columns(self.environment, twins, VOICED)
            self._grow(self.singles, bases, f"wave{self.waves}-hard-negatives")

    def _grow(self, harvest: Harvest, rows: pa.Table, name: str, partition_rows: int | None = None) -> None:
        size = partition_rows or self.config.partition_rows
        harvest.grow(rows, name, self.environment, self.listener, size, self.config.workers)
        accepted = Counter(self.pairs.summary()["label"].to_pylist() + self.singles.summary()["label"].to_pylist())
        wanted = {**self.config.targets.labels, HARD_NEGATIVE_LABEL: self.config.targets.hard_negatives}
        self.listener.on_accepted(dict(accepted), wanted)

    def _select(self) -> Selection:
        pairs, singles = self.pairs.summary(), self.singles.summary()
        return select_quotas(pairs, singles, self.config.targets, self.scenarios, self.config.seed)

    def _measure_progress(self) -> Progress:
        pairs, singles = self.pairs.summary(), self.singles.summary()
        accepted = Counter(zip(pairs["scenario"].to_pylist(), pairs["label"].to_pylist(), strict=True))
        return Progress(dict(self.drawn), dict(accepted), dict(Counter(singles["scenario"].to_pylist())))

    def _select_rows(self, selection: Selection) -> TpiRows:
        pairs, singles = set(selection.pairs), set(selection.hard_negatives)
        spare_pairs = set(self.pairs.summary()["id"].to_pylist()) - pairs
        spare_singles = set(self.singles.summary()["id"].to_pylist()) - singles
        return TpiRows(
            pairs=self.pairs.read_rows(self.environment, pairs),
            n_pairs=len(pairs),
            singles=self.singles.read_rows(self.environment, singles),
            n_singles=len(singles),
            surplus=itertools.chain(
                self.pairs.read_rows(self.environment, spare_pairs),
                self.singles.read_rows(self.environment, spare_singles),
            ),
            twins=selection.twins,
        )
