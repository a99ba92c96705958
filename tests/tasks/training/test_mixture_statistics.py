"""Means, intervals, tests and controls of an experiment with mixtures."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bystander.schemas.mixture_results import CurvePoint
from bystander.tasks.training.mixture_controls import measure_twin_auc, score_confounds, separate_embeddings
from bystander.tasks.training.mixture_experiment import thin_curve
from bystander.tasks.training.mixture_statistics import (
    SeedAnswers,
    compare_shares,
    estimate_over_seeds,
    estimate_share,
)
from bystander.tasks.training.two_input_scores import BenchAnswers
from two_input_rows import make_planted_rows


def answer(*recognised: list[int]) -> tuple[BenchAnswers, ...]:
    """Verdicts by seed; a class is right wherever an interruption is recognised."""
    flags = [np.array(seed, bool) for seed in recognised]
    return tuple(BenchAnswers(flag.astype(float), flag, flag) for flag in flags)


def test_interval_over_seeds_is_students() -> None:
    found = estimate_over_seeds([0.1, 0.2, 0.3], 0.95)
    assert found.mean == pytest.approx(0.2)
    assert found.high == pytest.approx(0.2 + 4.302652 * 0.1 / 3**0.5, abs=1e-6)  # t(2 degrees of freedom)
    assert found.low == pytest.approx(0.2 - 4.302652 * 0.1 / 3**0.5, abs=1e-6)
    alone = estimate_over_seeds([0.4], 0.95)
    assert (alone.mean, alone.low, alone.high, alone.n) == (0.4, None, None, 1)


def test_shares_and_paired_tests_of_a_case_made_by_hand() -> None:
    rows = make_planted_rows(4)  # two speakers, hard negative, dyadic, four times
    always = SeedAnswers("va", "sound", answer([1, 1, 0] * 4, [1, 1, 0] * 4, [1, 1, 0] * 4))
    better = SeedAnswers(
        "full", "sound", answer([1, 0, 0] * 4, [1, 0, 0] * 3 + [1, 1, 0], [1, 0, 0] * 2 + [1, 1, 0] * 2)
    )
    share = estimate_share(better, "false_interruption", rows, 0.95, seed=0)
    assert share is not None
    assert share.over_seeds.mean == pytest.approx((0 + 0.25 + 0.5) / 3)
    assert share.over_rows.n == 4
    assert share.over_rows.low is not None
    assert 0 <= share.over_rows.low <= 0.25 <= (share.over_rows.high or 0) <= 2 / 3
    by_seed, by_row = compare_shares(always, better, "false_interruption", rows)
    assert by_seed.difference == pytest.approx(0.75)
    assert by_seed.statistic == pytest.approx(0.75 / (0.25 / 3**0.5))
    assert by_seed.p == pytest.approx(0.03509, abs=1e-4)
    # Most seeds say of three of four rows that one speaks, and of the last that two do: 3 discordant rows, 2 * 1/8.
    assert (by_row.n, by_row.difference, by_row.p) == (4, 0.75, 0.25)
    same = compare_shares(always, always, "recognised", rows)
    assert [test.p for test in same] == [1.0, 1.0]
    pairs_only = [row for row in rows if row.part != "dyadic"]
    assert (
        estimate_share(SeedAnswers("va", "text", answer([1] * 8)), "dyadic_interruption", pairs_only, 0.95, 0) is None
    )


def test_a_difference_without_spread_has_no_p() -> None:
    rows = make_planted_rows(2)
    first = SeedAnswers("base", "text", answer([1, 1, 0] * 2, [1, 1, 0] * 2))
    second = SeedAnswers("full", "text", answer([1, 0, 0] * 2, [1, 0, 0] * 2))
    by_seed = compare_shares(first, second, "false_interruption", rows)[0]
    assert (by_seed.difference, by_seed.p, by_seed.statistic) == (1.0, None, None)


def test_twins_that_are_equal_but_for_rounding_are_ties() -> None:
    rows = make_planted_rows(3)
    assert measure_twin_auc(np.array([0.5, 0.5 + 1e-12, 0] * 3), rows) == 0.5
    assert measure_twin_auc(np.array([0.6, 0.5, 0] * 3), rows) == 1.0
    assert measure_twin_auc(np.zeros(3), [dataclasses.replace(row, twin_id=None) for row in rows[:3]]) is None


def test_controls_see_what_is_planted_in_duration_and_level() -> None:
    rows = make_planted_rows(30)
    longer = [dataclasses.replace(row, duration_s=row.duration_s + 3 * row.two_speakers) for row in rows]
    stepped = [
        dataclasses.replace(row, levels_db=np.concatenate([[-20.0] * 5, [-26.0 if row.two_speakers else -20.0] * 5]))
        for row in rows
    ]
    by_duration = {score.name: score for score in score_confounds(longer, longer, "full")}
    assert by_duration["duration"].twin_auc == 1
    assert by_duration["level"].twin_auc is not None
    assert by_duration["level"].twin_auc < 0.8
    by_level = {score.name: score for score in score_confounds(stepped, stepped, "full")}
    assert (by_level["level"].false_interruption, by_level["level"].recognised) == (0, 1)
    assert score_confounds([row for row in rows if row.two_speakers], rows, "base") == []


def test_a_probe_tells_apart_what_is_apart_and_nothing_else() -> None:
    rows = make_planted_rows(20)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((len(rows), 4))
    apart = noise + 4 * np.array([[row.two_speakers] for row in rows])
    found = {(item.first, item.second): item for item in separate_embeddings(apart, rows, "full", 0.95, 0)}
    assert len(found) == 3
    assert found["hard_negative", "two_speakers"].auc is not None
    assert found["hard_negative", "two_speakers"].auc > 0.95
    assert found["one_speaker", "hard_negative"].auc is not None
    assert found["one_speaker", "hard_negative"].auc < 0.75


def test_a_long_curve_is_thinned_to_means() -> None:
    curve = [CurvePoint(step=step, loss=float(step), held_out_loss=9.0 if step == 3 else None) for step in range(1, 7)]
    assert thin_curve(curve, 10) == curve
    thinned = thin_curve(curve, 2)
    assert [(point.step, point.loss, point.held_out_loss) for point in thinned] == [(3, 2.0, 9.0), (6, 5.0, None)]
