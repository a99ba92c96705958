"""Placing tracks, resampling, room responses, noise."""

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.errors import ConfigError
from bystander.tasks.audio.placement import add_tracks, place_second
from bystander.tasks.audio.resampling import resample
from bystander.tasks.audio.surroundings import add_noise, apply_room, list_clips, load_clip


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(-(10**7), 10**6), st.floats(0, 1))
def test_overlap_never_exceeds_its_share_of_either_track(first, second, offset, share):
    start = place_second(first, second, offset, share)
    assert max(0, first - start) <= share * min(first, second)
    assert start >= 0
    assert start == first + offset or offset < 0


def test_places_at_the_offset_where_it_fits():
    assert place_second(1000, 800, -500, 0.8) == 500
    assert place_second(1000, 800, 300, 0.8) == 1300
    assert place_second(1000, 500, -500, 0.8) == 600


def test_adds_tracks_sample_by_sample():
    mixture = add_tracks(np.array([1, 2, 3], np.float32), np.array([10, 20], np.float32), 2, 0.5)
    assert mixture.tolist() == [1, 2, 8, 10]
    assert add_tracks(np.ones(1, np.float32), np.ones(1, np.float32), 2).tolist() == [1, 0, 1]


def test_resamples_a_tone():
    seconds = np.arange(24000) / 24000
    tone = np.sin(2 * np.pi * 440 * seconds).astype(np.float32)
    resampled = resample(tone, 24000, 16000)
    assert len(resampled) == 16000
    expected = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    assert np.abs(resampled - expected)[500:-500].max() < 1e-3
    assert resample(tone, 24000, 24000) is tone


def test_a_room_of_one_late_impulse_changes_nothing_but_length():
    response = np.zeros(300, np.float32)
    response[100] = 0.3
    speech = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    wet = apply_room(speech, response)
    assert len(wet) == 1000 + 199
    assert np.allclose(wet[:1000], speech, atol=1e-4)


def test_a_room_adds_its_echo_and_keeps_the_energy():
    response = np.zeros(50, np.float32)
    response[[0, 40]] = 1, 0.5
    click = np.zeros(100, np.float32)
    click[0] = 1
    wet = apply_room(click, response)
    assert wet[40] / wet[0] == pytest.approx(0.5, abs=1e-4)
    assert np.sum(wet**2) == pytest.approx(1, abs=1e-4)


@given(st.floats(-5, 40), st.integers(0, 5000))
def test_adds_noise_at_the_ratio_asked_for(snr_db, start):
    rng = np.random.default_rng(1)
    speech, noise = rng.standard_normal(2000), 0.01 * rng.standard_normal(300)
    noisy = add_noise(speech.astype(np.float32), noise.astype(np.float32), snr_db, start)
    added = noisy - speech.astype(np.float32)
    assert 10 * np.log10(np.sum(speech**2) / np.sum(added.astype(float) ** 2)) == pytest.approx(snr_db, abs=0.05)


def test_silent_noise_adds_nothing():
    speech = np.ones(5, np.float32)
    assert np.array_equal(add_noise(speech, np.zeros(3, np.float32), 10), speech)


def test_lists_audio_files_by_path_within_the_folder(tmp_path):
    for name in ("b.wav", "a/z.FLAC", "a/notes.txt", "c.opus"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert [p.relative_to(tmp_path).as_posix() for p in list_clips(str(tmp_path), "noises")] == [
        "a/z.FLAC", "b.wav", "c.opus",
    ]  # fmt: skip


def test_names_a_folder_that_is_missing_or_empty(tmp_path):
    with pytest.raises(ConfigError, match=r"noises: .*gone is not a folder"):
        list_clips(str(tmp_path / "gone"), "noises")
    with pytest.raises(ConfigError, match=r"noises: .* holds no audio file"):
        list_clips(str(tmp_path), "noises")


def test_names_a_file_that_cannot_be_used(tmp_path):
    broken, silent = tmp_path / "broken.wav", tmp_path / "silent.wav"
    broken.write_bytes(b"RIFFnope")
    soundfile.write(silent, np.zeros(10), 8000)
    with pytest.raises(ConfigError, match=r"rooms: .*broken\.wav cannot be read"):
        load_clip(broken, "rooms", 24000)
    with pytest.raises(ConfigError, match=r"rooms: .*silent\.wav is empty, silent"):
        load_clip(silent, "rooms", 24000)
    with pytest.raises(ConfigError, match=r"rooms: .*gone\.wav cannot be read"):
        load_clip(tmp_path / "gone.wav", "rooms", 24000)


def test_loads_the_first_channel_at_the_rate_asked_for(tmp_path):
    soundfile.write(tmp_path / "two.wav", np.column_stack([np.full(8000, 0.5), np.zeros(8000)]), 8000)
    clip = load_clip(tmp_path / "two.wav", "rooms", 24000)
    assert len(clip) == 24000
    assert clip[12000] == pytest.approx(0.5, abs=1e-2)
