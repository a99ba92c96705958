"""The configuration of an experiment with mixtures: the two-input model, trained on each, seed by seed."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from bystander.schemas.train_tpi_config import DyadicSource, MixtureName, RowPart, TwoInputConfig, TwoInputs
from bystander.schemas.training_config import Checkpoints, HeldOutSlice, Optimisation, TrainingConfig

TWO_INPUT_OPTIMISATION = Optimisation(
    epochs=30,
    learning_rate=2e-3,
    batch_size=16,
    micro_batch_size=16,
    weight_decay=0.1,
)
"""For a hundred rows and more: chosen by cross-validation on rows that were trained on, never on a bench."""


class CompareMixturesConfig(TrainingConfig):
    """All that decides an experiment."""

    NAME_PREFIX: ClassVar[str] = "mixtures"

    data: tuple[str, ...] = ()
    """Folders or URLs of finished TPI-Train builds."""
    dyadic: tuple[DyadicSource, ...] = ()
    bench: str = ""
    """A finished TPI-Bench build, disjoint from `data`."""
    bench_dyadic: tuple[DyadicSource, ...] = ()
    """Dyadic rows that are scored and drawn, of requests that no model is trained on. Without them, those that were
    held out are drawn, and none are scored."""
    mixtures: tuple[MixtureName, ...] = ("base", "va", "full")
    inputs: tuple[TwoInputs, ...] = ("text_and_sound", "text", "sound")
    """The model, and its controls of the same layers."""
    proportions: dict[RowPart, float] = Field(default_factory=dict)
    """As for training on TPI rows."""
    seeds: int = Field(5, ge=1, le=1000)
    """Models a mixture, whose seeds are `seed` and those after it."""
    confidence: float = Field(0.95, gt=0, lt=1)
    model: TwoInputConfig = TwoInputConfig()
    """`inputs` of it has no say here."""
    optimisation: Optimisation = TWO_INPUT_OPTIMISATION
    checkpoints: Checkpoints = Checkpoints(every_steps=1_000_000, keep=1)
    held_out: HeldOutSlice = HeldOutSlice(share=0.1, every_steps=20)

    @property
    def seed_list(self) -> tuple[int, ...]:
        return tuple(range(self.seed, self.seed + self.seeds))
