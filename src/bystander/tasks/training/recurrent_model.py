"""The small causal network of the recurrent detector, in torch: it is trained here, and runs without torch afterwards.

A step's frames and some before them go through one convolution, then through gated recurrent layers, then to one
number: how likely the user has begun to say something new. What the network knows at a step is what it heard until
then, and nothing else, so its state at a time is its reading of the crop that ends there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bystander.schemas.train_sid_config import RecurrentConfig
from bystander.tasks.engines.log_mel_steps import EMPTY_FEATURE, STEP_FRAMES


class RecurrentNetwork(nn.Module):
    """Steps of features in, a logit a step out."""

    def __init__(self, config: RecurrentConfig, bands: int | None = None, empty: float = EMPTY_FEATURE) -> None:
        """Make a network for frames of `bands` numbers, those of log-mel by default, `empty` before a clip."""
        super().__init__()
        self.bands = config.mel_bands if bands is None else bands
        self.empty = empty
        self.context_frames = config.context_steps * STEP_FRAMES
        self.convolution = nn.Conv1d(self.bands, config.hidden, self.context_frames + STEP_FRAMES, STEP_FRAMES)
        self.recurrent = nn.GRU(config.hidden, config.hidden, config.layers, batch_first=True)
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(config.hidden, 1)

    def count_loss_items(self, batch: Mapping[str, Tensor]) -> int:
        """Return over how many clips the loss of a batch is the mean."""
        return len(batch["steps"])

    def forward(
        self, steps: Tensor, targets: Tensor | None = None, weights: Tensor | None = None, **_: Any
    ) -> dict[str, Tensor]:
        """Return `logits`, shape (clips, steps), and with targets the `loss`: cross-entropy over crops.

        Args:
            steps: shape (clips, steps, STEP_FRAMES, bands), float32.
            targets: shape (clips, steps), 0 or 1: whether a crop that ends here ends after the break.
            weights: shape (clips, steps): the share of a clip's crops that end here; a clip's sum to 1.
        """
        clips, count = steps.shape[:2]
        frames = steps.reshape(clips, count * STEP_FRAMES, -1).transpose(1, 2)
        frames = functional.pad(frames, (self.context_frames, 0), value=self.empty)
        seen = functional.relu(self.convolution(frames)).transpose(1, 2)
        states, _unused = self.recurrent(self.dropout(seen))
        logits = self.head(self.dropout(states)).squeeze(2)
        if targets is None or weights is None:
            return {"logits": logits}
        loss = functional.binary_cross_entropy_with_logits(logits, targets, weights, reduction="sum")
        return {"loss": loss / clips, "logits": logits}


@torch.no_grad()
def score_steps(network: RecurrentNetwork, steps: Tensor) -> Tensor:
    """Return the probability at each step of one clip, shape (steps,), for features of shape (steps, frames, bands)."""
    network.eval()
    probabilities: Tensor = torch.sigmoid(network(steps[None])["logits"][0])
    return probabilities
