"""The trainer that all models share: exact resume, exact means over micro-batches, the plan, its errors."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from bystander.schemas.errors import BuildError, ConfigError, InputError
from bystander.schemas.training_config import Checkpoints, Optimisation
from bystander.tasks.training.checkpoints import MARK_NAME, list_checkpoints
from bystander.tasks.training.contract import FitJob, StepRecord
from bystander.tasks.training.fit import count_steps, fit
from tiny_training import TinyModel, TinySource, collate_tiny, make_job

torch.set_num_threads(1)


def weights_of(model: torch.nn.Module) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in model.state_dict().items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], tuple[StepRecord, ...]]:
    """A run that nothing stopped: its weights and its history."""
    job = make_job(tmp_path_factory.mktemp("whole"))
    outcome = fit(job)
    assert outcome.steps == 23
    assert outcome.resumed_from == ()
    return weights_of(job.model), outcome.history


KILLS = {"step:11": 0, "step:10": 2, "saving:12": 0}
"""When processes are killed, and how many worker processes load for them."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What killed processes left, in a folder each."""
    folder = tmp_path_factory.mktemp("killed")
    script = Path(__file__).parents[2] / "tiny_training.py"
    found = subprocess.run(
        [sys.executable, str(script), str(folder), *(f"{mode}/{workers}" for mode, workers in KILLS.items())],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert found.stdout.split() == [str(-signal.SIGKILL)] * len(KILLS), found.stderr
    return folder


@pytest.mark.parametrize(
    "mode",
    [
        "step:11",  # in the second epoch
        "step:10",  # with workers, and taken up again without
        "saving:12",  # what was saved of step 12 does not count
    ],
)
def test_a_killed_run_ends_as_one_that_was_not(whole: Any, killed: Path, tmp_path: Path, mode: str) -> None:
    job = make_job(shutil.copytree(killed / mode, tmp_path / "run"))
    outcome = fit(job)
    assert outcome.resumed_from == (8,)
    assert weights_of(job.model) == whole[0]
    assert outcome.history == whole[1]
    read: list[tuple[int, int]] = job.train.numbers_read  # type: ignore[attr-defined]
    assert {epoch for epoch, _ in read} == {0, 1, 2}
    assert sum(epoch == 0 for epoch, _ in read) == 34 - 32  # what eight steps of four had seen is not read again


def test_a_run_that_is_killed_at_every_step_ends_too(whole: Any, tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    stops = []
    for step in range(1, 23):

        def stop(record: StepRecord, at: int = step) -> None:
            if record.step == at and record.loss is not None:
                stops.append(at)
                raise Stopped

        with pytest.raises(Stopped):
            fit(make_job(tmp_path, checkpoints=Checkpoints(every_steps=1, keep=1)), on_record=stop)
    job = make_job(tmp_path, checkpoints=Checkpoints(every_steps=1, keep=1))
    outcome = fit(job)
    assert stops == list(range(1, 23))
    assert weights_of(job.model) == whole[0]
    assert outcome.history == whole[1]


def test_a_finished_run_only_loads_its_weights(whole: Any, tmp_path: Path) -> None:
    fit(make_job(tmp_path))
    job = make_job(tmp_path)
    outcome = fit(job)
    assert weights_of(job.model) == whole[0]
    assert outcome.history == whole[1]
    assert not job.train.numbers_read  # type: ignore[attr-defined]


def test_the_history_tells_losses_rates_and_held_out_losses(whole: Any) -> None:
    history = whole[1]
    assert [record.step for record in history] == list(range(24))
    assert [record.step for record in history if record.held_out_loss is not None] == [0, 5, 10, 15, 20, 23]
    assert history[0].loss is None
    assert all(record.loss is not None for record in history[1:])
    rates = [record.learning_rate for record in history[1:]]
    assert rates[0] == 0.0
    assert rates[3] == pytest.approx(1e-2)
    assert rates[22] < 1e-4
    assert history[23].epoch == pytest.approx(2 + 10 / 17)
    assert (history[23].held_out_loss or 9) < 0.85 * (history[0].held_out_loss or 0)


@pytest.mark.parametrize(
    ("steps", "share", "rates"),
    [(1, 0.1, [1e-2]), (1, 0.0, [1e-2]), (2, 0.9, [0.0, 1e-2]), (4, 0.5, [0.0, 0.5e-2, 1e-2, 0.5e-2])],
)
def test_a_short_run_reaches_its_learning_rate(steps: int, share: float, rates: list[float], tmp_path: Path) -> None:
    pace = Optimisation(
        max_steps=steps, learning_rate=1e-2, batch_size=4, micro_batch_size=2, warmup_share=share, schedule="linear"
    )
    job = make_job(tmp_path, optimisation=pace)
    before = job.model.head.weight.detach().clone()
    history = fit(job).history
    assert [record.learning_rate for record in history if record.loss is not None] == pytest.approx(rates)
    if steps == 1:  # AdamW's first step moves each weight by the rate, whatever its gradient
        moved = (job.model.head.weight.detach() - before).abs()
        assert moved.median().item() == pytest.approx(1e-2, rel=1e-3)


def test_the_held_out_loss_is_the_mean_over_all_examples(whole: Any, tmp_path: Path) -> None:
    job = make_job(tmp_path)
    vectors = collate_tiny(TinySource(7, base=1000).read(range(7), 0))
    expected = job.model.eval()(**vectors)["loss"].item()
    assert whole[1][0].held_out_loss == pytest.approx(expected, rel=1e-5)


def test_workers_change_no_weight(whole: Any, tmp_path: Path) -> None:
    job = make_job(tmp_path, loader_workers=2)
    assert fit(job).history == whole[1]
    assert weights_of(job.model) == whole[0]


@pytest.mark.parametrize("labelled", [True, False])
def test_micro_batches_weigh_by_what_the_loss_counts(tmp_path: Path, labelled: bool) -> None:
    """Four micro-batches of one row with many or few labels give the step of one micro-batch of four."""

    class Tagger(torch.nn.Module):  # type: ignore[misc]  # torch is not typed here
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.head = torch.nn.Linear(8, 3)

        def forward(self, vectors: torch.Tensor, labels: torch.Tensor | None = None, **_: Any) -> dict[str, Any]:
            logits = self.head(vectors)
            if labels is None:
                return {"loss": (logits**2).mean()}
            return {"loss": torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())}

    def collate(examples: list[Any]) -> dict[str, Any]:
        vectors = torch.tensor(np.stack([vector for vector, _ in examples]))
        if not labelled:
            return {"vectors": vectors}
        labels = torch.tensor([[label] * 4 for _, label in examples])
        for row in labels:
            row[1 + int(row[0]) :] = -100
        return {"vectors": vectors[:, None].expand(-1, 4, -1), "labels": labels}

    found = []
    for size in (1, 3, 4):
        optimisation = Optimisation(max_steps=6, batch_size=12, micro_batch_size=size, learning_rate=0.1)
        job = make_job(tmp_path / str(size), Tagger(), optimisation=optimisation)
        job = FitJob(job.config, job.model, TinySource(12), None, collate, job.folder)
        outcome = fit(job)
        found.append([*job.model.head.weight.detach().flatten().tolist(), *(r.loss for r in outcome.history)])
    np.testing.assert_allclose(found[0], found[2], rtol=2e-4, atol=1e-6)
    np.testing.assert_allclose(found[1], found[2], rtol=2e-4, atol=1e-6)


def test_generators_are_left_as_they_were(tmp_path: Path) -> None:
    torch.manual_seed(11)
    np.random.seed(11)
    expected = torch.rand(2).tolist(), np.random.rand()
    torch.manual_seed(11)
    np.random.seed(11)
    fit(make_job(tmp_path, TinyModel(), optimisation=Optimisation(max_steps=2, batch_size=4)))
    torch.manual_seed(11)  # the model's own initial weights were drawn before
    assert (torch.rand(2).tolist(), np.random.rand()) == expected
    assert not torch.are_deterministic_algorithms_enabled()


def test_half_precision_runs_between_full_ones(whole: Any, tmp_path: Path) -> None:
    optimisation = Optimisation(max_steps=3, batch_size=4, precision="bfloat16")
    half = fit(make_job(tmp_path / "half", optimisation=optimisation)).history[-1].loss
    full = fit(make_job(tmp_path / "full", optimisation=Optimisation(max_steps=3, batch_size=4))).history[-1].loss
    assert half != full
    assert half == pytest.approx(full, rel=0.05)


def test_checkpoints_are_kept_and_marked(tmp_path: Path) -> None:
    fit(make_job(tmp_path))
    assert [path.name for path in list_checkpoints(tmp_path)] == ["checkpoint-20", "checkpoint-23"]
    assert all((path / MARK_NAME).exists() for path in list_checkpoints(tmp_path))


def test_a_damaged_checkpoint_does_not_count(whole: Any, killed: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(killed / "step:11", tmp_path / "run")
    damaged = folder / "checkpoint-8" / "scheduler.pt"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    job = make_job(folder)
    assert fit(job).resumed_from == (4,)
    assert weights_of(job.model) == whole[0]


def test_another_configuration_starts_anew_and_other_data_is_refused(tmp_path: Path) -> None:
    fit(make_job(tmp_path))
    phases: list[str] = []
    fit(make_job(tmp_path, seed=4), on_phase=phases.append)
    assert phases == ["training: 23 steps of 4 examples, 34 in all"]
    job = make_job(tmp_path, seed=4)
    with pytest.raises(BuildError, match="comes from other data"):
        fit(FitJob(job.config, job.model, TinySource(33), None, collate_tiny, tmp_path))


def test_errors_name_what_to_change(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="no multiple of micro_batch_size 3"):
        Optimisation(batch_size=4, micro_batch_size=3)
    with pytest.raises(ConfigError, match=r"no multiple of 6.*on 3 devices"):
        count_steps(Optimisation(batch_size=4, micro_batch_size=2), 17, processes=3)
    with pytest.raises(ConfigError, match="gradient_checkpointing"):
        fit(make_job(tmp_path, optimisation=Optimisation(gradient_checkpointing=True)))
    job = make_job(tmp_path)
    with pytest.raises(InputError, match="no example"):
        fit(FitJob(job.config, job.model, TinySource(0), None, collate_tiny, tmp_path))
    with pytest.raises(BuildError, match="not finite at step"):
        fit(
            make_job(
                tmp_path,
                optimisation=Optimisation(max_steps=9, batch_size=4, learning_rate=10, max_grad_norm=1e30),
                model=Exploding(),
            )
        )
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="CUDA"):
            fit(make_job(tmp_path, device="cuda"))


class Exploding(TinyModel):
    def forward(self, vectors: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        found = super().forward(vectors, labels)
        return {"loss": found["loss"] / (found["loss"] * 0)}


def test_steps_are_counted_as_the_trainer_does() -> None:
    plan = Optimisation(epochs=2.5, batch_size=4, micro_batch_size=2)
    assert count_steps(plan, 17) == math.ceil(2.5 * 9)
    assert count_steps(plan, 17, processes=2) == math.ceil(2.5 * 9)
    assert count_steps(plan.model_copy(update={"max_steps": 7}), 17) == 7
