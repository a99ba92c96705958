"""Both stages of the SID paper's detector, with tiny random models on a build of a few rows."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

from bystander.schemas.errors import ConfigError
from bystander.schemas.sid import UNINTERRUPTED
from bystander.schemas.sid_lm_config import SidLmConfig, TranscribedSource
from bystander.schemas.train_sid_config import CropSettings, TrainSidConfig
from bystander.schemas.training_config import Checkpoints, HeldOutSlice, Optimisation
from bystander.tasks.training.asr_examples import JoinedSource, open_alignment_rows
from bystander.tasks.training.contract import FitJob, StepRecord
from bystander.tasks.training.fit import fit
from bystander.tasks.training.sid_trainers import SidDesk, open_sid_trainer
from bystander.tasks.training.trained import Trained, TrainedPhase
from final_rows import make_rows, write_build
from sid_rows import RATE, make_sid_row, make_sid_rows, write_sid_train
from tiny_sid_lm import save_language_model, save_whisper

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

ROWS = make_sid_rows(3)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two tiny models and a build."""
    folder = tmp_path_factory.mktemp("given")
    save_whisper(folder / "whisper", hears_s=3)
    save_language_model(folder / "words")
    write_sid_train(folder / "build", ROWS)
    return folder


def make_config(given: Path, steps: int = 6, **changes: Any) -> TrainSidConfig:
    pace = Optimisation(max_steps=steps, batch_size=4, micro_batch_size=4, learning_rate=3e-3)
    model = SidLmConfig(
        encoder=str(given / "whisper"),
        language_model=str(given / "words"),
        stack_frames=4,
        max_context_s=3.0,
    )
    values = {
        "data": (str(given / "build"),),
        "seed": 5,
        "device": "cpu",
        "crops": CropSettings(an_utterance=4),
        "optimisation": pace,
        "alignment": pace,
        "checkpoints": Checkpoints(every_steps=2 if steps < 10 else 100),
        "held_out": HeldOutSlice(share=0.3, every_steps=100),
        "chunk_s": 0.5,
        "model": model,
    }
    return TrainSidConfig(**{**values, **changes})


class Killed(Exception):
    """Stands for what ends a run between two steps."""


def train(config: TrainSidConfig, folder: Path, kill_at: tuple[str, int] | None = None) -> Trained:
    """Train in a folder, as the flow does; `kill_at` is the phase and the step at which the process dies."""

    def fit_phase(job: FitJob) -> TrainedPhase:
        def on_record(record: StepRecord) -> None:
            if (job.phase, record.step) == kill_at:
                raise Killed

        outcome = fit(replace(job, folder=folder / "checkpoints" / job.phase), on_record)
        held_out = len(job.held_out) if job.held_out is not None else 0
        return TrainedPhase(job.phase, job.config.optimisation, len(job.train), held_out, outcome)

    output = folder / "files"
    output.mkdir(parents=True, exist_ok=True)
    return open_sid_trainer(config).train(SidDesk(output, folder, fit_phase, lambda _: None))


def list_losses(trained: Trained, phase: str) -> list[float]:
    (found,) = (one.outcome for one in trained.phases if one.phase == phase)
    return [record.loss for record in found.history if record.loss is not None]


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def test_the_loss_falls_in_both_stages(given: Path, tmp_path: Path) -> None:
    trained = train(make_config(given, steps=30), tmp_path)
    assert [phase.phase for phase in trained.phases] == ["alignment", "detection"]
    alignment, detection = (list_losses(trained, phase.phase) for phase in trained.phases)
    assert np.mean(alignment[-5:]) < 0.75 * np.mean(alignment[:5])
    assert np.mean(detection[-8:]) < 0.9 * np.mean(detection[:8])
    crops, picked = (read_json(trained.folder / name) for name in ("crops.json", "threshold.json"))
    assert crops["crops"] == 4 * trained.phases[1].examples
    assert crops["untimed"] == 0
    assert crops["both_sides"] == crops["with_break"] > 0
    assert 0 < picked["threshold"] < 1
    assert picked["clips"] == trained.phases[1].held_out > 0
    assert read_json(trained.folder / "model" / "config.json")["threshold"] == picked["threshold"]
    assert not (tmp_path / "left_out.jsonl").exists()


def test_a_run_that_is_killed_in_either_stage_ends_as_one_that_was_not(given: Path, tmp_path: Path) -> None:
    config = make_config(given, steps=4)
    whole = train(config, tmp_path / "whole")
    for kill_at in (("alignment", 3), ("detection", 3)):
        with pytest.raises(Killed):
            train(config, tmp_path / "killed", kill_at)
    again = train(config, tmp_path / "killed")
    assert [phase.outcome.resumed_from for phase in again.phases] == [(2, 4), (2,)]
    assert [phase.outcome.history for phase in again.phases] == [phase.outcome.history for phase in whole.phases]
    for name in ("model/model.safetensors", "model/config.json", "threshold.json", "crops.json"):
        assert (again.folder / name).read_bytes() == (whole.folder / name).read_bytes()


