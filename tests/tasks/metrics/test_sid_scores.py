"""Outcomes and penalties by hand, what must hold for any system, and the identities of the SID paper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.schemas.errors import InputError
from bystander.tasks.metrics.sid_scores import CaseScores, score_cases
from bystander.tasks.metrics.sid_summary import SidSummary, summarise_cases, weight_by_cases


def summarise(scores: CaseScores, **settings: Any) -> SidSummary:
    return summarise_cases(scores, seed=1, n_resamples=100, **settings)


def score_one(duration: float, brk: float | None, stop: float | None, **settings: Any) -> tuple[str, float, float]:
    scores = score_cases([duration], [brk], [stop], **settings)
    return str(scores.outcome[0]), float(scores.penalty_s[0]), float(scores.latency_s[0])


@pytest.mark.parametrize(
    ("brk", "stop", "outcome", "penalty"),
    [
        (1.0, 1.4, "TP", 0.4),
        (1.0, 4.5, "TP", 3.5),  # after the end: late, but right
        (1.0, 0.6, "FP", 4.0),
        (1.0, None, "FN", 3.0),
        (None, None, "TN", 0.0),
        (None, 0.3, "FP", 4.0),
        (None, 4.5, "FP", 4.0),
        (0.0, 0.3, "TP", 0.3),
    ],
)
def test_outcomes_and_penalties_are_the_papers(
    brk: float | None, stop: float | None, outcome: str, penalty: float
) -> None:
    for tolerance in (0.05, 0.0, None):
        found = score_one(4.0, brk, stop, tolerance_s=tolerance)
        assert found[:2] == (outcome, pytest.approx(penalty))
        assert math.isnan(found[2]) == (outcome != "TP")


@pytest.mark.parametrize(
    ("brk", "stop", "exact", "without"),
    [
        (0.5, 0.55, ("TP", 0.0), ("TP", 0.05)),
        (0.5, 0.45, ("TP", 0.0), ("FP", 2.0)),  # early, within the tolerance
        (0.5, 0.449, ("FP", 2.0), ("FP", 2.0)),
        (0.5, 0.551, ("TP", 0.051), ("TP", 0.051)),
        (None, 1.96, ("TN", 0.0), ("FP", 2.0)),  # at the clip's end nothing is left to interrupt
        (None, 1.94, ("FP", 2.0), ("FP", 2.0)),
    ],
)
def test_a_stop_within_the_tolerance_is_exact_on_both_sides(
    brk: float | None, stop: float, exact: tuple[str, float], without: tuple[str, float]
) -> None:
    assert score_one(2.0, brk, stop)[:2] == (exact[0], pytest.approx(exact[1]))
    assert score_one(2.0, brk, stop, tolerance_s=None)[:2] == (without[0], pytest.approx(without[1]))


def test_exact_stops_are_left_out_of_irl() -> None:
    scores = score_cases([2.0] * 3, [0.5] * 3, [0.52, 0.9, 1.1])
    summary = summarise(scores)
    assert (summary.irl.mean, summary.irl.n, summary.exact) == (pytest.approx(0.5), 2, 1)
    assert summary.irl_with_exact.mean == pytest.approx(1 / 3)
    assert summary.apt.mean == pytest.approx(1 / 3)
    only = summarise(score_cases([2.0], [0.5], [0.5]))
    assert (only.irl.mean, only.irl.n) == (0.0, 1)
    assert summarise(score_cases([2.0], [0.5], [0.5], tolerance_s=None)).irl.mean == 0.0
    assert summarise(score_cases([2.0], [0.5], [None])).irl.mean is None


def test_the_two_rates_of_false_interruption_differ_by_early_stops_and_by_what_they_divide() -> None:
    scores = score_cases([2.0] * 5, [1.0, 1.0, 1.0, None, None], [0.2, 1.3, None, 0.4, None])
    summary = summarise(scores)
    assert summary.counts == {"TP": 1, "FP": 2, "FN": 1, "TN": 1}
    assert summary.early == 1
    assert summary.fir.mean == pytest.approx(2 / 5)
    assert summary.fir_nonbreak.mean == pytest.approx(1 / 2)
    assert summary.early_rate.mean == pytest.approx(1 / 3)
    assert summary.miss_rate.mean == pytest.approx(1 / 3)
    assert summary.apt.mean == pytest.approx((2 + 0.3 + 1 + 2 + 0) / 5)
    assert summary.apt_parts == {"late": pytest.approx(0.06), "early": 0.4, "false_alarm": 0.4, "missed": 0.2}


def test_the_cap_is_for_false_alarms_without_speech_alone() -> None:
    scores = score_cases(
        [150.0, 150.0, 20.0], [None, None, 1.0], [3.0, 3.0, None], without_speech=[True, False, False], penalty_cap_s=10
    )
    assert scores.penalty_s.tolist() == [150, 150, 19]
    assert scores.capped_penalty_s.tolist() == [10, 150, 19]
    assert summarise(scores).apt_capped.mean == pytest.approx((10 + 150 + 19) / 3)


@pytest.mark.parametrize(
    ("case", "fault"),
    [
        (([0.0], [None], [None]), "case 0: the duration is 0 s; it must be a number above 0"),
        (([1.0], [1.2], [None]), "case 0: the break is 1.2 s; it must be within the clip"),
        (([1.0], [None], [-1.0]), "case 0: the stop is -1 s; it must be a number from 0 on"),
        (([1.0], [None], [math.inf]), "case 0: the stop is inf s"),
        (([1.0], [None], [math.nan]), "case 0: a time is NaN"),
        (([1.0, 2.0], [None], [None]), "2 durations, 1 breaks, 1 stops"),
    ],
)
def test_wrong_times_are_named(case: Any, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        score_cases(*case)


def test_no_cases_have_no_means() -> None:
    summary = summarise(score_cases([], [], []))
    assert (summary.cases, summary.apt.mean, summary.fir.mean, sum(summary.apt_parts.values())) == (0, None, None, 0)


# ---- what holds for any bench and system --------------------------------------------------------------------

SECONDS = st.floats(0.2, 60)
FEW = settings(max_examples=30)


@st.composite
def benches(draw: st.DrawFn) -> list[tuple[float, float | None]]:
    """Durations and breaks."""
    durations = draw(st.lists(SECONDS, min_size=1, max_size=12))
    return [(d, draw(st.one_of(st.none(), st.floats(0, 1).map(lambda share, d=d: share * d)))) for d in durations]


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[float, float | None, float | None]]:
    return [(d, b, draw(st.one_of(st.none(), st.floats(0, 80)))) for d, b in draw(benches())]


def score(cases: Any, **settings: Any) -> CaseScores:
    durations, breaks, stops = zip(*cases, strict=True)
    return score_cases(durations, breaks, stops, **settings)


@FEW
@given(runs())
def test_bounds_and_counts(cases: Any) -> None:
    scores = score(cases)
    summary = summarise(scores)
    assert sum(summary.counts.values()) == summary.cases == len(cases)
    assert summary.early <= summary.counts["FP"]
    assert summary.exact <= summary.counts["TP"]
    for rate in (summary.fir, summary.fir_nonbreak, summary.early_rate, summary.miss_rate):
        assert rate.mean is None or 0 <= rate.mean <= 1
    assert (scores.penalty_s >= 0).all()
    assert summary.apt.mean == pytest.approx(sum(summary.apt_parts.values()))
    # A stop that is right costs what it is late; all else at most the clip.
    wrong = scores.outcome != "TP"
    assert (scores.penalty_s[wrong] <= np.array([case[0] for case in cases])[wrong]).all()


@FEW
@given(runs(), st.randoms(use_true_random=False))
def test_the_order_of_cases_changes_nothing(cases: Any, random: Any) -> None:
    shuffled = random.sample(cases, len(cases))
    assert summarise(score(cases)) == summarise(score(shuffled))


@FEW
@given(st.lists(runs(), min_size=1, max_size=4))
def test_the_mean_over_all_cases_is_that_of_the_groups_weighted_by_cases(groups: Any) -> None:
    whole = summarise(score([case for group in groups for case in group]))
    parts = {str(at): summarise(score(group)) for at, group in enumerate(groups)}
    cases = {name: part.cases for name, part in parts.items()}
    for name in ("fir", "apt"):
        means = {key: getattr(part, name).mean for key, part in parts.items()}
        assert getattr(whole, name).mean == pytest.approx(weight_by_cases(means, cases))


@FEW
@given(benches(), st.sampled_from([0.05, None]))
def test_a_perfect_system_costs_nothing(bench: Any, tolerance: float | None) -> None:
    summary = summarise(score([(d, b, b) for d, b in bench], tolerance_s=tolerance))
    assert (summary.fir.mean, summary.apt.mean) == (0, 0)
    assert summary.fir_nonbreak.mean in (0, None)
    assert summary.irl.mean in (0, None)


@FEW
@given(benches())
def test_a_system_that_never_stops_lets_the_user_talk_on(bench: Any) -> None:
    summary = summarise(score([(d, b, None) for d, b in bench]))
    assert summary.fir.mean == 0
    assert summary.apt.mean == pytest.approx(np.mean([0 if b is None else d - b for d, b in bench]))


@FEW
@given(benches())
def test_a_system_that_stops_at_once_is_always_wrong(bench: Any) -> None:
    # Breaks within the tolerance of the start would make it right.
    later = [(d, None if b is None else min(d, b + 0.06)) for d, b in bench]
    summary = summarise(score([(d, b, 0.0) for d, b in later]))
    assert summary.fir.mean == 1
    assert summary.fir_nonbreak.mean in (1, None)
    assert summary.apt.mean == pytest.approx(np.mean([d for d, _ in later]))


@FEW
@given(runs(), st.floats(0.1, 30))
def test_a_cap_never_raises_a_penalty(cases: Any, cap: float) -> None:
    scores = score(cases, without_speech=[b is None for _, b, _ in cases], penalty_cap_s=cap)
    assert (scores.capped_penalty_s <= scores.penalty_s).all()
    assert scores.capped_penalty_s[~scores.has_break].max(initial=0) <= cap


def test_cases_of_one_recording_are_drawn_together() -> None:
    scores = score_cases([2.0] * 4, [None] * 4, [0.5, 0.5, None, None])
    apart = summarise(scores)
    together = summarise(scores, clusters=["a", "a", "b", "b"])
    assert apart.fir.mean == together.fir.mean == 0.5
    assert (together.fir.low, together.fir.high, together.fir.n_clusters) == (0, 1, 2)
    assert apart.fir.n_clusters == 4
    with pytest.raises(InputError, match="4 cases, 1 clusters"):
        summarise(scores, clusters=["a"])
