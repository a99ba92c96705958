"""The flow that builds TPI-Train: waves of two-speaker rows, the hard negatives of some of them, in one split."""

from __future__ import annotations

import itertools
import math
from typing import ClassVar

import numpy as np
from prefect import flow

from bystander.flows.flow_runs import run_flow
from bystander.flows.listeners import BuildListener
from bystander.flows.same_rows import SameTrainRows
from bystander.flows.tpi_build import TpiBuild, TpiOutcome, foresee_tpi_build, run_tpi_build
from bystander.schemas.config import TpiTrainConfig
from bystander.schemas.rebuild import RebuildPlan
from bystander.schemas.tpi import CHECKED, VOICED
from bystander.storage.build_manifest import BuildKind
from bystander.tasks.build_rejects import SetAside
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.publish_tpi import SELECTION, TpiRows, interleave
from bystander.tasks.stages import PAIR_STAGES
from bystander.tasks.stages.select_quotas import Missing, Selection, find_missing, select_quotas


@flow(name="build-tpi-train", flow_run_name="{config.dataset}-seed-{config.seed}", validate_parameters=True)
def build_tpi_train(config: TpiTrainConfig) -> TpiOutcome:
    """Build TPI-Train as configured, going on from whatever an earlier run finished.

    Raises:
        UserError: the configuration, an input file, a pack, an engine's set-up is wrong.
        BuildError: there is not a single row to publish, or another process is making this build.
    """
    return run_tpi_build(SameTrainRows if config.repeats_rows else _TrainBuild, config)


def run_build_tpi_train(config: TpiTrainConfig) -> TpiOutcome:
    """Run the flow in this process, on as many threads as configured, and clear up what killed runs left behind."""
    return run_flow(build_tpi_train, config, config.workers, f"dataset:{config.dataset}")


def foresee_build_tpi_train(config: TpiTrainConfig, against: str | None = None) -> RebuildPlan:
    """Return what a run would reuse and redo beside an earlier build; see `foresee_tpi_build`."""
    return foresee_tpi_build(SameTrainRows if config.repeats_rows else _TrainBuild, config, against)


class _TrainBuild(TpiBuild[TpiTrainConfig]):
    """Every candidate is spoken at once, so that texts and speech are made side by side: few rows are left over."""

    kind: ClassVar[BuildKind] = "tpi_train"
    row_stages = PAIR_STAGES

    def __init__(self, config: TpiTrainConfig, environment: StageEnvironment, listener: BuildListener) -> None:
        super().__init__(config, environment, listener)
        self._tried_twins: set[str] = set()

    def harvest(self) -> Selection:
        selection = self._select()
        while not (missing := find_missing(selection)).nothing and self.waves < self.config.max_waves:
            twins = self._choose_twins(missing)
            indices = np.empty(0, np.int64)
            # Where nothing but hard negatives is missing, pairs at hand come before new ones, which cost more.
            if missing.by_scenario or missing.by_label or not twins:
                indices = self.plan(missing, selection, self.rows.summary())
            if not len(indices) and not twins:
                break
            if len(indices):
                self.grow_wave(indices)
                twins = self._choose_twins(missing)
            else:
                self.waves += 1
            self._grow_hard_negatives(twins)
            selection = self._select()
        return selection

    def arrange_rows(self, selection: Selection) -> TpiRows:
        kept = self.base.ids if self.base is not None else frozenset()
        pairs, singles = set(selection.pairs) - kept, set(selection.hard_negatives) - kept
        spare_pairs = set(self.rows.summary()["id"].to_pylist()) - pairs
        spare_singles = set(self.singles.summary()["id"].to_pylist()) - singles
        rows = interleave(
            self.rows.read_rows(self.environment, pairs),
            len(pairs),
            self.singles.read_rows(self.environment, singles),
            len(singles),
        )
        if self.base is not None:
            rows = itertools.chain(self.base.read_split("train", kept), rows)
        surplus = itertools.chain(
            self.rows.read_rows(self.environment, spare_pairs), self.singles.read_rows(self.environment, spare_singles)
        )
        left_out = SetAside(SELECTION, "quota_filled", len(selection.ids), CHECKED, surplus)
        return TpiRows(splits={"train": rows}, set_aside=[left_out], twins=selection.twins)

    def _choose_twins(self, missing: Missing) -> set[str]:
        """Return ambiguous pairs that no hard negative was made of yet, some more than are missing."""
        floor = self.config.stages.build_hard_negatives.min_ambiguity
        pairs = self.rows.summary()
        scores = zip(pairs["id"].to_pylist(), pairs["ambiguity_score"].to_pylist(), strict=True)
        fit = [row_id for row_id, score in scores if score >= floor and row_id not in self._tried_twins]
        return set(fit[: math.ceil(missing.hard_negatives * self.config.wave_surplus)])

    def _grow_hard_negatives(self, twins: set[str]) -> None:
        if twins:
            self._tried_twins |= twins
            bases = self.rows.read_columns(self.environment, twins, VOICED)
            self.grow(self.singles, bases, f"wave{self.waves}-hard-negatives")

    def _select(self) -> Selection:
        pairs, singles = self._with_base(self.rows.summary()), self._with_base(self.singles.summary(), 1)
        kept = self.base.ids if self.base is not None else frozenset()
        return select_quotas(pairs, singles, self.config.targets, self.scenarios, self.config.seed, kept)
