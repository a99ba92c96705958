"""The seam control: which pieces are joined, and what is heard in them."""

from __future__ import annotations

import numpy as np
import pytest

from bystander.tasks.training.spliced_clips import SpokenRow, cut_rows, splice_rows

RATE = 8000
HERTZ = {"ann": 200.0, "bob": 500.0, "cy": 1200.0}


def tone(voice: str, seconds: float, level: float = 0.3) -> np.ndarray:
    return (level * np.sin(2 * np.pi * HERTZ[voice] * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def pair(row_id: str, first: str, second: str, first_s: float = 2.0, second_s: float = 2.0) -> SpokenRow:
    """A two-speaker row whose second speaker begins half a second before the first ends."""
    samples = np.zeros(round((first_s + second_s - 0.5) * RATE), np.float32)
    samples[: round(first_s * RATE)] += tone(first, first_s)
    samples[round((first_s - 0.5) * RATE) :] += tone(second, second_s, 0.1)
    return SpokenRow(row_id, samples, first, second, first_s - 0.5, first_s, 0.5)


def alone(row_id: str, voice: str, seconds: float = 4.0, share: float = 0.5) -> SpokenRow:
    return SpokenRow(row_id, tone(voice, seconds), voice, None, None, seconds, share)


def measure_tones(samples: np.ndarray) -> dict[str, float]:
    """Share of the power at each voice's frequency."""
    power = np.abs(np.fft.rfft(samples * np.hanning(len(samples)))) ** 2
    hertz = np.fft.rfftfreq(len(samples), 1 / RATE)
    return {name: float(power[abs(hertz - at) < 30].sum() / power.sum()) for name, at in HERTZ.items()}


def test_pieces_are_clear_of_the_overlap_and_of_the_other_voice() -> None:
    first, second = cut_rows(
        [pair("p", "ann", "bob"), alone("j", "cy", 5.0, 0.4), pair("short", "ann", "cy", 1.2)], RATE
    )
    assert [(piece.row_id, piece.voice, len(piece.samples)) for piece in first] == [
        ("p", "ann", 12000),
        ("j", "cy", 16000),
    ]
    assert [(piece.row_id, piece.voice, len(piece.samples)) for piece in second] == [
        ("p", "bob", 12000),
        ("j", "cy", 24000),
        ("short", "cy", 12000),
    ]
    assert measure_tones(first[0].samples)["ann"] > 0.99
    assert measure_tones(second[0].samples)["bob"] > 0.99


def test_both_clips_of_a_pair_have_one_seam_and_differ_in_the_second_voice_alone() -> None:
    rows = [pair("p", "ann", "bob"), alone("j", "ann"), alone("k", "cy")]
    found = {one.row_id: one for one in splice_rows(rows, RATE, overlap_s=0.5, seed=1)}
    assert set(found) == {"p"}  # bob begins no row; the second piece of ann's own row and of cy's would be their own
    one, two = found["p"].one_voice, found["p"].two_voices
    assert len(one) == round((1.5 + 2.0 - 0.5) * RATE)
    assert measure_tones(one)["ann"] > 0.99
    heard = measure_tones(two)
    assert heard["ann"] > 0.3
    assert heard["cy"] > 0.3
    assert heard["bob"] < 1e-3
    until = round((1.5 - 0.5) * RATE)
    assert (one[:until] == two[:until]).all()
    ends = [float(np.sqrt(np.mean(clip[-RATE:-200] ** 2))) for clip in (one, two)]
    assert ends[0] == pytest.approx(ends[1], rel=0.02)  # one level, whatever the rows had
    again = splice_rows(rows[::-1], RATE, overlap_s=0.5, seed=1)
    assert (again[0].one_voice == one).all()


def test_without_a_voice_in_two_rows_there_is_no_control() -> None:
    assert splice_rows([alone("j", "ann"), pair("p", "bob", "cy")], RATE, 0.5, 0) == []
