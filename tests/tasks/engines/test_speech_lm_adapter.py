"""A fine-tuned model as a system that is evaluated: its adapter is found, held against the base model, and heard."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("peft")

from bystander.schemas.engine_configs import TransformersAudioConfig
from bystander.schemas.engines import AnswerReply, AnswerRequest, RowFault
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.train_tpi_config import LoraSettings
from bystander.schemas.trained_speech_lm import TRAINED_FILE, TrainedSpeechLm
from bystander.tasks.engines.speech_lm_model import find_model, open_model
from bystander.tasks.engines.transformers_audio import TransformersAudioCandidate
from bystander.tasks.training.lora import add_lora, save_adapter
from tiny_omni import save_qwen_omni

CLIP = (0.3 * np.sin(np.arange(16000) / 9)).astype(np.float32)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return save_qwen_omni(tmp_path_factory.mktemp("models") / "omni")


@pytest.fixture(scope="module")
def run(base, tmp_path_factory):
    """The folder of a training run whose adapter changes much."""
    import torch

    folder = tmp_path_factory.mktemp("runs") / "run"
    source = find_model(str(base), None, (), "train")
    model = add_lora(open_model(source, "float32", "cpu"), LoraSettings(r=4), source, seed=1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.copy_(torch.linspace(-0.5, 0.5, parameter.numel()).reshape(parameter.shape))
    save_adapter(model, source, folder / "model")
    trained = TrainedSpeechLm(
        base_model=str(base), base_digest=source.digest, system_prompt="You help at home.", user_prompt="Answer."
    )
    (folder / "model" / TRAINED_FILE).write_text(trained.model_dump_json())
    return folder


def answer(**fields):
    engine = TransformersAudioCandidate(TransformersAudioConfig(**{"max_tokens": 12, "device": "cpu", **fields}))
    try:
        [reply] = engine.answer([AnswerRequest("row", CLIP, 16000, 1)])
    finally:
        engine.close()
    return reply, engine.identity


def test_the_adapter_changes_what_is_said_and_is_part_of_the_identity(base, run):
    asked = {"model": str(base), "system_prompt": "You help at home.", "user_prompt": "Answer."}
    plain, plain_identity = answer(**asked)
    adapted, identity = answer(**asked, adapter=str(run))
    assert isinstance(adapted, AnswerReply | RowFault)
    assert adapted != plain
    assert identity.model == plain_identity.model == "omni"
    assert identity.digest() != plain_identity.digest()
    # The run's folder and the adapter's own are one adapter, and model and prompts are in it.
    assert answer(adapter=str(run / "model")) == (adapted, identity)
    assert answer(adapter=str(run), user_prompt="")[1] != identity


def test_other_bytes_are_another_system(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    path = copy / "model" / "adapter_config.json"
    path.write_text(path.read_text() + "\n")
    opened = [TransformersAudioCandidate(TransformersAudioConfig(adapter=str(folder))) for folder in (run, copy)]
    assert opened[0].identity != opened[1].identity


def test_an_adapter_of_another_model_is_refused_before_it_is_loaded(run, tmp_path):
    other = save_qwen_omni(tmp_path / "other", seed=4)
    with pytest.raises(
        EngineSetupError, match=r"was trained on .*omni [0-9a-f]{12}, not on .*other [0-9a-f]{12}; name"
    ):
        answer(model=str(other), adapter=str(run))
    foreign = shutil.copytree(run / "model", tmp_path / "foreign")
    (foreign / TRAINED_FILE).unlink()
    path = foreign / "adapter_config.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"base_model_name_or_path": "Qwen/Qwen2.5-Omni-7B", "revision": "abc"}))
    with pytest.raises(EngineSetupError, match=r"was trained on Qwen/Qwen2\.5-Omni-7B abc, not on Qwen/Qwen2-Audio-7B"):
        answer(model="Qwen/Qwen2-Audio-7B", adapter=str(foreign))


def test_an_adapter_that_fits_no_layer_is_one_sentence(base, run, tmp_path):
    for name, change in {
        "other": {"target_modules": ["c_attn"]},
        "fewer": {"target_modules": ["q_proj"]},
        "wider": {"r": 8},
    }.items():
        broken = shutil.copytree(run / "model", tmp_path / name)
        path = broken / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
        with pytest.raises(EngineSetupError, match="does not fit the model"):
            answer(model=str(base), adapter=str(broken))


def test_what_is_no_adapter_is_one_sentence(base, run, tmp_path):
    with pytest.raises(EngineSetupError, match=r"there is no adapter_config\.json; name the folder of a training run"):
        answer(model=str(base), adapter=str(tmp_path))
    half = shutil.copytree(run / "model", tmp_path / "half")
    (half / "adapter_model.safetensors").unlink()
    with pytest.raises(EngineSetupError, match=r"there is no adapter_model\.safetensors beside"):
        answer(model=str(base), adapter=str(half))
    broken = shutil.copytree(run / "model", tmp_path / "broken")
    (broken / "adapter_config.json").write_text("{")
    with pytest.raises(EngineSetupError, match=r"adapter_config\.json cannot be read"):
        answer(model=str(base), adapter=str(broken))
    with pytest.raises(ValueError, match="model is missing"):
        TransformersAudioConfig()


def test_an_answer_ends_where_the_template_ends_a_turn(base, tmp_path):
    """Whatever the model's own generation settings say."""
    silent = shutil.copytree(base, tmp_path / "silent")
    path = silent / "generation_config.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in fields.items() if name != "eos_token_id"}))
    engine = TransformersAudioCandidate(TransformersAudioConfig(model=str(silent), max_tokens=4, device="cpu"))
    engine.answer([AnswerRequest("row", CLIP, 16000, 1)])
    assert engine._stops == [engine._processor.tokenizer.convert_tokens_to_ids("<|im_end|>")]
    engine.close()
