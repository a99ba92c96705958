"""What faster-whisper does beyond the contract of recognisers: batches, the fall-back to sampling, guards, GPUs."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

from alignment_samples import RATE, make_noise, speak
from bystander.schemas.engines import RecognitionReply, RecognitionRequest, RowFault, Samples
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.recogniser_configs import FasterWhisperConfig, HallucinationGuards, TemperatureFallback
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.faster_whisper import FasterWhisperRecogniser

pytestmark = pytest.mark.models

EAGER = TemperatureFallback(temperatures=(0.2, 1.0), mean_logprob=-0.02, no_speech_prob=0.99, best_of=2)
"""Falls back although the text is likely."""


@cache
def _clips() -> tuple[Samples, ...]:
    lights, sister = speak(("Turn the kitchen lights on.", "Wait, call my sister first."), "am_michael")
    noisy = lights + make_noise(len(lights) / RATE, 0.05)[: len(lights)]
    pause = make_noise(14.0, 3e-4)
    return lights, noisy, np.concatenate([lights, pause, sister, pause, lights, sister]), sister


def _hear(config: FasterWhisperConfig, *clips: Samples) -> list[RecognitionReply]:
    engine = FasterWhisperRecogniser(config, ModelStore().resolve)
    heard = engine.recognise([RecognitionRequest(clip, RATE) for clip in clips])
    engine.close()
    replies = [reply for reply in heard if not isinstance(reply, RowFault)]
    assert len(replies) == len(clips)
    return replies


def test_a_batch_hears_what_each_clip_alone_gives_long_ones_too() -> None:
    alone = _hear(FasterWhisperConfig(), *_clips())
    batched = _hear(FasterWhisperConfig(batch_size=3, workers=1), *_clips())
    assert [reply.text for reply in batched] == [reply.text for reply in alone]
    assert alone[3].text == "Wait, call my sister first."
    assert alone[2].text.startswith("Turn the kitchen lights on.")
    for one, other in zip(alone, batched, strict=True):
        assert other.mean_logprob == pytest.approx(one.mean_logprob, abs=1e-3)
        assert other.no_speech_prob == pytest.approx(one.no_speech_prob, abs=1e-3)
        assert other.temperature == one.temperature == 0.0


def test_an_unlikely_clip_is_sampled_alike_alone_and_in_a_batch() -> None:
    lights, noisy, *_ = _clips()
    config = FasterWhisperConfig(fallback=EAGER, workers=1, batch_size=2)
    first, second = _hear(config, lights, noisy)
    assert _hear(config.model_copy(update={"batch_size": 1}), noisy, lights) == [second, first]
    assert first.text == "Turn the kitchen lights on."  # sampled, but there is hardly another way to hear it
    assert (first.temperature, second.temperature) == (1.0, 1.0)
    likely = TemperatureFallback(mean_logprob=-3.0)
    assert [r.temperature for r in _hear(FasterWhisperConfig(fallback=likely), lights)] == [0.0]


def test_near_temperature_zero_sampling_is_greedy_search() -> None:
    lights, *_ = _clips()
    cold = dataclasses.asdict(
        *_hear(FasterWhisperConfig(fallback=EAGER.model_copy(update={"temperatures": (1e-3,)})), lights)
    )
    greedy = dataclasses.asdict(*_hear(FasterWhisperConfig(beam_size=1), lights))
    assert cold["text"] == greedy["text"]
    assert cold["mean_logprob"] == pytest.approx(greedy["mean_logprob"], abs=1e-3)


def test_guards_withhold_what_cannot_have_been_said() -> None:
    lights, *_ = _clips()
    strict = HallucinationGuards(words_per_s=0.1)
    (reply,) = _hear(FasterWhisperConfig(guards=strict), lights)
    assert (reply.text, reply.withheld) == ("", "Turn the kitchen lights on.")
    assert reply.withheld_as == "too_many_words"


def test_only_what_changes_the_texts_is_in_the_identity() -> None:
    def identify(**settings: object) -> object:
        engine = FasterWhisperRecogniser(FasterWhisperConfig.model_validate(settings), ModelStore().resolve)
        engine.close()
        return engine.identity

    default = identify()
    assert default.settings == (  # type: ignore[attr-defined]
        ("beam_size", "5"),
        ("compute_type", "int8"),
        ("silence_dbfs", "-55"),
        ("temperature", "0"),
    )
    assert identify(batch_size=16, workers=4, device="cuda", device_index=(0, 1)) == default
    changed = [
        identify(**one) for one in ({"fallback": {}}, {"guards": {}}, {"guards": {"words_per_s": 9}}, {"beam_size": 1})
    ]
    assert len({default, *changed}) == 5


def test_a_gpu_that_is_not_there_is_a_setup_error() -> None:
    import ctranslate2

    if ctranslate2.get_cuda_device_count():
        pytest.skip("this machine has a GPU")
    with pytest.raises(EngineSetupError, match=r"cannot be opened as a Whisper model on cuda \("):
        _hear(FasterWhisperConfig(device="cuda", compute_type="float16"), _clips()[0])
