"""A detector trained by the real flow, and heard by the real evaluation."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bystander.flows.check_train_sid import check_train_sid
from bystander.flows.evaluate_sid import run_evaluate_sid
from bystander.flows.train_sid import run_train_sid
from bystander.schemas.detector_configs import parse_detectors
from bystander.schemas.errors import ConfigError, EngineSetupError, UserError
from bystander.schemas.evaluate_sid_config import load_sid_evaluation_config
from bystander.schemas.train_sid_config import TrainSidConfig, list_train_sid_profiles, load_train_sid_config
from bystander.storage.filesystem import open_store
from bystander.storage.training_manifest import open_training, read_training
from bystander.tasks.training.sid_trainers import describe_usage
from sid_rows import make_sid_rows, write_sid_build, write_sid_train
from tiny_sid_lm import save_language_model, save_whisper

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two tiny models, a build to train on and a bench."""
    folder = tmp_path_factory.mktemp("given")
    save_whisper(folder / "whisper", hears_s=3)
    save_language_model(folder / "words")
    write_sid_train(folder / "build", make_sid_rows(3))
    write_sid_build(folder / "bench", make_sid_rows(1))
    (folder / "config-only").mkdir()
    shutil.copy(folder / "whisper" / "config.json", folder / "config-only")
    write_sid_train(folder / "cut", make_sid_rows(1))
    for shard in (folder / "cut" / "data").iterdir():
        shard.write_bytes(shard.read_bytes()[:-100])
    return folder


def make_config(given: Path, store: Path, **changes: Any) -> TrainSidConfig:
    overrides = {
        "data": [str(given / "build")],
        "store": str(store),
        "name": "tiny",
        "device": "cpu",
        "seed": 5,
        "chunk_s": 0.5,
        "k": 2,
        "held_out.share": 0.3,
        "crops.an_utterance": 4,
        "model.encoder": str(given / "whisper"),
        "model.language_model": str(given / "words"),
        "model.stack_frames": 4,
        "model.max_context_s": 3.0,
    }
    for stage in ("alignment", "optimisation"):
        pace = {"max_steps": 3, "batch_size": 4, "micro_batch_size": 4, "learning_rate": 0.001}
        overrides |= {f"{stage}.{name}": value for name, value in pace.items()}
        overrides |= {f"{stage}.precision": "float32", f"{stage}.gradient_checkpointing": True}
    return load_train_sid_config("paper", (), overrides | changes)


@pytest.mark.usefixtures("prefect_server")
def test_a_detector_is_trained_published_and_evaluated(given: Path, tmp_path: Path) -> None:
    config = make_config(given, tmp_path)
    outcome = run_train_sid(config)
    folder = tmp_path / "trained" / "tiny"
    assert outcome.location == str(folder)
    assert outcome.is_new
    manifest = read_training(open_training(open_store(config.store), "tiny"))
    assert (manifest.kind, manifest.architecture, manifest.config["k"]) == ("sid", "sid_lm", 2)
    assert [phase.phase for phase in manifest.phases] == ["alignment", "detection"]
    assert manifest.base_model is not None
    assert manifest.base_model.digest is not None
    saved = json.loads((folder / "model" / "config.json").read_text())
    picked = json.loads((folder / "threshold.json").read_text())
    assert saved["threshold"] == picked["threshold"] == manifest.figures["threshold"]
    assert (saved["k"], picked["k"]) == (2, 2)
    assert json.loads((folder / "crops.json").read_text())["crops"] == manifest.figures["crops_an_epoch"]
    card = (folder / "README.md").read_text()
    assert "bystander evaluate sid --bench BENCH --detectors tiny=k2:sid_lm:model=.\n" in card
    assert "the time that a clip takes grows with the square of its length" in card
    assert str(given) not in (folder / "model" / "config.json").read_text()

    again = run_train_sid(config)
    assert not again.is_new
    assert again.manifest == manifest

    detectors = parse_detectors(f"tiny=k2:sid_lm:model={folder}:device=cpu,energy_vad")
    evaluation = load_sid_evaluation_config(
        (), {"bench": str(given / "bench"), "store": str(tmp_path), "resamples": 100}, detectors
    )
    scores = run_evaluate_sid(evaluation).scores
    tiny = scores.systems[0]
    assert tiny.name == "tiny"
    assert tiny.identity["name"] == "k_consecutive"
    assert dict(tiny.identity["settings"]) == {"k": "2", "of": "sid_lm"}  # type: ignore[call-overload]
    assert scores.bench.cases["average"] == len(make_sid_rows(1))


