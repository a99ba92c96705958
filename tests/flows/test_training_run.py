"""A training run in a store: published whole, found again, taken up after a stop, checked, shown and kept by gc."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from prefect import flow

from bystander.flows.flow_runs import run_flow
from bystander.flows.listeners import SilentListener, listening
from bystander.flows.training_run import TrainingDesk, TrainingOutcome, run_training
from bystander.schemas.errors import BuildError
from bystander.schemas.training_data import DataRecord, PartRecord, SourceRecord
from bystander.storage.build_lock import lock_build
from bystander.storage.filesystem import open_store
from bystander.storage.training_manifest import (
    BaseModelInfo,
    find_training,
    locate_work_folder,
    open_training,
    read_training,
)
from bystander.tasks.training.trained import Trained, TrainingInputs
from bystander.tasks.training.training_history import parse_history
from tiny_training import TinyConfig, TinyModel, make_job

torch.set_num_threads(1)
INPUTS = TrainingInputs(
    DataRecord(
        mixture="full",
        seed=3,
        held_out_share=0.2,
        sources=(
            SourceRecord(
                address="store/tpi-train/one",
                kind="tpi",
                dataset="tpi-train",
                build="one",
                rows_digest="a" * 64,
                rows=41,
            ),
            SourceRecord(address="hf://datasets/someone/dyadic@main/data", kind="dyadic", rows_digest="b" * 64, rows=9),
        ),
        parts={"two_speaker": PartRecord(rows=34, held_out=7, an_epoch=34)},
        train_digest="c" * 64,
        held_out_digest="d" * 64,
        left_out={"empty_reply": 2},
    ),
    BaseModelInfo(name="someone/tiny", revision="main"),
)


class Told(SilentListener):
    def __init__(self) -> None:
        self.phases: list[str] = []

    def on_phase(self, phase: str) -> None:
        self.phases.append(phase)


class Stopped(Exception):
    """Stands for a signal."""


def train_tiny(config: TinyConfig, stop_at: int | None = None, seed: int = 0) -> TrainingOutcome:
    """Train in the flow's frame; `stop_at` is the step at which the process is stopped."""

    def train(desk: TrainingDesk) -> Trained:
        job = make_job(desk.folder, TinyModel(), **config.model_dump(exclude={"store", "name"}))
        if stop_at is not None:
            job.model.register_forward_hook(lambda *_: calls.append(1) or _stop(len(calls), 2 * stop_at + 30))
        phase = desk.fit(job)
        (desk.output / "weights").mkdir()
        torch.save(job.model.state_dict(), desk.output / "weights" / "tiny.pt")
        (desk.output / "README.md").write_text("what a library wrote")
        return Trained(desk.output, (phase,), {"accuracy": 0.9}, ("It is tiny.",), "`load(it)`")

    calls: list[int] = []
    return run_training(config, "tpi", "tiny", INPUTS, train)


def _stop(calls: int, at: int) -> None:
    if calls >= at:
        raise Stopped


def make_config(store: str | Path, **changes: Any) -> TinyConfig:
    job = make_job(Path("unused"), **changes)
    return TinyConfig(**{**job.config.model_dump(), "store": str(store), "name": changes.get("name", "run")})


@pytest.fixture
def told() -> Iterator[Told]:
    listener = Told()
    with listening(listener):
        yield listener


