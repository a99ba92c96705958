"""A Qwen2.5-Omni of a few layers learns: its loss falls, a killed run ends as one that was not, its folder opens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("peft")

from bystander.schemas.engine_configs import TransformersAudioConfig
from bystander.schemas.engines import AnswerReply, AnswerRequest, RowFault
from bystander.schemas.identity import make_rng
from bystander.schemas.mixture_config import TWO_INPUT_OPTIMISATION
from bystander.schemas.train_tpi_config import LoraSettings, SpeechLmConfig, TrainTpiConfig
from bystander.schemas.train_tpi_profiles import load_train_tpi_config
from bystander.tasks.engines.speech_lm_model import pin_model
from bystander.tasks.engines.transformers_audio import TransformersAudioCandidate
from bystander.tasks.training.contract import FitJob
from bystander.tasks.training.fit import fit
from bystander.tasks.training.speech_lm import (
    MakeSpokenReply,
    SpokenReply,
    find_speech_lm,
    open_reader,
    open_trainable,
    save_speech_lm,
)
from bystander.tasks.training.speech_lm_batches import SpeechLmCollate
from tiny_omni import save_qwen_omni

REPLIES = ("Yes.", "No!")


class Clips:
    """Low tones that are to be answered one way and high ones another."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self):
        return self.count

    @property
    def lengths(self):
        return np.array([0.2 + 0.1 * (number % 3) for number in range(self.count)])

    @property
    def groups(self):
        return np.zeros(self.count, np.int64)

    def read(self, numbers, epoch):
        return [self.make(number) for number in numbers]

    def make(self, number):
        n = round(16000 * self.lengths[number])
        noise = make_rng(0, str(number), "clips").standard_normal(n)
        samples = 0.3 * np.sin(2 * np.pi * (200, 3000)[number % 2] * np.arange(n) / 16000) + 0.01 * noise
        return SpokenReply(samples.astype(np.float32), 16000, REPLIES[number % 2])


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return save_qwen_omni(tmp_path_factory.mktemp("models") / "omni")


def configure(base, **fields):
    given = {
        "model.model": str(base),
        "held_out.share": 0.0,
        "optimisation.max_steps": 12,
        "optimisation.batch_size": 8,
        "optimisation.micro_batch_size": 4,
        "optimisation.learning_rate": 2e-2,
        "model.lora": {"r": 16, "alpha": 32, "dropout": 0.1},
        "seed": 3,
    }
    return load_train_tpi_config("fake", (), given | {name.replace("__", "."): v for name, v in fields.items()})


def make_job(config, folder, count=32):
    source = find_speech_lm(config.model)
    model = open_trainable(config, config.model, source)
    return FitJob(config, model, Clips(count), None, SpeechLmCollate(open_reader(config.model, source)), folder)


def list_trained(model):
    return {name: value.detach().clone() for name, value in model.named_parameters() if value.requires_grad}


def answer(**fields):
    engine = TransformersAudioCandidate(TransformersAudioConfig(**{"max_tokens": 16, "device": "cpu", **fields}))
    try:
        return engine.answer([AnswerRequest(str(n), Clips(2).make(n).samples, 16000, 1) for n in range(2)])
    finally:
        engine.close()


def test_the_loss_falls_and_the_adapter_says_what_it_learnt(base, tmp_path):
    config = configure(base, optimisation__max_steps=60, optimisation__micro_batch_size=8)
    job = make_job(config, tmp_path / "fit")
    untouched = {name: value.detach().clone() for name, value in job.model.named_parameters() if ".lora_" not in name}
    losses = [record.loss for record in fit(job).history]
    assert np.mean(losses[-5:]) < 0.2 * losses[0]
    after = dict(job.model.named_parameters())
    assert all((value == after[name]).all() for name, value in untouched.items())
    save_speech_lm(job.model, config.model, find_speech_lm(config.model), tmp_path / "run" / "model")
    assert answer(adapter=str(tmp_path / "run")) == [AnswerReply(reply) for reply in REPLIES]
    assert answer(model=str(base)) != [AnswerReply(reply) for reply in REPLIES]