def test_profiles_are_the_papers_and_a_miniature() -> None:
    assert list_train_sid_profiles() == ["miniature", "paper"]
    paper, miniature = (load_train_sid_config(name) for name in ("paper", "miniature"))
    assert paper.model.architecture == "sid_lm"
    assert (paper.k, paper.crops.shift_words) == (3, 1)
    assert paper.alignment is not None
    assert miniature.alignment is None
    assert "stop at the first positive chunk" in describe_usage(miniature.model_copy(update={"k": 1}))
    assert "stop after 3 positive chunks in a row" in describe_usage(paper)
    assert load_train_sid_config("miniature", (), {"model.architecture": "sid_lm"}).model.architecture == "sid_lm"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": []}, "data: name the folder of a finished build of SID rows, with --data"),
        ({"data": ["/nowhere"]}, "/nowhere"),
        ({"model.encoder": "/nowhere/else"}, "/nowhere/else: no such folder; check the model's path"),
        ({"model.align_on_builds": False}, "model.transcripts: stage 1 has nothing to hear"),
        ({"model.transcripts": [{"path": "/nowhere.parquet"}]}, "^--transcripts /nowhere.parquet: is missing"),
        ({"model.encoder": "{given}/words"}, "^model.encoder .*words: its type 'qwen3' has no audio encoder"),
        ({"model.encoder": "{given}/config-only"}, r"^model.encoder .*config-only: it has no model\.safetensors"),
        ({"model.language_model": "{given}/build"}, r"^model.language_model .*build: it has no config\.json"),
        ({"data": ["{given}/bench"]}, "^--data .*bench: is a bench, which is for scores alone; name a build of sid-"),
        ({"data": ["{given}/words"]}, r"^--data .*words: there is no manifest\.json, so it is no finished build"),
        (
            {"data": ["{given}/cut"]},
            r"^.*cut/data/.*parquet: has \d+ bytes, its manifest .*`bystander verify .*cut`",
        ),
    ],
)
def test_mistakes_are_found_before_any_work(given: Path, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    told = json.loads(json.dumps(changes).replace("{given}", str(given)))
    with pytest.raises(UserError, match=message):
        check_train_sid(make_config(given, tmp_path, **told))


def test_clips_of_which_none_has_a_break_teach_nothing(given: Path, tmp_path: Path) -> None:
    quiet = [row for row in make_sid_rows(1) if row["total_nonbreak"]]
    store = write_sid_train(tmp_path / "quiet", quiet)
    with pytest.raises(UserError, match="data: no clip has a break, so there is nothing to learn"):
        check_train_sid(make_config(given, tmp_path, data=[store.uri]))
    check_train_sid(make_config(given, tmp_path, data=[store.uri, str(given / "build")]))


def test_a_miniature_has_no_stage_of_alignment(given: Path, tmp_path: Path) -> None:
    config = load_train_sid_config(
        "miniature", (), {"data": [str(given / "build")], "store": str(tmp_path), "alignment.epochs": 1}
    )
    with pytest.raises(ConfigError, match="alignment: is a stage of the architecture sid_lm; leave it null for recurr"):
        check_train_sid(config)


def test_without_torch_the_extra_is_named(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "bystander.tasks.engines.package_check.find_spec", lambda name: None if name == "torch" else object()
    )
    with pytest.raises(EngineSetupError, match=r"training needs torch; run: pip install 'bystander\[train\]'"):
        check_train_sid(make_config(given, tmp_path))
