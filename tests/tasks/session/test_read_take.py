"""What is made of a take whose words and times are known: cells of the row, and every reason to refuse it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.schemas.alignment import AlignedWord, AlignmentReply, AlignmentRequest
from bystander.schemas.engines import EngineIdentity, RecognitionReply, RecognitionRequest, RowFault
from bystander.schemas.recording_session import ImportSettings, Take
from bystander.schemas.recordings import Channels
from bystander.tasks.session.found_takes import FoundTake
from bystander.tasks.session.read_take import READ_REASONS, ReadTake, read_take
from session_samples import LINES, make_rows, make_sheet

RATE = 16000
PRIMARY, THIRD = LINES[0]
A, B = (1.0, 2.5), (2.1, 4.0)
"""When the two speak, in seconds: B begins 0.4 s before A ends, as the sheet asks."""
Span = tuple[float, float]


def make_sound(first: Span = A, second: Span = B, leak_db: float = -20.0, lead_s: float = 0.0) -> Channels:
    """Two voices of noise in 5 s of quiet, on a channel each, with a leak on the other; `lead_s` of quiet before."""
    rng = np.random.default_rng(0)
    clean = np.zeros((5 * RATE, 2))
    for channel, (start, end) in enumerate((first, second)):
        part = slice(round(start * RATE), round(end * RATE))
        clean[part, channel] = 0.1 * rng.standard_normal(part.stop - part.start)
    heard = clean + 10 ** (leak_db / 20) * clean[:, ::-1]
    heard = np.concatenate([np.zeros((round(lead_s * RATE), 2)), heard])
    return np.asarray(heard + 3e-4 * np.random.default_rng(1).standard_normal(heard.shape), np.float32)


@dataclass
class Hears:
    """A recogniser that hears one text after the other."""

    texts: Sequence[str | RowFault] = (PRIMARY, THIRD)
    identity: ClassVar[EngineIdentity] = EngineIdentity("recogniser", "scripted", "scripted", "1")

    def recognise(self, requests: Sequence[RecognitionRequest], on_reply: Any = None) -> list[Any]:
        assert len(requests) == len(self.texts)
        return [text if isinstance(text, RowFault) else RecognitionReply(text) for text in self.texts]

    def close(self) -> None: ...


@dataclass
class Aligns:
    """Lays the words of each call evenly over its spans, a line a span; times are those of the sound."""

    calls: list[Sequence[Span] | RowFault]
    lead_s: float = 0.0
    identity: ClassVar[EngineIdentity] = EngineIdentity("aligner", "scripted", "scripted", "1")
    languages: ClassVar[frozenset[str]] = frozenset({"en"})
    requests: list[AlignmentRequest] = field(default_factory=list)

    def align(self, requests: Sequence[AlignmentRequest]) -> list[Any]:
        (request,) = requests
        spans = self.calls[len(self.requests)]
        self.requests.append(request)
        if isinstance(spans, RowFault):
            return [spans]
        counts = [len(request.words)] if len(spans) == 1 else [len(PRIMARY.split()), len(THIRD.split())]
        assert sum(counts) == len(request.words)
        times: list[Span] = []
        for (start, end), count in zip(spans, counts, strict=True):
            edges = np.linspace(start, end, count + 1) + self.lead_s + 0.12  # of the silence before what is aligned
            times += pairwise(edges.tolist())
        words = [AlignedWord(word, *time) for word, time in zip(request.words, times, strict=True)]
        return [AlignmentReply(tuple(words))]

    def close(self) -> None: ...


def make_take(**row: Any) -> Take:
    (take,) = make_sheet([make_rows(1)[0] | row]).takes
    return take


def read(
    samples: Channels,
    texts: Sequence[str | RowFault] = (PRIMARY, THIRD),
    calls: Sequence[Sequence[Span] | RowFault] = ((A,), (B,)),
    take: Take | None = None,
    lead_s: float = 0.0,
    **limits: Any,
) -> ReadTake | RowFault:
    take = take or make_take()
    found = FoundTake("x.wav", "ab" * 32, 10.0, samples, RATE, take)
    return read_take(found, take, ImportSettings(**limits), Hears(texts), Aligns(list(calls), lead_s))


def test_each_speaker_is_measured_on_the_own_channel() -> None:
    made = read(make_sound())
    assert isinstance(made, ReadTake)
    assert made.offset_s == pytest.approx(-0.4, abs=0.03)
    assert made.cells["overlap_s"] == pytest.approx(0.4, abs=0.03)
    assert made.cells["offset_asked_s"] == -0.4
    first, second = made.cells["segments"]
    assert (first["speaker"], second["speaker"]) == ("primary", "third_party")
    assert first["start_s"] == pytest.approx(0.25, abs=0.03)  # the margin
    assert second["end_s"] == pytest.approx(3.25, abs=0.03)
    assert made.start_s == pytest.approx(10.75, abs=0.03)
    assert made.end_s - made.start_s == pytest.approx(made.cells["duration_s"])
    assert len(made.samples) == round(made.cells["duration_s"] * 24000)
    assert made.cells["loudness_difference_db"] == pytest.approx(0.0, abs=0.5)
    assert made.errors == 0.0
    # Seven words in 1.5 s: the sixth, "train", ends at 2.29 s, and B begins at 2.1 s.
    assert made.came_in_at == "train"
    assert [word.word for _, word in made.words] == [*PRIMARY.split(), *THIRD.split()]
    role, word = made.words[0]
    assert (role, word.start_s) == ("primary", pytest.approx(0.25, abs=0.03))


def test_swapped_channels_make_the_same_row() -> None:
    straight, swapped = read(make_sound()), read(make_sound()[:, ::-1].copy(), (THIRD, PRIMARY))
    assert isinstance(straight, ReadTake)
    assert isinstance(swapped, ReadTake)
    assert swapped.cells == straight.cells | {
        "loudness_difference_db": pytest.approx(straight.cells["loudness_difference_db"], abs=0.1)
    }
    assert np.array_equal(swapped.samples, straight.samples)


@given(lead=st.integers(0, 150))
@settings(max_examples=12)
def test_quiet_before_a_take_moves_only_where_it_lies_in_the_file(lead: int) -> None:
    plain, led = read(make_sound()), read(make_sound(lead_s=lead / 100), lead_s=lead / 100)
    assert isinstance(plain, ReadTake)
    assert isinstance(led, ReadTake)
    assert led.start_s == pytest.approx(plain.start_s + lead / 100, abs=0.021)
    assert led.offset_s == pytest.approx(plain.offset_s, abs=0.021)
    assert led.cells["duration_s"] == pytest.approx(plain.cells["duration_s"], abs=0.021)


def test_one_channel_shows_no_overlap_but_a_pause() -> None:
    mixed = make_sound().sum(axis=1, keepdims=True)
    made = read(mixed, [f"{PRIMARY} {THIRD}"], [((1.0, 2.4), (2.4, 4.0))])
    assert isinstance(made, ReadTake)
    assert (made.cells["overlap_s"], made.came_in_at) == (None, None)
    first, second = made.cells["segments"]
    assert first["end_s"] == pytest.approx(second["start_s"])
    assert (made.cells["primary_recognised"], made.cells["third_party_recognised"]) == (PRIMARY, THIRD)
    early = read(mixed, [f"{PRIMARY} {THIRD}"], [((1.0, 1.2), (1.2, 4.0))])
    assert isinstance(early, ReadTake)  # how early B was is not seen there
    late = make_sound(A, (3.5, 4.8)).sum(axis=1, keepdims=True)
    fault = read(late, [f"{PRIMARY} {THIRD}"], [(A, (3.5, 4.8))])
    assert isinstance(fault, RowFault)
    assert fault.reason == "came_in_late"
    assert "1.00 s later than asked, at most 0.8 s" in fault.detail  # a pause where none was asked for


def test_a_pause_that_the_sheet_asks_for_is_not_late() -> None:
    take = make_take(offset_asked_s=0.9)
    made = read(make_sound(A, (3.5, 4.8)), calls=[(A,), ((3.5, 4.8),)], take=take)
    assert isinstance(made, ReadTake)
    assert made.cells["overlap_s"] == 0.0
    assert made.offset_s == pytest.approx(1.0, abs=0.03)


def test_a_slate_is_no_part_of_the_line_nor_of_the_clip() -> None:
    slated = make_sound()
    slated[round(0.1 * RATE) : round(0.6 * RATE), 0] += make_sound()[RATE : round(1.5 * RATE), 0]
    take = make_take()
    aligner = Aligns([], 0.0)
    aligner.calls = [((0.1, 2.5),), (B,)]
    found = FoundTake("x.wav", "ab" * 32, 0.0, slated, RATE, take)
    made = read_take(found, take, ImportSettings(), Hears((f"Take one. {PRIMARY}", THIRD)), aligner)
    assert isinstance(made, ReadTake)
    assert aligner.requests[0].words == ("Take", "one.", *PRIMARY.split())
    assert made.cells["primary_recognised"] == PRIMARY
    assert made.errors == 0.0


FAULTS: dict[str, tuple[Callable[[], ReadTake | RowFault], str]] = {
    "too_many_channels": (
        lambda: read(np.concatenate([make_sound(), make_sound()[:, :1]], 1)),
        "3 channels; record one, or one a speaker",
    ),
    "cross_talk": (lambda: read(make_sound(leak_db=-2.0)), "the channels hear both speakers, "),
    "misread": (
        lambda: read(make_sound(), ("Give me the salt and the pepper.", THIRD)),
        f"ann was to read {PRIMARY!r}: word error rate 0.71, at most 0.34",
    ),
    "not_aligned": (
        lambda: read(make_sound(), calls=[RowFault("no_path", "words and sound differ")]),
        "no_path: words and sound differ; listen to it, and record the take again",
    ),
    "too_quiet": (lambda: read(make_sound() * 1e-3 + make_sound((0.0, 5.0), (0.0, 5.0)) * 0.1), "above the noise"),
    "clipped": (
        lambda: read(np.clip(make_sound(), -0.1, 0.1)),
        "are cut flat, at most 0.05%: turn the microphone down",
    ),
    "came_in_early": (
        lambda: read(make_sound(B, A), calls=[(B,), (A,)]),
        "ben began 1.10 s before ann",
    ),
    "came_in_late": (
        lambda: read(make_sound(A, (3.2, 4.8)), calls=[(A,), ((3.2, 4.8),)]),
        "s later than asked, at most 0.8 s: come in at 'station'",
    ),
    "recogniser_fault": (
        lambda: read(make_sound(), (RowFault("no_memory", "out of memory", "x"), THIRD)),
        "no_memory: out of memory",
    ),
}


@pytest.mark.parametrize("reason", sorted(READ_REASONS))
def test_every_reason_says_what_is_wrong(reason: str) -> None:
    make, detail = FAULTS[reason]
    fault = make()
    assert isinstance(fault, RowFault)
    assert fault.reason == reason
    assert detail in fault.detail, fault.detail


def test_other_ways_to_be_wrong() -> None:
    early = read(make_sound(A, (1.15, 4.0)), calls=[(A,), ((1.15, 4.0),)])
    assert isinstance(early, RowFault)
    assert early.reason == "came_in_early"
    assert "s earlier than asked" in early.detail
    outside = read(make_sound(), calls=[((9.0, 9.5),)])
    assert isinstance(outside, RowFault)
    assert (outside.reason, outside.detail.split(";")[0]) == ("not_aligned", "the words lie outside the sound")
    cut = make_take(primary_text="Give me directions...", primary_complete=PRIMARY, timing="within_sentence")
    whole = read(make_sound(), take=cut)
    assert isinstance(whole, RowFault)
    assert whole.reason == "misread"
    assert "the request was read on to its end" in whole.detail
    loose = read(make_sound(), ("Give me the salt and the pepper.", THIRD), max_wer=0.8)
    assert isinstance(loose, ReadTake)
    assert loose.cells["primary_wer"] == pytest.approx(5 / 7)
