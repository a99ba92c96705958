import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.tasks.metrics.annotation_error import measure_annotation


def make_row(found, true, found_s=1.0, true_s=1.0, language="en", category="middle", synthetic=True):
    return {
        "language": language,
        "synthetic": synthetic,
        "total_nonbreak": found is None,
        "break_word_index": found,
        "break_time_s": found_s,
        "true_category": category if synthetic else None,
        "true_break_word_index": true,
        "true_break_time_s": None if true is None else true_s,
    }


def test_every_way_to_be_wrong_is_counted_apart():
    rows = [
        make_row(1, 1, 1.010),
        make_row(1, 1, 0.970),
        make_row(1, 1, 1.300),
        make_row(2, 1),
        make_row(None, 1),
        make_row(0, None, category="uninterrupted"),
        make_row(None, None, category="uninterrupted"),
        make_row(3, None, synthetic=False),
    ]
    overall = measure_annotation(rows)[0]
    assert (overall.language, overall.category, overall.rows) == (None, None, 7)
    assert (overall.tag_right, overall.break_missed, overall.break_invented, overall.wrong_word) == (4, 1, 1, 1)
    assert overall.timed == 3
    assert overall.median_ms == pytest.approx(30)
    assert overall.bias_ms == pytest.approx(280 / 3, abs=0.01)
    assert [overall.within_20_ms, overall.within_50_ms, overall.within_100_ms] == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    assert overall.tag_accuracy == pytest.approx(4 / 7)


def test_a_difference_of_just_the_limit_is_within_it():
    error = measure_annotation([make_row(1, 1, 0.3 + 0.05, 0.3)])[0]
    assert error.within_50_ms == 1
    assert error.within_20_ms == 0


def test_groups_are_languages_and_true_categories():
    rows = [
        make_row(0, 0, category="beginning"),
        make_row(None, None, category="uninterrupted", language="zh"),
        make_row(1, 1, category="middle"),
    ]
    groups = [(error.language, error.category, error.rows) for error in measure_annotation(rows)]
    assert groups == [
        (None, None, 3),
        ("en", None, 2),
        ("en", "beginning", 1),
        ("en", "middle", 1),
        ("zh", None, 1),
        ("zh", "uninterrupted", 1),
    ]


def test_without_a_break_there_are_no_times():
    error = measure_annotation([make_row(None, None, category="uninterrupted")])[0]
    assert (error.timed, error.median_ms, error.within_50_ms, error.bias_ms) == (0, None, None, None)


def test_recordings_of_people_have_no_annotation_error():
    assert measure_annotation([make_row(1, None, synthetic=False)]) == ()


index = st.none() | st.integers(0, 3)


@given(st.lists(st.tuples(index, index, st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=30))
def test_counts_add_up_and_shares_grow_with_the_limit(cases):
    error = measure_annotation([make_row(*case) for case in cases])[0]
    assert error.tag_right + error.break_missed + error.break_invented + error.wrong_word == error.rows == len(cases)
    if error.timed:
        assert error.within_20_ms <= error.within_50_ms <= error.within_100_ms
        assert error.median_ms <= error.p90_ms
        assert abs(error.bias_ms) <= 5000
