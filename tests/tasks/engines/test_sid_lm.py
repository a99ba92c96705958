"""The model of the SID paper's detector, with tiny random encoders and language models."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bystander.schemas.detector_configs import SidLmDetectorConfig, parse_detectors
from bystander.schemas.engines import Samples
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.sid_lm_config import SidLmConfig
from bystander.tasks.engines import sid_lm_folder
from bystander.tasks.engines.detector_registry import computes_elsewhere, open_detector
from bystander.tasks.engines.pretrained_files import PretrainedFiles
from bystander.tasks.engines.sid_lm_detector import SidLmDetector
from bystander.tasks.engines.sid_lm_folder import (
    SAMPLING_RATE,
    SidLm,
    extract_features,
    open_pretrained,
    open_sid_lm,
    save_sid_lm,
    stack_features,
)
from bystander.tasks.stages.detect_breaks import listen
from tiny_sid_lm import save_language_model, save_omni, save_whisper

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

LENGTHS = (51000, 4000, 100, 16000, 160 * 137)
"""Samples of clips: several seconds, parts of one, less than a window, a whole one."""


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_omni(folder / "omni", shard_size="20KB")
    save_whisper(folder / "whisper")
    save_language_model(folder / "words")
    save_language_model(folder / "untied", tied=False)
    return folder


def make_sid_lm(models: Path, encoder: str = "omni", words: str = "words", seed: int = 0, **changes: Any) -> SidLm:
    if encoder == "whisper":
        changes = {"stack_frames": 4, "max_context_s": 2.0} | changes
    config = SidLmConfig(encoder=str(models / encoder), language_model=str(models / words), **changes)
    return open_pretrained(config, chunk_s=0.16, k=3, seed=seed)


def make_clips() -> list[Samples]:
    rng = np.random.default_rng(0)
    return [rng.normal(0, 0.1, count).astype(np.float32) for count in LENGTHS]


def extract(sid_lm: SidLm, clips: list[Samples]) -> list[Any]:
    return [extract_features(sid_lm.extractor, clip, sid_lm.folder.max_context_s) for clip in clips]


def test_of_a_whole_omni_model_only_the_audio_encoder_is_read(models: Path, tmp_path: Path) -> None:
    from transformers import Qwen3OmniMoeForConditionalGeneration

    whole = Qwen3OmniMoeForConditionalGeneration.from_pretrained(models / "omni")
    expected = {
        name.partition("audio_tower.")[2]: tensor
        for name, tensor in whole.state_dict().items()
        if "audio_tower." in name
    }
    folder = tmp_path / "omni"
    shutil.copytree(models / "omni", folder)
    places = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    needed = {file for name, file in places.items() if "audio_tower." in name}
    for file in {*places.values()} - needed:
        (folder / file).unlink()
    assert len(needed) < len({*places.values()})

    files = PretrainedFiles(str(folder))
    read = files.read_part("audio_tower.")
    assert read.keys() == expected.keys()
    assert all(torch.equal(read[name], expected[name]) for name in read)
    (folder / sorted(needed)[0]).unlink()
    with pytest.raises(EngineSetupError, match="which is missing; fetch the model again"):
        PretrainedFiles(str(folder)).read_part("audio_tower.")


@pytest.mark.parametrize("encoder", ["omni", "whisper"])
@pytest.mark.parametrize("words", ["words", "untied"])
def test_a_clip_in_a_batch_is_heard_as_it_is_alone(models: Path, encoder: str, words: str) -> None:
    sid_lm = make_sid_lm(models, encoder, words)
    model = sid_lm.model.eval()
    features = extract(sid_lm, make_clips())
    with torch.no_grad():
        batch = model(*stack_features(features))["logits"]
        alone = torch.cat([model(*stack_features([one]))["logits"] for one in features])
        tokens = [sid_lm.tokenizer("yes but").input_ids, sid_lm.tokenizer("no").input_ids]
        targets = torch.full((2, 7), -100)
        for row, one in zip(targets, tokens, strict=True):
            row[: len(one)] = torch.tensor(one)
        both = model(*stack_features(features[:2]), targets=targets)["loss"]
        each = [
            model(*stack_features([one]), targets=torch.tensor([row]))["loss"] * len(row)
            for one, row in zip(features[:2], tokens, strict=True)
        ]
    torch.testing.assert_close(batch, alone, atol=1e-6, rtol=0)
    assert len({round(float(one), 5) for one in batch}) == len(LENGTHS)
    torch.testing.assert_close(both, sum(each) / sum(map(len, tokens)), atol=1e-5, rtol=0)


def test_what_is_behind_a_prefix_does_not_reach_it(models: Path) -> None:
    """Features of the beginning of a clip are its own: a loud end makes them no quieter."""
    sid_lm = make_sid_lm(models)
    clip = make_clips()[0]
    loud = np.concatenate([clip[:16000] * np.float32(1e-4), clip[16000:] * 5])
    whole, prefix = extract(sid_lm, [loud, loud[:16000]])
    assert prefix.shape == (16, 100)
    assert not np.allclose(whole[:, :90], prefix[:, :90], atol=0.01)
    np.testing.assert_array_equal(extract(sid_lm, [clip[:16000] * np.float32(1e-4)])[0], prefix)


@pytest.mark.parametrize(("encoder", "positions"), [("omni", [42, 4, 1, 13, 18]), ("whisper", [50, 7, 1, 25, 35])])
def test_shapes(models: Path, encoder: str, positions: list[int]) -> None:
    """AuT: 13 positions a second of frames; Whisper: 50 a second, of 2 s at most here, four side by side."""
    sid_lm = make_sid_lm(models, encoder)
    stacked, frames = stack_features(extract(sid_lm, make_clips()))
    states = sid_lm.model.encoder(stacked, frames)
    projected = [sid_lm.model.projector(one) for one in states]
    if encoder == "whisper":
        assert [len(one) for one in states] == [100, 13, 1, 50, 69]
        positions = [-(-len(one) // 4) for one in states]
    assert [tuple(one.shape) for one in projected] == [(count, 32) for count in positions]
    outputs = sid_lm.model(stacked, frames, labels=torch.tensor([0.0, 1, 0, 1, 1]))
    expected = torch.nn.functional.binary_cross_entropy(outputs["logits"].sigmoid(), torch.tensor([0.0, 1, 0, 1, 1]))
    torch.testing.assert_close(outputs["loss"], expected)


def test_whispers_filling_is_the_silence_of_its_own_extractor(models: Path) -> None:
    sid_lm = make_sid_lm(models, "whisper")
    clip = make_clips()[3]
    heard: list[Any] = []
    inner = sid_lm.model.encoder.encoder
    inner.register_forward_pre_hook(lambda _, __, given: heard.append(given["input_features"]), with_kwargs=True)
    stacked, frames = stack_features(extract(sid_lm, [clip]))
    sid_lm.model.encoder(stacked, frames)
    padded = sid_lm.extractor(clip, sampling_rate=16000, max_length=32000, return_tensors="pt")["input_features"]
    assert heard[0].shape == padded.shape == (1, 16, 200)
    torch.testing.assert_close(heard[0][..., :98], padded[..., :98])
    torch.testing.assert_close(heard[0][..., 102:], padded[..., 102:])


def test_a_longer_clip_is_heard_from_its_end(models: Path) -> None:
    sid_lm = make_sid_lm(models, max_context_s=1.0)
    clip = make_clips()[0]
    whole, end = extract(sid_lm, [clip, clip[-16000:]])
    np.testing.assert_array_equal(whole, end)


def test_new_weights_hang_on_the_seed(models: Path) -> None:
    first, again, other = (make_sid_lm(models, seed=seed).model.state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    changed = {name.split(".")[0] for name in first if not torch.equal(first[name], other[name])}
    assert changed == {"projector", "head"}


@pytest.mark.parametrize(("encoder", "words"), [("omni", "words"), ("whisper", "untied")])
def test_a_folder_gives_the_same_detector(models: Path, tmp_path: Path, encoder: str, words: str) -> None:
    sid_lm = make_sid_lm(models, encoder, words)
    save_sid_lm(tmp_path / "model", sid_lm)
    opened = open_sid_lm(tmp_path / "model")
    assert opened.folder == sid_lm.folder
    given = stack_features(extract(sid_lm, make_clips()))
    with torch.no_grad():
        assert torch.equal(opened.model(*given)["logits"], sid_lm.model.eval()(*given)["logits"])
    assert opened.tokenizer("yeah, but").input_ids == sid_lm.tokenizer("yeah, but").input_ids


def test_stages_train_what_they_are_told_to(models: Path) -> None:
    model = make_sid_lm(models, words="untied").model

    def list_trained() -> set[str]:
        return {name.split(".")[0] for name, one in model.named_parameters() if one.requires_grad}

    model.train_parts(SidLmConfig().alignment_parts, aligns=True)
    assert list_trained() == {"encoder", "projector", "language_model", "vocabulary"}
    model.train_parts(SidLmConfig().detection_parts, aligns=False)
    assert list_trained() == {"encoder", "projector", "language_model", "head"}
    assert not model.language_model.get_input_embeddings().weight.requires_grad
    model.train_parts(("head",), aligns=False)
    assert list_trained() == {"head"}


def test_a_detector_hears_growing_prefixes(models: Path, tmp_path: Path) -> None:
    sid_lm = make_sid_lm(models)
    save_sid_lm(tmp_path / "run" / "model", sid_lm)
    detector = SidLmDetector(SidLmDetectorConfig(model=str(tmp_path / "run")), Path)
    assert (detector.sampling_rate, detector.chunk_samples) == (SAMPLING_RATE, 2560)
    clip = make_clips()[0][:20000]
    stream, other = detector.open_stream(), detector.open_stream()
    other.measure(make_clips()[3][:2560])
    found = [stream.measure(clip[start : start + 2560]) for start in range(0, len(clip), 2560)]
    prefixes = extract(sid_lm, [clip[: start + 2560] for start in range(0, len(clip), 2560)])
    with torch.no_grad():
        expected = torch.cat([sid_lm.model.eval()(*stack_features([one]))["logits"] for one in prefixes]).sigmoid()
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)
    assert detector.identity.model == "run"
    assert dict(detector.identity.settings)["threshold"] == "0.5"
    detector.close()
    with pytest.raises(EngineSetupError, match="was closed"):
        stream.accept(clip)


def test_k_in_a_row_on_the_command_line(models: Path, tmp_path: Path) -> None:
    save_sid_lm(tmp_path / "d", make_sid_lm(models))
    clip = make_clips()[0]
    probabilities = SidLmDetector(SidLmDetectorConfig(model=str(tmp_path / "d")), Path).open_stream()
    values = [probabilities.measure(clip[start : start + 2560]) for start in range(0, len(clip), 2560)]
    threshold = float(np.median(values))
    written = f"k3:sid_lm:model={tmp_path / 'd'}:threshold={threshold}:device=cpu"
    (config,) = parse_detectors(f"paper={written}").values()
    assert computes_elsewhere(config)
    stops = [stops for _, stops in listen(clip, SAMPLING_RATE, open_detector(config, Path))]
    positive = [value >= threshold for value in values]
    assert stops == [at >= 2 and all(positive[at - 2 : at + 1]) for at in range(len(values))]


def test_streams_on_several_threads_do_not_disturb_each_other(models: Path, tmp_path: Path) -> None:
    save_sid_lm(tmp_path / "d", make_sid_lm(models))
    detector = SidLmDetector(SidLmDetectorConfig(model=str(tmp_path / "d")), Path)
    clips = make_clips()
    found: dict[int, float] = {}

    def hear(at: int) -> None:
        found[at] = detector.open_stream().measure(clips[at])

    threads = [threading.Thread(target=hear, args=(at,)) for at in range(len(clips))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[at] for at in range(len(clips))] == [detector.open_stream().measure(clip) for clip in clips]


def test_mistakes_are_named(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineSetupError, match="no such folder; check the model's path"):
        make_sid_lm(models, "missing")
    with pytest.raises(EngineSetupError, match="'qwen3' has no audio encoder that we know; name a Qwen3-Omni or Whis"):
        make_sid_lm(models, "words")
    with pytest.raises(EngineSetupError, match=r"model.max_context_s: .* hears 2 s and no more; lower it"):
        make_sid_lm(models, "whisper", max_context_s=3.0)
    with pytest.raises(EngineSetupError, match=r"no config.json of a trained detector; name the folder"):
        SidLmDetector(SidLmDetectorConfig(model=str(tmp_path)), Path)
    with pytest.raises(EngineSetupError, match="is none of a sid_lm detector"):
        SidLmDetector(SidLmDetectorConfig(model=str(models / "words")), Path)
    save_sid_lm(tmp_path / "d", make_sid_lm(models))
    (tmp_path / "d" / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(EngineSetupError, match="the detector cannot be loaded"):
        SidLmDetector(SidLmDetectorConfig(model=str(tmp_path / "d")), Path).open_stream().measure(make_clips()[3])
    there = "bystander.tasks.engines.package_check.find_spec"
    monkeypatch.setattr(there, lambda name: None if name == "torch" else name)
    with pytest.raises(EngineSetupError, match=r"sid_lm needs torch; run: pip install 'bystander\[train\]'"):
        SidLmDetector(SidLmDetectorConfig(model=str(tmp_path / "d")), Path)
    assert sid_lm_folder.find_model_folder(tmp_path) == tmp_path
