from __future__ import annotations

import dataclasses
import importlib.util

import numpy as np
import pytest

from bystander.schemas.engine_configs import TransformersAudioConfig
from bystander.schemas.engines import AnswerReply, AnswerRequest, RowFault
from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines import transformers_audio
from bystander.tasks.engines.transformers_audio import TransformersAudioCandidate

_MISSING = [name for name in ("torch", "transformers", "accelerate") if importlib.util.find_spec(name) is None]
with_model = pytest.mark.skipif(bool(_MISSING), reason=f"the extra transformers lacks {', '.join(_MISSING)}")


def tone(hertz, seconds=0.5, rate=24000):
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def ask(samples, rate=24000, seed=1):
    return AnswerRequest("row", samples, rate, seed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from tiny_audio_model import save_qwen2_audio

    return save_qwen2_audio(tmp_path_factory.mktemp("qwen2-audio"))


def open_model(folder, **fields):
    return TransformersAudioCandidate(TransformersAudioConfig(model=str(folder), **{"max_tokens": 12, **fields}))


@pytest.fixture(scope="module")
def engine(folder):
    engine = open_model(folder)
    yield engine
    engine.close()


@with_model
def test_hears_the_clip(engine):
    low, high, again = engine.answer([ask(tone(200)), ask(tone(3000)), ask(tone(200), seed=2)])
    assert isinstance(low, AnswerReply)
    assert low == again
    assert low != high


@with_model
def test_says_what_the_model_itself_generates(engine, folder):
    import torch
    from transformers import AutoProcessor, Qwen2AudioForConditionalGeneration

    processor = AutoProcessor.from_pretrained(folder)
    model = Qwen2AudioForConditionalGeneration.from_pretrained(folder).eval()
    clip = tone(440, rate=16000)
    prompt = (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        "Audio 1: <|audio_bos|><|AUDIO|><|audio_eos|>\n<|im_end|>\n<|im_start|>assistant\n"
    )
    inputs = processor(text=prompt, audio=clip, sampling_rate=16000, return_tensors="pt")
    with torch.inference_mode():
        tokens = model.generate(**inputs, max_new_tokens=12, do_sample=False)
    expected = processor.tokenizer.decode(tokens[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    assert engine.answer([ask(clip, 16000)]) == [AnswerReply(expected.strip())]


@with_model
def test_batches_answer_as_single_clips_do(engine, folder):
    clips = [ask(tone(200)), ask(tone(3000, 1.5)), ask(tone(900, 0.3))]
    batched = open_model(folder, batch_size=2)
    try:
        assert batched.answer(clips) == engine.answer(clips)
        assert batched.identity.digest() == engine.identity.digest()
    finally:
        batched.close()


@with_model
def test_prompts_and_length_reach_the_model(engine, folder):
    plain = engine.answer([ask(tone(200))])
    for fields in ({"system_prompt": "Be brief."}, {"user_prompt": "What now?"}, {"max_tokens": 4}):
        other = open_model(folder, **fields)
        assert other.answer([ask(tone(200))]) != plain
        assert other.identity.digest() != engine.identity.digest()
        other.close()


@with_model
def test_a_clip_longer_than_the_model_hears_fails_alone(engine):
    too_long, fine = engine.answer([ask(tone(200, 2.5)), ask(tone(200))])
    assert isinstance(too_long, RowFault)
    assert too_long.reason == "request_refused"
    assert too_long.detail == "the clip lasts 2.5 s, the model hears 2 s"
    assert isinstance(fine, AnswerReply)


@with_model
def test_replies_are_reported_as_batches_end(engine):
    heard = []
    replies = engine.answer([ask(tone(200, 2.5)), ask(tone(200))], lambda *item: heard.append(item))
    assert heard == [(1, replies[1])]


@with_model
def test_a_folder_is_known_by_its_files(engine, folder, tmp_path):
    copy = tmp_path / folder.name
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    assert open_model(copy).identity == engine.identity
    (copy / "config.json").write_text((copy / "config.json").read_text() + " ")
    assert open_model(copy).identity != engine.identity
    named = open_model(copy, revision="mine")
    assert named.identity == dataclasses.replace(engine.identity, revision="mine")


@with_model
def test_what_is_no_audio_model_is_one_sentence(tmp_path):
    with pytest.raises(EngineSetupError, match="no such folder; check the field `model`"):
        open_model(tmp_path / "nowhere")
    (tmp_path / "config.json").write_text('{"model_type": "no-such-model"}')
    engine = open_model(tmp_path)
    with pytest.raises(EngineSetupError, match="cannot be loaded"):
        engine.answer([ask(tone(200))])


@with_model
def test_a_closed_model_cannot_be_called(folder):
    engine = open_model(folder)
    engine.close()
    engine.close()
    assert engine.answer([]) == []
    with pytest.raises(EngineSetupError, match="was closed"):
        engine.answer([ask(tone(200))])


def test_missing_packages_name_the_extra(monkeypatch):
    monkeypatch.setattr(transformers_audio, "_PACKAGES", ("no_such_package",))
    with pytest.raises(EngineSetupError, match=r"needs no_such_package; run: pip install 'bystander\[transformers\]'"):
        open_model("some/model")
