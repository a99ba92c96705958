"""A training run as a store holds it, published without training."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from bystander.schemas.training_config import TrainingConfig
from bystander.schemas.training_data import DataRecord, PartRecord, SourceRecord
from bystander.storage.filesystem import open_store
from bystander.storage.training_manifest import BaseModelInfo, TrainingManifest, open_training
from bystander.tasks.training.contract import FitOutcome, StepRecord
from bystander.tasks.training.publish_training import publish_training
from bystander.tasks.training.trained import Trained, TrainedPhase, TrainingInputs


class TinyConfig(TrainingConfig):
    NAME_PREFIX: ClassVar[str] = "tiny"


def make_inputs(*addresses: str) -> TrainingInputs:
    sources = [
        SourceRecord(
            address=address,
            kind="tpi",
            dataset=address.split("/")[-2],
            build=address.split("/")[-1],
            rows_digest="a" * 64,
            rows=41,
        )
        for address in addresses
    ]
    data = DataRecord(
        mixture="full",
        seed=3,
        held_out_share=0.2,
        sources=tuple(sources),
        parts={"two_speaker": PartRecord(rows=34, held_out=7, an_epoch=34)},
        train_digest="c" * 64,
        held_out_digest="d" * 64,
        left_out={"empty_reply": 2},
    )
    return TrainingInputs(data, BaseModelInfo(name="someone/tiny", revision="main"))


def make_history(steps: int) -> tuple[StepRecord, ...]:
    """Return the records of a run whose loss falls from 2 as 2 / step, with a held-out loss every tenth step."""
    return tuple(
        StepRecord(step, step / 10, 2 / step, 2.5 / step if step % 10 == 0 else None, 1e-4, 0.5)
        for step in range(1, steps + 1)
    )


def write_run(store: Path | str, scratch: Path, name: str = "run", data: str = "", **fields: Any) -> TrainingManifest:
    """Publish a run with a file of weights and one phase of 40 steps; `data` is the address of what it saw."""
    files = scratch / "files"
    files.mkdir(parents=True, exist_ok=True)
    (files / "adapter_config.json").write_text("{}")
    (files / "weights.bin").write_bytes(bytes(1000))
    config = TinyConfig(store=str(store), name=name, seed=3)
    outcome = FitOutcome(40, make_history(40), (20,))
    run = Trained(files, (TrainedPhase("training", config.optimisation, 34, 7, outcome),), **fields)
    folder = open_training(open_store(store), name)
    return publish_training(folder, config, "tpi", "speech_lm", make_inputs(data or f"{store}/tpi-train/one"), run)
