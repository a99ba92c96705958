"""Trains the two-input model on rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bystander.schemas.identity import derive_seed
from bystander.schemas.train_tpi_config import TwoInputConfig
from bystander.schemas.training_config import TrainingConfig
from bystander.tasks.training.contract import FitJob, FitOutcome
from bystander.tasks.training.row_draws import RowDraws
from bystander.tasks.training.two_input_rows import TwoInputRow, TwoInputSource

if TYPE_CHECKING:
    from bystander.tasks.training.two_input import TwoInputModel


@dataclass(frozen=True, slots=True)
class TwoInputData:
    """Rows in memory, which of them an epoch has, which are held out, and the classes in the order of the outputs."""

    rows: tuple[TwoInputRow, ...]
    train: RowDraws
    held_out: RowDraws
    classes: tuple[str, ...]

    def list_rows(self, draws: RowDraws) -> list[TwoInputRow]:
        """Return the rows of draws, each once."""
        return [self.rows[place] for place in sorted(set(draws.rows.tolist()))]


def make_two_input_job(
    config: TrainingConfig, model_config: TwoInputConfig, data: TwoInputData, folder: Path, phase: str = "training"
) -> FitJob:
    """Return the run of the trainer for rows. Weights, order and dropout hang on `config.seed` alone.

    Args:
        config: optimisation, seed, device.
        model_config: sizes and inputs of the model.
        data: the rows of one mixture.
        folder: for checkpoints.
        phase: what the run is called in what is told of it.
    """
    from bystander.tasks.training.two_input import collate_two_input, make_two_input_model

    weights = derive_seed(config.seed, "model", "two_input_weights")
    model = make_two_input_model(model_config, measure_width(data.rows), len(data.classes), weights)
    train = _open_source(data, data.train, model_config, model_config.word_dropout, config.seed)
    held_out = _open_source(data, data.held_out, model_config) if len(data.held_out) else None
    return FitJob(config, model, train, held_out, collate_two_input, folder, phase)


def train_two_input_rows(
    config: TrainingConfig, model_config: TwoInputConfig, data: TwoInputData, folder: Path, phase: str = "training"
) -> tuple[TwoInputModel, FitOutcome]:
    """Return a model trained on rows, and how that went; see `make_two_input_job`.

    Raises:
        InputError: there is no row to train on.
    """
    from bystander.tasks.training.fit import fit

    job = make_two_input_job(config, model_config, data, folder, phase)
    outcome = fit(job)
    return job.model, outcome


def measure_width(rows: Sequence[TwoInputRow]) -> int:
    """Return the numbers of a frame of sound."""
    return int(rows[0].frames.shape[1])


def _open_source(
    data: TwoInputData, draws: RowDraws, config: TwoInputConfig, word_dropout: float = 0.0, seed: int = 0
) -> TwoInputSource:
    return TwoInputSource(
        data.rows, data.classes, config.hash_buckets, draws=draws, word_dropout=word_dropout, seed=seed
    )
