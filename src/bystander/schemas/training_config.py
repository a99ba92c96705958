"""What decides a training run, whatever is trained: optimisation, checkpoints, the held-out slice."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from bystander.schemas.field_types import Name, Seed
from bystander.schemas.identity import digest_json
from bystander.schemas.stages import Params

TRAINED = "trained"
"""Folder of a store that holds what was trained in it."""


class Optimisation(Params):
    """How weights are moved. The defaults are those of the TPI paper, appendix H, where it names them."""

    epochs: float = Field(2.0, gt=0, le=10_000)
    max_steps: int | None = Field(None, ge=1)
    """Steps after which training ends, whatever `epochs` says; the schedule spans them."""
    learning_rate: float = Field(1e-4, gt=0, le=10)
    batch_size: int = Field(16, ge=1, le=1_000_000)
    """Examples a step, over all devices and accumulated micro-batches."""
    micro_batch_size: int = Field(1, ge=1, le=100_000)
    """Examples that are in memory at once on a device; divides `batch_size`."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    warmup_share: float = Field(0.1, ge=0, lt=1)
    """Share of the steps in which the learning rate rises from 0."""
    weight_decay: float = Field(0.0, ge=0, le=1)
    max_grad_norm: float = Field(1.0, gt=0)
    precision: Literal["float32", "bfloat16"] = "float32"
    gradient_checkpointing: bool = False

    @model_validator(mode="after")
    def _divide_batch(self) -> Self:
        if self.batch_size % self.micro_batch_size:
            raise ValueError(f"batch_size {self.batch_size} is no multiple of micro_batch_size {self.micro_batch_size}")
        return self


class Checkpoints(Params):
    """When the state of a run is saved, so that a killed one goes on from there."""

    every_steps: int = Field(200, ge=1)
    keep: int = Field(2, ge=1)


class HeldOutSlice(Params):
    """Rows that are not trained on and tell how the training goes; all rows of a query fall on one side.

    Of SID rows, all of a recording and of a voice do.
    """

    share: float = Field(0.02, ge=0, lt=1)
    every_steps: int = Field(200, ge=1)


class TrainingConfig(Params):
    """What all training runs have. Fields of `SPEED_ONLY` change no weight but for the rounding of other devices."""

    NAME_PREFIX: ClassVar[str]
    """Begins the name of a run that was given none."""
    SPEED_ONLY: ClassVar[frozenset[str]] = frozenset({"device", "loader_workers", "checkpoints"})

    profile: str = "custom"
    name: Name | None = None
    """Name of the run's folder; without one, it is derived from the configuration."""
    store: str = "bystander-store"
    """Folder or URL; the run lies in `trained/<name>` of it."""
    seed: Seed = 0
    optimisation: Optimisation = Optimisation()
    checkpoints: Checkpoints = Checkpoints()
    held_out: HeldOutSlice = HeldOutSlice()
    device: Literal["auto", "cpu", "cuda"] = "auto"
    loader_workers: int = Field(0, ge=0, le=256)
    """Processes that read and decode ahead; with 0, this process does it between steps."""

    def content_digest(self) -> str:
        """Return a digest of what decides the weights, but for the contents of the data that it names."""
        outside = {"name", "store", "profile", *self.SPEED_ONLY}
        return digest_json(self.model_dump(mode="json", exclude=outside))

    @property
    def training_name(self) -> str:
        return self.name or f"{self.NAME_PREFIX}-{self.content_digest()[:12]}"
