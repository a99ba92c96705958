"""Bootstrap intervals, where the distribution of the resampled mean can be written down."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.errors import InputError
from bystander.tasks.metrics.bootstrap import MeanEstimate, estimate_mean


def test_two_values_span_the_interval():
    # The mean of a resample is 0, 1/2, 1 with probabilities 1/4, 1/2, 1/4.
    assert estimate_mean([0, 1], seed=1) == MeanEstimate(0.5, 0.0, 1.0, 2, 2)


def test_whole_clusters_are_drawn():
    values = [0, 0, 1, 1]
    # Each alone: 0 with probability 1/16, 1/4 with 1/4, so the 10 % quantile is 1/4. In twos: 0 with 1/4.
    alone = estimate_mean(values, seed=1, level=0.8)
    paired = estimate_mean(values, seed=1, level=0.8, clusters=["a", "a", "b", "b"])
    assert (alone.low, alone.mean, alone.high, alone.n_clusters) == (0.25, 0.5, 0.75, 4)
    assert (paired.low, paired.mean, paired.high, paired.n_clusters) == (0, 0.5, 1, 2)


def test_clusters_of_unequal_size_weigh_by_their_values():
    estimate = estimate_mean([1, 1, 1, 0], seed=1, level=0.4, clusters=["a", "a", "a", "b"])
    # A resample holds both clusters with probability 1/2: mean 3/4, not the 1/2 of a mean of cluster means.
    assert (estimate.low, estimate.mean, estimate.high) == (0.75, 0.75, 0.75)
    wide = estimate_mean([1, 1, 1, 0], seed=1, level=0.9, clusters=["a", "a", "a", "b"])
    assert (wide.low, wide.high) == (0, 1)


def test_many_values_come_near_the_normal_interval():
    estimate = estimate_mean([0, 1] * 200, seed=5, n_resamples=5000)
    half = 1.959964 * math.sqrt(0.25 / 400)
    assert estimate.low == pytest.approx(0.5 - half, abs=0.004)
    assert estimate.high == pytest.approx(0.5 + half, abs=0.004)


def test_degenerate_samples_give_a_point_or_none():
    assert estimate_mean([], seed=1) == MeanEstimate(None, None, None, 0, 0)
    assert estimate_mean([3], seed=1) == MeanEstimate(3, 3, 3, 1, 1)
    assert estimate_mean([5] * 50, seed=1) == MeanEstimate(5, 5, 5, 50, 50)
    assert estimate_mean([0, 1, 5], seed=1, clusters=[7, 7, 7]) == MeanEstimate(2, 2, 2, 3, 1)
    assert estimate_mean([0, 1, 1, 0], seed=1, clusters=["a", "a", "b", "b"]) == MeanEstimate(0.5, 0.5, 0.5, 4, 2)
    tenths = estimate_mean([0.1] * 7, seed=1, clusters=["a", "a", "a", "b", "b", "c", "d"])
    assert tenths.low == tenths.mean == tenths.high == pytest.approx(0.1)


def test_seed_alone_decides():
    source = random.Random(2)
    values = [source.random() for _ in range(40)]
    assert estimate_mean(values, seed=9) == estimate_mean(values, seed=9)
    assert estimate_mean(values, seed=9) != estimate_mean(values, seed=10)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_refuses_what_is_no_number(value):
    with pytest.raises(InputError, match=r"values: number 1 is (nan|inf)"):
        estimate_mean([1.0, value], seed=1)


ROWS = st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 4)), min_size=1, max_size=12)


@given(ROWS, st.randoms())
def test_order_and_names_do_not_matter_and_bounds_hold(rows, shuffler):
    def estimate(rows):
        values, clusters = zip(*rows, strict=True)
        return estimate_mean(values, seed=4, clusters=clusters, n_resamples=50)

    first = estimate(rows)
    shuffled = [(value, f"pair {cluster}") for value, cluster in rows]
    shuffler.shuffle(shuffled)
    assert estimate(shuffled) == first
    values = [value for value, _ in rows]
    assert min(values) - 1e-9 <= first.low <= first.high <= max(values) + 1e-9
