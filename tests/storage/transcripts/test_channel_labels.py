"""On which channel the segments of a transcript are."""

from __future__ import annotations

import pytest

from bystander.storage.transcripts.channels import assign_channels, place_labels
from bystander.storage.transcripts.segments import Segment, TranscriptError


def make(*labels: tuple[str | None, str | None]) -> list[Segment]:
    return [Segment("hi", line, 0.0, 1.0, speaker, channel) for line, (speaker, channel) in enumerate(labels, 1)]


@pytest.mark.parametrize(
    ("labels", "places"),
    [
        (["A", "B", "a"], [0, 1, 0]),
        (["B"], [1]),
        (["1", "2"], [0, 1]),
        (["0", "1"], [0, 1]),
        (["1"], [0]),
        (["2"], [1]),
        (["SPEAKER_00", "SPEAKER_01"], [0, 1]),
        (["Speaker 1", "Speaker 2"], [0, 1]),
        (["Right", "Left"], [1, 0]),
        (["ch1", "ch0"], [1, 0]),
        (["A", "2"], None),
        (["1", "3"], None),
        (["Ann", "Bob"], None),
        (["A", None], None),
    ],
)
def test_knows_labels_that_count_channels(labels: list[str | None], places: list[int] | None) -> None:
    assert place_labels(labels) == places


def test_takes_the_channel_field_before_the_name() -> None:
    assert assign_channels(make(("bob", "2"), ("ann", "1"), ("ann", "1")), "x") == ([1, 0, 0], ("ann", "bob"))


def test_takes_the_name_where_all_are_on_one_channel() -> None:
    assert assign_channels(make(("bob", "1"), ("ann", "1")), "x") == ([0, 1], ("bob", "ann"))


def test_takes_the_users_names() -> None:
    assert assign_channels(make(("bob", None), ("Ann", None)), "x", ("ann", "BOB")) == ([1, 0], ("ann", "BOB"))
    assert assign_channels(make(("A", None), ("B", None)), "x", ("ann", "bob")) == ([0, 1], ("ann", "bob"))
    with pytest.raises(TranscriptError, match="speaker 'Cid' and 'bob' cannot be told"):
        assign_channels(make(("Cid", None), ("bob", None)), "x", ("ann", "bob"))


def test_nameless_speakers_are_called_after_the_recording() -> None:
    assert assign_channels(make((None, "B"), (None, "A")), "sw2001") == ([1, 0], ("sw2001-A", "sw2001-B"))
    assert assign_channels(make(("SPEAKER_01", None)), "x") == ([0], ("x-A", "x-B"))


def test_segments_without_any_label_are_refused() -> None:
    with pytest.raises(TranscriptError, match="line or segment 2: names neither speaker nor channel"):
        assign_channels(make(("ann", None), (None, None)), "x")
