"""What the flows that build TPI datasets share: reading queries, growing rows in waves, publishing, starting over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bystander.flows.base_rows import BaseRows
from bystander.flows.build_runs import BuildOutcome, list_accepted, run_build
from bystander.flows.build_summary import describe_rejects, list_quotas, refuse_to_publish_nothing, summarise
from bystander.flows.check_on_top import check_same_settings
from bystander.flows.check_tpi_train import check_opened_engines, check_tpi_build, check_tpi_settings
from bystander.flows.dry_run import DryRun
from bystander.flows.harvest import Harvest
from bystander.flows.listeners import BuildListener, SilentListener
from bystander.flows.prefect_listener import PrefectListener
from bystander.flows.rebuild_plan import forecast
from bystander.flows.tpi_harvest import QueryHarvest, RowHarvest
from bystander.schemas.config import TpiConfig
from bystander.schemas.errors import InputError, StageContractError
from bystander.schemas.rebuild import RebuildPlan
from bystander.schemas.stage_job import StageJob
from bystander.schemas.tpi import HARD_NEGATIVE_LABEL, QUERY, RAW_QUERY
from bystander.storage.build_manifest import BaseInfo, BuildKind, BuildManifest, Quota
from bystander.storage.part_use import record_part_use
from bystander.storage.parts import read_partition
from bystander.storage.pinned_builds import pin_builds
from bystander.storage.query_files import read_queries
from bystander.tasks.build_rejects import StageRuns
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.publish_tpi import TpiRows, digest_content, find_published, publish_tpi
from bystander.tasks.stages import HARD_NEGATIVE_STAGES, QUERY_STAGES, get_stage, list_stages_needed
from bystander.tasks.stages.plan_candidates import (
    Progress,
    enumerate_candidates,
    plan_odd_rows,
    plan_wave,
    size_wave,
    take_candidates,
)
from bystander.tasks.stages.select_quotas import Missing, Selection
from bystander.tasks.stages.strata import choose_scenarios

Config = TypeVar("Config", bound=TpiConfig)


TpiOutcome = BuildOutcome[BuildManifest]


class TpiBuild(ABC, Generic[Config]):
    """One pass over a build. Everything finished is found again by its fingerprint, so a second pass is cheap.

    `rows` are the two-speaker rows that candidates are planned for; `singles` the hard negatives.
    """

    kind: ClassVar[BuildKind]
    row_stages: ClassVar[Sequence[str]]
    """The stages that a candidate passes."""

    def __init__(self, config: Config, environment: StageEnvironment, listener: BuildListener) -> None:
        self.config = config
        self.environment = environment
        self.listener = listener
        disjoint = bool(config.disjoint_from)
        self.queries = QueryHarvest(QUERY_STAGES)
        self.rows = RowHarvest(list_stages_needed(self.row_stages, disjoint))
        self.singles = RowHarvest(HARD_NEGATIVE_STAGES)
        self.scenarios = [item.key for item in choose_scenarios(config.stages.draw_scenarios, environment.taxonomy)]
        self.waves = 0
        self._drawn: Counter[str] = Counter()
        self._query_rows = QUERY.empty_table()
        self._candidates = pa.table({})
        self._used = np.empty(0, np.bool_)
        self.base: BaseRows | None = None
        """The rows of the build that this one stands on, once queries are read."""

    @abstractmethod
    def harvest(self) -> Selection:
        """Grow rows until the quotas are met or the queries are used up, and return the rows to publish."""

    @abstractmethod
    def arrange_rows(self, selection: Selection) -> TpiRows:
        """Return the rows of each split, and those left out."""

    @property
    def harvests(self) -> Sequence[Harvest]:
        """All harvests, in the order of the stages."""
        return self.queries, self.rows, self.singles

    @property
    def voiced(self) -> Harvest:
        """The harvest of finished two-speaker rows."""
        return self.rows

    def get_base(self) -> BaseRows:
        """Return the rows of the build that this one stands on."""
        if self.base is None:
            raise StageContractError(f"{self.config.dataset}: stands on no other build")
        return self.base

    def list_quotas(self, selection: Selection) -> list[Quota]:
        """Return what was asked for and obtained of each label and scenario."""
        return list_quotas(self.config.targets, self.scenarios, selection, self._with_base(self.voiced.summary()))

    def report_accepted(self) -> None:
        """Tell how many rows are finished, of those wanted."""
        finished = (self._with_base(self.voiced.summary()), self._with_base(self.singles.summary(), 1))
        accepted = Counter(label for part in finished for label in part["label"].to_pylist())
        wanted = {**self.config.targets.labels, HARD_NEGATIVE_LABEL: self.config.targets.hard_negatives}
        self.listener.on_accepted(dict(accepted), wanted)

    def run(self) -> TpiOutcome:
        """Say what is reused and what is redone, harvest, then publish what was selected."""
        self._read_queries()
        self.listener.on_plan(self.foresee())
        selection = self.harvest()
        runs = StageRuns([run for harvest in self.harvests for run in harvest.runs()])
        if not selection.pairs:
            raise refuse_to_publish_nothing(self.config, self.environment, runs)
        base = self._describe_base(selection)
        content = self._digest_content(selection, runs)
        manifest = find_published(self.config, self.environment, content)
        name = manifest.build if manifest is not None else self.config.build_name
        record_part_use(self.environment.store, self.config.dataset, name, runs.runs)
        if manifest is not None:
            self.listener.on_phase("nothing new: the published build is made of just this")
        else:
            self.listener.on_phase(f"writing {len(selection.ids)} rows")
            quotas = self.list_quotas(selection)
            self.environment.recent.clear()  # what is published is read from the store
            rows = self.arrange_rows(selection)
            described = self.base.manifest.fingerprints if self.base is not None else {}
            manifest = publish_tpi(
                self.config, self.environment, rows, runs, quotas, content, self.kind, base, described
            )
        location = self.environment.store.uri_of(f"{self.config.dataset}/{name}")
        summary = summarise(manifest, location, selection, self.waves, self.environment.call_counts())
        return BuildOutcome(location, manifest, summary)

    def foresee(self, against: str | None = None) -> RebuildPlan:
        """Return what a run would reuse and redo beside an earlier build, without a call. Nothing is written.

        Args:
            against: name or address of the build to compare with; without one, see `find_earlier_build`.

        Raises:
            BuildError: there is no such build, or it cannot be read.
        """
        stages = list(dict.fromkeys(stage for harvest in self.harvests for stage in harvest.stages))
        return forecast(self.config, self.environment, self.kind, stages, self._replay, against)

    def _replay(self, environment: StageEnvironment, dry: DryRun) -> bool:
        """Make the build without a call, and return whether what would be published is there already."""
        build = type(self)(self.config, environment, SilentListener())
        for harvest in build.harvests:
            harvest.stream = dry.stream
        if self.queries.journeys:
            build._adopt_queries(self)
            dry.note_results([(get_stage(result.stage), before, result) for before, result in self.queries.runs()])
        else:
            build._read_queries()
        selection = build.harvest()
        runs = StageRuns([run for harvest in build.harvests for run in harvest.runs()])
        if dry.runs_nothing:
            return find_published(self.config, self.environment, build._digest_content(selection, runs)) is not None
        return False

    def _describe_base(self, selection: Selection) -> BaseInfo | None:
        return self.base.describe(set(selection.ids)) if self.base is not None else None

    def _digest_content(self, selection: Selection, runs: StageRuns) -> str:
        """Return the digest of what is to be published: that of the base, where it has all of it."""
        if self.base is not None and self.base.is_all_there_is(selection, self.config):
            return self.base.manifest.content_digest
        return digest_content(self.config, self.environment, runs, selection.ids, self._describe_base(selection))

    def _adopt_queries(self, other: TpiBuild[Config]) -> None:
        self.queries.journeys = [*other.queries.journeys]
        self._query_rows, self._candidates = other._query_rows, other._candidates
        self._used, self.base = other._used.copy(), other.base

    def plan(self, missing: Missing, selection: Selection, accepted: pa.Table) -> npt.NDArray[np.int64]:
        """Return the candidates of the next wave, none if all are used up.

        `accepted` is the SUMMARY of the rows that count as accepted so far, some of which `selection` has chosen.
        """
        wanted = size_wave(missing, self._measure_progress(accepted), self.scenarios, self.config.wave_surplus)
        indices = plan_wave(self._candidates, self._used, wanted)
        return indices if len(indices) else self._plan_odd_rows(selection, accepted)

    def grow_wave(self, indices: npt.NDArray[np.int64]) -> None:
        """Send candidates through `row_stages`."""
        self.waves += 1
        self._used[indices] = True
        self._drawn.update(self._candidates["scenario"].take(pa.array(indices, pa.int64())).to_pylist())
        self.listener.on_phase(f"wave {self.waves}: {len(indices)} candidates")
        self.grow(self.rows, take_candidates(self._query_rows, self._candidates, indices), f"wave{self.waves}")

    def grow(self, harvest: Harvest, bases: pa.Table, name: str, partition_rows: int | None = None) -> None:
        """Send rows through a harvest's stages."""
        size = partition_rows or self.config.partition_rows
        harvest.grow(bases, name, self.environment, self.listener, size, self.config.workers)
        self.report_accepted()

    def _read_queries(self) -> None:
        self.listener.on_phase("reading queries")
        raw = pa.concat_tables([RAW_QUERY.empty_table(), *read_queries(self.config.queries)])
        self.grow(self.queries, raw, "queries", partition_rows=max(1, len(raw)))
        rows = read_partition(self.environment.store, self.queries.journeys[0].partition)
        if not len(rows):
            rejected = describe_rejects(StageRuns(self.queries.runs()))
            source = self.config.queries.path or "the starter set"
            raise InputError(f"{source}: none of the {len(raw)} queries can be used; rejected were {rejected}")
        self._query_rows = rows
        self._candidates = enumerate_candidates(
            rows["query_id"].to_pylist(),
            self.config.seed,
            self.config.stages.draw_scenarios,
            self.environment.taxonomy,
        )
        self._used = np.zeros(len(self._candidates), np.bool_)
        if self.config.on_top_of is not None:
            self.listener.on_phase(f"reading the rows of {self.config.on_top_of.build}")
            self.base = BaseRows.read(self.config.on_top_of, self.config, self.environment, rows)
            self._used[self.base.find_candidates(self._candidates, rows)] = True

    def _with_base(self, rows: pa.Table, speakers: int = 2) -> pa.Table:
        """Return SUMMARY of finished rows after that of the base's rows with so many speakers."""
        if self.base is None:
            return rows
        return pa.concat_tables([self.base.sum_up(self.base.pairs if speakers == 2 else self.base.singles), rows])

    def _plan_odd_rows(self, selection: Selection, accepted: pa.Table) -> npt.NDArray[np.int64]:
        chosen = set(selection.pairs)
        rows = self._with_base(accepted)
        columns = zip(rows["id"].to_pylist(), rows["scenario"].to_pylist(), strict=True)
        got = Counter(scenario for row_id, scenario in columns if row_id in chosen)
        return plan_odd_rows(
            self._candidates, self._used, got, self.scenarios, self.config.targets.pairs, self.config.wave_surplus
        )

    def _measure_progress(self, accepted: pa.Table) -> Progress:
        found = Counter(zip(accepted["scenario"].to_pylist(), accepted["label"].to_pylist(), strict=True))
        return Progress(dict(self._drawn), dict(found), self.count_hard_negatives())

    def count_hard_negatives(self) -> dict[str, int]:
        """Return how many hard negatives each scenario has brought."""
        return dict(Counter(self.singles.summary()["scenario"].to_pylist()))


