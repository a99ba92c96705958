"""Adapters: on which layers they are, that at first they change nothing, and that they come back from a file."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("peft")

from bystander.schemas.errors import ConfigError
from bystander.schemas.train_tpi_config import LoraSettings
from bystander.tasks.engines.peft_adapter import quiet_peft
from bystander.tasks.engines.speech_lm_model import ChatPrompts, encode_prompts, find_model, open_model, open_processor
from bystander.tasks.training.lora import add_lora, leave_eyes_out, save_adapter
from tiny_omni import save_qwen_omni

LANGUAGE = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"} | {
    f"mlp.{name}_proj" for name in ("gate", "up", "down")
}
EARS = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "fc1", "fc2"}
ALL_LINEAR = (
    {f"model.language_model.layers.{layer}.{name}" for layer in range(3) for name in LANGUAGE}
    | {f"model.audio_tower.layers.0.{name}" for name in EARS}
    | {"model.audio_tower.proj"}
)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return find_model(str(save_qwen_omni(tmp_path_factory.mktemp("models") / "omni")), None, (), "train")


def write_logits(model, source):
    import torch

    clip = (0.3 * np.sin(np.arange(16000) / 9)).astype(np.float32)
    with torch.no_grad():
        return model(**encode_prompts(open_processor(source), ChatPrompts(), [clip])).logits


def find_adapted(model):
    return {
        name.removeprefix("base_model.model.").split(".lora_")[0]
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }


def test_all_linear_layers_but_head_and_eyes_are_adapted(source):
    model = add_lora(open_model(source, "float32", "cpu"), LoraSettings(r=4, alpha=8), source, seed=1)
    assert find_adapted(model) == ALL_LINEAR
    assert all(".lora_" in name for name, parameter in model.named_parameters() if parameter.requires_grad)


def test_named_layers_are_adapted_where_they_do_not_see(source):
    model = add_lora(open_model(source, "float32", "cpu"), LoraSettings(target_modules=("q_proj", "q")), source, seed=1)
    assert find_adapted(model) == {name for name in ALL_LINEAR if name.endswith("q_proj")}
    with pytest.raises(ConfigError, match=r"model\.lora\.target_modules: \('nothing',\) does not fit the model"):
        add_lora(open_model(source, "float32", "cpu"), LoraSettings(target_modules=("nothing",)), source, seed=1)


def test_new_adapters_change_nothing_and_hang_on_the_seed(source):
    import torch

    plain = write_logits(open_model(source, "float32", "cpu"), source)
    states = []
    for seed in (1, 1, 2):
        before = torch.random.get_rng_state()
        model = add_lora(open_model(source, "float32", "cpu"), LoraSettings(r=4), source, seed).eval()
        assert (torch.random.get_rng_state() == before).all()
        assert (write_logits(model, source) == plain).all()
        states.append({name: value for name, value in model.state_dict().items() if "lora_A" in name})
    first, again, other = states
    assert all((first[name] == again[name]).all() for name in first)
    assert all((first[name] != other[name]).any() for name in first)


def test_saved_adapters_come_back_the_same_bytes_each_time(source, tmp_path):
    import torch
    from peft import PeftModel

    model = add_lora(open_model(source, "float32", "cpu"), LoraSettings(r=4), source, seed=1).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.05)
    save_adapter(model, source, tmp_path / "a")
    save_adapter(model, source, tmp_path / "b")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["adapter_config.json", "adapter_model.safetensors"]
    assert all((tmp_path / "a" / n).read_bytes() == (tmp_path / "b" / n).read_bytes() for n in names)
    with quiet_peft():
        opened = PeftModel.from_pretrained(open_model(source, "float32", "cpu"), tmp_path / "a").eval()
    assert (write_logits(opened, source) == write_logits(model, source)).all()
    assert (write_logits(opened, source) != write_logits(open_model(source, "float32", "cpu"), source)).any()


def test_without_adapters_all_but_the_eyes_are_trained(source):
    model = open_model(source, "float32", "cpu")
    leave_eyes_out(model)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {name for name, _ in model.named_parameters()} - trained == {
        name for name, _ in model.named_parameters() if ".visual." in name
    }
    assert "lm_head.weight" in trained
