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

from bystander.schemas.engines import Samples
from bystander.schemas.identity import make_rng
from bystander.schemas.train_sid_config import TrainSidConfig, RecurrentConfig
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.audio.resampling import resample
from bystander.tasks.engines.log_mel_steps import SAMPLING_RATE, STEP_FRAMES, STEP_S, Features, measure_log_mel
from bystander.tasks.training.clip_augmentation import augment_clip
from bystander.tasks.training.crops import end_density, label_ends, shift_break

_STAGE = "augment_clip"
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
class RecurrentExamples:
    """Makes examples of rows: it is pickled into the processes that read ahead."""

    config: TrainSidConfig

    def make(self, row: Mapping[str, Any], epoch: int | None) -> RecurrentExample:
        """Return a row's example, varied for an epoch; None for the clip as it is, which is what is held out.

        Columns read: id, audio, words, break_word_index. What is drawn hangs on (seed, id, epoch) alone.

        Raises:
            InputError: the clip cannot be decoded.
        """
        samples, rate = decode_audio(row["audio"]["bytes"])
        samples = resample(samples, rate, SAMPLING_RATE)
        model = self.config.model
        assert isinstance(model, RecurrentConfig)
        words = row["words"]
        break_s = shift_break(
            [word["start_s"] for word in words],
            [word["end_s"] for word in words],
            row["break_word_index"],
            self.config.crops.shift_words,
        )
        if epoch is not None and model.augmentation is not None:
            rng = make_rng(self.config.seed, row["id"], _STAGE, epoch)
            samples, break_s = augment_clip(samples, SAMPLING_RATE, break_s, model.augmentation, rng)
        return self._weigh(samples, break_s, model.mel_bands)

    def _weigh(self, samples: Samples, break_s: float | None, bands: int) -> RecurrentExample:
        steps = measure_log_mel(samples, bands)
        ends_s = (np.arange(len(steps)) + 1) * STEP_S
        weights = STEP_S * end_density(ends_s, len(samples) / SAMPLING_RATE, break_s, self.config.crops)
        targets = label_ends(ends_s, break_s)
        return RecurrentExample(steps, targets.astype(np.float32), weights.astype(np.float32))


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
    return {name: torch.from_numpy(value) for name, value in (("steps", steps), ("targets", targets), ("weights", weights))}
