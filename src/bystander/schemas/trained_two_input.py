"""What lies beside the weights of a trained two-input model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from bystander.schemas.train_tpi_config import TwoInputConfig

TRAINED_FILE = "two_input.json"
WEIGHTS_FILE = "model.safetensors"


class TrainedTwoInput(BaseModel):
    """What whoever opens the weights needs to know."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: TwoInputConfig
    width: int = Field(ge=1)
    """Numbers a frame of sound."""
    classes: tuple[str, ...] = Field(min_length=2)
    """In the order of the outputs; the first is `none`."""
