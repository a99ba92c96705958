"""The flow that builds TPI-Bench: two-speaker rows (TPI-Test) and one-speaker rows (Janus-Test), twins linked."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Set as AbstractSet
from typing import ClassVar

import pyarrow as pa
from prefect import flow

from bystander.flows.flow_runs import run_flow
from bystander.flows.harvest import Harvest
from bystander.flows.listeners import BuildListener
from bystander.flows.same_rows import SameBenchRows
from bystander.flows.tpi_build import TpiBuild, TpiOutcome, foresee_tpi_build, run_tpi_build
from bystander.flows.tpi_harvest import RowHarvest
from bystander.schemas.config import TpiBenchConfig
from bystander.schemas.identity import digest_json
from bystander.schemas.rebuild import RebuildPlan
from bystander.schemas.tpi import CHECKED, JANUS_TEST, TPI_TEST, VOICED
from bystander.storage.build_manifest import BuildKind
from bystander.tasks.build_rejects import SetAside
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.publish_tpi import SELECTION, TEXT_SELECTION, TpiRows
from bystander.tasks.stages import SPEECH_STAGES, TEXT_STAGES
from bystander.tasks.stages.build_hard_negatives import name_hard_negative
from bystander.tasks.stages.select_bench import select_bench
from bystander.tasks.stages.select_quotas import Selection, find_missing

_MOST_PLANS = 4
"""Rows that are spoken at once for each one that is wanted, at most, where speech fails often."""
_TRANSCRIPT = pa.schema([VOICED.field(n) for n in ("id", "primary_complete", "primary_text", "third_party_text")])


@flow(name="build-tpi-bench", flow_run_name="{config.dataset}-seed-{config.seed}", validate_parameters=True)
def build_tpi_bench(config: TpiBenchConfig) -> TpiOutcome:
    """Build TPI-Bench as configured, going on from whatever an earlier run finished.

    Raises:
        UserError: the configuration, an input file, a pack, an engine's set-up, a build to be disjoint from is wrong.
        BuildError: there is not a single row to publish, or another process is making this build.
    """
    return run_tpi_build(SameBenchRows if config.repeats_rows else _BenchBuild, config)


def run_build_tpi_bench(config: TpiBenchConfig) -> TpiOutcome:
    """Run the flow in this process, on as many threads as configured, and clear up what killed runs left behind."""
    return run_flow(build_tpi_bench, config, config.workers, f"dataset:{config.dataset}")


def foresee_build_tpi_bench(config: TpiBenchConfig, against: str | None = None) -> RebuildPlan:
    """Return what a run would reuse and redo beside an earlier build; see `foresee_tpi_build`."""
    return foresee_tpi_build(SameBenchRows if config.repeats_rows else _BenchBuild, config, against)


class _BenchBuild(TpiBuild[TpiBenchConfig]):
    """Texts come first, and only rows that are then selected are spoken.

    A bench wants as many one-speaker rows as others, but few transcripts are ambiguous enough. Written text is cheap
    beside speech: so it is written until there are enough, the ambiguous transcripts are taken for both kinds as far as
    the quotas allow, and what fails when it is spoken is replaced.
    """

    kind: ClassVar[BuildKind] = "tpi_bench"
    row_stages = TEXT_STAGES

    def __init__(self, config: TpiBenchConfig, environment: StageEnvironment, listener: BuildListener) -> None:
        super().__init__(config, environment, listener)
        self.pairs = RowHarvest(SPEECH_STAGES)
        self._spoken_by_two: set[str] = set()
        self._spoken_by_one: set[str] = set()
        self._first_with: dict[str, str] = {}  # transcript to the first row that says it
        self._repeating: set[str] = set()

    @property
    def harvests(self) -> tuple[Harvest, ...]:
        return self.queries, self.rows, self.pairs, self.singles

    @property
    def voiced(self) -> Harvest:
        return self.pairs

    def harvest(self) -> Selection:
        while True:
            selection = self._select()
            missing = find_missing(selection)
            if not missing.nothing and self.waves < self.config.max_waves:
                indices = self.plan(missing, selection, self._list_texts())
                if len(indices):
                    self.grow_wave(indices)
                    self._note_transcripts()
                    continue
            by_two, by_one = self._choose_to_speak(selection)
            if not by_two and not by_one:
                return selection
            self._speak(by_two, by_one)

    def arrange_rows(self, selection: Selection) -> TpiRows:
        pairs, singles = set(selection.pairs), set(selection.hard_negatives)
        spoken = self._spoken_by_two | self._spoken_by_one
        unspoken = set(self.rows.summary()["id"].to_pylist()) - spoken
        spare_pairs = set(self.pairs.summary()["id"].to_pylist()) - pairs
        spare_singles = set(self.singles.summary()["id"].to_pylist()) - singles
        surplus = itertools.chain(
            self.pairs.read_rows(self.environment, spare_pairs), self.singles.read_rows(self.environment, spare_singles)
        )
        texts = self.rows.read_rows(self.environment, unspoken, VOICED)
        return TpiRows(
            splits={
                TPI_TEST: self.pairs.read_rows(self.environment, pairs),
                JANUS_TEST: self.singles.read_rows(self.environment, singles),
            },
            set_aside=[
                SetAside(TEXT_SELECTION, "not_needed", len(spoken), VOICED, texts, after=TEXT_STAGES[-1]),
                SetAside(SELECTION, "quota_filled", len(selection.ids), CHECKED, surplus),
            ],
            twins=selection.twins,
            lone=frozenset(singles - set(selection.twins)),
        )

    def count_hard_negatives(self) -> dict[str, int]:
        """Return in how many rows of each scenario the transcript is ambiguous."""
        texts = self._list_texts()
        ambiguous = set(self._list_ambiguous())
        columns = zip(texts["id"].to_pylist(), texts["scenario"].to_pylist(), strict=True)
        return dict(Counter(scenario for row_id, scenario in columns if row_id in ambiguous))

    def _choose_to_speak(self, selection: Selection) -> tuple[set[str], set[str]]:
        """Return written rows to be spoken by two voices, and by one: those selected that were not spoken yet.

        Where some have failed before, what would be selected in their place is spoken too, so that few rounds suffice.
        """
        spoken = len(self._spoken_by_two) + len(self._spoken_by_one)
        finished = len(self.pairs.summary()) + len(self.singles.summary())
        plans = min(_MOST_PLANS, math.ceil(spoken / max(1, finished)))
        by_two, by_one = self._list_unspoken(selection)
        for _ in range(plans - 1):
            more = self._list_unspoken(self._select(by_two, by_one))
            by_two, by_one = by_two | more[0], by_one | more[1]
        return by_two, by_one

    def _list_unspoken(self, selection: Selection) -> tuple[set[str], set[str]]:
        chosen = set(selection.hard_negatives)
        by_one = {row_id for row_id in self._list_ambiguous() if name_hard_negative(row_id) in chosen}
        return set(selection.pairs) - self._spoken_by_two, by_one - self._spoken_by_one

    def _select(
        self, without_pairs: AbstractSet[str] = frozenset(), without_singles: AbstractSet[str] = frozenset()
    ) -> Selection:
        """Select among all written rows but those that failed when they were spoken, and those given."""
        texts = self._list_texts()
        failed = self._spoken_by_two - set(self.pairs.summary()["id"].to_pylist()) | without_pairs
        fit = [row_id not in failed for row_id in texts["id"].to_pylist()]
        ambiguous = set(self._list_ambiguous()) - without_singles
        bases = texts.filter(pa.array([row_id in ambiguous for row_id in texts["id"].to_pylist()], pa.bool_()))
        ids = [name_hard_negative(row_id) for row_id in bases["id"].to_pylist()]
        singles = pa.table({"id": pa.array(ids, pa.string()), "twin_id": bases["id"], "scenario": bases["scenario"]})
        config = self.config
        return select_bench(
            texts.filter(pa.array(fit, pa.bool_())), singles, config.targets, self.scenarios, config.seed
        )

    def _list_texts(self) -> pa.Table:
        """Return SUMMARY of the written rows, the first of each transcript."""
        texts = self.rows.summary()
        return texts.filter(pa.array([i not in self._repeating for i in texts["id"].to_pylist()], pa.bool_()))

    def _list_ambiguous(self) -> list[str]:
        """Return the written rows whose transcript one voice may say, and has not failed to."""
        failed = self._spoken_by_one - set(self.singles.summary()["twin_id"].to_pylist())
        floor = self.config.stages.build_hard_negatives.min_ambiguity
        texts = self._list_texts()
        columns = zip(texts["id"].to_pylist(), texts["ambiguity_score"].to_pylist(), strict=True)
        return [row_id for row_id, score in columns if score >= floor and row_id not in failed]

    def _note_transcripts(self) -> None:
        """See which of the rows just written say what an earlier one says: a bench has each transcript once."""
        known = {*self._first_with.values(), *self._repeating}
        fresh = set(self.rows.summary()["id"].to_pylist()) - known
        for row_id, *texts in zip(
            *(column.to_pylist() for column in self.rows.read_columns(self.environment, fresh, _TRANSCRIPT).columns),
            strict=True,
        ):
            if self._first_with.setdefault(digest_json(texts), row_id) != row_id:
                self._repeating.add(row_id)

    def _speak(self, by_two: set[str], by_one: set[str]) -> None:
        self.listener.on_phase(f"speaking {len(by_two)} two-speaker and {len(by_one)} one-speaker rows")
        name = f"wave{self.waves}-{len(self.pairs.journeys)}-{len(self.singles.journeys)}"
        if by_two:
            self._spoken_by_two |= by_two
            self.grow(self.pairs, self.rows.read_columns(self.environment, by_two, VOICED), f"{name}-pairs")
        if by_one:
            self._spoken_by_one |= by_one
            self.grow(self.singles, self.rows.read_columns(self.environment, by_one, VOICED), f"{name}-hard-negatives")
