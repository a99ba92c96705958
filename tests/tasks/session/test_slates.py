"""Slates are told from lines, and stretches from each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.recording_session import ImportSettings
from bystander.tasks.session.align_lines import drop_slate, split_heard
from bystander.tasks.session.check_sound import (
    drop_idle_channel,
    find_quiet_line,
    find_recording_fault,
    measure_separation_db,
)
from bystander.tasks.session.found_takes import find_code, find_stretches
from bystander.tasks.session.match_script import ScriptMatcher
from bystander.tasks.session.slates import find_slate, is_misheard_slate
from session_samples import make_rows, make_sheet

RATE = 16000


@pytest.mark.parametrize(
    ("heard", "number", "rest"),
    [
        ("Take seven.", 7, ""),
        ("Take 7, call the library.", 7, "call the library."),
        ("Take twenty-one. Call the library.", 21, "Call the library."),
        ("Okay, take one hundred and seven.", 107, ""),
        ("Take too.", 2, ""),
    ],
)
def test_slates_are_found(heard: str, number: int, rest: str) -> None:
    slate = find_slate(heard)
    assert slate is not None
    assert (slate.number, slate.rest) == (number, rest)
    assert " ".join([*slate.words, slate.rest]).strip() == heard
    assert find_slate(heard, [number + 1]) is None


@pytest.mark.parametrize("heard", ["", "Take", "Take the bus to town.", "Give me seven.", "Mistake 7"])
def test_lines_are_no_slates(heard: str) -> None:
    assert find_slate(heard) is None


def test_slates_are_dropped_only_before_the_script() -> None:
    heard = "Take 8. Tell me a ghost story."
    assert drop_slate("Tell me a ghost story.", heard, "Take 8", "en") == (("Take", "8."), "Tell me a ghost story.")
    misheard = "Take care of her. Tell me a ghost story."
    assert drop_slate("Tell me a ghost story.", misheard, "Take 8", "en") == (("Take", "8"), "Tell me a ghost story.")
    line = "Take two eggs out of the fridge."
    assert drop_slate(line, line, "Take 8", "en") == ((), line)
    assert is_misheard_slate("Take care for.")
    assert not is_misheard_slate("Care for it.")


def test_what_was_heard_is_cut_where_the_lines_meet() -> None:
    texts = ("Write a poem for a gardener.", "Oh, and a line about tomatoes.")
    heard = "right a poem for a gardener oh and a lime about tomatoes"
    assert split_heard(texts, heard, "en") == ("right a poem for a gardener", "oh and a lime about tomatoes")


def test_codes_in_names() -> None:
    takes = make_sheet(make_rows(12)).takes
    for name, code in (("XD007", "XD007"), ("xd_007-2", "XD007"), ("room1 XD 012 b", "XD012"), ("XD-0003", "XD003")):
        found = find_code(name, takes)
        assert found is not None
        assert found.code == code
    for name in ("XD013", "AXD007", "XD07", "session", "QQ007"):
        assert find_code(name, takes) is None


def test_texts_are_matched_to_their_take() -> None:
    matcher = ScriptMatcher(make_sheet())
    for take in matcher.takes:
        assert matcher.match(take.transcript.lower()) == (1.0, take)
        assert matcher.match(take.transcript.split(".")[0])[1] == take
    assert matcher.match("")[0] == 0.0
    assert matcher.only(matcher.takes[1]).takes == (matcher.takes[1],)


@given(
    lengths=st.lists(st.floats(0.6, 2.0), min_size=1, max_size=4),
    pauses=st.lists(st.floats(1.9, 4.0), min_size=4, max_size=4),
)
def test_stretches_are_found_in_order(lengths: list[float], pauses: list[float]) -> None:
    rng = np.random.default_rng(0)
    parts, truth, at = [np.zeros(RATE)], [], 1.0
    for length, pause in zip(lengths, pauses, strict=False):
        parts += [rng.standard_normal(round(length * RATE)) * 0.1, np.zeros(round(pause * RATE))]
        truth.append((at, at + length))
        at += length + pause
    mono = np.concatenate(parts).astype(np.float32)
    mono += (rng.standard_normal(len(mono)) * 1e-4).astype(np.float32)
    spans = find_stretches(mono, RATE, 1.5)
    assert len(spans) == len(truth)
    for (start, end), (begin, until) in zip(spans, truth, strict=True):
        assert begin - 0.6 < start / RATE <= begin
        assert until <= end / RATE + 0.02 < until + 0.6


def make_noise(seconds: float, level_dbfs: float, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(round(seconds * RATE))
    return (noise * 10 ** (level_dbfs / 20)).astype(np.float32)


def make_two(leak_db: float, gain_db: float = 0.0) -> np.ndarray:
    """Two voices of noise, one after the other, that leak over; the second channel has a gain."""
    quiet = np.zeros(RATE, np.float32)
    voice = make_noise(1.5, -20)
    first, second = np.concatenate([quiet, voice, quiet, 0 * voice]), np.concatenate([quiet, 0 * voice, quiet, voice])
    leak = 10 ** (leak_db / 20)
    clean = np.stack([first + leak * second, (second + leak * first) * 10 ** (gain_db / 20)], 1)
    return (clean + 1e-4 * np.random.default_rng(1).standard_normal(clean.shape)).astype(np.float32)


@pytest.mark.parametrize("leak_db", [-20.0, -12.0, -3.0])
def test_separation_is_that_of_the_voices_whatever_the_gains_and_order(leak_db: float) -> None:
    for gain_db in (0.0, 9.0):
        two = make_two(leak_db, gain_db)
        assert measure_separation_db(two, RATE) == pytest.approx(-leak_db, abs=1.0)
        assert measure_separation_db(two[:, ::-1], RATE) == pytest.approx(-leak_db, abs=1.0)


def test_idle_channels_are_dropped() -> None:
    two = make_two(-20.0)
    assert drop_idle_channel(two, -55.0).shape[1] == 2
    doubled = np.stack([two[:, 0], two[:, 0]], 1)
    assert np.array_equal(drop_idle_channel(doubled, -55.0), two[:, :1])
    dead = np.stack([1e-5 * two[:, 0], two[:, 1]], 1)
    assert np.array_equal(drop_idle_channel(dead, -55.0), two[:, 1:])


def test_bad_sound_is_named() -> None:
    settings = ImportSettings()
    good = np.concatenate([make_noise(1, -70), make_noise(2, -20, 1), make_noise(1, -70, 2)])[:, None]
    assert find_recording_fault(good, RATE, settings) is None
    flat = find_recording_fault(np.clip(good, -0.15, 0.15) * 0.2, RATE, settings)  # cut flat, then turned down
    assert flat is not None
    assert flat.reason == "clipped"
    noisy = find_recording_fault(
        np.concatenate([good, 0 * good]) * 0.01 + make_noise(8, -60, 3)[:, None], RATE, settings
    )
    assert noisy is not None
    assert noisy.reason == "too_quiet"
    assert find_quiet_line(good[:, 0], RATE, 1.0, 3.0, "ann", settings) is None
    far = find_quiet_line(good[:, 0] * 0.01, RATE, 1.0, 3.0, "ann", settings)
    assert far is not None
    assert "ann is at -60 dBFS, at least -55" in far.detail