def test_what_is_frozen_stays_as_it_was(given: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    from bystander.tasks.engines.sid_lm_folder import open_pretrained

    config = make_config(given, steps=2, alignment=None)
    assert isinstance(config.model, SidLmConfig)
    model = config.model.model_copy(update={"detection_parts": ("head", "projector")})
    trained = train(config.model_copy(update={"model": model}), tmp_path)
    assert [phase.phase for phase in trained.phases] == ["detection"]
    before = open_pretrained(model, 0.16, 3, config.seed).model.state_dict()
    after = load_file(trained.folder / "model" / "model.safetensors")
    changed = {name.split(".")[0] for name in after if not torch.equal(after[name], before[name])}
    assert changed == {"head", "projector"}


def test_stage_1_takes_texts_of_builds_and_of_transcribed_parquet(given: Path, tmp_path: Path) -> None:
    def encode(seconds: float) -> dict[str, Any]:
        sink = io.BytesIO()
        soundfile.write(sink, np.full(round(seconds * RATE), 0.1, np.float32), RATE, format="FLAC")
        return {"bytes": sink.getvalue(), "path": None}

    table = pa.table(
        {
            "sound": [encode(0.5), encode(0.7), encode(9.0), encode(0.6)],
            "words": ["One clip.", "Another  clip.", "Too long a clip.", ""],
        }
    )
    pq.write_table(table, tmp_path / "corpus.parquet")
    corpus = TranscribedSource(path=str(tmp_path / "corpus.parquet"), audio_column="sound", text_column="words")
    rows = open_alignment_rows([str(given / "build")], [corpus], max_s=5.0, seed=0, held_out=0.0)
    examples = rows.train.read(range(len(rows.train)), 0)
    spoken = [row for row in ROWS if row["text"]]
    assert [one.text for one in examples[: len(spoken)]] == [row["text"] for row in spoken]
    assert [len(one.samples) for one in examples[: len(spoken)]] == [
        pytest.approx(row["duration_s"] * RATE, abs=1) for row in spoken
    ]
    # Another row of its group stands for the clip that is too long; the one without a text is in no plan.
    assert [one.text for one in examples[len(spoken) :]] == ["One clip.", "Another clip.", "One clip."]
    assert [(row.row, row.reason) for part in rows.parts for row in part.left_out] == [(2, "too_long_to_align")]
    assert rows.held_out is None
    assert len(rows.train.lengths) == len(rows.train)
    assert set(rows.train.groups[: len(spoken)]).isdisjoint(rows.train.groups[len(spoken) :])


def test_stage_1_hears_clips_of_tpi_builds_too(given: Path, tmp_path: Path) -> None:
    rows = make_rows(4, 2)
    write_build(tmp_path / "tpi", rows)
    aligned = open_alignment_rows([str(given / "build")], (), [str(tmp_path / "tpi")], max_s=30, seed=0, held_out=0.0)
    found = {one.id: one.text for one in aligned.train.read(range(len(aligned.train)), 0)}
    assert {row["id"]: f"{row['primary_text']} {row['third_party_text']}" for row in rows}.items() <= found.items()
    assert len(found) == len(rows) + sum(bool(row["text"]) for row in ROWS)


def test_stage_1_holds_out_the_recordings_that_stage_2_holds_out(given: Path) -> None:
    from bystander.tasks.training.open_rows import open_sid_rows
    from bystander.tasks.training.sid_rows import keep_row

    aligned = open_alignment_rows([str(given / "build")], [], max_s=5.0, seed=5, held_out=0.3)
    crops = open_sid_rows([str(given / "build")], keep_row, ("id",), rate=None, seed=5, held_out=0.3)
    assert crops.held_out is not None
    assert aligned.held_out is not None
    held = {row["id"] for row in crops.held_out.read(range(len(crops.held_out)), 0)}
    assert {one.id for one in aligned.held_out.read(range(len(aligned.held_out)), 0)} <= held
    assert held.isdisjoint(one.id for one in aligned.train.read(range(len(aligned.train)), 0))


def test_joined_sources_are_read_in_the_order_asked_for() -> None:
    class Numbers:
        def __init__(self, first: int, count: int) -> None:
            self.first, self.count = first, count
            self.lengths, self.groups = np.full(count, float(first)), np.arange(count) // 2

        def __len__(self) -> int:
            return self.count

        def read(self, numbers: Any, epoch: int) -> list[int]:
            return [self.first + number for number in numbers]

    joined = JoinedSource([Numbers(0, 3), Numbers(10, 0), Numbers(20, 4)])
    assert joined.read([6, 0, 3, 2], 0) == [23, 0, 20, 2]
    assert joined.groups.tolist() == [0, 0, 1, 2, 2, 3, 3]
    assert joined.lengths.tolist() == [0, 0, 0, 20, 20, 20, 20]


def test_alignment_without_a_text_is_refused(given: Path, tmp_path: Path) -> None:
    write_sid_train(tmp_path / "silent", [{**make_sid_row(0, UNINTERRUPTED), "text": None}])
    with pytest.raises(ConfigError, match="there is no clip with a text; name builds of SID rows with speech"):
        train(make_config(given, data=(str(tmp_path / "silent"),), held_out=HeldOutSlice(share=0)), tmp_path / "run")
