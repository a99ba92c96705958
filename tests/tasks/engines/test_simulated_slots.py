"""Slots of simulated engines: never more at work than there are, and none idle while something waits."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.engines import SpeechReply, SpeechRequest
from bystander.schemas.speech_engine_configs import FakeSpeechConfig
from bystander.tasks.engines.fake_speech import FakeSpeechEngine
from bystander.tasks.engines.simulated_slots import (
    SimulatedSlots,
    measure_busy_together,
    measure_utilisation,
)

# Eighths of seconds: sums of them are exact.
_eighths = st.integers(0, 80).map(lambda n: n / 8)
_arrivals = st.lists(st.tuples(_eighths, _eighths), min_size=1, max_size=40).map(lambda jobs: sorted(jobs))


@given(jobs=_arrivals, slots=st.integers(1, 5))
def test_no_more_at_work_than_there_are_slots_and_none_idle_while_one_waits(jobs, slots):
    clockwork = SimulatedSlots(slots)
    spans = [clockwork.book(now, duration) for now, duration in jobs]
    assert clockwork.spans == spans
    for (now, duration), (start, end) in zip(jobs, spans, strict=True):
        assert start >= now
        assert end == start + duration
        others = [span for span in spans if span[0] <= start < span[1]]
        assert len(others) <= slots
        if start > now:  # it waited: right before it began, every slot was at work
            assert sum(s < start <= e for s, e in spans) >= slots
    assert all(first[0] <= second[0] for first, second in pairwise(spans))


@given(jobs=_arrivals, slots=st.integers(1, 5))
def test_utilisation_is_a_share_and_whole_where_nothing_is_ever_idle(jobs, slots):
    clockwork = SimulatedSlots(slots)
    spans = [clockwork.book(now, duration) for now, duration in jobs]
    start, end = min(s for s, _ in spans), max(e for _, e in spans)
    if end > start:
        assert 0 <= measure_utilisation(spans, slots, start, end) <= 1
    full = SimulatedSlots(slots)
    crowd = [full.book(0.0, 2.0) for _ in range(3 * slots)]
    assert measure_utilisation(crowd, slots, 0.0, 6.0) == 1
    assert measure_utilisation(crowd, slots, 0.0, 12.0) == 0.5


def test_engines_that_take_turns_are_never_busy_together():
    text, speech = [(0.0, 4.0), (8.0, 12.0)], [(4.0, 8.0)]
    assert measure_busy_together([(text, 1), (speech, 1)], 0.0, 12.0) == 0
    assert measure_busy_together([(text, 1)], 0.0, 12.0) == pytest.approx(8 / 12)
    speech = [(2.0, 10.0), (3.0, 9.0)]
    assert measure_busy_together([(text, 1), (speech, 1)], 0.0, 12.0) == pytest.approx(4 / 12)
    assert measure_busy_together([(text, 1), (speech, 2)], 0.0, 12.0) == pytest.approx(2 / 12)
    with pytest.raises(ValueError, match="no time between"):
        measure_busy_together([(text, 1)], 3.0, 3.0)


def test_slow_fake_says_what_the_instant_one_says_in_the_time_configured():
    requests = [SpeechRequest(f"Clip {i}.", "fake_00", i) for i in range(6)]
    heard: list[int] = []
    slow = FakeSpeechEngine(FakeSpeechConfig(seconds_per_clip=0.01, workers=2))
    instant = FakeSpeechEngine(FakeSpeechConfig())
    replies = slow.synthesise(requests, lambda index, _: heard.append(index))
    for reply, other in zip(replies, instant.synthesise(requests), strict=True):
        assert isinstance(reply, SpeechReply)
        assert isinstance(other, SpeechReply)
        assert reply.samples.tobytes() == other.samples.tobytes()
    assert slow.identity == instant.identity
    assert heard == [0, 1, 2, 3, 4, 5]
    starts = [round(start - slow.slots.spans[0][0], 6) for start, _ in slow.slots.spans]
    assert starts == [0, 0, 0.01, 0.01, 0.02, 0.02]
    assert instant.slots.spans == []


def test_closing_ends_the_wait():
    engine = FakeSpeechEngine(FakeSpeechConfig(seconds_per_clip=3600))
    replies: list[object] = []
    thread = threading.Thread(
        target=lambda: replies.extend(engine.synthesise([SpeechRequest("A clip.", "fake_00", 1)]))
    )
    thread.start()
    engine.close()
    thread.join(30)
    assert len(replies) == 1
