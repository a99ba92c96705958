"""The area under the ROC curve, with values worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from bystander.schemas.errors import InputError
from bystander.tasks.metrics.separability import Separability, measure_separability


def test_counts_pairs_and_half_of_the_ties():
    # Of four pairs, three are in order and one is tied.
    result = measure_separability([0.9, 0.6, 0.6, 0.1], [True, True, False, False], seed=1)
    assert result.auc == pytest.approx(3.5 / 4)
    assert (result.n_positive, result.n_negative, result.n_clusters, result.reason) == (2, 2, 4, None)
    # The lowest resample: both positives are 0.6, both negatives 0.6.
    assert (result.low, result.high) == (0.5, 1)


def test_separated_and_reversed_classes():
    flags = [True] * 5 + [False] * 5
    assert measure_separability(range(10, 0, -1), flags, seed=1) == Separability(1, 1, 1, 5, 5, 10)
    assert measure_separability(range(10), flags, seed=1) == Separability(0, 0, 0, 5, 5, 10)


def test_a_score_of_the_transcript_alone_is_at_chance_on_twins():
    scores = [0.1, 0.4, 0.8, 0.8] * 2
    result = measure_separability(scores, [True] * 4 + [False] * 4, seed=1, clusters=[*"abcd"] * 2)
    assert (result.auc, result.n_clusters) == (0.5, 4)
    # A resample of whole pairs has the same scores in both classes; rows drawn alone do not.
    assert result.low == result.high == 0.5
    alone = measure_separability(scores, [True] * 4 + [False] * 4, seed=1)
    assert alone.low < 0.5 < alone.high


def test_one_pair_and_equal_scores_give_a_point():
    assert measure_separability([2, 1], [True, False], seed=1, clusters=["a", "a"]) == Separability(1, 1, 1, 1, 1, 1)
    assert measure_separability([2, 1], [True, False], seed=1) == Separability(1, 1, 1, 1, 1, 2)
    assert measure_separability([3] * 6, [True, False] * 3, seed=1) == Separability(0.5, 0.5, 0.5, 3, 3, 6)


def test_a_missing_class_is_named():
    assert measure_separability([], [], seed=1) == Separability(
        None, None, None, 0, 0, 0, "no row is of the positive class"
    )
    assert measure_separability([1, 2], [True, True], seed=1).reason == "no row is of the negative class"


def test_lone_rows_beside_pairs_never_empty_a_class():
    result = measure_separability([5, 1, 2, 3], [True, False, False, False], seed=1, clusters=["a", "b", "c", "d"])
    assert (result.auc, result.low, result.high) == (1, 1, 1)


def test_refuses_what_is_no_number():
    with pytest.raises(InputError, match="scores: number 1 is inf"):
        measure_separability([1, math.inf], [True, False], seed=1)


ROWS = st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 5)), min_size=2, max_size=16)


@given(ROWS, st.randoms())
def test_agrees_with_scikit_learn_in_any_order(rows, shuffler):
    def measure(rows):
        scores, flags, clusters = zip(*rows, strict=True)
        return measure_separability(scores, flags, seed=2, clusters=clusters, n_resamples=20)

    result = measure(rows)
    scores, flags, _ = zip(*rows, strict=True)
    if len(set(flags)) == 1:
        assert result.auc is None
        return
    assert result.auc == pytest.approx(roc_auc_score(flags, scores))
    assert 0 <= result.low <= result.high <= 1
    shuffled = [*rows]
    shuffler.shuffle(shuffled)
    assert measure(shuffled) == result
