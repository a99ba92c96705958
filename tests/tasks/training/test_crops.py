"""Crops of an utterance: where they end, what they are labelled, and what rows say of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import kstest

from bystander.schemas.engines import RowFault
from bystander.schemas.identity import make_rng
from bystander.schemas.sid import MIDDLE, NOISE, SILENCE, UNINTERRUPTED
from bystander.schemas.train_sid_config import CropSettings
from bystander.tasks.training.crops import draw_ends, end_density, label_ends, shift_break
from bystander.tasks.training.sid_crops import CropExample, MakeCrops, count_crops, find_label_break
from sid_rows import RATE, make_sid_row, make_sid_rows

DURATIONS = st.floats(0.05, 40)
SHARES = st.floats(0, 1)
SETTINGS = st.builds(
    CropSettings,
    an_utterance=st.integers(2, 20),
    near_share=SHARES,
    near_width_s=st.floats(0.01, 5),
    min_s=st.floats(0.05, 1),
)


@given(DURATIONS, SHARES, SETTINGS, st.integers(0, 1000))
def test_crops_end_within_the_clip_on_both_sides_of_a_break_that_leaves_room(
    duration_s: float, place: float, settings: CropSettings, seed: int
) -> None:
    low = min(settings.min_s, duration_s)
    break_s = low + place * (duration_s - low)
    assume(low <= break_s <= duration_s)
    ends = draw_ends(np.random.default_rng(seed), duration_s, break_s, settings)
    assert ends.shape == (settings.an_utterance,)
    assert (np.diff(ends) >= 0).all() and low <= ends[0] and ends[-1] <= duration_s
    labels = label_ends(ends, break_s)
    if low < break_s < duration_s:
        assert labels.any() and not labels.all()


@given(DURATIONS, st.one_of(st.none(), SHARES), SETTINGS)
def test_the_density_integrates_to_one(duration_s: float, place: float | None, settings: CropSettings) -> None:
    low = min(settings.min_s, duration_s)
    assume(duration_s - low > 0.01)
    break_s = None if place is None else place * duration_s
    edges = np.linspace(low, duration_s, 40_001)
    middles = (edges[1:] + edges[:-1]) / 2
    total = end_density(middles, duration_s, break_s, settings).sum() * (edges[1] - edges[0])
    assert total == pytest.approx(1, abs=2e-3)
    outside = np.array([low - 0.01, duration_s + 0.01])
    assert end_density(outside, duration_s, break_s, settings).tolist() == [0, 0]


def test_the_density_has_the_shares_and_the_width_that_are_asked_for() -> None:
    settings = CropSettings(near_share=0.5, near_width_s=0.4, min_s=0.2)
    times = np.array([1.0, 5.0, 5.4, 9.0])
    even = 0.5 / 9.8
    peak = 0.5 / (0.4 * np.sqrt(2 * np.pi))
    expected = [even, even + peak, even + peak * np.exp(-0.5), even]
    np.testing.assert_allclose(end_density(times, 10, 5.0, settings), expected, rtol=1e-6)
    # A break at the very end has half of the bell on its one side: it is twice as high there.
    assert end_density(np.array([10.0]), 10, 10.0, settings)[0] == pytest.approx(even + 2 * peak)
    assert end_density(times, 10, None, settings).tolist() == pytest.approx([1 / 9.8] * 4)


@pytest.mark.parametrize(("break_s", "near_share"), [(5.0, 0.5), (0.4, 0.8), (9.9, 0.3), (None, 0.5)])
def test_drawn_ends_follow_the_density(break_s: float | None, near_share: float) -> None:
    settings = CropSettings(an_utterance=1000, near_share=near_share)  # so many that none is moved to the other side
    ends = np.concatenate([draw_ends(make_rng(0, str(n), "test"), 10.0, break_s, settings) for n in range(20)])
    grid = np.linspace(settings.min_s, 10, 200_001)
    density = end_density(grid, 10.0, break_s, settings)
    cumulated = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    assert kstest(ends, lambda times: np.interp(times, grid, cumulated)).pvalue > 0.01


def test_a_crop_is_positive_if_it_ends_after_the_break() -> None:
    ends = np.array([0.5, 1.0, 1.0001, 3.0])
    assert label_ends(ends, 1.0).tolist() == [False, False, True, True]
    assert not label_ends(ends, None).any()


@pytest.mark.parametrize(("index", "words", "expected"), [(0, 1, 0.5), (1, 0, 0.5), (1, 1, 1.0), (2, 1, 1.3), (1, 9, 1.3)])
def test_the_break_is_shifted_by_words(index: int, words: int, expected: float) -> None:
    assert shift_break([0.1, 0.5, 1.0], [0.4, 0.9, 1.3], index, words) == expected
    assert shift_break([0.1, 0.5, 1.0], [0.4, 0.9, 1.3], None, words) is None


def test_a_row_is_labelled_one_word_after_its_break() -> None:
    row = make_sid_row(0, MIDDLE)  # Right yeah but how much is it
    assert row["break_word_index"] == 2
    assert find_label_break(row, 1).break_s == row["words"][3]["start_s"] > row["break_time_s"]
    assert find_label_break(row, 0).break_s == row["break_time_s"]
    assert find_label_break(row, 20).break_s == row["words"][-1]["end_s"]
    for category in (UNINTERRUPTED, SILENCE, NOISE):
        assert find_label_break(make_sid_row(0, category), 1).break_s is None


def test_without_times_of_the_word_that_decides_the_rows_own_break_stands() -> None:
    row = make_sid_row(0, MIDDLE)
    words = [{**word, "start_s": None, "end_s": None} if at == 3 else word for at, word in enumerate(row["words"])]
    for changes in ({"words": words}, {"words": []}, {"break_word_index": None}):
        found = find_label_break({**row, **changes}, 1)
        assert (found.break_s, found.timed) == (row["break_time_s"], False)
    late = [{**word, "start_s": word["start_s"] + 90} for word in row["words"]]
    assert find_label_break({**row, "words": late}, 1).break_s == row["duration_s"]


def test_examples_are_beginnings_of_the_clip_and_hang_on_the_generator_alone() -> None:
    row = make_sid_row(0, MIDDLE)
    given_row = {**row, "audio": row["audio"]["bytes"]}
    make = MakeCrops(CropSettings())
    first, again = (make(given_row, make_rng(1, row["id"], "example", 0)) for _ in range(2))
    other = make(given_row, make_rng(1, row["id"], "example", 1))
    assert isinstance(first, CropExample) and isinstance(again, CropExample) and isinstance(other, CropExample)
    assert first.ends_s.tolist() == again.ends_s.tolist() != other.ends_s.tolist()
    for crop, end_s, label in zip(first.cut(), first.ends_s, first.labels, strict=True):
        np.testing.assert_array_equal(crop, first.samples[: len(crop)])
        assert len(crop) == round(end_s * RATE)
        assert label == (end_s > row["words"][3]["start_s"])
    fault = make({**row, "audio": b"no sound"}, make_rng(1, row["id"], "example", 0))
    assert isinstance(fault, RowFault) and fault.reason == "unreadable_audio"


def test_counts_are_those_of_the_examples_that_a_training_sees() -> None:
    settings = CropSettings(an_utterance=6)
    rows = make_sid_rows(2)
    counts = count_crops(rows, settings, seed=3, epochs=2)
    make = MakeCrops(settings)
    seen = [
        make({**row, "audio": row["audio"]["bytes"]}, make_rng(3, row["id"], "example", epoch))
        for row in rows
        for epoch in range(2)
    ]
    labels = {one.id: 0 for one in seen if isinstance(one, CropExample)}
    for one in seen:
        assert isinstance(one, CropExample)
        labels[one.id] += int(one.labels.sum())
    assert (counts.utterances, counts.crops) == (16, 16 * 2 * 6)
    assert counts.positives == sum(labels.values()) and counts.negatives == counts.crops - counts.positives
    assert counts.with_break == counts.both_sides == 8
    assert counts.positives_by_category[NOISE] == counts.positives_by_category[UNINTERRUPTED] == 0
    assert 0.2 < counts.near_share < 0.5  # half of the rows have a break
    assert counts.untimed == 0
