"""What lies beside the weights of a fine-tuned speech-language model: what it was made of, and how it was asked."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

TRAINED_FILE = "speech_lm.json"
WEIGHTS_FOLDER = "model"
"""Folder of a training run with the weights: adapters, or a whole model."""


class TrainedSpeechLm(BaseModel):
    """What whoever opens the weights needs beside them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    base_model: str
    """As it was named for the training: a folder, or a name on the hub."""
    base_revision: str | None = None
    """As it was named."""
    base_digest: str = ""
    """Of the files of a folder; empty where the model came from the hub, or its revision was named."""
    system_prompt: str = ""
    user_prompt: str = ""