@pytest.mark.usefixtures("prefect_server")
def test_a_run_is_published_whole_and_found_again(tmp_path: Path, told: Told) -> None:
    @flow(name="train-tiny")
    def train_flow(config: TinyConfig) -> TrainingOutcome:
        return train_tiny(config)

    config = make_config(tmp_path / "store")
    outcome = run_flow(train_flow, config, 1, "training:run")
    store = open_store(config.store)
    folder = tmp_path / "store" / "trained" / "run"
    assert outcome.is_new
    assert outcome.location == str(folder)
    manifest = read_training(open_training(store, "run"))
    assert manifest == outcome.manifest == find_training(store, "run", manifest.content_digest)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {info.file for info in manifest.files} | {"manifest.json"}
    assert files == {"README.md", "history/training.jsonl", "manifest.json", "report.html", "weights/tiny.pt"}
    phase = manifest.phases[0]
    history = parse_history((folder / phase.history).read_text(), phase.history)
    assert (phase.steps, phase.examples, phase.held_out, phase.resumed_from) == (23, 34, 7, ())
    assert (phase.first_loss, phase.last_loss) == (history[1].loss, history[-1].loss)
    best = min((r for r in history if r.held_out_loss is not None), key=lambda r: r.held_out_loss or 0.0)
    assert (phase.best_held_out_loss, phase.best_step) == (best.held_out_loss, best.step)
    assert not locate_work_folder(store, "run").exists()

    _, head, text = (folder / "README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(head) | {"tags": []} == {
        "base_model": "someone/tiny",
        "base_model_relation": "finetune",
        "library_name": "bystander",
        "datasets": ["someone/dyadic"],
        "pipeline_tag": "audio-text-to-text",
        "tags": [],
    }
    assert "It is tiny." in text
    assert "`load(it)`" in text
    assert "| training | 34 | 23 | 4 |" in text

    again = run_flow(train_flow, config, 1, "training:run")
    assert not again.is_new
    assert again.manifest == manifest
    assert told.phases[-1] == "nothing new: the published run was trained on just this"
    assert outcome.summary[1].startswith("training: 23 steps, loss ")


def test_a_stopped_run_is_taken_up_and_ends_the_same(tmp_path: Path, told: Told) -> None:
    whole = train_tiny(make_config(tmp_path / "whole"))
    config = make_config(tmp_path / "store")
    with pytest.raises(Stopped):
        train_tiny(config, stop_at=10)
    assert not (tmp_path / "store" / "trained").exists()
    outcome = train_tiny(config)
    assert outcome.manifest.phases[0].resumed_from
    assert any("going on from step" in phase for phase in told.phases)
    assert "taken up again at step" in outcome.summary[2]
    digests = [{info.file: info.sha256 for info in run.manifest.files} for run in (whole, outcome)]
    assert digests[0]["history/training.jsonl"] == digests[1]["history/training.jsonl"]
    weights = [torch.load(Path(run.location) / "weights" / "tiny.pt") for run in (whole, outcome)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_run_goes_to_an_object_store(object_store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = make_config(f"s3://{object_store.make_bucket()}/store")
    with pytest.raises(Stopped):
        train_tiny(config, stop_at=10)
    assert list((tmp_path / "cache").rglob("whole.json"))
    outcome = train_tiny(config)
    assert outcome.manifest.phases[0].resumed_from
    assert outcome.location.startswith("s3://")
    assert not list((tmp_path / "cache").rglob("whole.json"))
    assert read_training(open_store(outcome.location)) == outcome.manifest
    assert not train_tiny(config).is_new


def test_a_lost_or_changed_run_is_made_again(tmp_path: Path) -> None:
    config = make_config(tmp_path / "store")
    first = train_tiny(config)
    (Path(first.location) / "weights" / "tiny.pt").unlink()
    assert train_tiny(config).is_new
    other = train_tiny(make_config(tmp_path / "store", seed=5))
    assert other.is_new
    assert other.manifest.content_digest != first.manifest.content_digest


def test_one_process_at_a_time_makes_a_run(tmp_path: Path) -> None:
    config = make_config(tmp_path / "store")
    with lock_build(open_store(config.store), "trained", "run"), pytest.raises(BuildError, match="trained/run"):
        train_tiny(config)


def test_reading_says_what_is_wrong(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(BuildError, match="not a finished training run"):
        read_training(store)
    (tmp_path / "manifest.json").write_text(json.dumps({"format": "bystander-build"}))
    with pytest.raises(BuildError, match="not the manifest of a training run"):
        read_training(store)
    (tmp_path / "manifest.json").write_text(json.dumps({"format": "bystander-training", "name": 3}))
    with pytest.raises(BuildError, match="damaged or of another version"):
        read_training(store)
