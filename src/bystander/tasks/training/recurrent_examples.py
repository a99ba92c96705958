"""What the small recurrent network is trained on: all crops of a clip at once.

The network is causal: what it says at a step is its answer to the crop that ends there. So no crops are drawn: every
step is a crop, weighted by the density with which crops end there (`crops.end_density`). The loss is then the expected
loss over drawn crops, without the chance in drawing them, for the price of one pass over the clip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.train_sid_config import CropSettings, RecurrentConfig, TrainSidConfig
from bystander.tasks.engines.log_mel_steps import SAMPLING_RATE, STEP_FRAMES, STEP_S, Features, measure_log_mel
from bystander.tasks.training.clip_augmentation import augment_clip
from bystander.tasks.training.crops import end_density, label_ends, shift_break

RECURRENT_COLUMNS = ("words", "break_word_index")
"""Columns of SID_FINAL that an example is made of, besides its sound."""

Steps = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RecurrentExample:
    """One clip: arrays over its steps of 40 ms."""

    steps: Features
    """Shape (steps, STEP_FRAMES, bands)."""
    targets: Steps
    """Shape (steps,): 1 where a crop that ends here ends after the label's break."""
    weights: Steps
    """Shape (steps,): the share of a clip's crops that end within this step; they sum to about 1."""


@dataclass(frozen=True, slots=True)
class MakeRecurrentExample:
    """From rows to examples, as `ShardExamples` asks for them; it is pickled into the processes that read ahead."""

    config: TrainSidConfig
    varies: bool
    """Whether clips are augmented; what is held out is heard as it is."""

    def __call__(self, row: Mapping[str, Any], rng: np.random.Generator) -> RecurrentExample:
        """Return a row's example, varied by what is drawn.

        Columns read: samples (float32, 16 kHz), words, break_word_index.
        """
        model = self.config.model
        assert isinstance(model, RecurrentConfig)
        samples, words = row["samples"], row["words"]
        break_s = shift_break(
            [word["start_s"] for word in words],
            [word["end_s"] for word in words],
            row["break_word_index"],
            self.config.crops.shift_words,
        )
        if self.varies and model.augmentation is not None:
            samples, break_s = augment_clip(samples, SAMPLING_RATE, break_s, model.augmentation, rng)
        return weigh_crops(measure_log_mel(samples, model.mel_bands), break_s, self.config.crops)


def weigh_crops(steps: Features, break_s: float | None, crops: CropSettings) -> RecurrentExample:
    """Return the example of a clip's features: each step's label, and its share of the crops."""
    ends_s = (np.arange(len(steps)) + 1) * STEP_S
    density = end_density(ends_s - STEP_S / 2, max(len(steps), 1) * STEP_S, break_s, crops)
    weights = density / max(float(density.sum()), 1e-9)
    return RecurrentExample(steps, label_ends(ends_s, break_s).astype(np.float32), weights.astype(np.float32))


def collate_examples(examples: Sequence[RecurrentExample]) -> dict[str, Any]:
    """Return the tensors of a batch, filled up at the end to its longest clip; what was filled up weighs nothing."""
    import torch

    longest = max(len(example.steps) for example in examples)
    bands = examples[0].steps.shape[2]
    steps = np.zeros((len(examples), longest, STEP_FRAMES, bands), np.float32)
    targets, weights = (np.zeros((len(examples), longest), np.float32) for _ in range(2))
    for at, example in enumerate(examples):
        steps[at, : len(example.steps)] = example.steps
        targets[at, : len(example.steps)] = example.targets
        weights[at, : len(example.steps)] = example.weights
    return {
        name: torch.from_numpy(value) for name, value in (("steps", steps), ("targets", targets), ("weights", weights))
    }
