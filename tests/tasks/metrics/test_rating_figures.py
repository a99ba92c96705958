"""Means, agreement and preferences of people's ratings against known answers and other libraries."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bystander.tasks.metrics.preference_tests import compare_tables, weigh_preference
from bystander.tasks.metrics.rating_agreement import measure_alpha
from bystander.tasks.metrics.rating_means import average_ratings
from bystander.tasks.studies.planning import count_raters, expect_half_width

EXAMPLE = (  # Krippendorff's own, "Computing Krippendorff's alpha-reliability" (2011): four coders, twelve units
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
)


@pytest.mark.parametrize(("scale", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_is_that_of_the_published_example(scale: str, alpha: float) -> None:
    given = [(float(v), unit) for row in EXAMPLE for unit, v in enumerate(row.split()) if v != "."]
    found = measure_alpha([v for v, _ in given], [unit for _, unit in given], scale)  # type: ignore[arg-type]
    assert found.alpha == pytest.approx(alpha, abs=5e-4)
    assert (found.items, found.ratings) == (11, 40)


def test_alpha_that_is_undefined_says_why() -> None:
    assert measure_alpha([1, 2], ["a", "b"], "ordinal").reason == "no item was rated by two raters"
    assert "all ratings are the same" in str(measure_alpha([2, 2, 2], ["a", "a", "b"], "ordinal").reason)
    assert measure_alpha([1, 1, 3, 3], ["a", "a", "b", "b"], "ordinal").alpha == 1


def test_intervals_are_those_of_scipy_and_statsmodels() -> None:
    random = np.random.default_rng(3)
    raters, items = np.divmod(np.arange(15 * 20), 20)
    chosen = random.permutation(len(raters))[:130]
    raters, items = raters[chosen], items[chosen]
    scores = np.clip(np.round(2 + random.normal(0, 0.7, 130) + 0.5 * (raters % 2) + 0.4 * (items % 3)), 1, 5)
    found = average_ratings(scores.tolist(), raters.tolist(), items.tolist())
    plain = stats.t.interval(0.95, 129, scores.mean(), stats.sem(scores))
    assert (found.low, found.high) == pytest.approx(plain)
    fit = sm.OLS(scores, np.ones(130)).fit(cov_type="cluster", cov_kwds={"groups": np.column_stack([raters, items])})
    half = stats.t.ppf(0.975, 14) * fit.bse[0]
    assert (found.clustered_low, found.clustered_high) == pytest.approx((scores.mean() - half, scores.mean() + half))


def test_raters_who_copy_themselves_make_the_clustered_interval_as_wide_as_the_raters_alone() -> None:
    scores, raters, items = [], [], []
    for rater, value in enumerate([1, 3, 2, 3, 1, 3, 2, 2]):
        for item in range(6):
            scores.append(float(value))
            raters.append(rater)
            items.append(item)
    found = average_ratings(scores, raters, items)
    of_raters = stats.sem([1, 3, 2, 3, 1, 3, 2, 2])
    half = stats.t.ppf(0.975, 5) * of_raters  # six items, the fewer clusters
    assert found.clustered_high is not None
    assert found.mean is not None
    assert found.clustered_high - found.mean == pytest.approx(half)
    assert found.high is not None
    assert found.high - found.mean < half / 2


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4), st.integers(0, 4)), max_size=30))
def test_no_figure_is_ever_nan_or_off_the_scale(ratings: list[tuple[int, int, int]]) -> None:
    found = average_ratings(
        [float(s) for s, _, _ in ratings], [r for _, r, _ in ratings], [i for _, _, i in ratings], scale=(1, 5)
    )
    for low, high in ((found.low, found.high), (found.clustered_low, found.clustered_high)):
        assert (low is None) == (high is None)
        if low is not None and high is not None and found.mean is not None:
            assert 1 <= low <= found.mean + 1e-9
            assert found.mean - 1e-9 <= high <= 5


def test_the_papers_naturalness_interval_fits_its_ratings_and_its_realism_interval_fits_fewer() -> None:
    """Table 1: 2.63 [2.61, 2.65] over 2,000 ratings; 2.87 [2.836, 2.904] over 1,000."""

    def widest(mean: float, n: int) -> float:
        return 1.96 * math.sqrt((3 - mean) * (mean - 1) / n)  # all ratings at the ends of the scale

    def narrowest(mean: float, n: int) -> float:
        return 1.96 * math.sqrt((3 - mean) * (mean - 2) / n)  # all ratings 2 or 3

    twos = round(2000 * 0.37)
    found = average_ratings([2.0] * twos + [3.0] * (2000 - twos), range(2000), range(2000))
    assert (round(found.low or 0, 2), round(found.high or 0, 2)) == (2.61, 2.65)
    assert narrowest(2.63, 2000) == pytest.approx((found.high or 0) - (found.mean or 0), rel=1e-3)
    # Half of 2.836 to 2.904 is 0.034: more than 1,000 independent ratings on three points can have with this mean.
    assert widest(2.865, 1000) < 0.0335
    assert widest(2.87, 808) > 0.0339


def test_the_papers_preferences_are_no_chance() -> None:
    found = weigh_preference([1] * 121 + [0] * 23 + [-1] * 56, [at % 40 for at in range(200)], seed=1)
    assert (found.first / 200, found.ties / 200, found.second / 200) == (0.605, 0.115, 0.28)
    assert found.p == pytest.approx(stats.binomtest(121, 177).pvalue)
    assert found.p < 1e-5
    # 66.05, 7.63 and 26.32 % are no shares of 400; they are of 380.
    assert [round(100 * n / 380, 2) for n in (251, 29, 100)] == [66.05, 7.63, 26.32]


def test_one_rater_who_answers_often_is_one_rater() -> None:
    signs = [1] * 20 + [1, -1] * 3
    raters = ["busy"] * 20 + ["a", "a", "b", "b", "c", "c"]
    found = weigh_preference(signs, raters, seed=0)
    assert found.p is not None
    assert found.p < 0.001
    assert found.p_by_rater == 1.0  # turned round, that rater alone says as much for the other


def test_p_by_rater_agrees_with_the_sign_test_where_each_rater_answers_once() -> None:
    few = weigh_preference([1] * 9 + [-1] * 2 + [0], list(range(12)), seed=0)
    assert few.p_by_rater == pytest.approx(few.p)
    many = weigh_preference([1] * 60 + [-1] * 40, list(range(100)), seed=0)
    assert many.p_by_rater == pytest.approx(many.p or 0, abs=0.012)
    nobody = weigh_preference([0, 0], [1, 2], seed=0)
    assert (nobody.share, nobody.p, nobody.p_by_rater, nobody.ties) == (None, None, None, 2)


def test_tables_are_compared_as_scipy_does() -> None:
    assert compare_tables((30, 0, 10), (20, 0, 20)) == pytest.approx(
        stats.chi2_contingency([[30, 10], [20, 20]], correction=False).pvalue
    )
    assert compare_tables((3, 0, 0), (5, 0, 0)) is None


def test_planning_says_what_an_interval_of_that_size_turns_out_to_be() -> None:
    scores = [1.0, 3.0] * 50
    found = average_ratings(scores, range(100), range(100))
    assert found.sd is not None
    assert expect_half_width(found.sd, 20, 5) == pytest.approx((found.high or 0) - 2)
    assert expect_half_width(0.5, 100, 10, 0.1) > expect_half_width(0.5, 100, 10)
    needed = count_raters(0.05, 0.5, 10, 0.1)
    assert expect_half_width(0.5, needed, 10, 0.1) <= 0.05 < expect_half_width(0.5, needed - 1, 10, 0.1)
