"""Who is heard on which channel, whatever the order of the channels."""

from __future__ import annotations

import numpy as np
import pytest

from bystander.schemas.recordings import Channels
from bystander.tasks.audio.speech_activity import list_runs
from bystander.tasks.session.own_voice import find_voices, mute_others, snap_to_voice

RATE = 16000


def make_take(leak_db: float = -16.0) -> Channels:
    """Two voices of noise: 1 to 2.5 s and 2 to 4 s of 5 s, and 30 ms on the second channel at 0.5 s."""
    rng = np.random.default_rng(0)
    clean = np.zeros((5 * RATE, 2))
    for channel, start, end in ((0, 1.0, 2.5), (1, 2.0, 4.0), (1, 0.5, 0.53)):
        part = slice(round(start * RATE), round(end * RATE))
        clean[part, channel] = 0.1 * rng.standard_normal(part.stop - part.start)
    heard = clean + 10 ** (leak_db / 20) * clean[:, ::-1]
    return np.asarray(heard + 3e-4 * rng.standard_normal(heard.shape), np.float32)


@pytest.mark.parametrize("leak_db", [-30.0, -16.0, -10.0])
def test_voices_are_those_of_the_own_speaker(leak_db: float) -> None:
    take = make_take(leak_db)
    voices = find_voices(take, RATE)
    for voice, (start, end) in zip(voices, ((1.0, 2.5), (2.0, 4.0)), strict=True):
        runs = list_runs(voice) * 0.01
        assert runs[0, 0] == pytest.approx(start, abs=0.05)
        assert runs[-1, 1] == pytest.approx(end, abs=0.05)
    assert [voice.tolist() for voice in find_voices(take[:, ::-1], RATE)] == [v.tolist() for v in voices[::-1]]


def test_others_are_muted_to_the_noise() -> None:
    take = make_take()
    muted = mute_others(take, RATE, find_voices(take, RATE))
    first, second = slice(round(1.2 * RATE), round(1.9 * RATE)), slice(round(2.8 * RATE), round(3.8 * RATE))
    assert np.array_equal(muted[first, 0], take[first, 0])
    assert np.array_equal(muted[second, 1], take[second, 1])
    assert np.std(take[second, 0]) > 0.01
    assert np.std(muted[second, 0]) < 0.001
    assert np.std(muted[first, 1]) < 0.001


def test_spans_end_where_the_voice_does() -> None:
    (voice,) = find_voices(make_take()[:, :1], RATE)[:1]
    start, end = snap_to_voice(voice, 1.1, 2.4, 0.15, 0.25)
    assert start == pytest.approx(1.0, abs=0.05)
    assert end > 2.4
    assert snap_to_voice(np.zeros(500, bool), 1.1, 2.4, 0.15, 0.25) == (1.1, 2.4)
