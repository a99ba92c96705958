from __future__ import annotations

import numpy as np
import pytest

from bystander.workers.speech.model import RequestFault
from bystander.workers.speech.prepared_voices import PreparedVoices
from bystander.workers.speech.protocol import make_voice_key
from bystander.workers.speech.tone import ToneModel
from voice_banks import RATE, make_hum


class CountingModel(ToneModel):
    prepared = 0

    def prepare_voice(self, samples, sampling_rate):
        self.prepared += 1
        return super().prepare_voice(samples, sampling_rate)


@pytest.fixture
def clips():
    hums = [make_hum(100 + 30 * i) for i in range(3)]
    return {make_voice_key(hum, RATE): hum for hum in hums}


def test_a_voice_is_prepared_once_and_outlives_the_process(tmp_path, clips):
    model = CountingModel()
    voices = PreparedVoices(model, tmp_path, in_memory=1)
    for _ in range(2):
        for key, clip in clips.items():
            voices.prepare(key, clip, RATE)
    assert model.prepared == 3
    fresh = {key: model.prepare_voice(clip, RATE) for key, clip in clips.items()}
    later = PreparedVoices(CountingModel(), tmp_path, in_memory=8)
    for key, voice in fresh.items():
        np.testing.assert_array_equal(later.find(key), voice)
    assert later.find("0" * 64) is None


def test_without_a_folder_the_oldest_voice_is_forgotten(clips):
    voices = PreparedVoices(ToneModel(), None, in_memory=2)
    first, second, third = clips
    for key in (first, second, first, third):
        voices.prepare(key, clips[key], RATE)
    assert voices.find(second) is None
    assert voices.find(first) is not None
    assert voices.find(third) is not None


def test_a_damaged_file_is_prepared_anew(tmp_path, clips):
    key, clip = next(iter(clips.items()))
    PreparedVoices(ToneModel(), tmp_path, in_memory=1).prepare(key, clip, RATE)
    (path,) = tmp_path.iterdir()
    good = path.read_bytes()
    path.write_bytes(good[:5])
    voices = PreparedVoices(ToneModel(), tmp_path, in_memory=1)
    assert voices.find(key) is None
    voices.prepare(key, clip, RATE)
    assert path.read_bytes() == good
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_voice_that_cannot_be_written_can_be_spoken_in(tmp_path, clips):
    key, clip = next(iter(clips.items()))
    voices = PreparedVoices(ToneModel(), tmp_path / "voices", in_memory=1)
    (tmp_path / "voices").rmdir()
    voices.prepare(key, clip, RATE)
    assert voices.find(key) is not None


def test_no_voice_is_kept_of_an_unusable_clip(tmp_path):
    clip = make_hum(100, duration_s=0.05)
    voices = PreparedVoices(ToneModel(), tmp_path, in_memory=1)
    with pytest.raises(RequestFault, match="unusable_reference"):
        voices.prepare(make_voice_key(clip, RATE), clip, RATE)
    assert list(tmp_path.iterdir()) == []
