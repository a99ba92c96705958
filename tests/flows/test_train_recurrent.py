"""The recurrent detector trained by the real flow, and heard by the real evaluation without torch."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from bystander.flows.evaluate_sid import run_evaluate_sid
from bystander.flows.train_sid import run_train_sid
from bystander.schemas.detector_configs import parse_detectors
from bystander.schemas.evaluate_sid_config import load_sid_evaluation_config
from bystander.schemas.train_sid_config import load_train_sid_config
from bystander.storage.filesystem import open_store
from bystander.storage.training_manifest import open_training, read_training
from bystander.tasks.training.published_curves import read_histories
from sid_rows import make_sid_rows, write_sid_build, write_sid_train

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


FEW_STEPS = {
    "device": "cpu",
    "chunk_s": 0.08,
    "k": 2,
    "model.features": "log_mel",
    "model.hidden": 8,
    "model.mel_bands": 12,
    "optimisation.batch_size": 8,
    "optimisation.micro_batch_size": 8,
    "optimisation.learning_rate": 0.02,
}


@pytest.mark.usefixtures("prefect_server")
def test_it_is_the_mean_of_networks_that_each_lack_a_fold(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    write_sid_train(tmp_path / "build", make_sid_rows(4))
    overrides = {"data": [str(tmp_path / "build")], "store": str(tmp_path), "name": "small", **FEW_STEPS}
    overrides |= {"model.folds": 2, "optimisation.max_steps": 6}
    config = load_train_sid_config("miniature", (), overrides)
    run_train_sid(config)
    folder = tmp_path / "trained" / "small"
    manifest = read_training(open_training(open_store(str(tmp_path)), "small"))
    assert [phase.phase for phase in manifest.phases] == ["fold1", "fold2"]
    rows = len(make_sid_rows(4))
    assert [phase.examples + phase.held_out for phase in manifest.phases] == [rows, rows]
    assert sum(phase.held_out for phase in manifest.phases) == rows
    saved = json.loads((folder / "model" / "config.json").read_text())
    assert (saved["members"], saved["threshold"]) == (2, manifest.figures["threshold"])
    assert json.loads((folder / "threshold.json").read_text())["clips"] == rows
    assert any(note.startswith("It is the mean of 2 networks.") for note in manifest.notes)
    weights = (folder / "model" / "detector.onnx").read_bytes()
    shutil.rmtree(tmp_path / "trained")
    run_train_sid(config)
    assert (folder / "model" / "detector.onnx").read_bytes() == weights


@pytest.mark.usefixtures("prefect_server")
def test_it_is_trained_published_and_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    write_sid_train(tmp_path / "build", make_sid_rows(4))
    write_sid_build(tmp_path / "bench", make_sid_rows(1))
    overrides = {
        "data": [str(tmp_path / "build")],
        "store": str(tmp_path),
        "name": "small",
        "held_out.share": 0.3,
        "model.folds": 1,
        "optimisation.max_steps": 40,
        **FEW_STEPS,
    }
    outcome = run_train_sid(load_train_sid_config("miniature", (), overrides))
    folder = tmp_path / "trained" / "small"
    manifest = read_training(open_training(open_store(str(tmp_path)), "small"))
    assert outcome.is_new
    assert (manifest.kind, manifest.architecture) == ("sid", "recurrent")
    (history,) = read_histories(open_training(open_store(str(tmp_path)), "small"), manifest).values()
    losses = [record.loss for record in history if record.loss is not None]
    assert losses[-1] < 0.8 * losses[0]
    saved = json.loads((folder / "model" / "config.json").read_text())
    assert saved["threshold"] == manifest.figures["threshold"]
    assert (saved["k"], saved["chunk_s"], saved["mel_bands"]) == (2, 0.08, 12)
    assert "--detectors small=k2:recurrent:model=." in (folder / "README.md").read_text()

    stub = ModuleType("torch")  # an evaluation is to do without it
    stub.Tensor = type("Tensor", (), {})  # type: ignore[attr-defined]  # scipy looks whether an array is one
    monkeypatch.setitem(sys.modules, "torch", stub)
    detectors = parse_detectors(f"small=k2:recurrent:model={folder},energy_vad")
    settings = {"bench": str(tmp_path / "bench"), "store": str(tmp_path), "resamples": 100}
    scores = run_evaluate_sid(load_sid_evaluation_config((), settings, detectors)).scores
    small = scores.systems[0]
    assert small.name == "small"
    assert small.identity["name"] == "k_consecutive"
    assert scores.bench.cases["average"] == len(make_sid_rows(1))
