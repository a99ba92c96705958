"""The threshold with the least APT."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.tasks.metrics.sid_scores import score_cases
from bystander.tasks.training.pick_threshold import MeasuredClip, find_stop, pick_threshold


def make_clip(probabilities: list[float], break_s: float | None) -> MeasuredClip:
    heard = np.arange(1, len(probabilities) + 1) * 0.5
    return MeasuredClip(heard, np.array(probabilities), float(heard[-1]), break_s)


INTERRUPTION = make_clip([0.1, 0.2, 0.6, 0.7, 0.8, 0.9], break_s=1.0)
BACKCHANNEL = make_clip([0.1, 0.5, 0.5, 0.1], None)


def test_a_detector_stops_at_the_last_of_k_chunks_in_a_row() -> None:
    assert find_stop(INTERRUPTION, 1, 0.6) == 1.5
    assert find_stop(INTERRUPTION, 3, 0.6) == 2.5
    assert find_stop(INTERRUPTION, 3, 0.71) is None
    assert find_stop(INTERRUPTION, 7, 0.01) is None
    assert find_stop(BACKCHANNEL, 2, 0.5) == 1.5


def test_the_threshold_lies_where_backchannels_pass_and_interruptions_stop_it_soonest() -> None:
    picked = pick_threshold([INTERRUPTION, BACKCHANNEL], k=2)
    # Above 0.5 the backchannel costs nothing; up to 0.6 the interruption is stopped for after 1 s.
    assert 0.5 < picked.threshold <= 0.6
    assert picked.apt_s == pytest.approx(0.5)
    assert (picked.false_interruptions, picked.clips) == (0, 2)


@given(
    st.lists(
        st.tuples(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.one_of(st.none(), st.floats(0, 0.5))),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 4),
    st.floats(0.001, 0.999),
)
def test_no_other_threshold_is_better(
    clips: list[tuple[list[float], float | None]], k: int, other: float
) -> None:
    measured = [make_clip(probabilities, break_s) for probabilities, break_s in clips]
    picked = pick_threshold(measured, k)
    assert 0 < picked.threshold < 1

    def score(threshold: float) -> float:
        stops = [find_stop(clip, k, threshold) for clip in measured]
        breaks = [clip.break_s for clip in measured]
        return float(score_cases([clip.duration_s for clip in measured], breaks, stops).penalty_s.mean())

    assert picked.apt_s == pytest.approx(score(picked.threshold))
    assert picked.apt_s <= score(other) + 1e-9
