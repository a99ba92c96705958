"""Means of verdicts under the policies for what is missing, and breakdowns."""

import math

import pytest

from bystander.schemas.errors import InputError
from bystander.tasks.metrics.response_scores import RowScore, name_overlap_bin, resolve_scores, summarise_scores
from bystander.tasks.metrics.score_definitions import (
    BLEU,
    OH_JANUS_TEST,
    OH_TPI_TEST,
    RSF_JANUS_TEST,
    RSF_TPI_TEST,
    TABLE_SCORES,
)

ROWS = [
    {"id": "r1", "scenario": "veto", "label": "ignorable", "overlap_s": 0.45, "query_id": "q1"},
    {"id": "r2", "scenario": "veto", "label": "actionable", "overlap_s": 0.4, "query_id": "q1"},
    {"id": "r3", "scenario": "alert", "label": "ignorable", "overlap_s": 0.0, "query_id": "q2"},
    {"id": "r4", "scenario": "alert", "label": "actionable", "overlap_s": None, "query_id": "q2"},
]


def test_means_and_breakdowns_by_hand():
    verdicts = {"r1": 1, "r2": 0, "r3": 1, "r4": 1}
    report = summarise_scores(ROWS, verdicts, RSF_TPI_TEST, seed=1, by=["scenario", "label", "overlap"])
    assert (report.overall.mean, report.overall.n, report.overall.n_rows) == (3 / 4, 4, 4)
    assert report.overall.low < 3 / 4 < report.overall.high
    assert {key: {value: (s.mean, s.n) for value, s in group.items()} for key, group in report.groups.items()} == {
        "scenario": {"alert": (1, 2), "veto": (1 / 2, 2)},
        "label": {"actionable": (1 / 2, 2), "ignorable": (1, 2)},
        "overlap": {"one speaker": (1, 1), "no overlap": (1, 1), "0 to 0.4 s": (0, 1), "0.4 to 0.5 s": (1, 1)},
    }
    assert list(report.groups["overlap"]) == ["one speaker", "no overlap", "0 to 0.4 s", "0.4 to 0.5 s"]


@pytest.mark.parametrize(
    ("definition", "worst"), [(RSF_TPI_TEST, 0), (OH_TPI_TEST, 1), (RSF_JANUS_TEST, 1), (OH_JANUS_TEST, 1)]
)
def test_a_missing_prediction_counts_against_the_model(definition, worst):
    verdicts = {"r1": definition.best, "r2": definition.best, "r4": definition.best}
    with pytest.raises(InputError, match=rf"{definition.key}: 1 rows have no prediction: r3; add them"):
        summarise_scores(ROWS, verdicts, definition, seed=1)
    report = summarise_scores(ROWS, verdicts, definition, seed=1, missing="worst")
    assert report.overall.mean == (3 * definition.best + worst) / 4
    assert (report.overall.n, report.overall.n_scored, report.overall.n_missing) == (4, 3, 1)


def test_an_unreadable_verdict_is_an_error_the_worst_or_left_out():
    verdicts = {"r1": 5, "r2": None, "r3": 4, "r4": 3}
    with pytest.raises(InputError, match="1 verdicts could not be read: r2; judge again"):
        summarise_scores(ROWS, verdicts, OH_TPI_TEST, seed=1)
    worst = summarise_scores(ROWS, verdicts, OH_TPI_TEST, seed=1, unparsable="worst").overall
    assert (worst.mean, worst.n, worst.n_scored, worst.n_unparsable) == (13 / 4, 4, 3, 1)
    left_out = summarise_scores(ROWS, verdicts, OH_TPI_TEST, seed=1, unparsable="omit").overall
    assert (left_out.mean, left_out.n, left_out.n_rows, left_out.n_unparsable) == (4, 3, 4, 1)


def test_statuses_are_told_apart_row_by_row():
    scores = resolve_scores(ROWS[:3], {"r1": 0, "r2": None}, RSF_JANUS_TEST, missing="worst", unparsable="omit")
    assert scores == [RowScore("r1", 0, "scored"), RowScore("r2", None, "unparsable"), RowScore("r3", 1, "missing")]


def test_a_perfect_model_gets_the_best_score_without_spread():
    for definition in (RSF_TPI_TEST, OH_TPI_TEST, RSF_JANUS_TEST, OH_JANUS_TEST):
        overall = summarise_scores(ROWS, {row["id"]: definition.best for row in ROWS}, definition, seed=1).overall
        assert overall.low == overall.mean == overall.high == definition.best
    assert (RSF_TPI_TEST.best, OH_TPI_TEST.best, RSF_JANUS_TEST.best, OH_JANUS_TEST.best) == (1, 5, 0, 5)


