"""Simulated builds: without losses they are what can be worked out by hand, and losses make them larger."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from bystander.schemas.config import TpiConfig, load_bench_config, load_config
from bystander.schemas.plan import BuildMeasures, Yield
from bystander.tasks.plan_rows import PlannedRows, estimate, simulate_builds

SCENARIOS = ["alignment", "endorsement", "modification", "social_engagement"]


def measure(**fields: Any) -> BuildMeasures:
    """Return measures of a build that lost nothing, in which every row was ambiguous."""
    given: dict[str, Any] = {
        "source": "made up",
        "labels": {"actionable": 10**9, "ignorable": 10**9},
        "ambiguous": Yield(rows_in=100, kept=100),
        "write_tries": 1,
        "reply_tries": 1,
        "one_speaker_reply_tries": 1,
        "track_tries": 1,
        "primary_characters": 40,
        "third_party_characters": 60,
        "reply_characters": 80,
        "speech_s_per_character": 0.05,
        "flac_bytes_per_s": 20_000,
    }
    return BuildMeasures(**{**given, **fields})


def configure(actionable: int, ignorable: int, hard_negatives: int, **fields: Any) -> TpiConfig:
    targets = {"labels": {"actionable": actionable, "ignorable": ignorable}, "hard_negatives": hard_negatives}
    return load_config("fake", overrides={"targets": targets, **{k.replace("__", "."): v for k, v in fields.items()}})


def simulate(config: TpiConfig, measures: BuildMeasures, simulations: int = 40) -> list[PlannedRows]:
    return simulate_builds(config, measures, SCENARIOS, simulations)


def test_without_losses_one_wave_is_the_surplus() -> None:
    # 4000 pairs, 1000 a scenario, surplus 1.3: 5200 candidates in 6 partitions of 1000, all of them finished. 100 hard
    # negatives: 130 of the ambiguous pairs are tried.
    config = configure(2000, 2000, 100, partition_rows=1000)
    for build in simulate(config, measure(), 5):
        assert (build.candidates, build.waves, build.finished_pairs, build.finished_singles) == (5200, 1, 5200, 130)
        assert build.stages["write_interruptions"] == build.stages["choose_voices"] == 5200
        assert build.stages["synthesise_speech"] == 5330
        assert build.stages["build_hard_negatives"] == 130
        # The queries' run, 11 stages of 6 partitions (nothing to be disjoint from), 5 of the hard negatives' one.
        assert build.task_runs == 1 + 11 * 6 + 5
        assert not build.short


def test_disjointness_is_one_more_stage() -> None:
    config = configure(2000, 2000, 0, partition_rows=10_000, disjoint_from=["other"])
    assert simulate(config, measure(), 1)[0].task_runs == 1 + 12


def test_losses_are_made_up_for_by_another_wave() -> None:
    # Half is lost: 4000 pairs want 5200 candidates, which bring about 2600; 1400 more at a yield of .5, times 1.3.
    losing = measure(yields={"check_realism": Yield(rows_in=2_000_000, kept=1_000_000)})
    builds = simulate(configure(2000, 2000, 0), losing)
    assert statistics.median(build.candidates for build in builds) == pytest.approx(5200 + 3640, rel=0.03)
    for build in builds:
        assert build.finished_pairs >= 4000
        assert build.stages["check_realism"] == build.candidates
        assert build.kept["check_realism"] == build.finished_pairs
        assert build.waves >= 2


def test_a_scarce_label_decides() -> None:
    # One row in ten is actionable, and half of all should be: 2000 of them take some 20,000 candidates.
    builds = simulate(configure(2000, 2000, 0), measure(labels={"actionable": 10**8, "ignorable": 9 * 10**8}))
    assert all(build.candidates > 19_000 for build in builds)
    assert sum(builds[0].labelled.values()) == pytest.approx(builds[0].kept["label_actionability"], abs=1)
    assert builds[0].labelled["actionable"] == pytest.approx(builds[0].candidates / 10, rel=0.01)


def test_few_ambiguous_rows_decide() -> None:
    rare = measure(ambiguous=Yield(rows_in=10**9, kept=10**7))
    builds = simulate(configure(100, 100, 50), rare)
    assert all(build.candidates >= 3500 for build in builds)  # 50 at a hundredth of the rows, with luck
    assert all(build.finished_singles >= 50 for build in builds)


def test_little_evidence_gives_a_wide_range() -> None:
    def spread(rows_in: int) -> float:
        seen = Yield(rows_in=rows_in, kept=rows_in * 6 // 10)
        found = estimate(
            [
                b.candidates
                for b in simulate(configure(2000, 2000, 0), measure(yields={"x": seen, "check_realism": seen}), 100)
            ]
        )
        return (found.high - found.low) / found.expected

    assert spread(10_000) < 0.1 < 0.25 < spread(30)


def test_hopeless_yields_end_with_the_waves_and_are_said_to_be_short() -> None:
    builds = simulate(configure(20, 20, 0, max_waves=3), measure(yields={"check_realism": Yield(rows_in=9, kept=0)}), 2)
    assert [(build.waves, build.short, build.finished_pairs) for build in builds] == [(3, True, 0)] * 2


def test_bench_speaks_only_what_is_selected() -> None:
    targets = {"labels": {"actionable": 60, "ignorable": 40}, "hard_negatives": 100}
    config = load_bench_config("fake", overrides={"targets": targets})
    half = measure(ambiguous=Yield(rows_in=10**8, kept=5 * 10**7), labels={"actionable": 6, "ignorable": 4})
    for build in simulate(config, half, 10):
        assert (build.finished_pairs, build.finished_singles) == (100, 100)
        assert build.pairs_spoken == build.singles_spoken == 100  # nothing fails when it is spoken
        assert 150 < build.candidates < 350  # a hundred ambiguous ones are among them
        assert build.stages["choose_voices"] == build.candidates
        assert not build.short


def test_bench_speaks_again_for_what_fails() -> None:
    config = load_bench_config(
        "fake", overrides={"targets": {"labels": {"actionable": 60, "ignorable": 40}, "hard_negatives": 0}}
    )
    failing = measure(yields={"synthesise_speech": Yield(rows_in=10**8, kept=8 * 10**7)})
    builds = simulate(config, failing, 40)
    assert all(build.finished_pairs == 100 for build in builds)
    assert statistics.mean(build.pairs_spoken for build in builds) == pytest.approx(125, rel=0.05)


def test_simulations_repeat() -> None:
    losing = measure(yields={"check_realism": Yield(rows_in=50, kept=40)})
    config = configure(200, 200, 20)
    assert simulate(config, losing, 3) == simulate(config, losing, 3)


def test_estimate_is_median_and_nine_tenths() -> None:
    found = estimate([float(n) for n in range(101)])
    assert (found.low, found.expected, found.high) == (5, 50, 95)


def test_yield_that_keeps_more_than_it_reads_is_refused() -> None:
    with pytest.raises(ValueError, match="kept 3 of 2 rows"):
        Yield(rows_in=2, kept=3)
