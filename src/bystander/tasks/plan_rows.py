"""How many rows a build will try, stage by stage: the flow's own planning, simulated with drawn yields.

The flow sizes a wave by what the waves before brought, so there is no formula to put numbers into: small builds try a
few rows more than large ones, and a scenario that is short costs a wave. Here `size_wave` plans, and binomial draws
stand in for the engines, some hundred times. Each simulated build draws its yields first, from what is known of them: a
share that was seen on few rows spreads further.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bystander.schemas.config import TpiBenchConfig, TpiConfig
from bystander.schemas.identity import make_rng
from bystander.schemas.plan import BuildMeasures, Estimate, Yield
from bystander.schemas.tpi_params import TpiTargets
from bystander.tasks.stages import (
    HARD_NEGATIVE_STAGES,
    PAIR_STAGES,
    QUERY_STAGES,
    SPEECH_STAGES,
    TEXT_STAGES,
    list_stages_needed,
)
from bystander.tasks.stages.plan_candidates import Progress, size_wave
from bystander.tasks.stages.select_quotas import Missing

SIMULATIONS = 200
LOW, HIGH = 0.05, 0.95
"""Quantiles of the simulated builds that a range is given by."""
_MAX_ROUNDS = 50
"""Rounds of speech in a bench before a simulated build gives up."""
_PRIOR = 0.5
"""Of Jeffreys' prior for a binomial share."""


@dataclass(slots=True)
class PlannedRows:
    """One simulated build."""

    stages: Counter[str] = field(default_factory=Counter)
    """Rows into each stage."""
    kept: Counter[str] = field(default_factory=Counter)
    """Rows out of each stage."""
    candidates: int = 0
    waves: int = 0
    task_runs: int = 0
    labelled: Counter[str] = field(default_factory=Counter)
    """Rows of each label that `label_actionability` gave."""
    finished_pairs: int = 0
    finished_singles: int = 0
    pairs_spoken: int = 0
    singles_spoken: int = 0
    lost_pairs: int = 0
    """Rows that no track was found for: they had all their tries."""
    lost_singles: int = 0
    short: bool = False
    """Whether it ended without all rows."""


@dataclass(frozen=True, slots=True)
class _Shares:
    """The yields of one simulated build."""

    stages: dict[str, float]
    labels: dict[str, float]
    ambiguous: float


def simulate_builds(
    config: TpiConfig, measures: BuildMeasures, scenarios: Sequence[str], simulations: int = SIMULATIONS
) -> list[PlannedRows]:
    """Return simulated builds of a configuration. Queries are taken to suffice."""
    simulate = _simulate_bench if isinstance(config, TpiBenchConfig) else _simulate_train
    builds = []
    for number in range(simulations):
        rng = make_rng(0, f"build-{number}", "plan")
        builds.append(simulate(config, _draw_shares(config.targets, measures, rng), scenarios, rng))
    return builds


def estimate(values: Sequence[float]) -> Estimate:
    """Return the median and the range of nine tenths of the values."""
    low, middle, high = np.quantile(np.asarray(values, float), [LOW, 0.5, HIGH])
    return Estimate(expected=float(middle), low=float(low), high=float(high))


def _draw_shares(targets: TpiTargets, measures: BuildMeasures, rng: np.random.Generator) -> _Shares:
    labels = sorted(targets.labels)
    counts = np.array([measures.labels.get(label, 0) for label in labels], float)
    if not counts.any():
        counts = np.full(len(labels), 50.0)
    drawn = rng.dirichlet(counts + _PRIOR)
    return _Shares(
        stages={name: _draw_share(value, rng) for name, value in sorted(measures.yields.items())},
        labels=dict(zip(labels, drawn.tolist(), strict=True)),
        ambiguous=_draw_share(measures.ambiguous, rng),
    )


def _draw_share(seen: Yield, rng: np.random.Generator) -> float:
    lost = seen.rows_in - seen.kept
    # A stage that never lost a row is one whose checks cannot fail for these engines, far more often than luck.
    return float(rng.beta(seen.kept + _PRIOR, lost + _PRIOR)) if lost and seen.kept else seen.share


