"""Batches: the prompt of evaluation before each reply, and the loss on the reply and its end alone."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines import speech_lm_model
from bystander.tasks.engines.speech_lm_model import (
    ChatPrompts,
    encode_prompts,
    find_model,
    find_turn_end,
    open_model,
    open_processor,
)
from bystander.tasks.training.speech_lm_batches import IGNORED, SpeechLmCollate, SpeechLmReader
from tiny_omni import save_qwen_omni

PROMPTS = ChatPrompts("You help at home.", "Answer what was said.")
REPLIES = ("Yes.", "Shall I make it eight, since someone with you would be late?", "Née à 7 h — «bien sûr» 你好.")
SECONDS = (0.6, 2.25, 1.0)


@dataclass(frozen=True)
class Spoken:
    samples: Any
    sampling_rate: int
    reply: str


def tone(seconds, hertz=300.0, rate=16000):
    return (0.4 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return find_model(str(save_qwen_omni(tmp_path_factory.mktemp("models") / "omni")), None, (), "train")


@pytest.fixture(scope="module")
def reader(source):
    return SpeechLmReader(source, PROMPTS, 512)


@pytest.fixture(scope="module")
def examples():
    return [Spoken(tone(s), 16000, reply) for s, reply in zip(SECONDS, REPLIES, strict=True)]


def test_the_loss_is_on_reply_and_end_of_turn_and_nothing_else(reader, examples):
    batch = SpeechLmCollate(reader)(examples)
    tokenizer = reader.processor.tokenizer
    for tokens, labels, mask, reply in zip(
        batch["input_ids"], batch["labels"], batch["attention_mask"], REPLIES, strict=True
    ):
        counted = labels != IGNORED
        assert tokenizer.decode(labels[counted]) == reply + "<|im_end|>"
        assert (labels[counted] == tokens[counted]).all()
        assert int(counted.nonzero().max()) == int(mask.sum()) - 1  # nothing but padding comes after
    assert len({int(mask.sum()) for mask in batch["attention_mask"]}) == len(REPLIES)


def test_what_precedes_the_reply_is_what_evaluation_asks(reader, examples):
    batch = SpeechLmCollate(reader)(examples)
    for row, example in enumerate(examples):
        asked = encode_prompts(reader.processor, PROMPTS, [example.samples])
        prompt = asked["input_ids"][0]
        assert (batch["input_ids"][row, : len(prompt)] == prompt).all()
        assert (batch["labels"][row, : len(prompt)] == IGNORED).all()
        frames = asked["feature_attention_mask"][0].bool()
        heard = batch["feature_attention_mask"][row].bool()
        assert (batch["input_features"][row][:, heard] == asked["input_features"][0][:, frames]).all()
    text = reader.processor.tokenizer.decode(batch["input_ids"][0][batch["attention_mask"][0].bool()])
    sound = "<|AUDIO|>" * 15  # 0.6 s at 25 tokens a second
    assert text == (
        "<|im_start|>system\nYou help at home.<|im_end|>\n<|im_start|>user\n"
        f"<|audio_bos|>{sound}<|audio_eos|>Answer what was said.<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>"
    )


def test_clips_are_padded_no_further_than_they_must_be_and_heard_the_same(source, reader, examples, monkeypatch):
    import torch

    clips = [examples[0].samples, examples[2].samples]  # 0.6 and 1 s; the model hears 4
    spared = encode_prompts(reader.processor, PROMPTS, clips)
    monkeypatch.setattr(speech_lm_model, "_PASS_OVER_PADDING", set())
    full = encode_prompts(reader.processor, PROMPTS, clips)
    assert (spared["input_features"].shape[2], full["input_features"].shape[2]) == (300, 400)
    model = open_model(source, "float32", "cpu")
    with torch.no_grad():
        assert (model(**spared).logits == model(**full).logits).all()


def test_the_loss_of_a_batch_is_that_of_its_rows(source, reader, examples):
    """Padding and neighbours change nothing of what a row's tokens cost."""
    import torch

    model, collate = open_model(source, "float32", "cpu"), SpeechLmCollate(reader)
    with torch.no_grad():
        whole = float(model(**collate(examples)).loss)
        alone = [float(model(**collate([one])).loss) for one in examples]
    counts = [len(reader.encode_reply(one.reply)) for one in examples]
    assert whole == pytest.approx(np.average(alone, weights=counts), rel=1e-4)


def test_it_is_pickled_without_what_it_opens(reader, examples):
    first = SpeechLmCollate(reader)
    size = len(pickle.dumps(first))
    again = pickle.loads(pickle.dumps(first))
    expected = first(examples)
    assert size < 2000
    assert all((again(examples)[name] == expected[name]).all() for name in expected)


def test_rows_that_do_not_fit_are_told_before_their_sound_is_looked_at(source, reader):
    longest = len(SpeechLmCollate(reader)([Spoken(tone(2.25), 16000, REPLIES[1])])["input_ids"][0])
    for limit, absent in ((longest, None), (longest - 1, "longer_than_max_length")):
        assert SpeechLmReader(source, PROMPTS, limit).explain_absence(2.25, REPLIES[1]) == absent
    assert reader.explain_absence(4.0, "Yes.") is None
    assert reader.explain_absence(4.01, "Yes.") == "longer_than_the_model_hears"


def test_a_template_that_cannot_be_trained_on_is_one_sentence(source):
    processor = open_processor(source)
    template = processor.chat_template
    processor.chat_template = template.replace("assistant\\n", "assistant\\n<think>")
    with pytest.raises(EngineSetupError, match="writes an assistant's turn otherwise than it asks for one"):
        find_turn_end(processor)
    processor.chat_template = template.replace("<|im_end|>\\n' }}\n{%- endfor", "END' }}\n{%- endfor")
    with pytest.raises(EngineSetupError, match="ends no assistant's turn with a special token"):
        find_turn_end(processor)