def test_a_run_that_was_killed_ends_with_the_same_weights(base, tmp_path):
    config = configure(base)
    whole = make_job(config, tmp_path / "whole")
    outcome = fit(whole)

    class Killed(Exception):
        pass

    def kill(record):
        if record.step == 7:
            raise Killed

    with pytest.raises(Killed):
        fit(make_job(config, tmp_path / "killed"), kill)
    again = make_job(config, tmp_path / "killed")
    resumed = fit(again)
    assert resumed.resumed_from == (4,)
    assert [record.loss for record in resumed.history] == [record.loss for record in outcome.history]
    first, second = list_trained(whole.model), list_trained(again.model)
    assert len(first) == 2 * (3 * 7 + 7)
    assert first.keys() == second.keys()
    assert all((first[name] == second[name]).all() for name in first)


def test_gradient_checkpointing_changes_no_loss(base, tmp_path):
    losses = {}
    for spared in (False, True):
        config = configure(base, optimisation__max_steps=4, optimisation__gradient_checkpointing=spared)
        losses[spared] = [record.loss for record in fit(make_job(config, tmp_path / str(spared))).history]
    assert losses[True] == losses[False]


def test_without_adapters_a_whole_model_is_saved_that_opens_by_its_run(base, tmp_path):
    config = configure(base, model__lora=None, optimisation__max_steps=2, model__system_prompt="You help.")
    assert config.model.lora is None
    job = make_job(config, tmp_path / "fit")
    fit(job)
    save_speech_lm(job.model, config.model, find_speech_lm(config.model), tmp_path / "run" / "model")
    before, after = answer(model=str(base), system_prompt="You help."), answer(model=str(tmp_path / "run"))
    assert before != after
    engine = TransformersAudioCandidate(TransformersAudioConfig(model=str(tmp_path / "run")))
    assert engine.identity.model == "run"


def test_rows_that_do_not_fit_are_left_out_with_a_reason(base):
    settings = SpeechLmConfig(model=str(base), max_length=60)
    make = MakeSpokenReply(open_reader(settings, find_speech_lm(settings)))
    rng = make_rng(0, "row", "test")
    row = {"samples": np.zeros(8000, np.float32), "reply": "Yes."}
    assert make(row, rng) == RowFault("longer_than_max_length", "0.50 s and a reply of 4 characters")
    fits = replace(make, reader=replace(make.reader, max_length=512))
    assert isinstance(fits(row, rng), SpokenReply)
    assert fits(row | {"samples": np.zeros(64001, np.float32)}, rng).reason == "longer_than_the_model_hears"


def test_the_paper_profile_is_the_papers_reference():
    config = load_train_tpi_config("paper")
    assert isinstance(config, TrainTpiConfig)
    optimisation = config.optimisation
    assert config.model == SpeechLmConfig(model="Qwen/Qwen2.5-Omni-7B", lora=LoraSettings(r=16, alpha=32))
    assert config.model.max_length == 8192
    assert (optimisation.epochs, optimisation.batch_size, optimisation.learning_rate) == (2, 16, 1e-4)
    assert (optimisation.schedule, optimisation.warmup_share) == ("cosine", 0.1)
    other = load_train_tpi_config("paper", (), {"model.architecture": "two_input"})
    assert other.model.architecture == "two_input"
    assert load_train_tpi_config("miniature").optimisation == TWO_INPUT_OPTIMISATION


def test_a_name_of_the_hub_is_pinned_to_the_commit_that_it_stands_for(base, monkeypatch):
    from transformers import AutoConfig

    folder = find_speech_lm(SpeechLmConfig(model=str(base)))
    assert pin_model(folder) == folder
    asked = []

    class Config:
        _commit_hash = "c0ffee"

    monkeypatch.setattr(
        AutoConfig, "from_pretrained", lambda name, **options: asked.append((name, options)) or Config()
    )
    monkeypatch.setattr("bystander.tasks.engines.speech_lm_model.reach_hub_model", lambda *_: True)
    pinned = pin_model(find_speech_lm(SpeechLmConfig(model="someone/omni", revision="main")))
    assert (pinned.source, pinned.revision, pinned.options) == ("someone/omni", "c0ffee", {"revision": "c0ffee"})
    assert asked == [("someone/omni", {"revision": "main"})]

    # A hub that does not answer, and files that are kept: nobody asks it again.
    monkeypatch.setattr("bystander.tasks.engines.speech_lm_model.reach_hub_model", lambda *_: False)
    kept = pin_model(find_speech_lm(SpeechLmConfig(model="someone/omni")))
    assert (kept.options, asked[1:]) == (
        {"revision": "c0ffee", "local_files_only": True},
        [("someone/omni", {"local_files_only": True})],
    )
