"""Pearson's r and Cohen's kappa, with values worked out by hand, and where they are undefined."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.errors import InputError
from bystander.tasks.metrics.judge_agreement import Coefficient, correlate_scores, measure_agreement
from bystander.tasks.metrics.score_definitions import OH_TPI_TEST, RSF_TPI_TEST


def score(values):
    return {f"row{number}": value for number, value in enumerate(values)}


def test_pearson_with_its_p():
    # Deviations (-1, 0, 1) and (-4, -1, 5)/3: r = 9/sqrt(84); with one degree of freedom t follows Cauchy's law.
    result = correlate_scores([1, 2, 3], [1, 2, 4])
    assert result.value == pytest.approx(9 / math.sqrt(84))
    assert result.p == pytest.approx(1 - 2 / math.pi * math.asin(9 / math.sqrt(84)))
    assert correlate_scores([1, 5], [4, 2]) == Coefficient(-1, 1)


def test_kappa_of_a_binary_score():
    # Both 1 in 20 rows, both 0 in 15, only the first 1 in 5, only the second in 10: 0.7 observed, 0.5 by chance.
    first = score([1] * 25 + [0] * 25)
    second = score([1] * 20 + [0] * 5 + [1] * 10 + [0] * 15)
    result = measure_agreement(first, second, RSF_TPI_TEST)
    assert result.kappa.value == pytest.approx((0.7 - 0.5) / (1 - 0.5))
    assert result.same_share == pytest.approx(0.7)
    assert (result.n, result.n_first_only, result.n_second_only) == (50, 0, 0)


def test_kappa_of_an_ordinal_score_weighs_by_the_square():
    # One row off by 1; by chance the squares sum to (5*55 + 5*46 - 2*15*14) / 5 = 17.
    result = measure_agreement(score([1, 2, 3, 4, 5]), score([1, 2, 3, 4, 4]), OH_TPI_TEST)
    assert result.kappa.value == pytest.approx(1 - 1 / 17)
    # Unweighted, the two would be alike.
    far = measure_agreement(score([1, 2, 3, 4, 5]), score([1, 2, 3, 4, 1]), OH_TPI_TEST)
    assert far.same_share == result.same_share == 0.8
    assert far.kappa.value == pytest.approx(1 - 16 / ((5 * 55 + 5 * 31 - 2 * 15 * 11) / 5))


def test_scores_that_nobody_gave_keep_their_distance():
    # 2 against 5 is off by 3, although no row has a 3 or 4; by chance the squares sum to (3*30 + 3*51 - 2*8*11) / 3.
    result = measure_agreement(score([1, 2, 5]), score([1, 5, 5]), OH_TPI_TEST)
    assert result.kappa.value == pytest.approx(1 - 9 / (67 / 3))


def test_only_shared_rows_count():
    result = measure_agreement({"a": 1, "b": 0, "c": 1}, {"b": 0, "c": 1, "d": 0, "e": 0}, RSF_TPI_TEST)
    assert (result.n, result.n_first_only, result.n_second_only) == (2, 1, 2)
    assert (result.same_share, result.kappa.value, result.pearson.value) == (1, 1, 1)


def test_nothing_shared():
    result = measure_agreement({"a": 1}, {"b": 1}, RSF_TPI_TEST)
    assert (result.n, result.same_share) == (0, None)
    assert result.pearson == Coefficient(None, None, "0 shared rows; a correlation needs at least 2")
    assert result.kappa == Coefficient(None, None, "0 shared rows; kappa needs at least 1")


def test_one_row():
    result = measure_agreement({"a": 4}, {"a": 5}, OH_TPI_TEST)
    assert result.pearson == Coefficient(None, None, "1 shared rows; a correlation needs at least 2")
    assert result.kappa.value == 0


def test_constant_judges():
    same = measure_agreement(score([1, 1, 1]), score([1, 1, 1]), RSF_TPI_TEST)
    assert same.pearson == Coefficient(None, None, "the first gives every row the score 1")
    assert same.kappa.value is None
    assert same.kappa.reason == "both give every row the score 1, so agreement by chance is certain"
    one = measure_agreement(score([1, 0, 1]), score([1, 1, 1]), RSF_TPI_TEST)
    assert one.pearson == Coefficient(None, None, "the second gives every row the score 1")
    assert one.kappa.value == 0


def test_near_constant_ratings_are_constant():
    assert correlate_scores([0.1 + 0.2, 0.3, 0.3], [1, 2, 3]).value is None


def test_mean_ratings_have_a_correlation_and_no_kappa():
    result = measure_agreement(score([1, 2, 3]), score([1.5, 2.5, 3.5]), OH_TPI_TEST)
    assert result.pearson.value == pytest.approx(1)
    assert result.kappa == Coefficient(None, None, "kappa needs whole numbers from 1 to 5; 1.5 is none")


def test_refuses_what_is_no_number():
    with pytest.raises(InputError, match="scores of the second judge: number 0 is nan"):
        measure_agreement({"a": 4}, {"a": math.nan}, OH_TPI_TEST)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), max_size=20))
def test_is_symmetric_and_never_nan(pairs):
    first, second = score([one for one, _ in pairs]), score([other for _, other in pairs])
    result, back = (measure_agreement(*sides, OH_TPI_TEST) for sides in ((first, second), (second, first)))
    for here, there in ((result.pearson, back.pearson), (result.kappa, back.kappa)):
        assert (here.value is None) == (here.reason is not None)
        if here.value is not None:
            assert -1 - 1e-12 <= here.value <= 1 + 1e-12
            assert there.value == pytest.approx(here.value)
