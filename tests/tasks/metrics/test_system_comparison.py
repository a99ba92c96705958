"""McNemar's and Wilcoxon's tests, with values worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.errors import InputError
from bystander.tasks.metrics.system_comparison import compare_binary, compare_ordinal


def score(values):
    return {f"row{number}": value for number, value in enumerate(values)}


def discord(only_first, only_second, both=0, neither=0):
    first = [1] * only_first + [0] * only_second + [1] * both + [0] * neither
    second = [0] * only_first + [1] * only_second + [1] * both + [0] * neither
    return compare_binary(score(first), score(second))


def test_mcnemar_is_exact_below_25_discordant_rows():
    result = discord(8, 2, both=5, neither=5)
    assert result.test == "McNemar, exact binomial"
    assert (result.statistic, result.n, result.n_used) == (2, 20, 10)
    assert result.p == pytest.approx(2 * (1 + 10 + 45) / 1024)
    assert result.mean_difference == pytest.approx(6 / 20)
    assert result.rank_biserial == pytest.approx(6 / 10)


def test_mcnemar_is_chi_square_with_correction_from_25_on():
    assert discord(24, 0).test == "McNemar, exact binomial"
    result = discord(20, 10, both=70)
    assert result.test == "McNemar, chi-square with continuity correction"
    assert result.statistic == pytest.approx(9**2 / 30)
    assert result.p == pytest.approx(math.erfc(math.sqrt(2.7 / 2)))
    assert discord(13, 12).test == "McNemar, chi-square with continuity correction"
    assert discord(13, 12).p == pytest.approx(1)


def test_mcnemar_of_an_even_split_and_of_no_discordance():
    even = discord(15, 15)
    assert (even.statistic, even.p, even.mean_difference, even.rank_biserial) == (0, 1, 0, 0)
    same = discord(0, 0, both=3)
    assert (same.statistic, same.p, same.n_used, same.mean_difference, same.rank_biserial) == (0, 1, 0, 0, 0)
    one = discord(1, 0)
    assert (one.p, one.n, one.mean_difference, one.rank_biserial) == (1, 1, 1, 1)


def test_wilcoxon_leaves_out_rows_without_a_difference():
    # Differences 1, 2, -1, 0: ranks 1.5, 3, 1.5, so T+ is 4.5 and T- 1.5; 3 of the 8 signs reach 4.5.
    result = compare_ordinal(score([4, 5, 2, 3]), score([3, 3, 3, 3]))
    assert result.test == "Wilcoxon signed-rank, exact"
    assert (result.statistic, result.n, result.n_used) == (1.5, 4, 3)
    assert result.p == pytest.approx(2 * 3 / 8)
    assert result.mean_difference == pytest.approx(2 / 4)
    assert result.rank_biserial == pytest.approx((4.5 - 1.5) / 6)


def test_wilcoxon_of_few_rows_is_exact():
    assert compare_ordinal(score([5, 5, 5]), score([4, 4, 4])).p == pytest.approx(2 / 8)
    thirteen = compare_ordinal(score([5] * 13), score([4] * 13))
    assert thirteen.p == pytest.approx(2 / 2**13)
    assert (thirteen.statistic, thirteen.rank_biserial) == (0, 1)


def test_wilcoxon_of_many_rows_is_normal_and_corrected_for_ties():
    # 14 equal differences: T+ = 105, mean 52.5, variance 14*15*29/24 - (14**3 - 14)/48 = 196.875, z = sqrt(14).
    result = compare_ordinal(score([2] * 14 + [3] * 6), score([3] * 14 + [3] * 6))
    assert result.test == "Wilcoxon signed-rank, normal approximation corrected for ties"
    assert result.p == pytest.approx(math.erfc(math.sqrt(14 / 2)))
    assert (result.statistic, result.n, result.n_used, result.rank_biserial) == (0, 20, 14, -1)
    assert result.mean_difference == pytest.approx(-14 / 20)


def test_wilcoxon_without_a_difference():
    result = compare_ordinal(score([3, 3]), score([3, 3]))
    assert (result.statistic, result.p, result.n, result.n_used) == (0, 1, 2, 0)
    assert (result.mean_difference, result.rank_biserial) == (0, 0)
    assert compare_ordinal(score([5]), score([1])).p == 1


@pytest.mark.parametrize("compare", [compare_binary, compare_ordinal])
def test_refuses_systems_that_cannot_be_paired(compare):
    with pytest.raises(InputError, match="only one of the two systems has a score for row1, row2; score both"):
        compare({"row0": 1, "row1": 1}, {"row0": 1, "row2": 0})
    with pytest.raises(InputError, match="without a row"):
        compare({}, {})
    with pytest.raises(InputError, match="scores of the second system: number 0 is nan"):
        compare({"row0": 1}, {"row0": math.nan})
    with pytest.raises(InputError, match=r"row19, and 5 more;"):
        compare({f"row{number:02}": 1 for number in range(25)}, {})


def test_mcnemar_refuses_other_scores():
    with pytest.raises(InputError, match="row row0: score 2 is neither 0 nor 1"):
        compare_binary({"row0": 1}, {"row0": 2})


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=30))
def test_swapping_the_systems_turns_the_effect_only(pairs):
    first, second = (score(side) for side in zip(*pairs, strict=True))
    result, back = compare_ordinal(first, second), compare_ordinal(second, first)
    assert (back.p, back.statistic, back.n_used) == pytest.approx((result.p, result.statistic, result.n_used))
    assert back.rank_biserial == pytest.approx(-result.rank_biserial)
    assert 0 <= result.p <= 1
    assert -1 <= result.rank_biserial <= 1