def run_tpi_build(
    make: Callable[[Config, StageEnvironment, BuildListener], TpiBuild[Any]], config: Config
) -> TpiOutcome:
    """Check a configuration, and make its build inside a Prefect flow.

    Raises:
        UserError: the configuration, an input file, a pack, an engine's set-up is wrong.
        BuildError: there is not a single row to publish, or another process is making this build.
    """
    config = pin_builds(config)
    check_tpi_build(config)

    def prepare(environment: StageEnvironment) -> Callable[[PrefectListener], TpiOutcome]:
        check_opened_engines(config, environment)
        check_same_settings(config, environment)
        return lambda listener: make(config, environment, listener).run()

    return run_build(config, StageJob.of(config), prepare)


def foresee_tpi_build(
    make: Callable[[Config, StageEnvironment, BuildListener], TpiBuild[Any]], config: Config, against: str | None
) -> RebuildPlan:
    """Return what a build would reuse and redo. No model is called, no server is needed, nothing is written.

    Raises:
        UserError: the configuration, an input file, a pack, an engine's set-up, or the build to compare with is wrong.
    """
    config = pin_builds(config)
    check_tpi_settings(config)
    environment = StageEnvironment(StageJob.of(config), keeps_calls=False)
    environment.also_published = list_accepted()
    try:
        check_same_settings(config, environment)
        return make(config, environment, SilentListener()).foresee(against)
    finally:
        environment.close()