def test_no_rows_one_row_and_nothing_readable():
    empty = summarise_scores([], {}, RSF_TPI_TEST, seed=1, by=["scenario"])
    assert (empty.overall.mean, empty.overall.low, empty.overall.n, empty.groups) == (None, None, 0, {"scenario": {}})
    one = summarise_scores(ROWS[:1], {"r1": 4}, OH_TPI_TEST, seed=1).overall
    assert (one.low, one.mean, one.high, one.n) == (4, 4, 4, 1)
    unread = summarise_scores(ROWS[:1], {"r1": None}, OH_TPI_TEST, seed=1, unparsable="omit").overall
    assert (unread.mean, unread.high, unread.n, unread.n_unparsable) == (None, None, 0, 1)


def test_rows_of_a_query_are_drawn_together():
    verdicts = {"r1": 0, "r2": 0, "r3": 1, "r4": 1}
    alone = summarise_scores(ROWS, verdicts, RSF_TPI_TEST, seed=1, level=0.8).overall
    together = summarise_scores(ROWS, verdicts, RSF_TPI_TEST, seed=1, level=0.8, cluster_by="query_id").overall
    assert (alone.low, alone.high) == (0.25, 0.75)
    assert (together.low, together.high) == (0, 1)


def test_a_groups_interval_does_not_depend_on_the_other_breakdowns():
    rows = [{"id": f"r{number}", "label": "ab"[number % 2], "timing": "xyz"[number % 3]} for number in range(60)]
    verdicts = {row["id"]: number * number % 5 + 1 for number, row in enumerate(rows)}
    both = summarise_scores(rows, verdicts, OH_TPI_TEST, seed=1, by=["timing", "label"])
    one = summarise_scores(rows[::-1], verdicts, OH_TPI_TEST, seed=1, by=["label"])
    assert both.groups["label"] == one.groups["label"]
    assert both.overall == one.overall
    assert summarise_scores(rows, verdicts, OH_TPI_TEST, seed=2).overall != both.overall


def test_refuses_verdicts_that_do_not_fit():
    with pytest.raises(InputError, match="rows that the bench does not have: r8, r9"):
        resolve_scores(ROWS, {"r9": 1, "r8": 1}, RSF_TPI_TEST, missing="worst")
    for score in (2, 0.5, -1, math.nan):
        with pytest.raises(InputError, match=rf"tpi_test.rsf, row r1: {score} is not on the scale of 0 to 1"):
            resolve_scores(ROWS, {"r1": score}, RSF_TPI_TEST, missing="worst")
    with pytest.raises(InputError, match="bench rows stand there twice: r1"):
        resolve_scores([*ROWS, ROWS[0]], {}, RSF_TPI_TEST, missing="worst")
    with pytest.raises(InputError, match="row r1 has no column timing; take another breakdown"):
        summarise_scores(ROWS, {}, RSF_TPI_TEST, seed=1, by=["timing"], missing="worst")
    with pytest.raises(InputError, match="row r1 has no column overlap_s"):
        summarise_scores([{"id": "r1"}], {}, RSF_TPI_TEST, seed=1, by=["overlap"], missing="worst")


def test_long_lists_of_ids_are_cut():
    rows = [{"id": f"r{number}"} for number in range(30)]
    with pytest.raises(InputError, match=r"30 rows have no prediction: r0, r1, .*r19, and 10 more; add"):
        resolve_scores(rows, {}, RSF_TPI_TEST)


@pytest.mark.parametrize(
    ("overlap_s", "expected"),
    [
        (None, "one speaker"), (math.nan, "one speaker"), (-0.2, "no overlap"), (0.0, "no overlap"),
        (0.01, "0 to 0.4 s"), (0.4, "0 to 0.4 s"), (0.41, "0.4 to 0.5 s"), (0.6, "0.5 to 0.6 s"), (0.61, "over 0.6 s"),
    ],
)  # fmt: skip
def test_overlap_bins_hold_their_upper_edge(overlap_s, expected):
    assert name_overlap_bin(overlap_s) == expected


def test_directions_are_those_of_the_published_table():
    heads = [f"{score.title} {score.arrow}" for score in TABLE_SCORES]
    assert heads == ["RSF ↑", "OH ↑", "RSF ↓", "OH ↑", "BLEU ↓", "ROUGE-L ↓"]
    assert (BLEU.best, BLEU.worst, RSF_JANUS_TEST.worst, OH_JANUS_TEST.worst) == (0, 1, 1, 1)
    assert BLEU.accepts(0.5)
    assert not OH_TPI_TEST.accepts(0.5)
    assert not OH_TPI_TEST.accepts(3.5)
    assert OH_TPI_TEST.accepts(3)