class _Build:
    """The counts of one simulated build, by scenario: shape (scenarios,), and (scenarios, labels) where labelled."""

    def __init__(
        self, config: TpiConfig, shares: _Shares, scenarios: Sequence[str], rng: np.random.Generator, surplus: float
    ) -> None:
        self.config, self.shares, self.scenarios, self.rng, self.surplus = config, shares, scenarios, rng, surplus
        self.labels = sorted(config.targets.labels)
        self.disjoint = bool(config.disjoint_from)
        self.rows = PlannedRows()
        self.rows.task_runs += len(QUERY_STAGES)
        self.tried = np.zeros(len(scenarios), np.int64)
        self.accepted = np.zeros((len(scenarios), len(self.labels)), np.int64)
        self.ambiguous = np.zeros(len(scenarios), np.int64)

    def pass_stages(self, names: Sequence[str], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Send rows through stages, count them, and return what is left of each count."""
        names = list_stages_needed(names, self.disjoint)
        self.rows.task_runs += math.ceil(int(counts.sum()) / self.config.partition_rows) * len(names)
        for name in names:
            self.rows.stages[name] += int(counts.sum())
            counts = self.rng.binomial(counts, self.shares.stages.get(name, 1.0))
            self.rows.kept[name] += int(counts.sum())
        return counts

    def try_candidates(self, names: Sequence[str], wanted: npt.NDArray[np.int64]) -> None:
        """Send a wave of candidates through `names`, and label what comes out."""
        self.rows.waves += 1
        self.rows.candidates += int(wanted.sum())
        self.tried += wanted
        kept = self.pass_stages(names, wanted)
        self.accepted += self.rng.multinomial(kept, [self.shares.labels[label] for label in self.labels])
        self.ambiguous += self.rng.binomial(kept, self.shares.ambiguous)

    def speak(self, pairs: int, singles: int) -> tuple[int, int]:
        """Send rows through speech, and return how many pairs and singles are finished."""
        kept_pairs = kept_singles = 0
        if pairs:
            kept_pairs = int(self.pass_stages(SPEECH_STAGES, np.array([pairs])).sum())
        if singles:
            kept_singles = int(self.pass_stages(HARD_NEGATIVE_STAGES, np.array([singles])).sum())
        return kept_pairs, kept_singles

    def count_ambiguous(self) -> int:
        """Return how many accepted rows are ambiguous enough for a hard negative."""
        return int(self.ambiguous.sum())

    def plan(self, missing: Missing, hard_negatives: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how many candidates the next wave tries in each scenario."""
        found = {
            (scenario, label): int(self.accepted[i, j])
            for i, scenario in enumerate(self.scenarios)
            for j, label in enumerate(self.labels)
        }
        progress = Progress(
            dict(zip(self.scenarios, self.tried.tolist(), strict=True)),
            found,
            dict(zip(self.scenarios, hard_negatives.tolist(), strict=True)),
        )
        wanted = size_wave(missing, progress, self.scenarios, self.surplus)
        return np.array([wanted[scenario] for scenario in self.scenarios], np.int64)

    def find_missing(self, hard_negatives: int) -> Missing:
        """Return what the quotas lack: an equal share of each scenario, odd rows where most are, and every label."""
        targets = self.config.targets
        got = self.accepted.sum(axis=1)
        share, odd = divmod(targets.pairs, len(self.scenarios))
        asked = np.full(len(got), share)
        asked[np.argsort(-got, kind="stable")[:odd]] += 1
        gaps = np.maximum(asked - got, 0)
        by_label = {
            label: short
            for j, label in enumerate(self.labels)
            if (short := targets.labels[label] - int(self.accepted[:, j].sum())) > 0
        }
        return Missing(
            {self.scenarios[i]: int(gap) for i, gap in enumerate(gaps) if gap},
            by_label,
            max(0, targets.hard_negatives - hard_negatives),
        )

    def finish(self, pairs: int, singles: int) -> PlannedRows:
        """Return the counts, with those of the tracks."""
        rows = self.rows
        targets = self.config.targets
        rows.short = not self.find_missing(singles).nothing or pairs < targets.pairs
        rows.finished_pairs, rows.finished_singles = pairs, singles
        rows.singles_spoken = rows.kept["build_hard_negatives"]
        rows.pairs_spoken = rows.stages["synthesise_speech"] - rows.singles_spoken
        lost = rows.stages["synthesise_speech"] - rows.kept["synthesise_speech"]
        rows.lost_singles = round(lost * rows.singles_spoken / max(1, rows.stages["synthesise_speech"]))
        rows.lost_pairs = lost - rows.lost_singles
        rows.labelled.update(
            {label: round(rows.kept["label_actionability"] * share) for label, share in self.shares.labels.items()}
        )
        return rows


def _simulate_train(
    config: TpiConfig, shares: _Shares, scenarios: Sequence[str], rng: np.random.Generator
) -> PlannedRows:
    build = _Build(config, shares, scenarios, rng, config.wave_surplus)
    twins_tried = singles = 0
    singles_of = np.zeros(len(scenarios), np.int64)
    while not (missing := build.find_missing(singles)).nothing and build.rows.waves < config.max_waves:
        wish = math.ceil(missing.hard_negatives * config.wave_surplus)
        if missing.by_scenario or missing.by_label or not min(wish, build.count_ambiguous() - twins_tried):
            wanted = build.plan(missing, singles_of)
            if not wanted.any():
                break
            build.try_candidates(PAIR_STAGES, wanted)
        else:
            build.rows.waves += 1
        if twins := min(wish, build.count_ambiguous() - twins_tried):
            twins_tried += twins
            _, kept = build.speak(0, twins)
            singles += kept
            singles_of += rng.multinomial(kept, build.ambiguous / build.count_ambiguous())
    return build.finish(int(build.accepted.sum()), singles)


def _simulate_bench(
    config: TpiConfig, shares: _Shares, scenarios: Sequence[str], rng: np.random.Generator
) -> PlannedRows:
    build = _Build(config, shares, scenarios, rng, config.wave_surplus)
    targets = config.targets
    pairs = singles = failed_pairs = failed_singles = 0
    for _ in range(_MAX_ROUNDS):
        while build.rows.waves < config.max_waves:
            texts = build.accepted.sum() - failed_pairs
            missing = build.find_missing(build.count_ambiguous() - failed_singles)
            short = max(0, targets.pairs - int(texts))
            if missing.nothing and short:
                missing = Missing({scenarios[0]: short}, {}, 0)
            if missing.nothing:
                break
            wanted = build.plan(missing, build.ambiguous)
            if not wanted.any():
                break
            build.try_candidates(TEXT_STAGES, wanted)
        by_two, by_one = targets.pairs - pairs, targets.hard_negatives - singles
        if by_two <= 0 and by_one <= 0:
            break
        kept_pairs, kept_singles = build.speak(max(0, by_two), max(0, by_one))
        pairs, singles = pairs + kept_pairs, singles + kept_singles
        failed_pairs += max(0, by_two) - kept_pairs
        failed_singles += max(0, by_one) - kept_singles
    return build.finish(pairs, singles)
